"""The limit on connections of one address that have not said yet who they are.

Here lives the count. One address can otherwise take every connection the server may have without a single
password: each is free to wait for the authentication timeout. Never lives here: what a refused client hears.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
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
