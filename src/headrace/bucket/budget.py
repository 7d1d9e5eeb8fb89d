"""The budget of puts: so many a second, some more at once after a pause; whose tokens are; the pace of puts.

Never lives here: what a put costs (`price`), or what is put.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

LEAST_BURST: Final = 16 << 10
"""Bytes that puts have to have lately for the next one to wait for a burst: smaller ones do not wait."""
LEAST_TIME_S: Final = 0.01
"""Seconds that puts have to take lately for the next one to wait for a burst: quicker ones do not wait."""
WHOLE: Final = 7 / 8
"""The part of the expected bytes with which a burst counts as whole."""
PATIENCE: Final = 1 / 4
"""The part of a put's time for which the rest of a burst is waited for, at most."""
_LATELY: Final = 8
"""Puts over which their times and sizes are averaged, about."""
LONGEST_DISTANCE_S: Final = 0.05
"""The longest time from one put to the next: a put that failed takes long."""
PAYBACK: Final = 8
"""Tokens by which a borrowed one is given back: they come by an eighth later."""
_LEAST_WAIT_S: Final = 0.0002
"""A put that may begin so soon may begin now."""
_ROUNDING_S: Final = 1e-9
"""A put that may go this much later may go now: sums of times are not exact."""


class PutBudget:
    """A token bucket. `per_second` tokens come each second, up to `burst` are kept. Times are seconds."""

    __slots__ = ("_debt", "_full_at", "_interval", "_span")

    def __init__(self, per_second: float, burst: int) -> None:
        self._interval = 1.0 / per_second
        self._span = (burst - 1) * self._interval
        self._full_at = float("-inf")
        """The time when the bucket is full again."""
        self._debt = 0.0
        """Seconds of tokens that were borrowed and not given back yet."""

    @property
    def is_in_debt(self) -> bool:
        """True while a borrowed token is not wholly given back."""
        return self._debt > _ROUNDING_S

    def change(self, per_second: float, now: float) -> None:
        """Have another number of tokens come each second from now on; those that are there stay."""
        missing = max(self._full_at - now, 0.0) / self._interval
        burst = self._span / self._interval + 1
        self._interval = 1.0 / per_second
        self._span = (burst - 1) * self._interval
        self._full_at = now + missing * self._interval

    def wait_s(self, now: float) -> float:
        """Return the seconds until there is a token; 0.0: there is one."""
        wait = self._full_at - self._span - now
        return wait if wait > _ROUNDING_S else 0.0

    def spend(self, now: float) -> None:
        """Take a token, and give a part of a borrowed one back. `wait_s` has said that there is one."""
        part = min(self._debt, self._interval / PAYBACK)
        self._debt -= part
        self._full_at = max(self._full_at, now) + self._interval + part

    def borrow(self, now: float) -> None:
        """Take a token that the next PAYBACK ones give back: none of them comes much later for it.

        One token is borrowed at a time; another one is taken as `spend` does. `wait_s` has said that there
        is one.
        """
        if self.is_in_debt:
            self.spend(now)
        else:
            self._debt = self._interval


class PutsBeside:
    """The puts beside the log: who waits for a token, and which tokens are theirs.

    Where the log wants each token, they borrow one, and the next when it is given back; those that are late
    have every second one.
    """

    __slots__ = ("_budget", "_had_last", "is_late", "waiting")

    def __init__(self, budget: PutBudget) -> None:
        self.waiting: Final[deque[asyncio.Future[None]]] = deque()
        self.is_late = False
        self._budget: Final = budget
        self._had_last = False

    def is_next(self, *, is_log_waiting: bool) -> bool:
        """True if the next token is for one of them."""
        is_log_first = self._had_last if self.is_late else self._budget.is_in_debt
        return bool(self.waiting) and not (is_log_waiting and is_log_first)

    def note_token(self, *, is_beside: bool) -> None:
        """Take note of whom a token was for."""
        self._had_last = is_beside


class PutPace:
    """The pace of puts: when the next one begins while others are under way. Times are seconds.

    Puts are spread over the time that one takes, so that up to `most` are under way: else those of a burst
    would all begin with its first messages, and the others would wait for one of them.

    Who publishes with a window sends as much again as was confirmed, in a burst. Where puts are large and
    take long, the next one waits until its share of what is expected is there, a quarter of the time that one
    takes at the longest. Of a store that is near nothing is gained by that.
    """

    __slots__ = ("_begun_at", "_expected", "_since", "_size", "_took_s", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self._took_s = 0.0
        """The time that puts took lately."""
        self._size = 0.0
        """Bytes of a put lately."""
        self._begun_at = float("-inf")
        self._expected = 0
        """Bytes that were confirmed, and that nothing was sent for since."""
        self._since: float | None = None
        """The time from which on the rest of a burst is waited for."""

    def missing(self, in_flight: int) -> int:
        """Return how many bytes have to wait for the next put to begin at once, where so many are under way;
        0: it does not go by them.

        They are what is expected, divided among the puts that may still begin: one alone would have what
        comes while it is under way wait for all of its time.
        """
        if self._size < LEAST_BURST or self._took_s < LEAST_TIME_S:
            return 0
        return int(self._expected * WHOLE / max(self.most - in_flight, 1))

    def begin(self, now: float, size: int, in_flight: int) -> None:
        """Take note of a put that begins, with so many bytes of those that waited, beside so many."""
        was_whole = size >= self.missing(in_flight)
        self._begun_at, self._since = now, None
        self._size += (size - self._size) / _LATELY
        self._expected = max(self._expected - size, 0) if was_whole else 0

    def end(self, took_s: float) -> None:
        """Take note of the time that a put took."""
        self._took_s += (took_s - self._took_s) / (_LATELY if self._took_s else 1)

    def confirmed(self, size: int) -> None:
        """Take note that those who sent so many bytes are told that they are in the bucket."""
        self._expected += size

    def wait_s(self, now: float, waiting: int, in_flight: int) -> float:
        """Return the seconds until the next put may begin, where so many bytes wait and so many puts are
        under way; 0.0: now.
        """
        if missing := self.missing(in_flight):
            if waiting >= missing:
                return 0.0
            if self._since is None:
                self._since = now
            wait = self._since + min(self._took_s * PATIENCE, LONGEST_DISTANCE_S) - now
        else:
            wait = self._begun_at + min(self._took_s / self.most, LONGEST_DISTANCE_S) - now
        return wait if wait > _LEAST_WAIT_S else 0.0
