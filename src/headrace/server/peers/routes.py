"""The routes of a server: the cluster's port, connections to its peers, and what their mesh has to be told.

Here a mesh (`headrace.cluster.mesh`) meets sockets, the clock and the accounts. Never lives here: the rules
of routes.
"""

from __future__ import annotations

import asyncio
import platform
import random
from functools import partial
from time import monotonic_ns
from typing import TYPE_CHECKING, Final

import headrace
from headrace.cluster.mesh import Mesh
from headrace.errors import StartError
from headrace.protocol import nkeys
from headrace.protocol.info import COMPATIBLE_VERSION
from headrace.protocol.nuid import new_nuid
from headrace.protocol.peers import ROUTE_PROTOCOL, PeerInfo
from headrace.server import passwords
from headrace.server.listener import listen
from headrace.server.peers.addresses import is_wildcard, machine_addresses, reachable
from headrace.server.peers.connection import PeerConnection
from headrace.server.peers.dialing import DialError, connect
from headrace.server.peers.listener import PeerListener
from headrace.server.peers.opening import open_over_asyncio, open_over_epoll

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine, Iterator

    from headrace.cluster.port import Address, Wire
    from headrace.cluster.route import RouteSession
    from headrace.conf.peer_options import ClusterOptions
    from headrace.engine.interest import Interest
    from headrace.engine.link import Router
    from headrace.server.monitor.source import ClusterSnapshot
    from headrace.server.server import Server

    _Connected = Callable[[Wire], RouteSession | None]
    _Failed = Callable[[str | None], object]


