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
    48  u32 flags: 1 bodies are sealed, 2 compressed (and then the version is 2): `packing` says how
    52  8 bytes of the key it is sealed with, for telling another key; or zero
    60  u32 CRC32C of bytes 0 to 59
    64  the header once more, in a record of its own (segments begun by earlier versions have none)
   176  records, and behind those of the last segment perhaps zeros: room that was reserved

What every record depends on is there twice, so no single byte, damaged, costs more than one message.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from headrace.engine.records import HEADER_BYTES as RECORD_HEADER_BYTES
from headrace.engine.records import Scan, crc32c, encode_header
from headrace.log.encryption import OVERHEAD
from headrace.log.filesystem import FileMode
from headrace.log.index import SparseIndex
from headrace.log.packing import Packed, Packer
from headrace.log.port import LARGEST_SEQUENCE, PLAIN, Weights

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.log.encryption import Cipher
    from headrace.log.filesystem import FileSystem
    from headrace.log.packing import Transform

HEADER_BYTES: Final = 64
BEGINNING: Final = HEADER_BYTES + RECORD_HEADER_BYTES + HEADER_BYTES
"""Bytes of a segment that was begun and in which nothing is: the header, and the record with it."""
SEALED: Final = 1
PACKED: Final = 2
INDEX_SUFFIX: Final = ".index"
CEILING: Final = LARGEST_SEQUENCE + 1
"""Above every sequence."""

_MAGIC: Final = b"HRLOG\0\r\n"
_HEAD: Final = struct.Struct("<8sIIQqQQI8s")
_NAME: Final = r"([0-9]{20})\.log\Z"


class Header(Struct, frozen=True):
    """The header of a segment's file."""

    salt: int
    base: int
    last_time: int
    floor: int
    previous: int
    flags: int = 0
    check: bytes = bytes(8)

    def pack(self) -> bytes:
        version = 2 if self.flags & PACKED else 1  # what an earlier Headrace cannot read
        fields = self.salt, self.base, self.last_time, self.floor, self.previous, self.flags, self.check
        head = _HEAD.pack(_MAGIC, version, *fields)
        return head + struct.pack("<I", crc32c(head))

    def again(self) -> bytes:
        """The record that holds it once more."""
        return encode_header(self.pack(), self.base, self.last_time, self.salt)

    def beginning(self) -> bytes:
        """Return the beginning of a segment: the header, and the record that repeats it."""
        return self.pack() + self.again()

    @classmethod
    def read(cls, data: bytes) -> Header | None:
        """The header in a segment's first bytes, or else that in its first record; None: neither is whole."""
        header = cls.unpack(data)
        if header is not None:
            return header
        header = cls.unpack(data[BEGINNING - HEADER_BYTES : BEGINNING])
        if header is None or header.again() != data[HEADER_BYTES:BEGINNING]:
            return None
        return header

    @classmethod
    def unpack(cls, data: bytes) -> Header | None:
        """Read a segment's header; None when it is damaged, or of another version."""
        if len(data) < HEADER_BYTES:
            return None
        head = data[: _HEAD.size]
        magic, version, *fields = _HEAD.unpack(head)
        (crc,) = struct.unpack_from("<I", data, _HEAD.size)
        if magic != _MAGIC or version not in (1, 2) or crc != crc32c(head):
            return None
        header = cls(*fields)
        return header if (version == 2) == header.is_packed else None

    @property
    def is_packed(self) -> bool:
        return bool(self.flags & PACKED)


class Segment(Struct, eq=False):
    """A segment that is part of the log.

    `size`: bytes of the file that hold its header and whole records, or would if it were not compressed.
    """

    path: Path
    header: Header
    size: int
    weights: Weights = PLAIN
    packed: Packed | None = None
    index: SparseIndex = field(default_factory=SparseIndex)
    is_indexed: bool = False
    """True if the index file is there and agrees."""
    last: int = 0
    """The last sequence that was given when it was written; of the last segment: not known."""
    compacted_at: int = 0
    """The base of the last segment when this one was compacted; 0: never.

    Removals that earlier segments record about it are done.
    """
    dregs: int = 0
    """Bytes besides live records that rewriting it once more would not win; not kept on disk."""
    stays_plain: bool = False
    """True if compression was tried and saves nothing; not kept on disk."""
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
        scan.besides, scan.headed = self.weights.besides, self.weights.headed
        return scan

    def _opener(self, cipher: Cipher) -> Callable[[bytes, bytes], bytes | None]:
        return cipher.segment(self.salt, self.base).open

    @property
    def is_sealed(self) -> bool:
        return bool(self.header.flags & SEALED)

    @property
    def index_path(self) -> Path:
        return self.path.with_suffix(INDEX_SUFFIX)


def is_header_record(data: bytes) -> bool:
    """True if bytes begin like a record that holds a header, or are too few to tell."""
    return data[8:10] in (b"\1\6", b"\0\0", b"\1", b"\0", b"")


def segment_path(directory: Path, base: int) -> Path:
    return directory / f"{base:020}.log"


def base_of(name: str) -> int | None:
    """The base in a segment's file name; None for any other name."""
    found = re.match(_NAME, name)
    return int(found[1]) if found else None


def read_records(filesystem: FileSystem, segment: Segment, start: int = 0, end: int | None = None) -> bytes:
    """Bytes of a segment from one offset behind its header to another. Raises OSError."""
    stop = segment.size - HEADER_BYTES if end is None else end
    if stop <= start:  # behind a checkpoint there is mostly nothing
        return b""
    handle = filesystem.open(segment.path, FileMode.READ)
    try:
        return read_span(filesystem, handle, segment, stop - start, start)
    finally:
        filesystem.close(handle)


def read_span(filesystem: FileSystem, handle: int, segment: Segment, size: int, offset: int) -> bytes:
    """Bytes of a segment's open file, `offset` behind its header. Raises OSError."""
    if segment.packed is not None:
        return segment.packed.read(filesystem, handle, size, offset)
    return filesystem.pread(handle, size, HEADER_BYTES + offset)


def load_packed(filesystem: FileSystem, handle: int, header: Header, cipher: Cipher | None) -> Packed | None:
    """Load the table of frames of a compressed segment; None if it has none. Raises OSError."""
    opener = cipher.segment(header.salt, header.base).open if cipher and header.flags & SEALED else None
    return Packed.load(filesystem, handle, header.salt, opener)


def packer_of(segment: Segment, cipher: Cipher | None, write: Callable[[bytes], object]) -> Packer:
    """Return the packer that makes the frames of a segment and writes them."""
    sealed = cipher is not None and segment.is_sealed
    sealer = cipher.segment(segment.salt, segment.base).seal if cipher is not None and sealed else None
    return Packer(write, segment.salt, sealer)


def opener_of(segment: Segment, cipher: Cipher | None) -> Transform | None:
    """Return the function that opens the frames of a segment; None if they are not sealed."""
    return cipher.segment(segment.salt, segment.base).open if cipher and segment.is_sealed else None


def cut_bytes(data: bytes, start: int) -> int:
    """Bytes of a write that was cut off at `start` of what was read: room behind it was only reserved."""
    return len(data[start:].rstrip(b"\0"))
