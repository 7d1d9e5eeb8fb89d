"""What a scenario of streams in a bucket found, beside what was asked, and how that is shown."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """What a scenario found, what was asked, and whether that is so; None: nothing was asked."""

    scenario: str
    found: str
    asked: str = ""
    is_met: bool | None = None

    @property
    def line(self) -> str:
        """A row of a Markdown table."""
        verdict = "" if self.is_met is None else f": {met(self.is_met)}"
        return f"| {self.scenario} | {self.found} | {self.asked}{verdict} |"


def met(is_met: bool) -> str:
    """Return the word for what was asked."""
    return "met" if is_met else "MISSED"


def table(findings: list[Finding]) -> list[str]:
    """Return the lines of a Markdown table."""
    return ["| scenario | found | asked |", "|---|---|---|", *(finding.line for finding in findings)]
