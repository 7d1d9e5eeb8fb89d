"""Recovery from a checkpoint: later messages are added to its ledger, and those removed since are taken out.

Here lives the pass over later records, which changes the checkpoint's ledger; never the choice whether to
try it (`recovery`).

It reads the segments from the checkpoint's position on, twice. A message from before that was removed since
must leave the counts of its subject, so its record is looked up: one read per block of the index in which
there are any. A record that is not found, or damaged, ends the attempt, and everything is read instead; so
does a hole at the end of what the checkpoint counts, and a segment with messages that a record says was taken
away: a power loss took the records that removed them.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from headrace.engine.records import HEADER_BYTES as RECORD_HEADER_BYTES
from headrace.engine.sequence_set import SequenceSet
from headrace.engine.subject_index import SubjectIndex
from headrace.log.filesystem import read_file
from headrace.log.index import NEVER, SPACING, SparseIndex
from headrace.log.outline import Outline
from headrace.log.segment import CEILING, HEADER_BYTES, Segment, cut_bytes, read_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.log.encryption import Cipher
    from headrace.log.filesystem import FileSystem
    from headrace.log.ledger import Checkpoint
    from headrace.log.recovery import Found


class _Tail(Struct):
    """Records that the checkpoint does not count: of a segment, from `start` on."""

    segment: Segment
    start: int
    expected: int
    ceiling: int


class _Block(Struct, frozen=True):
    """Records between two marks of an index."""

    segment: Segment
    mark: int
    start: int
    end: int
    first: int


class CheckpointRecovery:
    """One attempt. `found`: the segments; it gets the checkpoint's ledger, brought up to date."""

    def __init__(
        self, filesystem: FileSystem, cipher: Cipher | None, saved: Checkpoint, found: Found
    ) -> None:
        self._fs = filesystem
        self._cipher = cipher
        self._saved = saved
        self._found = found
        self._ledger = found.ledger = saved.ledger
        self._gone = SequenceSet()
        self._ranges: list[tuple[int, int]] = []
        self._floor = self._ledger.floor
        self._taken_away: list[int] = []
        self._tails: list[_Tail] = []

    def run(self) -> bool:
        """False: `found` is spoiled, and everything has to be read. Raises OSError."""
        found, ledger = self._found, self._ledger
        self._drop_unlisted()
        for segment in found.segments:
            offset = self._saved.offset if segment.base == self._saved.base else None
            if segment.base <= self._saved.base and not self._load_index(segment, offset):
                return False
            if offset is not None and not self._is_whole(segment, offset):
                return False
        self._look_at_tails()
        if not self._take_out() or any(ledger.occupancy.of(base)[0] for base in self._taken_away):
            return False
        for tail in self._tails:
            self._count(tail)
        for place, segment in enumerate(found.segments[:-1]):
            if found.segments[place + 1].base <= ledger.floor:
                found.obsolete.append(segment.path)
                ledger.occupancy.drop(segment.base)
        found.segments = [s for s in found.segments if s.path not in found.obsolete]
        found.damaged = ledger.add_unreadable(found.damaged)
        ledger.noted()
        return True

    def _drop_unlisted(self) -> None:
        """Remove segments that the checkpoint does not list: they were about to be unlinked."""
        found, saved = self._found, self._saved
        kept = []
        for segment in found.segments:
            entry = saved.segments.get(segment.base)
            if entry is None and segment.base < saved.base:
                found.obsolete.append(segment.path)
                continue
            kept.append(segment)
            if entry is not None:
                segment.last = entry.last
                segment.compacted_at = entry.compacted_at if entry.size == segment.size else 0
        found.segments = kept
        for before, after in pairwise(kept):
            if after.header.previous == before.base:
                before.last = after.base - 1

    # ---- indexes ----------------------------------------------------------------------------

    def _load_index(self, segment: Segment, offset: int | None) -> bool:
        """The index of a segment, or of its records up to `offset`; made again when its file is of no use."""
        if offset == 0:
            return True
        size = segment.size if offset is None else HEADER_BYTES + offset
        try:
            data = read_file(self._fs, segment.index_path)
        except FileNotFoundError:
            data = b""
        index = SparseIndex.load(data, segment.salt, segment.base, size)
        if index is None:
            return self._make_index(segment, size - HEADER_BYTES)
        segment.index = index
        segment.is_indexed = offset is None
        return True

    def _make_index(self, segment: Segment, end: int) -> bool:
        ledger = self._ledger
        data = read_records(self._fs, segment, 0, end)
        self._found.read_bytes += len(data)
        scan = segment.scan(segment.base, CEILING, 0, self._cipher)
        marks = scan.census(
            data, True, SubjectIndex(), ledger.removed, ledger.floor, segment.index.marked, SPACING
        )
        segment.index.add(marks, scan.expiry)
        return not scan.damaged and scan.bad_from is None

    def _is_whole(self, segment: Segment, end: int) -> bool:
        """True if the last records that the checkpoint counts are there.

        The length of the file does not say so: room may be reserved behind what was left of them.
        """
        if segment.size == HEADER_BYTES + end:
            return True
        marks = segment.index
        start, first = (marks.offsets[-1], marks.sequences[-1]) if marks.offsets else (0, segment.base)
        data = read_records(self._fs, segment, start, end)
        scan = segment.scan(first, CEILING, start, self._cipher)
        scan.removals(data, True, SequenceSet(), 0)
        return scan.bad_from is None and not scan.damaged

    # ---- what came after --------------------------------------------------------------------

    def _look_at_tails(self) -> None:
        """Read the records behind the checkpoint: the removals among them, and their end."""
        found, saved = self._found, self._saved
        widest = sum(segment.size for segment in found.segments) // RECORD_HEADER_BYTES + 1
        expected = self._ledger.last_sequence + 1
        later = [segment for segment in found.segments if segment.base >= saved.base]
        for place, segment in enumerate(later):
            newest = place == len(later) - 1
            ceiling = CEILING if newest else later[place + 1].base
            start = saved.offset if segment.base == saved.base else 0
            tail = _Tail(segment, start, max(expected, segment.base), ceiling)
            self._tails.append(tail)
            data = read_records(self._fs, segment, start)
            found.read_bytes += len(data)
            scan = segment.scan(tail.expected, ceiling, start, self._cipher)
            scan.removals(data, True, self._gone, widest)
            if newest and scan.bad_from is not None:
                found.cut_bytes = cut_bytes(data, scan.bad_from - start)
                segment.size = HEADER_BYTES + scan.bad_from
            elif not newest:
                scan.finish()
            found.damaged += scan.damaged
            self._ranges += scan.ranges
            self._taken_away += [base for base, other in scan.segments if other < base]
            self._floor = max(self._floor, scan.floor, segment.header.floor)
            self._ledger.last_time = max(self._ledger.last_time, scan.last_time)
            expected = max(expected, scan.settled)

    def _count(self, tail: _Tail) -> None:
        ledger, segment = self._ledger, tail.segment
        data = read_records(self._fs, segment, tail.start)
        scan = segment.scan(tail.expected, tail.ceiling, tail.start, self._cipher)
        marks = scan.census(
            data, True, ledger.table, ledger.removed, ledger.floor, segment.index.marked, SPACING
        )
        segment.index.add(marks, scan.expiry)
        ledger.count(scan, segment.base)
        ledger.last_sequence = max(ledger.last_sequence, scan.settled - 1)

    # ---- what was removed since -------------------------------------------------------------

    def _take_out(self) -> bool:
        ledger = self._ledger
        last = ledger.last_sequence
        if self._floor > last:  # nothing that the checkpoint counts is left
            floor = self._floor
            ledger.forget_all()
            ledger.raise_floor(floor)
        else:
            wanted = self._wanted(last)
            if not self._withdraw(wanted, last):
                return False
        for first, final in self._ranges:
            if final >= self._floor:
                ledger.removed.add(max(first, self._floor), final)
        ledger.raise_floor(self._floor)
        return True

    def _wanted(self, last: int) -> list[int]:
        """Live messages of the checkpoint that records since name as removed, ascending."""
        ledger = self._ledger
        wanted = set()
        for first, final in self._ranges:
            for sequence in range(max(first, self._floor), min(final, last) + 1):
                if ledger.is_unreadable(sequence):
                    ledger.drop_unreadable(sequence)
                elif sequence not in ledger.removed:
                    wanted.add(sequence)
        return sorted(wanted)

    def _withdraw(self, wanted: list[int], last: int) -> bool:
        ledger = self._ledger
        named = 0
        for block in self._blocks(wanted, last):
            segment = block.segment
            data = read_records(self._fs, segment, block.start, block.end)
            self._found.read_bytes += len(data)
            scan = segment.scan(block.first, CEILING, block.start, self._cipher)
            named += scan.withdraw(
                data, True, ledger.table, ledger.removed, ledger.floor, self._gone, self._floor
            )
            if scan.damaged or scan.bad_from is not None:
                return False
            ledger.withdraw(scan, segment.base)
            if scan.expiring:
                self._look_for_expiry(block, data)
        return named == len(wanted)

    def _look_for_expiry(self, block: _Block, data: bytes) -> None:
        """Find the next expiry of a block again, since its first message to expire may be gone."""
        found: list[Outline] = []
        scan = block.segment.scan(block.first, CEILING, block.start, self._cipher)
        scan.outline(
            data, True, Outline, 0, CEILING, None, self._ledger.removed, self._floor, found, len(data)
        )
        ends = [o.expiry for o in found if o.expiry and o.sequence not in self._gone]
        block.segment.index.set_expiry(block.mark, min(ends, default=NEVER))

    def _blocks(self, wanted: list[int], last: int) -> Iterator[_Block]:
        """Blocks in which there are such messages."""
        saved = self._saved
        segments = [segment for segment in self._found.segments if segment.base <= saved.base]
        for place, segment in enumerate(segments):
            ceiling = segments[place + 1].base if place + 1 < len(segments) else last + 1
            end = saved.offset if segment.base == saved.base else segment.size - HEADER_BYTES
            offsets, sequences = segment.index.offsets, segment.index.sequences
            for mark, (offset, first) in enumerate(zip(offsets, sequences, strict=True)):
                more = mark + 1 < len(offsets)
                following = sequences[mark + 1] if more else ceiling
                at = bisect_left(wanted, first)
                is_below = first < self._floor and following > self._ledger.floor
                if is_below or (at < len(wanted) and wanted[at] < following):
                    yield _Block(segment, mark, offset, offsets[mark + 1] if more else end, first)
