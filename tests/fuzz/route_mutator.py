"""Inputs that look like what servers of a cluster and their clients send."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from fuzz.client_mutator import MAKERS, line, mutated
from fuzz.playing import ESCAPE, command
from fuzz.route_target import ROUTES, RoutePlay

Maker = Callable[[random.Random], bytes]

SUBJECTS: Final = [
    b"a", b"a.b", b"b", b"n.x", b"a.*", b"a.>", b"*", b">", b"*.b", b"a..b", b"_R_.x", b"x" * 70,
    b"$JS.ACK.S.c.1.1.1.1.0@shown", b"$JS.ACK.S.c.1.1.1.1.0",
]  # fmt: skip
_ACCOUNTS: Final = [b"$G"] * 8 + [b"A", b"unknown"]
QUEUES: Final = [b"q", b"w", b"queue-of-some-length"]
SIZES: Final = [0, 1, 2, 5, 40, 48, 49] * 6 + [200, 3000, 33_000, 70_001]


def _account(rng: random.Random) -> list[bytes]:
    return [] if rng.random() < 0.2 else [rng.choice(_ACCOUNTS)]


def _interest(rng: random.Random) -> bytes:
    op = rng.choice([b"RS+"] * 5 + [b"RS-"] * 3 + [b"LS+"] * 2 + [b"LS-"])
    words = [rng.choice([b"leafs", b"$G"])] if op[:1] == b"L" else []
    words += [*_account(rng), rng.choice(SUBJECTS)]
    if rng.random() < 0.3:
        words.append(rng.choice(QUEUES))
        if op.endswith(b"+"):
            words.append(b"%d" % rng.choice((0, 1, 1, 2, 7, 999_999_999)))
    return line(rng, op, *words)


def _message(rng: random.Random) -> bytes:
    size = rng.choice(SIZES)
    op = rng.choice((b"RMSG", b"RMSG", b"HMSG", b"LMSG"))
    words = ([b"leafs"] if op == b"LMSG" else []) + [*_account(rng), rng.choice(SUBJECTS)]
    form = rng.randrange(6)
    if form in (0, 1):
        words.append(rng.choice(SUBJECTS))
    elif form > 3:
        words += [b"+", rng.choice(SUBJECTS)] if form == 4 else [b"|"]
        words += rng.choices(QUEUES, k=rng.randrange(4))
    if op != b"RMSG":
        words.append(b"%d" % rng.randrange(size + 1))
    words.append(b"%0*d" % (rng.choice((1, 1, 1, 3)), size))
    return line(rng, op, *words) + b"p" * size + rng.choice([b"\r\n"] * 20 + [b"\n", b"", b"xx"])


ROUTE_MAKERS: Final[list[Maker]] = [_message, _interest]


def _choose(rng: random.Random) -> bytes:
    return _chosen(rng.randrange(RoutePlay.LINKS))


def _chosen(number: int) -> bytes:
    return command(RoutePlay.COMMANDS, RoutePlay.choose, number)


def _command(rng: random.Random) -> bytes:
    return bytes([ESCAPE, rng.randrange(256)])


COMMANDS: Final[list[Maker]] = [_choose, _command]
_MAKERS: Final[list[Maker]] = [_message] * 6 + [_interest] * 6 + COMMANDS * 3 + MAKERS


def interleaved(rng: random.Random, ops: int, makers: Callable[[int], list[Maker]]) -> bytes:
    """So many ops, each for a link that was chosen before, of the makers for its number."""
    made = []
    number = 0
    for _ in range(ops):
        if rng.random() < 0.25:
            number = rng.randrange(RoutePlay.LINKS)
            made.append(_chosen(number))
        if rng.random() < 0.1:
            made.append(_command(rng))
            made.append(_chosen(number))
        made.append(rng.choice(makers(number))(rng))
    return b"".join(made)


def route_session(rng: random.Random, ops: int) -> bytes:
    """A fresh input of so many ops. What would end a connection at once is mostly left out."""
    return interleaved(rng, ops, lambda number: ROUTE_MAKERS if number < ROUTES else MAKERS)


def route_mutate(data: bytes, rng: random.Random, most: int) -> bytes:
    """`data` with an op or two put in, taken out, doubled or damaged; at most `most` bytes."""
    return mutated(data, rng, most, _MAKERS)
