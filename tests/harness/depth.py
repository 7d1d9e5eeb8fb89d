"""How many of its seeds a random test plays: a twentieth in `make test`, every one in `make test-deep`.

The commit decides which part it is: the same for everybody who tests one commit, another for the next.
Without git it is the first. HEADRACE_TEST_SEEDS asks for others: "3/20" is that part (the first is 0/20),
"all" is every seed, "40-59" are these seeds, whether or not they are among those that are played otherwise.
"""

from __future__ import annotations

import os
import re
import subprocess
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

VARIABLE: Final = "HEADRACE_TEST_SEEDS"
PARTS: Final = 20
"""`make test` plays one of so many parts."""

_FORMS: Final = re.compile(r"(?P<all>all)|(?P<part>\d+)/(?P<parts>\d+)|(?P<first>\d+)-(?P<last>\d+)")


@dataclass(frozen=True, slots=True)
class Choice:
    """The part of all seeds that a run plays; with `named` these seeds instead."""

    part: int = 0
    parts: int = 1
    named: range | None = None
    reason: str = ""
    """What the choice follows from, for people."""

    def seeds(self, total: int) -> range:
        """Return those of `total` seeds that are played, at least one.

        Raises: ValueError for no seeds.
        """
        if self.named is not None:
            return self.named
        if total < 1:
            raise ValueError("there are no seeds")
        first = total * self.part // self.parts
        return range(first, max(first + 1, total * (self.part + 1) // self.parts))

    def takes(self, case: str) -> bool:
        """Whether a case without a seed is played: each is in one part, by a checksum of its name."""
        return self.named is not None or zlib.crc32(case.encode()) % self.parts == self.part

    def every(self, total: int) -> range:
        """Return those of `total` moments of one run that are played: with twenty parts every twentieth."""
        return range(self.part % max(total, 1), total, self.parts)

    def turn(self, cases: Sequence[T]) -> Sequence[T]:
        """Return the cases that are played of some where not every seed is: one of them in turn.

        Of more cases than there are parts some share a turn.
        """
        return cases if self.parts == 1 else cases[self.part % len(cases) :: self.parts]

    def share(self, cases: Sequence[T], parts: int) -> Sequence[T]:
        """Return one part of `parts` of the cases where not every seed is played."""
        return cases if self.parts == 1 else cases[self.part % parts :: parts]

    def __str__(self) -> str:
        """The value of the variable that makes the same choice."""
        if self.named is not None:
            return f"{self.named[0]}-{self.named[-1]}"
        return "all" if self.parts == 1 else f"{self.part}/{self.parts}"


def read(text: str) -> Choice:
    """The choice that the variable's text asks for. Raises: ValueError for any other text."""
    found = _FORMS.fullmatch(text)
    if found is None:
        raise ValueError(
            f'{VARIABLE} is "all", a part such as 3/{PARTS} or seeds such as 40-59, not {text!r}'
        )
    if found["all"]:
        return Choice(reason=VARIABLE)
    if found["parts"]:
        part, parts = int(found["part"]), int(found["parts"])
        if part >= parts:
            raise ValueError(f"{VARIABLE}: the last of {parts} parts is {parts - 1}/{parts}, not {text}")
        return Choice(part, parts, reason=VARIABLE)
    named = range(int(found["first"]), int(found["last"]) + 1)
    if not named:
        raise ValueError(f"{VARIABLE}: {text} has no seeds")
    return Choice(named=named, reason=VARIABLE)


def of_commit(commit: str) -> Choice:
    """The part that goes with a commit's hexadecimal name; "" stands for a project without git."""
    if not commit:
        return Choice(0, PARTS, reason="there is no git commit")
    return Choice(int(commit, 16) % PARTS, PARTS, reason=f"commit {commit[:12]}")


def _commit() -> str:
    """The name of the commit that is checked out, or ""."""
    try:
        told = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return ""
    return told.stdout.strip() if told.returncode == 0 else ""


CHOICE: Final = read(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else of_commit(_commit())

deep: Final = CHOICE.named is None and CHOICE.parts == 1
"""Whether everything is played, as `make test-deep` does."""


def seeds(total: int) -> range:
    """Return those of `total` seeds (0, 1, ...) that this run plays, one after the other without a gap."""
    return CHOICE.seeds(total)


def blocks(total: int, size: int) -> list[range]:
    """The same in blocks of at most `size` seeds, for tests that are too short to be one test for each."""
    chosen = seeds(total)
    return [chosen[first : first + size] for first in range(0, len(chosen), size)]


def every(total: int) -> range:
    """Return those of `total` moments of one run that this run of the tests plays: every twentieth, or all
    of them.
    """
    return CHOICE.every(total)


def turn(cases: Sequence[T]) -> Sequence[T]:
    """One of a few cases that show the same thing again, another with the next commit; or all of them."""
    return CHOICE.turn(cases)


def share(cases: Sequence[T], parts: int) -> Sequence[T]:
    """One part of `parts` of some cases, another with the next commit; or all of them."""
    return CHOICE.share(cases, parts)


def takes(case: str) -> bool:
    """Whether this run plays a case of which `make test` plays a twentieth, known by its name."""
    return CHOICE.takes(case)


def described() -> str:
    """One line that says what is played and how to play it again."""
    what = (
        "every seed"
        if deep
        else f"seeds {CHOICE}"
        if CHOICE.named is not None
        else f"part {CHOICE} of the seeds"
    )
    return f"depth: {what} ({CHOICE.reason}); again: {VARIABLE}={CHOICE} make test; all of it: make test-deep"
