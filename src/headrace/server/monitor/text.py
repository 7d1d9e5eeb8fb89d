"""The text forms that readers of the Go server's monitoring expect: durations, JSON.

Pure functions. Never lives here: what any endpoint says.
Source: compared byte for byte with the Go server 2.15.1.
"""

from __future__ import annotations

import json
from typing import Final

_NS: Final = 1_000_000_000
_NS_PER_US: Final = 1_000
_NS_PER_MS: Final = 1_000_000

_ESCAPES: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def uptime(elapsed_ns: int) -> str:
    """A span in whole seconds: `7s`, `3m12s`, `1h0m5s`, `2d0h0m0s`, `1y2d3h4m5s`."""
    seconds = max(elapsed_ns, 0) // _NS
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    years = days // 365
    text = f"{seconds % 60}s"
    if minutes:
        text = f"{minutes % 60}m{text}"
    if hours:
        text = f"{hours % 24}h{text}"
    if days:
        text = f"{days % 365}d{text}"
    return f"{years}y{text}" if years else text


def round_trip(duration_ns: int) -> str:
    """A measured round trip: `0s`, `246µs`, `4.478361ms`, `1.5s`, `1m2.5s`."""
    if _NS_PER_US < duration_ns < _NS_PER_MS:
        duration_ns -= duration_ns % _NS_PER_US
    if duration_ns == 0:
        return "0s"
    if duration_ns < _NS:
        for unit, size in (("ms", _NS_PER_MS), ("µs", _NS_PER_US), ("ns", 1)):
            if duration_ns >= size:
                return _decimal(duration_ns, size) + unit
    minutes, rest_ns = divmod(duration_ns, 60 * _NS)
    text = _decimal(rest_ns, _NS) + "s"
    if minutes:
        text = f"{minutes % 60}m{text}"
    return f"{minutes // 60}h{text}" if minutes >= 60 else text


def number(value: float) -> int | float:
    """A float as JSON shows it: without a fraction where it has none."""
    return int(value) if value == int(value) else value


def encode(document: object, *, indent: bool = True) -> bytes:
    """JSON, keys in the order given, with the characters escaped that are unsafe inside HTML."""
    text = json.dumps(
        document,
        ensure_ascii=False,
        indent=2 if indent else None,
        separators=(",", ": ") if indent else (",", ":"),
    )
    return text.translate(_ESCAPES).encode("utf-8", "replace")


def _decimal(value: int, unit: int) -> str:
    """Return a quotient as a decimal number. `value / unit` with every digit it has and none more."""
    whole, fraction = divmod(value, unit)
    if not fraction:
        return str(whole)
    width = len(str(unit)) - 1
    return f"{whole}.{fraction:0{width}d}".rstrip("0")
