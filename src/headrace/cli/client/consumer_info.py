"""`headrace consumer ls`, `report`, `info` and `state`: consumers as they are."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.outcomes import ExitCode
from headrace.protocol.rfc3339 import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cli.call import Call
    from headrace.client.api import JetStreamAssets

Info = dict[str, Any]

_ORDERS: Final = ("lag", "pending", "unacked", "redelivered")


def list_all(call: Call) -> ExitCode | None:
    """List the consumers of a stream. Raises: ClientError."""
    from headrace.client.api import JetStreamAssets

    with call.connected() as connection:
        infos = list(JetStreamAssets(call.api(connection)).consumers(call.options.stream))
    infos.sort(key=lambda info: str(info["name"]))

    def show() -> None:
        if call.options.names:
            for info in infos:
                call.out.line(info["name"])
            return
        from headrace.cli.text_table import ColumnKind, TextColumn

        number = ColumnKind.NUMBER
        columns = (
            TextColumn("Name"),
            TextColumn("Mode", can_be_cut=False),
            TextColumn("Filter"),
            TextColumn("Ack", can_be_cut=False),
            TextColumn("Pending", number),
            TextColumn("Unacked", number),
            TextColumn("Last delivery", ColumnKind.TIME),
        )
        rows = [
            (
                info["name"],
                mode_of(info),
                ", ".join(filters_of(info)),
                info["config"].get("ack_policy", ""),
                info["num_pending"],
                info["num_ack_pending"],
                moment_of(info["delivered"].get("last_active")),
            )
            for info in infos
        ]
        call.out.table(columns, rows)

    call.out.listing([{"name": info["name"]} for info in infos] if call.options.names else infos, show)
    return ExitCode.NOT_THERE if call.options.fail_empty and not infos else None


def report(call: Call) -> ExitCode | None:
    """Show the consumers of a stream with what is not done. Raises: ClientError."""
    from headrace.client.api import JetStreamAssets

    stream = call.options.stream
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        items = [_facts(assets, stream, info) for info in assets.consumers(stream)]
    items.sort(key=lambda item: str(item["name"]))
    if call.options.sort in _ORDERS:
        items.sort(key=lambda item: int(item[call.options.sort]), reverse=True)

    call.out.listing(items, lambda: _show_report(call, items))
    return ExitCode.NOT_THERE if call.options.fail_empty and not items else None


def _show_report(call: Call, items: list[Info]) -> None:
    """Print a report: on a terminal with how long ago things were, which takes less room than times."""
    from headrace.cli.text_table import ColumnKind, TextColumn

    number, is_terminal = ColumnKind.NUMBER, call.out.is_terminal
    moment = ColumnKind.DURATION if is_terminal else ColumnKind.TIME
    now = time.time_ns()

    def shown(item: Info, key: str) -> int | None:
        when = moment_of(item.get(key))
        return when if when is None or not is_terminal else max(now - when, 0)

    columns = [
        TextColumn("Name"),
        TextColumn("Mode", can_be_cut=False, is_optional=True),
        TextColumn("Pending", number),
        TextColumn("Unacked", number),
        TextColumn("Redelivered", number),
        TextColumn("Lag", number, is_optional=True),
        TextColumn("Lag time", ColumnKind.DURATION),
        TextColumn("Delivered" if is_terminal else "Last delivery", moment),
        TextColumn("Acked" if is_terminal else "Last ack", moment, is_optional=True),
    ]
    rows = [
        [
            *(item[key] for key in ("name", "mode", "pending", "unacked", "redelivered", "lag")),
            item.get("lag_ns"),
            shown(item, "last_delivery"),
            shown(item, "last_ack"),
        ]
        for item in items
    ]
    if not is_terminal or any("paused_until" in item for item in items):
        columns.append(TextColumn("Paused until", ColumnKind.TIME))
        for row, item in zip(rows, items, strict=True):
            row.append(moment_of(item.get("paused_until")))
    call.out.table(columns, rows)


def info(call: Call) -> None:
    """Show a consumer. Raises: ClientError."""
    found = _asked(call)
    call.out.document(found, lambda: show_info(call, found), quiet=str(found["name"]))


def state(call: Call) -> None:
    """Show the state of a consumer. Raises: ClientError."""
    found = _asked(call)
    found.pop("config", None)
    call.out.document(found, lambda: _show_state(call, found), quiet=str(found["name"]))


def show_info(call: Call, found: Info) -> None:
    """Print the info of a consumer for people: its configuration, then its state."""
    from headrace.cli.client.config_changes import metadata_facts
    from headrace.cli.client.consumer_config import DEAD_LETTERS, shown_field
    from headrace.cli.text_table import ColumnKind

    config = found["config"]
    duration, number = ColumnKind.DURATION, ColumnKind.NUMBER
    metadata = config.get("metadata") or {}
    call.out.facts(
        (
            ("stream", found["stream_name"]),
            ("name", found["name"]),
            ("description", config.get("description") or None),
            ("created", moment_of(found.get("created")), ColumnKind.TIME),
            ("mode", mode_of(found)),
            ("durable", bool(config.get("durable_name"))),
            ("target", config.get("deliver_subject") or None),
            ("deliver group", config.get("deliver_group") or None),
            ("filter", ", ".join(filters_of(found)) or None),
            ("begins with", _beginning(config)),
            ("ack", config.get("ack_policy")),
            ("ack wait", config.get("ack_wait") or None, duration),
            ("max deliver", most if (most := config.get("max_deliver") or -1) > 0 else None, number),
            ("backoff", shown_field("backoff", config.get("backoff") or None) or None),
            ("max pending", config.get("max_ack_pending") or None, number),
            ("max waiting", config.get("max_waiting") or None, number),
            ("max batch", config.get("max_batch") or None, number),
            ("max expires", config.get("max_expires") or None, duration),
            ("max bytes", config.get("max_bytes") or None, ColumnKind.SIZE),
            ("replay", config.get("replay_policy")),
            ("headers only", config.get("headers_only") or None),
            ("heartbeat", config.get("idle_heartbeat") or None, duration),
            ("flow control", config.get("flow_control") or None),
            ("inactive after", config.get("inactive_threshold") or None, duration),
            ("priority groups", ", ".join(config.get("priority_groups") or ()) or None),
            ("priority policy", config.get("priority_policy") if config.get("priority_groups") else None),
            ("dead letters", metadata.get(DEAD_LETTERS)),
            *metadata_facts(config, but=DEAD_LETTERS),
            ("replicas", config.get("num_replicas") or None, number),
        ),
        title=f"Consumer {found['name']} of {found['stream_name']}",
    )
    _show_state(call, {**found, "stream_name": None, "name": None}, title="State")


def _show_state(call: Call, found: Info, title: str = "") -> None:
    from headrace.cli.text_table import ColumnKind

    number, moment = ColumnKind.NUMBER, ColumnKind.TIME
    is_push = "push_bound" in found or bool((found.get("config") or {}).get("deliver_subject"))
    delivered, floor = found["delivered"], found["ack_floor"]
    groups = ", ".join(
        f"{group.get('group')}: {group.get('pinned_client_id') or 'nobody'}"
        for group in found.get("priority_groups") or ()
    )
    call.out.facts(
        (
            ("stream", found["stream_name"]),
            ("name", found["name"]),
            ("pending", found["num_pending"], number),
            ("unacked", found["num_ack_pending"], number),
            ("redelivered", found["num_redelivered"], number),
            ("waiting pulls", None if is_push else found["num_waiting"], number),
            ("delivered up to", delivered["stream_seq"], number),
            ("last delivery", moment_of(delivered.get("last_active")), moment),
            ("acknowledged up to", floor["stream_seq"], number),
            ("last ack", moment_of(floor.get("last_active")), moment),
            ("listened to", found.get("push_bound")),
            ("paused", found.get("paused")),
            ("goes on in", found.get("pause_remaining"), ColumnKind.DURATION),
            ("pinned", groups or None),
            ("leader", (found.get("cluster") or {}).get("leader")),
        ),
        title=title,
    )


def mode_of(info: Info) -> str:
    """Return `push` or `pull`."""
    return "push" if info["config"].get("deliver_subject") else "pull"


def filters_of(info: Info) -> list[str]:
    """Return the subjects that a consumer wants; none is all."""
    config = info["config"]
    return [*(config.get("filter_subjects") or ()), *filter(None, [config.get("filter_subject")])]


def moment_of(text: str | None) -> int | None:
    """Return a time of an answer as ns since 1970 UTC; None where it is absent or Go's zero time."""
    return None if not text or text.startswith("0001-") else parse_time(text)


