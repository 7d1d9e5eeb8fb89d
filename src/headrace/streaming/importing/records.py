"""Records of a foreign store's files, one at a time, and how to find the next after damage.

    file    version (4) record*                      all numbers little-endian, version is 1
    record  size (4) crc (4) body                    messages, server.dat
            size (3) type (1) crc (4) body           subs.dat, clients.dat
    index   sequence (8) offset (8) time (8) size (4) crc (4)      one per message, of its record's body

The checksum covers the body, in the index the 28 bytes before it. A header of zeros is space that was
allocated and never written: the file ends there. Here is nothing of what bodies mean.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.importing.findings import SourceUnusable

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.streaming.importing.checksums import Checksum

VERSION: Final = 1
START: Final = 4
HEADER: Final = struct.Struct("<II")
INDEX: Final = struct.Struct("<QQqII")

_CHUNK: Final = 1 << 20


def listed(directory: Path) -> list[Path]:
    """List the files of a directory, sorted by name. Raises: SourceUnusable."""
    try:
        return sorted(directory.iterdir())
    except OSError as error:
        raise SourceUnusable(f"cannot list {directory}: {error.strerror}") from error


def shown_name(path: Path, parts: int = 1) -> str:
    """The last parts of a path for people, whatever bytes it has."""
    text = "/".join(path.parts[-parts:])
    name = os.fsencode(text).decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in name)


class ByteFile:
    """Random access to a file that no program writes; the size is that when it was opened."""

    def __init__(self, path: Path, name: str) -> None:
        """Open a file. `name` is for people. Raises: SourceUnusable."""
        self.name = name
        self._buffer = b""
        self._at = 0
        try:
            self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self.size = os.fstat(self._handle).st_size
        except OSError as error:
            raise SourceUnusable(f"cannot open {path}: {error.strerror}") from error

    def __enter__(self) -> ByteFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes, fewer at the end of the file.

        Raises: SourceUnusable when the disk fails.
        """
        start = offset - self._at
        if start < 0 or start + length > len(self._buffer):
            length = max(0, min(length, self.size - offset))
            self._at, self._buffer = offset, self._pread(offset, max(length, _CHUNK))
            start = 0
        return self._buffer[start : start + length]

    def zeros_from(self, offset: int) -> bool:
        """True if there are only zeros from `offset` to the end."""
        while chunk := self.read(offset, _CHUNK):
            if chunk.count(0) != len(chunk):
                return False
            offset += len(chunk)
        return True

    def _pread(self, offset: int, length: int) -> bytes:
        parts: list[bytes] = []
        try:
            while length and (part := os.pread(self._handle, length, offset)):
                parts.append(part)
                offset += len(part)
                length -= len(part)
        except OSError as error:
            raise SourceUnusable(f"cannot read {self.name} at {offset:,}: {error.strerror}") from error
        return b"".join(parts)


class Record(NamedTuple):
    """A record whose length and checksum hold; `kind` is 0 where records have no type."""

    kind: int
    body: bytes
    end: int


class Unreadable(NamedTuple):
    """A record cannot be read: why, and whether the file just ends too early."""

    why: str
    is_cut: bool = False


def record_at(file: ByteFile, offset: int, checksum: Checksum | None, *, typed: bool) -> Record | Unreadable:
    """The record at `offset`. Nothing is said of its body but that its checksum holds."""
    header = file.read(offset, HEADER.size)
    if len(header) < HEADER.size:
        return Unreadable("the file ends within a record's header", is_cut=True)
    size, stored = HEADER.unpack(header)
    kind = 0
    if typed:
        kind, size = size >> 24, size & 0xFFFFFF
    if not size:
        return Unreadable("a record without a body")
    body = file.read(offset + HEADER.size, size) if size <= file.size - offset - HEADER.size else b""
    if len(body) < size:
        return Unreadable("the file ends within a record", is_cut=True)
    if checksum is not None and checksum.of(body) != stored:
        return Unreadable("a record's checksum does not hold")
    return Record(kind, body, offset + HEADER.size + size)


def version_of(file: ByteFile) -> int | None:
    """The file's version; None when it is too short to have one."""
    start = file.read(0, START)
    return int.from_bytes(start, "little") if len(start) == START else None


class IndexEntry(NamedTuple):
    """The place where the message `sequence` should be; `size` is that of the record's body."""

    sequence: int
    offset: int
    time_ns: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + HEADER.size + self.size


def index_entry(data: bytes, checksum: Checksum | None) -> IndexEntry | None:
    """An entry from its 32 bytes; None when it is cut off, empty, or its checksum does not hold."""
    if len(data) < INDEX.size:
        return None
    sequence, offset, time_ns, size, stored = INDEX.unpack(data)
    if not sequence or offset < START:
        return None
    if checksum is not None and checksum.of(data[:-4]) != stored:
        return None
    return IndexEntry(sequence, offset, time_ns, size)
