"""The routes of a server: the cluster's port, connections to its peers, and the server as their mesh sees it.

Here a mesh (`headrace.cluster.mesh`) meets the server. Never lives here: the rules of routes, and what other
kinds of peers need as well (`host`, `machine_port`).
"""

from __future__ import annotations

import asyncio
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from headrace import limits
from headrace.cluster.mesh import Mesh
from headrace.cluster.route import RouteSession
from headrace.errors import StartError
from headrace.server.addresses import reachable
from headrace.server.peers.host import PeerHost, PeerTLS
from headrace.server.peers.machine_port import MachinePort

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.cluster.port import Address, Wire
    from headrace.conf.bucket_options import BucketOptions
    from headrace.conf.peer_options import ClusterOptions
    from headrace.protocol.peers import PeerInfo
    from headrace.server.monitor.source import ClusterSnapshot
    from headrace.server.peers.port import PeersServer
    from headrace.server.tls_contexts import PortTLS

    class _Leafs(Protocol):
        @property
        def own_urls(self) -> tuple[str, ...]: ...
        def urls_changed(self) -> None:
            """Tell leaf nodes where else they can connect."""

    class _AccountServices(Protocol):
        def hear_anew(self, change: Callable[[], object]) -> None:
            """Call `change` while no service listens to requests."""

    class _Clients(Protocol):
        def tell(self) -> None:
            """Send INFO as it is now to those who take it at any time."""

    class RoutesServer(PeersServer, Protocol):
        """A server, as its routes see it."""

        @property
        def is_lame_duck(self) -> bool: ...
        @property
        def start_ns(self) -> int: ...
        @property
        def serving_since(self) -> int: ...
        @property
        def clients(self) -> _Clients: ...
        @property
        def leafs(self) -> _Leafs | None: ...
        @property
        def account_services(self) -> _AccountServices | None: ...

        def cluster_changed(self) -> None:
            """Take over another name of the cluster, or other members."""

        def give_up(self, reason: str) -> None:
            """End the server: it cannot go on."""


class Routes(PeerHost[RouteSession]):
    """The routes of a server.

    Raises: StartError when the port cannot be used, ConfigError for permissions that are no subjects.
    """

    kind = "route"
    tag = "rid"
    port_title = "cluster"
    options: ClusterOptions

    _server: RoutesServer

    def __init__(self, server: RoutesServer, options: ClusterOptions) -> None:
        super().__init__(server)
        self.options = options
        self.when_left: Final[list[Callable[[str], object]]] = []
        """The functions to call with the server_id of a peer that has no connection here any more."""
        self._mesh_port = RoutesPort(server, self)
        self.bind(options.host, options.port)
        self.mesh = self.machine = Mesh(self._mesh_port, options, server.accounts.system)

    def _announce(self) -> None:
        self._server.log.info("Listening for route connections on %s", self.address)

    async def look(self) -> None:
        """Wait until it is known that no other server of the cluster serves what only one can.

        After `start`. Raises: StartError when one does, and stays.
        """
        self._mesh_port.looking = looking = self._server.loop.create_future()
        self.mesh.duplicates.look(lambda: None if looking.done() else looking.set_result(None))
        try:
            async with asyncio.timeout(limits.SERVING_LOOK):
                await looking
        except TimeoutError:
            self._server.log.warning("Not all servers of the cluster could be asked what they serve")
        finally:
            self.mesh.duplicates.stop_looking()
            self._mesh_port.looking = None

    # -- facts ------------------------------------------------------------------------------------

    @property
    def cluster_name(self) -> str:
        """The name that the servers of the cluster have agreed on."""
        return self.mesh.name.text

    @property
    def connect_urls(self) -> tuple[str, ...]:
        """The addresses at which clients reach this server and its peers; none where they are not told."""
        if self.options.no_advertise:
            return ()
        own = () if self._server.is_lame_duck else self.own_urls()
        return tuple(dict.fromkeys((*own, *self.mesh.addresses.connect_urls)))

    @property
    def ws_connect_urls(self) -> tuple[str, ...]:
        """The addresses at which clients over WebSocket reach this server and its peers."""
        if self.options.no_advertise:
            return ()
        own = () if self._server.is_lame_duck else self._server.listeners.websocket_urls
        return tuple(dict.fromkeys((*own, *self.mesh.addresses.ws_connect_urls)))

    def client_info(self) -> dict[str, object]:
        """The fields of INFO about the cluster, for clients."""
        name, urls = self.mesh.name, self.connect_urls
        return {
            "cluster": name.text,
            **({"cluster_dynamic": True} if name.is_dynamic else {}),
            **({"connect_urls": list(urls)} if urls else {}),
        }

    def snapshot(self) -> ClusterSnapshot:
        """The cluster as monitoring shows it."""
        from headrace.server.peers.snapshots import cluster_snapshot  # only who is asked loads it

        return cluster_snapshot(self.cluster_name, self)

    def own_urls(self) -> tuple[str, ...]:
        """The addresses at which clients reach this server."""
        server = self._server
        host, port = server.listeners.advertised_address
        return reachable(host, port)

    async def joined(self, peers: int, *, seconds: float) -> None:
        """Wait until so many peers are connected. Raises: TimeoutError."""
        async with asyncio.timeout(seconds):
            while len({session.remote_id for session in self.mesh.routes()}) < peers:
                await self._mesh_port.news.wait()

    # -- other options ----------------------------------------------------------------------------

    def reload(self, options: ClusterOptions) -> None:
        """Take over other options of the same cluster; host and port stay as they are."""
        before, self.options = self.options, options
        self.mesh.reload(options)
        if before.no_advertise != options.no_advertise:
            self._mesh_port.peers_changed()

    @property
    def _port_tls(self) -> PortTLS:
        return self.contexts.routes

    @property
    def _told_host(self) -> str:
        return self.host  # peers know from where a server with a wildcard address connects


