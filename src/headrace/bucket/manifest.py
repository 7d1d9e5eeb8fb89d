"""The manifest of a snapshot: what a shard was after one WAL object, and which objects hold its bytes.

The layout, with numbers in little-endian order:

- magic `HRsn`, CRC32C of everything behind it. These 8 bytes are the same in all versions of the format, so a
  reader can tell a manifest of a later version from a damaged one;
- version (2 bytes), length of the body before it was compressed (8 bytes);
- the body, compressed by zlib: MessagePack of `_Body`. Extents of a file are numbers in a row, seven for
  each: the start counts from the end of the one before, the object is its place among the names.

10,000 files are some 100 KB. Never lives here: when a snapshot is taken (`snapshots`), which one a reader
begins with.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Final

from msgspec import DecodeError, Struct, msgpack

from headrace.bucket.changes import LARGEST_NUMBER, LONGEST_NAME, FileExtent, is_path
from headrace.bucket.errors import DamagedObject, NewerFormat
from headrace.bucket.tree import FileEntry, Tree
from headrace.bucket.wal_object import WRITER_BYTES
from headrace.engine.records import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

VERSION: Final = 1
"""The version of the format that is written, and the latest that is read."""
LARGEST_BODY: Final = 1 << 30
"""Bytes of a body; a manifest that says it has more is damaged."""

_MAGIC: Final = b"HRsn"
_LEAD: Final = struct.Struct("<4sI")
_HEAD: Final = struct.Struct("<HQ")
_LEVEL: Final = 3
_NUMBERS: Final = 7
"""The numbers of an extent."""


class _Body(Struct, array_like=True, forbid_unknown_fields=True):
    shard: str
    epoch: int
    writer: bytes
    number: int
    settled: int
    time_ns: int
    next_id: int
    fences: list[int]
    collected: int
    directories: list[bytes]
    objects: list[str]
    files: list[tuple[int, bytes, int, list[int]]]


class Manifest(Struct, frozen=True):
    """The tree of a shard after WAL object `number`; see `Snapshotter` for when it may be believed."""

    shard: str
    epoch: int
    writer: bytes
    """The writer of WAL object `number`."""
    number: int
    settled: int
    """The WAL object with SnapshotTaken. A reader that begins here goes on to this one at least: bytes were
    copied while files changed, and files that went meanwhile were not.
    """
    time_ns: int
    """The time of the manifest, ns since 1970 UTC by the owner's clock."""
    next_id: int
    fences: tuple[int, ...]
    """The numbers of all fences up to `number`, ascending: they are never deleted."""
    collected: int
    """WAL objects below this number are deleted, but for fences and milestones."""
    directories: tuple[str, ...]
    files: tuple[FileEntry, ...]

    def tree(self) -> Tree:
        """Return the tree. Raises: DamagedObject."""
        return Tree.of(self.directories, self.files, self.next_id)

    def objects(self) -> dict[str, int]:
        """Return the segment objects that hold the bytes: how many bytes of each are in use, by its name."""
        used: Counter[str] = Counter()
        for file in self.files:
            for extent in file.extents:
                used[extent.object] += extent.size
        return used

    def pack(self) -> bytes:
        """Return the bytes of the object."""
        places: dict[str, int] = {}
        files = [
            (file.id, _bytes_of(file.path), file.size, _flat(file.extents, places)) for file in self.files
        ]
        body = msgpack.encode(
            _Body(
                self.shard,
                self.epoch,
                self.writer,
                self.number,
                self.settled,
                self.time_ns,
                self.next_id,
                list(self.fences),
                self.collected,
                [_bytes_of(path) for path in self.directories],
                list(places),
                files,
            )
        )
        rest = _HEAD.pack(VERSION, len(body)) + zlib.compress(body, _LEVEL)
        return _LEAD.pack(_MAGIC, crc32c(rest)) + rest

    @classmethod
    def unpack(cls, data: bytes, shard: str, number: int) -> Self:
        """Read the snapshot that stands at a number of a shard. Raises: DamagedObject, NewerFormat."""
        what = f"snapshot {number} of shard {shard}"
        if len(data) < _LEAD.size or data[:4] != _MAGIC:
            raise DamagedObject(f"{what} is no snapshot")
        rest = memoryview(data)[_LEAD.size :]
        if _LEAD.unpack_from(data)[1] != crc32c(bytes(rest)):
            raise DamagedObject(f"{what}: its checksum is wrong")
        if len(rest) < 2:
            raise DamagedObject(f"{what} is cut off")
        version = int.from_bytes(rest[:2], "little")
        if version > VERSION:
            raise NewerFormat(f"{what} was written by a later version of Headrace (format {version})")
        if version != VERSION or len(rest) < _HEAD.size:
            raise DamagedObject(f"{what}: its head is wrong")
        body = _body(rest[_HEAD.size :], _HEAD.unpack_from(rest)[1], what)
        if body.shard != shard or body.number != number:
            raise DamagedObject(f"{what} says that it is snapshot {body.number} of shard {body.shard!r}")
        return cls._read(body, what)

    @classmethod
    def _read(cls, body: _Body, what: str) -> Self:
        numbers = [body.epoch, body.number, body.settled, body.next_id, body.collected, *body.fences]
        if not all(0 <= number <= LARGEST_NUMBER for number in numbers) or body.settled < body.number:
            raise DamagedObject(f"{what}: a number in it cannot be")
        if len(body.writer) != WRITER_BYTES or body.fences != sorted(set(body.fences)):
            raise DamagedObject(f"{what}: its writer or its fences are none")
        if not all(is_segment_name(name) for name in body.objects):
            raise DamagedObject(f"{what} names objects that cannot be")
        files = tuple(
            FileEntry(number, _path_of(path, what), size, _extents(numbers, size, body.objects, what))
            for number, path, size, numbers in body.files
        )
        return cls(
            body.shard,
            body.epoch,
            body.writer,
            body.number,
            body.settled,
            body.time_ns,
            body.next_id,
            tuple(body.fences),
            body.collected,
            tuple(_path_of(path, what) for path in body.directories),
            files,
        )


