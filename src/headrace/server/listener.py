"""The client port: which transport a connection gets, the PROXY protocol's header and the TLS handshake.

What a client may do once its bytes flow is the session's business.
Source: client protocol specification, sections 2 and 9 (TLS modes); the order of INFO, header and handshake
compared with the Go server 2.15.1.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from typing import TYPE_CHECKING, Any, Final, Protocol

from headrace import limits
from headrace.engine.reasons import CloseReason
from headrace.errors import StartError
from headrace.server.acceptor import (
    BACKLOG,
    Acceptor,
    first_byte,
    not_listening,
    readable,
    socket_for_all,
    unmapped,
)
from headrace.server.access import Access
from headrace.server.admission import WINDOW, HandshakeRate
from headrace.server.transport import AsyncioTransport, EpollTransport

if TYPE_CHECKING:
    import ssl

    from headrace.server.clients import Clients
    from headrace.server.disconnects import Disconnects
    from headrace.server.epoll import Poller
    from headrace.server.port import SessionHost
    from headrace.server.session import ClientSession

    class ListenerHost(SessionHost, Protocol):
        """A server, as a port for clients sees it."""

        @property
        def disconnects(self) -> Disconnects: ...
        @property
        def clients(self) -> Clients: ...


BUSY_POLL_US: Final = 50  # falling asleep and waking costs more than looking this long; measured in ADR 0003
MOST_BUSY_POLL_US: Final = 1000
TLS_RECORD: Final = 0x16  # first byte of a ClientHello
_THROTTLED: Final = "Connection throttling is active. Please try again later."


def default_transport() -> str:
    """Return the transport of plain connections.

    `epoll` where it exists, else `asyncio`; HEADRACE_TRANSPORT overrides (both are always tested).
    """
    chosen = os.environ.get("HEADRACE_TRANSPORT") or ("epoll" if sys.platform == "linux" else "asyncio")
    if chosen not in ("epoll", "asyncio"):
        raise StartError(f"HEADRACE_TRANSPORT must be epoll or asyncio, not {chosen!r}")
    return chosen


def busy_poll() -> int:
    """Nanoseconds the poller goes on looking after the last event before it sleeps.

    The environment variable HEADRACE_BUSY_POLL_US sets it in microseconds; 0 turns it off.
    Raises: StartError when it is not a number from 0 to MOST_BUSY_POLL_US.
    """
    text = os.environ.get("HEADRACE_BUSY_POLL_US", str(BUSY_POLL_US))
    if not (text.isdecimal() and int(text) <= MOST_BUSY_POLL_US):
        raise StartError(
            f"HEADRACE_BUSY_POLL_US must be a number from 0 to {MOST_BUSY_POLL_US} microseconds, not {text!r}"
        )
    return int(text) * 1000


_inherited: Final[dict[tuple[str, int], socket.socket]] = {}


def inherit(host: str, port: int, sock: socket.socket) -> None:
    """Hand over a bound socket to whoever is to listen at its address."""
    sock.setblocking(False)
    _inherited[host, port] = sock


def bind(host: str, port: int) -> socket.socket:
    """Return a bound, non-blocking socket; clients cannot connect before it listens.

    Port -1 lets the system choose; a host that means every address has those of IPv4 and of IPv6, as on the
    Go server. Raises: StartError naming the address when it cannot be bound.
    """
    inherited = _inherited.pop((host, port), None)
    if inherited is not None:
        return inherited
    port = max(port, 0)
    # An address in letters of ASCII needs none of the tables of names in others, which take long to load.
    name = host.encode("ascii") if host.isascii() else host
    try:
        sock, address = _unbound(name, port, socket_for_all(host))
    except OSError as error:
        raise not_listening(host, port, error) from error
    try:
        if os.name == "posix":  # elsewhere it would share the port with others
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except OSError as error:
        sock.close()
        raise not_listening(host, port, error) from error
    sock.setblocking(False)
    return sock


def bind_and_listen(host: str, port: int) -> socket.socket:
    """Return a socket as `bind` does, which listens: who connects before it is served waits.

    Several servers that start together can all bind a port; one of them can listen. Raises: StartError.
    """
    sock = bind(host, port)
    try:
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise not_listening(host, port, error) from error
    return sock


def _unbound(
    name: str | bytes, port: int, for_all: socket.socket | None
) -> tuple[socket.socket, tuple[Any, ...]]:
    """The socket for an address, and the address as the system takes it. Raises: OSError."""
    if for_all is not None:
        return for_all, ("::", port)
    family, kind, _, _, address = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0]
    sock = socket.socket(family, kind)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return sock, address


class Listener(Acceptor):
    """The client port of one server, or another one, with the rules of `access`. `context` None: no TLS."""

    _server: ListenerHost

    def __init__(
        self,
        server: ListenerHost,
        context: ssl.SSLContext | None,
        sock: socket.socket,
        *,
        host: str | None = None,
        access: Access | None = None,
    ) -> None:
        super().__init__(server, sock, server.options.host if host is None else host)
        self.context = context
        self._poller = server.ticks.poller
        self._access = access or Access(server)
        self._rate = HandshakeRate(0)
        self._report: asyncio.TimerHandle | None = None
        self._takes_rate()

    def use(self, context: ssl.SSLContext | None) -> None:
        """Use these certificates for new connections, and what the server's options say of TLS."""
        self.context = context
        self._takes_rate()

    def _takes_rate(self) -> None:
        tls = self._access.tls
        self._rate.limit = tls.connection_rate_limit if tls else 0

    @property
    def _handshake_first(self) -> float | None:
        """The seconds in which a handshake may come before INFO; None: INFO comes first."""
        tls = self._access.tls
        return tls.handshake_first if tls and self.context else None

    def _new_session(self, host: str, port: int) -> ClientSession:
        return self._server.clients.new_session(self._access, host, port)

    def _failed(self, session: ClientSession, error: OSError) -> None:
        """The connection could not be opened."""
        from headrace.server.tls import failure, is_probe

        if not self._is_abandoned:
            say = session.debug if is_probe(error) else session.error
            say(f"TLS handshake error: {failure(error)}")
        self._server.clients.forget(session.cid, CloseReason.TLS_HANDSHAKE_ERROR)

    # -- accepting by the poller, which makes no socket object of a plain connection

    def _watch(self) -> None:
        if self._poller is None:
            super()._watch()
        else:
            self._poller.watch(self._sock.fileno(), self)

    def _unwatch(self) -> None:
        if self._poller is None:
            super()._unwatch()
        else:
            self._poller.unwatch(self._sock.fileno())

    def failed(self, error: Exception) -> None:
        """A mistake of ours while a connection was opened: the others go on."""
        self._server.log.error("internal error", exc_info=error)

    def _accept(self) -> int | None:
        if self._poller is None:
            return super()._accept()
        try:
            accepted = self._poller.accept(self._sock.fileno())
        except OSError as error:
            self._pause(error)
            return None
        if accepted is None:
            return None
        number, address, port = accepted
        host = unmapped(address)
        if self.context is not None or self._server.options.proxy_protocol:
            self._open(self._socket(number), (host, port))
            return number
        clients = self._server.clients
        try:
            session = self._new_session(host, port)
        except BaseException:
            os.close(number)  # nobody else knows of it
            raise
        if clients.is_full or not clients.admits(session):
            clients.refuse(session, self._socket(number))
        else:
            session.link.send(session.words.greeting(session))
            self._serve(session, number, self._poller)
        return number

    def _socket(self, number: int) -> socket.socket:
        """The socket of a connection that was accepted here."""
        own = self._sock
        sock = socket.socket(own.family, own.type, own.proto, fileno=number)
        sock.setblocking(False)
        return sock

    def _serve(self, session: ClientSession, number: int, poller: Poller, seen: bytes = b"") -> None:
        """Give a plain connection to the poller."""
        try:
            session.transport = EpollTransport(poller, session.link, number)
        except OSError as error:
            session.error(f"cannot be watched: {error}")
            os.close(number)
            self._server.clients.forget(session.cid, CloseReason.READ_ERROR)
            return
        session.opened()
        session.take(seen)
        session.transport.flush()

    # -- opening

    def _open(self, sock: socket.socket, address: tuple[str, int]) -> None:
        server = self._server
        session = self._new_session(address[0], address[1])
        if server.clients.is_full or not server.clients.admits(session):
            server.clients.refuse(session, sock)
        elif self.context is None and not server.options.proxy_protocol:
            session.link.send(session.words.greeting(session))
            self._open_plain(session, sock)
        else:
            self._run(self._open_step_by_step(session, sock), sock)

    def _open_plain(self, session: ClientSession, sock: socket.socket, seen: bytes = b"") -> None:
        """Serve a connection without TLS.

        `seen`: bytes that the client has sent and that are not in the socket any more.
        """
        if self._poller is None:
            self._run(self._open_asyncio(session, sock, seen=seen), sock)
        else:
            self._serve(session, sock.detach(), self._poller, seen)

    async def _open_asyncio(
        self,
        session: ClientSession,
        sock: socket.socket,
        context: ssl.SSLContext | None = None,
        handshake_seconds: float | None = None,
        seen: bytes = b"",
    ) -> None:
        """Hand the socket to asyncio, with or without TLS."""
        server = self._server

        def connected(transport: asyncio.Transport) -> None:
            session.transport = protocol
            tls = transport.get_extra_info("ssl_object")
            if session.link.is_closing:  # it was sent away while its handshake went on
                server.disconnects.begin([session.link])
            elif tls is None or session.secured(tls):
                session.opened()
                session.take(seen)

        protocol = AsyncioTransport(session.link, server.ticks.wake, connected, server.ticks.note_stalled)
        try:
            if context is None:
                await server.loop.connect_accepted_socket(lambda: protocol, sock)
                return
            from headrace.server.handshakes import secure

            await secure(lambda: protocol, sock, context, vet=server.tls.vet, seconds=handshake_seconds)
        except OSError as error:  # ssl.SSLError is one
            self._failed(session, error)

    async def _open_step_by_step(self, session: ClientSession, sock: socket.socket) -> None:
        """INFO first or handshake first, as configured; plain clients too where they are allowed."""
        from headrace.server.proxy_protocol import ProxyHeaderError

        try:
            await self._negotiate(session, sock)
        except ProxyHeaderError as error:
            if not self._is_abandoned:
                whence = session.label.partition(" - ")[0]
                self._server.log.warning(
                    "Error reading PROXY protocol header from %s: %s", whence, str(error)
                )
            sock.close()
            self._server.clients.forget(session.cid, CloseReason.PROTOCOL_VIOLATION)
        except OSError as error:
            sock.close()
            self._failed(session, error)

    async def _negotiate(self, session: ClientSession, sock: socket.socket) -> None:
        options, context, tls = self._server.options, self.context, self._access.tls
        first = self._handshake_first
        is_greeted = first is None or (first > 0 and await first_byte(self._server.loop, sock, first) is None)
        seen = b""
        if is_greeted:
            self._greet(session, sock)
        if options.proxy_protocol:
            seen = await self._take_proxy_header(session, sock)
        if context is None or tls is None:
            self._open_plain(session, sock, seen)
            return
        if not is_greeted and first and await first_byte(self._server.loop, sock, first) != TLS_RECORD:
            is_greeted = True
            self._greet(session, sock)
        # As the Go server does: who says nothing for so long is no TLS client, and its clocks must run.
        if (
            is_greeted
            and options.allow_non_tls
            and (seen or await first_byte(self._server.loop, sock, tls.timeout) != TLS_RECORD)
        ):
            self._open_plain(session, sock, seen)
            return
        if seen:  # no handshake begins like that
            raise ConnectionAbortedError("first record does not look like a TLS handshake")
        if not self._rate.allows():
            self._throttle(session, sock)
            return
        session.debug("Starting TLS client connection handshake")
        if not is_greeted:
            session.tls_first = True
            session.link.send(session.words.greeting(session))
        await self._open_asyncio(session, sock, context, tls.timeout)

    def _greet(self, session: ClientSession, sock: socket.socket) -> None:
        """INFO, before it is known who is behind a proxy. A fresh socket has room for a line."""
        hides = {"client_ip": None} if self._server.options.proxy_protocol else {}
        sock.send(session.words.greeting(session, **hides))

    async def _take_proxy_header(self, session: ClientSession, sock: socket.socket) -> bytes:
        """Read the PROXY header, and tell the session its client's address.

        Returns the bytes that the client has sent where there is no header.

        Raises: ProxyHeaderError.
        """
        from headrace.server.proxy_protocol import ProxyHeader, ProxyHeaderError

        header = ProxyHeader()
        try:
            async with asyncio.timeout(limits.PROXY_HEADER_TIMEOUT):
                while not header.is_complete:
                    await readable(self._server.loop, sock)
                    data = sock.recv(4096, socket.MSG_PEEK)  # what is not the header's stays for who is next
                    if not data:
                        raise ProxyHeaderError("connection closed within the PROXY protocol header")
                    taken = header.feed(data)
                    if taken:
                        sock.recv(taken)
        except TimeoutError:
            raise ProxyHeaderError("timeout reading PROXY protocol header") from None
        except OSError as error:
            raise ProxyHeaderError(f"failed to read PROXY protocol header: {error}") from None
        if header.source is not None:
            session.address, session.port = header.source
        return header.seen

    def _throttle(self, session: ClientSession, sock: socket.socket) -> None:
        """One handshake too many in this second. The log hears of all of them in one line, a second later."""
        server, reason = self._server, CloseReason.MAX_CONNECTIONS_EXCEEDED
        try:
            sock.send(session.words.farewell(session, _THROTTLED, reason))
        except OSError as error:
            session.debug(f"could not be told: {error}")
        sock.close()
        server.clients.forget(session.cid, reason)
        if self._report is None:
            self._report = server.loop.call_later(WINDOW, self._report_throttled)

    def _report_throttled(self) -> None:
        self._report = None
        self._server.log.warning(
            "Rejected %d connections due to TLS rate limiting", self._rate.take_rejected()
        )

    def close(self) -> None:
        super().close()
        self._poller = None  # its descriptor goes with the last who knows it
        if self._report is not None:
            self._report.cancel()
            self._report_throttled()
