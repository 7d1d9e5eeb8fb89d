"""The exceptions of backups."""

from headrace.errors import HeadraceError


class BackupError(HeadraceError):
    """A backup that cannot be made, read or used; says which and why."""
