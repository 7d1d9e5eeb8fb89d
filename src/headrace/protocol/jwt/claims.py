"""Claims of tokens, as frozen data.

Here live the shapes only. Numbers are as signed: -1 is no limit, 0 in a user's or an account's limits is zero
(tools write every limit). A list is None where the token has none, which is not the same as an empty one: a
user of a scoped signing key must have none of its own. Times are seconds since 1970, and those in a
`TimeRange` are of the day.
Source: the claims of version 2 as nats-server 2.15.1 reads them; version 1 is moved into the same shapes.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct, field

from headrace.structures import Discreet

if TYPE_CHECKING:
    from collections.abc import Mapping

    Texts: TypeAlias = tuple[str, ...] | None

NO_LIMIT: Final = -1
EVERYBODY: Final = "*"
"""The key for all: in revocations all keys; in the accounts a callout may choose from, all accounts."""


class Claims(Discreet, frozen=True, kw_only=True):
    """The claims of every token. `expires` and `not_before` are 0 where there is no such limit."""

    issuer: str = ""
    subject: str = ""
    name: str = ""
    audience: str = ""
    token_id: str = ""
    issued_at: int = 0
    expires: int = 0
    not_before: int = 0
    tags: tuple[str, ...] = ()
    version: int = 2


class SubjectClaims(Struct, frozen=True):
    """Subjects allowed and denied; for subscribing an entry may be "subject queue"."""

    allow: Texts = None
    deny: Texts = None


class ResponseClaims(Struct, frozen=True):
    """Responses allowed within `ttl` nanoseconds; 0 is the server's default, less is no limit."""

    max_messages: int = 0
    ttl: int = 0


class PermissionClaims(Struct, frozen=True):
    """The permissions that a token gives: to publish, to subscribe, to respond."""

    publish: SubjectClaims = SubjectClaims()
    subscribe: SubjectClaims = SubjectClaims()
    responses: ResponseClaims | None = None


class TimeRange(Struct, frozen=True):
    """A range of a day, from `start` to `end`, both `15:04:05`; over midnight if it ends before it starts."""

    start: str = ""
    end: str = ""


class UserLimitClaims(Struct, frozen=True):
    """The limits of one user, or of every user whom a scoped signing key signs for."""

    permissions: PermissionClaims = PermissionClaims()
    source_networks: Texts = None
    times: tuple[TimeRange, ...] | None = None
    times_location: str = ""
    subscriptions: int = 0
    data: int = 0
    payload: int = 0
    bearer_token: bool = False
    proxy_required: bool = False
    connection_types: Texts = None


class UserClaims(Claims, frozen=True, kw_only=True):
    """The claims about a user."""

    limits: UserLimitClaims = UserLimitClaims()
    issuer_account: str = ""

    @property
    def account(self) -> str:
        """The public key of the account this user belongs to."""
        return self.issuer_account or self.issuer


class Scope(Struct, frozen=True):
    """The scope of a signing key: limits of its users, in place of those in their own tokens."""

    key: str
    role: str = ""
    template: UserLimitClaims = UserLimitClaims()
    description: str = ""


class JetStreamLimitClaims(Struct, frozen=True):
    """The limits of JetStream for an account, for all replicas or for a tier."""

    memory_storage: int = 0
    disk_storage: int = 0
    streams: int = 0
    consumers: int = 0
    max_ack_pending: int = 0
    memory_max_stream_bytes: int = 0
    disk_max_stream_bytes: int = 0
    max_bytes_required: bool = False


class AccountLimitClaims(Struct, frozen=True):
    """The limits of an account."""

    subscriptions: int = 0
    data: int = 0
    payload: int = 0
    imports: int = 0
    exports: int = 0
    wildcard_exports: bool = False
    disallow_bearer: bool = False
    connections: int = 0
    leafnodes: int = 0
    jetstream: JetStreamLimitClaims = JetStreamLimitClaims()
    jetstream_tiers: Mapping[str, JetStreamLimitClaims] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def is_empty(self) -> bool:
        """True if every limit is absent or zero, as in an account that signed itself."""
        return self == AccountLimitClaims()


class Latency(Struct, frozen=True):
    """Measurements of a service: `sampling` percent of requests, 0 for those that ask for it in a header."""

    sampling: int = 0
    results: str = ""


class ExportClaims(Struct, frozen=True):
    """An export that a token describes.

    `kind` is "stream" or "service"; `response_threshold` is nanoseconds.
    """

    name: str = ""
    subject: str = ""
    kind: str = ""
    token_required: bool = False
    revocations: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    response_type: str = ""
    response_threshold: int = 0
    latency: Latency | None = None
    account_token_position: int = 0
    advertise: bool = False
    allow_trace: bool = False
    description: str = ""
    info_url: str = ""


