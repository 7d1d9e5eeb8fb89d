"""S2: blocks and streams both ways, cut anywhere, and every way in which they can be wrong."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING, Final

import pytest

from headrace.engine.memory import live_objects
from headrace.engine.s2 import Stream, decode_block, encode_block

if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC: Final = b"\xff\x06\x00\x00S2sTwO"
SNAPPY: Final = b"\xff\x06\x00\x00sNaPpY"
HELLO: Final = b"\x01\x09\x00\x00\xbb\x1f\x1c\x19hello"
"""An uncompressed chunk, as the Snappy framing has it."""


@pytest.fixture(autouse=True)
def _balance() -> Iterator[None]:
    before = live_objects()
    yield
    assert live_objects() == before


def crc32c(data: bytes) -> int:
    """By the definition, a bit at a time."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def chunk(kind: int, body: bytes) -> bytes:
    return struct.pack("<I", kind | len(body) << 8) + body


def summed(kind: int, data: bytes, body: bytes | None = None) -> bytes:
    crc = crc32c(data)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return chunk(kind, struct.pack("<I", masked) + (data if body is None else body))


def samples() -> Iterator[bytes]:
    numbers = random.Random(5)
    yield b""
    yield from (
        bytes([7]) * n for n in (1, 2, 3, 4, 15, 16, 17, 18, 64, 67, 68, 69, 70, 300, 323, 324, 65536)
    )
    yield from (numbers.randbytes(n) for n in (1, 16, 17, 59, 60, 61, 62, 255, 256, 257, 4000, 65536))
    words = [b"orders", b"eu", b"RMSG $G ", b"\r\n", b'{"id":', b"4711", b"}", b" "]
    for n in (30, 500, 8000):
        yield b"".join(numbers.choices(words, k=n))[:65536]
    for period in (1, 2, 3, 5, 8, 13, 2047, 2048, 5000, 32768):
        yield (numbers.randbytes(period) * (40000 // period + 2))[:65536]
    for _ in range(200):
        size = numbers.randrange(1, 3000)
        yield bytes(numbers.choices(range(numbers.choice([1, 2, 4, 256])), k=size))


@pytest.mark.parametrize("data", list(samples()), ids=lambda data: str(len(data)))
def test_blocks_come_back(data: bytes) -> None:
    block = encode_block(data)
    assert decode_block(block) == data
    assert len(block) <= 32 + len(data) + len(data) // 6


def test_what_repeats_gets_small() -> None:
    assert len(encode_block(bytes(65536))) < 20
    assert len(encode_block(b"RMSG $G orders.eu 5\r\nhello\r\n" * 2000)) < 100


@pytest.mark.parametrize("size", [65537, 1 << 20])
def test_a_block_that_is_too_large_is_not_written(size: int) -> None:
    with pytest.raises(ValueError, match="64 KiB"):
        encode_block(bytes(size))


@pytest.mark.parametrize(
    ("block", "data"),
    [
        (b"\x00", b""),
        (b"\x03\x08abc", b"abc"),
        (b"\x03\xf0\x02abc", b"abc"),
        (b"\x03\xf4\x02\x00abc", b"abc"),
        (b"\x03\xf8\x02\x00\x00abc", b"abc"),
        (b"\x03\xfc\x02\x00\x00\x00abc", b"abc"),
        (b"\x08\x0cabcd\x01\x04", b"abcdabcd"),
        (b"\x08\x0cabcd\x0e\x04\x00", b"abcdabcd"),
        (b"\x08\x0cabcd\x0f\x04\x00\x00\x00", b"abcdabcd"),
        (b"\x06\x00a\x12\x01\x00", b"aaaaaa"),
        (b"\x0c\x0cabcd\x01\x04\x01\x00", b"abcdabcdabcd"),
        (b"\x12\x0cabcd\x01\x04\x15\x00\x02", b"abcdabcdabcdabcdab"),
        (b"\x8e\x02\x0cabcd\x01\x04\x19\x00\x02\x00", (b"abcd" * 70)[:270]),
        (b"\x8e\x80\x04\x0cabcd\x01\x04\x1d\x00\x02\x00\x00", (b"abcd" * 20000)[:65550]),
    ],
)
def test_every_kind_of_element(block: bytes, data: bytes) -> None:
    assert decode_block(block) == data


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"\x80",
        b"\xff\xff\xff\xff\x7f",  # more than 32 bits
        b"\xff\xff\xff\xff\xff\x01",
        b"\x03",  # less than it says
        b"\x03\x08ab",
        b"\x03\x0cabcd",  # more than it says
        b"\x03\x08abc\x00",
        b"\x03\xf0",
        b"\x03\xfc\x02\x00\x00",
        b"\x03\xfc\xff\xff\xff\xffabc",
        b"\x08\x0cabcd\x01\x05",  # before the beginning
        b"\x08\x0cabcd\x0e\x05\x00",
        b"\x08\x0cabcd\x0e\x00\x00",  # nowhere
        b"\x08\x0cabcd\x0f\x00\x00\x00\x00",
        b"\x08\x0cabcd\x0f\x04\x00\x00\x80",
        b"\x08\x0cabcd\x01",
        b"\x08\x0cabcd\x0e\x04",
        b"\x08\x0cabcd\x0f\x04\x00\x00",
        b"\x08\x0cabcd\x01\x00",  # repeats what was not there
        b"\x04\x01\x00",
        b"\x12\x0cabcd\x01\x04\x15\x00",
        b"\x12\x0cabcd\x01\x04\x19\x00\x02",
        b"\x12\x0cabcd\x01\x04\x1d\x00\x02\x00",
        b"\x12\x0cabcd\x01\x04\x1d\x00\xff\xff\xff",
        b"\x07\x0cabcd\x01\x04",
    ],
)
def test_corrupt_blocks(block: bytes) -> None:
    with pytest.raises(ValueError, match=r"^a block is corrupt$"):
        decode_block(block)