def _url(bucket: BucketOptions | None) -> str:
    return "" if bucket is None else bucket.url


class RoutesPort(MachinePort[RouteSession]):
    """The server as its mesh sees it: `headrace.cluster.port.Port`.

    `news`: set for a moment whenever something has changed. `looking`: done when it is known whether another
    server of the cluster serves what only one can; None: nobody waits for that.
    """

    _server: RoutesServer
    _host: Routes

    def __init__(self, server: RoutesServer, host: Routes) -> None:
        super().__init__(server, host)
        self.news: Final = asyncio.Event()
        self.looking: asyncio.Future[None] | None = None

    def identity(self) -> PeerInfo:
        server, host, address = self._server, self._host, self._host.advertised
        jetstream, gateways = server.options.jetstream, server.gateways
        streaming = server.options.streaming
        return replace(
            self._identity(address, has_users=host.options.user is not None),
            ip=f"nats-route://{address.host}:{address.port}/" if host.options.advertise else "",
            jetstream=jetstream is not None,
            domain=jetstream.domain if jetstream is not None else "",
            bucket=_url(jetstream.bucket) if jetstream is not None else "",
            streaming=server.options.streaming_subject,
            streaming_bucket=_url(streaming.bucket) if streaming is not None else "",
            serving_ns=monotonic_ns() - server.serving_since if server.serving_since else 0,
            started_ns=server.start_ns,
            connect_urls=() if server.is_lame_duck else host.own_urls(),
            ws_connect_urls=() if server.is_lame_duck else server.listeners.websocket_urls,
            ldm=server.is_lame_duck,
            gateway_url=gateways.machine.url if gateways is not None else "",
            leafnode_urls=server.leafs.own_urls if server.leafs is not None else (),
        )

    def dial(
        self,
        address: Address,
        connected: Callable[[Wire], RouteSession | None],
        failed: Callable[[str | None], object],
    ) -> None:
        context, tls = self._host.contexts.routes_begun, self._host.tls
        secured = PeerTLS(context, tls.timeout) if context is not None and tls is not None else None
        self._host.connect(address, connected, failed, secured)

    def wake(self) -> None:
        """End a tick soon, as `ClusterHost` says; whoever waits for peers looks again, too."""
        super().wake()
        self.news.set()
        self.news.clear()

    def left(self, server_id: str) -> None:
        for hear in self._host.when_left:
            hear(server_id)

    def must_end(self, reason: str) -> None:
        if self.looking is None:
            self._server.give_up(reason)
        elif not self.looking.done():
            self.looking.set_exception(StartError(reason))

    def hear_anew(self, change: Callable[[], object]) -> None:
        hosted = self._server.account_services
        if hosted is None:
            change()
        else:
            hosted.hear_anew(change)

    def peers_changed(self) -> None:
        """Tell clients and leaf nodes where else they can connect."""
        self._server.cluster_changed()
        self._server.clients.tell()
        if self._server.leafs is not None:
            self._server.leafs.urls_changed()
