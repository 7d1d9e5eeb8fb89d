"""Compressed segments: records in frames of S2, and how a reader finds and repairs them.

Here lives the format behind a header of version 2; never the choice of what is compressed (`compaction`), nor
what records mean. Everything else counts bytes as if they were not compressed: the offset of a record, the
size of a segment. A compressed segment, little-endian:

     0  64 bytes: the header, version 2; then the record that repeats it, as in every segment
   176  frames, each of 64 KiB of what a segment holds behind its header (the last one of what is left):
          u32 length of the body, u32 length of what it holds, u32 CRC32C of the body, begun with the salt
          body: a block of S2; of a sealed segment, that sealed
        two parities: all frames of even numbers, and all of odd ones, exclusive-or
        table: 8 bytes "HRPACK\\n\\0", u64 bytes that the frames hold, u32 frames, u32 and u32 lengths of the
          parities, u64 where each frame begins, and where the last ends; u32 CRC32C of it, from the salt
   end  u32 length of the table, with its checksum

A damaged byte costs nothing: a frame is made again from its parity, frames without a table are walked. Two
damaged frames that are neighbours have different parities.
"""

from __future__ import annotations

import struct
from array import array
from collections import deque
from typing import TYPE_CHECKING, Final, TypeAlias

from headrace.engine.records import crc32c
from headrace.engine.s2 import decode_block, encode_block

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.log.filesystem import FileSystem

    Transform: TypeAlias = "Callable[[bytes, bytes], bytes | None]"

FRAME: Final = 64 << 10
"""Bytes that a frame holds: what a point read has to decompress, and the most that S2 takes at once."""
FIRST: Final = 176
"""The offset of the first frame."""
_MAGIC: Final = b"HRPACK\n\0"
_FRAME: Final = struct.Struct("<III")
_TABLE: Final = struct.Struct("<8sQIII")
_U32: Final = struct.Struct("<I")
TAIL: Final = 16 << 10
"""Bytes at the end that are read at once: the table of some 2,000 frames."""
_LARGEST_BODY: Final = 2 * FRAME
_KEPT: Final = 64
"""Frames that a process keeps as they were read, one of a segment: 4 MiB."""
_kept: deque[Packed] = deque()


