"""Work that is due at a time of the wall clock, by key: one timer of the host for all of it."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.service import Host, Timer

_MS: Final = 1_000_000
_MOST_OLD: Final = 64
"""Entries of times that count no more, beside as many as there are others."""
_LONGEST: Final = 3600.0
"""Seconds after which the clock is looked at again, in case it was set."""


class DueTimes:
    """Functions to call at their times, one for each key."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._at: dict[str, tuple[int, Callable[[], object]]] = {}
        self._order: list[tuple[int, str]] = []
        self._timer: Timer | None = None
        self._timer_at = 0

    def __len__(self) -> int:
        return len(self._at)

    def set(self, key: str, at_ms: int, function: Callable[[], object]) -> None:
        """Call `function` at `at_ms` (Unix time), in the place of what the key was set to before."""
        self._at[key] = (at_ms, function)
        heappush(self._order, (at_ms, key))
        if len(self._order) > 2 * len(self._at) + _MOST_OLD:
            self._order = [(at, each) for each, (at, _) in self._at.items()]
            heapify(self._order)
        if self._timer is None or at_ms < self._timer_at:
            self._arm()

    def cancel(self, key: str) -> None:
        """Forget what a key was set to."""
        self._at.pop(key, None)

    def stop(self) -> None:
        """Call nothing any more."""
        self._at.clear()
        self._order.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._drop_old()
        if self._order:
            self._timer_at = self._order[0][0]
            wait = max(self._timer_at * _MS - self._host.now_ns(), 0) / 1e9
            self._timer = self._host.call_later(min(wait, _LONGEST), self._look)

    def _drop_old(self) -> None:
        while self._order and self._at.get(self._order[0][1], (-1, None))[0] != self._order[0][0]:
            heappop(self._order)

    def _look(self) -> None:
        self._timer = None
        now = self._host.now_ns() // _MS
        due = []
        self._drop_old()
        while self._order and self._order[0][0] <= now:
            _, key = heappop(self._order)
            due.append(self._at.pop(key)[1])
            self._drop_old()
        self._arm()
        for function in due:
            function()
