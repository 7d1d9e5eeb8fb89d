"""Inputs that look like trace headers: blocks of them, whole and spoilt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fuzz.s2_mutator import s2_mutate

if TYPE_CHECKING:
    import random

_NAMES: Final = (
    b"Nats-Trace-Dest",
    b"Nats-Trace-Hop",
    b"Nats-Trace-Only",
    b"Nats-Trace-Origin-Account",
    b"traceparent",
    b"TRACEPARENT",
    b"Accept-Encoding",
    b"nats-trace-dest",
    b"A",
)
_VALUES: Final = (
    b"t",
    b"trace disabled",
    b"true",
    b"1",
    b"1.2",
    b"",
    b" ",
    b"00-a-b-01",
    b"00-a-b-00",
    b"00-a-b-+1",
    b"00-a-b- 1",
    b"00-a-b-\xc2\xb9\xc2\xb9",
    b"00-a-01",
    b"gzip",
    b"\xff",
    b">",
)


def trace_input(rng: random.Random) -> bytes:
    """Return some headers, one behind the other."""
    lines = [
        rng.choice(_NAMES) + rng.choice((b":", b": ", b":\t", b" :", b"")) + rng.choice(_VALUES)
        for _ in range(rng.choice((0, 1, 2, 3, 8)))
    ]
    return b"".join(line + rng.choice((b"\r\n", b" \r\n", b"\r\n", b"\n")) for line in lines) + b"\r\n"


def trace_mutate(data: bytes, rng: random.Random, most: int) -> bytes:
    """Headers put in, or bytes spoilt."""
    if rng.randrange(2):
        at = rng.randrange(len(data) + 1)
        return (data[:at] + trace_input(rng) + data[at:])[:most]
    return s2_mutate(data, rng, most)
