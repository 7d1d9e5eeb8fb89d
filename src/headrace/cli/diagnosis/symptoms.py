"""A check of the doctor, and its symptoms.

Only shapes live here. Never lives here: checks themselves (`table`).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.cli.diagnosis.evidence import Evidence


class HarmLevel(IntEnum):
    """The harm that a finding does; the worst is the greatest."""

    HINT = 1
    """Worth to know; nothing is wrong."""
    WARNING = 2
    """Harm that needs something else to happen: more load, a failure, time."""
    DANGER = 3
    """Harm that is there now, or that strangers or a single failure can do to data."""

    @property
    def label(self) -> str:
        return self.name.lower()


class Symptom(Struct, frozen=True):
    """A place where a check found something, such as a server or a stream, and what it is there."""

    place: str
    text: str


class DoctorCheck(Struct, frozen=True):
    """A check: its id, which never changes, and what its findings mean.

    `advice`: what to do. `link`: a page of the documents with its section. `look` returns the places where
    it is so; it depends on the evidence only.
    """

    id: str
    severity: HarmLevel
    title: str
    advice: str
    link: str
    look: Callable[[Evidence], Iterable[Symptom]]


class DoctorFinding(Struct, frozen=True):
    """A check that found something, with the places."""

    check: DoctorCheck
    found: tuple[Symptom, ...]
