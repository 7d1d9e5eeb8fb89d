"""The state of the tables that this server makes of its streams and channels: `$HEADRACE.TABLES.STATE`.

Here lives the document, and the port to what archives. Never lives here: archiving (`headrace.archiving`).
A server that archives nothing does not listen to the subject.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from headrace.protocol.rfc3339 import short_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    class TableFacts(Protocol):
        """One table, and how far its stream is; None where that is not known (yet)."""

        @property
        def service(self) -> str: ...
        @property
        def account(self) -> str: ...
        @property
        def stream(self) -> str: ...
        @property
        def kind(self) -> str: ...
        @property
        def to(self) -> str: ...
        @property
        def last_sequence(self) -> int | None: ...
        @property
        def archived_sequence(self) -> int | None: ...
        @property
        def rows(self) -> int: ...
        @property
        def files(self) -> int: ...
        @property
        def bytes(self) -> int: ...
        @property
        def last_ns(self) -> int: ...
        @property
        def last_error(self) -> str: ...

    class ServingServer(Protocol):
        """A server, as far as its services are asked for their tables."""

        @property
        def services(self) -> Sequence[object]: ...
        @property
        def account_services(self) -> _HasServices | None: ...

    class _HasServices(Protocol):
        @property
        def services(self) -> object: ...


MOST: Final = 1024
"""Tables in one answer, as many as connections in one of CONNZ; others are asked for by `offset`."""


@runtime_checkable
class ArchivingService(Protocol):
    """A service whose streams may become tables."""

    tables: Callable[[], Sequence[TableFacts]] | None
    """The function that tells of its tables; None: it makes none."""


def archives(server: ServingServer) -> list[Callable[[], Sequence[TableFacts]]]:
    """Return the functions that tell of tables, of the services that make some."""
    hosted = server.account_services
    services = [*server.services, *([] if hosted is None else [hosted.services])]
    found = [each.tables for each in services if isinstance(each, ArchivingService)]
    return [each for each in found if each is not None]


def tables_state(server: ServingServer, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document: a page of the tables, by the place that each is in."""
    tables = sorted(_all(archives(server)), key=lambda table: table.to)
    offset = max(int(values.get("offset", 0)), 0)
    limit = min(int(values.get("limit", 0)) or MOST, MOST)
    page = tables[offset : offset + max(limit, 0)]
    return {"total": len(tables), "offset": offset, "limit": limit, "tables": [_table(each) for each in page]}


def _all(asked: Iterable[Callable[[], Sequence[TableFacts]]]) -> list[TableFacts]:
    return [table for ask in asked for table in ask()]


def _table(table: TableFacts) -> dict[str, Any]:
    """Return one table; what is not known is left out."""
    fields = {
        "service": table.service,
        "account": table.account or None,
        "stream": table.stream,
        "kind": table.kind,
        "to": table.to,
        "last_sequence": table.last_sequence,
        "archived_sequence": table.archived_sequence,
        "rows": table.rows,
        "files": table.files,
        "bytes": table.bytes,
        "last": short_time(table.last_ns) if table.last_ns else None,
        "last_error": table.last_error or None,
    }
    return {name: value for name, value in fields.items() if value is not None}
