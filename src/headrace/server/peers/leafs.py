"""The leaf nodes of a server: their port, connections to hubs, and who they are let in as.

Here `headrace.cluster.leafs` meets the server. INFO comes before TLS on these connections, so a session of
one that connected is there before its handshake, and the first INFO of a hub is read here. Never lives here:
the rules of leaf nodes, what other kinds of peers need as well (`host`).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from functools import partial
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from headrace import limits
from headrace.cluster.leaf import LeafSession
from headrace.cluster.leafs import Leafs
from headrace.cluster.port import Address
from headrace.engine.reasons import CloseReason
from headrace.errors import ProtocolError, StartError
from headrace.protocol.info import JETSTREAM_API_LEVEL
from headrace.protocol.peers import PeerInfo
from headrace.protocol.user_seeds import SeedError, prove, read_credentials
from headrace.server.acceptor import first_byte, readable
from headrace.server.account_membership import UNLIMITED, tighter
from headrace.server.peers.addresses import is_address
from headrace.server.peers.dialing import DialError, connect
from headrace.server.peers.host import PeerHost, Secured
from headrace.server.peers.leaf_users import LeafApplicant
from headrace.server.peers.opening import open_over_asyncio, open_over_epoll

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.cluster.leaf_port import LeafGrant
    from headrace.cluster.port import Wire
    from headrace.conf.leaf_options import LeafNodeOptions, LeafRemote
    from headrace.conf.peer_options import PeerURL
    from headrace.core.grants import TokenIdentity
    from headrace.protocol.peers import LeafConnect
    from headrace.server.monitor.source import LeafNodesSnapshot
    from headrace.server.peers.connection import PeerConnection
    from headrace.server.peers.leaf_users import LeafUsersServer
    from headrace.server.peers.port import PeersServer
    from headrace.server.tls_contexts import PortTLS

    class LeafsServer(PeersServer, LeafUsersServer, Protocol):
        """A server, as its leaf nodes see it."""

        @property
        def cluster_name(self) -> str | None: ...

    _Connected = Callable[[Wire], LeafSession | None]
    _Failed = Callable[[str | None], object]
    _Enter = Callable[[], PeerConnection[LeafSession] | None]

_ANSWERS = frozenset((b"_GR_.>", b"$GR.*.>"))
"""Where answers to requests of other clusters are published."""


class LeafNodes(PeerHost[LeafSession]):
    """Raises: StartError when the port cannot be used."""

    kind = "leafnode"
    tag = "lid"
    port_title = "leafnode"
    options: LeafNodeOptions

    _server: LeafsServer

    def __init__(self, server: LeafsServer, options: LeafNodeOptions) -> None:
        super().__init__(server)
        self.options = options
        self._expiries: dict[LeafSession, asyncio.TimerHandle] = {}
        self._tokens: dict[LeafSession, TokenIdentity] = {}
        self._admitted: dict[LeafSession, tuple[bytes, LeafGrant]] = {}
        if options.port:
            self.bind(options.host, options.port)
        self.leafs = self.machine = Leafs(self, options)

    def _announce(self) -> None:
        log = self._server.log
        log.info("Listening for leafnode connections on %s", self.address)
        if self.options.advertise:
            log.info("Advertise address for leafnode is set to %s", self._own_url)

    def reload(self, options: LeafNodeOptions) -> None:
        """Takes over other options; host and port stay as they are."""
        before, self.options = self.options, options
        self.leafs.reload(options)
        if (before.advertise, before.no_advertise) != (options.advertise, options.no_advertise):
            self.leafs.urls_changed()
        self.judge()

    def judge(self) -> None:
        """Users are others than before: who would not be let in as who it is now is sent away.

        It may come back; a leaf node does.
        """
        for session, (text, grant) in list(self._admitted.items()):
            self._server.tasks.run(self._judge(session, text, grant))

    async def _judge(self, session: LeafSession, text: bytes, grant: LeafGrant) -> None:
        found = await LeafApplicant(self._server, self.options, session).decide(text)
        if session in self._admitted and found != grant:
            if found is None:
                session.reject(grant.user)
            else:
                session.close(CloseReason.CLIENT_CLOSED)

    def snapshot(self) -> LeafNodesSnapshot:
        """The connections as monitoring shows them."""
        from headrace.server.peers.pictures import leafnodes_snapshot  # only who is asked loads it

        return leafnodes_snapshot(self)

    # -- accepting --------------------------------------------------------------------------------

    @property
    def _port_tls(self) -> PortTLS:
        return self._server.tls.contexts.leafs

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

    def dial(self, remote: LeafRemote, url: PeerURL, connected: _Connected, failed: _Failed) -> None:
        """As `headrace.cluster.leaf_port.LeafPort` says."""
        self._dial(self._reach(remote, url, connected, failed))

    async def _reach(self, remote: LeafRemote, url: PeerURL, connected: _Connected, failed: _Failed) -> None:
        seconds = self.options.dial_timeout if remote.dial_timeout is None else remote.dial_timeout
        gate = self._server.gate
        if gate is not None and remote.account not in self._server.accounts:
            await gate.load((remote.account,))
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
            from headrace.server.peers.leaf_websocket import Hub, reach  # most hubs are reached without

            hub = Hub(remote, url, partial(self._enter, place, connected), seconds)
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

    async def _negotiated(self, remote: LeafRemote, sock: socket.socket) -> tuple[Secured | None, bytes]:
        """Whether TLS follows, and what the hub has said before it.

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
        return Secured(
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
        self, sock: socket.socket, enter: _Enter, url: PeerURL, remote: LeafRemote, secured: Secured | None
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

    # -- what the machine is given (`headrace.cluster.leaf_port.LeafPort`) ------------------------

    @property
    def has_headers(self) -> bool:
        return not self._server.options.no_header_support

    @property
    def cluster_name(self) -> str:
        return self._server.cluster_name or ""

    @property
    def system_account(self) -> str | None:
        return self._server.accounts.system

    @property
    def _own_url(self) -> str:
        """Where leaf nodes connect to, as they and the cluster are told; "" without a port."""
        return "" if self.listener is None else str(self.advertised)

    @property
    def own_urls(self) -> tuple[str, ...]:
        """What the cluster is told to tell its leaf nodes."""
        return (self._own_url,) if self._own_url and not self.options.no_advertise else ()

    @property
    def urls(self) -> tuple[str, ...]:
        """This server's URL for leaf nodes, and those of its cluster."""
        routes = self._server.routes
        others = () if routes is None or self.options.no_advertise else routes.mesh.leafnode_urls
        return tuple(dict.fromkeys(filter(None, (self._own_url, *others))))

    @property
    def websocket_urls(self) -> tuple[str, ...]:
        """The same over WebSocket."""
        if self.listener is None or self.options.no_advertise:
            return ()
        routes, own = self._server.routes, self._server.listeners.websocket_urls
        return tuple(dict.fromkeys((*own, *(routes.mesh.ws_connect_urls if routes is not None else ()))))

    def identity(self) -> PeerInfo:
        jetstream, tls = self._server.options.jetstream, self.tls
        address = Address("", 0) if self.listener is None else self.advertised
        return replace(
            self._identity(address, has_users=True),
            ip=self._own_url,
            tls_verify=tls is not None and tls.verify,
            jetstream=jetstream is not None,
            domain=jetstream.domain if jetstream is not None else "",
            info_on_connect=True,
            leafnode_urls=self.urls,
            ws_connect_urls=self.websocket_urls,
            api_lvl=JETSTREAM_API_LEVEL,
        )

    def always_wanted(self, account: str) -> Iterable[bytes]:
        accounts = self._server.accounts
        if account not in accounts:
            return ()
        wanted = {mapping.source.encode() for mapping in accounts[account].options.mappings}
        if self._server.gateways is not None:
            wanted |= _ANSWERS
        return sorted(wanted)

    def has_room(self, account: str) -> bool:
        most = self._server.accounts[account].options.limits.max_leafnodes
        return most == UNLIMITED or self._server.accounts[account].leafnodes < most

    def authenticate(
        self,
        session: LeafSession,
        text: bytes,
        given: LeafConnect,
        decided: Callable[[LeafGrant | None], None],
    ) -> None:
        self._server.tasks.run(self._authenticate(session, text, decided))

    async def _authenticate(
        self, session: LeafSession, text: bytes, decided: Callable[[LeafGrant | None], None]
    ) -> None:
        applicant = LeafApplicant(self._server, self.options, session)
        try:
            grant = await applicant.decide(text)
        except ProtocolError as problem:
            session.violates(str(problem))
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody is let in by it, or left waiting
            session.failed(error)
            return
        if session.link.is_detached:
            return
        if grant is not None:
            self._admitted[session] = text, grant
            if applicant.token is not None:
                self._tokens[session] = applicant.token
        decided(grant)
        wire = self._connection_of(session)
        if wire is not None and wire.transport is not None and not session.link.is_held:
            wire.transport.resume()
        self._server.ticks.wake()

    def _connection_of(self, session: LeafSession) -> PeerConnection[LeafSession] | None:
        return next((each for each in self.connections if each.session is session), None)

    def proof(self, remote: LeafRemote, nonce: str) -> dict[str, str]:
        if remote.credentials is not None:
            try:
                text = Path(remote.credentials).expanduser().read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or "not a text file"
                raise SeedError(f"cannot read {remote.credentials}: {reason}") from error
            jwt, seed = read_credentials(text, remote.credentials)
            return prove(seed, nonce, jwt=jwt)
        return {} if remote.nkey is None else prove(remote.nkey, nonce, where="the nkey")

    def request_info(
        self, session: LeafSession, *, shares: bool, service: str | None, names_server: bool
    ) -> bytes | None:
        from headrace.server.requester import leaf_request_info  # only who imports services loads it

        server = self._server.name if names_server else None
        return leaf_request_info(session, shares=shares, service=service, server=server)

    def registered(self, session: LeafSession) -> None:
        account = self._server.accounts[session.account]
        account.leafnodes += 1
        token = self._tokens.pop(session, None)
        options, of_account = self._server.options, account.options.limits
        payload = tighter(options.max_payload, of_account.max_payload)
        most = tighter(options.max_subscriptions or UNLIMITED, of_account.max_subscriptions)
        if token is not None:
            payload, most = tighter(payload, token.payload), tighter(most, token.subscriptions)
            if token.expires_at is not None:
                left = min(max(token.expires_at - time(), 0.0), 86_400.0)
                self._expiries[session] = self.call_later(left, partial(self._expired, session, token))
        session.link.limit(
            max_payload=payload,
            max_control_line=options.max_control_line * limits.ROUTE_CONTROL_LINES,
            max_subscriptions=max(most, 0),
        )

    def forget(self, session: LeafSession) -> None:
        self._tokens.pop(session, None)
        self._admitted.pop(session, None)

    def _expired(self, session: LeafSession, token: TokenIdentity) -> None:
        left = (token.expires_at or 0.0) - time()
        if left > 0:  # timers are not made for years
            self._expiries[session] = self.call_later(
                min(left, 86_400.0), partial(self._expired, session, token)
            )
            return
        session.refuse("User Authentication Expired", CloseReason.AUTHENTICATION_EXPIRED)

    def ended(self, session: LeafSession) -> None:
        expiry = self._expiries.pop(session, None)
        if expiry is not None:
            expiry.cancel()
        if session.account in self._server.accounts:
            self._server.accounts[session.account].leafnodes -= 1


def client_context(remote: LeafRemote) -> ssl.SSLContext:
    """Raises: StartError for files that cannot be used."""
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
    """Whose certificate the hub must have: an address's is that of the first URL with a name."""
    if not is_address(url.host):
        return url.host
    return next((each.host for each in remote.urls if not is_address(each.host)), url.host)
