"""Acknowledgements: the subjects they are sent to, and what their bodies say.

The plain ones never come here, the engine sorts them; here are the others, one by one. Source: JetStream
specification, 4.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, Final

import msgspec
from msgspec import Struct

from headrace.protocol.durations import parse_ns
from headrace.protocol.jetstream.numbers import Duration, whole

PREFIX: Final = b"$JS.ACK."
_SHORT: Final = 9
"""Tokens without the domain and the account's hash."""
_LONG: Final = 11
"""Tokens with both, at least: more may follow."""
_NUMBERS: Final = 5


class AckKind(Enum):
    """The kind of an acknowledgement, from its body."""

    ACK = "+ACK"
    NEGATIVE = "-NAK"
    PROGRESS = "+WPI"
    NEXT = "+NXT"
    TERMINATE = "+TERM"
    UNKNOWN = ""


class AckSubject(Struct, frozen=True):
    """The acknowledged delivery. `timestamp_ns`: when the message was stored."""

    stream: bytes
    consumer: bytes
    deliveries: int
    stream_sequence: int
    consumer_sequence: int
    timestamp_ns: int
    pending: int


class AckBody(Struct, frozen=True):
    """The body of an acknowledgement. `argument`: what follows the word, without the blanks around it."""

    kind: AckKind
    argument: bytes = b""


class _Delay(msgspec.Struct, frozen=True):
    go_name: ClassVar[str] = "ConsumerNakOptions"

    delay: Duration = 0


_PREFIXED: Final = (AckKind.NEXT, AckKind.NEGATIVE, AckKind.TERMINATE)
_WHOLE: Final = {b"": AckKind.ACK, b"+ACK": AckKind.ACK, b"+OK": AckKind.ACK, b"+WPI": AckKind.PROGRESS}


def parse_ack(subject: bytes) -> AckSubject | None:
    """Parse the subject of an acknowledgement, in either form; None for any other subject."""
    tokens = subject.split(b".")
    if tokens[:2] != [b"$JS", b"ACK"] or (len(tokens) != _SHORT and len(tokens) < _LONG):
        return None
    at = 2 if len(tokens) == _SHORT else 4
    numbers = [number for number in map(whole, tokens[at + 2 : at + 7]) if number is not None]
    return AckSubject(tokens[at], tokens[at + 1], *numbers) if len(numbers) == _NUMBERS else None


def parse_body(body: bytes) -> AckBody:
    """Parse the body of an acknowledgement. An unknown one is `UNKNOWN`, and ignored as by the Go server."""
    kind = _WHOLE.get(body)
    if kind is not None:
        return AckBody(kind)
    for kind in _PREFIXED:
        word = kind.value.encode()
        if body.startswith(word):
            return AckBody(kind, body[len(word) :].strip())
    return AckBody(AckKind.UNKNOWN)


def nak_delay(argument: bytes) -> int:
    """Parse the delay of a redelivery into ns: `{"delay": 5000000000}` or `5s`.

    Raises: ValueError for anything else; the Go server redelivers at once then.
    """
    if argument.startswith(b"{"):
        from headrace.protocol.jetstream.go_decode import decode_leniently

        return decode_leniently(_Delay, argument).delay
    return parse_ns(argument.decode("utf-8", "replace"))
