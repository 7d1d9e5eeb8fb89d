"""The server's options, fully resolved: what configuration file and flags add up to.

Frozen data, and the entries of the keys of the top level (`Options`). Reading the configuration language is
`language`, turning a tree into these options is `binding`. Durations are seconds, sizes are bytes, defaults
are the Go server's.

To add a key: an option with its entry in `Options`, and where it takes effect.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from headrace import limits
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
from headrace.structures import Discreet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.conf.jetstream_options import JetStreamOptions
    from headrace.conf.leaf_options import LeafNodeOptions
    from headrace.conf.operator_options import OperatorOptions
    from headrace.conf.peer_options import ClusterOptions, GatewayOptions
    from headrace.conf.streaming_options import StreamingOptions
    from headrace.conf.tls_options import TLSOptions

GLOBAL_ACCOUNT: Final = "$G"
"""The account of clients that no configuration puts elsewhere."""

DEFAULT_SYSTEM_ACCOUNT: Final = "$SYS"

_PORTS: Final = (-1, 65535)
_INT32_MAX: Final = (1 << 31) - 1
_INT64_MAX: Final = (1 << 63) - 1


class ConnectionType(Enum):
    """The ways to connect that a user may be limited to."""

    STANDARD = "STANDARD"
    WEBSOCKET = "WEBSOCKET"
    LEAFNODE = "LEAFNODE"
    LEAFNODE_WS = "LEAFNODE_WS"
    MQTT = "MQTT"
    MQTT_WS = "MQTT_WS"
    IN_PROCESS = "IN_PROCESS"


CONNECTION_TYPES: Final = frozenset(kind.value for kind in ConnectionType)
"""Their names."""


class SubjectPermission(Struct, frozen=True):
    """Subjects one may (`allow`) and may not (`deny`) use; deny wins.

    `allow` is None when everything is allowed. A subscribe entry may be "subject queue".
    """

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()


class ResponsePermission(Struct, frozen=True):
    """allow_responses: `max_messages` replies (-1: no limit) within `expires` seconds (0: no limit)."""

    max_messages: int = 1
    expires: float = 120.0


class Permissions(Struct, frozen=True):
    publish: SubjectPermission | None = None
    subscribe: SubjectPermission | None = None
    allow_responses: ResponsePermission | None = None


class UserOptions(Discreet, frozen=True):
    """One entry of authorization.users: either user and password, or an nkey public key (`U…`).

    `connection_types`: the ways to connect that it may use, None: all of them. `proxy_required`: only through
    a trusted proxy.
    """

    HIDDEN = frozenset({"password"})

    user: str | None = None
    password: str | None = None
    nkey: str | None = None
    permissions: Permissions | None = None
    connection_types: frozenset[str] | None = None
    proxy_required: bool = False


class CalloutOptions(Struct, frozen=True):
    """The callout: a service in `account` decides about users instead of the configuration.

    `issuer`: the public key of the account that signs its users. `users`: names, or nkeys, that need no
    decision, the service's own first of all. `curve_key`: questions are encrypted for it, None: not at all.
    `allowed_accounts`: whose configured users it decides about too, () for every account's.
    """

    issuer: str
    users: tuple[str, ...]
    account: str = "$G"
    curve_key: str | None = None
    allowed_accounts: tuple[str, ...] = ()


class AuthorizationOptions(Discreet, frozen=True):
    HIDDEN = frozenset({"token"})
    token: str | None = None
    users: tuple[UserOptions, ...] = ()
    timeout: float | None = None
    default_permissions: Permissions | None = None
    callout: CalloutOptions | None = None
    proxy_required: bool = False

    @property
    def required(self) -> bool:
        return self.token is not None or bool(self.users)


class MonitorAuthorization(Discreet, frozen=True):
    """The credentials for the monitoring port: user and password, or a token.

    Secrets may be bcrypt hashes.
    """

    HIDDEN = frozenset({"password", "token"})

    user: str | None = None
    password: str | None = None
    token: str | None = None


class OCSPCacheOptions(Struct, frozen=True):
    """The cache of responders' answers: they are remembered while they hold, and those that revoke longer."""

    keeps: bool = True
    preserve_revoked: bool = False


