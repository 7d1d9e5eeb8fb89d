"""The leaf nodes of a server: their port, and connections to hubs.

Here `headrace.cluster.leafs` meets the server. INFO comes before TLS on these connections, so a session of
one that connected is there before its handshake, and the first INFO of a hub is read here. Never lives here:
the rules of leaf nodes, the server as their machine sees it (`leaf_port`), what other kinds of peers need as
well (`host`).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from functools import partial
from typing import TYPE_CHECKING

from headrace import limits
from headrace.cluster.leaf import LeafSession
from headrace.cluster.leafs import Leafs
from headrace.cluster.port import Address
from headrace.engine.reasons import CloseReason
from headrace.errors import ProtocolError, StartError
from headrace.protocol.peers import PeerInfo
from headrace.server.acceptor import first_byte, readable
from headrace.server.addresses import is_address
from headrace.server.peers.host import PeerHost, PeerTLS
from headrace.server.peers.leaf_port import LeafsPort
from headrace.server.peers.opening import DialError, connect, open_over_asyncio, open_over_epoll

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.cluster.port import Wire
    from headrace.conf.leaf_options import LeafNodeOptions, LeafRemote
    from headrace.conf.peer_options import PeerURL
    from headrace.server.monitor.source import LeafNodesSnapshot
    from headrace.server.peers.connection import PeerConnection
    from headrace.server.peers.leaf_port import LeafsServer
    from headrace.server.tls_contexts import PortTLS

    _Connected = Callable[[Wire], LeafSession | None]
    _Failed = Callable[[str | None], object]
    _Enter = Callable[[], PeerConnection[LeafSession] | None]


class LeafNodes(PeerHost[LeafSession]):
    """The leaf nodes of a server. Raises: StartError when the port cannot be used."""

    kind = "leafnode"
    tag = "lid"
    port_title = "leafnode"
    options: LeafNodeOptions

    _server: LeafsServer

    def __init__(self, server: LeafsServer, options: LeafNodeOptions) -> None:
        super().__init__(server)
        self.options = options
        self._leafs_port = LeafsPort(server, self)
        if options.port:
            self.bind(options.host, options.port)
        self.leafs = self.machine = Leafs(self._leafs_port, options)

    def _announce(self) -> None:
        log = self._server.log
        log.info("Listening for leafnode connections on %s", self.address)
        if self.options.advertise:
            log.info("Advertise address for leafnode is set to %s", self.own_url)

    def reload(self, options: LeafNodeOptions) -> None:
        """Take over other options; host and port stay as they are."""
        before, self.options = self.options, options
        self.leafs.reload(options)
        if (before.advertise, before.no_advertise) != (options.advertise, options.no_advertise):
            self.urls_changed()
        self.judge()

    def urls_changed(self) -> None:
        """Tell leaf nodes where else they can connect: addresses of this server or of its cluster changed."""
        self.leafs.urls_changed()

    def judge(self) -> None:
        """Judge the leaf nodes that are here again: the users have changed."""
        self._leafs_port.judge_again()

    def snapshot(self) -> LeafNodesSnapshot:
        """The connections as monitoring shows them."""
        from headrace.server.peers.snapshots import leafnodes_snapshot  # only who is asked loads it

        return leafnodes_snapshot(self)

    # -- accepting --------------------------------------------------------------------------------

    @property
    def _port_tls(self) -> PortTLS:
        return self.contexts.leafs

    async def _handshake(self, sock: socket.socket, address: tuple[str, int], enter: _Enter) -> None:
        tls, context = self.tls, self.accepting_context
        if tls is None or context is None:
            await super()._handshake(sock, address, enter)
            return
        connection = enter()
        if connection is None:
            sock.close()
            return
        try:
            first = tls.handshake_first
            if first is None or (first > 0 and await first_byte(self._server.loop, sock, first) is None):
                await self._server.loop.sock_sendall(sock, connection.session.greeting())
            await open_over_asyncio(
                self._server, sock, lambda: connection, context, handshake_seconds=tls.timeout
            )
        except OSError as error:
            sock.close()
            connection.error(self.handshake_error(error))
            connection.over(CloseReason.TLS_HANDSHAKE_ERROR)

    def entered(self, address: tuple[str, int]) -> PeerConnection[LeafSession] | None:
        """A leaf node connected to the WebSocket port. None: it is not wanted any more."""
        connection = self._enter(address, self.machine.accepted)
        if connection is not None:
            connection.is_of_websocket_port = True
            connection.session.is_over_websocket = True
        return connection

    # -- reaching a hub ---------------------------------------------------------------------------

    def reach(self, remote: LeafRemote, url: PeerURL, connected: _Connected, failed: _Failed) -> None:
        """Connect to a hub, as `dial` of `headrace.cluster.leaf_port.LeafPort` says."""
        self._dial(self._reach(remote, url, connected, failed))

    async def _reach(self, remote: LeafRemote, url: PeerURL, connected: _Connected, failed: _Failed) -> None:
        seconds = self.options.dial_timeout if remote.dial_timeout is None else remote.dial_timeout
        authorizer = self._server.authorizer
        if authorizer is not None and remote.account not in self._server.accounts:
            await authorizer.load((remote.account,))
        if remote.account not in self._server.accounts:
            failed(f'unable to lookup account "{remote.account}": account missing')
            return
        proxy = remote.proxy if url.is_websocket else None
        try:
            first = Address(url.host, url.port) if proxy is None else Address(proxy.host, proxy.port)
            sock, place = await connect(first, lambda *_: False, seconds)
        except DialError as error:
            failed(str(error) if proxy is None else f"failed to connect to proxy: {error}")
            return
        if url.is_websocket:
            from headrace.server.peers.leaf_websocket import (  # most hubs are reached without
                HubAttempt,
                reach,
            )

            hub = HubAttempt(remote, url, partial(self._enter, place, connected), seconds)
            try:
                await reach(self._server, sock, hub)
            except ssl.SSLError as error:
                failed(self.handshake_error(error))
            except (OSError, ProtocolError, StartError) as error:
                failed(f"Error soliciting websocket connection: {error}")
            return
        try:
            secured, seen = await self._negotiated(remote, sock)
            connection = await self._opened(
                sock, partial(self._enter, place, connected), url, remote, secured
            )
        except (OSError, ProtocolError, StartError) as error:
            sock.close()
            is_tls = isinstance(error, ssl.SSLError)
            failed(self.handshake_error(error) if is_tls and isinstance(error, OSError) else str(error))
            return
        if connection is not None and seen:
            connection.take(seen)

    async def _negotiated(self, remote: LeafRemote, sock: socket.socket) -> tuple[PeerTLS | None, bytes]:
        """Read a hub's INFO, unless TLS comes first: the handshake to do (None: no TLS), and the bytes read.

        Raises: OSError or ProtocolError when there is no INFO, StartError for certificates that are no use.
        """
        files = remote.tls.files if remote.tls is not None else None
        is_first = files is not None and files.handshake_first is not None
        seen = b""
        if not is_first:
            seen = await self._first_line(sock, remote.first_info_timeout)
            info = PeerInfo.read(seen[4:].strip())
            if remote.tls is None and not info.tls_required:
                return None, seen
        return PeerTLS(
            client_context(remote), files.timeout if files is not None else limits.TLS_TIMEOUT
        ), seen

    async def _first_line(self, sock: socket.socket, seconds: float) -> bytes:
        """The INFO that a hub begins with; nothing that follows it is read."""
        loop, line = self._server.loop, bytearray()
        try:
            async with asyncio.timeout(seconds):
                while not line.endswith(b"\n"):
                    await readable(loop, sock)
                    ahead = sock.recv(limits.LEAF_INFO_SIZE, socket.MSG_PEEK)
                    if not ahead:
                        raise ProtocolError("connection closed before INFO")
                    end = ahead.find(b"\n") + 1 or len(ahead)
                    line += await loop.sock_recv(sock, end)
                    if len(line) > limits.LEAF_INFO_SIZE:
                        raise ProtocolError("INFO is too long")
        except TimeoutError:
            raise ProtocolError("no INFO came in time") from None
        if line[:4].upper() != b"INFO":
            raise ProtocolError(f"expected INFO, got {bytes(line[:32])!r}")
        return bytes(line)

    async def _opened(
        self, sock: socket.socket, enter: _Enter, url: PeerURL, remote: LeafRemote, secured: PeerTLS | None
    ) -> PeerConnection[LeafSession] | None:
        made: list[PeerConnection[LeafSession] | None] = []

        def entered() -> PeerConnection[LeafSession] | None:
            made.append(enter())
            return made[0]

        if secured is None and self._server.ticks.poller is not None:
            open_over_epoll(self._server, sock, entered)
        else:
            context, seconds, _ = secured or (None, None, None)
            name = server_name(url, remote)
            await open_over_asyncio(
                self._server, sock, entered, context, peer_name=name, handshake_seconds=seconds
            )
        return made[0]

    # -- where leaf nodes connect to --------------------------------------------------------------

    @property
    def own_url(self) -> str:
        """The address that leaf nodes and the cluster are told to connect to; "" without a port."""
        return "" if self.listener is None else str(self.advertised)

    @property
    def own_urls(self) -> tuple[str, ...]:
        """The addresses that the cluster is told, for its leaf nodes."""
        return (self.own_url,) if self.own_url and not self.options.no_advertise else ()

    @property
    def urls(self) -> tuple[str, ...]:
        """This server's URL for leaf nodes, and those of its cluster."""
        routes = self._server.routes
        others = () if routes is None or self.options.no_advertise else routes.mesh.addresses.leafnode_urls
        return tuple(dict.fromkeys(filter(None, (self.own_url, *others))))

    @property
    def websocket_urls(self) -> tuple[str, ...]:
        """The same over WebSocket."""
        if self.listener is None or self.options.no_advertise:
            return ()
        routes, own = self._server.routes, self._server.listeners.websocket_urls
        return tuple(
            dict.fromkeys((*own, *(routes.mesh.addresses.ws_connect_urls if routes is not None else ())))
        )


def client_context(remote: LeafRemote) -> ssl.SSLContext:
    """Return the TLS context for connections to a hub. Raises: StartError for files that cannot be used."""
    from headrace.server import tls
    from headrace.server.handshakes import LEAF_NODE

    given = remote.tls
    if given is not None and given.files is not None:
        context: ssl.SSLContext = tls.client_context(given.files, LEAF_NODE)
    else:
        context = tls.plain_client_context()
    if given is not None and given.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def server_name(url: PeerURL, remote: LeafRemote) -> str:
    """The name in a hub's certificate: that of its URL, or, for an address, of the first URL with a name."""
    if not is_address(url.host):
        return url.host
    return next((each.host for each in remote.urls if not is_address(each.host)), url.host)
