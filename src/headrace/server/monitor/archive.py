"""The archiving of a server, in the documents of its services, and the port to it.

Nobody else's server has such a field: it is there only where something is archived.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headrace.protocol.rfc3339 import short_time

if TYPE_CHECKING:
    from typing import Any


class ArchiveStats(Protocol):
    """The archiving since the start; `last_ns` is 0 before the first round ended."""

    @property
    def to(self) -> str: ...
    @property
    def rounds(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def files(self) -> int: ...
    @property
    def removed(self) -> int: ...
    @property
    def failures(self) -> int: ...
    @property
    def last_ns(self) -> int: ...
    @property
    def last_error(self) -> str: ...


def archive_field(stats: ArchiveStats | None) -> dict[str, Any]:
    """Return the field `archive` of a document; none where nothing is archived."""
    if stats is None:
        return {}
    document: dict[str, Any] = {
        "to": stats.to,
        "rounds": stats.rounds,
        "rows": stats.rows,
        "bytes": stats.bytes,
        "files": stats.files,
        "removed": stats.removed,
        "failures": stats.failures,
    }
    if stats.last_ns:
        document["last"] = short_time(stats.last_ns)
    if stats.last_error:
        document["last_error"] = stats.last_error
    return {"archive": document}