def test_a_block_may_not_be_larger_than_is_wanted() -> None:
    assert decode_block(b"\x03\x08abc", 3) == b"abc"
    with pytest.raises(ValueError, match=r"^a block is too large$"):
        decode_block(b"\x03\x08abc", 2)


@pytest.mark.parametrize("seed", range(30))
def test_blocks_that_were_changed_are_refused_or_are_other_data(seed: int) -> None:
    numbers = random.Random(seed)
    data = b"".join(numbers.choices([b"abc", b"defgh", b"0", numbers.randbytes(9)], k=300))
    block = bytearray(encode_block(data))
    for _ in range(500):
        at = numbers.randrange(len(block))
        changed = bytearray(block)
        changed[at] = numbers.randrange(256)
        if numbers.random() < 0.3:
            del changed[at:]
        try:
            found = decode_block(bytes(changed), 1 << 16)
        except ValueError:
            continue
        assert len(found) <= 1 << 16


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_as_blocks(seed: int) -> None:
    numbers = random.Random(seed)
    for _ in range(2000):
        head = bytes([numbers.randrange(1, 128)])
        try:
            found = decode_block(head + numbers.randbytes(numbers.randrange(40)))
        except ValueError:
            continue
        assert len(found) == head[0]


# ---- streams ------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0, 1])
def test_streams_come_back_whatever_is_said_at_once(level: int) -> None:
    numbers = random.Random(level)
    there, here = Stream(level), Stream()
    for _ in range(60):
        data = (numbers.randbytes(50) * numbers.randrange(40, 4000))[: numbers.randrange(1, 200_000)]
        said = there.compress(data)
        assert here.decompress(said) == data
        assert here.held == 0
    assert there.compress(b"") == b""


def test_the_identifier_is_written_once() -> None:
    stream = Stream()
    assert stream.compress(b"hello") == MAGIC + HELLO
    assert stream.compress(b"hello") == HELLO


def test_uncompressed_is_as_long_as_it_is() -> None:
    assert len(Stream(0).compress(bytes(200_000))) == 10 + 200_000 + 4 * 8


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 100])
def test_streams_in_pieces(size: int) -> None:
    data = b"RMSG $G orders 5\r\nhello\r\n" * 50
    said = Stream().compress(data) + chunk(0xFE, b"padding") + chunk(0x99, b"") + MAGIC + HELLO
    stream = Stream()
    found = b"".join(stream.decompress(said[at : at + size]) for at in range(0, len(said), size))
    assert found == data + b"hello"


