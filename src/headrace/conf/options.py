"""The server's options, fully resolved: what configuration file and flags add up to.

Frozen data, and the entries of the keys of the top level (`Options`); blocks have modules of their own.
Reading the configuration language is `language`, turning a tree into these options is `binding`. Durations
are seconds, sizes are bytes, defaults are the Go server's.

To add a key: an option with its entry in `Options`, and where it takes effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import field

from headrace import limits
from headrace.conf.account_options import DEFAULT_SYSTEM_ACCOUNT, AuthorizationOptions
from headrace.conf.keys import (
    NOT_NEGATIVE,
    Flag,
    Keyed,
    clean_path,
    key,
    lower_case_tags,
    not_negative,
    positive_or_unlimited,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.conf.account_options import AccountOptions, SubjectMapping
    from headrace.conf.jetstream_options import JetStreamOptions
    from headrace.conf.leaf_options import LeafNodeOptions
    from headrace.conf.mqtt_options import MqttOptions
    from headrace.conf.operator_options import OperatorOptions
    from headrace.conf.peer_options import ClusterOptions, GatewayOptions
    from headrace.conf.streaming_options import StreamingOptions
    from headrace.conf.tls_options import TLSOptions
    from headrace.conf.websocket_options import WebSocketOptions

_PORTS: Final = (-1, 65535)
_INT32_MAX: Final = (1 << 31) - 1
_INT64_MAX: Final = (1 << 63) - 1


class MonitorAuthorization(Keyed, frozen=True):
    """The credentials for the monitoring port: user and password, or a token.

    Secrets may be bcrypt hashes.
    """

    HIDDEN = frozenset({"password", "token"})

    user: str | None = key(None, "Name", aliases=("username",))
    password: str | None = key(None, "Password", aliases=("pass",))
    token: str | None = key(None, "Token, in the place of both")


class OCSPCacheOptions(Keyed, frozen=True):
    """The cache of responders' answers: they are remembered while they hold, and those that revoke longer."""

    keeps: bool = key(
        True,
        "`local`: answers are remembered; `none`: they are asked for each time",
        "string",
        name="type",
        shown_default="local",
    )
    preserve_revoked: bool = key(
        False,
        "Remember that a certificate was revoked when the answer does not hold any more, for "
        "`allow_when_ca_unreachable`",
    )