def _asked(call: Call) -> Info:
    from headrace.client.api import JetStreamAssets

    with call.connected() as connection:
        found = JetStreamAssets(call.api(connection)).consumer_info(
            call.options.stream, call.options.consumer
        )
    found.pop("type", None)
    return found


def _facts(assets: JetStreamAssets, stream: str, info: Info) -> Info:
    lag = info["num_pending"] + info["num_ack_pending"]
    found = {
        "name": info["name"],
        "mode": mode_of(info),
        "ack_policy": info["config"].get("ack_policy"),
        "pending": info["num_pending"],
        "unacked": info["num_ack_pending"],
        "redelivered": info["num_redelivered"],
        "waiting": info["num_waiting"],
        "lag": lag,
        "lag_ns": _lag_ns(assets, stream, info) if lag else None,
        "last_delivery": info["delivered"].get("last_active"),
        "last_ack": info["ack_floor"].get("last_active"),
        "paused_until": info["config"].get("pause_until") if info.get("paused") else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _lag_ns(assets: JetStreamAssets, stream: str, info: Info) -> int | None:
    """The age of the first message behind what was acknowledged; None if it went meanwhile."""
    now = moment_of(info.get("ts"))
    first = min(_times(assets, stream, info), default=None)
    if now is None:
        now = time.time_ns()
    return None if first is None else max(now - first, 0)


def _times(assets: JetStreamAssets, stream: str, info: Info) -> Iterator[int]:
    from headrace.client.errors import JetStreamMissingError

    behind = info["ack_floor"]["stream_seq"] + 1
    for subject in filters_of(info) or [">"]:
        try:
            yield assets.message(stream, behind, next_of=subject).time_ns
        except JetStreamMissingError:
            continue  # what this filter wants is done


def _beginning(config: Info) -> str:
    policy = str(config.get("deliver_policy"))
    if policy == "by_start_sequence":
        return f"sequence {config.get('opt_start_seq')}"
    if policy == "by_start_time":
        return str(config.get("opt_start_time"))
    return policy.replace("_", " ")
