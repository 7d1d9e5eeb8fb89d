"""The changes of files that the write-ahead log of a bucket holds, and their bytes.

Here live the kinds of changes and their codec. What a change does to the files of a shard is for `tree` to
know, who makes them for `capture`. Files are created and removed by their path; a file that is there is meant
by its number, which `tree` gives out in the order of creations, so that all who apply the same changes agree.

The bytes of a change: its kind, then its fields in their order. A number is a varint (seven bits a byte, the
lowest first), a text its length in bytes and its UTF-8. Writes that follow each other in one file are put
together. A path is relative to the directory of the store, its parts joined by `/`.

    kind  1 Create path             2 Write file offset size data     3 Truncate file size
          4 Rename old new          5 Unlink path                     6 Mkdir path         7 Rmdir path
          8 SnapshotBegun           9 SnapshotTaken number, count and names of objects, count and extents:
                                      file start size object offset stored crc, object by its place
         10 StoreUploaded
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

from headrace.bucket.errors import DamagedObject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LARGEST_NUMBER: Final = (1 << 62) - 1
"""The largest number in a change; sizes and offsets of files stay below it."""
LONGEST_PATH: Final = 4096
"""Bytes of a path, as on Linux."""
LONGEST_NAME: Final = 255
"""Bytes of one part of a path, and of the name of an object."""
WRITE_OVERHEAD: Final = 16
"""Bytes of a write besides its data, about."""
_EXTENT_BYTES: Final = 6
"""The fewest bytes of an extent."""


class FileExtent(Struct, frozen=True):
    """A run of a file's bytes that an object of the bucket holds.

    The object holds a stored run of `stored` bytes from `offset` on, with the checksum `crc` (CRC32C). The
    file has `size` bytes of it, from `start` on; its first `skip` bytes lie in front of them.
    An extent is shorter than its stored run once a later one lies over a part of it, or the file was cut.
    """

    start: int
    size: int
    object: str
    offset: int
    stored: int
    crc: int
    skip: int = 0

    @property
    def end(self) -> int:
        """The place in the file behind the last byte."""
        return self.start + self.size


class Create(Struct, frozen=True):
    """A new file, empty; its number is the next one of the tree."""

    path: str


class Write(Struct, frozen=True, gc=False):
    """Bytes at a place of a file; in front of it a file that was shorter has zeros."""

    file: int
    offset: int
    data: bytes | memoryview


class Truncate(Struct, frozen=True):
    """A new size of a file; where it gets longer it has zeros."""

    file: int
    size: int


class Rename(Struct, frozen=True):
    """A new path of a file or a directory; a file, or an empty directory, that had it is gone."""

    old: str
    new: str


class Unlink(Struct, frozen=True):
    """A file that is gone."""

    path: str


class Mkdir(Struct, frozen=True):
    """A new directory."""

    path: str


class Rmdir(Struct, frozen=True):
    """An empty directory that is gone."""

    path: str


class SnapshotBegun(Struct, frozen=True):
    """The moment that a snapshot is of: what was written before is copied into objects from now on."""


class SnapshotTaken(Struct, frozen=True):
    """A snapshot that is whole. `extents`: what was stored for it, each with the number of its file."""

    number: int
    extents: tuple[tuple[int, FileExtent], ...]


class StoreUploaded(Struct, frozen=True):
    """A store that was there before comes here whole (`upload`): the snapshot of this object has its files.

    Nobody can get past it in the log without that snapshot.
    """


Change: TypeAlias = (
    Create
    | Write
    | Truncate
    | Rename
    | Unlink
    | Mkdir
    | Rmdir
    | SnapshotBegun
    | SnapshotTaken
    | StoreUploaded
)

_CREATE, _WRITE, _TRUNCATE, _RENAME, _UNLINK, _MKDIR, _RMDIR, _BEGUN, _TAKEN, _UPLOADED = range(1, 11)


def weight(change: Change) -> int:
    """Return about the bytes of a change in the write-ahead log."""
    if type(change) is Write:
        return len(change.data) + WRITE_OVERHEAD
    if type(change) is SnapshotTaken:
        return WRITE_OVERHEAD + 64 * len(change.extents)
    return 2 * LONGEST_NAME


# ---- to bytes -------------------------------------------------------------------------------------


def encode(changes: Iterable[Change]) -> bytes:
    """Return the bytes of changes, in their order. The data of writes is copied once."""
    return b"".join(encode_parts(changes))


def encode_parts(changes: Iterable[Change]) -> list[bytes | memoryview]:
    """Return the bytes of changes in pieces, in their order. The data of writes is not copied."""
    parts: list[bytes | memoryview] = []
    run: list[bytes | memoryview] = []
    file = end = size = 0
    for change in changes:
        if type(change) is Write:
            if run and change.file == file and change.offset == end:
                run.append(change.data)
                size += len(change.data)
                end += len(change.data)
                continue
            _end_run(parts, run, file, end, size)
            file, size = change.file, len(change.data)
            end = change.offset + size
            run = [change.data]
            continue
        _end_run(parts, run, file, end, size)
        run = []
        parts.append(_encoded(change))
    _end_run(parts, run, file, end, size)
    return parts


def _end_run(
    parts: list[bytes | memoryview], run: list[bytes | memoryview], file: int, end: int, size: int
) -> None:
    if run:
        head = bytearray((_WRITE,))
        for number in (file, end - size, size):
            put_number(head, number)
        parts.append(bytes(head))
        parts += run


def _encoded(change: Change) -> bytes:
    """Return the bytes of a change that is not a write."""
    out = bytearray()
    match change:
        case Create(path):
            out.append(_CREATE)
            put_text(out, path)
        case Truncate(file, size):
            out.append(_TRUNCATE)
            put_number(out, file)
            put_number(out, size)
        case Rename(old, new):
            out.append(_RENAME)
            put_text(out, old)
            put_text(out, new)
        case Unlink(path) | Mkdir(path) | Rmdir(path):
            out.append({Unlink: _UNLINK, Mkdir: _MKDIR, Rmdir: _RMDIR}[type(change)])
            put_text(out, path)
        case SnapshotBegun():
            out.append(_BEGUN)
        case SnapshotTaken():
            _put_snapshot(out, change)
        case StoreUploaded():
            out.append(_UPLOADED)
    return bytes(out)


def _put_snapshot(out: bytearray, taken: SnapshotTaken) -> None:
    places: dict[str, int] = {}
    for _, extent in taken.extents:
        places.setdefault(extent.object, len(places))
    out.append(_TAKEN)
    put_number(out, taken.number)
    put_number(out, len(places))
    for name in places:
        put_text(out, name)
    put_number(out, len(taken.extents))
    for file, e in taken.extents:
        if e.skip or e.size != e.stored:
            raise ValueError("a snapshot stores whole extents")
        for number in (file, e.start, e.size, places[e.object], e.offset, e.crc):
            put_number(out, number)


def put_number(out: bytearray, number: int) -> None:
    """Add a number to bytes. Raises: ValueError for one that is negative or too large."""
    if not 0 <= number <= LARGEST_NUMBER:
        raise ValueError(f"{number} is no number of a change")
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def put_text(out: bytearray, text: str) -> None:
    """Add a text and its length to bytes."""
    data = text.encode("utf-8", "surrogateescape")
    put_number(out, len(data))
    out += data


# ---- from bytes -----------------------------------------------------------------------------------


class ChangeReader:
    """A reader of numbers, texts and runs of bytes. Every method raises DamagedObject at their end."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)
        self._at = 0
        self._end = len(self._data)

    @property
    def left(self) -> int:
        """Bytes that were not read yet."""
        return self._end - self._at

    def number(self) -> int:
        data, at, end = self._data, self._at, self._end
        if at < end and (first := data[at]) < 0x80:  # most of them
            self._at = at + 1
            return first
        number = shift = 0
        while at < end and shift < 63:
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                if not byte or number > LARGEST_NUMBER:
                    break
                self._at = at
                return number
            shift += 7
        raise DamagedObject("changes of files: a number is cut off, too long or too large")

    def count(self, least: int) -> int:
        """The number of items that follow, each of at least `least` bytes."""
        count = self.number()
        if count * least > self.left:
            raise DamagedObject(f"changes of files: {count} items do not fit into {self.left} bytes")
        return count

    def data(self, size: int) -> memoryview:
        if size > self.left:
            raise DamagedObject(f"changes of files: {size} bytes are said to follow, there are {self.left}")
        self._at += size
        return self._data[self._at - size : self._at]

    def text(self, longest: int) -> str:
        size = self.number()
        if not 0 < size <= longest:
            raise DamagedObject(f"changes of files: a name of {size} bytes")
        return bytes(self.data(size)).decode("utf-8", "surrogateescape")

    def path(self) -> str:
        path = self.text(LONGEST_PATH)
        if not is_path(path):
            raise DamagedObject(f"changes of files: {path!r} is no path inside of a store")
        return path


