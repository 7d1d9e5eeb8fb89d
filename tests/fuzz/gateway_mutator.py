"""Inputs that look like what servers of other clusters, one of this one, and clients send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fuzz.client_mutator import MAKERS, line, mutated
from fuzz.gateway_target import GatewayPlay
from fuzz.route_mutator import ROUTE_MAKERS, SUBJECTS, Maker, commands, interest, interleaved, message

if TYPE_CHECKING:
    import random

_SUBJECTS: Final = [
    *SUBJECTS, b"_GR_.NUmM6c.SRVone.a", b"_GR_.BBBBBB.SRVone.b", b"_GR_.NUmM6c.SRVtwo.a.b", b"_GR_.x",
    b"_GR_.BBBBBB.SRVtwo.$JS.ACK.S.c.1.1.1.1.0@shown",
]  # fmt: skip
_ACCOUNTS: Final = [b"$G"] * 6 + [b"A"] * 3 + [b"unknown"]


def _interest(rng: random.Random) -> bytes:
    op = rng.choice([b"RS+"] * 6 + [b"RS-"] * 4 + [b"A-", b"A+"])
    words = [op, rng.choice(_ACCOUNTS)]
    return interest(rng, *words, subjects=_SUBJECTS) if op[:1] == b"R" else line(rng, *words)


def _message(rng: random.Random) -> bytes:
    op = rng.choice((b"RMSG", b"RMSG", b"HMSG"))
    return message(rng, op, rng.choice(_ACCOUNTS), has_headers=op == b"HMSG", subjects=_SUBJECTS)


_BY_LINK: Final[list[list[Maker]]] = [
    [_message], [_interest], [_message, _interest, *ROUTE_MAKERS], MAKERS, MAKERS
]  # fmt: skip
_ALL: Final[list[Maker]] = [_message, _interest] * 6 + commands(GatewayPlay) * 3 + MAKERS


def gateway_session(rng: random.Random, ops: int) -> bytes:
    """A fresh input of so many ops. What would end a connection at once is mostly left out."""
    return interleaved(rng, GatewayPlay, ops, _BY_LINK.__getitem__)


def gateway_mutate(data: bytes, rng: random.Random, most: int) -> bytes:
    """`data` with an op or two put in, taken out, doubled or damaged; at most `most` bytes."""
    return mutated(data, rng, most, _ALL)
