"""`headrace stream info`, `state`, `subjects` and `gaps`: one stream, looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.cli.outcomes import ExitCode

if TYPE_CHECKING:
    from headrace.cli.call import Call

_ZERO_TIME: Final = "0001-01-01T00:00:00Z"
_PARTS: Final = ("name", "subjects", "metadata")
"""Fields of a configuration that are shown apart."""


def info(call: Call) -> None:
    """Show a stream. Raises: JetStreamMissingError."""
    found = _info(call, ">" if call.options.subjects else None)
    if call.options.state:
        _show_state(call, found["state"])
        return
    call.out.document(found, lambda: show_info(call, found), quiet=str(found["config"]["name"]))


def state(call: Call) -> None:
    """Show the state of a stream. Raises: JetStreamMissingError."""
    _show_state(call, _info(call, None)["state"])


def subjects(call: Call) -> ExitCode | None:
    """Count the messages of each subject. Raises: JetStreamMissingError."""
    counted = _info(call, call.options.filter or ">")["state"]["subjects"]
    items = [{"subject": name, "messages": count} for name, count in sorted(counted.items())]
    if call.options.sort == "count":
        items.sort(key=lambda item: -item["messages"])
    shown = items if call.options.limit is None else items[: call.options.limit]

    if getattr(call.options, "names", False):
        call.out.is_quiet = True

    def show() -> None:
        from headrace.cli.text_table import ColumnKind, TextColumn

        columns = (TextColumn("Subject"), TextColumn("Messages", ColumnKind.NUMBER))
        call.out.table(columns, [(item["subject"], item["messages"]) for item in shown])

    call.out.listing(shown, show, total=len(items), name="subject")
    return ExitCode.NOT_THERE if call.options.fail_empty and not items else None


def gaps(call: Call) -> ExitCode | None:
    """List the sequences without a message. Raises: JetStreamMissingError."""
    from headrace.client.api import JetStreamAssets

    with call.connected() as connection:
        found = JetStreamAssets(call.api(connection)).stream_info(call.options.stream, with_deleted=True)
    items: list[dict[str, Any]] = []
    for sequence in sorted(found["state"].get("deleted") or ()):
        if items and items[-1]["last"] == sequence - 1:
            items[-1]["last"] = sequence
            items[-1]["messages"] += 1
        else:
            items.append({"first": sequence, "last": sequence, "messages": 1})

    def show() -> None:
        from headrace.cli.text_table import ColumnKind, TextColumn

        columns = [TextColumn(name, ColumnKind.NUMBER) for name in ("First", "Last", "Messages")]
        call.out.table(columns, [(item["first"], item["last"], item["messages"]) for item in items])

    call.out.listing(items, show, name="first")
    return ExitCode.NOT_THERE if call.options.fail_empty and not items else None


def _info(call: Call, counted: str | None) -> dict[str, Any]:
    from headrace.client.api import JetStreamAssets

    with call.connected() as connection:
        return JetStreamAssets(call.api(connection)).stream_info(call.options.stream, subjects=counted)


def _show_state(call: Call, found: dict[str, Any]) -> None:
    call.out.document(found, lambda: _state_facts(call, found), quiet=str(found["messages"]))


def show_info(call: Call, found: dict[str, Any]) -> None:
    """Print a stream for people: its configuration, its state, where its messages come from."""
    from headrace.cli.client.config_changes import metadata_facts
    from headrace.cli.client.stream_config import config_facts
    from headrace.cli.text_table import ColumnKind

    config = found["config"]
    call.out.facts(
        (
            ("name", config["name"]),
            ("subjects", ", ".join(config.get("subjects") or ()) or None),
            ("created", moment_of(found.get("created")), ColumnKind.TIME),
            *config_facts({name: value for name, value in config.items() if name not in _PARTS}),
            *metadata_facts(config),
        ),
        title=f"Stream {config['name']}",
    )
    cluster = found.get("cluster") or {}
    if cluster:
        peers = ", ".join(_peer(peer) for peer in cluster.get("replicas") or ())
        call.out.facts(
            (
                ("cluster", cluster.get("name")),
                ("leader", cluster.get("leader")),
                ("followers", peers or None),
            ),
            title="Cluster",
        )
    origins = [found["mirror"]] if found.get("mirror") else found.get("sources") or ()
    for origin in origins:
        call.out.facts(
            (
                ("of stream", origin["name"]),
                ("behind", origin.get("lag", 0), ColumnKind.NUMBER),
                ("heard ago", ago if (ago := origin.get("active", -1)) >= 0 else None, ColumnKind.DURATION),
            ),
            title="Mirror" if found.get("mirror") else "Source",
        )
        if origin.get("error"):
            call.out.warn(f"{origin['name']}: {origin['error'].get('description')}")
    _state_facts(call, found["state"], title="State")


def _peer(peer: dict[str, Any]) -> str:
    words = [] if peer.get("current") else ["behind"]
    words += ["offline"] if peer.get("offline") else []
    return f"{peer['name']} ({', '.join(words)})" if words else str(peer["name"])


def _state_facts(call: Call, found: dict[str, Any], title: str = "") -> None:
    from headrace.cli.text_table import ColumnKind

    number, moment = ColumnKind.NUMBER, ColumnKind.TIME
    call.out.facts(
        (
            ("messages", found["messages"], number),
            ("bytes", found["bytes"], ColumnKind.SIZE),
            ("first sequence", found["first_seq"], number),
            ("first time", moment_of(found.get("first_ts")), moment),
            ("last sequence", found["last_seq"], number),
            ("last time", moment_of(found.get("last_ts")), moment),
            ("subject count", found.get("num_subjects", 0), number),
            ("deleted", found.get("num_deleted", 0), number),
            ("consumers", found.get("consumer_count", 0), number),
        ),
        title=title,
    )
    counted = found.get("subjects")
    if counted:
        call.out.facts(((name, count, number) for name, count in sorted(counted.items())), title="Subjects")


def moment_of(text: str | None) -> int | None:
    """Return a time of the server in ns since 1970 UTC; None for none, and for its zero."""
    from headrace.protocol.rfc3339 import parse_time

    return None if text is None or text == _ZERO_TIME else parse_time(text)
