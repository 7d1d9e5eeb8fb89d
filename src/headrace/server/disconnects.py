"""The end of connections: doomed ones are flushed and closed, those that take no bytes in time are cut off.

Of every kind of connection: what a kind does when it is over is its own (`EndingConnection.over`). Never
lives here: why one ends (the sessions and the engine say so), accepting.
Source: client protocol specification, section 9.
"""

from __future__ import annotations

import asyncio
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, Protocol

from headrace.engine.reasons import CloseReason
from headrace.server.ticks import STALLED_CHECK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from headrace.engine.link import Link
    from headrace.server.port import AccountsHost
    from headrace.server.transport import Transport

DRAIN_LIMIT: Final = 1.0
"""Seconds that a server at its end waits for others to take what was sent to them before."""

_UNFLUSHED: Final = frozenset(
    [
        CloseReason.SLOW_CONSUMER_PENDING_BYTES,
        CloseReason.SLOW_CONSUMER_WRITE_DEADLINE,
        CloseReason.WRITE_ERROR,
        CloseReason.READ_ERROR,
    ]
)

_NOT_WAITED_FOR: Final = frozenset([CloseReason.STALE_CONNECTION])
"""Reasons for which one write is tried only: a connection that answers no PING takes no bytes either."""


class EndingConnection(Protocol):
    """The session of one connection. `transport` is None while it is being opened: then it ends with that."""

    transport: Transport | None
    is_closed: bool

    @property
    def link(self) -> Link: ...

    @property
    def write_deadline(self) -> float:
        """Seconds."""

    def notice(self, text: str) -> None:
        """A line in the log."""

    def count_slow(self) -> None:
        """Count the connection as a slow consumer."""

    def endures(self, now_ns: int) -> bool:
        """True if a write that is late is waited for all the same."""

    def over(self, reason: CloseReason) -> None:
        """The connection is closed: everything is given back."""


class Disconnects:
    """Ends the connections of one server. `open_connections` gives those that are open now."""

    def __init__(
        self, server: AccountsHost, open_connections: Callable[[], Sequence[EndingConnection]]
    ) -> None:
        self._server = server
        self._open = open_connections
        self._draining: dict[EndingConnection, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, links: Iterable[Link]) -> None:
        """Close what the end of a tick found doomed, or let it drain first."""
        for link in links:
            if link.session is None:  # it has ended already
                continue
            connection: EndingConnection = link.session.connection
            if connection.is_closed:
                continue
            reason = CloseReason(link.reason)
            if reason is CloseReason.SLOW_CONSUMER_PENDING_BYTES:
                connection.count_slow()
                most = self._server.options.max_pending
                connection.notice(f"Slow Consumer Detected: MaxPending of {most} Exceeded")
            transport = connection.transport
            if transport is None:
                continue  # a handshake is going on; it ends by itself or with its task
            if reason in _UNFLUSHED or transport.flush() or reason in _NOT_WAITED_FOR:
                self._finish(connection)
            else:
                self._draining[connection] = self._server.loop.time() + connection.write_deadline

    def go_on(self) -> None:
        """Close connections that have drained."""
        if not self._draining:
            return
        for connection in list(self._draining):
            if connection.transport is None or connection.transport.flush():
                self._finish(connection)

    def forget(self, connection: EndingConnection) -> None:
        """Forget a connection that is over."""
        self._draining.pop(connection, None)

    async def drain(self) -> None:
        """Wait for others to take what is still theirs, as long as DRAIN_LIMIT."""
        time = asyncio.get_running_loop().time  # it may have to stop without having started
        limit = time() + DRAIN_LIMIT
        while self._draining and time() < limit:
            await asyncio.sleep(STALLED_CHECK)
            self.go_on()
        for connection in list(self._draining):
            self._finish(connection)

    def abandon(self) -> None:
        """Close every connection at once: nobody is told, and what was to be sent is lost."""
        for connection in self._open():
            if connection.transport is not None:
                connection.transport.close()
            connection.over(CloseReason.SERVER_SHUTDOWN)

    def watch(self) -> None:
        """Cut off, every quarter of write_deadline, connections that have not taken a write for that long."""
        server = self._server
        deadline = server.options.write_deadline
        self._timer = server.loop.call_later(max(deadline / 4, 0.01), self.watch)
        server.accounts.expire()
        self.go_on()
        for connection in [
            connection for connection, until in self._draining.items() if until <= server.loop.time()
        ]:
            self._finish(connection)
        if server.router.blocked:
            now = monotonic_ns()
            for connection in self._open():
                since = connection.link.blocked_since
                is_late = since is not None and now - since > connection.write_deadline * 1e9
                if is_late and not (connection not in self._draining and connection.endures(now)):
                    self._cut_off(connection)
            server.ticks.wake()

    def close(self) -> None:
        """The server has ended: what would leave little by little leaves now."""
        if self._timer is not None:
            self._timer.cancel()
        router = self._server.router
        while router.is_unsubscribing:
            router.end_tick()

    def _finish(self, connection: EndingConnection) -> None:
        if connection.transport is not None:
            connection.transport.close()
        connection.over(CloseReason(connection.link.reason))
        if self._server.router.has_work:  # other servers are told what is wanted no more
            self._server.ticks.wake()

    def _cut_off(self, connection: EndingConnection) -> None:
        if connection in self._draining:
            self._finish(connection)
            return
        note_late(connection)
        connection.link.doom(CloseReason.SLOW_CONSUMER_WRITE_DEADLINE)


def note_late(connection: EndingConnection) -> None:
    """A write was not taken in time: counts and says it."""
    from headrace.server.monitor.text import round_trip

    connection.count_slow()
    deadline = round_trip(int(connection.write_deadline * 1e9))
    connection.notice(
        f"Slow Consumer Detected: WriteDeadline of {deadline} exceeded"
        f" with 1 chunks of {connection.link.pending} total bytes."
    )
