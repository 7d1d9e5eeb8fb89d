"""The mark of a store that was closed in order: which of its logs are durable as they lie there.

A log that is opened is synced first: a process that was killed may have left bytes that the system shows and
the disk does not have. With the mark that is not needed, and a start over many logs waits for no disk.
Here lives the mark's file, and what it takes to believe it; never what a log does then (`chain`).

`FileStore` writes the mark last of all, when every log was synced and closed, and takes it away, durably,
before it opens any. So it is there only while nobody has the store open, whatever a crash does. It says of
each log what the system knew its directory and its last segment by, and is not believed when that is not the
same now: a store that was copied, restored or written by something else is synced like any other.

The file `closed`, little-endian: 8 bytes "HRCLOSE\\n", u32 version, then for each log u16 length and name of
its directory, u64 base of the last segment, and twice, for the directory and that segment's file: u64 number,
u64 size, i64 time of the last change, ns since 1970; at the end u32 CRC32C of everything before. A file that
is not such a one says nothing.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.engine.records import crc32c
from headrace.log.filesystem import read_file, remove_file, replace_file
from headrace.log.segment import segment_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from headrace.log.filesystem import FileSystem, Identity

NAME: Final = "closed"
_MAGIC: Final = b"HRCLOSE\n"
_VERSION: Final = 1
_HEAD: Final = struct.Struct("<8sI")
_LENGTH: Final = struct.Struct("<H")
_CLOSED: Final = struct.Struct("<QQQqQQq")
_CRC: Final = struct.Struct("<I")


class Closed(Struct, frozen=True):
    """A log as it was left: its last segment, and what the system knew that and the directory by."""

    base: int
    directory: Identity
    segment: Identity


def closed_log(filesystem: FileSystem, directory: Path, base: int) -> Closed:
    """How a log lies there now. Raises: OSError."""
    segment = filesystem.identity(segment_path(directory, base))
    return Closed(base, filesystem.identity(directory), segment)


def is_unchanged(filesystem: FileSystem, directory: Path, closed: Closed) -> bool:
    """Whether nothing was done to a log since."""
    try:
        return closed_log(filesystem, directory, closed.base) == closed
    except OSError:
        return False


def write_mark(filesystem: FileSystem, store: Path, logs: Mapping[str, Closed]) -> None:
    """Says of these logs, by the names of their directories, that they are durable. Raises: OSError."""
    parts = [_HEAD.pack(_MAGIC, _VERSION)]
    for name, closed in logs.items():
        entry = name.encode()
        numbers = _CLOSED.pack(closed.base, *closed.directory, *closed.segment)
        parts += [_LENGTH.pack(len(entry)), entry, numbers]
    data = b"".join(parts)
    replace_file(filesystem, store / NAME, data + _CRC.pack(crc32c(data)))


def take_mark(filesystem: FileSystem, store: Path) -> dict[str, Closed]:
    """What the mark says, and takes it away: it is gone, durably, on return. Raises: OSError."""
    try:
        data = read_file(filesystem, store / NAME)
    except FileNotFoundError:
        return {}
    remove_file(filesystem, store / NAME)
    try:
        return _parse(data)
    except (ValueError, struct.error):
        return {}


def _parse(data: bytes) -> dict[str, Closed]:
    """Raises: ValueError or struct.error for what is not a mark of this version."""
    end = len(data) - _CRC.size
    if _HEAD.unpack_from(data) != (_MAGIC, _VERSION) or _CRC.unpack_from(data, end)[0] != crc32c(data[:end]):
        raise ValueError("not a mark of this version, or damaged")
    found: dict[str, Closed] = {}
    at = _HEAD.size
    while at < end:
        start = at + _LENGTH.size
        at = start + _LENGTH.unpack_from(data, at)[0]
        base, *numbers = _CLOSED.unpack_from(data, at)
        found[data[start:at].decode()] = Closed(base, (*numbers[:3],), (*numbers[3:],))
        at += _CLOSED.size
    return found
