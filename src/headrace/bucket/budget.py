"""The budget of puts: so many a second, some more at once after a pause; and the time from one to the next.

Never lives here: what a put costs (`price`), or what waits for one.
"""

from __future__ import annotations

from typing import Final

LONGEST_DISTANCE_S: Final = 0.05
"""The longest time from one put to the next: a put that failed takes long."""
_LEAST_WAIT_S: Final = 0.0002
"""A put that may begin so soon may begin now."""
_ROUNDING_S: Final = 1e-9
"""A put that may go this much later may go now: sums of times are not exact."""


class PutBudget:
    """A token bucket. `per_second` tokens come each second, up to `burst` are kept. Times are seconds."""

    __slots__ = ("_full_at", "_interval", "_span")

    def __init__(self, per_second: float, burst: int) -> None:
        self._interval = 1.0 / per_second
        self._span = (burst - 1) * self._interval
        self._full_at = float("-inf")
        """The time when the bucket is full again."""

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
        """Take a token. `wait_s` has said that there is one."""
        self._full_at = max(self._full_at, now) + self._interval


class PutDistance:
    """The time from the beginning of one put to the next while some are under way: a part of what one takes.

    So `most` puts at once are spread over the time that one takes. Else those of a burst would all begin with
    its first messages, and the others would wait for one of them. Times are seconds.
    """

    __slots__ = ("_begun_at", "_took_s", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self._took_s = 0.0
        """The time that puts took lately."""
        self._begun_at = float("-inf")

    def begin(self, now: float) -> None:
        """Take note of a put that begins."""
        self._begun_at = now

    def end(self, took_s: float) -> None:
        """Take note of the time that a put took."""
        self._took_s += (took_s - self._took_s) / 8

    def wait_s(self, now: float) -> float:
        """Return the seconds until the next put may begin; 0.0: now."""
        wait = self._begun_at + min(self._took_s / self.most, LONGEST_DISTANCE_S) - now
        return wait if wait > _LEAST_WAIT_S else 0.0
