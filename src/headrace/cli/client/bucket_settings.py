"""Settings of buckets: what flags make of the configuration of their stream, and how two differ.

Here lives what `kv` and `object` have in common. Never lives here: reading and writing of keys and objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.cli.call import Call

_NOTES_OF_SERVERS: Final = "_nats."
"""The beginning of entries of metadata that servers write."""
_FIELDS: Final = {
    "history": "max_msgs_per_subject",
    "ttl": "max_age",
    "max_bytes": "max_bytes",
    "max_value_size": "max_msg_size",
    "replicas": "num_replicas",
    "description": "description",
}
"""The fields of a stream's configuration by the flags that set them."""

Changes = dict[str, dict[str, Any]]


def changed_config(call: Call, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with what the flags say."""
    options = call.options
    found = dict(config)
    for flag, name in _FIELDS.items():
        value = getattr(options, flag, None)
        if value is not None:
            found[name] = -1 if value == 0 and name in ("max_bytes", "max_msg_size") else value
    if getattr(options, "ttl", None) is not None and found.get("max_age"):
        # The server wants a window of duplicates that is not longer than the life of values.
        found["duplicate_window"] = min(found.get("duplicate_window") or found["max_age"], found["max_age"])
    if getattr(options, "marker_ttl", None) is not None:
        found["subject_delete_marker_ttl"] = options.marker_ttl
        if options.marker_ttl:
            found["allow_msg_ttl"] = True
    if options.compression:
        found["compression"] = "s2"
    if getattr(options, "no_compression", False):
        found["compression"] = "none"
    if options.metadata:
        found["metadata"] = {**(found.get("metadata") or {}), **dict(options.metadata)}
    if options.cluster is not None or options.tag:
        placement = dict(found.get("placement") or {})
        if options.cluster is not None:
            placement["cluster"] = options.cluster
        if options.tag:
            placement["tags"] = [tag for each in options.tag for tag in each.split(",")]
        found["placement"] = placement
    return found


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Changes:
    """Return the fields that `after` has otherwise than `before`, with both values.

    A field that is not there is one that says nothing: 0, "", false; limits say -1.
    """
    found: Changes = {}
    for name, value in after.items():
        old = before.get(name)
        if _plain(name, old) != _plain(name, value):
            found[name] = {"before": old, "after": value}
    for each in found.values():
        if each["before"] is None:
            del each["before"]
    return found


def _plain(name: str, value: Any) -> Any:
    if name == "metadata":
        value = {key: text for key, text in (value or {}).items() if not key.startswith(_NOTES_OF_SERVERS)}
    if isinstance(value, dict):
        value = {key: _plain(key, each) for key, each in value.items() if _plain(key, each) is not None}
    if isinstance(value, list):
        value = [_plain("", each) for each in value]
    if name == "compression" and value == "none":
        return None
    return None if value in (None, 0, -1, "", {}, []) else value


def limit_of(value: int | None) -> int | None:
    """Return a limit of a configuration; None for -1, which says that there is none."""
    return None if value is None or value < 0 else value


def show_changes(call: Call, changes: Changes) -> None:
    """Print a table of what is before and after."""
    from headrace.cli.text_table import TextColumn

    columns = (TextColumn("Field"), TextColumn("Before"), TextColumn("After"))
    rows = [(name, each.get("before", ""), each.get("after", "")) for name, each in changes.items()]
    call.out.table(columns, rows)


def made(
    call: Call,
    kind: str,
    config: Mapping[str, Any],
    document: Callable[[Mapping[str, Any]], dict[str, Any]],
    show: Callable[[Mapping[str, Any]], object],
) -> ExitCode | None:
    """Make the stream of a bucket and print it; one with the same settings is left as it is.

    `document` and `show` are of an info. Raises: CommandError if it is there with other settings.
    """
    from headrace.client.api import JetStreamAssets
    from headrace.client.errors import JetStreamMissingError

    options = call.options
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        try:
            info = assets.stream_info(str(config["name"]))
        except JetStreamMissingError:
            info = None
        if info is not None:
            changes = differences(info["config"], config)
            if changes and not options.if_not_exists:
                text = f"bucket {options.bucket} is there with another {', '.join(changes)}"
                raise CommandError(f"{text}: edit changes it", ExitCode.EXISTS)
            call.out.note("unchanged")
        elif not options.dry_run:
            answer = assets.create_stream(config)
            call.out.document(
                {**document(answer), "changed": True}, lambda: show(answer), quiet=options.bucket
            )
            return None
    if info is not None:
        call.out.document({**document(info), "changed": False}, lambda: show(info), quiet=options.bucket)
        return None
    changes = differences({}, config)
    found = {"bucket": options.bucket, "stream": config["name"], "changed": True, "changes": changes}

    def would() -> None:
        call.out.line(f"{kind} {options.bucket} would be made")
        show_changes(call, changes)

    call.out.document(found, would, quiet=options.bucket)
    return ExitCode.WRONG


def edited(
    call: Call,
    kind: str,
    stream: str,
    document: Callable[[Mapping[str, Any]], dict[str, Any]],
) -> ExitCode | None:
    """Change the stream of a bucket as the flags say, and print what changed."""
    from headrace.client.api import JetStreamAssets

    options = call.options
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        info = assets.stream_info(stream)
        config = changed_config(call, info["config"])
        changes = differences(info["config"], config)
        if changes and not options.dry_run:
            info = assets.update_stream(config)

    def show() -> None:
        if not changes:
            call.out.line(f"{kind} {options.bucket} is unchanged")
            return
        call.out.line(f"{kind} {options.bucket} {'would change' if options.dry_run else 'changed'}")
        show_changes(call, changes)

    found = {**document(info), "changed": bool(changes), "changes": changes}
    call.out.document(found, show, quiet=options.bucket)
    return ExitCode.WRONG if changes and options.dry_run else None


def removed(call: Call, stream: str, what: str) -> ExitCode | None:
    """Remove the stream of a bucket after asking for its name; `what` names its messages.

    Raises: CommandError for a no.
    """
    from headrace.cli.values import shown_size
    from headrace.client.api import JetStreamAssets
    from headrace.client.errors import JetStreamMissingError

    options = call.options
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        try:
            state = assets.stream_info(stream)["state"]
        except JetStreamMissingError:
            if not options.if_exists:
                raise CommandError(f"no bucket {options.bucket}", ExitCode.NOT_THERE) from None
            found = {"bucket": options.bucket, "changed": False}
            call.out.document(found, lambda: call.out.line(f"no bucket {options.bucket}"))
            return None
        count = state["messages"]
        loss = f"{options.bucket}: {count:,} {what}, {shown_size(state['bytes'])}"
        if not options.dry_run:
            call.confirm(loss, name=options.bucket)
            assets.delete_stream(stream)
    found = {"bucket": options.bucket, what: count, "changed": True}
    verb = "would be removed" if options.dry_run else "removed"
    call.out.document(found, lambda: call.out.line(f"{loss}: {verb}"), quiet=options.bucket)
    return ExitCode.WRONG if options.dry_run else None
