"""`headrace server ping`, `ls` and `info`: the servers that are there, and one of them.

Never lives here: tables about what servers do (`server_report`), where answers come from (`server_asking`).
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.client.server_asking import (
    ACCOUNT_ONLY,
    Document,
    ReportColumn,
    ServerListing,
    among,
    failed,
    item_of,
    server_source,
    shown_listing,
    watched,
)
from headrace.cli.outcomes import CommandError, ExitCode
from headrace.cli.text_table import ColumnKind
from headrace.client.server_sources import ServerSourceError, SystemSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.cli.call import Call
    from headrace.client.server_sources import ServerSource

_NUMBER, _SIZE, _DURATION, _TIME = (
    ColumnKind.NUMBER,
    ColumnKind.SIZE,
    ColumnKind.DURATION,
    ColumnKind.TIME,
)
_COLUMNS: Final = (
    ReportColumn("Server", "server"),
    ReportColumn("Cluster", "cluster"),
    ReportColumn("Host", "host", is_optional=True, can_be_cut=False),
    ReportColumn("Version", "ver", is_optional=True, can_be_cut=False),
    ReportColumn("JetStream", "jetstream"),
    ReportColumn("Conns", "connections", _NUMBER),
    ReportColumn("Subs", "subscriptions", _NUMBER),
    ReportColumn("Routes", "route_count", _NUMBER, is_optional=True),
    ReportColumn("Gateways", "gateway_count", _NUMBER, is_optional=True),
    ReportColumn("Memory", "mem", _SIZE),
    ReportColumn("CPU", "cpu", _NUMBER),
    ReportColumn("Slow", "slow_consumers", _NUMBER),
    ReportColumn("Started", "start", _TIME, is_optional=True),
    ReportColumn("RTT", "rtt_ns", _DURATION),
)
_SORTS: Final = {
    "name": "server",
    "cluster": "cluster",
    "conns": "connections",
    "subs": "subscriptions",
    "routes": "route_count",
    "gateways": "gateway_count",
    "mem": "mem",
    "cpu": "cpu",
    "slow": "slow_consumers",
    "start": "start",
    "rtt": "rtt_ns",
    "version": "ver",
}


def _expected(call: Call) -> int | None:
    here: int | None = call.options.servers
    if here is not None and call.options.expect is not None:
        raise CommandError("the number of servers stands there twice", ExitCode.WRONG_USE)
    found: int | None = call.options.expect if here is None else here
    return found


def ls(call: Call) -> ExitCode | None:
    """Print the servers; a silent one, or fewer than expected, is `WRONG`.

    Raises: CommandError, ClientError.
    """
    expect = _expected(call)

    def once(source: ServerSource, is_many: bool) -> ExitCode | None:
        answers = source.ask("STATSZ", among=among(call), expect=expect)
        items = []
        for answer in answers.answers:
            said = {**answer.server, **answer.data, "jetstream": bool(answer.server.get("jetstream"))}
            counts = {
                name: len(answer.data[key])
                for name, key in (("route_count", "routes"), ("gateway_count", "gateways"))
                if isinstance(answer.data.get(key), list)
            }
            items.append(item_of(answer, {**said, **counts, "rtt_ns": answer.rtt_ns}))
        missing = [*answers.missing, *failed(answers.answers)]
        listing = ServerListing(items, missing, source.scope)
        shown_listing(call, "Servers", listing, _COLUMNS, _SORTS[call.options.sort], as_line=is_many)
        return ExitCode.WRONG if missing else None

    return watched(call, once)


def ping(call: Call) -> ExitCode | None:
    """Print each server's answer to a ping, and how long it took. Raises: CommandError, ClientError."""
    expect, rounds = _expected(call), call.options.count
    if rounds < 1:
        raise CommandError("--count is at least 1", ExitCode.WRONG_USE)
    is_missing = False
    with server_source(call) as source:
        for number in range(rounds):
            if number:
                time.sleep(call.options.interval / 1e9)
            answers = source.ask("STATSZ", among=among(call), expect=expect)
            for answer in answers.answers:
                found = item_of(
                    answer,
                    {
                        "server_id": answer.server.get("id"),
                        "host": answer.server.get("host"),
                        "rtt_ns": answer.rtt_ns,
                    },
                )
                call.out.event(found, partial(_show_ping, call, found), quiet=answer.name)
            for each in answers.missing:
                is_missing = True
                call.out.event(each, partial(_show_silence, call, each))
    return ExitCode.WRONG if is_missing else None


