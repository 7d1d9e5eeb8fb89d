"""The options about who clients are: accounts, their users, and what these may do.

Frozen data, the entries of the keys of `authorization` and `accounts`, and which credentials exclude others.
Durations are seconds, sizes are bytes, defaults are the Go server's. Reading is `authorization`,
`permissions`, `accounts` and `exports`; rules between accounts are `account_rules`.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from headrace import limits
from headrace.conf.keys import Flag, Keyed, key, negative_is_unlimited, not_negative, required

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.conf.problems import Problems
    from headrace.errors import Position

GLOBAL_ACCOUNT: Final = "$G"
"""The account of clients that no configuration puts elsewhere."""

DEFAULT_SYSTEM_ACCOUNT: Final = "$SYS"

_UNLIMITED: Final = -1


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


# -- users ----------------------------------------------------------------------------------------------


class SubjectPermission(Keyed, frozen=True):
    """Subjects one may (`allow`) and may not (`deny`) use; deny wins.

    `allow` is None when everything is allowed. A subscribe entry may be "subject queue".
    """

    allow: tuple[str, ...] | None = key(
        None, "Subjects that are allowed", "string or list", shown_default="all"
    )
    deny: tuple[str, ...] = key((), "Subjects that are not")


class ResponsePermission(Keyed, frozen=True):
    """allow_responses: `max_messages` replies (-1: no limit) within `expires` seconds (0: no limit)."""

    max_messages: int = key(
        1,
        "Responses to one message; -1: no limit",
        name="max",
        aliases=("max_msgs", "max_messages", "max_responses"),
        zero_is_default=True,
        normal=negative_is_unlimited,
    )
    expires: float = key(
        120.0,
        "Time after which a response is no longer allowed; negative: none",
        aliases=("expiration", "ttl"),
        zero_is_default=True,
        normal=not_negative,
    )


class Permissions(Keyed, frozen=True):
    """Permissions of a user; None where nothing is said, which allows everything but responses."""

    publish: SubjectPermission | None = key(
        None, "Subjects to publish to", "string, list or map", aliases=("pub", "import")
    )
    subscribe: SubjectPermission | None = key(
        None,
        'Subjects to subscribe to; `"subject queue"` for a queue group',
        "string, list or map",
        aliases=("sub", "export"),
    )
    allow_responses: ResponsePermission | None = key(
        None,
        "Whether, or how, one may publish to the reply subjects of messages received",
        "true, false or map",
        aliases=("publish_allow_responses",),
        shown_default="false",
    )


class UserOptions(Keyed, frozen=True):
    """One entry of authorization.users: either user and password, or an nkey public key (`U…`).

    `connection_types`: the ways to connect that it may use, None: all of them. `proxy_required`: only through
    a trusted proxy.
    """

    HIDDEN = frozenset({"password"})

    user: str | None = key(None, "Name", aliases=("username",))
    password: str | None = key(None, "Password, plain or as a bcrypt hash", aliases=("pass",))
    nkey: str | None = key(None, "Public key (`U…`) in the place of name and password")
    permissions: Permissions | None = key(
        None,
        "What the user may do; everything, unless defaults say otherwise",
        "map",
        aliases=("permission", "authorization"),
    )
    connection_types: frozenset[str] | None = key(
        None,
        "How the user may connect: `STANDARD`, `WEBSOCKET`, …",
        "string or list",
        name="allowed_connection_types",
        aliases=("connection_types", "clients"),
        shown_default="all",
    )
    proxy_required: bool = key(False, "Only through a trusted proxy")


class CalloutOptions(Keyed, frozen=True):
    """The callout: a service in `account` decides about users instead of the configuration.

    `issuer`: the public key of the account that signs its users. `users`: names, or nkeys, that need no
    decision, the service's own first of all. `curve_key`: questions are encrypted for it, None: not at all.
    `allowed_accounts`: whose configured users it decides about too, () for every account's.
    """

    issuer: str = required("Public key that signs answers: of an account, or of the one the service is in")
    users: tuple[str, ...] = required(
        "Users the service itself connects as; it is not asked about them",
        "list",
        name="auth_users",
        aliases=("users",),
    )
    account: str = key(GLOBAL_ACCOUNT, "Account of the service", aliases=("acc",))
    curve_key: str | None = key(
        None,
        "Public curve key (`X…`) that questions are encrypted for",
        name="xkey",
        aliases=("key",),
    )
    allowed_accounts: tuple[str, ...] = key(
        (), "Accounts the service may place users in", "list", shown_default="all"
    )


class AuthorizationOptions(Keyed, frozen=True):
    """Credentials of a port: a token for all, or users. Without either no client is asked for any.

    `timeout` None: as long as a port gives. `default_permissions`: of users that have none of their own.
    """

    HIDDEN = frozenset({"token"})

    token: str | None = key(
        None,
        "The token that everybody gives",
        flag=Flag(("auth",), "token", "Token that clients must give", group="Authorization"),
    )
    users: tuple[UserOptions, ...] = key((), "Users; see the next section", "list of maps")
    timeout: float | None = key(
        None,
        "Time a client has for CONNECT",
        "seconds or duration",
        shown_default="2s; with TLS, its timeout and 1s",
    )
    default_permissions: Permissions | None = key(
        None,
        "Permissions of listed users that have none of their own",
        "map",
        aliases=("default_permission", "permissions"),
    )
    callout: CalloutOptions | None = key(
        None,
        "A service decides who may connect; see below",
        "map",
        name="auth_callout",
        aliases=("auth_hook",),
        is_lasting=True,  # with a callout a server's id is the key it asks with
    )
    proxy_required: bool = key(False, "Only through a trusted proxy")

    @property
    def required(self) -> bool:
        return self.token is not None or bool(self.users)


class AuthorizationBlock(AuthorizationOptions, frozen=True):
    """A block `authorization` as written. `lists_users`: there is a list of users, which may be empty."""

    HIDDEN = frozenset({"password", "token"})

    user: str | None = key(
        None,
        "The one user",
        aliases=("username",),
        flag=Flag(("user",), "user", "User that clients must give", group="Authorization"),
    )
    password: str | None = key(
        None,
        "The one user's password",
        aliases=("pass",),
        flag=Flag(("pass",), "password", "Password that clients must give", group="Authorization"),
    )
    lists_users: bool = False

    @property
    def names(self) -> frozenset[str]:
        """Names of the listed users, the only ones `no_auth_user` may name."""
        return frozenset(entry.nkey or entry.user or "" for entry in self.users)

    def options(self) -> AuthorizationOptions:
        """The block as options; the single user becomes a list of one."""
        users = self.users
        if self.user:
            users = (
                UserOptions(user=self.user, password=self.password or "", proxy_required=self.proxy_required),
            )
        return AuthorizationOptions(
            token=self.token or None,
            users=users,
            timeout=self.timeout or None,
            # The Go server applies them to listed users only; the single user may do everything.
            default_permissions=self.default_permissions if self.users else None,
            callout=self.callout,
            proxy_required=self.proxy_required,
        )


def check_credentials(block: AuthorizationBlock, problems: Problems, position: Position | None) -> None:
    """Report token, single user and list of users where one excludes the other."""
    if (block.user or block.password) and block.token:
        problems.add("a user and password cannot stand together with a token", position)
    if block.lists_users and block.user:
        problems.add("a single user cannot stand together with a list of users", position)
    if block.lists_users and block.token:
        problems.add("a token cannot stand together with a list of users", position)
    if block.password and not block.user:
        problems.add("a password needs a user; without one nobody would be asked for it", position)


# -- accounts -------------------------------------------------------------------------------------------


class SubjectMapping(Keyed, frozen=True):
    """One destination of a subject mapping; `weight` is a percentage.

    `cluster`: servers of that cluster map by it, and by others of it only; "": all other servers do.
    """

    source: str
    destination: str = required("Subject that messages get", aliases=("dest",))
    weight: int = key(
        100,
        "Share of the messages; what is left keeps its subject",
        "percentage or integer",
        shown_default="",
    )
    cluster: str = key(
        "",
        "Servers of that cluster map by its destinations only, all others by those without; each "
        "cluster has weights of its own",
    )


class LatencyOptions(Keyed, frozen=True):
    """Response times are published to `subject`: of `sampling` percent of the requests, 0: by headers."""

    subject: str = required("Subject that latencies are published to", aliases=("dest",))
    sampling: int = key(
        100,
        "Share of requests that are measured, or `headers`: those that a tracing system marked",
        "percentage or `headers`",
        shown_default="100%",
    )


class ExportOptions(Keyed, frozen=True):
    """A subject that other accounts may import: a stream of messages, or a service that answers requests.

    `accounts`: who may, None: everyone. `token_position` (from 1, 0: none): that token must be the importing
    account's name. `response_type`: "singleton", "stream" or "chunked"; one that does not come within
    `response_threshold` seconds is given up. `allow_trace`: who traces a request may see who gets it here.
    """

    subject: str
    is_service: bool = False
    accounts: tuple[str, ...] | None = key(None, "Accounts that may import it", "list", shown_default="all")
    token_position: int = key(
        0,
        "Which token of the subject must be the importing account's name, from 1",
        name="account_token_position",
        shown_default="",
    )
    response_type: str = key(
        "singleton", "`singleton`, `stream` or `chunked`", name="response", aliases=("response_type",)
    )
    response_threshold: float = key(
        limits.SERVICE_RESPONSE_THRESHOLD,
        "Time after which a response that did not come is given up",
        name="threshold",
        aliases=("response_threshold", "response_max_time", "response_time"),
        zero_is_default=True,
    )
    latency: LatencyOptions | None = key(None, "Publish how long responses took; see below", "string or map")
    allow_trace: bool = key(
        False, "Of a service: who traces a request may see what becomes of it in this account"
    )


class ImportOptions(Keyed, frozen=True):
    """A subject of another account; `local` is what it is called here, with `$n` for its wildcards.

    `share`: the service learns who asks, not only from which account. `allow_trace`: who traces a message
    of the stream may see who gets it here.
    """

    account: str
    subject: str
    local: str
    is_service: bool = False
    share: bool = key(False, "Tell the service which user asks, and from where")
    allow_trace: bool = key(False, "Of a stream: who traces a message may see who gets it in this account")


class TraceOptions(Keyed, frozen=True):
    """The destination of traces of messages that a tracing system has marked (`traceparent`), and their
    percentage.
    """

    dest: str = required("Subject that traces are published to")
    sampling: int = key(
        100, "Share of the marked messages that are traced", "percentage", shown_default="100%"
    )


def _limit(text: str, *aliases: str, name: str = "") -> int:
    """The entry of a limit that there is none of by default, nor with a negative number."""
    return key(
        _UNLIMITED,
        text,
        name=name,
        aliases=aliases,
        shown_default="no limit",
        normal=negative_is_unlimited,
    )


class AccountLimits(Keyed, frozen=True):
    """-1 is no limit. Connections and leaf nodes are counted over the account, the others hold for each."""

    max_connections: int = _limit("Connections of the account", "max_conn")
    max_subscriptions: int = _limit("Subscriptions of each of its connections", "max_subs")
    max_payload: int = _limit("Bytes of a message of each of its connections", "max_pay")
    max_leafnodes: int = _limit("Leaf nodes at a time", "max_leafs")


class JetStreamAccountLimits(Keyed, frozen=True):
    """The limits of an account in JetStream; bytes of messages, -1 is no limit.

    `max_bytes_required`: each of its streams has to say how large it may become.
    """

    max_memory: int = _limit("Bytes of messages in memory", "max_mem", "mem", "memory")
    max_storage: int = _limit(
        "Bytes of messages in files", "max_file", "max_disk", "store", "disk", name="max_store"
    )
    max_streams: int = _limit("Streams", "streams")
    max_consumers: int = _limit("Consumers of one stream", "consumers")
    max_ack_pending: int = _limit("What `max_ack_pending` of a consumer may be at most")
    memory_max_stream_bytes: int = _limit(
        "What `max_bytes` of a stream in memory may be at most", "mem_max_stream_bytes"
    )
    storage_max_stream_bytes: int = _limit(
        "What `max_bytes` of a stream in files may be at most",
        "disk_max_stream_bytes",
        name="store_max_stream_bytes",
    )
    max_bytes_required: bool = key(
        False,
        "Every stream has to say how large it may become",
        aliases=("max_stream_bytes", "max_bytes"),
    )


class AccountOptions(Keyed, frozen=True):
    """One account: a space of subjects with its own users, mappings, exports and imports.

    `nickname`: what its token calls it, where `name` is a key. `jetstream`: its limits there, by tier ("R1":
    of streams with one replica) or all under "", None: it has no JetStream. `trace`: None: a `traceparent`
    means nothing.
    """

    name: str
    users: tuple[UserOptions, ...] = key(
        (), "Its users, as of `authorization`; a name belongs to one account only", "list of maps"
    )
    default_permissions: Permissions | None = key(
        None,
        "Permissions of users that have none of their own",
        "map",
        aliases=("default_permission", "permissions"),
    )
    mappings: tuple[SubjectMapping, ...] = key((), "Its subject mappings", "map", aliases=("maps",))
    exports: tuple[ExportOptions, ...] = key((), "What others may import", "list of maps")
    imports: tuple[ImportOptions, ...] = key((), "What it takes from others", "list of maps")
    limits: AccountLimits = key(AccountLimits(), "Limits of the account", "map")
    nickname: str = ""
    jetstream: Mapping[str, JetStreamAccountLimits] | None = key(
        None,
        "JetStream for the account, where the server has it; see below. Without any account `$G` has it",
        'true, false, "enabled", "disabled" or map',
        shown_default="false",
    )
    trace: TraceOptions | None = key(
        None,
        "Where traces go of messages that a tracing system has marked (`traceparent`)",
        "subject or map",
        name="msg_trace",
        aliases=("trace_dest",),
    )

    @property
    def title(self) -> str:
        """The text by which messages name it beside its name."""
        return self.nickname or self.name
