"""How many handshakes a second a listener takes, and how many it turned away.

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
    """`limit` handshakes a window; 0 is no limit."""

    __slots__ = ("_clock", "_count", "_end", "_rejected", "limit")

    def __init__(self, limit: int, clock: Callable[[], float] = monotonic) -> None:
        self.limit = limit
        self._clock = clock
        self._count = 0
        self._end = 0.0
        self._rejected = 0

    def allows(self) -> bool:
        """Whether one more may begin now; it is counted either way."""
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
        """How many were turned away since this was last asked."""
        rejected, self._rejected = self._rejected, 0
        return rejected
