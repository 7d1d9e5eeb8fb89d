"""Accepting clients: the listen socket, which transport a connection gets, and the TLS handshake.

What a client may do once its bytes flow is the session's business.
Source: client protocol specification, sections 2 and 9 (TLS modes).
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import sys
from typing import TYPE_CHECKING, Final

from headrace.engine.reasons import CloseReason
from headrace.errors import StartError
from headrace.server.tls import negotiated_names
from headrace.server.transport import AsyncioTransport, EpollTransport

if TYPE_CHECKING:
    from headrace.server.server import Server
    from headrace.server.session import ClientSession

BACKLOG: Final = 4096
ACCEPTS_PER_TICK: Final = 64
ACCEPT_PAUSE: Final = 0.1  # seconds without accepting when the system is out of descriptors
BUSY_POLL_US: Final = 20  # falling asleep and waking costs more than looking this long; measured in ADR 0003
MOST_BUSY_POLL_US: Final = 1000
TLS_RECORD: Final = 0x16  # first byte of a ClientHello


def default_transport() -> str:
    """`epoll` where it exists, else `asyncio`; HEADRACE_TRANSPORT overrides (both are always tested)."""
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


def listen(host: str, port: int) -> socket.socket:
    """A non-blocking listening socket; port -1 lets the system choose.

    Raises: StartError naming the address when it cannot be bound.
    """
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        family = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
        sock = socket.create_server((host, max(port, 0)), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            reason = "bind: address already in use"
        raise StartError(f'Error listening on port: {shown}, "listen tcp {shown}: {reason}"') from error
    sock.setblocking(False)
    return sock


class Listener:
    """The client port of one server."""

    def __init__(self, server: Server, context: ssl.SSLContext | None) -> None:
        options = server.options
        self._server = server
        self._context = context
        self._sock = listen(options.host, options.port)
        self.host: str = self._sock.getsockname()[0]
        self.port: int = self._sock.getsockname()[1]

    def start(self) -> None:
        self._server.loop.add_reader(self._sock, self._accept)

    def close(self) -> None:
        """Refuse connections from now on."""
        if self._sock.fileno() >= 0:
            self._server.loop.remove_reader(self._sock)
            self._sock.close()

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_TICK):
            try:
                sock, address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open(sock, address)

    def _pause(self, error: OSError) -> None:
        """Out of descriptors or memory: the backlog waits, the served clients do not notice."""
        pause_ms = int(ACCEPT_PAUSE * 1000)
        self._server.log.error("Temporary Client Accept Error (%s), sleeping %dms", error.strerror, pause_ms)
        self._server.loop.remove_reader(self._sock)
        self._server.loop.call_later(ACCEPT_PAUSE, self._resume)

    def _resume(self) -> None:
        if self._sock.fileno() >= 0:
            self.start()

    def _open(self, sock: socket.socket, address: tuple[str, int]) -> None:
        server = self._server
        session = server.new_session(address[0], address[1])
        if server.is_full:
            server.refuse_connection(session, sock)
        elif self._context is not None:
            server.run(self._open_tls(session, sock, self._context))
        else:
            self._open_plain(session, sock, greet=True)

    def _open_plain(self, session: ClientSession, sock: socket.socket, *, greet: bool) -> None:
        server = self._server
        if greet:
            session.link.send(session.info())
        if server.poller is None:
            server.run(self._open_asyncio(session, sock))
            return
        try:
            session.transport = EpollTransport(server.poller, session.link, sock.fileno())
        except OSError as error:
            session.error(f"cannot be watched: {error}")
            sock.close()
            server.forget(session, CloseReason.READ_ERROR)
            return
        sock.detach()
        session.opened()
        session.transport.flush()

    async def _open_asyncio(
        self,
        session: ClientSession,
        sock: socket.socket,
        context: ssl.SSLContext | None = None,
        handshake_seconds: float | None = None,
    ) -> None:
        """Hand the socket to asyncio, with or without TLS."""
        server = self._server

        def connected(transport: asyncio.Transport) -> None:
            session.transport = protocol
            tls = transport.get_extra_info("ssl_object")
            if tls is not None:
                session.tls_version, session.tls_cipher = negotiated_names(tls)
            session.opened()

        protocol = AsyncioTransport(session.link, server.after_tick, connected, server.note_stalled)
        try:
            await server.loop.connect_accepted_socket(
                lambda: protocol, sock, ssl=context, ssl_handshake_timeout=handshake_seconds
            )
        except (OSError, ssl.SSLError) as error:
            session.error(f"TLS handshake error: {error or 'connection closed'}")
            server.forget(session, CloseReason.TLS_HANDSHAKE_ERROR)

    async def _open_tls(self, session: ClientSession, sock: socket.socket, context: ssl.SSLContext) -> None:
        """INFO first or handshake first, as configured; plain clients too where they are allowed."""
        try:
            await self._negotiate(session, sock, context)
        except OSError as error:
            sock.close()
            session.error(f"TLS handshake error: {error or 'connection closed'}")
            self._server.forget(session, CloseReason.TLS_HANDSHAKE_ERROR)

    async def _negotiate(self, session: ClientSession, sock: socket.socket, context: ssl.SSLContext) -> None:
        options = self._server.options
        assert options.tls is not None
        first = options.tls.handshake_first
        handshake_first = first is not None
        if first:
            handshake_first = await self._first_byte(sock, first) == TLS_RECORD
        if not handshake_first:
            sock.send(session.info())  # a fresh socket: its buffer is empty and takes a line
            if options.allow_non_tls and await self._first_byte(sock, None) != TLS_RECORD:
                self._open_plain(session, sock, greet=False)
                return
        else:
            session.tls_first = True
            session.link.send(session.info())
        await self._open_asyncio(session, sock, context, options.tls.timeout)

    async def _first_byte(self, sock: socket.socket, seconds: float | None) -> int | None:
        """The first byte the client sends, left in the socket; None when none came in time.

        Raises: ConnectionError when it closes instead.
        """
        loop = self._server.loop
        readable: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not readable.done():
                readable.set_result(None)

        loop.add_reader(sock, wake)
        try:
            await asyncio.wait_for(readable, seconds)
        except TimeoutError:
            return None
        finally:
            loop.remove_reader(sock)
        data = sock.recv(1, socket.MSG_PEEK)
        if not data:
            raise ConnectionResetError("connection closed")
        return data[0]
