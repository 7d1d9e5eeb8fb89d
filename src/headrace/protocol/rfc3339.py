"""Times as RFC 3339 writes them, exact to the nanosecond.

Text to ns since 1970 UTC and back; no clock, no local time. Source: RFC 3339, 5.6.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_NS: Final = 1_000_000_000
_LARGEST: Final = (1 << 63) - 1
_SECONDS: Final = 8
"""The number of seconds whose text is remembered; most times that are written are recent."""
_SHAPE: Final = (
    r"(?a)(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?([Zz]|([+-])(\d\d):(\d\d))"
)


@lru_cache(_SECONDS)
def format_second(second: int) -> str:
    """A whole second without its zone: `2026-11-21T08:00:00`. Raises: OverflowError beyond the year 9999."""
    return f"{_EPOCH + timedelta(seconds=second):%Y-%m-%dT%H:%M:%S}"


def format_time(ns: int) -> str:
    """Return a time with nine digits of fraction and in UTC, as NATS headers have it:
    `2026-11-21T08:00:00.123456789Z`.
    """
    second, rest = divmod(ns, _NS)
    return f"{format_second(second)}.{rest:09d}Z"


def short_time(ns: int) -> str:
    """Return a time in UTC, its fraction without zeros at the end, as the Go server writes it in JSON."""
    second, rest = divmod(ns, _NS)
    text = format_second(second)
    return f"{text}.{rest:09d}".rstrip("0") + "Z" if rest else text + "Z"


def parse_time(text: str) -> int:
    """ns since 1970 UTC, for any zone. Raises: ValueError for what is no time, or none that fits 64 bits."""
    match = re.fullmatch(_SHAPE, text)
    if match is None:
        raise ValueError("not a time such as 2026-11-21T08:00:00Z")
    *date, fraction, _, sign, hours, minutes = match.groups()
    offset = timedelta(hours=int(hours), minutes=int(minutes)) if sign else timedelta()
    zone = timezone(-offset if sign == "-" else offset)
    try:
        moment = datetime(*map(int, date), tzinfo=zone)  # type: ignore[misc, arg-type]
    except ValueError as error:
        raise ValueError(f"not a time: {error}") from None
    ns = (moment - _EPOCH) // _SECOND * _NS + int((fraction or "0").ljust(9, "0"))
    if not -_LARGEST <= ns <= _LARGEST:
        raise ValueError("a time beyond 292 years from 1970")
    return ns