def test_streams_cut_at_every_byte() -> None:
    data = b"RMSG $G orders 5\r\nhello\r\n" * 3
    said = Stream().compress(data) + chunk(0xFE, b"\0" * 5) + Stream(0).compress(b"x" * 20)
    for at in range(len(said) + 1):
        stream = Stream()
        first = stream.decompress(said[:at])
        assert first + stream.decompress(said[at:]) == data + b"x" * 20


def test_snappy_streams_are_read() -> None:
    assert (
        Stream().decompress(SNAPPY + HELLO + summed(0, b"abcdabcd", b"\x08\x0cabcd\x01\x04"))
        == b"helloabcdabcd"
    )


def test_chunks_without_data_say_nothing() -> None:
    empty = summed(1, b"") + summed(0, b"", b"\x00")
    assert Stream().decompress(MAGIC + empty + HELLO) == b"hello"


@pytest.mark.parametrize("kind", [0x80, 0x99, 0xFD, 0xFE])
def test_what_is_left_out_is_not_kept(kind: int) -> None:
    stream = Stream()
    body = chunk(kind, b"x" * 0xFFFFFF)
    assert stream.decompress(MAGIC + body[:1000]) == b""
    assert stream.held == 0
    assert stream.decompress(body[1000:] + HELLO) == b"hello"


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (HELLO, "does not begin with its identifier"),
        (b"INFO {", "does not begin with its identifier"),
        (b"\xff\x06\x00\x00S2sTwo", "an identifier is not that of S2"),
        (b"\xff\x05\x00\x00S2sTw", "an identifier is not that of S2"),
        (MAGIC + b"\x02\x01\x00\x00x", "a chunk is of an unknown type"),
        (MAGIC + b"\x7f\x00\x00\x00", "a chunk is of an unknown type"),
        (MAGIC + b"\x01\x03\x00\x00", "a chunk has an impossible length"),
        (MAGIC + b"\x00\x00\x00\x00", "a chunk has an impossible length"),
        (MAGIC + b"\x01\x05\x00\x40", "a chunk has an impossible length"),  # 4 MiB and one byte
        (MAGIC + b"\x00\xff\xff\xff", "a chunk has an impossible length"),
        (SNAPPY + b"\x01\x05\x00\x01", "a chunk has an impossible length"),
        (MAGIC + summed(0, b"", b"\x81\x80\x80\x02"), "a block is too large"),
        (SNAPPY + summed(0, b"", b"\x81\x80\x04"), "a block is too large"),
        (MAGIC + summed(0, b"", b""), "a block is corrupt"),
        (MAGIC + summed(0, b"abc", b"\x03\x08ab"), "a block is corrupt"),
        (MAGIC + HELLO[:-1] + b"O", "a checksum does not match"),
        (MAGIC + summed(0, b"abd", b"\x03\x08abc"), "a checksum does not match"),
    ],
)
def test_broken_streams(said: bytes, text: str) -> None:
    stream = Stream()
    for _ in range(2):  # and for good
        with pytest.raises(ValueError, match=text):
            stream.decompress(said)
    whole = MAGIC + HELLO if said.startswith(MAGIC) else said[:0]
    assert Stream().decompress(whole) == (b"hello" if whole else b"")


@pytest.mark.parametrize("seed", range(20))
def test_streams_that_were_changed(seed: int) -> None:
    """Never other data than what was said, and no more."""
    numbers = random.Random(seed)
    data = numbers.randbytes(30) * 40 + numbers.randbytes(500)
    said = Stream().compress(data) + Stream(0).compress(data)
    for _ in range(300):
        changed = bytearray(said)
        changed[numbers.randrange(len(said))] ^= 1 << numbers.randrange(8)
        try:
            found = Stream().decompress(bytes(changed))
        except ValueError:
            continue
        assert (data + data).startswith(found) or found == data
