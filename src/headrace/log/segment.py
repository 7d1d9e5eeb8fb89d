"""One segment: its name, its header, and what is known of it.

Here live the format of the header and the reading of a segment's bytes. Never here: which segment is
written, limits, or what records mean (`headrace.engine.records`).

A segment file is named by the lowest sequence it may hold, in 20 digits, then `.log`; its index is beside it
as `.index`. It begins with a header of 64 bytes, version 1, little-endian:

     0  8 bytes "HRLOG\\0\\r\\n"   8  u32 version
    12  u32 salt of its records' checksums, random
    16  u64 base: the lowest sequence it may hold
    24  i64 time of the last message before it, ns since 1970
    32  u64 floor of the log when it was begun: nothing below it is there any more
    40  u64 base of the segment before it, 0 for the first
    48  u32 flags: 1 bodies are sealed
    52  8 bytes of the key it is sealed with, for telling another key; or zero
    60  u32 CRC32C of bytes 0 to 59
    64  records, and behind those of the last segment perhaps zeros: room that was reserved
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.engine.records import Scan, crc32c
from headrace.log.filesystem import Mode
from headrace.log.index import SparseIndex
from headrace.log.port import PLAIN, Weights
from headrace.log.sealing import OVERHEAD

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.log.filesystem import FileSystem
    from headrace.log.sealing import Cipher

HEADER_BYTES: Final = 64
SEALED: Final = 1

_MAGIC: Final = b"HRLOG\0\r\n"
_HEAD: Final = struct.Struct("<8sIIQqQQI8s")
_NAME: Final = re.compile(r"([0-9]{20})\.log\Z")


@dataclass(frozen=True, slots=True)
class Header:
    salt: int
    base: int
    last_time: int
    floor: int
    previous: int
    flags: int = 0
    check: bytes = bytes(8)

    def pack(self) -> bytes:
        head = _HEAD.pack(
            _MAGIC, 1, self.salt, self.base, self.last_time, self.floor, self.previous, self.flags, self.check
        )
        return head + struct.pack("<I", crc32c(head))

    @classmethod
    def unpack(cls, data: bytes) -> Header | None:
        """None when it is not a header of this version, or damaged."""
        if len(data) < HEADER_BYTES:
            return None
        head = data[: _HEAD.size]
        magic, version, *fields = _HEAD.unpack(head)
        (crc,) = struct.unpack_from("<I", data, _HEAD.size)
        if magic != _MAGIC or version != 1 or crc != crc32c(head):
            return None
        return cls(*fields)


@dataclass(eq=False, slots=True)
class Segment:
    """A segment that is part of the log. `size`: bytes of the file that hold its header and whole records."""

    path: Path
    header: Header
    size: int
    weights: Weights = PLAIN
    index: SparseIndex = field(default_factory=SparseIndex)
    is_indexed: bool = False
    """Whether the index file is there and says the same."""
    last: int = 0
    """The last sequence that was given when it was written; of the last segment: not known."""
    swept: int = 0
    """When it was rewritten without what had been removed: the base of the last segment then. What records
    in segments before that one say about it is done."""
    dregs: int = 0
    """Bytes besides live records that rewriting it once more would not win; not kept on disk."""
    retry_at: int = 0
    """Segments that must have been rewritten before it is worth another try without messages."""

    @property
    def base(self) -> int:
        return self.header.base

    @property
    def salt(self) -> int:
        return self.header.salt

    def scan(self, expected: int, ceiling: int, offset: int, cipher: Cipher | None) -> Scan:
        """A scan of its records from `offset` on, where `expected` comes next, below `ceiling`."""
        opener = () if cipher is None or not self.is_sealed else (self._opener(cipher), OVERHEAD)
        scan = Scan(self.salt, expected, ceiling, offset, *opener)
        scan.besides, scan.headed = self.weights
        return scan

    def _opener(self, cipher: Cipher) -> Callable[[bytes, bytes], bytes | None]:
        return cipher.segment(self.salt, self.base).open

    @property
    def is_sealed(self) -> bool:
        return bool(self.header.flags & SEALED)

    @property
    def index_path(self) -> Path:
        return self.path.with_suffix(".index")


def segment_path(directory: Path, base: int) -> Path:
    return directory / f"{base:020}.log"


def base_of(name: str) -> int | None:
    """The base in a segment's file name; None for any other name."""
    found = _NAME.match(name)
    return int(found[1]) if found else None


def read_records(filesystem: FileSystem, segment: Segment, start: int = 0, end: int | None = None) -> bytes:
    """Bytes of a segment from one offset behind its header to another. Raises OSError."""
    stop = segment.size - HEADER_BYTES if end is None else end
    handle = filesystem.open(segment.path, Mode.READ)
    try:
        return filesystem.pread(handle, stop - start, HEADER_BYTES + start)
    finally:
        filesystem.close(handle)


def cut_bytes(data: bytes, start: int) -> int:
    """Bytes of a write that was cut off at `start` of what was read: room behind it was only reserved."""
    return len(data[start:].rstrip(b"\0"))
