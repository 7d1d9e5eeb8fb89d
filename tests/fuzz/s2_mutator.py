"""Inputs that look like S2: chunks and elements, whole and spoilt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.engine.s2 import Stream, encode_block

if TYPE_CHECKING:
    import random


def _data(rng: random.Random) -> bytes:
    words = [rng.randbytes(rng.randrange(1, 12)) for _ in range(rng.choice((1, 2, 9, 40)))]
    return b"".join(rng.choices(words, k=rng.choice((0, 1, 5, 60, 900))))


def _elements(rng: random.Random) -> bytes:
    """A block of elements at random: of the right length by luck."""
    found = bytearray([rng.randrange(128)])
    for _ in range(rng.randrange(12)):
        found.append(rng.randrange(256))
        found += rng.randbytes(rng.choice((0, 1, 1, 2, 3, 4, 8)))
    return bytes(found)


def s2_input(rng: random.Random) -> bytes:
    """Blocks, streams, or chunks with wrong heads."""
    match rng.randrange(4):
        case 0:
            return _elements(rng)
        case 1:
            return s2_mutate(encode_block(_data(rng)), rng, 100_000)
        case 2:
            stream = Stream(rng.randrange(2))
            return s2_mutate(b"".join(stream.compress(_data(rng)) for _ in range(3)), rng, 100_000)
        case _:
            kind = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, rng.randrange(256)))
            size = rng.choice((0, 3, 4, 5, 6, 10, 70_000, 1 << 22, 0xFFFFFF))
            return bytes([kind]) + size.to_bytes(3, "little") + rng.randbytes(rng.choice((0, 4, 10, 300)))


def s2_mutate(data: bytes, rng: random.Random, most: int) -> bytes:
    """Change some bytes, take some out, put some in, or take some twice."""
    changed = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 2, 5))):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(5):
            case 0:
                changed[at:at] = rng.randbytes(rng.randrange(1, 5))
            case 1:
                del changed[at : at + rng.randrange(1, 9)]
            case 2:
                changed[at:at] = changed[at : at + 40]
            case 3:
                del changed[at:]
            case _ if at < len(changed):
                changed[at] ^= 1 << rng.randrange(8)
            case _:
                changed.append(rng.randrange(256))
    return bytes(changed[:most])
