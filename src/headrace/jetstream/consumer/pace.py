"""The pace of a consumer's messages: the rate limit, and the pauses of the original publication.

Here lives when the next message may go. Never here: whether anybody takes it, or a timer. Source: JetStream
specification, 4.
"""

from __future__ import annotations

from typing import Final

_NS: Final = 1_000_000_000


class Pace:
    """The pauses between messages: the rate limit, and the pauses of the original publication.

    `burst`: bytes that may go at once under the rate limit, the largest message.
    """

    __slots__ = (
        "_burst", "_filled_ns", "_last_time_ns", "_rate", "_replay_up_to", "_sent_ns", "_tokens",
    )  # fmt: skip

    def __init__(self, bits_per_second: int, burst: int, replay_up_to: int) -> None:
        self._rate = bits_per_second // 8
        self._burst = burst
        self._tokens = float(burst)
        self._filled_ns = 0
        self._replay_up_to = replay_up_to
        """The last sequence that is replayed with its pauses; 0: none is."""
        self._last_time_ns = 0
        self._sent_ns = 0

    @property
    def is_free(self) -> bool:
        """True if messages may be sent as they come."""
        return not self._rate and not self._replay_up_to

    def limit(self, bits_per_second: int) -> None:
        self._rate = bits_per_second // 8

    def wait_ns(self, sequence: int, time_ns: int, size: int, now_ns: int) -> int:
        """Return how many ns this message must still wait; 0: it may be sent now."""
        wait = 0
        if self._replay_up_to:
            if sequence > self._replay_up_to:
                self._replay_up_to = 0
            elif self._last_time_ns and time_ns - self._last_time_ns > 1_000_000:
                wait = self._sent_ns + time_ns - self._last_time_ns - now_ns
        if self._rate:
            self._fill(now_ns)
            lacking = min(size, self._burst) - self._tokens
            wait = max(wait, int(lacking * _NS / self._rate))
        return max(wait, 0)

    def sent(self, time_ns: int, size: int, now_ns: int) -> None:
        self._last_time_ns, self._sent_ns = time_ns, now_ns
        if self._rate:
            self._tokens -= size

    def _fill(self, now_ns: int) -> None:
        if self._filled_ns:
            self._tokens = min(self._tokens + (now_ns - self._filled_ns) * self._rate / _NS, self._burst)
        self._filled_ns = now_ns
