"""Durations as Go writes them: `2m`, `1h30m`, `300ms`, `1.5s`, `-1s`, `0`.

Here lives parsing and printing: in ns, which is exact, and in seconds, as configurations have them. No clock.
"""

from __future__ import annotations

import re
from typing import Final

SECOND: Final = 1_000_000_000
MILLISECOND: Final = 1_000_000

_UNITS_NS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # micro sign
    "μs": 1_000,  # Greek mu
    "ms": MILLISECOND,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_PART: Final = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([^0-9.]*)"
_SIGNED: Final = r"(?s)([+-]?)(.+)"
_MAX_NS: Final = (1 << 63) - 1
_MAX_CHARS: Final = 64


def parse_ns(text: str) -> int:
    """The duration in ns; what is smaller is cut off. Raises: ValueError with the reason."""
    match = re.fullmatch(_SIGNED, text)
    if match is None or len(text) > _MAX_CHARS:
        raise ValueError("it is empty" if not text else "it is too long")
    sign, rest = match.groups()
    if rest == "0":
        return 0
    from fractions import Fraction  # most starts read no duration

    total = 0
    end = 0
    for part in re.finditer(_PART, rest):
        if part.start() != end:
            break
        end = part.end()
        number, unit = part.groups()
        if unit not in _UNITS_NS:
            raise ValueError(f"unknown unit {unit!r}" if unit else "its unit is missing (ms, s, m, h)")
        total += int(Fraction(number) * _UNITS_NS[unit])
    if end != len(rest):
        raise ValueError("it is not a number with a unit")
    if total > _MAX_NS:
        raise ValueError("it is too long")
    return -total if sign == "-" else total


def format_ns(ns: int) -> str:
    """Return a duration as Go prints it: `2m0s`, `1h0m0s`, `1.5s`, `300ms`, `20µs`, `0s`."""
    if ns < 0:
        return "-" + format_ns(-ns)
    if ns < SECOND:
        for unit, name in ((MILLISECOND, "ms"), (1_000, "µs"), (1, "ns")):
            if ns >= unit:
                return _decimal(ns, unit) + name
        return "0s"
    hours, rest = divmod(ns, 3600 * SECOND)
    minutes, rest = divmod(rest, 60 * SECOND)
    text = _decimal(rest, SECOND) + "s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{hours}h{text}" if hours else text


def _decimal(ns: int, unit: int) -> str:
    whole, rest = divmod(ns, unit)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0") if rest else str(whole)


def parse_duration(text: str) -> float:
    """The duration in seconds.

    Raises: ValueError with the reason.
    """
    # Nanoseconds are the unit of the language, so no digits beyond them may appear.
    return parse_ns(text) / SECOND


def format_duration(seconds: float) -> str:
    """The duration as Go prints it: `2m0s`, `1m30s`, `300ms`."""
    return format_ns(round(seconds * SECOND))
