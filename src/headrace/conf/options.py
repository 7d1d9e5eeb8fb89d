"""The server's options, fully resolved: what configuration file and flags add up to.

Frozen data only. Reading the configuration language is `language.py`, turning a tree into these
options is `binding.py`. Durations are seconds, sizes are bytes, defaults are the Go server's.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from headrace import limits
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
"""Where clients act that no configuration puts elsewhere."""

DEFAULT_SYSTEM_ACCOUNT: Final = "$SYS"


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
    """Who decides about users instead of the configuration: a service in `account`.

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
    """Who may read the monitoring port: user and password, or a token. Secrets may be bcrypt hashes."""

    HIDDEN = frozenset({"password", "token"})

    user: str | None = None
    password: str | None = None
    token: str | None = None


class OCSPCacheOptions(Struct, frozen=True):
    """Whether responders' answers are remembered as long as they hold, and those that revoke longer."""

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
        """Whether who may connect here is said here, and not by the server's own settings."""
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
    """Where traces go of messages that a tracing system has marked (`traceparent`), and how many percent."""

    dest: str
    sampling: int = 100


class AccountLimits(Struct, frozen=True):
    """-1 is no limit. Connections and leaf nodes are counted over the account, the others hold for each."""

    max_connections: int = -1
    max_subscriptions: int = -1
    max_payload: int = -1
    max_leafnodes: int = -1


class JetStreamAccountLimits(Struct, frozen=True):
    """What an account may have in JetStream; bytes of messages, -1 is no limit.

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
        """What messages call it beside its name."""
        return self.nickname or self.name


class Options(Discreet, frozen=True):
    """Everything `headrace serve` can be told. `port` -1 means: let the system choose.

    `processes`: over how many the server is spread, 0: as many as there are cores. `connect_error_reports`:
    how many failed attempts to reach a server that was never met make one error in the log, beside the first;
    `reconnect_error_reports`: the same for a server that was met before.
    """

    HIDDEN = frozenset({"overrides"})

    host: str = limits.DEFAULT_HOST
    port: int = limits.DEFAULT_PORT
    server_name: str | None = None
    server_tags: tuple[str, ...] = ()
    server_metadata: Mapping[str, str] = field(default_factory=dict)
    client_advertise: str | None = None
    processes: int = 1
    http_host: str | None = None
    http_port: int | None = None
    https_port: int | None = None
    http_base_path: str = ""
    http_authorization: MonitorAuthorization | None = None
    max_payload: int = limits.MAX_PAYLOAD
    max_pending: int = limits.MAX_PENDING
    max_control_line: int = limits.MAX_CONTROL_LINE
    max_connections: int = limits.MAX_CONNECTIONS
    max_closed_clients: int = limits.MAX_CLOSED_CLIENTS
    max_subscriptions: int = 0
    max_sub_tokens: int = 0
    ping_interval: float = limits.PING_INTERVAL
    ping_max: int = limits.PING_MAX
    write_deadline: float = limits.WRITE_DEADLINE
    no_header_support: bool = False
    no_fast_producer_stall: bool = False
    always_enable_nonce: bool = False
    authorization: AuthorizationOptions = AuthorizationOptions()
    accounts: tuple[AccountOptions, ...] = ()
    system_account: str | None = DEFAULT_SYSTEM_ACCOUNT
    no_auth_user: str | None = None
    operator: OperatorOptions | None = None
    trusted_proxies: tuple[str, ...] = ()
    mappings: tuple[SubjectMapping, ...] = ()
    tls: TLSOptions | None = None
    allow_non_tls: bool = False
    ocsp_cache: OCSPCacheOptions = OCSPCacheOptions()
    websocket: WebSocketOptions | None = None
    proxy_protocol: bool = False
    streaming: StreamingOptions | None = None
    jetstream: JetStreamOptions | None = None
    cluster: ClusterOptions | None = None
    gateway: GatewayOptions | None = None
    leafnodes: LeafNodeOptions | None = None
    connect_error_reports: int = limits.CONNECT_ERROR_REPORTS
    reconnect_error_reports: int = limits.RECONNECT_ERROR_REPORTS
    lame_duck_duration: float = limits.LAME_DUCK_DURATION
    lame_duck_grace_period: float = limits.LAME_DUCK_GRACE_PERIOD
    ports_file_dir: str | None = None
    pid_file: str | None = None
    log_file: str | None = None
    log_size_limit: int = 0
    log_max_num: int = 0
    syslog: bool = False
    remote_syslog: str | None = None
    logtime: bool = True
    logtime_utc: bool = False
    debug: bool = False
    trace: bool = False
    trace_headers: bool = False
    max_traced_msg_len: int = 0
    config_file: str | None = None
    config_digest: str | None = None
    warnings: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    # What was given beside the file, so that a reload can give it again; may hold secrets.
    overrides: Mapping[str, object] = field(default_factory=dict)

    @property
    def maps_certificates(self) -> bool:
        """Whether there is a port where a client's certificate says which user it is."""
        ports = (self.tls, self.websocket.tls if self.websocket is not None else None)
        return any(tls is not None and tls.verify_and_map for tls in ports)

    @property
    def requires_authentication(self) -> bool:
        """Whether there is anybody whom a client could be asked to be."""
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
        """Whether there is something that no other server of the cluster may serve as well."""
        return self.jetstream is not None or bool(self.streaming_subject)
