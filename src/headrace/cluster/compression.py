"""Which compression two servers use on a connection between them, each in its own direction.

What is compressed how is the engine's (`headrace.engine.s2`). Source: nats-server 2.15.1; `better` and `best`
are negotiated and shown, and compress as `fast` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Sequence

NOT_SUPPORTED, OFF, ACCEPT, AUTO = "not supported", "off", "accept", "s2_auto"
UNCOMPRESSED, FAST, BETTER, BEST = "s2_uncompressed", "s2_fast", "s2_better", "s2_best"
_LEVELS: Final = (UNCOMPRESSED, FAST, BETTER, BEST)


def is_negotiated(mode: str) -> bool:
    """Whether a server with this mode asks for compression, or would go along."""
    return mode not in (OFF, NOT_SUPPORTED)


def chosen(own: str, peer: str) -> str:
    """The mode of this side, whose own is negotiated. Raises: ProtocolError for one that is unknown."""
    if peer in (NOT_SUPPORTED, ""):
        return NOT_SUPPORTED
    if peer == OFF or peer == own == ACCEPT:
        return OFF
    if peer not in (ACCEPT, AUTO, *_LEVELS):
        raise ProtocolError(f'unsupported route compression mode "{peer}"')
    if own != ACCEPT:
        return own
    return FAST if peer == AUTO else peer


def by_round_trip(seconds: float, thresholds: Sequence[float]) -> str:
    """What `s2_auto` means now.

    `thresholds`: up to which round trip, in seconds, each level is used; 0 leaves one out.
    """
    for level, most in zip(_LEVELS, thresholds, strict=False):
        if seconds <= most:
            return level
    return BEST if len(thresholds) >= len(_LEVELS) - 1 else _LEVELS[len(thresholds) - 1]


def engine_level(mode: str) -> int:
    """As `RouteLink.compress` takes it."""
    return 0 if mode == UNCOMPRESSED else 1
