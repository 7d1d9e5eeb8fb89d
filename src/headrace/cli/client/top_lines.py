"""The lines of `headrace top`: a look at servers as text for people.

Pure: texts of others have their control characters escaped here. Never lives here: the screen (`top`), what
is looked at (`top_looks`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from headrace.cli.text_table import ColumnKind, TextColumn, fitted
from headrace.cli.values import shown_size, shown_time
from headrace.errors import on_one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.cli.client.top_looks import TopLook

HELP: Final = (
    "o   order of connections: type a key, then Enter",
    "n   number of connections: type it, then Enter; nothing for all",
    "s   show subjects of subscriptions, or not",
    "d   show names of addresses, or not",
    "b   show exact numbers, or units",
    "space   look at once",
    "?   this help; any key ends it",
    "q   end (as Ctrl-C)",
)


_OPTIONAL: Final = frozenset(
    ("User", "Subs", "Pending", "Bytes to", "Bytes from", "Client", "Uptime", "Idle")
)


class TopView(Struct):
    """The way in which a look is shown: `sort` is a key of the order, `count` of connections, None: all."""

    sort: str = "cid"
    count: int | None = None
    shows_subjects: bool = False
    shows_names: bool = False
    is_exact: bool = False


def head_lines(seen: TopLook, view: TopView) -> list[str]:
    """Return the lines about servers: who they are, load, traffic."""
    servers = seen.servers
    many = len(servers) != 1
    lines = [_title(seen)]
    size = _number if view.is_exact else shown_size

    def total(name: str) -> Any:
        return sum(each.get(name, 0) for each in servers)

    if any("cpu" in each for each in servers):
        cpu = f"{total('cpu'):.1f}%"
        memory = size(total("mem"))
        lines.append(f"  load    CPU {cpu}   memory {memory}   slow consumers {total('slow_consumers'):,}")
    else:
        lines.append(f"  load    slow consumers {total('slow_consumers'):,}")
    for way in ("in", "out"):
        messages, octets = total(f"{way}_msgs"), total(f"{way}_bytes")
        told = f"  {way:<7} {messages:,} messages   {size(octets)}"
        if any(f"{way}_msgs_rate" in each for each in servers):
            rate, octets_rate = total(f"{way}_msgs_rate"), total(f"{way}_bytes_rate")
            told += f"   {rate:,.1f} msgs/s   {size(round(octets_rate))}/s"
        lines.append(told)
    shown = len(seen.connections[: view.count])
    of_all = f"{shown:,} of {total('connections'):,} connections" if many or shown else "no connections"
    lines.append(f"  {of_all} by {view.sort}   {total('subscriptions'):,} subscriptions")
    for each in seen.missing:
        lines.append(on_one_line(f"  {each.get('server')}: {each.get('error')}"))
    return lines


def connection_lines(
    seen: TopLook, view: TopView, width: int, name_of: Callable[[str], str] = str
) -> list[str]:
    """Return a heading and a line for each connection, fitted to a width."""
    number = ColumnKind.NUMBER
    size = number if view.is_exact else ColumnKind.SIZE
    columns = [
        TextColumn("Host", can_be_cut=False),
        TextColumn("Cid", number),
        TextColumn("Name"),
        TextColumn("User"),
        TextColumn("Subs", number),
        TextColumn("Pending", size),
        TextColumn("Msgs to", number),
        TextColumn("Msgs from", number),
        TextColumn("Bytes to", size),
        TextColumn("Bytes from", size),
        TextColumn("To/s", number),
        TextColumn("From/s", number),
        TextColumn("Client"),
        TextColumn("Uptime", can_be_cut=False),
        TextColumn("Idle", can_be_cut=False),
    ]
    columns = [column._replace(is_optional=_is_optional(column.heading, view.sort)) for column in columns]
    has_servers = len(seen.servers) > 1
    if has_servers:
        columns.insert(0, TextColumn("Server"))
    if view.shows_subjects:
        columns.append(TextColumn("Subjects"))
    rows = [_row(each, view, name_of, has_servers) for each in seen.connections[: view.count]]
    # Columns with nothing in them take no room.
    used = [
        place
        for place, column in enumerate(columns)
        if column.heading not in ("Name", "User", "To/s", "From/s") or any(row[place] for row in rows)
    ]
    kept = [[row[place] for place in used] for row in rows]
    return fitted([columns[place] for place in used], kept, width).lines


def _is_optional(heading: str, sort: str) -> bool:
    """True for a column that a narrow screen may leave out: not the one that connections are ordered by."""
    return heading in _OPTIONAL and heading.lower().replace(" ", "_") != sort


def _row(each: dict[str, Any], view: TopView, name_of: Callable[[str], str], has_servers: bool) -> list[Any]:
    address = str(each.get("ip", ""))
    host = name_of(address) if view.shows_names else address
    row: list[Any] = [
        f"{host}:{each.get('port', '')}",
        each.get("cid", 0),
        each.get("name") or each.get("mqtt_client", ""),
        each.get("authorized_user", ""),
        each.get("subscriptions", 0),
        each.get("pending_bytes", 0),
        each.get("out_msgs", 0),
        each.get("in_msgs", 0),
        each.get("out_bytes", 0),
        each.get("in_bytes", 0),
        _rate(each.get("out_msgs_rate")),
        _rate(each.get("in_msgs_rate")),
        " ".join(str(each[name]) for name in ("lang", "version") if each.get(name)),
        each.get("uptime", ""),
        each.get("idle", ""),
    ]
    if has_servers:
        row.insert(0, each.get("server", ""))
    if view.shows_subjects:
        row.append(", ".join(map(str, each.get("subscriptions_list") or ())))
    return row


def _title(seen: TopLook) -> str:
    servers = seen.servers
    when = shown_time(seen.time_ns)
    if seen.scope == "account":
        return f"this account only, on {_counted(len(servers))}   {when}"
    if len(servers) != 1:
        return f"{_counted(len(servers))}   {when}"
    (server,) = servers
    commit = str(server.get("git_commit", ""))
    is_ours = commit.startswith("headrace-")
    product = f"Headrace {commit[9:]}" if is_ours else f"nats-server {server.get('version')}"
    up = f", up {server['uptime']}" if server.get("uptime") else ""
    return on_one_line(f"{server.get('server')} ({product}{up})   {when}")


def _counted(count: int) -> str:
    return f"{count} server{'' if count == 1 else 's'}"


def _rate(rate: float | None) -> int | None:
    return None if rate is None else round(rate)


def _number(value: int) -> str:
    return f"{value:,} B"
