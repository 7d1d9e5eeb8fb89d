"""The options about other servers: routes of a cluster, gateways to others.

Frozen data only, defaults are the Go server's. Durations are seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from headrace import limits
from headrace.conf.keys import Flag, Keyed, key
from headrace.protocol.info import address_text
from headrace.structures import Discreet

if TYPE_CHECKING:
    from headrace.conf.account_options import SubjectPermission
    from headrace.conf.tls_options import TLSOptions


class PeerURL(Discreet, frozen=True):
    """The URL of another server: its address, and the credentials if the URL has some.

    `path`: over WebSocket.
    """

    HIDDEN = frozenset({"password"})

    host: str
    port: int
    user: str | None = None
    password: str | None = None
    scheme: str = "nats-route"
    path: str = ""

    @property
    def is_websocket(self) -> bool:
        return self.scheme in ("ws", "wss")

    def __str__(self) -> str:
        """Return the URL as it is shown: without credentials."""
        return address_text(self.host, self.port)


def parse_peer_url(text: str, usual_port: int | None = None) -> PeerURL:
    """Read the URL of a peer.

    `usual_port`: where the URL names none.

    Raises: ValueError for what names no scheme, host and port; its text has no part of the URL in it.
    """
    parts = urlsplit(text.strip())
    port = usual_port if parts.port is None else parts.port
    if not parts.scheme or not parts.hostname or not port:
        raise ValueError("it must name a scheme, a host and a port, such as nats://host:6222")
    user = None if parts.username is None else unquote(parts.username)
    password = None if parts.password is None else unquote(parts.password)
    found = PeerURL(parts.hostname, port, user, password, parts.scheme)
    return replace(found, path=parts.path.strip("/")) if found.is_websocket else found


class ClusterOptions(Keyed, frozen=True):
    """The `cluster` block. `port` 0: no routes, -1: the system chooses; `name` "": one is made up, and may
    give way.

    `accounts`: those with connections of their own. `pool_size` below 1: one connection for everything.
    `imports`: subjects whose interest is told to peers, `exports`: whose interest is taken from them; None:
    all. `ping_interval`, `ping_max` and `write_deadline` None: the server's. `write_timeout`: `close` ends a
    route that has not taken a write in `write_deadline`; otherwise only one that has taken nothing of it.
    `compression`: `off`, `accept`, `s2_fast`, `s2_better`, `s2_best`, `s2_auto`, which is one of these by the
    round trip, or `not supported`; `compression_rtts`: seconds up to which nothing, `fast`, `better` and
    `best` are meant, 0 leaves one out.
    `protocol`: `2.x` as nats-server since 2.0, `1.x` as before it, `auto` for both.
    """

    HIDDEN = frozenset({"password"})

    name: str = key(
        "",
        "Name of the cluster, the same on every server; without one it is made up",
        flag=Flag(("cluster_name",), "name", "Name of the cluster", group="Cluster"),
    )
    host: str = key(limits.DEFAULT_HOST, "Address for other servers", aliases=("net",), reload="restart")
    port: int = key(
        0,
        "Port for other servers; -1 lets the system choose, 0 turns the cluster off",
        shown_default="0",
        reload="restart",
    )
    advertise: str | None = key(
        None,
        "Address told to other servers",
        '"host:port"',
        aliases=("cluster_advertise",),
        flag=Flag(("cluster_advertise",), "host:port", "Address to tell other servers", group="Cluster"),
    )
    no_advertise: bool = key(
        False,
        "Do not tell clients about other servers, nor others about the client port",
        flag=Flag(("no_advertise",), "", "Do not tell clients about other servers", group="Cluster"),
    )
    routes: tuple[PeerURL, ...] = key(
        (),
        "Servers to connect to: `nats-route://user:password@host:port`. Any one of a cluster is enough",
        "list",
        flag=Flag(("routes",), "url, url", "Servers to connect to", group="Cluster"),
    )
    user: str | None = None
    password: str | None = None
    auth_timeout: float = limits.ROUTE_AUTH_TIMEOUT
    tls: TLSOptions | None = key(None, "TLS of routes, as above; both sides show certificates", "map")
    imports: SubjectPermission | None = None
    exports: SubjectPermission | None = None
    connect_retries: int = key(
        0,
        "How often a server that was heard of is tried again; one of `routes` always is",
        flag=Flag(("connect_retries",), "count", "How often to try to connect", group="Cluster"),
    )
    connect_backoff: bool = key(False, "Try ever less often, up to every 30s, instead of every second")
    pool_size: int = key(
        limits.ROUTE_POOL_SIZE,
        "Connections to each server, among which accounts are spread; -1: one, without a pool",
        zero_is_default=True,
    )
    accounts: tuple[str, ...] = key((), "Accounts with connections of their own")
    ping_interval: float | None = key(
        None,
        "Time between PINGs, at most 30s",
        "duration",
        shown_default="the server's",
        zero_is_default=True,
    )
    ping_max: int | None = key(
        None,
        "Unanswered PINGs; one more closes the connection",
        "integer",
        shown_default="the server's",
        zero_is_default=True,
    )
    write_deadline: float | None = key(
        None, "Time a write may take", "duration", shown_default="the server's", zero_is_default=True
    )
    write_timeout: str = key(
        "default",
        "What a write that takes longer means: `close`; `retry` or `default`: it is waited for "
        "while anything is taken",
    )
    compression: str = key(
        "accept",
        "S2: `fast` (or `true`), `better`, `best`, `auto` by the round trip; `accept` what "
        "others ask for; `off`",
        "string, true, false or map",
        spreads=True,
    )
    compression_rtts: tuple[float, ...] = limits.ROUTE_COMPRESSION_RTTS
    protocol: str = key(
        "2.x",
        "`2.x`: routes of nats-server since 2.0. `1.x`: those of the servers before it. `auto`: "
        "both, as each peer speaks. Not in nats-server",
        reload="restart",
    )

    @property
    def known_hosts(self) -> tuple[str, ...]:
        """The addresses of the servers that the configuration names."""
        return tuple(url.host for url in self.routes)


class RemoteGatewayOptions(Keyed, frozen=True):
    """The options of another cluster, or of this one, of which nothing is needed.

    `tls` None: as the block says.
    """

    name: str = key("", "Name of that cluster")
    urls: tuple[PeerURL, ...] = key((), "Several", "list")
    tls: TLSOptions | None = key(None, "TLS of connections to it", "map", shown_default="as of `gateway`")


class GatewayOptions(Keyed, frozen=True):
    """The `gateway` block. `name` is the cluster's; `port` -1: the system chooses.

    `reject_unknown`: only clusters of `gateways` may connect. `write_deadline` None: the server's;
    `write_timeout` as with routes.
    """

    HIDDEN = frozenset({"password"})

    name: str = key(
        "", "Name of the cluster, the same on every server of it; `cluster { name }` must be the same too"
    )
    host: str = key(limits.DEFAULT_HOST, "Address for other clusters", aliases=("net",))
    port: int = key(
        0, "Port for other clusters; -1 lets the system choose", shown_default="none: it must be said"
    )
    advertise: str | None = key(None, "Address told to other clusters", '"host:port"')
    user: str | None = None
    password: str | None = None
    auth_timeout: float = limits.ROUTE_AUTH_TIMEOUT
    tls: TLSOptions | None = key(None, "TLS of gateways, as above; both sides show certificates", "map")
    connect_retries: int = key(
        0, "How often a cluster that was only heard of is tried again; one of `gateways` always is"
    )
    connect_backoff: bool = key(False, "Try ever less often, up to every 30s, instead of every second")
    gateways: tuple[RemoteGatewayOptions, ...] = key(
        (), "The clusters; this one may be among them, so that one file does for all", "list"
    )
    reject_unknown: bool = key(
        False,
        "Only clusters of `gateways` may connect, and no other is reached",
        name="reject_unknown_cluster",
        aliases=("reject_unknown",),
    )
    write_deadline: float | None = key(
        None, "Time a write may take", "duration", shown_default="the server's", zero_is_default=True
    )
    write_timeout: str = key("default", "As with `cluster`")

    @property
    def known_hosts(self) -> tuple[str, ...]:
        """The addresses of the servers that the configuration names."""
        return tuple(url.host for gateway in self.gateways for url in gateway.urls)
