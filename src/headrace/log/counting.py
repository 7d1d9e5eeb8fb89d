"""Counts of a file log's messages in a span, and its removed sequences, from what is known without reading
first.

Here live counts by sequence and filter over the ledger and, where it does not know, over the records; never
anything that changes the log.
"""

from __future__ import annotations

from heapq import merge
from itertools import chain, combinations, islice
from typing import TYPE_CHECKING

from headrace.log.filters import SubjectFilter
from headrace.log.reader import LARGE_WINDOW
from headrace.subjects import grammar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.engine.records import Scan
    from headrace.log.ledger import Ledger
    from headrace.log.outline import Filters
    from headrace.log.reader import SegmentReader


class Counting:
    """The counts of one log's messages in a span."""

    def __init__(self, ledger: Ledger, reader: SegmentReader) -> None:
        self._ledger = ledger
        self._reader = reader

    def between(self, first: int, end: int, filters: Sequence[bytes] = ()) -> int:
        """Live messages from `first` on, below `end`, that match one of the filters (none: all).

        Known at once without filters where no sequence was left out, and for a span that holds all messages
        of its subjects; else records are read: of the span, or of what is outside it when that is shorter.
        """
        ledger = self._ledger
        first, end = max(first, ledger.floor), min(end, ledger.last_sequence + 1)
        if first >= end or not ledger.messages:
            return 0
        chosen = SubjectFilter(filters)
        if chosen.everything:
            total, lowest, highest = ledger.messages, ledger.floor, ledger.last_sequence
            if self._has_no_gap():
                return self._there(first, end - 1)
            wanted = None
        else:
            wanted = [*chosen.literals, *chosen.patterns]
            total, lowest, highest = self._span(wanted)
        first, end = max(first, lowest), min(end, highest + 1)
        if first >= end:
            return 0
        outside = (first - lowest) + (highest + 1 - end)
        if total < 0 or end - first < outside:
            return self._read(first, end - 1, wanted)
        before = self._read(lowest, first - 1, wanted) if lowest < first else 0
        after = self._read(end, highest, wanted) if end <= highest else 0
        return total - before - after

    def _span(self, wanted: list[bytes]) -> tuple[int, int, int]:
        """(messages, lowest, highest) of subjects that match; -1 messages where filters overlap."""
        spans = [span for pattern in wanted if (span := self._of(pattern))[0]]
        if not spans:
            return 0, 1, 0
        overlapping = any(grammar.overlaps(a, b) for a, b in combinations(wanted, 2))
        total = -1 if overlapping else sum(span[0] for span in spans)
        return total, min(span[1] for span in spans), max(span[2] for span in spans)

    def _of(self, pattern: bytes) -> tuple[int, int, int]:
        if grammar.has_wildcard(pattern):
            return self._ledger.table.span(pattern)
        known = self._ledger.table.get(pattern)
        return known[:3] if known is not None and grammar.is_valid_literal(pattern) else (0, 0, 0)

    def _has_no_gap(self) -> bool:
        """True if every sequence from the floor on was given to a message, so that none was left out."""
        ledger = self._ledger
        return ledger.messages == self._there(ledger.floor, ledger.last_sequence)

    def _there(self, first: int, last: int) -> int:
        """Sequences from `first` to `last` that are neither removed nor unreadable."""
        ledger = self._ledger
        unreadable = sum(max(min(b, last) - max(a, first) + 1, 0) for a, b in ledger.unreadable)
        return last - first + 1 - ledger.removed.between(first, last) - unreadable

    def _read(self, first: int, last: int, wanted: Filters) -> int:
        """Count records."""
        ledger = self._ledger
        found = 0
        scans: list[Scan] = []

        def step(scan: Scan, data: bytes, final: bool) -> bool:
            if not scans or scans[-1] is not scan:
                scans.append(scan)
            return scan.tally(data, final, first, last, wanted, ledger.removed, ledger.floor)

        self._reader.walk(first, LARGE_WINDOW, step)
        for scan in scans:
            found += scan.messages
        return found

    def gone(self, sequence: int, most: int) -> tuple[list[int], int]:
        """See `MessageLog.gone`."""
        first, last = max(sequence, self._ledger.floor), self._ledger.last_sequence
        found = list(islice(chain.from_iterable(self._gaps(first, last)), most))
        return found, (found[-1] + 1 if len(found) == most else last + 1)

    def _gaps(self, first: int, last: int) -> Iterator[range]:
        """Runs of sequences between messages and what is unreadable."""
        live = ((outline.sequence, outline.sequence) for outline in self._reader.outlines(first, last))
        for start, end in merge(live, self._ledger.unreadable):
            if start > first:
                yield range(first, start)
            first = max(first, end + 1)
        yield range(first, last + 1)
