"""What a fuzz input of point reads means, and what must hold whatever it is.

The input is a file of records and, in its first bytes, where somebody says a block of it begins. A read gives
nothing, or a message that is in the file with both checksums and the sequence that was asked for.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import zlib
from random import Random
from struct import Struct
from typing import Final

from headrace.engine.log_reading import PointReads
from headrace.engine.memory import live_objects
from headrace.engine.records import HEADER_BYTES, crc32c
from headrace.log.port import StoredMessage

SALT: Final = 7
HEAD: Final = Struct("<HBBB")
"""What a block is said to be: offset of its first record, its first sequence, its end, the log's last one."""
RECORD: Final = Struct("<IIBBHIQqQIHH")
MESSAGE: Final = 1
_WITH_TTL: Final = 1
_SEALED: Final = 2


def check(data: bytes) -> None:
    before = live_objects()
    _check(data)
    assert live_objects() == before


def _check(data: bytes) -> None:
    if len(data) < HEAD.size:
        return
    offset, first, end, last = HEAD.unpack_from(data)
    file = data[HEAD.size :]
    with tempfile.TemporaryFile() as opened:
        os.pwrite(opened.fileno(), file, 0)
        points = PointReads(lambda _: (opened.fileno(), SALT, offset, first, end), StoredMessage)
        order = [sequence for sequence in range(first, end or 256) if sequence <= last]
        Random(zlib.crc32(data)).shuffle(order)
        for sequence in order + order[:20] + sorted(order):  # messages in order are read together
            found = points.message(sequence, last)
            assert found is None or (found.sequence == sequence and _is_in(file, found))
        points.forget(opened.fileno())


def _is_in(file: bytes, found: StoredMessage) -> bool:
    """Whether a record anywhere in the file is this message."""
    return any(_at(file, place) == found for place in range(len(file) - HEADER_BYTES + 1))


def _at(file: bytes, place: int) -> StoredMessage | None:
    """The message whose record begins there."""
    head = file[place : place + HEADER_BYTES]
    crc, body_crc, version, kind, subject, size, sequence, time_ns, _, headers, reply, flags = RECORD.unpack(
        head
    )
    body = file[place + HEADER_BYTES : place + HEADER_BYTES + size]
    if (version, kind) != (1, MESSAGE) or flags & _SEALED or crc != crc32c(head[4:], SALT):
        return None
    if len(body) != size or body_crc != crc32c(body, SALT):
        return None
    parts = body[8 if flags & _WITH_TTL else 0 :]
    ends = [0, subject, subject + reply, subject + reply + headers, len(parts)]
    return StoredMessage(sequence, time_ns, *(parts[a:b] for a, b in itertools.pairwise(ends)))
