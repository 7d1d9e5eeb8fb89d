"""Inputs that look like what servers of before 2.0, newer ones and their clients send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fuzz.client_mutator import MAKERS, line, mutated
from fuzz.legacy_target import LEGACY, LegacyPlay
from fuzz.route_mutator import QUEUES, ROUTE_MAKERS, SUBJECTS, Maker, commands, interleaved, with_payload
from fuzz.route_target import ROUTES

if TYPE_CHECKING:
    import random

_OWN_RSIDS: Final = [b"RSID:1:1", b"RSID:1:2", b"RSID:2:1", b"QRSID:1:1", b"QRSID:1:2", b"QRSID:2:x:y", b"x"]
"""What a peer calls its subscriptions."""
_RSIDS: Final = [
    *(b"RSID:0:%d" % n for n in range(1, 4)), *(b"QRSID:0:%d" % n for n in range(1, 9)),
    b"QRSID", b"QRSID:", b"QRSID:1", b"QRSID::1", b"QRSID:1:", b"QRSID:x:1", b"Q", b"RSID", b"-",
]  # fmt: skip
"""What it may have been told."""


def _interest(rng: random.Random) -> bytes:
    if rng.random() < 0.3:
        limit = [b"%d" % rng.choice((0, 1, 2, 7, 999_999_999))] if rng.random() < 0.5 else []
        return line(rng, b"UNSUB", rng.choice(_OWN_RSIDS), *limit)
    queue = [rng.choice(QUEUES)] if rng.random() < 0.2 else []
    return line(rng, b"SUB", rng.choice(SUBJECTS), *queue, rng.choice(_OWN_RSIDS))


def _message(rng: random.Random) -> bytes:
    words = [b"PUB", rng.choice(SUBJECTS)]
    if rng.random() < 0.9:
        words = [b"MSG", words[1], rng.choice(_RSIDS)]
    if rng.random() < 0.4:
        words.append(rng.choice(SUBJECTS))
    return with_payload(rng, words)


_LEGACY_MAKERS: Final[list[Maker]] = [_message, _interest]
_ALL: Final[list[Maker]] = _LEGACY_MAKERS * 6 + ROUTE_MAKERS * 2 + commands(LegacyPlay) * 3 + MAKERS


def _makers(number: int) -> list[Maker]:
    if number < LEGACY:
        return _LEGACY_MAKERS
    return ROUTE_MAKERS if number < ROUTES else MAKERS


def legacy_session(rng: random.Random, ops: int) -> bytes:
    """A fresh input of so many ops. What would end a connection at once is mostly left out."""
    return interleaved(rng, LegacyPlay, ops, _makers)


def legacy_mutate(data: bytes, rng: random.Random, most: int) -> bytes:
    """`data` with an op or two put in, taken out, doubled or damaged; at most `most` bytes."""
    return mutated(data, rng, most, _ALL)
