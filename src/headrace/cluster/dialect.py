"""The two protocols of routes, 2.x and 1.x (before 2.0): how handshakes differ, and which a peer speaks.

What is said after the handshake is the engine's (`engine.route`, `engine.legacy_route`); everything else
about a connection of 1.x is as on any other (`route`, `mesh`). Source: cluster specification A1 and A4, and
gnatsd 1.4.1.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from headrace import limits
from headrace.protocol.peers import RS_PROTOCOL

if TYPE_CHECKING:
    from headrace.protocol.peers import PeerConnect, PeerInfo

LEGACY_ACCOUNT: Final = "$G"
"""The only account on a connection of 1.x, which knows none: that of users who are in no account."""


class Dialect:
    """The handshake of one protocol; as it stands, that of 2.x.

    Texts of -ERR: `timeout`, for a peer that sends no CONNECT; `wrong_port`, for a client; `malformed`, for
    JSON that cannot be read, "" where the connection ends without a word. `first_ping`: seconds until the
    first PING, if they are fewer than those between two.
    """

    is_legacy = False
    timeout = "Authentication Timeout"
    wrong_port = "attempted to connect to route port"
    malformed = ""
    first_ping = limits.ROUTE_FIRST_PING_DELAY

    def connect_line(self, connect: PeerConnect) -> bytes:
        """A CONNECT as a line."""
        return connect.line()

    def info_line(self, info: PeerInfo) -> bytes:
        """An INFO as a line."""
        return info.line()

    def understood(self, info: PeerInfo) -> PeerInfo:
        """An INFO that came, as a server which speaks this protocol takes it."""
        return info

    def ping_interval(self, wanted: float) -> float:
        """Return the seconds between PINGs, given those of the configuration."""
        return min(wanted, limits.ROUTE_PING_INTERVAL)


class Legacy(Dialect):
    """The handshake of 1.x."""

    is_legacy = True
    timeout = "Authorization Timeout"
    wrong_port = "Attempted To Connect To Route Port"
    malformed = "Parser Error"
    first_ping = inf

    def connect_line(self, connect: PeerConnect) -> bytes:
        return connect.legacy_line()

    def info_line(self, info: PeerInfo) -> bytes:
        return info.legacy_line()

    def understood(self, info: PeerInfo) -> PeerInfo:
        return info.legacy()

    def ping_interval(self, wanted: float) -> float:
        return wanted


MODERN: Final = Dialect()
LEGACY: Final = Legacy()


def is_legacy_connect(given: PeerConnect) -> bool:
    """Return True for the CONNECT of a server that speaks 1.x; from 2.0 on servers say their cluster."""
    return not given.cluster


def is_legacy_info(info: PeerInfo, *, speaks_modern: bool) -> bool:
    """Return True when a server with this INFO is to be spoken to in 1.x.

    One that speaks both is spoken to in 1.x where this server does not speak 2.x (`speaks_modern`).
    """
    if info.legacy_routes and not speaks_modern:
        return True
    return not info.cluster and info.proto < RS_PROTOCOL
