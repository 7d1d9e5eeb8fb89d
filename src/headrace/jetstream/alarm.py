"""One thing to be looked at later: set as often as needed, one timer at most. Never here: what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.service import Timer
    from headrace.turns import Turns

_NS: Final = 1_000_000_000


class Alarm:
    """One timer of one part.

    Most alarms are set anew, for later, before their time: the timer stays, and sees what is due.
    """

    __slots__ = ("_function", "_rings_ns", "_timer", "_turns", "due_ns")

    def __init__(self, turns: Turns, function: Callable[[], object]) -> None:
        self._turns = turns
        self._function = function
        self._timer: Timer | None = None
        self._rings_ns = 0
        """The time that the timer was set for."""
        self.due_ns = 0
        """The time at which the alarm is due; 0: it is not set."""

    def by(self, due_ns: int) -> None:
        """Ring at `due_ns`, or earlier if it was to already."""
        if not self.due_ns or due_ns < self.due_ns:
            self.at(due_ns)

    def at(self, due_ns: int) -> None:
        """Ring at `due_ns`, whatever was set before."""
        self.due_ns = due_ns
        if self._timer is not None:
            if self._rings_ns <= due_ns:
                return
            self._timer.cancel()
        self._rings_ns = due_ns
        self._timer = self._turns.later(max(due_ns - self._turns.now_ns(), 0) / _NS, self._ring)

    def rest(self) -> None:
        """Do not ring until it is set again, which will be soon."""
        self.due_ns = 0

    def cancel(self) -> None:
        """Do not ring, and leave no timer behind."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self.due_ns = 0

    def _ring(self) -> None:
        due_ns, rang_ns = self.due_ns, self._rings_ns
        self._timer = None
        self.due_ns = 0
        if due_ns > rang_ns:
            self.at(due_ns)
        elif due_ns:
            self._function()
