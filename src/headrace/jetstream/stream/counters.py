"""Counters: a message with `Nats-Incr` becomes the subject's new value, whoever adds to it and however large.

Pure: the message, the last message of its subject and what was counted before come in, the message to store
goes out. Messages of other counters (mirrors, sources) come with their own value; only its difference counts
here, kept by origin in `Nats-Counter-Sources`. Source: JetStream specification, 8; refusals compared with the
Go server 2.15.1.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from headrace.protocol.jetstream import headers as block
from headrace.protocol.jetstream.errors import ApiError

if TYPE_CHECKING:
    from headrace.log.port import StoredMessage

SOURCES: Final = b"Nats-Counter-Sources"
_INCOMPATIBLE: Final = (
    block.ROLLUP,
    block.EXPECTED_STREAM,
    block.EXPECTED_LAST_ID,
    block.SUBJECT_OF_SEQUENCE,
    block.EXPECTED_LAST_SEQUENCE,
    block.EXPECTED_SUBJECT_SEQUENCE,
)
_INTEGER: Final = re.compile(rb"[+-]?[0-9]+")
_ORIGIN_FIELDS: Final = 5
"""Fields of `Nats-Stream-Source` from which on it says what the subject was called at the origin."""

_Totals = dict[str, dict[str, str]]
"""The last seen counters of each origin: by stream, by subject."""


class _Value(msgspec.Struct):
    """The payload of a counter's message."""

    val: str = ""


class Counted(NamedTuple):
    """The headers and payload stored for an increment, and the value that its publisher is told."""

    headers: bytes
    payload: bytes
    value: str

    @property
    def ack_fields(self) -> bytes:
        return b',"val":"%s"' % self.value.encode()


_values: Final = msgspec.json.Decoder(_Value)
_totals: Final = msgspec.json.Decoder(_Totals)


def increment_of(headers: bytes) -> Decimal | None:
    """Parse the increment of a message; None if it has none. Raises: ApiError 10171."""
    text = block.value(headers, block.INCREMENT)
    if not text:
        return None
    if not _INTEGER.fullmatch(text):
        raise ApiError(10171)
    return Decimal(text.decode())


def check(headers: bytes, payload: bytes) -> None:
    """Check that a client may publish this increment. Raises: ApiError 10170, 10171."""
    if payload:
        raise ApiError(10170)
    if any(block.value(headers, name) for name in _INCOMPATIBLE):
        raise ApiError(10171)


def applied(
    increment: Decimal, last: StoredMessage | None, subject: bytes, headers: bytes, payload: bytes
) -> Counted:
    """The message to store after the subject's last one.

    Raises: ApiError 10172 when one of them is no counter.
    """
    total, totals = Decimal(0), _Totals()
    if last is not None:
        total = _integer(_value(last.payload))
        totals = _seen(last.headers)
    origin = block.value(headers, block.STREAM_SOURCE)
    if origin:
        fields = origin.decode("utf-8", "backslashreplace").split(" ")
        counted = _value(payload)
        name = (
            fields[_ORIGIN_FIELDS - 1]
            if len(fields) >= _ORIGIN_FIELDS
            else subject.decode("utf-8", "replace")
        )
        of_stream = totals.setdefault(fields[0], {})
        increment = _sum(_integer(counted), _integer(of_stream.get(name, "")).copy_negate())
        of_stream[name] = _text(_integer(counted))
        headers = block.replaced(headers, block.INCREMENT, _text(increment).encode())
    value = _text(_sum(total, increment))
    if totals:
        headers = block.replaced(headers, SOURCES, msgspec.json.encode(totals, order="sorted"))
    return Counted(headers, b'{"val":"%s"}' % value.encode(), value)


def _value(payload: bytes) -> str:
    try:
        return _values.decode(payload).val
    except (ValueError, RecursionError):
        raise ApiError(10172) from None


def _seen(headers: bytes) -> _Totals:
    text = block.value(headers, SOURCES)
    if not text:
        return {}
    try:
        return _totals.decode(text)
    except ValueError:
        raise ApiError(10172) from None


def _integer(text: str) -> Decimal:
    """Parse a number; any other text counts as 0, as in the Go server."""
    return Decimal(text) if _INTEGER.fullmatch(text.encode()) else Decimal(0)


def _sum(one: Decimal, other: Decimal) -> Decimal:
    """Exact: decimals of any length are added and written in linear time, which integers are not."""
    digits = max(one.adjusted(), other.adjusted(), 0) + 2
    return Context(prec=digits).add(one, other)


def _text(value: Decimal) -> str:
    return f"{value:f}" if value else "0"