def is_path(path: str) -> bool:
    """True if a path is relative, and leads to nothing outside of the directory it is relative to."""
    return "\0" not in path and all(
        part not in {"", ".", ".."} and len(part.encode("utf-8", "surrogateescape")) <= LONGEST_NAME
        for part in path.split("/")
    )


def decode(data: bytes | memoryview) -> list[Change]:
    """Return the changes that bytes hold. The data of writes is part of `data`, not copied.

    Raises: DamagedObject.
    """
    reader = ChangeReader(data)
    changes: list[Change] = []
    while reader.left:
        kind = reader.number()
        if kind == _WRITE:
            file, offset, size = reader.number(), reader.number(), reader.number()
            if offset + size > LARGEST_NUMBER:
                raise DamagedObject("changes of files: a write beyond the end of all files")
            changes.append(Write(file, offset, reader.data(size)))
        elif (read := _READERS.get(kind)) is not None:
            changes.append(read(reader))
        else:
            raise DamagedObject(f"changes of files: kind {kind} is unknown")
    return changes


def _read_snapshot(reader: ChangeReader) -> SnapshotTaken:
    number = reader.number()
    objects = [reader.text(LONGEST_NAME) for _ in range(reader.count(2))]
    extents = []
    for _ in range(reader.count(_EXTENT_BYTES)):
        file, start, size, place, offset, crc = (reader.number() for _ in range(6))
        if place >= len(objects) or crc >> 32 or not size or max(start, offset) + size > LARGEST_NUMBER:
            raise DamagedObject(f"changes of files: an extent of file {file} is none")
        extents.append((file, FileExtent(start, size, objects[place], offset, size, crc)))
    return SnapshotTaken(number, tuple(extents))


_READERS: Final[dict[int, Callable[[ChangeReader], Change]]] = {
    _CREATE: lambda reader: Create(reader.path()),
    _TRUNCATE: lambda reader: Truncate(reader.number(), reader.number()),
    _RENAME: lambda reader: Rename(reader.path(), reader.path()),
    _UNLINK: lambda reader: Unlink(reader.path()),
    _MKDIR: lambda reader: Mkdir(reader.path()),
    _RMDIR: lambda reader: Rmdir(reader.path()),
    _BEGUN: lambda _: SnapshotBegun(),
    _TAKEN: _read_snapshot,
    _UPLOADED: lambda _: StoreUploaded(),
}
