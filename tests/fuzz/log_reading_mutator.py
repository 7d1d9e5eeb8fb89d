"""Inputs that look like files of records: whole ones, ones with lengths that do not fit, spoilt ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzz.log_reading_target import HEAD, MESSAGE, RECORD, SALT
from fuzz.s2_mutator import s2_mutate
from headrace.engine.records import crc32c

if TYPE_CHECKING:
    import random

_MOST = 20_000


def _record(rng: random.Random, sequence: int) -> bytes:
    """One with valid checksums; now and then its lengths or its body say something else."""
    subject, reply, headers = (rng.choice((0, 1, 5, 20, 300)) for _ in range(3))
    flags = rng.choice((0, 0, 0, 1, 2, 3, 0xFFFF))
    size = subject + reply + headers + 8 * (flags & 1) + rng.choice((0, 1, 60, 3000, 5000))
    said = rng.choice((size,) * 9 + (size + 1, max(size - 1, 0), 0, 1 << 20, (1 << 31) - 1, (1 << 32) - 1))
    body = rng.randbytes(size)
    kind = rng.choice((MESSAGE,) * 9 + (2, 3, 4, 5, 6, 7, 0))
    parts = (1, kind, subject, said, sequence, rng.choice((0, 1, -1, 9)), 0, headers, reply, flags)
    head = RECORD.pack(0, crc32c(body, SALT), *parts)[4:]
    return crc32c(head, SALT).to_bytes(4, "little") + head + body


def _file(rng: random.Random) -> bytes:
    found, sequence = b"", rng.randrange(4)
    for _ in range(rng.choice((1, 3, 10, 60))):
        sequence += rng.choice((1,) * 8 + (0, 2, 30))
        found += _record(rng, rng.choice((sequence,) * 20 + (0, 1 << 62, (1 << 64) - 1)))
    return found[:_MOST]


def log_reading_input(rng: random.Random) -> bytes:
    """A block, mostly at the beginning of its file, and the file, mostly spoilt a little."""
    file = _file(rng)
    offset = rng.choice((0, 0, 0, rng.randrange(len(file) + 9)))
    head = HEAD.pack(
        offset, rng.choice((0, 1, 1, 2, 9)), rng.choice((0, 0, 40, 255)), rng.choice((255, 255, 30, 0))
    )
    return head + (file if rng.random() < 0.5 else s2_mutate(file, rng, _MOST))
