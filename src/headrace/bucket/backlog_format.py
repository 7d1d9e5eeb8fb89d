"""The files of a backlog: segments of records, and what their bytes mean.

Here lives the format alone: a segment begins with a head of `HEAD_BYTES`, records follow; behind them may
stand zeros, or records of a former segment whose file this was. Never here: which segments there are, when
they are written (`backlog`), what a start makes of them (`leftover`).

All numbers are little-endian.

- The head: magic `HRbl`, CRC32C of all behind it up to `HEAD_BYTES`; version (2 bytes), length of the shard's
  name (1), 1 unused, number of the segment (8), epoch (8), base (8), writer (16), digest of the bucket's URL
  (16), the shard's name, zeros.
- A record: magic `HRbr`, CRC32C of the rest in front of the payload, CRC32C of the payload, 1 if a snapshot
  ends an object here (1), 3 unused, size of the payload (8), the positions in front of it and behind it (8
  each), the position up to which all was durable when it was written (8), time in ns since 1970 UTC (8); the
  payload, in the bytes of `changes`.

The checksums of records go on from that of the head, which has the random bytes of the writer and the number
of the segment in it: so no message that a client sends can look like a record, and no record of a former
segment.
"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from headrace.bucket.errors import DamagedObject, NewerFormat
from headrace.engine.records import crc32c

if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION: Final = 1
HEAD_BYTES: Final = 192
"""Bytes of the head of a segment."""

_MAGIC: Final = b"HRbl"
_LEAD: Final = struct.Struct("<4sI")
_HEAD: Final = struct.Struct("<HBxQQQ16s16s")
_RECORD_MAGIC: Final = b"HRbr"
_RECORD_LEAD: Final = struct.Struct("<4sI")
_RECORD: Final = struct.Struct("<IB3xQQQQq")
RECORD_BYTES: Final = _RECORD_LEAD.size + _RECORD.size
"""Bytes of a record in front of its payload."""


class SegmentHead(Struct, frozen=True):
    """The head of a segment: whose it is, and where it begins.

    `base`: the position in front of its first record. All in front of that was durable when it was made.
    """

    shard: str
    url: str
    """The digest of the bucket's URL, as hexadecimal digits."""
    number: int
    epoch: int
    writer: bytes
    base: int

    def pack(self) -> bytes:
        """Return the bytes of the head."""
        name = self.shard.encode()
        fields = (self.number, self.epoch, self.base, self.writer, bytes.fromhex(self.url))
        body = _HEAD.pack(VERSION, len(name), *fields) + name
        body = body.ljust(HEAD_BYTES - _LEAD.size, b"\0")
        return _LEAD.pack(_MAGIC, crc32c(body)) + body

    @property
    def seed(self) -> int:
        """The checksum that those of the records go on from."""
        return crc32c(self.pack())


class RecordHead(NamedTuple):
    """The head of a record; positions are those of the journal, `size` is that of the payload in bytes."""

    checksum: int
    is_cut: bool
    size: int
    start: int
    end: int
    synced: int
    time_ns: int


def url_digest(url: str) -> str:
    """Return what a head has of a URL."""
    return hashlib.sha256(url.encode()).hexdigest()[:32]


def read_head(data: bytes, what: str) -> SegmentHead:
    """Read the head of a segment. Raises: DamagedObject, NewerFormat, both with `what`."""
    body = data[_LEAD.size : HEAD_BYTES]
    if len(data) < HEAD_BYTES or _LEAD.unpack_from(data) != (_MAGIC, crc32c(body)):
        raise DamagedObject(f"{what} does not begin as a backlog does")
    version, length, number, epoch, base, writer, url = _HEAD.unpack_from(body)
    if version > VERSION:
        raise NewerFormat(f"{what} was written by a later version of Headrace (format {version})")
    name = body[_HEAD.size : _HEAD.size + length]
    return SegmentHead(name.decode("utf-8", "replace"), url.hex(), number, epoch, writer, base)


def pack_record(
    parts: Sequence[bytes | memoryview],
    start: int,
    end: int,
    *,
    is_cut: bool,
    synced: int,
    time_ns: int,
    seed: int,
) -> bytes:
    """Return the bytes of a record. Its payload is given in pieces, which are copied once."""
    checksum, size = seed, 0
    for part in parts:
        checksum = crc32c(part, checksum)
        size += len(part)
    rest = _RECORD.pack(checksum, is_cut, size, start, end, synced, time_ns)
    return b"".join((_RECORD_LEAD.pack(_RECORD_MAGIC, crc32c(rest, seed)), rest, *parts))


def read_record(data: bytes | memoryview, at: int, seed: int) -> RecordHead | None:
    """Return the head of the record at a place, if it and its payload are whole there; else None."""
    if at + RECORD_BYTES > len(data):
        return None
    magic, checksum = _RECORD_LEAD.unpack_from(data, at)
    view = memoryview(data)
    first = at + RECORD_BYTES
    if magic != _RECORD_MAGIC or checksum != crc32c(view[at + _RECORD_LEAD.size : first], seed):
        return None
    payload_checksum, is_cut, size, start, end, synced, time_ns = _RECORD.unpack_from(
        data, at + _RECORD_LEAD.size
    )
    if first + size > len(data) or crc32c(view[first : first + size], seed) != payload_checksum:
        return None
    return RecordHead(payload_checksum, bool(is_cut), size, start, end, synced, time_ns)


def records_of(data: bytes, head: SegmentHead) -> list[tuple[int, RecordHead]]:
    """Return the whole records of a segment, each with the place of its payload. Those that are not whole are
    passed over.
    """
    found: list[tuple[int, RecordHead]] = []
    at, seed = HEAD_BYTES, head.seed
    while at >= 0:
        record = read_record(data, at, seed)
        if record is None:
            at = data.find(_RECORD_MAGIC, at + 1)
        else:
            found.append((at + RECORD_BYTES, record))
            at += RECORD_BYTES + record.size
    return found
