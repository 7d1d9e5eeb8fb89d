"""What a fuzz input of S2 means, and what must hold whatever it is.

The input is a block, a stream, and data. As a block it is refused, or gives as much as it says. As a stream
it comes to the same whole and cut anywhere, and what it gave stands. As data it comes back.
"""

from __future__ import annotations

import random
import zlib
from typing import TYPE_CHECKING, Final

from headrace.engine.memory import live_objects
from headrace.engine.s2 import Stream, decode_block, encode_block

if TYPE_CHECKING:
    from collections.abc import Iterator

IDENTIFIER: Final = Stream().compress(b"x")[:10]
_MOST: Final = 1 << 16


def check(data: bytes) -> None:
    before = live_objects()
    _check_block(data)
    for stream in (data, IDENTIFIER + data):
        whole, wrong = _taken_in([stream])
        by_pieces, wrong_there = _taken_in(list(_cut(stream)))
        assert wrong_there == wrong
        # What a piece would have given before it was found to be broken is lost, as the connection is.
        assert by_pieces == whole if not wrong else by_pieces.startswith(whole)
    assert decode_block(encode_block(data[:_MOST])) == data[:_MOST]
    for level in (0, 1):
        assert _taken_in([Stream(level).compress(data)]) == (data, "")
    assert live_objects() == before


def _check_block(data: bytes) -> None:
    try:
        found = decode_block(data, _MOST)
    except ValueError:
        return
    said = 0
    for at, byte in enumerate(data[:5]):
        said |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            break
    assert len(found) == said


def _taken_in(pieces: list[bytes]) -> tuple[bytes, str]:
    """What a stream gives, a piece after the other, and what is wrong with it then."""
    stream = Stream()
    found = bytearray()
    try:
        for piece in pieces:
            found += stream.decompress(piece)
    except ValueError as error:
        return bytes(found), str(error)
    return bytes(found), ""


def _cut(data: bytes) -> Iterator[bytes]:
    numbers = random.Random(zlib.crc32(data))
    at = 0
    while at < len(data):
        size = numbers.choice((1, 2, 3, 7, 50, 5000))
        yield data[at : at + size]
        at += size
