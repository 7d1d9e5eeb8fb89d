"""`headrace server report`: tables of connections, accounts, JetStream, links between servers, health.

Here lives what each report asks, which lines it makes of an answer, and its columns. Never lives here: where
answers come from, how tables are ordered and printed (`server_asking`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from headrace.cli.client.server_asking import (
    Document,
    ReportColumn,
    ServerListing,
    among,
    failed,
    item_of,
    shown_listing,
    watched,
)
from headrace.cli.outcomes import ExitCode
from headrace.cli.text_table import ColumnKind
from headrace.client.server_sources import ServerAnswer, ServerAnswers, ServerSource, ServerSourceError, pages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headrace.cli.call import Call

_TEXT, _NUMBER, _SIZE, _TIME = ColumnKind.TEXT, ColumnKind.NUMBER, ColumnKind.SIZE, ColumnKind.TIME
_TRAFFIC: Final = (
    ReportColumn("In msgs", "in_msgs", _NUMBER),
    ReportColumn("Out msgs", "out_msgs", _NUMBER),
    ReportColumn("In bytes", "in_bytes", _SIZE, is_optional=True),
    ReportColumn("Out bytes", "out_bytes", _SIZE, is_optional=True),
)
_SERVER: Final = ReportColumn("Server", "server")


class _Report(Struct, frozen=True):
    """A report: what is asked, the lines of an answer, their columns, and the keys behind `--sort`."""

    title: str
    endpoint: str
    lines: Callable[[ServerAnswer], Iterable[Document]]
    columns: tuple[ReportColumn, ...]
    sorts: Mapping[str, str]
    pages_of: str | None = None
    """The key of the list that servers show in pages."""
    name: str = "server"


def _whole(answer: ServerAnswer) -> Iterable[Document]:
    return (answer.data,)


_CONNECTIONS: Final = _Report(
    "Connections",
    "CONNZ",
    lambda answer: answer.data.get("connections") or (),
    (
        _SERVER,
        ReportColumn("Name", "name", instead="mqtt_client"),
        ReportColumn("CID", "cid", _NUMBER),
        ReportColumn("Account", "account", is_optional=True),
        ReportColumn("User", "authorized_user"),
        ReportColumn("IP", "ip", is_optional=True, can_be_cut=False),
        ReportColumn("Port", "port", is_optional=True, can_be_cut=False),
        ReportColumn("Uptime", "uptime", is_optional=True),
        ReportColumn("Subs", "subscriptions", _NUMBER),
        ReportColumn("Pending", "pending_bytes", _SIZE),
        *_TRAFFIC,
    ),
    {
        "in-msgs": "in_msgs",
        "out-msgs": "out_msgs",
        "in-bytes": "in_bytes",
        "out-bytes": "out_bytes",
        "subs": "subscriptions",
        "pending": "pending_bytes",
        "start": "start",
        "cid": "cid",
        "name": "name",
        "account": "account",
        "server": "server",
    },
    pages_of="connections",
    name="cid",
)


def connections(call: Call) -> ExitCode | None:
    """Print the connections. Raises: CommandError, ClientError."""
    options = call.options
    # Servers look for a subject only within an account; else it is looked for here.
    subject, account = options.subject, options.account
    asked = {
        "auth": True,
        "acc": account,
        "user": options.username,
        "state": {"open": None, "closed": 1, "all": 2}[options.state],
        "filter_subject": subject if account is not None else None,
        "subscriptions": True if subject is not None else None,
    }
    found = {name: value for name, value in asked.items() if value is not None}

    def subscribed(items: list[Document]) -> list[Document]:
        from headrace.subjects.grammar import is_subset

        return [
            item
            for item in items
            if any(
                is_subset(each.encode(), subject.encode()) for each in item.get("subscriptions_list") or ()
            )
        ]

    return _reported(call, _CONNECTIONS, found, then=None if subject is None else subscribed)


_ACCOUNTS: Final = _Report(
    "Accounts",
    "ACCSTATZ",
    lambda answer: answer.data.get("account_statz") or (),
    (
        ReportColumn("Account", "name"),
        ReportColumn("Servers", "servers"),
        ReportColumn("Conns", "conns", _NUMBER),
        ReportColumn("Leafs", "leafnodes", _NUMBER, is_optional=True),
        ReportColumn("Subs", "num_subscriptions", _NUMBER),
        ReportColumn("In msgs", "received.msgs", _NUMBER),
        ReportColumn("Out msgs", "sent.msgs", _NUMBER),
        ReportColumn("In bytes", "received.bytes", _SIZE, is_optional=True),
        ReportColumn("Out bytes", "sent.bytes", _SIZE, is_optional=True),
        ReportColumn("Slow", "slow_consumers", _NUMBER),
    ),
    {
        "in-msgs": "received.msgs",
        "out-msgs": "sent.msgs",
        "in-bytes": "received.bytes",
        "out-bytes": "sent.bytes",
        "conns": "conns",
        "subs": "num_subscriptions",
        "name": "name",
    },
    name="name",
)


def accounts(call: Call) -> ExitCode | None:
    """Print the accounts with what they did on all servers together. Raises: CommandError, ClientError."""
    wanted = call.options.account
    options: Document = {"include_unused": True}
    if wanted is not None:
        options["accounts"] = [wanted]

    def summed(listing: list[Document]) -> list[Document]:
        found: dict[str, Document] = {}
        for item in listing:
            name = str(item.get("name") or item.get("acc"))
            if wanted is not None and wanted not in (name, item.get("acc")):
                continue
            plain = {key: value for key, value in item.items() if key not in ("server", "cluster")}
            before = found.get(str(item["acc"]))
            found[str(item["acc"])] = (
                {**plain, "servers": [item["server"]]}
                if before is None
                else _sum(before, plain) | {"servers": [*before["servers"], item["server"]]}
            )
        return list(found.values())

    return _reported(call, _ACCOUNTS, options, then=summed)


def _sum(one: Mapping[str, Any], other: Mapping[str, Any]) -> Document:
    """Two documents as one: numbers added up, in documents within them, too."""
    found: Document = {**one}
    for name, value in other.items():
        before = found.get(name)
        if isinstance(value, dict):
            found[name] = _sum(before or {}, value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = value + (before or 0)
        elif before is None:
            found[name] = value
    return found


_JETSTREAM: Final = _Report(
    "JetStream",
    "JSZ",
    _whole,
    (
        _SERVER,
        ReportColumn("Cluster", "cluster", is_optional=True),
        ReportColumn("Streams", "streams", _NUMBER),
        ReportColumn("Consumers", "consumers", _NUMBER),
        ReportColumn("Messages", "messages", _NUMBER),
        ReportColumn("Bytes", "bytes", _SIZE, is_optional=True),
        ReportColumn("Memory", "memory", _SIZE),
        ReportColumn("File", "storage", _SIZE),
        ReportColumn("API requests", "api.total", _NUMBER, is_optional=True),
        ReportColumn("API errors", "api.errors", _NUMBER),
        ReportColumn("Leader", "meta_cluster.leader"),
    ),
    {
        "streams": "streams",
        "consumers": "consumers",
        "messages": "messages",
        "bytes": "bytes",
        "memory": "memory",
        "file": "storage",
        "api": "api.total",
        "errors": "api.errors",
        "name": "server",
        "cluster": "cluster",
    },
)


def jetstream(call: Call) -> ExitCode | None:
    """Print what JetStream has on each server; one account's with `--account`.

    Raises: CommandError, ClientError.
    """
    account = call.options.account
    options = {} if account is None else {"account": account}

    def of_account(items: list[Document]) -> list[Document]:
        if account is None:
            return items
        found = []
        for item in items:
            details: Document = (item.get("account_details") or ({},))[0]
            streams = details.get("stream_detail") or ()
            found.append(
                {"server": item["server"], **({"cluster": item["cluster"]} if "cluster" in item else {})}
                | {key: value for key, value in details.items() if key != "stream_detail"}
                | {"streams": len(streams), "consumers": _total(streams, "consumer_count")}
                | {"messages": _total(streams, "messages"), "bytes": _total(streams, "bytes")}
            )
        return found

    if account is not None:
        options |= {"streams": True, "accounts": True}

    def once(source: ServerSource, is_many: bool) -> ExitCode | None:
        if source.scope != "account":
            return _once(call, _JETSTREAM, options, source, is_many, then=of_account)
        if account is not None:
            raise ServerSourceError("--account takes a user of the system account, or --monitor")
        listing = _own_jetstream(call)
        shown_listing(
            call, "JetStream", listing, _JETSTREAM.columns, _sort(call, _JETSTREAM), as_line=is_many
        )
        return None

    return watched(call, once)


def _total(streams: Iterable[Mapping[str, Any]], name: str) -> int:
    return sum(int((stream.get("state") or {}).get(name, 0)) for stream in streams)


def _own_jetstream(call: Call) -> ServerListing:
    """The answer of JetStream to an account about itself, as a line of the report."""
    with call.connected() as connection:
        found = call.api(connection).ask("INFO")
        found.pop("type", None)
        server = str(connection.server_info.fields.get("server_name", ""))
    return ServerListing([{"server": server, **found}], [], "account")


_MACHINE: Final = (
    _SERVER,
    ReportColumn("Cluster", "cluster"),
    ReportColumn("CPU", "cpu", _NUMBER),
    ReportColumn("Cores", "cores", _NUMBER),
    ReportColumn("Memory", "mem", _SIZE),
    ReportColumn("Conns", "connections", _NUMBER),
    ReportColumn("Subs", "subscriptions", _NUMBER),
    ReportColumn("Slow", "slow_consumers", _NUMBER),
)
_MACHINE_SORTS: Final = {
    "cpu": "cpu",
    "mem": "mem",
    "conns": "connections",
    "subs": "subscriptions",
    "name": "server",
}


def cpu(call: Call) -> ExitCode | None:
    """Print the processor time that servers take, in percent of one. Raises: CommandError, ClientError."""
    return _reported(call, _Report("Processors", "STATSZ", _whole, _MACHINE, _MACHINE_SORTS), {})


def mem(call: Call) -> ExitCode | None:
    """Print the memory that servers take. Raises: CommandError, ClientError."""
    return _reported(call, _Report("Memory", "STATSZ", _whole, _MACHINE, _MACHINE_SORTS), {})


_LINK_SORTS: Final = {
    "in-msgs": "in_msgs",
    "out-msgs": "out_msgs",
    "in-bytes": "in_bytes",
    "out-bytes": "out_bytes",
    "subs": "subscriptions",
    "pending": "pending_size",
    "server": "server",
}
_ROUTES: Final = _Report(
    "Routes",
    "ROUTEZ",
    lambda answer: answer.data.get("routes") or (),
    (
        _SERVER,
        ReportColumn("Remote", "remote_name"),
        ReportColumn("ID", "rid", _NUMBER, is_optional=True, can_be_cut=False),
        ReportColumn("Account", "account", is_optional=True),
        ReportColumn("IP", "ip", is_optional=True, can_be_cut=False),
        ReportColumn("Port", "port", is_optional=True, can_be_cut=False),
        ReportColumn("Solicited", "did_solicit", is_optional=True),
        ReportColumn("RTT", "rtt"),
        ReportColumn("Uptime", "uptime", is_optional=True),
        ReportColumn("Pending", "pending_size", _SIZE),
        ReportColumn("Subs", "subscriptions", _NUMBER),
        *_TRAFFIC,
    ),
    {**_LINK_SORTS, "remote": "remote_name"},
    name="remote_name",
)


def routes(call: Call) -> ExitCode | None:
    """Print the routes between servers. Raises: CommandError, ClientError."""
    return _reported(call, _ROUTES, {})


def _gateway_lines(answer: ServerAnswer) -> Iterable[Document]:
    for name, gateway in sorted((answer.data.get("outbound_gateways") or {}).items()):
        yield {"gateway": name, "direction": "out", **_gateway(gateway)}
    for name, gateways in sorted((answer.data.get("inbound_gateways") or {}).items()):
        for gateway in gateways:
            yield {"gateway": name, "direction": "in", **_gateway(gateway)}


def _gateway(gateway: Mapping[str, Any]) -> Document:
    return {"configured": bool(gateway.get("configured")), **(gateway.get("connection") or {})}


_GATEWAYS: Final = _Report(
    "Gateways",
    "GATEWAYZ",
    _gateway_lines,
    (
        _SERVER,
        ReportColumn("Gateway", "gateway"),
        ReportColumn("Direction", "direction"),
        ReportColumn("ID", "cid", _NUMBER, is_optional=True, can_be_cut=False),
        ReportColumn("Remote", "name"),
        ReportColumn("IP", "ip", is_optional=True, can_be_cut=False),
        ReportColumn("Port", "port", is_optional=True, can_be_cut=False),
        ReportColumn("Configured", "configured", is_optional=True),
        ReportColumn("RTT", "rtt"),
        ReportColumn("Uptime", "uptime", is_optional=True),
        *_TRAFFIC,
    ),
    {**_LINK_SORTS, "gateway": "gateway"},
    name="gateway",
)


def gateways(call: Call) -> ExitCode | None:
    """Print the gateways of servers, in both directions. Raises: CommandError, ClientError."""
    return _reported(call, _GATEWAYS, {})


_LEAFNODES: Final = _Report(
    "Leafnodes",
    "LEAFZ",
    lambda answer: answer.data.get("leafs") or (),
    (
        _SERVER,
        ReportColumn("Name", "name"),
        ReportColumn("ID", "id", _NUMBER, is_optional=True, can_be_cut=False),
        ReportColumn("Account", "account", is_optional=True),
        ReportColumn("IP", "ip", is_optional=True, can_be_cut=False),
        ReportColumn("Port", "port", is_optional=True, can_be_cut=False),
        ReportColumn("Spoke", "is_spoke"),
        ReportColumn("RTT", "rtt"),
        ReportColumn("Subs", "subscriptions", _NUMBER),
        *_TRAFFIC,
    ),
    {**_LINK_SORTS, "name": "name", "account": "account"},
    name="name",
)


def leafnodes(call: Call) -> ExitCode | None:
    """Print the leafnode connections. Raises: CommandError, ClientError."""
    account = call.options.account
    return _reported(call, _LEAFNODES, {} if account is None else {"account": account})


_HEALTH: Final = _Report(
    "Health",
    "HEALTHZ",
    _whole,
    (
        _SERVER,
        ReportColumn("Status", "status"),
        ReportColumn("Code", "status_code", _NUMBER),
        ReportColumn("Cluster", "cluster"),
        ReportColumn("Error", "error"),
    ),
    {"status": "status_code", "name": "server"},
)


def health(call: Call) -> ExitCode | None:
    """Print the health of servers; a sick or silent one is `WRONG`. Raises: CommandError, ClientError."""
    names = ("account", "stream", "consumer")
    options = {name: getattr(call.options, name) for name in names if getattr(call.options, name) is not None}
    codes: list[ExitCode] = []

    def judged(items: list[Document]) -> list[Document]:
        if any(item.get("status") != "ok" for item in items):
            codes.append(ExitCode.WRONG)
        return items

    return _reported(call, _HEALTH, options, then=judged, silent=ExitCode.WRONG) or next(iter(codes), None)


_SUBSCRIPTIONS: Final = _Report(
    "Subscriptions",
    "SUBSZ",
    lambda answer: answer.data.get("subscriptions_list") or (),
    (
        _SERVER,
        ReportColumn("Subject", "subject"),
        ReportColumn("Queue", "qgroup"),
        ReportColumn("Account", "account", is_optional=True),
        ReportColumn("CID", "cid", _NUMBER),
        ReportColumn("SID", "sid"),
        ReportColumn("Messages", "msgs", _NUMBER),
        ReportColumn("Most", "max", _NUMBER),
    ),
    {"subject": "subject", "messages": "msgs", "account": "account", "cid": "cid", "server": "server"},
    pages_of="subscriptions_list",
    name="subject",
)


def subscriptions(call: Call) -> ExitCode | None:
    """Print the subscriptions. Raises: CommandError, ClientError."""
    options: Document = {"subscriptions": True}
    if call.options.account is not None:
        options["account"] = call.options.account
    if call.options.subject is not None:
        options["test"] = call.options.subject

    def once(source: ServerSource, is_many: bool) -> ExitCode | None:
        if source.scope != "account":
            return _once(call, _SUBSCRIPTIONS, options, source, is_many)
        if call.options.account is not None:
            raise ServerSourceError("--account takes a user of the system account, or --monitor")
        asked: Document = {"subscriptions_detail": True}
        if call.options.subject is not None:
            asked["filter_subject"] = call.options.subject
        of_connections = _Report(
            _SUBSCRIPTIONS.title,
            "CONNZ",
            _of_connections,
            _SUBSCRIPTIONS.columns,
            _SUBSCRIPTIONS.sorts,
            "connections",
            "subject",
        )
        return _once(call, of_connections, asked, source, is_many)

    return watched(call, once)


def _of_connections(answer: ServerAnswer) -> Iterable[Document]:
    for connection in answer.data.get("connections") or ():
        yield from connection.get("subscriptions_list_detail") or ()


# -- all of them


def _reported(
    call: Call,
    report: _Report,
    options: Mapping[str, object],
    *,
    then: Callable[[list[Document]], list[Document]] | None = None,
    silent: ExitCode | None = None,
) -> ExitCode | None:
    """Ask for a report and print it; return `silent` if a server did not answer."""
    return watched(
        call, lambda source, many: _once(call, report, options, source, many, then=then, silent=silent)
    )


def _once(
    call: Call,
    report: _Report,
    options: Mapping[str, object],
    source: ServerSource,
    is_many: bool,
    *,
    then: Callable[[list[Document]], list[Document]] | None = None,
    silent: ExitCode | None = None,
) -> ExitCode | None:
    answers = _answers(call, report, options, source)
    items = [
        item_of(answer, line)
        for answer in answers.answers
        if answer.error is None
        for line in report.lines(answer)
    ]
    missing = [*answers.missing, *failed(answers.answers)]
    listing = ServerListing(items if then is None else then(items), missing, source.scope)
    count = shown_listing(
        call, report.title, listing, report.columns, _sort(call, report), name=report.name, as_line=is_many
    )
    if call.options.fail_empty and not count:
        return ExitCode.NOT_THERE
    if answers.answers and all(answer.error is not None for answer in answers.answers):
        return ExitCode.REFUSED
    return silent if missing else None


def _answers(
    call: Call, report: _Report, options: Mapping[str, object], source: ServerSource
) -> ServerAnswers:
    wanted, expect = among(call), call.options.expect
    if report.pages_of is None:
        return source.ask(report.endpoint, options, among=wanted, expect=expect)
    return pages(source, report.endpoint, report.pages_of, options, among=wanted, expect=expect)


def _sort(call: Call, report: _Report) -> str:
    return report.sorts[call.options.sort]
