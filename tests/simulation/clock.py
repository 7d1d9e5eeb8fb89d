"""Time that goes on when everything due has been done."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SECOND = 1_000_000_000


class Call:
    """One call that is to come; it says so itself when it does not come any more."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], object]) -> None:
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        self.call = None


class Clock:
    """Calls in the order of their times; of equal times, in the order they were asked for."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.calls = 0
        self._queue: list[tuple[int, int, Call]] = []
        self._count = 0

    def later(self, seconds: float, call: Callable[[], object]) -> Call:
        return self.at(self.now_ns + int(seconds * SECOND), call)

    def at(self, when_ns: int, call: Callable[[], object]) -> Call:
        made = Call(call)
        self._count += 1
        heapq.heappush(self._queue, (max(when_ns, self.now_ns), self._count, made))
        return made

    def run(self, seconds: float) -> None:
        """Everything that is due within that time; then it is that much later."""
        end = self.now_ns + int(seconds * SECOND)
        while self._queue and self._queue[0][0] <= end:
            when, _, made = heapq.heappop(self._queue)
            self.now_ns = when
            if made.call is not None:
                call, made.call = made.call, None
                self.calls += 1
                call()
        self.now_ns = end

    def clear(self) -> None:
        self._queue.clear()
