"""The pending counter: the number of messages that a consumer has still to get, kept without counting.

Never here: which messages those are. Counted anew when messages went from the stream in another way than by
being delivered; what came since is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.engine.pulls import PendingNumbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.jetstream.ports import StreamView


class PendingCounter(PendingNumbers):
    """The number of messages that a consumer has still to get."""

    def __init__(self, stream: StreamView, filters: Sequence[bytes]) -> None:
        self._stream = stream
        self._filters = filters

    def filter(self, filters: Sequence[bytes]) -> None:
        self._filters = filters
        self.counted_to = -1

    def count(self, sequence: int) -> int:
        """Messages at or after `sequence` that match. Raises: LogError."""
        stream = self._stream
        last = stream.last_sequence
        if sequence > last:
            return 0
        if self.counted_to < 0 or self.epoch != stream.epoch or self.next_sequence != sequence:
            self.counted = stream.pending_count(sequence, self._filters)
            self.epoch = stream.epoch
        elif last > self.counted_to:
            self.counted += stream.pending_count(self.counted_to + 1, self._filters)
        self.next_sequence = sequence
        self.counted_to = last
        return self.counted

    def passed(self, sequence: int, delivered: int) -> None:
        """Note that so many of the counted messages were delivered; the count begins at `sequence` now."""
        self.counted -= delivered
        self.next_sequence = sequence