def _show_ping(call: Call, found: Mapping[str, Any]) -> None:
    from headrace.cli.text_table import exact_value, shown_value

    if call.out.is_terminal:
        call.out.line(f"{found['server']}  {shown_value(found['rtt_ns'], _DURATION)}")
    else:
        call.out.line(f"{found['server']} {exact_value(found['rtt_ns'], _DURATION)}")


def _show_silence(call: Call, missing: Mapping[str, Any]) -> None:
    call.out.line(f"{missing['server']}  {missing['error']}", "red")


def info(call: Call) -> ExitCode | None:
    """Print a server's facts, its `VARZ`. Raises: CommandError if it is not there; ClientError."""
    wanted = call.options.server_name
    with server_source(call) as source:
        try:
            found = _varz(call, source, wanted)
        except ServerSourceError:
            if wanted is not None:
                raise
            _own_info(call)
            return None
    call.out.document(found, lambda: _show_info(call, found), quiet=str(found.get("server_name", "")))
    return None


def _varz(call: Call, source: ServerSource, wanted: str | None) -> Document:
    """The VARZ of a server by its name or id, else of the one that is connected to."""
    if wanted is None and isinstance(source, SystemSource):
        wanted = source.connection.server_info.server_id
    answers = source.ask("VARZ")
    matching = [
        answer
        for answer in answers.answers
        if wanted is None or wanted in (answer.name, answer.server.get("id"))
    ]
    if not matching:
        names = ", ".join(answer.name for answer in answers.answers)
        raise CommandError(f"no server {wanted!r} answers; there are: {names}", ExitCode.NOT_THERE)
    if len(matching) > 1:
        names = ", ".join(answer.name for answer in matching)
        raise CommandError(f"name one of these servers: {names}", ExitCode.WRONG_USE)
    answer = matching[0]
    if answer.error is not None:
        raise CommandError(answer.error, ExitCode.REFUSED)
    return answer.data


def _own_info(call: Call) -> None:
    """Print what the server says to every client."""
    with call.connected() as connection:
        fields = connection.server_info.fields
        found = {name: value for name, value in fields.items() if name not in ("nonce", "client_ip")}
    found["scope"] = "account"
    call.out.note(f"{ACCOUNT_ONLY}: all facts take a user of the system account, or --monitor")
    call.out.document(found, lambda: _show_info(call, found), quiet=str(found.get("server_name", "")))


def _show_info(call: Call, found: Mapping[str, Any]) -> None:
    cluster, jetstream = found.get("cluster"), found.get("jetstream")
    used = jetstream.get("stats") or {} if isinstance(jetstream, dict) else {}
    limits = jetstream.get("config") or {} if isinstance(jetstream, dict) else {}
    call.out.facts(
        (
            ("server", found.get("server_name")),
            ("id", found.get("server_id")),
            ("version", found.get("version")),
            ("cluster", cluster.get("name") if isinstance(cluster, dict) else cluster),
            ("tags", ", ".join(found.get("tags") or ()) or None),
            ("address", f"{found.get('host')}:{found.get('port')}"),
            ("started", _time(found.get("start")), _TIME),
            ("authentication", bool(found.get("auth_required"))),
            ("tls", bool(found.get("tls_required"))),
            ("largest message", found.get("max_payload"), _SIZE),
            ("most connections", found.get("max_connections"), _NUMBER),
            *_used(found),
            ("jetstream", bool(limits) if isinstance(jetstream, dict) else bool(jetstream)),
            ("jetstream folder", limits.get("store_dir")),
            ("jetstream memory", used.get("memory"), _SIZE),
            ("jetstream memory limit", limits.get("max_memory"), _SIZE),
            ("jetstream file", used.get("storage"), _SIZE),
            ("jetstream file limit", limits.get("max_storage"), _SIZE),
        ),
        str(found.get("server_name", "")),
    )


def _used(found: Mapping[str, Any]) -> Iterable[tuple[str, Any, ColumnKind]]:
    for title, key, kind in (
        ("connections", "connections", _NUMBER),
        ("connections ever", "total_connections", _NUMBER),
        ("subscriptions", "subscriptions", _NUMBER),
        ("routes", "routes", _NUMBER),
        ("leafnodes", "leafnodes", _NUMBER),
        ("memory", "mem", _SIZE),
        ("cpu percent", "cpu", _NUMBER),
        ("messages in", "in_msgs", _NUMBER),
        ("messages out", "out_msgs", _NUMBER),
        ("bytes in", "in_bytes", _SIZE),
        ("bytes out", "out_bytes", _SIZE),
        ("slow consumers", "slow_consumers", _NUMBER),
    ):
        yield title, found.get(key), kind


def _time(text: str | None) -> int | None:
    from headrace.protocol.rfc3339 import parse_time

    return None if not text else parse_time(text)
