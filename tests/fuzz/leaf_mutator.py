"""Inputs that look like what leaf nodes, a hub and clients send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fuzz.client_mutator import MAKERS, line, mutated
from fuzz.client_target import ESCAPE
from fuzz.leaf_target import LINKS, LeafPlay, leaf_command

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

_SUBJECTS: Final = [
    b"a", b"a.b", b"b", b"n.x", b"a.*", b"a.>", b"*", b">", b"*.b", b"a..b", b"_R_.x", b"x" * 70,
    b"$LDS.own", b"$LDS.x", b"always.x",
    b"$JS.ACK.S.c.1.1.1.1.0@shown", b"$JS.ACK.S.c.1.1.1.1.0",
]  # fmt: skip
_QUEUES: Final = [b"q", b"w", b"queue-of-some-length"]
_SIZES: Final = [0, 1, 2, 5, 40, 48, 49] * 6 + [200, 3000, 33_000, 70_001]


def _interest(rng: random.Random) -> bytes:
    op = rng.choice([b"LS+"] * 5 + [b"LS-"] * 3)
    words = [rng.choice(_SUBJECTS)]
    if rng.random() < 0.3:
        words.append(rng.choice(_QUEUES))
        if op.endswith(b"+"):
            words.append(b"%d" % rng.choice((0, 1, 1, 2, 7, 999_999_999)))
    return line(rng, op, *words)


def _message(rng: random.Random) -> bytes:
    size = rng.choice(_SIZES)
    op = rng.choice((b"LMSG", b"LMSG", b"HMSG"))
    words = [rng.choice(_SUBJECTS)]
    form = rng.randrange(6)
    if form in (0, 1):
        words.append(rng.choice(_SUBJECTS))
    elif form > 3:
        words += [b"+", rng.choice(_SUBJECTS)] if form == 4 else [b"|"]
        words += rng.choices(_QUEUES, k=rng.randrange(4))
    if op == b"HMSG":
        words.append(b"%d" % rng.randrange(size + 1))
    words.append(b"%0*d" % (rng.choice((1, 1, 1, 3)), size))
    return line(rng, op, *words) + b"p" * size + rng.choice([b"\r\n"] * 20 + [b"\n", b"", b"xx"])


def _choose(rng: random.Random) -> bytes:
    return leaf_command(LeafPlay.choose, rng.randrange(LINKS))


def _command(rng: random.Random) -> bytes:
    return bytes([ESCAPE, rng.randrange(256)])


_MAKERS: Final[list[Callable[[random.Random], bytes]]] = (
    [_message] * 6 + [_interest] * 6 + [_choose, _command] * 3 + MAKERS
)


def leaf_session(rng: random.Random, ops: int) -> bytes:
    """A fresh input of so many ops. What would end a connection at once is mostly left out."""
    made = []
    number = 0
    for _ in range(ops):
        if rng.random() < 0.25:
            number = rng.randrange(LINKS)
            made.append(leaf_command(LeafPlay.choose, number))
        if rng.random() < 0.1:
            made.append(_command(rng))
            made.append(leaf_command(LeafPlay.choose, number))
        made.append(rng.choice([_message, _interest] if number < 3 else MAKERS)(rng))
    return b"".join(made)


def leaf_mutate(data: bytes, rng: random.Random, most: int) -> bytes:
    """`data` with an op or two put in, taken out, doubled or damaged; at most `most` bytes."""
    return mutated(data, rng, most, _MAKERS)