class Routes:
    """`connections`: all that are open, also those whose handshake goes on.

    Raises: StartError when the port cannot be used, ConfigError for permissions that are no subjects.
    """

    def __init__(self, server: Server, options: ClusterOptions) -> None:
        self._server = server
        self.options = options
        self.connections: Final[set[PeerConnection]] = set()
        self._news = asyncio.Event()
        self.slow_consumers = 0
        self.stale_connections = 0
        try:
            self.listener = PeerListener(server, self, listen(options.host, options.port))
        except StartError as error:
            raise StartError(f"Unable to listen for cluster connections: {error}") from error
        self.mesh = Mesh(self, options, server.accounts.system)

    def start(self) -> None:
        """Accept, and reach the peers that are configured."""
        server = self._server
        where = f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
        server.log.info("Listening for route connections on %s", where)
        self.listener.start()
        server.accounts.followers.append(self.mesh.accounts_changed)
        self.mesh.start()

    # -- facts ------------------------------------------------------------------------------------

    @property
    def host(self) -> str:
        """The address the port is bound to."""
        return self.listener.host

    @property
    def port(self) -> int:
        return self.listener.port

    @property
    def write_deadline(self) -> float:
        """Seconds."""
        own = self.options.write_deadline
        return self._server.options.write_deadline if own is None else own

    @property
    def connect_urls(self) -> tuple[str, ...]:
        """Where clients reach this server and its peers; none where that is not to be told."""
        if self.options.no_advertise:
            return ()
        own = () if self._server.is_lame_duck else self._own_urls()
        return tuple(dict.fromkeys((*own, *self.mesh.connect_urls)))

    def client_info(self) -> dict[str, object]:
        """What INFO says to clients of the cluster."""
        name, urls = self.mesh.name, self.connect_urls
        return {
            "cluster": name.text,
            **({"cluster_dynamic": True} if name.is_dynamic else {}),
            **({"connect_urls": list(urls)} if urls else {}),
        }

    def snapshot(self) -> ClusterSnapshot:
        """The cluster as monitoring shows it."""
        from headrace.server.peers.pictures import cluster_snapshot  # only who is asked loads it

        return cluster_snapshot(self, self._server.contexts.routes_expires_ns)

    def _own_urls(self) -> tuple[str, ...]:
        server = self._server
        host, port = server.advertised_address
        return reachable(host, port)

    async def joined(self, peers: int, *, seconds: float) -> None:
        """Until so many peers are connected. Raises: TimeoutError."""
        async with asyncio.timeout(seconds):
            while len({session.remote_id for session in self.mesh.routes()}) < peers:
                await self._news.wait()

    # -- other options ----------------------------------------------------------------------------

    def reload(self, options: ClusterOptions) -> None:
        """Takes over other options of the same cluster; host and port stay as they are."""
        before, self.options = self.options, options
        self.mesh.reload(options)
        if before.no_advertise != options.no_advertise:
            self.peers_changed()

    # -- connections ------------------------------------------------------------------------------

    def accepted(
        self, sock: socket.socket, address: tuple[str, int]
    ) -> Coroutine[object, object, None] | None:
        """A server connected; what is to be done about it, unless that is done already."""
        enter = partial(self._enter, address, self.mesh.accepted)
        if self._server.contexts.routes is None and self._server.poller is not None:
            open_over_epoll(self._server, sock, enter)
            return None
        return self._handshake(sock, address, enter)

    async def _handshake(
        self, sock: socket.socket, address: tuple[str, int], enter: Callable[[], PeerConnection | None]
    ) -> None:
        try:
            await open_over_asyncio(
                self._server,
                sock,
                enter,
                self._server.contexts.routes,
                handshake_seconds=self._handshake_seconds,
            )
        except OSError as error:
            from headrace.server.tls import failure

            text = f"TLS route handshake error: {failure(error)}"
            if self._server.log_limits.admits(text, address[0]):
                self._server.log.error("%s:%d - %s", *address[:2], text)

    @property
    def _handshake_seconds(self) -> float | None:
        return self.options.tls.timeout if self.options.tls is not None else None

    def _enter(self, address: tuple[str, int], begin: _Connected) -> PeerConnection | None:
        connection = PeerConnection(self._server, self, address)
        session = begin(connection)
        if session is None:
            return None
        connection.session = session
        session.link.traced = self._server.options.trace
        self.connections.add(connection)
        return connection

    def dial(self, address: Address, connected: _Connected, failed: _Failed) -> None:
        """As `headrace.cluster.port.Port` says."""
        self._server.run(self._dial(address, connected, failed))

    async def _dial(self, address: Address, connected: _Connected, failed: _Failed) -> None:
        server = self._server
        try:
            sock, place = await connect(address, self._is_own)
        except DialError as error:
            failed(str(error) or None)
            return
        enter = partial(self._enter, place, connected)
        try:
            if server.contexts.routes_begun is None and server.poller is not None:
                open_over_epoll(server, sock, enter)
            else:
                await open_over_asyncio(
                    server,
                    sock,
                    enter,
                    server.contexts.routes_begun,
                    peer_name=address.host,
                    handshake_seconds=self._handshake_seconds,
                )
        except OSError as error:
            from headrace.server.tls import failure

            sock.close()
            failed(f"TLS route handshake error: {failure(error)}")

    def _is_own(self, host: str, port: int) -> bool:
        """Whether that is the port of this server itself."""
        if port != self.port:
            return False
        return host in machine_addresses() if is_wildcard(self.host) else host == self.host

    # -- what the mesh is given -------------------------------------------------------------------

    @property
    def router(self) -> Router:
        return self._server.router

    @property
    def max_payload(self) -> int:
        return self._server.options.max_payload

    @property
    def max_control_line(self) -> int:
        return self._server.options.max_control_line

    @property
    def ping_interval(self) -> float:
        return self._server.options.ping_interval

    @property
    def ping_max(self) -> int:
        return self._server.options.ping_max

    def identity(self) -> PeerInfo:
        server, options = self._server, self.options
        host, port = self.host, self.port
        if options.advertise:
            from headrace.conf.listen import advertised

            host, port = advertised(options.advertise, port)
        jetstream = server.options.jetstream
        return PeerInfo(
            server_id=server.server_id,
            server_name=server.name,
            version=COMPATIBLE_VERSION,
            proto=ROUTE_PROTOCOL,
            git_commit=f"headrace-{headrace.__version__}",
            go=f"python{platform.python_version()}",
            host=host,
            port=port,
            ip=f"nats-route://{host}:{port}/" if options.advertise else "",
            headers=not server.options.no_header_support,
            auth_required=options.user is not None,
            tls_required=options.tls is not None,
            tls_verify=options.tls is not None,
            max_payload=server.options.max_payload,
            jetstream=jetstream is not None,
            domain=jetstream.domain if jetstream is not None else "",
            connect_urls=() if server.is_lame_duck else self._own_urls(),
            ldm=server.is_lame_duck,
        )

    def now_ns(self) -> int:
        return monotonic_ns()

    def call_later(self, seconds: float, call: Callable[[], object]) -> asyncio.TimerHandle:
        return self._server.loop.call_later(seconds, call)

    def new_nonce(self) -> str:
        return nkeys.new_nonce().decode()

    def new_name(self) -> str:
        return new_nuid()

    def random(self) -> float:
        return random.random()

    def wake(self) -> None:
        self._server.after_tick()

    def account_names(self) -> Iterator[str]:
        return (account.name for account in self._server.accounts)

    def interest(self, account: str) -> Interest | None:
        accounts = self._server.accounts
        return accounts[account].interest if account in accounts else None

    def matches(self, stored: str, given: str) -> bool:
        return passwords.matches(stored, given)

    def peers_changed(self) -> None:
        """Clients hear where else they can connect."""
        self._news.set()
        self._news.clear()
        self._server.renew_info()
        self._server.tell_clients()

    def log(self, level: int, text: str) -> None:
        self._server.log.log(level, "%s", text)
