"""What the handshakes of the two route protocols have differently, as that of 2.x has it.

`legacy` has the words of 1.x.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace import limits

if TYPE_CHECKING:
    from headrace.protocol.peers import PeerConnect, PeerInfo


class Dialect:
    """The words of one protocol.

    `timeout`: for a peer that sends no CONNECT; `wrong_port`: for a client; `malformed`: for what is no
    JSON of the kind, "" where nothing is said.
    """

    is_legacy = False
    timeout = "Authentication Timeout"
    wrong_port = "attempted to connect to route port"
    malformed = ""

    def connect_line(self, connect: PeerConnect) -> bytes:
        return connect.line()

    def info_line(self, info: PeerInfo) -> bytes:
        return info.line()

    def understood(self, info: PeerInfo) -> PeerInfo:
        """What an INFO says to a server that speaks like this."""
        return info

    def ping_interval(self, wanted: float) -> float:
        """Seconds between PINGs where the configuration wants so many."""
        return min(wanted, limits.ROUTE_PING_INTERVAL)

    def first_ping(self, interval: float) -> float:
        """Seconds until the first of them."""
        return min(interval, limits.ROUTE_FIRST_PING_DELAY)


MODERN: Final = Dialect()
