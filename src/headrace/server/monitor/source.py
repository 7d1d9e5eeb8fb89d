"""The port of monitoring to the server, and the frozen snapshots that it answers with.

Here live data shapes only. How they become JSON or Prometheus text is the business of the endpoint
modules; how they are gathered is the server's. No field here may hold a password, a token or a key:
the endpoints print what they are given.

A structure of which each process of a server has one says of each field how those of all are combined
(`combining`).

Units: every `*_ns` field is integer nanoseconds (times since the Unix epoch in UTC, `rtt_ns` a duration),
every `*_bytes` field is bytes.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field
from msgspec.structs import asdict

from headrace.conf.account_options import GLOBAL_ACCOUNT
from headrace.server.monitor.combining import Combined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from headrace.conf.account_options import AccountOptions, SubjectPermission
    from headrace.conf.options import Options
    from headrace.server.monitor.bucket import BucketStats
    from headrace.server.monitor.combining import Computed, First, Given, Max, Merged, Min, Stated, Sum
    from headrace.server.monitor.jetstream import JetStreamStats


class ConnectionState(Enum):
    """The state of the connections that `/connz` asks for."""

    OPEN = "open"
    CLOSED = "closed"
    ANY = "any"


class KindCounts(Combined, frozen=True):
    """One counter per kind of connection, as `/varz` splits slow and stale connections."""

    clients: Sum[int] = 0
    routes: Sum[int] = 0
    gateways: Sum[int] = 0
    leafs: Sum[int] = 0

    @property
    def total(self) -> int:
        return self.clients + self.routes + self.gateways + self.leafs

    def by_kind(self) -> dict[str, int]:
        """Return the counters by kind, as `/varz` shows them."""
        return asdict(self)


def _no_subscriptions() -> Sequence[SubscriptionSnapshot]:
    return ()


class LinkSnapshot(Struct, frozen=True, kw_only=True):
    """The snapshot that every kind of connection has. `rtt_ns` 0: not measured yet."""

    ip: str
    port: int
    start_ns: int
    last_activity_ns: int
    rtt_ns: int = 0
    pending_bytes: int = 0
    in_msgs: int = 0
    out_msgs: int = 0
    in_bytes: int = 0
    out_bytes: int = 0
    num_subscriptions: int = 0


class RouteSnapshot(LinkSnapshot, frozen=True, kw_only=True):
    """One connection to another server of the cluster.

    `imports` and `exports` are what the peer says of itself, None: everything. `account`: whose it is, ""
    where it is not of one alone. `subscriptions` gives what the peer's clients subscribe to.
    """

    rid: int
    remote_id: str
    remote_name: str
    did_solicit: bool
    is_configured: bool
    imports: SubjectPermission | None = None
    exports: SubjectPermission | None = None
    account: str = ""
    compression: str = ""
    subscriptions: Callable[[], Sequence[SubscriptionSnapshot]] = _no_subscriptions


class ClusterSnapshot(Combined, frozen=True, kw_only=True):
    """The cluster this server belongs to; host and port are those of its own port for other servers."""

    name: First[str]
    host: First[str]
    port: First[int]
    certificate_expires_ns: First[int | None] = None
    routes: Merged[tuple[RouteSnapshot, ...]] = ()

    @property
    def remotes(self) -> int:
        """Servers that are connected to."""
        return len({route.remote_id for route in self.routes})


class LeafSnapshot(LinkSnapshot, frozen=True, kw_only=True):
    """One leaf link. `is_spoke`: the hub is at the other end; `subjects` gives what is wanted there."""

    lid: int
    name: str
    is_spoke: bool
    is_isolated: bool
    account: str
    compression: str = ""
    subjects: Callable[[], Sequence[str]] = tuple


class LeafNodesSnapshot(Combined, frozen=True, kw_only=True):
    """The leaf links of a server; host and port are those of its port for leaf nodes, port 0 without one."""

    host: First[str]
    port: First[int]
    certificate_expires_ns: First[int | None] = None
    links: Merged[tuple[LeafSnapshot, ...]] = ()


class OCSPCacheSnapshot(Combined, frozen=True):
    """The cache of OCSP responders' answers: their number, and how often they were of use."""

    hits: Sum[int] = 0
    misses: Sum[int] = 0
    revoked: Sum[int] = 0
    good: Sum[int] = 0
    unknown: Sum[int] = 0


