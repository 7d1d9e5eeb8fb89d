"""The sparse index of one segment: where to begin looking for a sequence, a time, an expiry.

Here live marks, about one per 64 KB of records, and the file they are kept in beside a sealed segment. Never
here: anything that the records do not say; a missing or wrong index is rebuilt from them.

The file, version 1, little-endian:

     0  8 bytes "HRINDEX\\n"     8  u32 version     12  u32 salt of the segment
    16  u64 base of the segment  24  u64 size of the segment in bytes
    32  u64 marks, then four columns of so many u64: offsets, sequences, times, expiries
    end u32 CRC32C of everything before
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from headrace.engine.records import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SPACING: Final = 64 << 10
"""Bytes of records between two marks at least; a point read looks at about as many."""
NEVER: Final = (1 << 63) - 1
"""The expiry of a block in which nothing expires."""

_MAGIC: Final = b"HRINDEX\n"
_HEAD: Final = struct.Struct("<8sIIQQQ")
_COLUMNS: Final = 4


class SparseIndex:
    """Marks in the order of the records. 32 bytes on the heap per mark: 0.05 % of the bytes on disk.

    The block of a mark are the records from it to the next; its expiry is when its first message with a TTL
    expires, perhaps early: a message that was removed may have been the one.
    """

    __slots__ = ("expiries", "next_expiry", "offsets", "sequences", "times")

    def __init__(self) -> None:
        self.offsets = array("Q")
        self.sequences = array("Q")
        self.times = array("Q")
        self.expiries = array("Q")
        self.next_expiry = NEVER
        """The least of `expiries`."""

    def __len__(self) -> int:
        return len(self.offsets)

    def add(self, marks: Iterable[list[int]], expiry: int) -> None:
        """New marks, and the first expiry among the records before them (they belong to the last block)."""
        if self.expiries and expiry < self.expiries[-1]:
            self.expiries[-1] = expiry
            self.next_expiry = min(self.next_expiry, expiry)
        for offset, sequence, time_ns, first_expiry in marks:
            self.offsets.append(offset)
            self.sequences.append(sequence)
            self.times.append(time_ns)
            self.expiries.append(first_expiry)
            self.next_expiry = min(self.next_expiry, first_expiry)

    @property
    def marked(self) -> int:
        """The last mark's offset; so far below zero that the first record is marked when there is none."""
        return self.offsets[-1] if self.offsets else (1 << 64) - SPACING

    def before_sequence(self, sequence: int) -> tuple[int, int]:
        """(offset, sequence) of the last mark not above a sequence; (0, 0) when there is none."""
        place = bisect_right(self.sequences, sequence) - 1
        return (self.offsets[place], self.sequences[place]) if place >= 0 else (0, 0)

    def block_of(self, sequence: int) -> tuple[int, int, int]:
        """Return (offset, sequence) as `before_sequence`, and the sequence of the next mark or 0."""
        place = bisect_right(self.sequences, sequence)
        following = self.sequences[place] if place < len(self) else 0
        return (self.offsets[place - 1], self.sequences[place - 1], following) if place else (0, 0, following)

    def before_time(self, time_ns: int) -> int:
        """The sequence of the last mark that is older than a time; 0 when there is none."""
        place = bisect_left(self.times, time_ns) - 1
        return self.sequences[place] if place >= 0 else 0

    def due(self, now_ns: int) -> Iterator[tuple[int, int, int]]:
        """(place, first sequence, first of the next block or 0) of blocks in which something has expired."""
        if self.next_expiry > now_ns:
            return
        for place in [p for p, expiry in enumerate(self.expiries) if expiry <= now_ns]:
            following = self.sequences[place + 1] if place + 1 < len(self.sequences) else 0
            yield place, self.sequences[place], following

    def expire_no_sooner(self, expiry: int) -> None:
        """Note that no message in any block expires before `expiry`."""
        for place, known in enumerate(self.expiries):
            self.expiries[place] = max(known, expiry)
        self.next_expiry = min(self.expiries, default=NEVER)

    def set_expiry(self, place: int, expiry: int) -> None:
        self.expiries[place] = expiry
        self.next_expiry = min(self.expiries, default=NEVER)

    def dump(self, salt: int, base: int, size: int) -> bytes:
        """The file."""
        columns = [self.offsets, self.sequences, self.times, self.expiries]
        parts = [_HEAD.pack(_MAGIC, 1, salt, base, size, len(self)), *map(_little_endian, columns)]
        data = b"".join(parts)
        return data + struct.pack("<I", crc32c(data))

    @staticmethod
    def salt_of(data: bytes, base: int) -> int | None:
        """The salt of the segment, from a whole index file of it; else None."""
        if len(data) < _HEAD.size + 4 or struct.unpack("<I", data[-4:])[0] != crc32c(data[:-4]):
            return None
        magic, version, salt, of, _, _ = _HEAD.unpack_from(data)
        return int(salt) if (magic, version, of) == (_MAGIC, 1, base) else None

    @classmethod
    def load(cls, data: bytes, salt: int, base: int, size: int) -> SparseIndex | None:
        """The index of a segment from its file; None when the file is not that, or not whole."""
        if len(data) < _HEAD.size + 4 or struct.unpack("<I", data[-4:])[0] != crc32c(data[:-4]):
            return None
        *identity, count = _HEAD.unpack_from(data)
        if identity != [_MAGIC, 1, salt, base, size] or len(data) != _HEAD.size + 4 + 8 * _COLUMNS * count:
            return None
        index = cls()
        for place, column in enumerate([index.offsets, index.sequences, index.times, index.expiries]):
            start = _HEAD.size + 8 * count * place
            column.frombytes(data[start : start + 8 * count])
            if sys.byteorder == "big":
                column.byteswap()
        index.next_expiry = min(index.expiries, default=NEVER)
        return index


def _little_endian(column: array[int]) -> bytes:
    if sys.byteorder == "big":
        column = array("Q", column)
        column.byteswap()
    return column.tobytes()
