"""The rate limit of handshakes of a listener, and the count of those that it turned away.

Here lives the counting. Never lives here: sockets, timers, words for clients.
Source: `connection_rate_limit` of the Go server 2.15.1: windows of one second, each begun by the first
handshake after the one before.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW: Final = 1.0  # seconds


class HandshakeRate:
    """The limit on handshakes in a window of time. `limit` handshakes a window; 0 is no limit."""

    __slots__ = ("_clock", "_count", "_end", "_rejected", "limit")

    def __init__(self, limit: int, clock: Callable[[], float] = monotonic) -> None:
        self.limit = limit
        self._clock = clock
        self._count = 0
        self._end = 0.0
        self._rejected = 0

    def allows(self) -> bool:
        """Count a handshake; True if it may begin now."""
        if not self.limit:
            return True
        now = self._clock()
        if now > self._end:
            self._count, self._end = 0, now + WINDOW
        self._count += 1
        if self._count <= self.limit:
            return True
        self._rejected += 1
        return False

    def take_rejected(self) -> int:
        """Return the number of handshakes that were turned away since the last call."""
        rejected, self._rejected = self._rejected, 0
        return rejected
