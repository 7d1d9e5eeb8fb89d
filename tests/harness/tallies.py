"""What suites tried, summed up at the end of a run: kills, failed calls, power losses."""

from __future__ import annotations

from collections import Counter
from typing import Final

TALLIES: Final[Counter[str]] = Counter()


def note(what: str, count: int) -> None:
    """Adds to one line of the summary."""
    TALLIES[what] += count
