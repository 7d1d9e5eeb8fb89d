"""Routes of servers before 2.0: what their handshake says, how they are told from others, whom they reach.

What is said after the handshake is the engine's (`engine.legacy_route`); everything else about such a
connection is as on any other (`route`, `mesh`). Source: cluster specification A1 and A4, and gnatsd 1.4.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from headrace.cluster.dialect import Dialect
from headrace.protocol.peers import RS_PROTOCOL

if TYPE_CHECKING:
    from headrace.cluster.route import RouteSession
    from headrace.protocol.peers import PeerConnect, PeerInfo

ACCOUNT: Final = "$G"
"""There were no accounts: what is said is about the one of users that are in none."""


class Legacy(Dialect):
    """The words of 1.x."""

    is_legacy = True
    timeout = "Authorization Timeout"
    wrong_port = "Attempted To Connect To Route Port"
    malformed = "Parser Error"

    def connect_line(self, connect: PeerConnect) -> bytes:
        return connect.legacy_line()

    def info_line(self, info: PeerInfo) -> bytes:
        return info.legacy_line()

    def understood(self, info: PeerInfo) -> PeerInfo:
        return info.legacy()

    def ping_interval(self, wanted: float) -> float:
        return wanted

    def first_ping(self, interval: float) -> float:
        return interval


LEGACY: Final = Legacy()


def is_legacy_connect(given: PeerConnect) -> bool:
    """Whether a server that introduces itself like this speaks 1.x; from 2.0 on it says its cluster."""
    return not given.cluster


def is_legacy_info(info: PeerInfo, *, speaks_modern: bool) -> bool:
    """Whether a server that says this of itself is spoken to in 1.x.

    One that speaks both is where this server does not (`speaks_modern`).
    """
    if info.legacy_routes and not speaks_modern:
        return True
    return not info.cluster and info.proto < RS_PROTOCOL


def can_connect(one: RouteSession, other: RouteSession) -> bool:
    """Whether the peers on these connections have a protocol in common, as far as they have said."""
    if one.is_legacy == other.is_legacy:
        return True
    modern = other if one.is_legacy else one
    return modern.remote is not None and modern.remote.legacy_routes


def told(info: PeerInfo, to: RouteSession, mode: int) -> bytes:
    """The line that tells a peer of another server; `mode` is said where there is such a thing."""
    return to.dialect.info_line(replace(info, nonce="", gossip_mode=mode))
