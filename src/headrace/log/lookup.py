"""Look-ups of a file log by subject or time: the newest message, matching subjects, the first of a time.

Here live these questions over the subject index and the sparse index; never anything that changes the log,
and never counting (`counting`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.errors import MessageDamaged
from headrace.log.filters import SubjectFilter
from headrace.log.port import SubjectState
from headrace.subjects import grammar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.log.ledger import Ledger
    from headrace.log.port import StoredMessage
    from headrace.log.reader import SegmentReader
    from headrace.log.retention import LogRetention
    from headrace.log.segments import Segments

SUBJECTS_AT_ONCE: Final = 1000


class Lookup:
    """The look-ups of one log's messages by subject and by time."""

    def __init__(
        self, segments: Segments, ledger: Ledger, reader: SegmentReader, retention: LogRetention
    ) -> None:
        self._segments = segments
        self._ledger = ledger
        self._reader = reader
        self._retention = retention

    def at_time(self, time_ns: int) -> int:
        """See `MessageLog.sequence_at`."""
        ledger = self._ledger
        start = ledger.floor
        for segment in reversed(self._segments.all):
            if segment.header.last_time < time_ns:
                start = max(start, segment.base, segment.index.before_time(time_ns))
                break
        for outline in self._reader.outlines(start, ledger.last_sequence, most=64):
            if outline.time_ns >= time_ns:
                return outline.sequence
        return ledger.last_sequence + 1

    def newest(self) -> StoredMessage | None:
        """The newest message that can be read."""
        last = self._ledger.last_sequence
        for sequence in range(last, max(last - 64, 0), -1):  # mostly the very last one
            if message := self._readable(sequence):
                return message
        return self._last_live()

    def _readable(self, sequence: int) -> StoredMessage | None:
        """Return a message; None if it is gone, or damaged."""
        try:
            return self._reader.message(sequence) if self._ledger.is_live(sequence) else None
        except MessageDamaged:
            return None

    def _last_live(self) -> StoredMessage | None:
        """Look from the last mark of the index backwards."""
        end = self._ledger.last_sequence
        for segment in reversed(self._segments.all):
            for start in [*reversed(segment.index.sequences), segment.base]:
                for outline in reversed([*self._reader.outlines(start, end)]):
                    if message := self._readable(outline.sequence):
                        return message
                end = start - 1
        return None

    def last_of(self, pattern: bytes) -> int:
        """See `MessageLog.last_of`."""
        return max(map(self._retention.newest, self._matching(pattern)), default=0)

    def _matching(self, pattern: bytes) -> Iterator[bytes]:
        """Subjects that match; the table may change in between."""
        if grammar.has_wildcard(pattern):
            for some in self.pages(pattern):
                yield from some
        elif grammar.is_valid_literal(pattern) and self._ledger.table.get(pattern) is not None:
            yield pattern

    def pages(self, pattern: bytes | None = None) -> Iterator[list[bytes]]:
        """Subjects that match a pattern (None: all), some at once; the table may change in between."""
        table, place = self._ledger.table, 0
        while True:
            found, place = table.matching(pattern, place, SUBJECTS_AT_ONCE)
            yield found
            if not place:
                return

    def states(self, pattern: bytes) -> Iterator[tuple[bytes, SubjectState]]:
        """See `MessageLog.subjects`."""
        for subject in self._matching(pattern):
            known = self._ledger.table.get(subject)
            if known is None:
                continue
            first, last = known[1], known[2]
            if not known[3]:
                oldest = self._retention.oldest(subject)
                first = oldest.sequence if oldest else first
            if not known[4]:
                last = self._retention.newest(subject) or last
            yield subject, SubjectState(known[0], first, last)

    def totals(self, pattern: bytes) -> Iterator[tuple[bytes, int]]:
        """See `MessageLog.totals`."""
        for subject in self._matching(pattern):
            known = self._ledger.table.get(subject)
            if known is not None:
                yield subject, known[0]

    def span_of(self, filters: Sequence[bytes], start: int, stop: int) -> tuple[int, int, list[bytes] | None]:
        """Return the span in which messages can match, as far as the subject index knows, and the filters
        that remain.
        """
        if not filters:
            return start, stop, None
        chosen = SubjectFilter(filters)
        wanted = [*chosen.literals, *chosen.patterns]
        if chosen.patterns:
            return start, stop, wanted
        known = [state for subject in wanted if (state := self._ledger.table.get(subject)) is not None]
        if not known:
            return stop, stop, wanted
        return max(start, min(k[1] for k in known)), min(stop, max(k[2] for k in known) + 1), wanted
