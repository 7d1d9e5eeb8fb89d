"""The host of routes, leaf nodes or gateways of a server: their port, their connections, their options.

A host is where a machine of `headrace.cluster` meets sockets. Never lives here: the server as that machine
sees it (`machine_port`), what one kind of peer has and others have not.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple

from headrace import limits
from headrace.cluster.port import Address, SessionT
from headrace.errors import StartError
from headrace.server.acceptor import Acceptor
from headrace.server.addresses import is_wildcard, machine_addresses
from headrace.server.listener import bind
from headrace.server.peers.connection import PeerConnection
from headrace.server.peers.opening import DialError, connect, open_over_asyncio, open_over_epoll

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable, Coroutine

    from headrace.cluster.port import Machine, Wire
    from headrace.conf.leaf_options import LeafNodeOptions
    from headrace.conf.peer_options import ClusterOptions, GatewayOptions
    from headrace.conf.tls_options import TLSOptions
    from headrace.server.peers.port import PeersServer
    from headrace.server.port import Runtime
    from headrace.server.tls_contexts import Contexts, PortTLS

_LOOK: Final = 0.001


class PeerTLS(NamedTuple):
    """The TLS handshake of a connection that is begun here: its context, and the seconds it may take.

    `name`: what the certificate must have; None: the host that is connected to.
    """

    context: ssl.SSLContext
    seconds: float | None
    name: str | None = None


class PeerHost(ABC, Generic[SessionT]):
    """The host of one kind of peers. `connections`: all that are open, also those whose handshake goes on.

    A subclass says by `kind`, `tag` and `port_title` how its log lines name it.
    """

    kind: ClassVar[str]
    """`route`, as in `TLS route handshake error`."""
    tag: ClassVar[str]
    """`rid`, as in the heads of lines of a connection."""
    port_title: ClassVar[str]
    """`cluster`, as in `Unable to listen for cluster connections`."""

    options: ClusterOptions | GatewayOptions | LeafNodeOptions
    """The options, as they are now."""
    machine: Machine[SessionT]
    """The machine that decides; set once there is a port, or none is wanted."""

    def __init__(self, server: PeersServer) -> None:
        self._server = server
        self.connections: Final[set[PeerConnection[SessionT]]] = set()
        self.slow_consumers = 0
        self.stale_connections = 0
        self._dials: Final[set[asyncio.Task[None]]] = set()
        self.listener: PeerListener | None = None

    @property
    def contexts(self) -> Contexts:
        """The TLS contexts of the server, as they are now: a reload replaces them."""
        return self._server.tls.contexts

    def bind(self, host: str, port: int) -> None:
        """Bind the port; it listens from `listener.start` on. Raises: StartError."""
        try:
            self.listener = PeerListener(self._server, self, bind(host, port), host)
        except StartError as error:
            raise StartError(f"Unable to listen for {self.port_title} connections: {error}") from error

    def start(self) -> None:
        """Accept, and reach the servers that are configured."""
        if self.listener is not None:
            self._announce()
            self.listener.start()
        self._server.accounts.follow(self.machine.accounts_changed)
        self.machine.start()

    async def reached(self) -> None:
        """Wait until each configured server was tried once, and those that were there are known here.

        Or until `limits.FIRST_REACH` is over: who does not answer is not waited for.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(limits.FIRST_REACH):
                while self._dials:
                    await asyncio.wait(self._dials)
                # A machine tells nobody; it takes milliseconds, once a start.
                while not all(each.session.is_registered for each in self.connections):  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK)

    def stop(self) -> None:
        """Close all connections, and begin no more."""
        self.machine.stop()

    # -- what a kind of peer says of itself -------------------------------------------------------

    @abstractmethod
    def _announce(self) -> None:
        """Log where the port is, before it accepts."""

    @property
    @abstractmethod
    def _port_tls(self) -> PortTLS:
        """The TLS context and certificate of the port, as they are now."""

    # -- facts ------------------------------------------------------------------------------------

    @property
    def tls(self) -> TLSOptions | None:
        """The TLS options of the port, and of connections begun where they have none of their own."""
        return self.options.tls

    @property
    def accepting_context(self) -> ssl.SSLContext | None:
        """The TLS context for accepted connections, as it is now; None: without TLS."""
        return self._port_tls.context

    @property
    def certificate_expires_ns(self) -> int | None:
        """The end of the port's certificate, in nanoseconds since the Unix epoch."""
        return self._port_tls.expires_ns

    @property
    def closes_late(self) -> bool:
        """True if a peer that has not taken a write in time is closed, although it takes something."""
        return self.options.write_timeout == "close"

    @property
    def host(self) -> str:
        """The address of the port as it is configured, also a name. Raises: RuntimeError without a port."""
        return self._bound.host

    @property
    def port(self) -> int:
        return self._bound.port

    @property
    def address(self) -> Address:
        """Host and port as they are bound. Raises: RuntimeError without a port."""
        return Address(self.host, self.port)

    @property
    def url(self) -> str:
        """The URL at which a server on this machine connects. Raises: RuntimeError without a port."""
        return f"{'nats' if self.tls is None else 'tls'}://{Address(self._bound.local_host, self.port)}"

    @property
    def advertised(self) -> Address:
        """The address that others are told to connect to."""
        if not self.options.advertise:
            return Address(self._told_host, self.port)
        from headrace.conf.listen import advertised

        return Address(*advertised(self.options.advertise, self.port))

    @property
    def _told_host(self) -> str:
        """The host that others are told where nothing is advertised."""
        return machine_addresses()[0] if is_wildcard(self.host) else self.host

    @property
    def _bound(self) -> PeerListener:
        if self.listener is None:
            raise RuntimeError(f"there is no port for {self.port_title} connections")
        return self.listener

    @property
    def write_deadline(self) -> float:
        """Seconds."""
        own = self.options.write_deadline
        return self._server.options.write_deadline if own is None else own

    # -- connections ------------------------------------------------------------------------------

    def registered_connections(self) -> list[PeerConnection[SessionT]]:
        """The connections whose handshake is over, in the order they came."""
        found = (each for each in self.connections if each.session.is_registered)
        return sorted(found, key=lambda each: each.number)

    def accepted(
        self, sock: socket.socket, address: tuple[str, int]
    ) -> Coroutine[object, object, None] | None:
        """A server connected; what is to be done about it, unless that is done already."""
        enter = partial(self._enter, address, self.machine.accepted)
        if self.accepting_context is None and self._server.ticks.poller is not None:
            open_over_epoll(self._server, sock, enter)
            return None
        return self._handshake(sock, address, enter)

    async def _handshake(
        self,
        sock: socket.socket,
        address: tuple[str, int],
        enter: Callable[[], PeerConnection[SessionT] | None],
    ) -> None:
        try:
            await open_over_asyncio(
                self._server,
                sock,
                enter,
                self.accepting_context,
                handshake_seconds=self.tls.timeout if self.tls is not None else None,
            )
        except OSError as error:
            text = self.handshake_error(error)
            if self._server.log_limits.admits(text, address[0]):
                self._server.log.error("%s:%d - %s", *address[:2], text)

    def handshake_error(self, error: OSError) -> str:
        """The log line about a handshake that failed."""
        from headrace.server.tls import failure

        return f"TLS {self.kind} handshake error: {failure(error)}"

    def _enter(
        self, address: tuple[str, int], begin: Callable[[Wire], SessionT | None]
    ) -> PeerConnection[SessionT] | None:
        connection: PeerConnection[SessionT] = PeerConnection(self._server, self, address)
        session = begin(connection)
        if session is None:
            return None
        connection.session = session
        session.link.traced = self._server.options.trace
        self.connections.add(connection)
        return connection

    def connect(
        self,
        address: Address,
        connected: Callable[[Wire], SessionT | None],
        failed: Callable[[str | None], object],
        secured: PeerTLS | None,
    ) -> None:
        """Connect, with TLS if `secured`: one of the two is called, later and once.

        `failed` gets the reason as text, None when all addresses of that name are this server's own.
        """
        self._dial(self._connect(address, connected, failed, secured))

    def _dial(self, work: Coroutine[object, object, None]) -> None:
        task = self._server.tasks.run(work)
        self._dials.add(task)
        task.add_done_callback(self._dials.discard)

    async def _connect(
        self,
        address: Address,
        connected: Callable[[Wire], SessionT | None],
        failed: Callable[[str | None], object],
        secured: PeerTLS | None,
    ) -> None:
        server = self._server
        try:
            sock, place = await connect(address, self._is_own)
        except DialError as error:
            failed(str(error) or None)
            return
        enter = partial(self._enter, place, connected)
        try:
            if secured is None and server.ticks.poller is not None:
                open_over_epoll(server, sock, enter)
            else:
                context, seconds, name = secured or (None, None, None)
                await open_over_asyncio(
                    server, sock, enter, context, peer_name=name or address.host, handshake_seconds=seconds
                )
        except OSError as error:
            sock.close()
            failed(self.handshake_error(error))

    def _is_own(self, host: str, port: int) -> bool:
        """True for the address of this server's own port."""
        if self.listener is None or port != self.port:
            return False
        return host in machine_addresses() if is_wildcard(self.host) else host == self.listener.bound_host


class PeerListener(Acceptor):
    """Hands each connection to the host of its kind."""

    def __init__(self, server: Runtime, peers: PeerHost[Any], sock: socket.socket, host: str) -> None:
        super().__init__(server, sock, host)
        self._peers = peers

    def _open(self, sock: socket.socket, address: tuple[str, int]) -> None:
        work = self._peers.accepted(sock, address)
        if work is not None:
            self._run(work, sock)
