"""Transports of bytes: the Protocol that every transport keeps, and the one of asyncio.

`epoll` (Linux, plain TCP) and the asyncio transport below (everywhere else, and TLS) feed the same
engine links. A transport decides nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.engine.link import Link
    from headrace.server.epoll import Poller


class Transport(Protocol):
    """The transport of a connection, as its session sees it."""

    def flush(self) -> bool:
        """Write what can be written now; True when nothing is left in the outbox."""

    def close(self) -> None:
        """End the connection at once; what the system has taken is still delivered."""

    def resume(self) -> None:
        """Read again after the link was held or stalled."""


class EpollTransport:
    """One connection whose socket belongs to the poller."""

    __slots__ = ("_link", "_poller")

    def __init__(self, poller: Poller, link: Link, fd: int) -> None:
        poller.add(link, fd)
        self._poller = poller
        self._link = link

    def flush(self) -> bool:
        return self._poller.flush(self._link)

    def close(self) -> None:
        self._poller.close(self._link)

    def resume(self) -> None:
        self._poller.resume(self._link)


class AsyncioTransport(asyncio.BufferedProtocol):
    """One connection over an asyncio transport (TLS, or no epoll).

    Bytes wait in the engine's outbox, not in asyncio's buffer: no more is handed over while asyncio
    says that its buffer is full, so that max_pending counts all of them.
    """

    __slots__ = ("_after_tick", "_is_blocked", "_link", "_on_connected", "_on_stalled", "_transport")

    def __init__(
        self,
        link: Link,
        after_tick: Callable[[], None],
        on_connected: Callable[[asyncio.Transport], None],
        on_stalled: Callable[[AsyncioTransport], None],
    ) -> None:
        self._link = link
        self._after_tick = after_tick
        self._on_connected = on_connected
        self._on_stalled = on_stalled
        self._transport: asyncio.Transport | None = None
        self._is_blocked = False

    # -- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=262144)
        self._link.use_writer(self._write)
        self._on_connected(transport)
        self.flush()  # the INFO; a tick that passed before now had nowhere to write it
        self._after_tick()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._link.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        link = self._link
        link.router.touch()
        link.received(nbytes)
        if link.is_held or link.is_stalled:
            self._pause()
            if link.is_stalled:
                self._on_stalled(self)
        self._after_tick()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._link.is_detached:
            return
        self._link.doom(CloseReason.READ_ERROR if exc else CloseReason.CLIENT_CLOSED)
        self._after_tick()

    def pause_writing(self) -> None:
        self._is_blocked = True

    def resume_writing(self) -> None:
        self._is_blocked = False
        self._link.router.touch()
        self._write()
        self._after_tick()

    # -- the engine's side

    def _write(self) -> None:
        """Called by the engine when the outbox has something to flush."""
        transport = self._transport
        if transport is None or transport.is_closing():
            self._link.discard()
            return
        if self._is_blocked:
            self._link.report_blocked()
            return
        self._send(transport)

    def _send(self, transport: asyncio.Transport) -> None:
        transport.write(self._link.take())

    def _pause(self) -> None:
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    # -- Transport

    def flush(self) -> bool:
        if self._link.pending:
            self._write()
        transport = self._transport
        return self._link.pending == 0 and (transport is None or not transport.get_write_buffer_size())

    def close(self) -> None:
        transport = self._transport
        if transport is None:
            return
        if transport.get_write_buffer_size():  # asyncio would keep the socket until the peer takes them
            transport.abort()
        else:
            transport.close()

    def resume_if_drained(self) -> bool:
        """Read again from a stalled publisher, if it may be; True when it is settled."""
        if not self._link.is_detached and not self._link.release_if_drained():
            return False
        self.resume()
        return True

    def resume(self) -> None:
        transport = self._transport
        if transport is not None and not transport.is_closing() and not transport.is_reading():
            transport.resume_reading()
