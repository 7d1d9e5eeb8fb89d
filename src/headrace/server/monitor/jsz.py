"""`/jsz` of a server without JetStream: that it has none, with every figure at zero, as in the Go server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.server.monitor import query as options
from headrace.server.monitor.text import rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.server.monitor.source import MonitorSource

_FLAGS: Final = (
    *("accounts", "streams", "consumers", "direct-consumers", "config", "leader-only", "raft"),
    "stream-leader-only",
)


def jsz(source: MonitorSource, query: Mapping[str, str]) -> dict[str, object]:
    """The same whatever is asked for. Raises: QueryError for an option that cannot be understood."""
    for name in _FLAGS:
        options.boolean(query, name)
    options.page(query, 0)
    server = source.server()
    return {
        "memory": 0,
        "storage": 0,
        "reserved_memory": 0,
        "reserved_storage": 0,
        "accounts": 0,
        "ha_assets": 0,
        "api": {"level": 0, "total": 0, "errors": 0},
        "server_id": server.server_id,
        "now": rfc3339(server.now_ns),
        "disabled": True,
        "config": {"max_memory": 0, "max_storage": 0},
        "streams": 0,
        "consumers": 0,
        "messages": 0,
        "bytes": 0,
        "total": 0,
    }
