"""The exceptions that end an import. Damage in a store does not; it is a `Finding`."""

from __future__ import annotations

from headrace.errors import HeadraceError


class ImportFailed(HeadraceError):
    """Root of the errors that end an import; the text is one line."""


class SourceUnusable(ImportFailed):
    """The source is no store of the expected kind, or the disk below it fails."""


class SourceInUse(ImportFailed):
    """A server holds the store, or wrote to it while it was read."""


class TargetDiverged(ImportFailed):
    """The target's contents are not a beginning of what would be imported; nothing was changed."""
