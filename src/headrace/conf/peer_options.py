"""What the configuration says of other servers: routes of a cluster, gateways to others.

Frozen data only, defaults are the Go server's. Durations are seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from headrace import limits
from headrace.structures import Discreet

if TYPE_CHECKING:
    from headrace.conf.options import SubjectPermission
    from headrace.conf.tls_options import TLSOptions


def address_text(host: str, port: int) -> str:
    """`host:port`, as URLs and log lines have it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class PeerURL(Discreet, frozen=True):
    """Where another server listens, and who to be there, where the URL says that. `path`: over WebSocket."""

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
        """Where it is, as it is shown: without credentials."""
        return address_text(self.host, self.port)


def parse_peer_url(text: str, usual_port: int | None = None) -> PeerURL:
    """`usual_port`: where the URL names none.

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


class ClusterOptions(Discreet, frozen=True):
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

    name: str = ""
    host: str = limits.DEFAULT_HOST
    port: int = 0
    advertise: str | None = None
    no_advertise: bool = False
    routes: tuple[PeerURL, ...] = ()
    user: str | None = None
    password: str | None = None
    auth_timeout: float = limits.ROUTE_AUTH_TIMEOUT
    tls: TLSOptions | None = None
    imports: SubjectPermission | None = None
    exports: SubjectPermission | None = None
    connect_retries: int = 0
    connect_backoff: bool = False
    pool_size: int = limits.ROUTE_POOL_SIZE
    accounts: tuple[str, ...] = ()
    ping_interval: float | None = None
    ping_max: int | None = None
    write_deadline: float | None = None
    write_timeout: str = "default"
    compression: str = "accept"
    compression_rtts: tuple[float, ...] = limits.ROUTE_COMPRESSION_RTTS
    protocol: str = "2.x"

    @property
    def known_hosts(self) -> tuple[str, ...]:
        """Where the servers are that the configuration names."""
        return tuple(url.host for url in self.routes)


class RemoteGatewayOptions(Struct, frozen=True):
    """Another cluster, or this one, of which nothing is needed. `tls` None: as the block says."""

    name: str = ""
    urls: tuple[PeerURL, ...] = ()
    tls: TLSOptions | None = None


class GatewayOptions(Discreet, frozen=True):
    """The `gateway` block. `name` is the cluster's; `port` -1: the system chooses.

    `reject_unknown`: only clusters of `gateways` may connect. `write_deadline` None: the server's;
    `write_timeout` as with routes.
    """

    HIDDEN = frozenset({"password"})

    name: str = ""
    host: str = limits.DEFAULT_HOST
    port: int = 0
    advertise: str | None = None
    user: str | None = None
    password: str | None = None
    auth_timeout: float = limits.ROUTE_AUTH_TIMEOUT
    tls: TLSOptions | None = None
    connect_retries: int = 0
    connect_backoff: bool = False
    gateways: tuple[RemoteGatewayOptions, ...] = ()
    reject_unknown: bool = False
    write_deadline: float | None = None
    write_timeout: str = "default"

    @property
    def known_hosts(self) -> tuple[str, ...]:
        """Where the servers are that the configuration names."""
        return tuple(url.host for gateway in self.gateways for url in gateway.urls)
