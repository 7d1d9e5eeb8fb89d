"""The pending counter: the number of messages that a consumer has still to get, kept without counting.

Never here: which messages those are. Counted anew when messages went from the stream in another way than by
being delivered; what came since is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.jetstream.ports import StreamView


class PendingCounter:
    def __init__(self, stream: StreamView, filters: Sequence[bytes]) -> None:
        self._stream = stream
        self._filters = filters
        self._count = 0
        self._next = 0
        """The sequence that it was last counted from."""
        self._counted_to = -1
        self._epoch = -1

    def filter(self, filters: Sequence[bytes]) -> None:
        self._filters = filters
        self._counted_to = -1

    def count(self, sequence: int) -> int:
        """Messages at or after `sequence` that match. Raises: LogError."""
        stream = self._stream
        last = stream.last_sequence
        if sequence > last:
            return 0
        if self._counted_to < 0 or self._epoch != stream.epoch or self._next != sequence:
            self._count = stream.pending_count(sequence, self._filters)
            self._epoch = stream.epoch
        elif last > self._counted_to:
            self._count += stream.pending_count(self._counted_to + 1, self._filters)
        self._next = sequence
        self._counted_to = last
        return self._count

    def passed(self, sequence: int, delivered: int) -> None:
        """So many of those that were counted were delivered: it is counted from `sequence` on now."""
        self._count -= delivered
        self._next = sequence
