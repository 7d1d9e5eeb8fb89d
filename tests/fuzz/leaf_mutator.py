"""Inputs that look like what leaf nodes, a hub and clients send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fuzz.client_mutator import MAKERS, mutated
from fuzz.leaf_target import LEAFS, LOOP, LeafPlay
from fuzz.route_mutator import SUBJECTS, Maker, commands, interest, interleaved, message

if TYPE_CHECKING:
    import random

_SUBJECTS: Final = [*SUBJECTS, LOOP, b"$LDS.x", b"always.x"]


def _interest(rng: random.Random) -> bytes:
    return interest(rng, rng.choice([b"LS+"] * 5 + [b"LS-"] * 3), subjects=_SUBJECTS)


def _message(rng: random.Random) -> bytes:
    op = rng.choice((b"LMSG", b"LMSG", b"HMSG"))
    return message(rng, op, has_headers=op == b"HMSG", subjects=_SUBJECTS)


_LEAF_MAKERS: Final[list[Maker]] = [_message, _interest]
_ALL: Final[list[Maker]] = _LEAF_MAKERS * 6 + commands(LeafPlay) * 3 + MAKERS


def leaf_session(rng: random.Random, ops: int) -> bytes:
    """A fresh input of so many ops. What would end a connection at once is mostly left out."""
    return interleaved(rng, LeafPlay, ops, lambda number: _LEAF_MAKERS if number < LEAFS else MAKERS)


def leaf_mutate(data: bytes, rng: random.Random, most: int) -> bytes:
    """`data` with an op or two put in, taken out, doubled or damaged; at most `most` bytes."""
    return mutated(data, rng, most, _ALL)
