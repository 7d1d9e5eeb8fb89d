"""Inputs that look like what servers of a cluster and their clients send."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from fuzz.client_mutator import MAKERS, any_command, line, mutated
from fuzz.playing import Playing, command
from fuzz.route_target import ROUTES, RoutePlay
from fuzz.tracing import block

Maker = Callable[[random.Random], bytes]

SUBJECTS: Final = [
    b"a", b"a.b", b"b", b"n.x", b"a.*", b"a.>", b"*", b">", b"*.b", b"a..b", b"_R_.x", b"x" * 70,
    b"$JS.ACK.S.c.1.1.1.1.0@shown", b"$JS.ACK.S.c.1.1.1.1.0",
]  # fmt: skip
_ACCOUNTS: Final = [b"$G"] * 8 + [b"A", b"unknown"]
QUEUES: Final = [b"q", b"w", b"queue-of-some-length"]
SIZES: Final = [0, 1, 2, 5, 40, 48, 49] * 6 + [200, 3000, 33_000, 70_001]
_ENDS: Final = [b"\r\n"] * 20 + [b"\n", b"", b"xx"]


def _account(rng: random.Random) -> list[bytes]:
    return [] if rng.random() < 0.2 else [rng.choice(_ACCOUNTS)]


def interest(rng: random.Random, *words: bytes, subjects: Sequence[bytes] = SUBJECTS) -> bytes:
    """A line that begins with these words, then names a subject and perhaps a queue group."""
    words = (*words, rng.choice(subjects))
    if rng.random() < 0.3:
        words = (*words, rng.choice(QUEUES))
        if words[0].endswith(b"+"):
            words = (*words, b"%d" % rng.choice((0, 1, 1, 2, 7, 999_999_999)))
    return line(rng, *words)


def message(
    rng: random.Random, *words: bytes, has_headers: bool, subjects: Sequence[bytes] = SUBJECTS
) -> bytes:
    """A message that begins with these words, then names a subject, replies and queue groups."""
    made = [*words, rng.choice(subjects)]
    form = rng.randrange(6)
    if form in (0, 1):
        made.append(rng.choice(subjects))
    elif form > 3:
        made += [b"+", rng.choice(subjects)] if form == 4 else [b"|"]
        made += rng.choices(QUEUES, k=rng.randrange(4))
    return with_payload(rng, made, has_headers=has_headers)


def with_payload(rng: random.Random, words: list[bytes], *, has_headers: bool = False) -> bytes:
    """These words, a size or two, and a payload that mostly is as long as they say."""
    if has_headers and rng.random() < 0.4:
        headers = block(rng)
        return line(rng, *words, b"%d" % len(headers), b"%d" % (len(headers) + 1)) + headers + b"p\r\n"
    size = rng.choice(SIZES)
    header = [b"%d" % rng.randrange(size + 1)] if has_headers else []
    sizes = [*header, b"%0*d" % (rng.choice((1, 1, 1, 3)), size)]
    return line(rng, *words, *sizes) + b"p" * size + rng.choice(_ENDS)


def _interest(rng: random.Random) -> bytes:
    op = rng.choice([b"RS+"] * 5 + [b"RS-"] * 3 + [b"LS+"] * 2 + [b"LS-"])
    origin = [rng.choice([b"leafs", b"$G"])] if op[:1] == b"L" else []
    return interest(rng, op, *origin, *_account(rng))


def _message(rng: random.Random) -> bytes:
    op = rng.choice((b"RMSG", b"RMSG", b"HMSG", b"LMSG"))
    origin = [b"leafs"] if op == b"LMSG" else []
    return message(rng, op, *origin, *_account(rng), has_headers=op != b"RMSG")


ROUTE_MAKERS: Final[list[Maker]] = [_message, _interest]


def _chosen(play: type[Playing], number: int) -> bytes:
    return command(play.COMMANDS, Playing.choose, number)


def commands(play: type[Playing]) -> list[Maker]:
    """The choice of a link, and any command."""
    return [lambda rng: _chosen(play, rng.randrange(play.LINKS)), any_command]


_MAKERS: Final[list[Maker]] = ROUTE_MAKERS * 6 + commands(RoutePlay) * 3 + MAKERS


def interleaved(
    rng: random.Random, play: type[Playing], ops: int, makers: Callable[[int], list[Maker]]
) -> bytes:
    """So many ops, each for a link that was chosen before, of the makers for its number."""
    made = []
    number = 0
    for _ in range(ops):
        if rng.random() < 0.25:
            number = rng.randrange(play.LINKS)
            made.append(_chosen(play, number))
        if rng.random() < 0.1:
            made.append(any_command(rng))
            made.append(_chosen(play, number))
        made.append(rng.choice(makers(number))(rng))
    return b"".join(made)


def route_session(rng: random.Random, ops: int) -> bytes:
    """A fresh input of so many ops. What would end a connection at once is mostly left out."""
    return interleaved(rng, RoutePlay, ops, lambda number: ROUTE_MAKERS if number < ROUTES else MAKERS)


def route_mutate(data: bytes, rng: random.Random, most: int) -> bytes:
    """`data` with an op or two put in, taken out, doubled or damaged; at most `most` bytes."""
    return mutated(data, rng, most, _MAKERS)