class Packed:
    """The offsets of a compressed segment's frames. `size`: bytes that they hold."""

    def __init__(
        self, salt: int, size: int, offsets: array[int], parities: tuple[int, int], opener: Transform | None
    ):
        self.size: Final = size
        self._salt: Final = salt
        self._offsets: Final = offsets
        self._parities: Final = parities
        self._opener: Final = opener
        self._last: tuple[int, bytes] | None = None
        """The frame that was read last."""

    @classmethod
    def load(
        cls, filesystem: FileSystem, handle: int, salt: int, opener: Transform | None = None
    ) -> Packed | None:
        """Read the directory of a compressed segment; None when the file is none of that salt.

        Raises OSError.
        """
        end = filesystem.size(handle)
        tail = filesystem.pread(handle, min(end, TAIL), max(end - TAIL, 0))
        if len(tail) >= _U32.size:
            (length,) = _U32.unpack(tail[-_U32.size :])
            start = end - _U32.size - length
            if start > FIRST and len(tail) < length + _U32.size:
                tail = filesystem.pread(handle, length + _U32.size, start)
            found = cls._from_table(tail[-_U32.size - length : -_U32.size], salt, opener)
            if found is not None:
                return found
        return cls._walked(filesystem, handle, salt, opener)

    @classmethod
    def _from_table(cls, data: bytes, salt: int, opener: Transform | None) -> Packed | None:
        if len(data) < _TABLE.size + _U32.size or _U32.unpack(data[-4:])[0] != crc32c(data[:-4], salt):
            return None
        magic, size, count, even, odd = _TABLE.unpack_from(data)
        numbers = data[_TABLE.size : -4]
        if magic != _MAGIC or len(numbers) != 8 * (count + 1):
            return None
        offsets = array("Q", struct.unpack(f"<{count + 1}Q", numbers))
        return cls(salt, size, offsets, (even, odd), opener)

    @classmethod
    def _walked(
        cls, filesystem: FileSystem, handle: int, salt: int, opener: Transform | None
    ) -> Packed | None:
        """Find the frames of a segment one after the other, as far as they are whole."""
        offsets, size = array("Q", [FIRST]), 0
        while True:
            head = filesystem.pread(handle, _FRAME.size, offsets[-1])
            if len(head) < _FRAME.size:
                break
            length, plain, crc = _FRAME.unpack(head)
            if length > _LARGEST_BODY or plain > FRAME:
                break
            body = filesystem.pread(handle, length, offsets[-1] + _FRAME.size)
            if len(body) != length or crc32c(body, salt) != crc:
                break
            size += plain
            offsets.append(offsets[-1] + _FRAME.size + length)
            if plain < FRAME:
                break
        return cls(salt, size, offsets, (0, 0), opener) if size else None

    # ---- reading ----------------------------------------------------------------------------

    def read(self, filesystem: FileSystem, handle: int, size: int, offset: int) -> bytes:
        """Bytes of what the frames hold; zeros where a frame is lost. Raises OSError."""
        end = min(offset + size, self.size)
        if offset >= end:
            return b""
        first, last = offset // FRAME, (end - 1) // FRAME
        if first == last:
            return self._frame(filesystem, handle, first)[offset - first * FRAME : end - first * FRAME]
        start = self._offsets[first]
        raw = filesystem.pread(handle, self._offsets[last + 1] - start, start)
        parts = []
        for number in range(first, last + 1):
            one = raw[self._offsets[number] - start : self._offsets[number + 1] - start]
            parts.append(self._plain(one, number) or self._mended(filesystem, handle, number))
        return b"".join(parts)[offset - first * FRAME : end - first * FRAME]

    def _frame(self, filesystem: FileSystem, handle: int, number: int) -> bytes:
        last = self._last
        if last is not None and last[0] == number:
            return last[1]
        plain = self._plain(self._raw(filesystem, handle, number), number)
        if plain is None:
            plain = self._mended(filesystem, handle, number)
        if last is None:
            _kept.append(self)
            if len(_kept) > _KEPT:
                _kept.popleft()._last = None
        self._last = (number, plain)
        return plain

    def _raw(self, filesystem: FileSystem, handle: int, number: int) -> bytes:
        start = self._offsets[number]
        return filesystem.pread(handle, self._offsets[number + 1] - start, start)

    def _plain(self, raw: bytes, number: int) -> bytes | None:
        """Return the contents of a frame; None if it is damaged."""
        if len(raw) < _FRAME.size:
            return None
        length, plain, crc = _FRAME.unpack_from(raw)
        body: bytes | None = raw[_FRAME.size : _FRAME.size + length]
        if body is None or len(body) != length or plain > FRAME or crc32c(body, self._salt) != crc:
            return None
        if self._opener is not None:
            body = self._opener(body, _sealing(number, plain))
            if body is None:
                return None
        try:
            found: bytes = decode_block(body, FRAME)
        except ValueError:
            return None
        return found if len(found) == plain else None

    def _mended(self, filesystem: FileSystem, handle: int, number: int) -> bytes:
        """A damaged frame by the parity and the other frames of it, or zeros."""
        count = len(self._offsets) - 1
        start = self._offsets[count] + (self._parities[0] if number % 2 else 0)
        sum_ = int.from_bytes(filesystem.pread(handle, self._parities[number % 2], start), "little")
        for other in range(number % 2, count, 2):
            if other != number:
                sum_ ^= int.from_bytes(self._raw(filesystem, handle, other), "little")
        raw = sum_.to_bytes(max((sum_.bit_length() + 7) // 8, _FRAME.size), "little")
        raw = raw.ljust(self._offsets[number + 1] - self._offsets[number], b"\0")
        plain = self._plain(raw, number)
        return plain if plain is not None else bytes(min(FRAME, self.size - number * FRAME))


class Packer:
    """Makes frames of what it is given, and writes them. `sealer`: of a sealed segment."""

    def __init__(self, write: Callable[[bytes], object], salt: int, sealer: Transform | None = None) -> None:
        self._write = write
        self._salt = salt
        self._sealer = sealer
        self._rest = bytearray()
        self._parities = [0, 0]
        self._offsets = array("Q", [FIRST])
        self._size = 0

    @property
    def saves(self) -> bool:
        """True if the frames so far are clearly smaller than what they hold."""
        return self._size < FRAME or (self._offsets[-1] - FIRST) * 8 < self._size * 7

    @property
    def size(self) -> int:
        """Bytes that went into frames."""
        return self._size

    def add(self, data: bytes) -> None:
        """Take more of what the segment holds, and write the frames that it fills; raises as `write`."""
        self._rest += data
        while len(self._rest) >= FRAME:
            self._put(bytes(self._rest[:FRAME]))
            del self._rest[:FRAME]

    def _put(self, plain: bytes) -> None:
        number = len(self._offsets) - 1
        body: bytes | None = encode_block(plain)
        if self._sealer is not None:
            assert body is not None
            body = self._sealer(body, _sealing(number, len(plain)))
        assert body is not None
        raw = _FRAME.pack(len(body), len(plain), crc32c(body, self._salt)) + body
        self._parities[number % 2] ^= int.from_bytes(raw, "little")
        self._offsets.append(self._offsets[-1] + len(raw))
        self._size += len(plain)
        self._write(raw)

    def finish(self, opener: Transform | None) -> Packed:
        """Write the rest, and what is behind the frames."""
        if self._rest:
            self._put(bytes(self._rest))
            self._rest.clear()
        parities = [one.to_bytes((one.bit_length() + 7) // 8, "little") for one in self._parities]
        even, odd = map(len, parities)
        count = len(self._offsets) - 1
        table = _TABLE.pack(_MAGIC, self._size, count, even, odd)
        table += struct.pack(f"<{count + 1}Q", *self._offsets)
        table += _U32.pack(crc32c(table, self._salt))
        self._write(b"".join([*parities, table, _U32.pack(len(table))]))
        return Packed(self._salt, self._size, self._offsets, (even, odd), opener)


def _sealing(number: int, plain: int) -> bytes:
    """Return the data that is authenticated with a frame: its number and its length."""
    return b"frame" + struct.pack("<II", number, plain)
