"""`JSZ` of a server without JetStream: that it has none, with every figure at zero, as in the Go server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.server.monitor.text import rfc3339

if TYPE_CHECKING:
    from headrace.server.monitor.source import MonitorSource


def jsz(source: MonitorSource) -> dict[str, object]:
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
