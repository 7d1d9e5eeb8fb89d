"""The ledger: facts about a log's messages that need no reading, and the checkpoint that keeps them.

Here live counts, the subject index, the removed sequences, the floor, and what is still to be written about
removals. Never here: files, limits. On the heap: some 100 bytes and the text per subject, one bit per
sequence near removed ones, 16 bytes per run of unreadable ones; nothing per message.

The floor: every sequence below it is gone. Removals at the front raise it; others are kept in `removed`.
Removals by limits are counted first and written in front of the next append, in its write.

A checkpoint (file `checkpoint`) is the ledger at a position of the segments, for a start that need not read
them all. It is disposable. Version 2, little-endian:

     0  8 bytes "HRCHECK\\n"    8  u16 version      12  u32 salt of the last segment then
    10  u8 and u8: what messages count for (`Weights`), 0 and 0 for what they do mostly
    16  u64 base of it          24  u64 offset in it
    32  u64 last sequence       40  i64 last time    48  u64 floor
    56  u64 messages            64  u64 bytes        72  u64 messages with a TTL
    80  four u64: lengths of the parts, which follow: subject index, removed sequences,
        unreadable runs (pairs of u64), segments (u64 base, size, last sequence, live messages, bytes of
        their records, base of the last segment when it was rewritten or 0)
    end u32 CRC32C of everything before
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.engine.log_core import LogCounts
from headrace.engine.records import crc32c, encode_removal
from headrace.engine.sequence_set import SequenceSet
from headrace.log.occupancy import Occupancy
from headrace.log.port import PLAIN, Weights

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from headrace.engine.records import Scan
    from headrace.log.outline import Outline

_MAGIC: Final = b"HRCHECK\n"
_HEAD: Final = struct.Struct("<8sHBBIQQQqQQQQQQQQ")
_PAIR: Final = struct.Struct("<QQ")
_SEGMENT: Final = struct.Struct("<QQQQQQ")
VERSION: Final = 2


class SegmentEntry(NamedTuple):
    """A segment's entry in a checkpoint; `messages` and `live_bytes` are those of `Occupancy`."""

    base: int
    size: int
    last: int
    messages: int
    live_bytes: int
    compacted_at: int


