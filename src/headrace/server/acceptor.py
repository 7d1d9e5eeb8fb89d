"""A listening socket: accepting, pausing when the system is out of descriptors, and its end.

Here lives what all ports have in common. Never lives here: what becomes of a connection (`listener`,
`websocket`).
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from headrace.server.server import Server

ACCEPTS_PER_TICK: Final = 64
ACCEPT_PAUSE: Final = 0.1  # seconds without accepting when the system is out of descriptors


class Acceptor:
    """One bound port of a server; subclasses say what `_open` does with a connection."""

    def __init__(self, server: Server, sock: socket.socket) -> None:
        self._server = server
        self._sock = sock
        self._opening: dict[asyncio.Task[None], socket.socket] = {}
        self._is_abandoned = False
        self.host: str = self._sock.getsockname()[0]
        self.port: int = self._sock.getsockname()[1]

    def _open(self, sock: socket.socket, address: tuple[str, int]) -> None:
        """Take over a connection that was just accepted."""
        raise NotImplementedError

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
        text = f"Temporary Client Accept Error ({error.strerror}), sleeping {pause_ms}ms"
        if self._server.log_limits.admits(text, source=""):
            self._server.log.error("%s", text)
        self._server.loop.remove_reader(self._sock)
        self._server.loop.call_later(ACCEPT_PAUSE, self._resume)

    def _resume(self) -> None:
        if self._sock.fileno() >= 0:
            self.start()


async def readable(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
    """Until there is something to read, or the end."""
    future: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not future.done():
            future.set_result(None)

    loop.add_reader(sock, wake)
    try:
        await future
    finally:
        loop.remove_reader(sock)


async def first_byte(loop: asyncio.AbstractEventLoop, sock: socket.socket, seconds: float) -> int | None:
    """The first byte the other side sends, left in the socket; None when none came in time.

    Raises: ConnectionError when it closes instead.
    """
    try:
        async with asyncio.timeout(seconds):
            await readable(loop, sock)
    except TimeoutError:
        return None
    data = sock.recv(1, socket.MSG_PEEK)
    if not data:
        raise ConnectionResetError("connection closed")
    return data[0]
