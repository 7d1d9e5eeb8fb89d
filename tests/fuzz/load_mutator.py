"""Inputs that look like what a server sends to a load: messages, statuses, errors, lines, and spoilt ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzz.s2_mutator import s2_mutate

if TYPE_CHECKING:
    import random

_SUBJECTS = (
    b"P.", b"P.8", b"P.-1", b"P.007", b"P.1x", b"P." + b"9" * 18, b"P." + b"9" * 19, b"P." + b"0" * 18,
    b"\x00", b"P.18446744073709551616", b"x" * 4090,
)  # fmt: skip
_SIDS = (*[b"1"] * 12, b"2", b"11", b"\x00", b"1 ")
_REPLIES = (b"", b"", b"r.1", b"_INBOX." + b"y" * 300)
_BLOCKS = (
    b"", b"", b"NATS/1.0\r\n\r\n", b"NATS/1.0 503\r\n\r\n", b"NATS/1.0 ", b"NATS/1.0",
    b"NATS/1.0\r\nNats-Service-Error-Code: 500\r\n\r\n", b"\r\nNats-Service-Error-Code:",
    b"\r\nNats-Service-Error-Code", b"NATS/1.0 100 Idle Heartbeat\r\n\r\n",
)  # fmt: skip
_PAYLOADS = (
    b"", b"x", b"hello\r\n", b'{"error":', b'{"error":{"code":400}}', b"MSG s 1 0\r\n\r\n", b"z" * 5000,
)  # fmt: skip
_LINES = (
    b"+OK\r\n", b"PING\r\n", b"PONG\r\n", b"-ERR 'x'\r\n", b"INFO {}\r\n", b"\n", b"MSG\n", b"HMSG\n",
    b"MSG ", b"HMSG ", b"msg s 1 0\r\n\r\n", b"MSG s 1\r\n", b"MSG s 1 r 4294967296\r\n",
    b"MSG s 1 70001\r\n", b"HMSG s 1 9 8\r\n", b"MSG  s 1 0\r\n\r\n",
    b"MSG s\t1 0\r\n\r\n", b"MSG s 1 0\n\r\n",
)  # fmt: skip


def load_message(rng: random.Random) -> bytes:
    """A message, now and then of another size than it says."""
    block, payload = rng.choice(_BLOCKS), rng.choice(_PAYLOADS)
    reply = rng.choice(_REPLIES)
    subject = b"P.%d" % rng.randrange(9) if rng.randrange(3) else rng.choice(_SUBJECTS)
    words = [subject, rng.choice(_SIDS), *([reply] if reply else [])]
    off = rng.choice((*[0] * 30, 1, -1, 60_000))
    total = max(len(block) + len(payload) + off, 0)
    if block or rng.randrange(8) == 0:
        name, sizes = b"HMSG", b"%d %d" % (len(block), total)
    else:
        name, sizes = b"MSG", b"%d" % total
    return b"%b %b %b\r\n%b%b\r\n" % (name, b" ".join(words), sizes, block, payload)


def load_input(rng: random.Random) -> bytes:
    """A byte for what is awaited, then messages and lines."""
    parts = [
        rng.choice(_LINES[:5]) if rng.randrange(5) == 0 else load_message(rng)
        for _ in range(rng.choice((1, 2, 5, 20)))
    ]
    if rng.randrange(4) == 0:
        parts.append(rng.choice(_LINES))
    return rng.randbytes(1) + b"".join(parts)


def load_mutate(data: bytes, rng: random.Random, most: int) -> bytes:
    """Put a message or a line in, or change bytes."""
    if rng.randrange(2):
        return s2_mutate(data, rng, most)
    at = rng.randrange(len(data) + 1)
    put = rng.choice(_LINES) if rng.randrange(3) == 0 else load_message(rng)
    return (data[:at] + put + data[at:])[:most]
