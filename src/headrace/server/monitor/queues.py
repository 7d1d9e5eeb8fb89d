"""`/ipqueuesz`: what waits inside the server to be dealt with.

Names are the Go server's, of those of its queues that this server has too: most of what waits there between
threads is one turn of the event loop here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.server.monitor import query as options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.server.monitor.jetstream import JetStreamStats
    from headrace.server.monitor.source import MonitorSource


def ipqueuesz(source: MonitorSource, query: Mapping[str, str]) -> dict[str, object]:
    """The document: queues by name; empty ones only with `all`, `queues` is part of the names.

    Raises: QueryError for an option that cannot be understood.
    """
    shows_all, part = options.boolean(query, "all"), query.get("queues", "")
    return {
        name: {"pending": pending}
        for name, pending in _queues(source.jetstream())
        if (pending or shows_all) and part in name
    }


def _queues(stats: JetStreamStats | None) -> Iterator[tuple[str, int]]:
    if stats is None:
        return
    yield "JetStream API queue", stats.api_inflight
    for account in stats.accounts:
        for stream in account.streams:
            yield f"[ACC:{account.name}] stream '{stream.name}' messages", stream.waiting