class Options(Keyed, frozen=True):
    """The options of `headrace serve`, each with the entry of its key (`keys.key`).

    `port` -1: the system chooses. `processes` 0: as many as there are cores. `max_connections` -1: no limit;
    0 means that of `max_subscriptions`, `max_sub_tokens`, `max_traced_msg_len`, `log_size_limit` and
    `log_max_num`. What comes of the file as a whole has no key.
    """

    HIDDEN = frozenset({"overrides"})

    # -- who this server is, and where
    host: str = key(
        limits.DEFAULT_HOST,
        "Address for clients",
        aliases=("net",),
        zero_is_default=True,
        flag=Flag(("a", "addr", "net"), "host", "Address to listen on (default: 0.0.0.0)"),
    )
    port: int = key(
        limits.DEFAULT_PORT,
        "Port for clients; -1 lets the system choose, `ports_file_dir` tells others which",
        between=_PORTS,
        zero_is_default=True,
        flag=Flag(("p", "port"), "port", "Port for clients (default: 4222; -1: any free one)"),
    )
    server_name: str | None = key(
        None,
        "Name in INFO and in monitoring; the server's id where there is none",
        zero_is_default=True,
        flag=Flag(("n", "name", "server_name"), "name", "Name of the server"),
    )
    server_tags: tuple[str, ...] = key(
        (), "Tags of the server, shown in `/varz`", normal=lower_case_tags, reload="lookup"
    )
    server_metadata: Mapping[str, str] = key(
        field(default_factory=dict),
        "Values by name, shown in `/varz` and in the system account",
        "map",
        read="fields:text_map",
        reload="lookup",
    )
    client_advertise: str | None = key(
        None,
        "Address that other servers tell clients about",
        '"host:port"',
        read="listen:advertise",
        zero_is_default=True,
        reload="lookup",
        flag=Flag(("client_advertise",), "host:port", "Address to tell other servers"),
    )
    processes: int = key(
        1,
        "Processes that serve the client port together, or `auto` for one a core: "
        "[server.md](server.md#more-cores). Not in nats-server",
        'integer or "auto"',
        read="processes:processes",
        flag=Flag(
            ("processes",),
            "count",
            "Spread clients over this many processes, or auto: one a core (default: 1)",
        ),
    )

    # -- monitoring
    http_host: str | None = key(None, "Address for monitoring", name=None, zero_is_default=True)
    http_port: int | None = key(
        None,
        "Port of monitoring over HTTP; -1 lets the system choose",
        "integer",
        aliases=("monitor_port",),
        between=_PORTS,
        zero_is_default=True,
        flag=Flag(("m", "http_port"), "port", "Port for monitoring over HTTP"),
    )
    https_port: int | None = key(
        None,
        "Port of monitoring over HTTPS",
        "integer",
        between=_PORTS,
        zero_is_default=True,
        flag=Flag(("ms", "https_port"), "port", "Port for monitoring over HTTPS"),
    )
    http_base_path: str = key("", "Path before every endpoint of monitoring", normal=clean_path)
    http_authorization: MonitorAuthorization | None = key(
        None,
        "Who may read the monitoring port; see below. Not in nats-server",
        "map",
        read="authorization:http_authorization",
    )

    # -- limits of connections
    max_payload: int = key(
        limits.MAX_PAYLOAD,
        "Bytes of a message, headers included; more closes the connection",
        between=(-1, _INT32_MAX),
        zero_is_default=True,
        reload="client limits",
    )
    max_pending: int = key(
        limits.MAX_PENDING,
        "Bytes waiting for one connection; more makes it a slow consumer, which is closed",
        between=(1, _INT64_MAX),
        zero_is_default=True,
        reload="back pressure",
    )
    max_control_line: int = key(
        limits.MAX_CONTROL_LINE,
        "Bytes of a protocol line's arguments; more closes the connection. Holds for CONNECT too",
        between=(1, _INT32_MAX),
        zero_is_default=True,
        reload="client limits",
    )
    max_connections: int = key(
        limits.MAX_CONNECTIONS,
        "Connections at a time; one more is told and closed. 0 and less: no limit",
        aliases=("max_conn",),
        normal=positive_or_unlimited,
        reload="connections",
    )
    max_closed_clients: int = key(
        limits.MAX_CLOSED_CLIENTS,
        "Closed connections that `/connz?state=closed` remembers",
        between=(1, _INT32_MAX),
        zero_is_default=True,
    )
    max_subscriptions: int = key(
        0,
        "Subscriptions of a connection; more are refused",
        aliases=("max_subs",),
        shown_default="no limit",
        normal=not_negative,
        reload="client limits",
    )
    max_sub_tokens: int = key(
        0,
        "Tokens of a subscription's subject, at most 255; one with more is refused",
        aliases=("max_subscription_tokens",),
        shown_default="no limit",
        between=(1, 255),
        reload="client limits",
    )
    ping_interval: float = key(
        limits.PING_INTERVAL,
        "Time between PINGs to a client that says nothing",
        read="fields:duration_or_seconds",
        between=NOT_NEGATIVE,
        zero_is_default=True,
        reload="lookup",
    )
    ping_max: int = key(
        limits.PING_MAX,
        "Unanswered PINGs; one more closes the connection",
        between=(1, _INT32_MAX),
        zero_is_default=True,
        reload="lookup",
    )
    write_deadline: float = key(
        limits.WRITE_DEADLINE,
        "Time a write may take; more makes a slow consumer",
        read="fields:duration_or_seconds",
        between=NOT_NEGATIVE,
        zero_is_default=True,
        reload="lookup",
    )
    no_header_support: bool = key(False, "Do without message headers")
    no_fast_producer_stall: bool = key(
        False,
        "Drop messages for congested receivers at once instead of slowing their publisher down",
        reload="back pressure",
    )
    always_enable_nonce: bool = key(False, "Send a nonce in INFO even if no user has an nkey", reload="users")

    # -- who clients are
    authorization: AuthorizationOptions = key(
        AuthorizationOptions(),
        "Who may connect; see below",
        "map",
        read="authorization:authorization",
        reload="users",
    )
    accounts: tuple[AccountOptions, ...] = key(
        (), "Accounts by name; see below", "map of maps", read="accounts:accounts", reload="users"
    )
    system_account: str | None = key(
        DEFAULT_SYSTEM_ACCOUNT, "The account that is the system's", aliases=("system",), zero_is_default=True
    )
    no_auth_user: str | None = key(
        None,
        "Who a client without credentials is: a user of `authorization` or of any account",
        zero_is_default=True,
        reload="users",
    )
    operator: OperatorOptions | None = key(
        None,
        "Operator mode: accounts and users by token (JWT), signed by this operator; a token, a file with "
        "one, or a list",
        "string or list",
        aliases=("operators", "root", "roots", "root_operator", "root_operators"),
        read="operator:operators",
    )
    trusted_proxies: tuple[str, ...] = key(
        (),
        "Proxies that sign for the connections they pass on",
        "map",
        name="proxies",
        read="authorization:trusted_proxies",
        reload="proxies",
    )
    mappings: tuple[SubjectMapping, ...] = key(
        (),
        "Subject mappings: `from: to`, or a list of weighted destinations; see below",
        "map",
        aliases=("maps",),
        read="mappings:mappings",
        reload="users",
    )
    tls: TLSOptions | None = key(None, "TLS for clients; see below", "map", read="tls:tls", reload="always")
    allow_non_tls: bool = key(False, "Let clients in without TLS beside those with it", reload="lookup")
    ocsp_cache: OCSPCacheOptions = key(
        OCSPCacheOptions(),
        "Whether answers that `ocsp_peer` gets are remembered, while they hold; see below",
        "true, false or map",
        read="ocsp:ocsp_cache",
        shown_default="true",
        reload="always",
    )

    # -- more ways in, and services
    websocket: WebSocketOptions | None = key(
        None,
        "A port for clients over WebSocket; see below",
        "map",
        aliases=("ws",),
        read="websocket:websocket",
    )
    mqtt: MqttOptions | None = key(
        None,
        "A port for clients over MQTT: [mqtt.md](mqtt.md)",
        "map",
        read="mqtt:mqtt",
    )
    proxy_protocol: bool = key(False, "Connections of the client port may begin with a PROXY protocol header")
    streaming: StreamingOptions | None = key(
        None,
        "NATS Streaming inside the server: [streaming.md](streaming.md)",
        "map",
        read="streaming:streaming",
    )
    jetstream: JetStreamOptions | None = key(
        None,
        "Streams and consumers; see below",
        'true, false, "enabled", "disabled" or map',
        read="jetstream:jetstream",
        shown_default="false",
    )

    # -- other servers
    cluster: ClusterOptions | None = key(
        None,
        "Other servers that make one of this and themselves: [clusters.md](clusters.md)",
        "map",
        read="cluster:cluster",
        reload="cluster",
        is_lasting=True,  # a cluster has a port
    )
    gateway: GatewayOptions | None = key(
        None, "Other clusters: [gateways.md](gateways.md)", "map", read="gateway:gateway"
    )
    leafnodes: LeafNodeOptions | None = key(
        None,
        "Servers that accounts here are joined with: [leafnodes.md](leafnodes.md)",
        "map",
        aliases=("leaf",),
        read="leafnodes:leafnodes",
        reload="leafnodes",
    )
    connect_error_reports: int = key(
        limits.CONNECT_ERROR_REPORTS,
        "Of the failed attempts to reach a server that was never met the first is an error in the log, and "
        "then one of so many",
        between=(1, _INT32_MAX),
        reload="lookup",
    )
    reconnect_error_reports: int = key(
        limits.RECONNECT_ERROR_REPORTS,
        "The same of a server that was met before",
        between=(1, _INT32_MAX),
        reload="lookup",
    )

    # -- the end
    lame_duck_duration: float = key(
        limits.LAME_DUCK_DURATION,
        "Time over which a server in lame duck mode closes its clients; at least 30s in a file",
        read="toplevel:lame_duck_duration",
        between=NOT_NEGATIVE,
        zero_is_default=True,
        reload="lookup",
    )
    lame_duck_grace_period: float = key(
        limits.LAME_DUCK_GRACE_PERIOD,
        "Time before it begins with that",
        between=NOT_NEGATIVE,
        zero_is_default=True,
        reload="lookup",
    )

    # -- the process, its files and its log
    ports_file_dir: str | None = key(
        None,
        "Directory for a file with the URLs that are bound",
        zero_is_default=True,
        reload="process",
        flag=Flag(("ports_file_dir",), "dir", "Write the ports in use to a file here"),
    )
    pid_file: str | None = key(
        None,
        "File for the process id",
        aliases=("pidfile",),
        zero_is_default=True,
        reload="process",
        flag=Flag(("P", "pid"), "file", "Write the process id to this file"),
    )
    log_file: str | None = key(
        None,
        "File to log to",
        aliases=("logfile",),
        shown_default="stderr",
        zero_is_default=True,
        reload="process",
        flag=Flag(("l", "log"), "file", "Log to this file instead of stderr", group="Logging"),
    )
    log_size_limit: int = key(
        0,
        "Bytes at which the log file is rotated",
        aliases=("logfile_size_limit",),
        shown_default="never",
        normal=not_negative,
        reload="process",
        flag=Flag(("log_size_limit",), "bytes", "Rotate the log file at this size", group="Logging"),
    )
    log_max_num: int = key(
        0,
        "Log files kept, the current one included; at least one rotated file is",
        aliases=("logfile_max_num",),
        shown_default="11",
        normal=not_negative,
        reload="process",
    )
    syslog: bool = key(
        False,
        "Log to the system's syslog instead; a log file goes before it",
        reload="process",
        flag=Flag(("s", "syslog"), "", "Log to syslog", group="Logging"),
    )
    remote_syslog: str | None = key(
        None,
        "Log to this one: `udp://host:514`, `tcp://host:514` or `unix:///path`",
        "URL",
        read="toplevel:remote_syslog",
        zero_is_default=True,
        reload="process",
        flag=Flag(("r", "remote_syslog"), "url", "Log to syslog elsewhere", group="Logging"),
    )
    logtime: bool = key(
        True,
        "Time on log lines",
        reload="process",
        flag=Flag(("T", "logtime"), "", "Put the time on log lines (default: true)", group="Logging"),
    )
    logtime_utc: bool = key(
        False,
        "That time in UTC",
        reload="process",
        flag=Flag(("logtime_utc",), "", "Log the time in UTC (default: false)", group="Logging"),
    )
    debug: bool = key(
        False,
        "Log what helps debugging",
        reload="process",
        flag=Flag(("D", "debug"), "", "Log what helps debugging", group="Logging"),
    )
    trace: bool = key(
        False,
        "Log the protocol",
        reload="tracing",
        flag=Flag(("V", "trace"), "", "Log the protocol", group="Logging"),
    )
    trace_headers: bool = key(
        False,
        "Trace headers instead of whole messages; turns `trace` on as well",
        read="toplevel:trace_headers",
        spreads=True,
        reload="lookup",
    )
    max_traced_msg_len: int = key(
        0,
        "Bytes of a message that are traced",
        shown_default="all",
        normal=not_negative,
        reload="lookup",
        flag=Flag(
            ("max_traced_msg_len",),
            "bytes",
            "Cut traced messages to this length (default: 0, never)",
            group="Logging",
        ),
    )

    # -- the file itself
    config_file: str | None = None
    config_digest: str | None = None
    warnings: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    # What was given beside the file, so that a reload can give it again; may hold secrets.
    overrides: Mapping[str, object] = field(default_factory=dict)

    @property
    def maps_certificates(self) -> bool:
        """True if a port maps clients' certificates to users."""
        blocks = (self, self.websocket, self.mqtt)
        return any(
            block is not None and block.tls is not None and block.tls.verify_and_map for block in blocks
        )

    @property
    def requires_authentication(self) -> bool:
        """True if there are users or other credentials that a client can be asked for."""
        return (
            self.operator is not None
            or self.authorization.required
            or self.authorization.callout is not None
            or any(account.users for account in self.accounts)
        )

    @property
    def streaming_subject(self) -> str:
        """The subject on which clients of streaming find this server; empty when another may answer too."""
        streaming = self.streaming
        if streaming is None or streaming.partitioning or (streaming.ft_group and streaming.bucket is None):
            return ""
        return f"{streaming.discover_prefix}.{streaming.cluster_id}"

    @property
    def serves_alone(self) -> bool:
        """True if this server has a service that no other server of the cluster may have as well."""
        return self.jetstream is not None or bool(self.streaming_subject)
