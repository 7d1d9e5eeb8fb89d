"""The index of one message file: where each message should be. Trusted only as far as its entries hold."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, Final

from headrace.streaming.importing.records import INDEX, START, ByteFile, IndexEntry, index_entry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.streaming.importing.checksums import Checksum

_BATCH: Final = 4096


class SliceIndex:
    """Entries that hold, ascending by offset and sequence; without a file there are none.

    They are loaded when first asked for (32 bytes of memory each): an undamaged file is read without them.
    Without checksums an entry has to continue the one before it, or be continued, to be believed.
    """

    def __init__(self, path: Path, checksum: Checksum | None) -> None:
        self._path = path
        self._checksum = checksum
        self._tried = 0

    @property
    def last_sequence(self) -> int:
        """The highest sequence that is listed, 0 for none."""
        if self._checksum is None:
            return self._columns[0][-1] if self._columns[0] else 0
        return self._last_that_holds()

    def at(self, offset: int) -> IndexEntry | None:
        """The entry of the record that starts at `offset`."""
        place = bisect_left(self._columns[1], offset)
        entry = self._entry(place) if place < len(self._columns[1]) else None
        return entry if entry is not None and entry.offset == offset else None

    def untried(self, offset: int) -> Iterator[IndexEntry]:
        """Entries of records after `offset`; what was handed out once does not come again."""
        self._tried = max(self._tried, bisect_right(self._columns[1], offset))
        while self._tried < len(self._columns[1]):
            self._tried += 1
            yield self._entry(self._tried - 1)

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """First and last sequence of the records that start in `start` to `stop`; zeros for none."""
        sequences, offsets = self._columns[:2]
        low, high = bisect_left(offsets, start), bisect_left(offsets, stop)
        return (sequences[low], sequences[high - 1]) if low < high else (0, 0)

    def _entry(self, place: int) -> IndexEntry:
        sequences, offsets, times, sizes = self._columns
        return IndexEntry(sequences[place], offsets[place], times[place], sizes[place])

    @cached_property
    def _columns(self) -> tuple[array[int], array[int], array[int], array[int]]:
        sequences, offsets, times, sizes = array("Q"), array("Q"), array("q"), array("Q")
        for entry in self._touching() if self._checksum is None else self._holding():
            if offsets and (entry.offset <= offsets[-1] or entry.sequence <= sequences[-1]):
                continue
            sequences.append(entry.sequence)
            offsets.append(entry.offset)
            times.append(entry.time_ns)
            sizes.append(entry.size)
        return sequences, offsets, times, sizes

    def _raw(self) -> Iterator[IndexEntry | None]:
        if not self._path.exists():
            return
        with ByteFile(self._path, self._path.name) as file:
            offset = START
            while data := file.read(offset, _BATCH * INDEX.size):
                for start in range(0, len(data), INDEX.size):
                    yield index_entry(data[start : start + INDEX.size], self._checksum)
                offset += len(data)

    def _holding(self) -> Iterator[IndexEntry]:
        return (entry for entry in self._raw() if entry is not None)

    def _touching(self) -> Iterator[IndexEntry]:
        before: IndexEntry | None = None
        held: IndexEntry | None = None  # touches nothing yet, may touch the next
        for entry in self._raw():
            follows = entry is not None and before is not None and _follows(before, entry)
            if held is not None and follows:
                yield held
            held = None
            if entry is not None and follows:
                yield entry
            elif entry is not None:
                held = entry
            before = entry
        if held is not None and held.offset == START:  # a file of one message
            yield held

    def _last_that_holds(self) -> int:
        if not self._path.exists():
            return 0
        with ByteFile(self._path, self._path.name) as file:
            count = max(0, file.size - START) // INDEX.size
            while count:
                low = max(0, count - _BATCH)
                data = file.read(START + low * INDEX.size, (count - low) * INDEX.size)
                for start in range(len(data) - INDEX.size, -1, -INDEX.size):
                    entry = index_entry(data[start : start + INDEX.size], self._checksum)
                    if entry is not None:
                        return entry.sequence
                count = low
        return 0


def _follows(before: IndexEntry, entry: IndexEntry) -> bool:
    return before.end == entry.offset and before.sequence + 1 == entry.sequence