def is_segment_name(name: str) -> bool:
    """True if a text can be the name of a segment object."""
    return 0 < len(name) <= LONGEST_NAME and name.replace("-", "").isalnum() and name.isascii()


def _bytes_of(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _path_of(data: bytes, what: str) -> str:
    path = data.decode("utf-8", "surrogateescape")
    if not is_path(path):
        raise DamagedObject(f"{what}: {path!r} is no path inside of a store")
    return path


def _body(data: memoryview, size: int, what: str) -> _Body:
    if size > LARGEST_BODY:
        raise DamagedObject(f"{what} is larger than a snapshot can be")
    unpacker = zlib.decompressobj()
    try:
        plain = unpacker.decompress(data, size + 1)  # no more memory than it says
    except zlib.error as error:
        raise DamagedObject(f"{what} cannot be unpacked: {error}") from error
    if len(plain) != size or not unpacker.eof or unpacker.unused_data:
        raise DamagedObject(f"{what} has another length than it says")
    try:
        return msgpack.decode(plain, type=_Body)
    except (DecodeError, UnicodeDecodeError) as error:
        raise DamagedObject(f"{what} cannot be read: {error}") from error


def _flat(extents: Iterable[FileExtent], places: dict[str, int]) -> list[int]:
    numbers: list[int] = []
    end = 0
    for extent in extents:
        place = places.setdefault(extent.object, len(places))
        numbers += (
            extent.start - end,
            extent.size,
            place,
            extent.offset,
            extent.stored,
            extent.crc,
            extent.skip,
        )
        end = extent.end
    return numbers


def _extents(numbers: list[int], file_size: int, objects: list[str], what: str) -> tuple[FileExtent, ...]:
    """The extents of a file, in which nothing is beyond its end or the end of what is stored."""
    if len(numbers) % _NUMBERS or not 0 <= file_size <= LARGEST_NUMBER:
        raise DamagedObject(f"{what}: the extents of a file are cut off")
    extents = []
    end = 0
    for at in range(0, len(numbers), _NUMBERS):
        gap, size, place, offset, stored, crc, skip = numbers[at : at + _NUMBERS]
        start, end = end + gap, end + gap + size
        if min(gap, offset, skip, place, crc) < 0 or size <= 0 or skip + size > stored or crc >> 32:
            raise DamagedObject(f"{what}: an extent of a file is none")
        if place >= len(objects) or end > file_size or offset + stored > LARGEST_NUMBER:
            raise DamagedObject(f"{what}: an extent of a file leads beyond its end")
        extents.append(FileExtent(start, size, objects[place], offset, stored, crc, skip))
    return tuple(extents)
