"""The S2 stream format, which the Go server wraps backups of streams in: frames, checksums, blocks.

Reading understands S2 and Snappy; writing stores blocks as they are, which every reader of S2 understands.
Pure: bytes in, bytes out, and never more than the format allows in one block. Source: the descriptions of the
Snappy framing format and of its S2 extension; checked with streams of the Go server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.engine.records import crc32c
from headrace.engine.s2 import encode_block

if TYPE_CHECKING:
    from collections.abc import Iterator

STREAM_BEGIN: Final = b"\xff\x06\x00\x00S2sTwO"
_NAMES: Final = (b"S2sTwO", b"sNaPpY")
_COMPRESSED: Final = 0x00
_PLAIN: Final = 0x01
_BEGIN: Final = 0xFF
_FIRST_SKIPPABLE: Final = 0x80
_CHECKSUM: Final = 4
_FRAME_HEAD: Final = 4
LARGEST_BLOCK: Final = 4 << 20
"""Bytes of one block, as S2 has it."""
_WRITTEN_BLOCK: Final = 1 << 20
_SNAPPY_BLOCK: Final = 1 << 16
_LARGEST_FRAME: Final = LARGEST_BLOCK + LARGEST_BLOCK // 6 + 64


class BadStream(ValueError):
    """The bytes are no S2 stream, or are damaged."""


def frames(data: bytes) -> bytes:
    """Data as frames of a stream; `STREAM_BEGIN` goes before the first of them."""
    parts: list[bytes] = []
    for start in range(0, len(data), _WRITTEN_BLOCK):
        block = data[start : start + _WRITTEN_BLOCK]
        size = (len(block) + _CHECKSUM).to_bytes(3, "little")
        parts += [bytes([_PLAIN]), size, _checksum(block), block]
    return b"".join(parts)


def snappy_stream(data: bytes) -> bytes:
    """Data as a whole stream that readers of Snappy understand, compressed."""
    parts = [bytes([_BEGIN, 6, 0, 0]), _NAMES[1]]
    for start in range(0, len(data), _SNAPPY_BLOCK):
        block = data[start : start + _SNAPPY_BLOCK]
        body = encode_block(block)
        size = (len(body) + _CHECKSUM).to_bytes(3, "little")
        parts += [bytes([_COMPRESSED]), size, _checksum(block), body]
    return b"".join(parts)


class S2Reader:
    """Takes a stream in pieces of any size and gives what was in it."""

    def __init__(self) -> None:
        self._rest = b""
        self._has_begun = False

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The blocks that are whole now. Raises: BadStream."""
        data = self._rest + piece
        at = 0
        while len(data) - at >= _FRAME_HEAD:
            kind = data[at]
            size = int.from_bytes(data[at + 1 : at + _FRAME_HEAD], "little")
            if not self._has_begun and kind != _BEGIN:
                raise BadStream("it does not begin as a stream does")
            if size > _LARGEST_FRAME and kind < _FIRST_SKIPPABLE:
                raise BadStream("a frame is larger than any block")
            end = at + _FRAME_HEAD + size
            if end > len(data):
                break
            block = self._block(kind, data[at + _FRAME_HEAD : end])
            at = end
            if block:
                yield block
        self._rest = data[at:]

    @property
    def is_between_frames(self) -> bool:
        """True if the stream may end here."""
        return not self._rest

    def _block(self, kind: int, body: bytes) -> bytes:
        if kind == _BEGIN:
            if body not in _NAMES:
                raise BadStream("a stream of another format")
            self._has_begun = True
            return b""
        if kind >= _FIRST_SKIPPABLE:
            return b""
        if kind not in (_COMPRESSED, _PLAIN) or len(body) < _CHECKSUM:
            raise BadStream("a frame of an unknown kind")
        block = body[_CHECKSUM:] if kind == _PLAIN else decompress(body[_CHECKSUM:])
        if len(block) > LARGEST_BLOCK or _checksum(block) != body[:_CHECKSUM]:
            raise BadStream("a block is damaged")
        return block


def _checksum(block: bytes) -> bytes:
    value = crc32c(block)
    rotated = (value >> 15 | value << 17) & 0xFFFFFFFF
    return ((rotated + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


def decompress(block: bytes) -> bytes:
    """One compressed block. Raises: BadStream."""
    size, at = _uvarint(block)
    if size > LARGEST_BLOCK:
        raise BadStream("a block says it is larger than any")
    made = bytearray()
    offset = 0
    try:
        while at < len(block):
            tag = block[at]
            if tag & 3 == 0:
                length, at = _literal(block, at)
                if at + length > len(block):
                    raise BadStream("a literal is cut off")
                made += block[at : at + length]
                at += length
            else:
                length, offset, at = _copy(block, at, offset)
                _repeat(made, offset, length)
            if len(made) > size:
                raise BadStream("a block is larger than it says")
    except IndexError:
        raise BadStream("a block is cut off") from None
    if len(made) != size:
        raise BadStream("a block is shorter than it says")
    return bytes(made)


def _uvarint(block: bytes) -> tuple[int, int]:
    value = 0
    for at, byte in enumerate(block[:5]):
        value |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            return value, at + 1
    raise BadStream("a block does not say how large it is")


def _literal(block: bytes, at: int) -> tuple[int, int]:
    """Return the length of a literal and the offset of its bytes."""
    length = block[at] >> 2
    if length < 60:
        return length + 1, at + 1
    width = length - 59
    return int.from_bytes(block[at + 1 : at + 1 + width], "little") + 1, at + 1 + width


def _copy(block: bytes, at: int, last: int) -> tuple[int, int, int]:
    """Length and offset of what is repeated, and where the next tag is; `last`: the offset before."""
    tag = block[at]
    if tag & 3 == 2:
        return 1 + (tag >> 2), block[at + 1] | block[at + 2] << 8, at + 3
    if tag & 3 == 3:
        return 1 + (tag >> 2), int.from_bytes(block[at + 1 : at + 5], "little"), at + 5
    length, offset = tag >> 2 & 7, (tag & 0xE0) << 3 | block[at + 1]
    at += 2
    if offset:
        return length + 4, offset, at
    if length < 5:
        return length + 4, last, at
    width = length - 4
    more = int.from_bytes(block[at : at + width], "little") + (8, 260, 65540)[width - 1]
    return more, last, at + width


def _repeat(made: bytearray, offset: int, length: int) -> None:
    start = len(made) - offset
    if offset <= 0 or start < 0 or length > LARGEST_BLOCK:
        raise BadStream("a copy of what is not there")
    if offset >= length:
        made += made[start : start + length]
        return
    pattern = bytes(made[start:])
    made += (pattern * (length // offset + 1))[:length]
