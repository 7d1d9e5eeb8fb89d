"""`headrace stream ls`, `report` and `find`: many streams at a glance."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.client.stream_info import moment_of
from headrace.cli.outcomes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.cli.call import Call

_INNER: Final = ("KV_", "OBJ_", "$MQTT_")
"""The beginnings of names of streams that are something else to people."""

Info = dict[str, Any]


def list_all(call: Call) -> ExitCode | None:
    """List the streams."""
    infos, errors = _streams(call)
    return _listed(call, _sorted(_shown(call, infos), call.options.sort), errors)


def report(call: Call) -> ExitCode | None:
    """Show streams with what they have, and how far they are behind."""
    infos, errors = _streams(call)
    items = [_facts(info) for info in _sorted(_shown(call, infos), call.options.sort)]

    def show() -> None:
        from headrace.cli.text_table import ColumnKind, TextColumn

        number = ColumnKind.NUMBER
        columns = (
            TextColumn("Name"),
            TextColumn("Storage", can_be_cut=False, is_optional=True),
            TextColumn("Messages", number),
            TextColumn("Size", ColumnKind.SIZE),
            TextColumn("Consumers", number),
            TextColumn("Subjects", number, is_optional=True),
            TextColumn("Deleted", number, is_optional=True),
            TextColumn("Lag", number),
            TextColumn("Last message", ColumnKind.TIME),
            TextColumn("Leader"),
        )
        rows = [
            (
                item["name"], item["storage"], item["messages"], item["size_bytes"], item["consumers"],
                item["subjects"], item["deleted"], item.get("lag"), moment_of(item.get("last_time")),
                item.get("leader", ""),
            )
            for item in items
        ]  # fmt: skip
        call.out.table(columns, rows)

    call.out.listing(items, show, total=len(items) + len(errors), errors=errors)
    return _empty(call, items)


def find(call: Call) -> ExitCode | None:
    """List the streams that fit all that is said. Raises: CommandError for a bad condition."""
    from headrace.cli.conditions import conditions

    options = call.options
    tests: list[Callable[[Info], bool]] = [condition.holds for condition in conditions(options.where)]
    if options.empty:
        tests.append(lambda info: not info["state"]["messages"])
    if options.no_consumers:
        tests.append(lambda info: not info["state"].get("consumer_count", 0))
    if options.idle is not None:
        before = time.time_ns() - options.idle
        tests.append(lambda info: (_last_ns(info) or moment_of(info["created"]) or 0) < before)
    infos, errors = _streams(call)
    fitting = [info for info in infos if all(test(info) for test in tests) is not options.invert]
    return _listed(call, _sorted(fitting, "name"), errors)


def _listed(call: Call, infos: list[Info], errors: list[Info]) -> ExitCode | None:
    names = [info["config"]["name"] for info in infos]

    def show() -> None:
        if call.options.names:
            for name in names:
                call.out.line(name)
            return
        from headrace.cli.text_table import ColumnKind, TextColumn

        columns = (
            TextColumn("Name"),
            TextColumn("Subjects"),
            TextColumn("Messages", ColumnKind.NUMBER),
            TextColumn("Size", ColumnKind.SIZE),
            TextColumn("Consumers", ColumnKind.NUMBER),
            TextColumn("Last message", ColumnKind.TIME),
        )
        rows = [
            (
                info["config"]["name"],
                ", ".join(info["config"].get("subjects") or ()),
                info["state"]["messages"],
                info["state"]["bytes"],
                info["state"].get("consumer_count", 0),
                _last_ns(info),
            )
            for info in infos
        ]
        call.out.table(columns, rows)

    total = len(infos) + len(errors)
    if call.options.names:
        call.out.listing([{"name": name} for name in names], show, total=total, errors=errors)
    else:
        call.out.listing(infos, show, total=total, errors=errors, name="config.name")
    return _empty(call, infos)


def _empty(call: Call, items: list[Info]) -> ExitCode | None:
    return ExitCode.NOT_THERE if call.options.fail_empty and not items else None


def _shown(call: Call, infos: list[Info]) -> list[Info]:
    """The streams, without those of buckets and of MQTT unless all are wanted, or those of a subject."""
    if call.options.all or call.options.subject is not None:
        return infos
    return [info for info in infos if not info["config"]["name"].startswith(_INNER)]


def _streams(call: Call) -> tuple[list[Info], list[Info]]:
    """The streams, those that take a subject if there is one, and errors about those that are not known."""
    from headrace.client.api import JetStreamAssets

    errors: list[Info] = []
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        infos = list(
            assets.streams(
                call.options.subject,
                missing=lambda name, reason: errors.append({"name": name, "error": reason}),
            )
        )
    return infos, errors


def _sorted(infos: list[Info], order: str) -> list[Info]:
    by_name = sorted(infos, key=lambda info: str(info["config"]["name"]))
    if order == "name":
        return by_name
    numbers: dict[str, Callable[[Info], int]] = {
        "messages": lambda info: int(info["state"]["messages"]),
        "bytes": lambda info: int(info["state"]["bytes"]),
        "consumers": lambda info: int(info["state"].get("consumer_count", 0)),
        "last": lambda info: _last_ns(info) or 0,
        "lag": lambda info: _lag(info) or 0,
    }
    return sorted(by_name, key=numbers[order], reverse=True)


def _facts(info: Info) -> Info:
    config, state = info["config"], info["state"]
    found: Info = {
        "name": config["name"],
        "storage": config["storage"],
        "retention": config["retention"],
        "messages": state["messages"],
        "size_bytes": state["bytes"],
        "consumers": state.get("consumer_count", 0),
        "subjects": state.get("num_subjects", 0),
        "deleted": state.get("num_deleted", 0),
        "first_sequence": state["first_seq"],
        "last_sequence": state["last_seq"],
        "last_time": state.get("last_ts") if _last_ns(info) else None,
        "lag": _lag(info),
        "origins": _origins(info) or None,
        "leader": (info.get("cluster") or {}).get("leader"),
        "replicas": config.get("num_replicas", 1),
    }
    return {name: value for name, value in found.items() if value is not None}


def _origins(info: Info) -> list[Info]:
    mirror = info.get("mirror")
    return [mirror] if mirror else list(info.get("sources") or ())


def _lag(info: Info) -> int | None:
    origins = _origins(info)
    return sum(int(origin.get("lag", 0)) for origin in origins) if origins else None


def _last_ns(info: Info) -> int | None:
    """The time of the last message; None if there never was one."""
    return moment_of(info["state"].get("last_ts"))
