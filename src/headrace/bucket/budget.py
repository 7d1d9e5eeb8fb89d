"""The budget of puts: so many a second, some more at once after a pause; and the pace of puts.

Never lives here: what a put costs (`price`), or what waits for one.
"""

from __future__ import annotations

from typing import Final

SHORTEST_DISTANCE_S: Final = 0.0025
"""The shortest time from one put to the next, about: more puts than that cost more than they are of use."""
LEAST_BURST: Final = 8 << 10
"""Bytes whose senders are waited for; with fewer the next put begins sooner than they are there."""
LONGEST_DISTANCE_S: Final = 0.05
"""The longest time from one put to the next: a put that failed takes long."""
PAYBACK: Final = 8
"""Tokens by which a borrowed one is given back."""
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
        if self._debt > _ROUNDING_S:
            self.spend(now)
        else:
            self._debt = self._interval


class PutPace:
    """The pace of puts: how many are under way at once, and when the next one begins. Times are seconds.

    Who publishes with a window sends again what was confirmed, as one burst. A burst is one put if the next
    put waits for all of it, a quarter of the time that one takes at the longest. Where little is sent, puts
    are spread over the time that one takes: else those of a burst would all begin with its first messages,
    and the others would wait for one of them.
    """

    __slots__ = ("_begun_at", "_expected", "_limit", "_since", "_took_s")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._took_s = 0.0
        """The time that puts took lately."""
        self._begun_at = float("-inf")
        self._expected = 0
        """Bytes that were confirmed, and that nothing was sent for since."""
        self._since: float | None = None
        """The time from which on the rest of a burst is waited for."""

    @property
    def most(self) -> int:
        """Puts that may be under way: one for each SHORTEST_DISTANCE_S that they take, two at least."""
        if not self._took_s:
            return self._limit
        return min(max(round(self._took_s / SHORTEST_DISTANCE_S), 2), self._limit)

    @property
    def missing(self) -> int:
        """Bytes that have to wait for the next put to begin at once; 0: it waits for none."""
        return self._expected * 7 // 8 if self._expected >= LEAST_BURST else 0

    def begin(self, now: float, size: int) -> None:
        """Take note of a put that begins, with so many bytes of those that waited."""
        was_whole = size >= self.missing
        self._begun_at, self._since = now, None
        self._expected = max(self._expected - size, 0) if was_whole else 0

    def end(self, took_s: float) -> None:
        """Take note of the time that a put took."""
        self._took_s += (took_s - self._took_s) / (8 if self._took_s else 1)

    def confirmed(self, size: int) -> None:
        """Take note that those who sent so many bytes are told that they are in the bucket."""
        self._expected += size

    def wait_s(self, now: float, waiting: int) -> float:
        """Return the seconds until the next put may begin, where so many bytes wait; 0.0: now."""
        if missing := self.missing:
            if waiting >= missing:
                return 0.0
            if self._since is None:
                self._since = now
            wait = self._since + min(self._took_s / 4, LONGEST_DISTANCE_S) - now
        else:
            wait = self._begun_at + min(self._took_s / self.most, LONGEST_DISTANCE_S) - now
        return wait if wait > _LEAST_WAIT_S else 0.0