class ImportClaims(Discreet, frozen=True):
    """An import that a token describes.

    `kind` is "stream" or "service"; `to` is what old tokens have in place of `local_subject`.
    """

    HIDDEN = frozenset({"token"})

    name: str = ""
    subject: str = ""
    account: str = ""
    token: str = ""
    to: str = ""
    local_subject: str = ""
    kind: str = ""
    share: bool = False
    allow_trace: bool = False


class MappingClaims(Struct, frozen=True):
    """One destination of a subject mapping; a weight of 0 is written for 100 percent."""

    subject: str = ""
    weight: int = 0
    cluster: str = ""

    @property
    def percent(self) -> int:
        return self.weight or 100


class CalloutClaims(Struct, frozen=True):
    """The callout of an account: a service decides about its users, but for those in `users`."""

    users: tuple[str, ...] = ()
    allowed_accounts: tuple[str, ...] = ()
    curve_key: str = ""


class TraceClaims(Struct, frozen=True):
    """The traces of an account's messages: where to, and how many of them."""

    destination: str = ""
    sampling: int = 0


class AccountClaims(Claims, frozen=True, kw_only=True):
    """The claims about an account.

    `signing_keys`: public keys that sign for the account, with their scope or None.
    """

    imports: tuple[ImportClaims, ...] = ()
    exports: tuple[ExportClaims, ...] = ()
    limits: AccountLimitClaims = field(default_factory=AccountLimitClaims)
    signing_keys: Mapping[str, Scope | None] = field(default_factory=lambda: MappingProxyType({}))
    revocations: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    default_permissions: PermissionClaims = PermissionClaims()
    mappings: Mapping[str, tuple[MappingClaims, ...]] = field(default_factory=lambda: MappingProxyType({}))
    callout: CalloutClaims = CalloutClaims()
    trace: TraceClaims | None = None
    cluster_traffic: str = ""
    description: str = ""
    info_url: str = ""


class OperatorClaims(Claims, frozen=True, kw_only=True):
    """The claims about an operator.

    `strict_signing_keys`: only signing keys may sign, of the operator and of its accounts.
    """

    signing_keys: tuple[str, ...] = ()
    account_server_url: str = ""
    service_urls: tuple[str, ...] = ()
    system_account: str = ""
    server_version: str = ""
    strict_signing_keys: bool = False


class ActivationClaims(Claims, frozen=True, kw_only=True):
    """The permission to import what another account exports to chosen accounts.

    `kind` as in `ImportClaims`.
    """

    import_subject: str = ""
    kind: str = ""
    issuer_account: str = ""


class DeletionClaims(Claims, frozen=True, kw_only=True):
    """The order to a resolver to delete accounts; None if the token names none."""

    accounts: Texts = None


class ServerClaims(Struct, frozen=True):
    """The server that asks a callout service."""

    name: str = ""
    host: str = ""
    server_id: str = ""
    version: str = ""
    cluster: str = ""
    tags: tuple[str, ...] = ()
    curve_key: str = ""


class ClientClaims(Discreet, frozen=True):
    """The client about whom a callout service is asked."""

    HIDDEN = frozenset({"nonce"})
    host: str = ""
    client_id: int = 0
    user: str = ""
    name: str = ""
    tags: tuple[str, ...] = ()
    name_tag: str = ""
    kind: str = ""
    connection_type: str = ""
    mqtt_id: str = ""
    nonce: str = ""


class ConnectClaims(Discreet, frozen=True):
    """The client's CONNECT; its secrets never show in a repr."""

    HIDDEN = frozenset({"jwt", "signature", "token", "password"})

    jwt: str = ""
    nkey: str = ""
    signature: str = ""
    token: str = ""
    user: str = ""
    password: str = ""
    name: str = ""
    lang: str = ""
    version: str = ""
    protocol: int = 0


class TLSClaims(Struct, frozen=True):
    """Certificates are PEM texts, those of a chain with the client's first."""

    version: str = ""
    cipher: str = ""
    certificates: tuple[str, ...] = ()
    verified_chains: tuple[tuple[str, ...], ...] = ()


class AuthorizationRequestClaims(Claims, frozen=True, kw_only=True):
    """The question of a server to the service that decides about users."""

    HIDDEN = frozenset({"request_nonce"})

    server: ServerClaims = ServerClaims()
    user_nkey: str = ""
    client: ClientClaims = ClientClaims()
    connect: ConnectClaims = ConnectClaims()
    tls: TLSClaims | None = None
    request_nonce: str = ""


class AuthorizationResponseClaims(Claims, frozen=True, kw_only=True):
    """The decision: a user token, or an error."""

    HIDDEN = frozenset({"jwt"})

    jwt: str = ""
    error: str = ""
    issuer_account: str = ""
