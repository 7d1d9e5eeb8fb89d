"""Inputs that look like what clients send: ops with arguments drawn from few words, so that they meet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fuzz.client_target import Play
from fuzz.playing import ESCAPE, command
from fuzz.tracing import block

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

_SUBJECTS: Final = [
    b"a", b"a.b", b"a.b.c", b"b", b"r.1", b"n.x", b"f.x", b"a.*", b"a.>", b"*", b">", b"*.b", b"f.*", b"a..b",
    b".a", b"a.", b"_GR_.x", b"$JS.ACK.x", b"_R_.x", b"\xc3\xa9", b"x" * 40, b"a." * 9 + b"a",
]  # fmt: skip
_SIDS: Final = [b"1", b"2", b"3", b"4", b"sid-of-some-length", b"\x01"]
_QUEUES: Final = [b"q", b"w", b"queue-of-some-length"]
_SEPARATORS: Final = [b" "] * 12 + [b"\t", b"  ", b" \t ", b"\r"]
_ENDS: Final = [b"\r\n"] * 12 + [b"\n", b"\r\r\n", b""]
_SIZES: Final = [0, 1, 2, 5, 16, 40, 48, 49] * 6 + [200, 3000, 33_000, 70_000]
_OPTIONS: Final = [
    b'"verbose":true', b'"verbose":false', b'"pedantic":true', b'"pedantic":false', b'"headers":true',
    b'"no_responders":true', b'"echo":false', b'"echo":true', b'"protocol":1', b'"protocol":9',
    b'"account":"x"',
]  # fmt: skip


def line(rng: random.Random, *words: bytes) -> bytes:
    text = words[0]
    if rng.random() < 0.05:
        text = text.lower()
    for word in words[1:]:
        text += rng.choice(_SEPARATORS) + word
    return text + rng.choice(_ENDS)


def _publish(rng: random.Random) -> bytes:
    size = rng.choice(_SIZES)
    words = [b"PUB", rng.choice(_SUBJECTS)]
    if rng.random() < 0.4:
        words.append(rng.choice(_SUBJECTS))
    if rng.random() < 0.2:
        headers = block(rng)
        return (
            line(rng, b"HPUB", *words[1:], b"%d" % len(headers), b"%d" % (len(headers) + 1))
            + headers
            + b"p\r\n"
        )
    if rng.random() < 0.3:
        header = rng.randrange(size + 1)
        words = [b"HPUB", *words[1:], b"%d" % header]
    words.append(b"%0*d" % (rng.choice((1, 1, 1, 3)), size))
    return line(rng, *words) + b"p" * size + rng.choice([b"\r\n"] * 20 + [b"\n", b"", b"xx"])


def _subscribe(rng: random.Random) -> bytes:
    queue = [rng.choice(_QUEUES)] if rng.random() < 0.25 else []
    return line(rng, b"SUB", rng.choice(_SUBJECTS), *queue, rng.choice(_SIDS))


def _unsubscribe(rng: random.Random) -> bytes:
    limit = [b"%d" % rng.randrange(5)] if rng.random() < 0.5 else []
    return line(rng, b"UNSUB", rng.choice(_SIDS), *limit)


def _connect(rng: random.Random) -> bytes:
    options = rng.sample(_OPTIONS, rng.randrange(5))
    return b"CONNECT {" + b",".join(options) + b"}" + rng.choice(_ENDS)


def _bare(rng: random.Random) -> bytes:
    return rng.choice([b"PING", b"PONG", b"+OK", b"INFO {}", b"-ERR 'x'", b"PING junk"]) + rng.choice(_ENDS)


def any_command(rng: random.Random) -> bytes:
    return bytes([ESCAPE, rng.randrange(256)])


MAKERS: Final[list[Callable[[random.Random], bytes]]] = (
    [_publish] * 6 + [_subscribe] * 4 + [_unsubscribe] * 2 + [_connect, _bare] + [any_command] * 4
)


def session(rng: random.Random, ops: int) -> bytes:
    """A fresh input of so many ops, on several links."""
    quiet = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'
    hello = b"".join(
        command(Play.COMMANDS, Play.choose, n) + quiet for n in range(Play.LINKS) if rng.random() < 0.7
    )
    return hello + b"".join(rng.choice(MAKERS)(rng) for _ in range(ops))


def mutate(data: bytes, rng: random.Random, most: int) -> bytes:
    """`data` with an op or two put in, taken out, doubled or damaged; at most `most` bytes."""
    return mutated(data, rng, most, MAKERS)


def mutated(
    data: bytes, rng: random.Random, most: int, makers: list[Callable[[random.Random], bytes]]
) -> bytes:
    """`mutate` with ops of a protocol's own."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, to = sorted((rng.randrange(len(made) + 1), rng.randrange(len(made) + 1)))
        kind = rng.randrange(6)
        if kind <= 2:
            starts = [n + 1 for n, byte in enumerate(made) if byte == 0x0A] or [0]
            at = rng.choice(starts)
            made[at:at] = rng.choice(makers)(rng)
        elif kind == 3:
            del made[at : min(to, at + 50)]
        elif kind == 4:
            made[at:at] = made[at : min(to, at + 200)]
        elif at < len(made):
            made[at] = rng.choice((rng.randrange(256), ESCAPE, 0x20, 0x0D, 0x0A, 0x30, made[at] ^ 0x20))
    return bytes(made[:most])
