"""Durations of configurations, in seconds; how they are written is `protocol.durations`'.

Here lives parsing and printing. Units: seconds on our side.
"""

from __future__ import annotations

from headrace.protocol.durations import SECOND, format_ns, parse_ns


def parse_duration(text: str) -> float:
    """The duration in seconds.

    Raises: ValueError with the reason.
    """
    # Nanoseconds are the unit of the language, so no digits beyond them may appear.
    return parse_ns(text) / SECOND


def format_duration(seconds: float) -> str:
    """The duration as Go prints it: `2m0s`, `1m30s`, `300ms`."""
    return format_ns(round(seconds * SECOND))
