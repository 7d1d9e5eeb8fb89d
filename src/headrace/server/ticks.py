"""The ticks of one server, at whose ends outboxes are flushed and links end, and its tasks.

A tick is one round of the event loop; a task takes several. Never lives here: sockets (`epoll`, `transport`),
how a connection ends (`disconnects`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

from headrace.server.loop import PollerLoop

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable
    from logging import Logger

    from headrace.engine.link import Link, Router
    from headrace.server.epoll import Poller
    from headrace.server.transport import AsyncioTransport

    class _Disconnects(Protocol):
        def begin(self, links: Iterable[Link]) -> None:
            """Close what the end of a tick found doomed, or let it drain first."""

        def go_on(self) -> None:
            """Close what has drained."""


STALLED_CHECK: Final = 0.005
"""Seconds between looks at what drains."""


class Ticks:
    """The ticks of a server.

    `poller` has the plain TCP connections; None: they are on asyncio's transports.
    """

    def __init__(self, router: Router, disconnects: _Disconnects) -> None:
        self._router = router
        self._disconnects = disconnects
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stalled: list[AsyncioTransport] = []
        self._is_due = False
        self._stall_timer: asyncio.TimerHandle | None = None
        self.poller: Poller | None = None

    def begin(self, loop: asyncio.AbstractEventLoop, poller: Poller | None) -> None:
        """Have ticks on this loop, which sleeps in the poller if it can."""
        self._loop = loop
        self.poller = poller
        if poller is not None and not (isinstance(loop, PollerLoop) and loop.sleep_in(poller, self._settle)):
            loop.add_reader(poller.fileno(), self._poll)

    def close(self) -> None:
        """Have none any more."""
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        loop, poller, self.poller = self._loop, self.poller, None
        if (
            loop is not None
            and poller is not None
            and not (isinstance(loop, PollerLoop) and loop.leave(poller))
        ):
            loop.remove_reader(poller.fileno())

    def wake(self) -> None:
        """Flush outboxes when the loop's present round is over: frames were queued outside the poller."""
        if not self._is_due:
            assert self._loop is not None, "nothing is queued before the start"
            self._is_due = True
            self._loop.call_soon(self._tick)

    def end(self) -> None:
        """End the tick now."""
        self._end(self._router.end_tick())

    def note_stalled(self, transport: AsyncioTransport) -> None:
        """Resume a transport that has stopped to read when its outbox has drained."""
        self._stalled.append(transport)

    def _poll(self) -> None:
        """The poller's tick, on a loop that watches its descriptor."""
        if self.poller is not None:  # else stopped between the loop's call_soon and this call
            self._end_tick_of(self.poller, self.poller.poll())

    def _settle(self) -> None:
        """The end of the poller's tick, on a loop that sleeps in it."""
        if self.poller is not None:
            self._end_tick_of(self.poller, self.poller.settle())

    def _end_tick_of(self, poller: Poller, closing: list[Link]) -> None:
        self._end(closing)
        if poller.has_stalled and self._stall_timer is None:
            assert self._loop is not None
            self._stall_timer = self._loop.call_later(STALLED_CHECK, self._poll_stalled)

    def _poll_stalled(self) -> None:
        self._stall_timer = None
        self._poll()

    def _tick(self) -> None:
        self._is_due = False
        self._router.touch()
        self.end()
        if self._stalled:
            self._stalled = [t for t in self._stalled if not t.resume_if_drained()]
            if self._stalled:
                assert self._loop is not None
                self._loop.call_later(STALLED_CHECK, self.wake)

    def _end(self, closing: list[Link]) -> None:
        if closing:
            self._disconnects.begin(closing)
        self._disconnects.go_on()
        if self._router.has_due:  # services that wait for their next batch: sockets have had their turn
            self.wake()


class Tasks:
    """A mistake of ours in one of them is a traceback in the log."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task; it is cancelled when the server stops."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def cancel(self) -> None:
        """End all of them."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._log.error("internal error", exc_info=task.exception())
