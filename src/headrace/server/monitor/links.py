"""`/routez`, `/leafz` and `/gatewayz`: links to other servers. Of leafnodes and gateways there are none.

Field names and order are the Go server's, also where nothing is configured, so that tools which poll them
find what they expect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.protocol.rfc3339 import short_time
from headrace.server.monitor import query as options
from headrace.server.monitor.connz import subscription_document
from headrace.server.monitor.text import round_trip, uptime

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.conf.options import SubjectPermission
    from headrace.server.monitor.source import MonitorSource, RouteSnapshot


def routez(source: MonitorSource, query: Mapping[str, str]) -> dict[str, object]:
    """Every route. Raises: QueryError for an option that cannot be understood."""
    with_details = query.get("subs", "").lower() == "detail"
    with_subjects = not with_details and options.boolean(query, "subs")
    server = source.server()
    cluster, configured = server.cluster, server.options.cluster
    routes = cluster.routes if cluster is not None else ()
    return {
        "server_id": server.server_id,
        "server_name": server.server_name,
        "now": short_time(server.now_ns),
        **(_permissions(configured.imports, configured.exports) if configured is not None else {}),
        "num_routes": len(routes),
        "routes": [
            _route(route, server.now_ns, with_subjects=with_subjects, with_details=with_details)
            for route in routes
        ],
    }


def _route(
    route: RouteSnapshot, now_ns: int, *, with_subjects: bool, with_details: bool
) -> dict[str, object]:
    listed: dict[str, object] = {}
    if route.num_subscriptions and (with_subjects or with_details):
        found = route.subscriptions()
        if with_details:
            listed["subscriptions_list_detail"] = [
                subscription_document(each, with_account=False) for each in found
            ]
        else:
            listed["subscriptions_list"] = [each.subject for each in found]
    return {
        "rid": route.rid,
        "remote_id": route.remote_id,
        "remote_name": route.remote_name,
        "did_solicit": route.did_solicit,
        "is_configured": route.is_configured,
        "ip": route.ip,
        "port": route.port,
        "start": short_time(route.start_ns),
        "last_activity": short_time(route.last_activity_ns),
        "rtt": round_trip(route.rtt_ns),
        "uptime": uptime(now_ns - route.start_ns),
        "idle": uptime(now_ns - route.last_activity_ns),
        **_permissions(route.imports, route.exports),
        "pending_size": route.pending_bytes,
        "in_msgs": route.in_msgs,
        "out_msgs": route.out_msgs,
        "in_bytes": route.in_bytes,
        "out_bytes": route.out_bytes,
        "subscriptions": route.num_subscriptions,
        **listed,
        **({"account": route.account} if route.account else {}),
        **({"compression": route.compression} if route.compression else {}),
    }


def _permissions(imports: SubjectPermission | None, exports: SubjectPermission | None) -> dict[str, object]:
    both = {"import": imports, "export": exports}
    return {name: _subjects(given) for name, given in both.items() if given is not None}


def _subjects(given: SubjectPermission) -> dict[str, object]:
    return {
        **({"allow": list(given.allow)} if given.allow else {}),
        **({"deny": list(given.deny)} if given.deny else {}),
    }


def leafz(source: MonitorSource, query: Mapping[str, str]) -> dict[str, object]:
    """No leafnodes. Raises: QueryError for an option that cannot be understood."""
    options.boolean(query, "subs")
    server = source.server()
    return {"server_id": server.server_id, "now": short_time(server.now_ns), "leafnodes": 0, "leafs": []}


def gatewayz(source: MonitorSource, query: Mapping[str, str]) -> dict[str, object]:
    """No gateways. Raises: QueryError for an option that cannot be understood."""
    options.boolean(query, "accs")
    server = source.server()
    return {
        "server_id": server.server_id,
        "now": short_time(server.now_ns),
        "outbound_gateways": {},
        "inbound_gateways": {},
    }
