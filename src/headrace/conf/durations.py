"""Durations of configurations, in seconds; how they are written is `protocol.durations`'.

Here lives parsing and printing. Units: seconds on our side.
"""

from __future__ import annotations

from headrace.protocol.durations import parse_ns


def parse_duration(text: str) -> float:
    """The duration in seconds.

    Raises: ValueError with the reason.
    """
    # Nanoseconds are the unit of the language, so no digits beyond them may appear.
    return parse_ns(text) / 1e9


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
