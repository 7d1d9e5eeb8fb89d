"""Compression of connections between servers: agreed on at the beginning, each side in its own direction.

With `s2_auto` the level follows the round trip. How bytes are compressed is the engine's
(`headrace.engine.s2`). Source: nats-server 2.15.1; `better` and `best` are negotiated and shown, and compress
as `fast` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.cluster.session import Session
from headrace.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Sequence

NOT_SUPPORTED, OFF, ACCEPT, AUTO = "not supported", "off", "accept", "s2_auto"
UNCOMPRESSED, FAST, BETTER, BEST = "s2_uncompressed", "s2_fast", "s2_better", "s2_best"
_LEVELS: Final = (UNCOMPRESSED, FAST, BETTER, BEST)


def is_negotiated(mode: str) -> bool:
    """Return True for a mode whose server asks for compression, or would go along."""
    return mode not in (OFF, NOT_SUPPORTED)


def chosen(own: str, peer: str) -> str:
    """The mode in which this side sends, where its own mode is negotiated.

    Raises: ProtocolError for a mode of the peer that is unknown.
    """
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
    """The mode that `s2_auto` means for this round trip.

    `thresholds`: the longest round trip, in seconds, of each level; 0 leaves a level out.
    """
    for level, most in zip(_LEVELS, thresholds, strict=False):
        if seconds <= most:
            return level
    return BEST if len(thresholds) >= len(_LEVELS) - 1 else _LEVELS[len(thresholds) - 1]


def engine_level(mode: str) -> int:
    """The level of a mode, as `RouteLink.compress` takes it."""
    return 0 if mode == UNCOMPRESSED else 1


class CompressingSession(Session):
    """A session whose peer says in its first INFO which compression it can do.

    `compression`: the mode in which this side sends, "" until it is decided.
    """

    compression: str

    @property
    def _compression_mode(self) -> str:
        """The configured mode."""
        raise NotImplementedError

    @property
    def _compression_rtts(self) -> Sequence[float]:
        """Seconds, as `by_round_trip` takes them."""
        raise NotImplementedError

    @property
    def _has_dialed(self) -> bool:
        """True where this side has begun the connection."""
        raise NotImplementedError

    def _say_compression(self) -> None:
        """Send the INFO that tells the mode which was decided."""
        raise NotImplementedError

    @property
    def _negotiates(self) -> bool:
        return is_negotiated(self._compression_mode)

    @property
    def _said_compression(self) -> str:
        """The mode for INFO: `s2_auto` stays that, whatever it means now."""
        own = self._compression_mode
        return self.compression if self._negotiates and self.compression and own != AUTO else own

    def _begins_to_compress(self, peer: str) -> bool:
        """Decide the mode by that of the peer's first INFO.

        Returns True when there is compression, and introductions begin anew.

        Who dialed says its choice before it compresses, the other one after. No PING goes out before.
        """
        own = self._compression_mode
        if self.compression:
            return False
        if not self._negotiates:
            is_known = peer and own != NOT_SUPPORTED
            self.compression = OFF if is_known else NOT_SUPPORTED
            return False
        try:
            mode = chosen(own, peer)
        except ProtocolError as problem:
            self.violates(str(problem))
            return True
        if mode == AUTO:
            self.rtt_ns = max(self._port.now_ns() - self.start_ns, 1)
            mode = self._by_round_trip()
        self.compression = mode
        if not is_negotiated(mode):
            return False
        if self._has_dialed:
            self._say_compression()
            self.link.compress(engine_level(mode))
        else:
            self.link.compress(engine_level(mode))
            self._say_compression()
        self._port.wake()
        return True

    def _by_round_trip(self) -> str:
        return by_round_trip(self.rtt_ns / 1e9, self._compression_rtts)

    def _fit_compression(self) -> None:
        """Choose the level of `s2_auto` anew, after the round trip was measured."""
        is_compressed = self.compression and is_negotiated(self.compression)
        if is_compressed and self._compression_mode == AUTO:
            self.compression = self._by_round_trip()
            self.link.compress(engine_level(self.compression))
