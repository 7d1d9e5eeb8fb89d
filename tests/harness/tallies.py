"""What suites tried, summed up at the end of a run: kills, failed calls, power losses."""

from __future__ import annotations

from collections import Counter
from typing import Final

TALLIES: Final[Counter[str]] = Counter()


def note(what: str, count: int) -> None:
    """Adds to one line of the summary."""
    TALLIES[what] += count


TIMES: Final[dict[str, list[float]]] = {}
"""Seconds that something took, each time, by what it was."""


def time_taken(what: str, seconds: float) -> None:
    """Adds to one line of the summary, which has the least, the median and the most."""
    TIMES.setdefault(what, []).append(seconds)
