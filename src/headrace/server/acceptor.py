"""A listening socket: accepting, pausing when the system is out of descriptors, and its end.

Here lives what all ports have in common. Never lives here: what becomes of a connection (`listener`,
`websocket`, `monitor`).
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import sys
from contextlib import suppress
from errno import EMFILE
from typing import TYPE_CHECKING, Final

from headrace.errors import StartError
from headrace.limits import DEFAULT_HOST
from headrace.protocol.info import address_text
from headrace.server.addresses import is_wildcard, local_host

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from headrace.server.port import Runtime

BACKLOG: Final = 4096
ACCEPTS_PER_TICK: Final = 64
ACCEPT_PAUSE: Final = 0.1  # seconds without accepting when the system is out of descriptors

_MAPPED: Final = "::ffff:"
"""The prefix of an IPv4 address that is written as one of IPv6."""

DESCRIPTORS_KEPT: Final = 16
"""Descriptors that connections do not get, so that stores, certificates, logs and modules that are loaded
late can still be opened; at most one of eight that the process may have."""


class Accepting:
    """A bound socket whose connections are accepted; subclasses say what `_open` does with one.

    `host`: the address as it is configured, also a name; "" is every address. `bound_host`: the IP address.
    `kept`: descriptors of the process that must stay free, however many connections wait.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, host: str, kept: int = DESCRIPTORS_KEPT
    ) -> None:
        self._loop = loop
        self._sock = sock
        self._kept = kept
        self._ceiling = sys.maxsize
        self.host: Final = host or DEFAULT_HOST
        self.bound_host: str = self._sock.getsockname()[0]
        self.port: int = self._sock.getsockname()[1]

    @property
    def local_host(self) -> str:
        """The IP address at which this machine reaches the port."""
        return local_host(self.host, self.bound_host)

    def _open(self, sock: socket.socket, address: tuple[str, int]) -> None:
        """Take over a connection that was just accepted."""
        raise NotImplementedError

    def _complain(self, reason: str, pause_ms: int) -> None:
        """Say that nothing is accepted for so long."""
        raise NotImplementedError

    def start(self) -> None:
        """Listen on the socket. Raises: StartError when another program does."""
        try:
            self._sock.listen(BACKLOG)
        except OSError as error:
            raise not_listening(self.host, self.port, error) from error
        self._take()

    def _take(self) -> None:
        self._ceiling = _ceiling(self._kept)
        self._watch()

    def close(self) -> None:
        """Refuse connections from now on."""
        if self._sock.fileno() >= 0:
            self._unwatch()
            self._sock.close()

    def _watch(self) -> None:
        """Call `ready` when connections wait."""
        self._loop.add_reader(self._sock, self.ready)

    def _unwatch(self) -> None:
        self._loop.remove_reader(self._sock)

    def ready(self) -> None:
        """Connections wait."""
        for _ in range(ACCEPTS_PER_TICK):
            number = self._accept()
            if number is None:
                return
            if number >= self._ceiling:  # the system gives the lowest that is free
                self._pause(OSError(EMFILE, os.strerror(EMFILE)))
                return

    def _accept(self) -> int | None:
        """Accept and open the next connection; returns its descriptor, None when there is none for now."""
        try:
            sock, address = self._sock.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return None
        except OSError as error:
            self._pause(error)
            return None
        number = sock.fileno()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._open(sock, (unmapped(address[0]), address[1]))
        return number

    def _pause(self, error: OSError) -> None:
        """Accept no connection for a while, out of descriptors or memory: the backlog waits, served clients
        do not notice.
        """
        self._complain(error.strerror or str(error), int(ACCEPT_PAUSE * 1000))
        self._unwatch()
        self._loop.call_later(ACCEPT_PAUSE, self._resume)

    def _resume(self) -> None:
        if self._sock.fileno() < 0:
            return
        error = _tightness(_ceiling(self._kept))
        if error is None:
            self._take()
        else:
            self._pause(error)


def socket_for_all(host: str) -> socket.socket | None:
    """A new socket for IPv4 and IPv6 together, to be bound to `::`, if the host means every address.

    None for another host, and on a system without IPv6.
    """
    if not is_wildcard(host):
        return None
    try:
        sock = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    except OSError:
        return None
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    return sock


def unmapped(address: str) -> str:
    """The IPv4 address of a peer that came to a socket for both kinds; any other as it is."""
    return address.removeprefix(_MAPPED) if "." in address else address


def not_listening(host: str, port: int, error: OSError) -> StartError:
    """The StartError for an address at which this server cannot listen."""
    shown = address_text(host, port)
    step = f"lookup {host}" if isinstance(error, socket.gaierror) else "bind"
    return StartError(f'Error listening on port: {shown}, "listen tcp {shown}: {step}: {_reason(error)}"')


def _reason(error: OSError) -> str:
    """The system's words for an error; asyncio and socket put the address into theirs."""
    if isinstance(error, socket.gaierror) or not error.errno:
        return (error.strerror or str(error)).lower()
    return os.strerror(error.errno).lower()


def _ceiling(kept: int) -> int:
    """The first number of a descriptor that a connection should not get."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit - min(kept, limit // 8)


def _tightness(ceiling: int) -> OSError | None:
    """Why no connection can be accepted now; None when one can."""
    try:
        number = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return error
    os.close(number)
    return OSError(EMFILE, os.strerror(EMFILE)) if number >= ceiling else None


class Acceptor(Accepting):
    """One bound port of a server."""

    def __init__(self, server: Runtime, sock: socket.socket, host: str) -> None:
        super().__init__(server.loop, sock, host)
        self._server = server
        self._opening: dict[asyncio.Task[None], socket.socket] = {}
        self._is_abandoned = False

    async def abandon(self) -> None:
        """End the connections that are still being opened; when this returns nothing is left of them."""
        self._is_abandoned = True
        for sock in self._opening.values():
            # Not a cancel: asyncio would keep a socket inside a handshake until that times out.
            with suppress(OSError):  # the client has left already
                sock.shutdown(socket.SHUT_RDWR)
        await asyncio.gather(*self._opening, return_exceptions=True)

    def _run(self, work: Coroutine[object, object, None], sock: socket.socket) -> None:
        task = self._server.tasks.run(work)
        self._opening[task] = sock
        task.add_done_callback(self._opening.pop)

    def _complain(self, reason: str, pause_ms: int) -> None:
        text = f"Temporary Client Accept Error ({reason}), sleeping {pause_ms}ms"
        if self._server.log_limits.admits(text, source=""):
            self._server.log.error("%s", text)


async def readable(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
    """Wait until there is something to read, or the end."""
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
