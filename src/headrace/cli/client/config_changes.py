"""Configurations of streams, consumers and buckets, compared and shown: what differs, what a change would do.

Here lives what these have in common. Never lives here: defaults of fields and how values are shown
(`stream_config`, `consumer_config`), asking a server.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from headrace.cli.call import Call

SERVER_METADATA: Final = "_nats."
"""The beginning of the entries of metadata that servers write."""

Changes = dict[str, dict[str, Any]]
"""The values `before` and `after` of each field that differs; None where a side does not say one."""


def without_server_metadata(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without the entries of its metadata that the server itself makes."""
    kept = own_metadata(config)
    found = {name: value for name, value in config.items() if name != "metadata"}
    return {**found, "metadata": kept} if kept else found


def own_metadata(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the entries of the metadata that users made."""
    metadata = config.get("metadata") or {}
    return {name: value for name, value in metadata.items() if not name.startswith(SERVER_METADATA)}


def metadata_facts(config: Mapping[str, Any], *, but: str = "") -> Iterator[tuple[str, str]]:
    """Yield the entries of the metadata that users made, as `Output.facts` takes it; not that named `but`."""
    for name, value in own_metadata(config).items():
        if name != but:
            yield f"metadata {name}", value


def changes_between(old: Mapping[str, Any], new: Mapping[str, Any]) -> Changes:
    """Return the fields that differ between two configurations that have their defaults."""
    return {
        name: {"before": old.get(name), "after": new.get(name)}
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    }


def all_new(config: Mapping[str, Any]) -> Changes:
    """Return the fields of something that would be made, but its name."""
    return {field: {"before": None, "after": value} for field, value in config.items() if field != "name"}


def show_changes(call: Call, changes: Changes, shown_field: Callable[[str, Any], str]) -> None:
    """Print a table of what is before and after: for people with units, for programs as `--json` has it."""
    from headrace.cli.text_table import TextColumn

    shown = shown_field if call.out.is_terminal else _exact
    columns = (TextColumn("Field", can_be_cut=False), TextColumn("Before"), TextColumn("After"))
    rows = [
        (field, shown(field, change["before"]), shown(field, change["after"]))
        for field, change in changes.items()
    ]
    call.out.table(columns, rows)


def _exact(_field: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def say_changes(
    call: Call,
    document: Mapping[str, Any],
    changes: Changes,
    shown_field: Callable[[str, Any], str],
) -> ExitCode | None:
    """Print the changes that a dry run found of what a document names; return 3 if there are any."""
    name = str(document["name"])
    if changes:
        call.out.document(
            {**document, "changes": changes}, lambda: show_changes(call, changes, shown_field), quiet=name
        )
        return ExitCode.WRONG
    call.out.document(
        {**document, "changes": changes}, lambda: call.out.line(f"{name}: unchanged"), quiet=name
    )
    return None


def other_settings(what: str, changes: Changes, shown_field: Callable[[str, Any], str]) -> CommandError:
    """Return the error about something that is there with other settings; `what` names it."""
    fields = ", ".join(
        f"{field} is {shown_field(field, change['before']) or 'not set'}" for field, change in changes.items()
    )
    text = f"{what} is there with other settings{': ' if fields else ''}{fields}"
    return CommandError(text, ExitCode.EXISTS)
