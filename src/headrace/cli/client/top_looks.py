"""Looks at servers for `headrace top`: totals and connections, with rates since the look before.

Here lives what is asked, how rates are reckoned and connections are ordered. Never lives here: the screen
(`top`), lines of text (`top_lines`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.client.server_sources import ServerAnswer, ServerFilter, ServerSource

Document = dict[str, Any]

COUNTERS: Final = ("in_msgs", "out_msgs", "in_bytes", "out_bytes")
"""The counters that have a rate, of servers as of connections."""

_CONNECTIONS: Final = 1024
"""The number of connections that are asked for at least: what is ordered here has to be there."""

_KEPT: Final = (
    *("version", "git_commit", "start", "uptime", "cpu", "mem", "connections", "total_connections"),
    *("subscriptions", "slow_consumers", *COUNTERS),
)

_FIELDS: Final = {
    "subs": "subscriptions",
    "pending": "pending_bytes",
    "msgs_to": "out_msgs",
    "msgs_from": "in_msgs",
    "bytes_to": "out_bytes",
    "bytes_from": "in_bytes",
    "rate_to": "out_msgs_rate",
    "rate_from": "in_msgs_rate",
}
"""The fields of numbers that an order is of, the greatest first."""

_NAMES: Final = {"name": "name", "host": "ip", "start": "start", "uptime": "start", "idle": "last_activity"}
"""The fields of texts that an order is of, the least first: the longest idle was active first."""

_OF_SERVERS: Final = frozenset(
    (
        *("cid", "start", "subs", "pending", "msgs_to", "msgs_from", "bytes_to", "bytes_from"),
        *("last", "idle", "uptime", "rtt"),
    )
)
"""The orders that servers know themselves: where there are more connections, the right ones come."""


class TopLook(Struct, frozen=True):
    """The servers and connections at one time; `at_ns` is monotonic. `missing`: servers without an answer."""

    time_ns: int
    at_ns: int
    scope: str
    servers: list[Document]
    connections: list[Document]
    missing: list[Document]


def look(
    source: ServerSource,
    *,
    before: TopLook | None,
    sort: str,
    count: int | None,
    subjects: bool,
    among: ServerFilter,
) -> TopLook:
    """Look at servers, with rates since the look `before`. Raises: ClientError."""
    expect = len(before.servers) if before is not None and before.scope == "system" else None
    endpoint = "ACCSTATZ" if source.scope == "account" else "VARZ"
    totals = source.ask(endpoint, among=among, expect=expect)
    options: Document = {"limit": max(count or 0, _CONNECTIONS), "auth": source.scope != "account"}
    if sort in _OF_SERVERS:
        options["sort"] = sort
    if subjects:
        options["subscriptions"] = True
    connz = source.ask("CONNZ", options, among=among, expect=expect)
    at_ns = time.monotonic_ns()
    servers = [_server(answer, source.scope) for answer in totals.answers if answer.error is None]
    connections = [
        {"server": answer.name, **connection}
        for answer in connz.answers
        for connection in answer.data.get("connections") or ()
    ]
    if before is not None:
        seconds = (at_ns - before.at_ns) / 1e9
        _add_rates(servers, before.servers, ("server",), seconds)
        _add_rates(connections, before.connections, ("server", "cid"), seconds)
    missing = [*totals.missing, *({"server": a.name, "error": a.error} for a in totals.answers if a.error)]
    return TopLook(time.time_ns(), at_ns, source.scope, servers, ordered(connections, sort), missing)


def ordered(connections: list[Document], sort: str) -> list[Document]:
    """Return connections in an order."""
    if sort in _FIELDS:
        field = _FIELDS[sort]
        return sorted(connections, key=lambda each: -each.get(field, 0))
    if sort in _NAMES:
        field = _NAMES[sort]
        return sorted(connections, key=lambda each: str(each.get(field, "")))
    if sort == "last":
        return sorted(connections, key=lambda each: str(each.get("last_activity", "")), reverse=True)
    if sort == "rtt":
        return sorted(connections, key=lambda each: -_duration(each.get("rtt")))
    return sorted(connections, key=lambda each: (each.get("server", ""), each.get("cid", 0)))


def as_document(seen: TopLook, count: int | None) -> Document:
    """Return a look as it is printed with `--json`."""
    from headrace.cli.values import exact_time

    found: Document = {
        "time": exact_time(seen.time_ns),
        "scope": seen.scope,
        "servers": seen.servers,
        "connections": seen.connections[:count],
    }
    return {**found, "errors": seen.missing} if seen.missing else found


def _server(answer: ServerAnswer, scope: str) -> Document:
    if scope != "account":
        return {"server": answer.name, **{name: answer.data[name] for name in _KEPT if name in answer.data}}
    accounts = answer.data.get("account_statz") or [{}]
    told = accounts[0]
    sent, received = told.get("sent") or {}, told.get("received") or {}
    return {
        "server": answer.name,
        "version": answer.server.get("ver", ""),
        "connections": told.get("conns", 0),
        "total_connections": told.get("total_conns", 0),
        "subscriptions": told.get("num_subscriptions", 0),
        "slow_consumers": told.get("slow_consumers", 0),
        "in_msgs": received.get("msgs", 0),
        "out_msgs": sent.get("msgs", 0),
        "in_bytes": received.get("bytes", 0),
        "out_bytes": sent.get("bytes", 0),
    }


def _add_rates(
    items: Iterable[Document], before: Iterable[Document], keys: tuple[str, ...], seconds: float
) -> None:
    """Add the rates of counters; one that has become less began anew, and counts from zero."""
    old = {tuple(each.get(key) for key in keys): each for each in before}
    for item in items:
        was = old.get(tuple(item.get(key) for key in keys))
        if was is None or seconds <= 0:
            continue
        for name in COUNTERS:
            now, then = item.get(name, 0), was.get(name, 0)
            item[f"{name}_rate"] = round((now - then if now >= then else now) / seconds, 3)


def _duration(told: object) -> int:
    """Return a duration as servers write it, ns; 0 for none."""
    from headrace.protocol.durations import parse_ns

    try:
        return parse_ns(str(told))
    except ValueError:
        return 0
