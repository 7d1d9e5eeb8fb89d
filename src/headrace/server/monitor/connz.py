"""`/connz`: connections, open and closed, with the query options of the Go server.

Field names, order, defaults and error texts are the Go server's. `filter_subject` works here over HTTP
too; there (2.15.1) it is read only from system requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.conf.account_options import GLOBAL_ACCOUNT
from headrace.protocol.rfc3339 import short_time
from headrace.server.monitor import query as options
from headrace.server.monitor.query import QueryError
from headrace.server.monitor.source import ConnectionState
from headrace.server.monitor.text import round_trip, uptime
from headrace.subjects import grammar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.server.monitor.source import ConnectionSnapshot, MonitorSource, SubscriptionSnapshot

DEFAULT_LIMIT: Final = 1024
"""Connections in one answer when the request names no limit."""


_STATES: Final = {
    "": ConnectionState.OPEN,
    "open": ConnectionState.OPEN,
    "closed": ConnectionState.CLOSED,
    "any": ConnectionState.ANY,
    "all": ConnectionState.ANY,
}

# Most columns are wanted largest first; those in _ASCENDING are not.
_SORT_KEYS: Final[dict[str, Callable[[ConnectionSnapshot], int | str]]] = {
    "cid": lambda c: c.cid,
    "start": lambda c: c.cid,
    "subs": lambda c: c.num_subscriptions,
    "pending": lambda c: c.pending_bytes,
    "msgs_to": lambda c: c.out_msgs,
    "msgs_from": lambda c: c.in_msgs,
    "bytes_to": lambda c: c.out_bytes,
    "bytes_from": lambda c: c.in_bytes,
    "last": lambda c: c.last_activity_ns,
    "idle": lambda c: -c.last_activity_ns,
    # Among open connections the latest start is the shortest uptime.
    "uptime": lambda c: -c.start_ns if c.stop_ns is None else c.stop_ns - c.start_ns,
    "stop": lambda c: c.stop_ns or 0,
    "reason": lambda c: c.reason,
    "rtt": lambda c: c.rtt_ns,
}
_ASCENDING: Final = frozenset(("cid", "start", "uptime", "reason"))
_CLOSED_ONLY: Final = frozenset(("stop", "reason"))


class _Request(Struct, frozen=True, kw_only=True):
    sort: str
    state: ConnectionState
    offset: int
    limit: int
    cid: int
    with_user: bool
    with_subscriptions: bool
    with_details: bool
    user: str
    account: str
    mqtt_client: str
    subject: bytes


def connz(source: MonitorSource, query: Mapping[str, str]) -> dict[str, object]:
    """The document.

    Raises: QueryError for an option that cannot be understood.
    Cost: looks at every connection in the state asked for; formats only the page asked for.
    """
    request = _read(query)
    server = source.server()
    found = list(source.connections(request.state))
    if request.account:
        found = [c for c in found if c.account == request.account]
    page = _select(found, request)[request.offset : request.offset + request.limit]
    return {
        "server_id": server.server_id,
        "now": short_time(server.now_ns),
        "num_connections": len(page),
        "total": len(found),
        "offset": request.offset,
        "limit": request.limit,
        "connections": [_connection(c, server.now_ns, request) for c in page],
    }


def subscription_document(subscription: SubscriptionSnapshot, *, with_account: bool) -> dict[str, object]:
    """One subscription as `/connz?subs=detail` and `/subsz?subs=1` show it."""
    document: dict[str, object] = {}
    if with_account:
        document["account"] = document["account_tag"] = subscription.account
    document["subject"] = subscription.subject
    if subscription.queue:
        document["qgroup"] = subscription.queue
    document["sid"] = subscription.sid
    document["msgs"] = subscription.msgs
    if subscription.max_msgs:
        document["max"] = subscription.max_msgs
    document["cid"] = subscription.cid
    return document


def _read(query: Mapping[str, str]) -> _Request:
    with_user = options.boolean(query, "auth")
    with_details = query.get("subs", "").lower() == "detail"
    with_subscriptions = not with_details and options.boolean(query, "subs")
    offset, limit = options.page(query, DEFAULT_LIMIT)
    cid = options.unsigned(query, "cid")
    state_text = query.get("state", "")
    state = _STATES.get(state_text.lower())
    if state is None:
        raise QueryError(f"Error decoding state for {state_text}")
    sort = query.get("sort", "") or "cid"
    if sort not in _SORT_KEYS:
        raise QueryError(f"invalid sorting option: {sort}")
    if sort in _CLOSED_ONLY and state is not ConnectionState.CLOSED:
        raise QueryError(f"sort by {sort} only valid on closed connections")
    subject = query.get("filter_subject", "")
    if subject == ">":
        subject = ""
    if subject and not query.get("acc"):
        raise QueryError("filter by subject only valid with account filtering")
    return _Request(
        sort=sort,
        state=state,
        offset=offset,
        limit=1 if cid else limit,
        cid=cid,
        with_user=with_user,
        with_subscriptions=with_subscriptions,
        with_details=with_details,
        user=query.get("user", ""),
        account=query.get("acc", ""),
        mqtt_client=query.get("mqtt_client", ""),
        subject=subject.encode("utf-8", "replace"),
    )


def _select(found: Sequence[ConnectionSnapshot], request: _Request) -> list[ConnectionSnapshot]:
    """The connections asked for, sorted; equal ones in the order of their cid."""
    if request.cid:
        return [c for c in found if c.cid == request.cid]
    chosen = [c for c in found if not request.user or c.user == request.user]
    if request.mqtt_client:
        chosen = [c for c in chosen if c.mqtt_client == request.mqtt_client]
    if request.subject:
        chosen = [c for c in chosen if _has_interest(c, request.subject)]
    chosen.sort(key=_SORT_KEYS["cid"])
    if request.sort != "cid":
        chosen.sort(key=_SORT_KEYS[request.sort], reverse=request.sort not in _ASCENDING)
    return chosen


def _has_interest(connection: ConnectionSnapshot, subject: bytes) -> bool:
    return any(
        grammar.overlaps(subject, subscription.subject.encode("utf-8", "replace"))
        for subscription in connection.subscriptions()
    )


def _connection(connection: ConnectionSnapshot, now_ns: int, request: _Request) -> dict[str, object]:
    """One entry; fields that say nothing are left out."""
    certificates = _peer_certificates(connection) if request.with_user else None
    return connection_document(connection, now_ns, certificates, _on_request(connection, request))


def connection_document(
    connection: ConnectionSnapshot,
    now_ns: int,
    certificates: list[dict[str, str]] | None,
    on_request: Mapping[str, object],
) -> dict[str, object]:
    """Make the document of a connection, with the parts that a request asks for besides."""
    until_ns = now_ns if connection.stop_ns is None else connection.stop_ns
    document: dict[str, object] = {
        "cid": connection.cid,
        "kind": connection.kind,
        "type": connection.type,
        "ip": connection.ip,
        "port": connection.port,
        "start": short_time(connection.start_ns),
        "last_activity": short_time(connection.last_activity_ns),
        "stop": None if connection.stop_ns is None else short_time(connection.stop_ns),
        "reason": connection.reason,
        "rtt": round_trip(connection.rtt_ns),
        "uptime": uptime(until_ns - connection.start_ns),
        "idle": uptime(until_ns - connection.last_activity_ns),
        "pending_bytes": connection.pending_bytes,
        "in_msgs": connection.in_msgs,
        "out_msgs": connection.out_msgs,
        "in_bytes": connection.in_bytes,
        "out_bytes": connection.out_bytes,
        "stalls": connection.stalls or None,
        "subscriptions": connection.num_subscriptions,
        "name": connection.name,
        "lang": connection.lang,
        "version": connection.version,
        "tls_version": connection.tls_version,
        "tls_cipher_suite": connection.tls_cipher,
        "tls_peer_certs": certificates,
        "tls_first": connection.tls_first or None,
        **on_request,
        "mqtt_client": connection.mqtt_client,
        "proxy": {"key": connection.proxy_key} if connection.proxy_key else None,
    }
    return {name: value for name, value in document.items() if value is not None and value != ""}


def _peer_certificates(connection: ConnectionSnapshot) -> list[dict[str, str]] | None:
    if not connection.peer_certificates:
        return None
    from headrace.server.monitor.certificates import certificate_document

    return [certificate_document(der) for der in connection.peer_certificates]


def _on_request(connection: ConnectionSnapshot, request: _Request) -> dict[str, object]:
    """The fields that only some requests ask for."""
    document: dict[str, object] = {}
    if request.with_user:
        document["authorized_user"] = connection.user
        if connection.account != GLOBAL_ACCOUNT:
            document["account"] = connection.account
    if request.with_details:
        is_closed = connection.stop_ns is not None
        document["subscriptions_list_detail"] = [
            subscription_document(subscription, with_account=is_closed)
            for subscription in connection.subscriptions()
        ] or None
    elif request.with_subscriptions:
        document["subscriptions_list"] = [s.subject for s in connection.subscriptions()] or None
    if request.with_user:
        document["issuer_key"] = connection.issuer or None
        document["name_tag"] = connection.account_tag or connection.account
        document["tags"] = connection.tags or None
    return document
