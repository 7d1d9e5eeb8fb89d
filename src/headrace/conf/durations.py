"""Durations as Go writes them: `2m`, `1h30m`, `300ms`, `1.5s`, `-1s`, `0`.

Here lives parsing and printing. Units: seconds on our side.
"""

from __future__ import annotations

import re
from typing import Final

_UNITS_NS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # micro sign
    "μs": 1_000,  # Greek mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([^0-9.]*)")
_SIGNED: Final = re.compile(r"([+-]?)(.+)", re.DOTALL)
_MAX_NS: Final = (1 << 63) - 1
_MAX_CHARS: Final = 64


def parse_duration(text: str) -> float:
    """The duration in seconds.

    Raises: ValueError with the reason.
    """
    match = _SIGNED.fullmatch(text)
    if match is None or len(text) > _MAX_CHARS:
        raise ValueError("it is empty" if not text else "it is too long")
    sign, rest = match.groups()
    if rest == "0":
        return 0.0
    total_ns = 0.0
    end = 0
    for part in _PART.finditer(rest):
        if part.start() != end:
            break
        end = part.end()
        number, unit = part.groups()
        if unit not in _UNITS_NS:
            raise ValueError(f"unknown unit {unit!r}" if unit else "its unit is missing (ms, s, m, h)")
        total_ns += float(number) * _UNITS_NS[unit]
    if end != len(rest):
        raise ValueError("it is not a number with a unit")
    if total_ns > _MAX_NS:
        raise ValueError("it is too long")
    # Nanoseconds are the unit of the language, so no digits beyond them may appear.
    return (-total_ns if sign == "-" else total_ns) / 1e9


def format_duration(seconds: float) -> str:
    """The duration in the same notation, with the fewest parts: `2m0s`, `1m30s`, `300ms`."""
    if seconds < 0:
        return f"-{format_duration(-seconds)}"
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    text = f"{rest:g}s"
    if hours or minutes:
        text = f"{minutes:.0f}m{text}"
    return f"{hours:.0f}h{text}" if hours else text
