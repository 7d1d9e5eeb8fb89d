"""`headrace stream rm`, `purge`, `rmm` and `seal`: what cannot be undone, after asking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from headrace.cli.call import Call
    from headrace.client.api import JetStreamAssets


def remove(call: Call) -> ExitCode | None:
    """Remove streams. Raises: CommandError for a no, JetStreamMissingError."""
    from headrace.client.api import JetStreamAssets
    from headrace.client.errors import JetStreamMissingError

    items: list[dict[str, Any]] = []
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        infos = []
        for name in dict.fromkeys(call.options.stream):
            try:
                infos.append(assets.stream_info(name))
            except JetStreamMissingError:
                if not call.options.if_exists:
                    raise
                items.append({"name": name, "removed": False})
        for info in infos:
            name, state = info["config"]["name"], info["state"]
            item = {
                "name": name,
                "removed": not call.options.dry_run,
                "messages": state["messages"],
                "size_bytes": state["bytes"],
                "consumers": state.get("consumer_count", 0),
            }
            items.append(item)
            if not call.options.dry_run:
                call.confirm(loss_of(info), name=name)
                assets.delete_stream(name)

    def show() -> None:
        for item in items:
            words = (
                "removed" if item["removed"] else "would be removed" if "messages" in item else "not there"
            )
            call.out.line(f"{item['name']}: {words}")

    call.out.listing(items, show)
    return ExitCode.WRONG if call.options.dry_run and infos else None


def loss_of(info: dict[str, Any]) -> str:
    """Return what goes with a stream, in one line."""
    state = info["state"]
    return (
        f"{info['config']['name']}: {state['messages']:,} messages, "
        f"{state.get('consumer_count', 0):,} consumers"
    )


def purge(call: Call) -> ExitCode | None:
    """Remove messages. Raises: CommandError for a no, JetStreamMissingError."""
    from headrace.client.api import JetStreamAssets

    options = call.options
    name = options.stream
    if options.sequence is not None and options.keep is not None:
        raise CommandError("--sequence and --keep exclude each other", ExitCode.WRONG_USE)
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        expected = _expected(call, assets)
        if options.dry_run:
            _purged(call, expected, "would be removed")
            return ExitCode.WRONG if expected else None
        call.confirm(f"{name}: {expected:,} messages are removed")
        count = assets.purge_stream(name, subject=options.subject, keep=options.keep, before=options.sequence)
    _purged(call, count, "removed")
    return None


def _purged(call: Call, count: int, words: str) -> None:
    name = call.options.stream
    document = {"stream": name, "purged": count}
    call.out.document(
        document, lambda: call.out.line(f"{name}: {count:,} messages {words}"), quiet=str(count)
    )


def _expected(call: Call, assets: JetStreamAssets) -> int:
    """The number of messages that a purge removes, as the stream is now."""
    options = call.options
    if options.sequence is not None:
        return _count_before(call, assets)
    info = assets.stream_info(options.stream, subjects=options.subject)
    counted = info["state"].get("subjects") or {}
    there = int(info["state"]["messages"]) if options.subject is None else sum(counted.values())
    return max(there - int(options.keep or 0), 0)


def _count_before(call: Call, assets: JetStreamAssets) -> int:
    options = call.options
    if options.subject is None:
        state = assets.stream_info(options.stream, with_deleted=True)["state"]
        end = min(int(options.sequence), int(state["last_seq"]) + 1)
        gone = sum(1 for sequence in state.get("deleted") or () if sequence < end)
        return max(end - int(state["first_seq"]) - gone, 0)
    from headrace.client.stored_messages import ReadableStream

    messages = ReadableStream(assets, options.stream)
    return sum(1 for _ in messages.forward(subject=options.subject, last=options.sequence - 1))


def remove_messages(call: Call) -> ExitCode | None:
    """Remove single messages. Raises: CommandError for a no, JetStreamMissingError."""
    from headrace.client.api import JetStreamAssets

    options = call.options
    sequences = list(dict.fromkeys(options.seq))
    items: list[dict[str, Any]] = []
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        for sequence in sequences:
            assets.message(options.stream, sequence)  # it is there, or nothing is done
        if not options.dry_run:
            numbers = ", ".join(map(str, sequences))
            call.confirm(f"{options.stream}: {len(sequences):,} messages are removed: {numbers}")
        for sequence in sequences:
            if not options.dry_run:
                assets.delete_message(options.stream, sequence, erase=not options.no_erase)
            items.append({"stream": options.stream, "sequence": sequence, "removed": not options.dry_run})
    words = "would be removed" if options.dry_run else "removed"

    def show() -> None:
        for item in items:
            call.out.line(f"{item['stream']}: message {item['sequence']} {words}")

    call.out.listing(items, show, name="sequence")
    return ExitCode.WRONG if options.dry_run else None


def seal(call: Call) -> ExitCode | None:
    """Close a stream for good. Raises: CommandError for a no, JetStreamMissingError."""
    from headrace.cli.client.config_changes import say_changes, without_server_metadata
    from headrace.cli.client.stream_config import shown_field
    from headrace.client.api import JetStreamAssets

    name = call.options.stream
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        found = assets.stream_info(name)
        is_sealed = bool(found["config"].get("sealed"))
        if call.options.dry_run:
            changes = {} if is_sealed else {"sealed": {"before": None, "after": True}}
            return say_changes(call, {"name": name}, changes, shown_field)
        if not is_sealed:
            call.confirm(f"{loss_of(found)}, closed for good", name=name)
            found = assets.update_stream(without_server_metadata(found["config"]) | {"sealed": True})
    found.pop("type", None)
    words = "it was sealed already" if is_sealed else "sealed"
    call.out.document(found, lambda: call.out.line(f"{name}: {words}"), quiet=name)
    return None
