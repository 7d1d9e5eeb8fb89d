"""A clock that tests can move: the system's, and ahead of it by as much as it was advanced.

Services inside a server have no other one (`core.service.Clock`). Never lives here: what is due at a time,
and connections, whose deadlines are the event loop's.
"""

from __future__ import annotations

import asyncio
import heapq
from math import ceil, isfinite
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING

from headrace.log.port import LARGEST_TIME

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

_NS = 1_000_000_000


class MovableClock:
    """The clock of one server's services. It goes on by itself, and can be moved forward, never back.

    All methods but `now_ns` are for the thread of the server's event loop.
    """

    def __init__(self) -> None:
        self._ahead_ns = 0
        self._calls: set[_Call] = set()
        """The calls to come."""
        self._count = 0
        self._soon: list[tuple[int, int, _Call]] | None = None
        """A heap of calls by their time and number, while the clock is moved; some may be over."""

    def now_ns(self) -> int:
        """Wall clock, ns since 1970 UTC, and what the clock was advanced by."""
        return time_ns() + self._ahead_ns

    def call_later(
        self, seconds: float, function: Callable[[], object], /, *, context: Context | None = None
    ) -> _Call:
        """Call `function` once when so much time is over, by itself or since the clock is moved."""
        self._count += 1
        call = _Call(self, self._due_ns(seconds), self._count, function, context)
        self._calls.add(call)
        call.wait(seconds)
        if self._soon is not None:
            heapq.heappush(self._soon, (call.due_ns, call.number, call))
        return call

    async def advance(self, seconds: float) -> None:
        """Move the clock forward. What becomes due is done before this returns, each at its time.

        Calls are made in the order of their times, with the clock at the time of each, and with a round of
        the event loop after it, so that a call may set others that are due within `seconds`, too. Nothing
        else is waited for: what needs a disk's sync, or an answer from elsewhere, may come after this.
        Cost: that of the calls that are made, and a little for each that is set.

        Raises: ValueError for a time that is negative, not finite, or after 2262, which no message can have;
        RuntimeError while it is moved already.
        """
        if not isfinite(seconds) or seconds < 0:
            raise ValueError(f"a clock goes forward by a number of seconds, not by {seconds}")
        if self._soon is not None:
            raise RuntimeError("the clock is being moved already")
        if self.now_ns() + seconds * _NS > LARGEST_TIME:
            raise ValueError(f"{seconds} s from now is too late: messages have no time after 2262")
        goal_ns = self._ahead_ns + ceil(seconds * _NS)
        soon = self._soon = [(call.due_ns, call.number, call) for call in self._calls]
        heapq.heapify(soon)
        try:
            while soon and soon[0][0] - monotonic_ns() <= goal_ns:
                due_ns, _, call = heapq.heappop(soon)
                if call in self._calls:
                    self._ahead_ns = max(self._ahead_ns, due_ns - monotonic_ns())
                    call.run()
                    await asyncio.sleep(0)
            self._ahead_ns = goal_ns
        finally:
            self._soon = None
            now_ns = self._due_ns(0)
            for call in self._calls:
                call.wait(max(call.due_ns - now_ns, 0) / _NS)

    def forget(self, call: _Call) -> None:
        """Forget a call that was made or cancelled."""
        self._calls.discard(call)

    def _due_ns(self, seconds: float) -> int:
        """Return the time in so many seconds, in ns of the monotonic clock and what this one is ahead."""
        return monotonic_ns() + self._ahead_ns + ceil(seconds * _NS)


class _Call:
    """One call that is due later."""

    __slots__ = ("_clock", "_context", "_function", "_handle", "due_ns", "number")

    def __init__(
        self,
        clock: MovableClock,
        due_ns: int,
        number: int,
        function: Callable[[], object],
        context: Context | None,
    ) -> None:
        self._clock = clock
        self._function = function
        self._context = context
        self._handle: asyncio.TimerHandle | None = None
        self.due_ns = due_ns
        self.number = number

    def wait(self, seconds: float) -> None:
        """Make the call in so many seconds, unless the clock is moved before."""
        if self._handle is not None:
            self._handle.cancel()
        self._handle = asyncio.get_running_loop().call_later(seconds, self._ring, context=self._context)

    def cancel(self) -> None:
        """Cancel the call. Safe to call more than once, and after the call."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._clock.forget(self)

    def run(self) -> None:
        """Make the call now."""
        self.cancel()
        if self._context is None:
            self._function()
        else:
            self._context.run(self._function)

    def _ring(self) -> None:
        """Make the call from the event loop, which is in its context already."""
        self.cancel()
        self._function()