class MqttSnapshot(Combined, frozen=True):
    """Clients over MQTT that have a session now, and the retained messages of their accounts."""

    clients: Sum[int] = 0
    retained: Max[int] = 0


class ServerSnapshot(Combined, frozen=True, kw_only=True):
    """The values of `/varz`, without the request counts that the monitor keeps itself.

    `options` gives the limits; its secrets are never read here. Hosts and ports are what the listeners are
    really bound to (`websocket_port` and `mqtt_port` 0: there is none). `memory_bytes` is the resident set,
    `cpu_percent` of one core. `language_version` fills the field that the Go server calls `go`.
    """

    server_id: First[str]
    server_name: First[str]
    version: First[str]
    git_commit: First[str] = ""
    language_version: First[str]
    host: First[str]
    port: First[int]
    http_host: First[str] = ""
    http_port: First[int] = 0
    https_port: First[int] = 0
    options: First[Options]
    auth_required: First[bool] = False
    tls_required: First[bool] = False
    tls_verify: First[bool] = False
    tls_certificate_expires_ns: First[int | None] = None
    websocket_port: First[int] = 0
    websocket_certificate_expires_ns: First[int | None] = None
    mqtt_port: First[int] = 0
    mqtt_certificate_expires_ns: First[int | None] = None
    mqtt: Merged[MqttSnapshot | None] = None
    connect_urls: First[tuple[str, ...]] = ()
    ws_connect_urls: First[tuple[str, ...]] = ()
    start_ns: Given[int]
    now_ns: First[int]
    config_load_time_ns: Min[int]
    config_digest: First[str] = ""
    memory_bytes: Sum[int]
    cores: First[int]
    max_procs: Given[int] = 1
    cpu_percent: Sum[float]
    connections: Sum[int]
    total_connections: Sum[int]
    cluster: Merged[ClusterSnapshot | None] = None
    gateways: First[GatewaysSnapshot | None] = None
    leafnodes: Merged[LeafNodesSnapshot | None] = None
    in_msgs: Sum[int]
    in_bytes: Sum[int]
    out_msgs: Sum[int]
    out_bytes: Sum[int]
    in_client_msgs: Sum[int]
    in_client_bytes: Sum[int]
    out_client_msgs: Sum[int]
    out_client_bytes: Sum[int]
    slow_consumers: Merged[KindCounts] = field(default_factory=KindCounts)
    stale_connections: Merged[KindCounts] = field(default_factory=KindCounts)
    stalled_clients: Sum[int] = 0
    subscriptions: Sum[int]
    system_account: First[str | None] = None
    ocsp_cache: Merged[OCSPCacheSnapshot | None] = None


class SubscriptionSnapshot(Struct, frozen=True, kw_only=True):
    """One subscription; `max_msgs` is the auto-unsubscribe limit, 0 without one."""

    account: str = GLOBAL_ACCOUNT
    subject: str
    queue: str = ""
    sid: str
    msgs: int = 0
    max_msgs: int = 0
    cid: int


class ConnectionSnapshot(LinkSnapshot, frozen=True, kw_only=True):
    """One connection, open or closed; `stop_ns` and `reason` are set on closed ones.

    `subscriptions` is called only when a request asks for the list, so that a plain `/connz` of many
    connections copies none. `user` is the name that authenticated
    (an nkey's public key; never a token), and `peer_certificates` are DER, the client's own first; both are
    shown only when a request says `auth=1`, as are `account_tag` (what the account's token calls it),
    `issuer` (whose key signed the user's token) and that token's `tags`. `proxy_key`: of the trusted proxy
    that passed it on. `mqtt_client`: the client identifier of one over MQTT.
    """

    cid: int
    kind: str = "Client"
    type: str = "nats"
    stop_ns: int | None = None
    reason: str = ""
    stalls: int = 0
    name: str = ""
    lang: str = ""
    version: str = ""
    tls_version: str = ""
    tls_cipher: str = ""
    tls_first: bool = False
    peer_certificates: tuple[bytes, ...] = ()
    user: str = ""
    account: str = GLOBAL_ACCOUNT
    account_tag: str = ""
    issuer: str = ""
    tags: tuple[str, ...] = ()
    proxy_key: str = ""
    mqtt_client: str = ""
    subscriptions: Callable[[], Sequence[SubscriptionSnapshot]] = _no_subscriptions


