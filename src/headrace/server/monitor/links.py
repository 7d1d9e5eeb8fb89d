"""`/routez`, `/leafz` and `/gatewayz`: links to other servers.

Field names and order are the Go server's, also where nothing is configured, so that tools which poll them
find what they expect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.protocol.rfc3339 import short_time
from headrace.server.monitor import query as options
from headrace.server.monitor.connz import connection_document, subscription_document
from headrace.server.monitor.text import round_trip, uptime

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from headrace.conf.account_options import SubjectPermission
    from headrace.server.monitor.source import GatewaySnapshot, LeafSnapshot, MonitorSource, RouteSnapshot

_INTEREST_ONLY_THRESHOLD: Final = 1000
"""The subjects that nobody wanted after which the Go server tells what is wanted; here that is told at once.
"""


def routez(source: MonitorSource, query: Mapping[str, str]) -> dict[str, object]:
    """Return the document of /routez. Raises: QueryError for an option that cannot be understood."""
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
    """Return the document of /leafz. Raises: QueryError for an option that cannot be understood."""
    with_subjects = options.boolean(query, "subs")
    account = query.get("acc", "")
    server = source.server()
    links = server.leafnodes.links if server.leafnodes is not None else ()
    chosen = [link for link in links if account in ("", link.account)]
    return {
        "server_id": server.server_id,
        "now": short_time(server.now_ns),
        "leafnodes": len(chosen),
        "leafs": [_leaf(link, with_subjects=with_subjects) for link in chosen],
    }


def _leaf(link: LeafSnapshot, *, with_subjects: bool) -> dict[str, object]:
    subjects = list(link.subjects()) if with_subjects else []
    return {
        "id": link.lid,
        "name": link.name,
        "is_spoke": link.is_spoke,
        **({"is_isolated": True} if link.is_isolated else {}),
        "account": link.account,
        "ip": link.ip,
        "port": link.port,
        "rtt": round_trip(link.rtt_ns),
        "in_msgs": link.in_msgs,
        "out_msgs": link.out_msgs,
        "in_bytes": link.in_bytes,
        "out_bytes": link.out_bytes,
        "subscriptions": link.num_subscriptions,
        **({"subscriptions_list": subjects} if subjects else {}),
        **({"compression": link.compression} if link.compression else {}),
    }


def gatewayz(source: MonitorSource, query: Mapping[str, str]) -> dict[str, object]:
    """Return the document of /gatewayz: every gateway, or that named by `gw_name`; accounts on request.

    Raises: QueryError for an option that cannot be understood.
    """
    with_details = query.get("subs", "").lower() == "detail"
    with_subjects = not with_details and options.boolean(query, "subs")
    with_accounts = options.boolean(query, "accs")
    name, account = query.get("gw_name", ""), query.get("acc_name", "")
    server = source.server()
    gateways = server.gateways
    outbound: dict[str, object] = {}
    inbound: dict[str, list[object]] = {}
    for each in gateways.outbound if gateways is not None else ():
        if name in ("", each.gateway):
            found = _accounts(each, account, with_subjects=with_subjects, with_details=with_details)
            outbound[each.gateway] = _gateway(each, server.now_ns, found if with_accounts or account else [])
    for each in gateways.inbound if gateways is not None else ():
        if name in ("", each.gateway):
            found = _accounts(each, account, with_subjects=False, with_details=False)
            entry = _gateway(each, server.now_ns, found if with_accounts or account else [])
            inbound.setdefault(each.gateway, []).append(entry)
    return {
        "server_id": server.server_id,
        "now": short_time(server.now_ns),
        **(
            {"name": gateways.name, "host": gateways.host, "port": gateways.port}
            if gateways is not None
            else {}
        ),
        "outbound_gateways": None if gateways is not None and name and not outbound else outbound,
        "inbound_gateways": inbound,
    }


def _gateway(gateway: GatewaySnapshot, now_ns: int, accounts: Iterable[object]) -> dict[str, object]:
    listed = list(accounts)
    return {
        "configured": gateway.is_configured,
        "connection": connection_document(gateway.connection, now_ns, None, {}),
        **({"accounts": listed} if listed else {}),
    }


def _accounts(
    gateway: GatewaySnapshot, account: str, *, with_subjects: bool, with_details: bool
) -> Iterator[object]:
    for each in gateway.accounts():
        if account not in ("", each.name):
            continue
        stats = {
            "no_interest_count": each.refused,
            "interest_only_threshold": _INTEREST_ONLY_THRESHOLD,
            "num_subs": each.num_subscriptions,
            "num_queue_subs": each.num_queue_subscriptions,
            "subscriptions_list": [s.subject for s in each.subscriptions] if with_subjects else None,
            "subscriptions_list_detail": [
                subscription_document(s, with_account=False) for s in each.subscriptions
            ]
            if with_details
            else None,
        }
        yield {
            "name": each.name,
            "interest_mode": each.mode,
            **{name: value for name, value in stats.items() if value},
        }
