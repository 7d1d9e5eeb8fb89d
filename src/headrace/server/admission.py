"""The limits on those who have not said yet who they are: connections of one address, handshakes in a second.

Here lives counting. One address can otherwise take every connection the server may have without a single
password: each is free to wait for the authentication timeout. Never lives here: sockets, timers, what a
refused client hears. Source of the rate: `connection_rate_limit` of the Go server 2.15.1: windows of one
second, each begun by the first handshake after the one before.
"""

from __future__ import annotations

from collections import Counter
from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Waiting(Protocol):
        """A connection that has not authenticated yet."""

        @property
        def address(self) -> str: ...


SHARE: Final = 4
"""One address may have this part of `max_connections` waiting for authentication, a quarter; one more is
refused as if the server were full."""

ALWAYS_ADMITTED: Final = 100
"""Connections of one address that may wait in any case: clients that come back all at once are no attack."""

WINDOW: Final = 1.0
"""Seconds in which handshakes are counted."""


class Admission:
    """Connections that have not authenticated yet, by address. Each is entered once and leaves once."""

    def __init__(self) -> None:
        self._waiting: dict[Waiting, str] = {}  # a proxy's client gets its own address later
        self._of_address: Counter[str] = Counter()

    def enter(self, session: Waiting, max_connections: int) -> bool:
        """True if a new connection that must authenticate may wait for that; -1 connections is no limit."""
        most = max(max_connections // SHARE, ALWAYS_ADMITTED)
        if max_connections > 0 and self._of_address[session.address] >= most:
            return False
        self._waiting[session] = session.address
        self._of_address[session.address] += 1
        return True

    def leave(self, session: Waiting) -> None:
        """Note that a connection has authenticated, or is gone. One that did not wait is passed over."""
        address = self._waiting.pop(session, None)
        if address is not None:
            self._of_address[address] -= 1
            if not self._of_address[address]:
                del self._of_address[address]


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
