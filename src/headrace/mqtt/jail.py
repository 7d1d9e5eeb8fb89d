"""The jail for client identifiers: of clients with one identifier that take the session from each other.

Source: nats-server 2.15.1: for a second after a takeover a further CONNECT is held a second and refused.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

JAIL_NS: Final = 1_000_000_000
HOLD_SECONDS: Final = 1.0
MOST_JAILED: Final = 10_000
"""Client identifiers in the jail; the oldest goes free when one more comes."""


class Jail:
    """The client identifiers that were taken over a moment ago."""

    def __init__(self) -> None:
        self._since: OrderedDict[str, int] = OrderedDict()

    def add(self, client_id: str, now_ns: int) -> None:
        """Note a takeover."""
        self._since.pop(client_id, None)
        self._since[client_id] = now_ns
        if len(self._since) > MOST_JAILED:
            self._since.popitem(last=False)

    def free(self, client_id: str) -> None:
        """Note that the client has left."""
        self._since.pop(client_id, None)

    def holds(self, client_id: str, now_ns: int) -> bool:
        """True if the identifier was taken over less than a second ago; else it is free from now on."""
        since = self._since.get(client_id)
        if since is None:
            return False
        if now_ns - since > JAIL_NS:
            del self._since[client_id]
            return False
        return True
