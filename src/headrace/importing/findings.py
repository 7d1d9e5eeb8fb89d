"""Faults of a foreign store: findings, which an import reports, and the exceptions that end it."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from headrace.errors import HeadraceError, on_one_line


class ImportFailed(HeadraceError):
    """Root of the errors that end an import; the text is one line."""


class SourceUnusable(ImportFailed):
    """The source is no store of the expected kind, or the disk below it fails."""


class SourceInUse(ImportFailed):
    """A server holds the store, or wrote to it while it was read."""


class TargetDiverged(ImportFailed):
    """The target's contents are not a beginning of what would be imported; nothing was changed."""


class Severity(Enum):
    """The severity of a finding."""

    DAMAGED = "damaged"
    """Bytes that are no record; what they held is lost."""
    CUT = "cut off"
    """The file ends within a record, as after a crash or on a full disk."""
    MISSING = "missing"
    """Sequences that no file holds, between others that are there."""
    NOTE = "note"
    """Worth telling; nothing is lost."""


class Finding(Struct, frozen=True):
    """A fact about a store that is not as it should be.

    Bytes `offset` to `offset + length` of `file` (relative to the store). `first_sequence` and
    `last_sequence` tell what is lost as far as that can be known: 0 is unknown.
    """

    kind: Severity
    file: str
    text: str
    offset: int = 0
    length: int = 0
    first_sequence: int = 0
    last_sequence: int = 0

    @property
    def is_damage(self) -> bool:
        """True if messages or state are lost, or may be."""
        return self.kind is not Severity.NOTE

    def __str__(self) -> str:
        where = f" at {self.offset:,} ({self.length:,} bytes)" if self.length else ""
        return on_one_line(f"{self.file}{where}: {self.text}{self._sequences()}")  # names may have anything

    def _sequences(self) -> str:
        first, last = self.first_sequence, self.last_sequence
        if first and last:
            return f"; sequence {first:,}" if first == last else f"; sequences {first:,} to {last:,}"
        if first:
            return f"; from sequence {first:,} on"
        return f"; up to sequence {last:,}" if last else ""


class ImportOutcome(Struct):
    """The outcome of an import as a whole."""

    @property
    def all_findings(self) -> list[Finding]:
        """Return all findings; those of no channel or stream come first."""
        raise NotImplementedError

    @property
    def is_damaged(self) -> bool:
        """True if the source was damaged."""
        return any(finding.is_damage for finding in self.all_findings)