class GatewayAccountSnapshot(Struct, frozen=True, kw_only=True):
    """The interest of one account over a gateway. `refused`: subjects that nobody there wants."""

    name: str
    mode: str
    refused: int = 0
    num_subscriptions: int = 0
    num_queue_subscriptions: int = 0
    subscriptions: tuple[SubscriptionSnapshot, ...] = ()


def _no_accounts() -> Sequence[GatewayAccountSnapshot]:
    return ()


class GatewaySnapshot(Struct, frozen=True, kw_only=True):
    """One connection to another cluster. `accounts` is called only when a request asks for them."""

    gateway: str
    is_configured: bool
    connection: ConnectionSnapshot
    accounts: Callable[[], Sequence[GatewayAccountSnapshot]] = _no_accounts


class GatewaysSnapshot(Struct, frozen=True, kw_only=True):
    """The gateways of this server; host and port are those that other clusters are told, `bound_...` its own.

    `urls`: by name of a cluster, where its servers are as far as is known.
    """

    name: str
    host: str
    port: int
    bound_host: str
    bound_port: int
    certificate_expires_ns: int | None = None
    urls: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    outbound: tuple[GatewaySnapshot, ...] = ()
    inbound: tuple[GatewaySnapshot, ...] = ()


class SublistSnapshot(Combined, frozen=True, kw_only=True):
    """Counters of the subject index; the rate is 0.0 to 1.0, the fan-outs are subscribers per match.

    `details` lists every local subscription; it is called only when `/subsz` is asked for `subs=1`.
    """

    num_subscriptions: Sum[int]
    num_cache: Sum[int] = 0
    num_inserts: Sum[int] = 0
    num_removes: Sum[int] = 0
    num_matches: Sum[int] = 0
    cache_hit_rate: Computed[float] = 0.0
    max_fanout: Max[int] = 0
    avg_fanout: Computed[float] = 0.0
    details: Merged[Callable[[], Iterable[SubscriptionSnapshot]]] = _no_subscriptions

    @classmethod
    def computed(cls, parts: Sequence[SublistSnapshot]) -> dict[str, float]:
        """Rates weigh as much as what they are rates of: matches, and those of them that were not cached."""
        matches = sum(each.num_matches for each in parts)
        hits = sum(each.cache_hit_rate * each.num_matches for each in parts)
        walks = [(1 - each.cache_hit_rate) * each.num_matches for each in parts]
        fanout = sum(each.avg_fanout * weight for each, weight in zip(parts, walks, strict=True))
        return {
            "cache_hit_rate": hits / matches if matches else 0.0,
            "avg_fanout": fanout / sum(walks) if sum(walks) else 0.0,
        }


class AccountSnapshot(Combined, frozen=True, kw_only=True):
    """One account: `options` is what it was configured as (its users are never read here) at `loaded_ns`.

    `in_msgs` and `in_bytes` are what its clients sent since the server started.
    """

    options: First[AccountOptions]
    connections: Sum[int] = 0
    leafnodes: Sum[int] = 0
    in_msgs: Sum[int] = 0
    in_bytes: Sum[int] = 0
    out_msgs: Sum[int] = 0
    out_bytes: Sum[int] = 0
    slow_consumers: Sum[int] = 0
    sublist: Merged[SublistSnapshot]
    loaded_ns: First[int]

    @property
    def name(self) -> str:
        return self.options.name


class HealthSnapshot(Combined, frozen=True):
    """The health of a server. `error` None means healthy; otherwise one line that says what is not."""

    error: Stated[str | None] = None


class MonitorSource(Protocol):
    """The server as the monitor sees it. Called on the event loop; must not block."""

    def server(self) -> ServerSnapshot:
        """The whole server now."""

    def connections(self, state: ConnectionState) -> Iterable[ConnectionSnapshot]:
        """Client connections in that state, in any order; closed ones as far as they are remembered.

        The snapshot of each is taken when it is reached, so that a caller can pause between them.
        """

    def subscriptions(self, account: str | None = None) -> SublistSnapshot:
        """Counters of the subject index, of one account or of all, and on demand the subscriptions in it."""

    def accounts(self) -> Sequence[AccountSnapshot]:
        """Return the snapshots of all accounts."""

    def health(self) -> HealthSnapshot:
        """Tell if the server can serve clients now."""

    def jetstream(self) -> JetStreamStats | None:
        """JetStream now; None where it does not run."""

    def buckets(self) -> Mapping[str, BucketStats]:
        """Return the object stores of the server's services, by `JetStream` and `Streaming`."""
