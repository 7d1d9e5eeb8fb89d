"""`index.db`: what nats-server says of a stream's blocks when it stops, and now and then before.

It is believed only if it is newer than every block: after a kill the blocks say more than it does. Numbers
are varints, sets of deleted sequences bitmaps. Source: nats-server 2.15 (filestore.go, avl/seqset.go),
versions 1 to 4 of the file; the descriptions of Go's varints.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from headrace.engine import message_blocks
from headrace.log.port import LARGEST_SEQUENCE, LARGEST_TIME

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE: Final = "index.db"
_CHECKSUM: Final = 8
_MAGIC: Final = 11
_VERSIONS: Final = range(1, 5)
_SET_MAGIC: Final = 22
_BUCKETS: Final = {1: 64, 2: 32}
"""Words of 64 sequences in one node, by the version of a set."""
_SET_HEAD: Final = struct.Struct("<BBII")
_LARGEST: Final = (1 << 64) - 1


class BadIndex(ValueError):
    """The index file is damaged, or of a version that is not known."""


class Varints:
    """Reads numbers one after the other. Raises: BadIndex at the end of the data, and for impossible ones."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data: Final = data
        self.at = at

    def unsigned(self) -> int:
        """A number from 0 to 2^64-1. Source: Go's `binary.Uvarint`."""
        value = shift = 0
        while self.at < len(self.data) and shift < 70:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        else:
            raise BadIndex("a number is cut off")
        if value > _LARGEST:
            raise BadIndex("a number is impossible")
        return value

    def signed(self) -> int:
        """A number of 64 bits with its sign in the lowest one. Source: Go's `binary.Varint`."""
        value = self.unsigned()
        return value >> 1 ^ -(value & 1)

    def sequence(self) -> int:
        """A sequence, or how many of something with a sequence."""
        value = self.unsigned()
        if value > LARGEST_SEQUENCE:
            raise BadIndex("a sequence is impossible")
        return value

    def bytes(self, size: int) -> bytes:
        """The next `size` bytes."""
        found = self.data[self.at : self.at + size]
        if len(found) != size:
            raise BadIndex("it is cut off")
        self.at += size
        return found


class Deleted:
    """A set of sequences, as bitmaps."""

    def __init__(self) -> None:
        self._width = 1
        self._maps: dict[int, int] = {}
        self._bases: list[int] = []

    @classmethod
    def read(cls, reader: Varints) -> Deleted:
        """Read a set of removed sequences. Raises: BadIndex."""
        magic, version, nodes, _size = _SET_HEAD.unpack(reader.bytes(_SET_HEAD.size))
        if magic != _SET_MAGIC or version not in _BUCKETS:
            raise BadIndex("a set of deleted sequences cannot be read")
        deleted = cls()
        words = _BUCKETS[version]
        deleted._width = words * 64
        for _ in range(nodes):
            base = int.from_bytes(reader.bytes(8), "little")
            if base % deleted._width:
                raise BadIndex("a set of deleted sequences cannot be read")
            deleted._maps[base] = int.from_bytes(reader.bytes(words * 8), "little")
            reader.bytes(2)
        deleted._bases = sorted(deleted._maps)
        return deleted

    def __contains__(self, sequence: object) -> bool:
        if not isinstance(sequence, int):
            return False
        place = sequence % self._width
        return bool(self._maps.get(sequence - place, 0) >> place & 1)

    def between(self, first: int, last: int) -> Iterator[int]:
        """Yield the removed sequences from `first` to `last`, ascending."""
        for at in range(bisect_right(self._bases, first - self._width), len(self._bases)):
            base = self._bases[at]
            if base > last:
                return
            bits = self._maps[base] >> max(first - base, 0) << max(first - base, 0)
            while bits:
                sequence = base + (bits & -bits).bit_length() - 1
                if sequence > last:
                    return
                yield sequence
                bits &= bits - 1


class BlockState(Struct, frozen=True):
    """The contents of a block: messages from `first` to `last` without those in `deleted`."""

    number: int
    first: int
    last: int
    deleted: Deleted


class StreamIndex(Struct, frozen=True):
    """The contents of a stream's index file.

    `last_block` and `last_checksum`: the end of the last block when this was written.
    """

    first_sequence: int
    last_sequence: int
    last_time_ns: int
    blocks: list[BlockState] = field(default_factory=list)
    last_block: int = 0
    last_checksum: bytes = b""


def read_index(data: bytes) -> StreamIndex:
    """Read an index file, decrypted and without its checksum. Raises: BadIndex."""
    if len(data) < 2 or data[0] != _MAGIC or data[1] not in _VERSIONS:
        raise BadIndex("it is of an unknown version")
    version = data[1]
    reader = Varints(data, 2)
    reader.unsigned(), reader.unsigned()  # messages and bytes: the blocks say them
    first, _first_time, last, last_time = (
        reader.sequence(), reader.signed(), reader.sequence(), reader.signed()
    )  # fmt: skip
    if last_time > LARGEST_TIME:
        raise BadIndex("a time is impossible")
    _pass_subjects(reader, version)
    blocks = [_block(reader, version) for _ in range(reader.unsigned())]
    last_block = reader.unsigned()
    return StreamIndex(first, last, last_time, blocks, last_block, reader.bytes(_CHECKSUM))


def _pass_subjects(reader: Varints, version: int) -> None:
    for _ in range(reader.unsigned()):
        length = reader.unsigned()
        if length:
            reader.bytes(length)
            total = reader.unsigned()
            reader.unsigned()
            if total > 1 or version >= 4:
                reader.unsigned()


def _block(reader: Varints, version: int) -> BlockState:
    number, _bytes, first, _first_time = (
        reader.unsigned(), reader.unsigned(), reader.sequence(), reader.signed()
    )  # fmt: skip
    last, _last_time, deleted = reader.sequence(), reader.signed(), reader.unsigned()
    for _ in range(min(version, 3) - 1):  # how many have a TTL, a schedule
        reader.unsigned()
    return BlockState(number, first, last, Deleted.read(reader) if deleted else Deleted())


def without_checksum(data: bytes, key: bytes) -> bytes:
    """The file without the checksum at its end. Raises: BadIndex when that does not hold."""
    body, found = data[:-_CHECKSUM], data[-_CHECKSUM:]
    if len(data) < _CHECKSUM or message_blocks.checksum(key, body) != found:
        raise BadIndex("its checksum does not hold")
    return body
