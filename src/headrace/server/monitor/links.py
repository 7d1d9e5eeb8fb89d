"""`/routez`, `/leafz` and `/gatewayz`: links to other servers, of which this server has none.

The answers are the Go server's when nothing of the kind is configured, so that tools which poll them
find what they expect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.server.monitor import query as options
from headrace.server.monitor.text import rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.server.monitor.source import MonitorSource


def routez(source: MonitorSource, query: Mapping[str, str]) -> dict[str, object]:
    """No routes. Raises: QueryError for an option that cannot be understood."""
    _read_subs(query)
    server = source.server()
    return {
        "server_id": server.server_id,
        "server_name": server.server_name,
        "now": rfc3339(server.now_ns),
        "num_routes": 0,
        "routes": [],
    }


def leafz(source: MonitorSource, query: Mapping[str, str]) -> dict[str, object]:
    """No leafnodes. Raises: QueryError for an option that cannot be understood."""
    options.boolean(query, "subs")
    server = source.server()
    return {"server_id": server.server_id, "now": rfc3339(server.now_ns), "leafnodes": 0, "leafs": []}


def gatewayz(source: MonitorSource, query: Mapping[str, str]) -> dict[str, object]:
    """No gateways. Raises: QueryError for an option that cannot be understood."""
    options.boolean(query, "accs")
    server = source.server()
    return {
        "server_id": server.server_id,
        "now": rfc3339(server.now_ns),
        "outbound_gateways": {},
        "inbound_gateways": {},
    }


def _read_subs(query: Mapping[str, str]) -> None:
    if query.get("subs", "").lower() != "detail":
        options.boolean(query, "subs")
