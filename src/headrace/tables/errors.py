"""The exceptions of tables; each text names the table or file and what to do.

What a directory or an object store cannot do is in `headrace.objects.errors`.

Only exception classes live here.
"""

from __future__ import annotations

from headrace.errors import HeadraceError


class TableError(HeadraceError):
    """Root of the errors of `headrace.tables`."""


class TableMissing(TableError):
    """The store has no table here."""


class TableDamaged(TableError):
    """A manifest or a data file is not what it should be."""


class TableConflict(TableError):
    """A change no longer fits the table: another process changed it in between."""


class SourceChanged(TableError):
    """The stream is not the one that the table was made from, or not as far as it was."""


class SourceMissing(TableError):
    """The source has no such stream."""


class IcebergError(TableError):
    """The catalog failed, or what it has is not of this table."""
