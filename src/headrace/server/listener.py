"""Accepting clients: the listen socket, which transport a connection gets, and the TLS handshake.

What a client may do once its bytes flow is the session's business.
Source: client protocol specification, sections 2 and 9 (TLS modes).
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from headrace.engine.reasons import CloseReason
from headrace.errors import StartError
from headrace.server.tls import negotiated_names
from headrace.server.transport import AsyncioTransport, EpollTransport

if TYPE_CHECKING:
    import ssl
    from collections.abc import Coroutine

    from headrace.server.server import Server
    from headrace.server.session import ClientSession

BACKLOG: Final = 4096
ACCEPTS_PER_TICK: Final = 64
ACCEPT_PAUSE: Final = 0.1  # seconds without accepting when the system is out of descriptors
BUSY_POLL_US: Final = 50  # falling asleep and waking costs more than looking this long; measured in ADR 0003
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
    shown = f"[{host}]:{max(port, 0)}" if ":" in host else f"{host}:{max(port, 0)}"
    try:
        family = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
        sock = socket.create_server((host, max(port, 0)), family=family, backlog=BACKLOG)
    except OSError as error:
        step = f"lookup {host}" if isinstance(error, socket.gaierror) else "bind"
        reason = f"{step}: {_reason(error)}"
        raise StartError(f'Error listening on port: {shown}, "listen tcp {shown}: {reason}"') from error
    sock.setblocking(False)
    return sock


def _reason(error: OSError) -> str:
    """The system's words for an error; asyncio and socket put the address into theirs."""
    if isinstance(error, socket.gaierror) or not error.errno:
        return (error.strerror or str(error)).lower()
    return os.strerror(error.errno).lower()


class Listener:
    """The client port of one server."""

    def __init__(self, server: Server, context: ssl.SSLContext | None, sock: socket.socket) -> None:
        self._server = server
        self._context = context
        self._sock = sock
        self._opening: dict[asyncio.Task[None], socket.socket] = {}
        self._is_abandoned = False
        self.host: str = self._sock.getsockname()[0]
        self.port: int = self._sock.getsockname()[1]

    def start(self) -> None:
        self._server.loop.add_reader(self._sock, self._accept)

    def close(self) -> None:
        """Refuse connections from now on."""
        if self._sock.fileno() >= 0:
            self._server.loop.remove_reader(self._sock)
            self._sock.close()

    async def abandon(self) -> None:
        """End the connections that are still being opened; when this returns nothing is left of them."""
        self._is_abandoned = True
        for sock in self._opening.values():
            # Not a cancel: asyncio would keep a socket inside a handshake until that times out.
            with suppress(OSError):  # the client has left already
                sock.shutdown(socket.SHUT_RDWR)
        await asyncio.gather(*self._opening, return_exceptions=True)

    def _run(self, work: Coroutine[object, object, None], sock: socket.socket) -> None:
        task = self._server.run(work)
        self._opening[task] = sock
        task.add_done_callback(self._opening.pop)

    def _failed(self, session: ClientSession, error: OSError) -> None:
        """The connection could not be opened."""
        if not self._is_abandoned:
            session.error(f"TLS handshake error: {error or 'connection closed'}")
        self._server.forget(session, CloseReason.TLS_HANDSHAKE_ERROR)

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
            self._run(self._open_tls(session, sock, self._context), sock)
        else:
            self._open_plain(session, sock, greet=True)

    def _open_plain(self, session: ClientSession, sock: socket.socket, *, greet: bool) -> None:
        server = self._server
        if greet:
            session.link.send(session.info())
        if server.poller is None:
            self._run(self._open_asyncio(session, sock), sock)
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
        except OSError as error:  # ssl.SSLError is one
            self._failed(session, error)

    async def _open_tls(self, session: ClientSession, sock: socket.socket, context: ssl.SSLContext) -> None:
        """INFO first or handshake first, as configured; plain clients too where they are allowed."""
        try:
            await self._negotiate(session, sock, context)
        except OSError as error:
            sock.close()
            self._failed(session, error)

    async def _negotiate(self, session: ClientSession, sock: socket.socket, context: ssl.SSLContext) -> None:
        options = self._server.options
        assert options.tls is not None
        first = options.tls.handshake_first
        handshake_first = first is not None
        if first:
            handshake_first = await self._first_byte(sock, first) == TLS_RECORD
        if not handshake_first:
            sock.send(session.info())  # a fresh socket: its buffer is empty and takes a line
            # As the Go server does: who says nothing for so long is no TLS client, and its clocks must run.
            if options.allow_non_tls and await self._first_byte(sock, options.tls.timeout) != TLS_RECORD:
                self._open_plain(session, sock, greet=False)
                return
        else:
            session.tls_first = True
            session.link.send(session.info())
        await self._open_asyncio(session, sock, context, options.tls.timeout)

    async def _first_byte(self, sock: socket.socket, seconds: float) -> int | None:
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
