"""An object of a shard's write-ahead log: an envelope that says whose it is, around a payload.

The layout, with numbers in little-endian order:

- magic `HRwl`, CRC32C of everything behind it. These 8 bytes are the same in all versions of the format, so a
  reader can tell an object of a later version from a damaged one;
- version (2 bytes), kind (1), length of the shard's name (1), epoch (8), number (8), time (8), length of the
  payload (8), writer (16);
- of version 2, the position (8);
- the shard's name, the payload.

An object is of version 2 if it says a position, which an owner needs that acknowledges before the bucket has
what it acknowledged (`commit: disk`); else of version 1.

Never lives here: what a payload means, or which objects a reader believes (`follower`).
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.bucket.errors import DamagedObject, NewerFormat
from headrace.engine.records import crc32c, join_checked

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

VERSION: Final = 2
"""The latest version of the format, of objects that say a position; without one they are of version 1."""

WRITER_BYTES: Final = 16
"""Length of a writer: random bytes, new for each claim of a shard."""

_MAGIC: Final = b"HRwl"
_LEAD: Final = struct.Struct("<4sI")
_HEAD: Final = struct.Struct("<HBBQQqQ16s")
_FIXED: Final = _LEAD.size + _HEAD.size
_POSITION: Final = struct.Struct("<Q")


class Kind(IntEnum):
    """The part that an object plays in the log."""

    COMMIT = 1
    """Changes of files, or none."""
    FENCE = 2
    """A new owner takes over here; the payload says who."""
    RELEASE = 3
    """The owner's last object: it gives the shard up, whoever reads it may claim it at once."""


class WalObject(Struct, frozen=True):
    """An object of the log. Of two with the same `writer` and `checksum` both are the same."""

    shard: str
    epoch: int
    """Owners of the shard so far."""
    writer: bytes
    number: int
    kind: Kind
    time_ns: int
    """Nanoseconds since 1970 UTC by the writer's clock. Only restoring as of a time relies on it."""
    payload: bytes = b""
    position: int = 0
    """The position up to which the log has the owner's journal, with this object; 0: it is not said."""

    def pack(self, parts: Sequence[bytes | memoryview] | None = None) -> bytes:
        """Return the bytes of the object, its payload copied once.

        `parts`: the pieces of a payload that stands in the place of its own.
        """
        name = self.shard.encode()
        pieces = (self.payload,) if parts is None else parts
        head = _HEAD.pack(
            VERSION if self.position else 1,
            self.kind,
            len(name),
            self.epoch,
            self.number,
            self.time_ns,
            sum(map(len, pieces)),
            self.writer,
        )
        if self.position:
            head += _POSITION.pack(self.position)
        return join_checked(_MAGIC, (head, name, *pieces))

    @classmethod
    def unpack(cls, data: bytes, shard: str, number: int) -> Self:
        """Read the object that stands at a number of a shard. Raises: DamagedObject, NewerFormat."""
        what = f"object {number} of shard {shard}"
        if len(data) < _LEAD.size or data[:4] != _MAGIC:
            raise DamagedObject(f"{what} is no object of a write-ahead log")
        if checksum_of(data) != crc32c(memoryview(data)[_LEAD.size :]):
            raise DamagedObject(f"{what}: its checksum is wrong")
        if len(data) < _LEAD.size + 2:
            raise DamagedObject(f"{what} is cut off")
        version = int.from_bytes(data[_LEAD.size : _LEAD.size + 2], "little")
        if version > VERSION:
            raise NewerFormat(f"{what} was written by a later version of Headrace (format {version})")
        return cls._read(data, shard, number, what)

    @classmethod
    def _read(cls, data: bytes, shard: str, number: int, what: str) -> Self:
        if len(data) < _FIXED:
            raise DamagedObject(f"{what} is cut off")
        version, kind, length, epoch, own_number, time_ns, size, writer = _HEAD.unpack_from(data, _LEAD.size)
        fixed = _FIXED if version == 1 else _FIXED + _POSITION.size
        known = _KINDS.get(kind)
        if not version or known is None or len(data) != fixed + length + size:
            raise DamagedObject(f"{what}: its head is wrong")
        (position,) = (0,) if version == 1 else _POSITION.unpack_from(data, _FIXED)
        name = data[fixed : fixed + length]
        if name != shard.encode() or own_number != number:
            raise DamagedObject(f"{what} says that it is object {own_number} of shard {name!r}")
        return cls(shard, epoch, writer, number, known, time_ns, data[fixed + length :], position)


_KINDS: Final = {kind.value: kind for kind in Kind}


def checksum_of(data: bytes) -> int:
    """Return the checksum that a packed object says it has."""
    return int.from_bytes(data[4:8], "little")