class WebSocketOptions(Struct, frozen=True):
    """The port for clients over WebSocket. `port` -1: the system chooses.

    `authorization`: a single user or token instead of the server's, with a `timeout` of its own. The cookies
    name where in the upgrade request credentials are that CONNECT leaves out. `headers` are added to the
    response. `handshake_timeout`: seconds for TLS and the upgrade. `ping_interval` None: the server's.
    """

    host: str = limits.DEFAULT_HOST
    port: int = -1
    advertise: str | None = None
    no_tls: bool = False
    tls: TLSOptions | None = None
    same_origin: bool = False
    allowed_origins: tuple[str, ...] = ()
    handshake_timeout: float = 0.0
    compression: bool = False
    authorization: AuthorizationOptions = AuthorizationOptions()
    no_auth_user: str | None = None
    jwt_cookie: str | None = None
    user_cookie: str | None = None
    pass_cookie: str | None = None
    token_cookie: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    ping_interval: float | None = None

    @property
    def overrides_authorization(self) -> bool:
        """True if this block says who may connect here, and not the server's own settings."""
        return self.authorization.required or self.no_auth_user is not None


class SubjectMapping(Struct, frozen=True):
    """One destination of a subject mapping; `weight` is a percentage.

    `cluster`: servers of that cluster map by it, and by others of it only; "": all other servers do.
    """

    source: str
    destination: str
    weight: int = 100
    cluster: str = ""


class LatencyOptions(Struct, frozen=True):
    """Response times are published to `subject`: of `sampling` percent of the requests, 0: by headers."""

    subject: str
    sampling: int = 100


class ExportOptions(Struct, frozen=True):
    """A subject that other accounts may import: a stream of messages, or a service that answers requests.

    `accounts`: who may, None: everyone. `token_position` (from 1, 0: none): that token must be the importing
    account's name. `response_type`: "singleton", "stream" or "chunked"; one that does not come within
    `response_threshold` seconds is given up. `allow_trace`: who traces a request may see who gets it here.
    """

    subject: str
    is_service: bool = False
    accounts: tuple[str, ...] | None = None
    token_position: int = 0
    response_type: str = "singleton"
    response_threshold: float = limits.SERVICE_RESPONSE_THRESHOLD
    latency: LatencyOptions | None = None
    allow_trace: bool = False


class ImportOptions(Struct, frozen=True):
    """A subject of another account; `local` is what it is called here, with `$n` for its wildcards.

    `share`: the service learns who asks, not only from which account. `allow_trace`: who traces a message
    of the stream may see who gets it here.
    """

    account: str
    subject: str
    local: str
    is_service: bool = False
    share: bool = False
    allow_trace: bool = False


class TraceOptions(Struct, frozen=True):
    """The destination of traces of messages that a tracing system has marked (`traceparent`), and their
    percentage.
    """

    dest: str
    sampling: int = 100


class AccountLimits(Struct, frozen=True):
    """-1 is no limit. Connections and leaf nodes are counted over the account, the others hold for each."""

    max_connections: int = -1
    max_subscriptions: int = -1
    max_payload: int = -1
    max_leafnodes: int = -1


class JetStreamAccountLimits(Struct, frozen=True):
    """The limits of an account in JetStream; bytes of messages, -1 is no limit.

    `max_bytes_required`: each of its streams has to say how large it may become.
    """

    max_memory: int = -1
    max_storage: int = -1
    max_streams: int = -1
    max_consumers: int = -1
    max_ack_pending: int = -1
    memory_max_stream_bytes: int = -1
    storage_max_stream_bytes: int = -1
    max_bytes_required: bool = False


class AccountOptions(Struct, frozen=True):
    """One account: a space of subjects with its own users, mappings, exports and imports.

    `nickname`: what its token calls it, where `name` is a key. `jetstream`: its limits there, by tier ("R1":
    of streams with one replica) or all under "", None: it has no JetStream. `trace`: None: a `traceparent`
    means nothing.
    """

    name: str
    users: tuple[UserOptions, ...] = ()
    default_permissions: Permissions | None = None
    mappings: tuple[SubjectMapping, ...] = ()
    exports: tuple[ExportOptions, ...] = ()
    imports: tuple[ImportOptions, ...] = ()
    limits: AccountLimits = AccountLimits()
    nickname: str = ""
    jetstream: Mapping[str, JetStreamAccountLimits] | None = None
    trace: TraceOptions | None = None

    @property
    def title(self) -> str:
        """The text by which messages name it beside its name."""
        return self.nickname or self.name


class Options(Keyed, frozen=True):
    """Everything `headrace serve` can be told, each option with the entry of its key (`keys.key`).

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
        read="monitoring:http_authorization",
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
        read="proxies:trusted_proxies",
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
        ports = (self.tls, self.websocket.tls if self.websocket is not None else None)
        return any(tls is not None and tls.verify_and_map for tls in ports)

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
        if streaming is None or streaming.ft_group or streaming.partitioning:
            return ""
        return f"{streaming.discover_prefix}.{streaming.cluster_id}"

    @property
    def serves_alone(self) -> bool:
        """True if this server has a service that no other server of the cluster may have as well."""
        return self.jetstream is not None or bool(self.streaming_subject)
