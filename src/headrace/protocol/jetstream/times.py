"""Times in JetStream's JSON: RFC 3339 text as the Go server reads and writes it.

A time in a request is kept as text, with its zone, because the server answers with it so. No clock here.
Source: Go's time.Parse and time.Time.MarshalJSON, observed through nats-server 2.15.1.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from headrace.protocol.rfc3339 import parse_time

ZERO: Final = "0001-01-01T00:00:00Z"
"""The time that means none."""

_LAYOUT: Final = "2006-01-02T15:04:05Z07:00"
_NS_MAX: Final = (1 << 63) - 1
_DIGITS: Final = re.compile(r"[.,]([0-9]+)")
_PARTS: Final = (
    # what stands before it, its name in the layout, how it looks, its name and range in errors
    ("", "2006", re.compile(r"[0-9]{4}"), "year", 0, 9999),
    ("-", "01", re.compile(r"[0-9]{2}"), "month", 1, 12),
    ("-", "02", re.compile(r"[0-9]{2}"), "day", 0, 99),
    ("T", "15", re.compile(r"[0-9]{1,2}"), "hour", 0, 23),
    (":", "04", re.compile(r"[0-9]{2}"), "minute", 0, 59),
    (":", "05", re.compile(r"[0-9]{2}"), "second", 0, 59),
)
_ZONE: Final = re.compile(r"([+-])([0-9]{2}):([0-9]{2})")


class TimeError(ValueError):
    """Text that is no time; what is wrong in Go's words."""


def canonical(text: str) -> str:
    """Return a time as the Go server writes it. Raises: TimeError with the Go server's words."""
    rest, numbers = text, []
    for before, layout, shape, name, least, most in _PARTS:
        if not rest.startswith(before):
            _refuse(text, rest, before)
        rest = rest[len(before) :]
        match = shape.match(rest)
        if match is None:
            _refuse(text, rest, layout)
        number = int(match[0])
        if not least <= number <= most:
            raise TimeError(f"parsing time {_quoted(text)}: {name} out of range")
        numbers.append(number)
        rest = rest[match.end() :]
    match = _DIGITS.match(rest)
    fraction = match[1][:9].rstrip("0") if match else ""
    zone = _zone(text, rest[match.end() :] if match else rest)
    year, month, day = numbers[:3]
    if not 1 <= day <= _days(year, month):
        raise TimeError(f"parsing time {_quoted(text)}: day out of range")
    date = f"{year:04d}-{month:02d}-{day:02d}T{numbers[3]:02d}:{numbers[4]:02d}:{numbers[5]:02d}"
    return f"{date}.{fraction}{zone}" if fraction else date + zone


def to_ns(text: str) -> int:
    """ns since 1970 UTC of a canonical time; what is further away than 292 years counts as that far."""
    try:
        return parse_time(text)
    except ValueError:
        return _NS_MAX if int(text[:4]) > 1970 else -_NS_MAX


def _days(year: int, month: int) -> int:
    import calendar

    return 29 if month == 2 and calendar.isleap(year) else calendar.monthrange(2001, month)[1]


def _zone(text: str, rest: str) -> str:
    if rest.startswith("Z"):
        zone, rest = "Z", rest[1:]
    else:
        match = _ZONE.match(rest)
        if match is None:
            _refuse(text, rest, "Z07:00")
        for name, number, most in (("hour", match[2], 23), ("minute", match[3], 59)):
            if int(number) > most:
                raise TimeError(f"parsing time {_quoted(text)}: time zone offset {name} out of range")
        zone = "Z" if match[2] == match[3] == "00" else match[0]
        rest = rest[match.end() :]
    if rest:
        raise TimeError(f"parsing time {_quoted(text)}: extra text: {_quoted(rest)}")
    return zone


def _refuse(text: str, rest: str, wanted: str) -> NoReturn:
    part = f"cannot parse {_quoted(rest)} as {_quoted(wanted)}"
    raise TimeError(f"parsing time {_quoted(text)} as {_quoted(_LAYOUT)}: {part}")


def _quoted(text: str) -> str:
    shown = []
    for byte in text.encode("utf-8", "surrogateescape"):
        if byte in b'"\\':
            shown.append("\\" + chr(byte))
        else:
            shown.append(chr(byte) if 0x20 <= byte < 0x80 else f"\\x{byte:02x}")
    return '"' + "".join(shown) + '"'
