"""The other servers with the same shard, as far as they were heard lately.

Never here: messages between servers, and what a shard makes of them (`owner_watch`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.bucket.owner_watch import SILENCE_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.bucket.port import Beat

MOST_PEERS: Final = 256
"""Servers that are remembered; more are not heard until one of them is silent."""


class HeardServer(NamedTuple):
    """A server that was heard: its name, its last sign of life, and the loop's time when that came."""

    name: str
    beat: Beat
    at: float


class Peers:
    """The servers that were heard within SILENCE_S, by their ids. Times are the loop's, in seconds."""

    def __init__(self) -> None:
        self._heard: Final[dict[str, HeardServer]] = {}

    def hear(self, server_id: str, heard: HeardServer) -> bool:
        """Take a sign of life; False if there are too many servers already, and this is not one of them."""
        if server_id not in self._heard and len(self._heard) >= MOST_PEERS:
            self.present(heard.at)
            if len(self._heard) >= MOST_PEERS:
                return False
        self._heard[server_id] = heard
        return True

    def forget(self, server_id: str) -> None:
        """Forget a server, whether or not it is known."""
        self._heard.pop(server_id, None)

    def present(self, now: float) -> Mapping[str, HeardServer]:
        """Return the servers that are not silent; the others are forgotten."""
        for silent in [each for each, heard in self._heard.items() if heard.at < now - SILENCE_S]:
            del self._heard[silent]
        return self._heard