class Ledger(LogCounts):
    """The counts of one log, and what follows from them."""

    def __init__(self) -> None:
        self.occupancy: Final = Occupancy()

    def is_live(self, sequence: int) -> bool:
        """True if a sequence that has a record is not removed."""
        return sequence >= self.floor and sequence not in self.removed

    def count(self, scan: Scan, base: int) -> None:
        """Take over what a census found in a segment."""
        self.occupancy.add(base, scan.messages, scan.record_bytes)
        self.messages += scan.messages
        self.bytes += scan.message_bytes
        self.expiring += scan.expiring

    def withdraw(self, scan: Scan, base: int) -> None:
        """Take out what `Scan.withdraw` found in a segment."""
        self.occupancy.add(base, -scan.messages, -scan.record_bytes)
        self.messages -= scan.messages
        self.bytes -= scan.message_bytes
        self.expiring -= scan.expiring

    # ---- removals ---------------------------------------------------------------------------

    def forget(self, outline: Outline, *, is_first: bool) -> None:
        """Take a live message out; the first one raises the floor."""
        sequence = outline.sequence
        self.messages -= 1
        self.bytes -= outline.size
        self.expiring -= outline.expiry != 0
        self.occupancy.take_out(sequence, outline.length)
        self.table.remove(outline.subject, sequence, outline.previous)
        if is_first:
            self.raise_floor(sequence + 1)
        else:
            self.removed.add(sequence, sequence)
            add_to_ranges(self.ranges, sequence, sequence)

    def is_front(self, outlines: Sequence[Outline]) -> bool:
        """True if live messages, ascending, are the first ones, with no sequence between them."""
        first, last = outlines[0].sequence, outlines[-1].sequence
        return first == self.floor and last - first + 1 == len(outlines)

    def forget_below(self, floor: int, outlines: Sequence[Outline]) -> None:
        """Take out the live messages below a floor, which are these; what is below is gone then."""
        remove = self.table.remove
        for outline in outlines:
            remove(outline.subject, outline.sequence, outline.previous)
        self.messages -= len(outlines)
        self.bytes -= sum(outline.size for outline in outlines)
        self.expiring -= sum(outline.expiry != 0 for outline in outlines)
        self.occupancy.take_out_some(outlines)
        self.raise_floor(floor)

    def forget_first(self, scan: Scan, base: int) -> None:
        """Take out what `Scan.drop` took from the front, in a segment."""
        self.occupancy.take_out_first(base, scan.messages, scan.record_bytes)
        self.messages -= scan.messages
        self.bytes -= scan.message_bytes
        self.expiring -= scan.expiring
        self.raise_floor(scan.last_message + 1)

    def raise_floor(self, floor: int) -> None:
        """Give up every sequence below; their messages must be out of the counts by now."""
        if floor <= self.floor:
            return
        if floor >> 12 != self.floor >> 12:
            self.removed.drop_below(floor)
        self.floor = floor
        if self.unreadable and self.unreadable[0][0] < floor:
            self.unreadable = [(max(a, floor), b) for a, b in self.unreadable if b >= floor]

    def forget_all(self) -> None:
        """Forget all messages after a full purge: only the last sequence and time are left."""
        self.table.clear()
        self.removed = SequenceSet()
        self.unreadable = []
        self.ranges = []
        self.messages = self.bytes = self.expiring = 0
        self.occupancy.take_out_all()
        self.floor = self.last_sequence + 1

    @property
    def has_news(self) -> bool:
        """True if there are removals that no record has yet."""
        return self.floor != self.floor_written or bool(self.ranges)

    def removal_records(self, salt: int) -> bytes:
        """The records of what is not written yet; `noted` says that they were."""
        if not self.has_news:
            return b""
        ranges = [(max(a, self.floor), b) for a, b in self.ranges if b >= self.floor]
        return encode_removal(ranges, self.floor, self.last_sequence, self.last_time, salt, by_limits=True)

    def noted(self) -> None:
        self.ranges = []
        self.floor_written = self.floor

    # ---- unreadable sequences ---------------------------------------------------------------

    def is_unreadable(self, sequence: int) -> bool:
        return any(first <= sequence <= last for first, last in self.unreadable)

    def unreadable_from(self, sequence: int) -> int | None:
        """The first unreadable sequence at or after one; None: there is none."""
        if not self.unreadable:
            return None
        return next((max(a, sequence) for a, b in self.unreadable if b >= sequence), None)

    def unreadable_between(self, first: int, end: int) -> list[int]:
        """The unreadable sequences from one to below another."""
        if not self.unreadable:
            return []
        return [sequence for a, b in self.unreadable for sequence in range(max(a, first), min(b + 1, end))]

    def unreadable_count(self) -> int:
        return sum(b - a + 1 for a, b in self.unreadable) if self.unreadable else 0

    def add_unreadable(self, ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """Add ranges as unreadable; return those that were neither removed nor known as such."""
        new = list(self._news_of(_united(ranges)))
        self.unreadable = sorted(self.unreadable + new)
        return new

    def _news_of(self, ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        for first, last in ranges:
            at = max(first, self.floor)
            for known_first, known_last in self.unreadable:
                if known_first > last:
                    break
                yield from self._not_removed(at, min(known_first - 1, last))
                at = max(at, known_last + 1)
            yield from self._not_removed(at, last)

    def _not_removed(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Runs within a span, which may be far longer than any loop."""
        spans = [(first, last)]
        run: tuple[int, int] | None = None
        while spans:
            low, high = spans.pop()
            removed = self.removed.between(low, high)
            if 0 < removed <= high - low:
                middle = (low + high) // 2
                spans += [(middle + 1, high), (low, middle)]
            elif not removed and low <= high:
                if run is not None and run[1] + 1 != low:
                    yield run
                    run = None
                run = (low if run is None else run[0], high)
        if run is not None:
            yield run

    def drop_unreadable(self, sequence: int) -> None:
        """Note that a message that cannot be read is removed now."""
        parts = []
        for a, b in self.unreadable:
            if a <= sequence <= b:
                parts += [(x, y) for x, y in ((a, sequence - 1), (sequence + 1, b)) if x <= y]
            else:
                parts.append((a, b))
        self.unreadable = parts
        self.removed.add(sequence, sequence)
        add_to_ranges(self.ranges, sequence, sequence)

    # ---- checkpoint -------------------------------------------------------------------------

    def dump(
        self, salt: int, base: int, offset: int, segments: Iterable[SegmentEntry], weights: Weights = PLAIN
    ) -> bytes:
        """The checkpoint's file, as of `offset` in the segment `base`; removals must be written by now."""
        counted = (0, 0) if weights == PLAIN else (weights.besides, weights.headed)
        parts = [
            self.table.dump(),
            self.removed.dump(),
            b"".join(_PAIR.pack(*run) for run in self.unreadable),
            b"".join(_SEGMENT.pack(*segment) for segment in segments),
        ]
        head = _HEAD.pack(
            *(_MAGIC, VERSION, *counted, salt, base, offset, self.last_sequence, self.last_time, self.floor),
            *(self.messages, self.bytes, self.expiring, *map(len, parts)),
        )
        data = b"".join([head, *parts])
        return data + struct.pack("<I", crc32c(data))


class Checkpoint:
    """A checkpoint that was read back. Raises ValueError for anything that is not one."""

    def __init__(self, data: bytes) -> None:
        if len(data) < _HEAD.size + 4 or struct.unpack("<I", data[-4:])[0] != crc32c(data[:-4]):
            raise ValueError("not a checkpoint, or damaged")
        magic, version, besides, headed, self.salt, self.base, self.offset, *counts = _HEAD.unpack_from(data)
        self.weights: Final = Weights(besides, headed) if besides else PLAIN
        sizes = counts[6:]
        if magic != _MAGIC or version != VERSION or _HEAD.size + sum(sizes) + 4 != len(data):
            raise ValueError("not a checkpoint of this version")
        parts = []
        at = _HEAD.size
        for size in sizes:
            parts.append(data[at : at + size])
            at += size
        if len(parts[2]) % _PAIR.size or len(parts[3]) % _SEGMENT.size:
            raise ValueError("a checkpoint's list is not well formed")
        ledger = Ledger()
        ledger.table.load(parts[0])
        ledger.removed.load(parts[1])
        ledger.unreadable = [(a, b) for a, b in _PAIR.iter_unpack(parts[2])]
        ledger.last_sequence, ledger.last_time, ledger.floor = counts[:3]
        ledger.messages, ledger.bytes, ledger.expiring = counts[3:6]
        ledger.noted()
        self.ledger: Final = ledger
        entries = map(SegmentEntry._make, _SEGMENT.iter_unpack(parts[3]))
        self.segments: Final = {entry.base: entry for entry in entries}
        for entry in self.segments.values():
            ledger.occupancy.add(entry.base, entry.messages, entry.live_bytes)


def add_to_ranges(ranges: list[tuple[int, int]], first: int, last: int) -> None:
    """Add a run to a list of them; one that goes on where the last ends becomes part of it."""
    if ranges and ranges[-1][1] + 1 == first:
        ranges[-1] = (ranges[-1][0], last)
    else:
        ranges.append((first, last))


def _united(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Runs, ascending, of which none overlaps another or touches it."""
    united: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if united and first <= united[-1][1] + 1:
            united[-1] = (united[-1][0], max(united[-1][1], last))
        else:
            united.append((first, last))
    return united
