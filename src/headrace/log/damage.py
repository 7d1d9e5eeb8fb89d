"""Damage of a log: unreadable sequences, and the reports about them.

Here live the remembered sequences and the bound on reports; never the finding of damage (`recovery`).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.log.segment import Segment

REMEMBERED: Final = 1000
"""Unreadable sequences that the state of a log names one by one."""
REPORTED: Final = 20
"""Reports of one log; the one after them says that there is more, and no further one comes."""


class Damage(Struct, frozen=True):
    """An unreadable span: sequences from `first` to `last`. `last` is below `first` if nothing is lost."""

    first: int
    last: int
    reason: str

    def __str__(self) -> str:
        if self.last < self.first:
            return self.reason
        if self.first == self.last:
            return f"message {self.first} is damaged: {self.reason}"
        return f"messages {self.first} to {self.last} are damaged: {self.reason}"


Report: TypeAlias = "Callable[[Damage], object]"


class DamageNotes:
    """The damage that one log has met since it was opened."""

    def __init__(self, report: Report | None) -> None:
        self._report = report
        self._reported = 0
        self.sequences: list[int] = []

    def add(self, ranges: list[tuple[int, int]], reason: str) -> None:
        """Note runs of sequences, ascending."""
        for first, last in ranges:
            room = REMEMBERED - len(self.sequences)
            self.sequences += islice(range(first, last + 1), max(room, 0))
            self.tell(Damage(first, last, reason))

    def add_headers(self, segments: list[Segment]) -> None:
        """Note segments whose header is damaged and known from elsewhere."""
        for segment in segments:
            name = segment.path.name
            self.tell(
                Damage(1, 0, f"the header of {name} is damaged; it is restored from what is there twice")
            )

    def tell(self, damage: Damage) -> None:
        """Report it, unless `REPORTED` were reported before."""
        if self._report is None or self._reported > REPORTED:
            return
        self._reported += 1
        if self._reported > REPORTED:
            damage = Damage(1, 0, "more of it is damaged than is reported one by one")
        self._report(damage)
