"""Deciding about compression at the beginning of a connection, and fitting it to the round trip later.

Which mode comes out is `compression`'s, what is compressed how the engine's. Source: nats-server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.cluster import compression
from headrace.cluster.session import Session
from headrace.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Sequence


class CompressingSession(Session):
    """A session whose peer says in its first INFO which compression it can do.

    `compression`: of what is sent, "" until that is decided.
    """

    compression: str

    @property
    def _compression_mode(self) -> str:
        """As it is configured."""
        raise NotImplementedError

    @property
    def _compression_rtts(self) -> Sequence[float]:
        """Seconds, as `compression.by_round_trip` takes them."""
        raise NotImplementedError

    @property
    def _has_dialed(self) -> bool:
        """Whether this side has begun the connection."""
        raise NotImplementedError

    def _say_compression(self) -> None:
        """Sends the INFO that tells what was decided."""
        raise NotImplementedError

    @property
    def _negotiates(self) -> bool:
        return compression.is_negotiated(self._compression_mode)

    @property
    def _said_compression(self) -> str:
        """The mode as INFO says it: `s2_auto` stays that, whatever it means now."""
        own = self._compression_mode
        return self.compression if self._negotiates and self.compression and own != compression.AUTO else own

    def _begins_to_compress(self, peer: str) -> bool:
        """The mode of the first INFO decides. True: there is some, and introductions begin anew.

        Who dialed says its choice before it compresses, the other one after. No PING goes out before.
        """
        own = self._compression_mode
        if self.compression:
            return False
        if not self._negotiates:
            is_known = peer and own != compression.NOT_SUPPORTED
            self.compression = compression.OFF if is_known else compression.NOT_SUPPORTED
            return False
        try:
            mode = compression.chosen(own, peer)
        except ProtocolError as problem:
            self.violates(str(problem))
            return True
        if mode == compression.AUTO:
            self.rtt_ns = max(self._port.now_ns() - self.start_ns, 1)
            mode = self._by_round_trip()
        self.compression = mode
        if not compression.is_negotiated(mode):
            return False
        if self._has_dialed:
            self._say_compression()
            self.link.compress(compression.engine_level(mode))
        else:
            self.link.compress(compression.engine_level(mode))
            self._say_compression()
        self._port.wake()
        return True

    def _by_round_trip(self) -> str:
        return compression.by_round_trip(self.rtt_ns / 1e9, self._compression_rtts)

    def _fit_compression(self) -> None:
        """The round trip was measured anew."""
        is_compressed = self.compression and compression.is_negotiated(self.compression)
        if is_compressed and self._compression_mode == compression.AUTO:
            self.compression = self._by_round_trip()
            self.link.compress(compression.engine_level(self.compression))
