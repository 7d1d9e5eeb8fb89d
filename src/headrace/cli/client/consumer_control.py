"""`headrace consumer rm`, `pause`, `resume`, `unpin` and `reset`: what a person does to a consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from headrace.cli.call import Call
    from headrace.client.api import JetStreamAssets


def remove(call: Call) -> ExitCode | None:
    """Remove consumers. Raises: CommandError for a no, JetStreamMissingError."""
    from headrace.client.api import JetStreamAssets
    from headrace.client.errors import JetStreamMissingError

    options = call.options
    infos: dict[str, dict[str, Any] | None] = {}
    items: list[dict[str, Any]] = []
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        for name in dict.fromkeys(options.consumer):
            try:
                infos[name] = assets.consumer_info(options.stream, name)
            except JetStreamMissingError:
                if not options.if_exists:
                    raise
                infos[name] = None
        there = [info for info in infos.values() if info is not None]
        if there and not options.dry_run:
            call.confirm(f"{options.stream}: {', '.join(map(_loss, there))}")
        for name, info in infos.items():
            item = {"stream": options.stream, "name": name, "removed": False}
            if info is not None:
                item |= {"pending": info["num_pending"], "unacked": info["num_ack_pending"]}
                if not options.dry_run:
                    assets.delete_consumer(options.stream, name)
                    item["removed"] = True
            items.append(item)

    def show() -> None:
        for item in items:
            words = "removed" if item["removed"] else "would be removed" if "pending" in item else "not there"
            call.out.line(f"{item['name']}: {words}")

    call.out.listing(items, show)
    return ExitCode.WRONG if options.dry_run and there else None


def _loss(info: dict[str, Any]) -> str:
    return (
        f"consumer {info['name']} ({info['num_pending']:,} messages to deliver, "
        f"{info['num_ack_pending']:,} unacknowledged)"
    )


def pause(call: Call) -> ExitCode | None:
    """Pause a consumer. Raises: ClientError."""
    return _paused(call, call.options.until)


def resume(call: Call) -> ExitCode | None:
    """Let a consumer go on. Raises: ClientError."""
    return _paused(call, None)


def _paused(call: Call, until_ns: int | None) -> ExitCode | None:
    from headrace.cli.client.consumer_change import say_consumer_changes
    from headrace.client.api import JetStreamAssets
    from headrace.protocol.rfc3339 import short_time

    stream, name = call.options.stream, call.options.consumer
    after = None if until_ns is None else short_time(until_ns)
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        if call.options.dry_run:
            info = assets.consumer_info(stream, name)
            before = info["config"].get("pause_until") if info.get("paused") else None
            changed = {"pause_until": {"before": before, "after": after}}
            return say_consumer_changes(call, changed if before != after else {}, name)
        found = assets.pause_consumer(stream, name, until_ns)
    found.pop("type", None)
    words = f"paused until {after}" if found.get("paused") else "not paused"
    call.out.document(found, lambda: call.out.line(f"{name}: {words}"), quiet=name)
    return None


def unpin(call: Call) -> ExitCode | None:
    """Unpin the client of a priority group. Raises: CommandError, ClientError."""
    from headrace.client.api import JetStreamAssets

    options = call.options
    document = {
        "stream": options.stream,
        "name": options.consumer,
        "group": options.group,
        "unpinned": not options.dry_run,
    }
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        if options.dry_run:
            config = assets.consumer_info(options.stream, options.consumer)["config"]
            if options.group not in (config.get("priority_groups") or ()):
                raise CommandError(f"{options.consumer} has no group {options.group}", ExitCode.NOT_THERE)
        else:
            assets.unpin_consumer(options.stream, options.consumer, options.group)
    words = "would be unpinned" if options.dry_run else "unpinned"
    call.out.document(
        document, lambda: call.out.line(f"{options.consumer}: {options.group} {words}"), quiet=options.group
    )
    return ExitCode.WRONG if options.dry_run else None


def reset(call: Call) -> ExitCode | None:
    """Let a consumer begin again. Raises: CommandError, ClientError."""
    from headrace.client.api import JetStreamAssets

    options = call.options
    if options.sequence is not None and options.since is not None:
        raise CommandError("--sequence and --since exclude each other", ExitCode.WRONG_USE)
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        assets.consumer_info(options.stream, options.consumer)  # of one that is not there no server answers
        sequence = options.sequence
        if options.since is not None:
            sequence = _first_since(assets, options.stream, options.since)
        if options.dry_run:
            document = {"stream": options.stream, "name": options.consumer}
            if sequence:
                document["sequence"] = sequence
            where = f"at {sequence}" if sequence else "behind what was acknowledged"
            call.out.document(document, lambda: call.out.line(f"{options.consumer}: would begin {where}"))
            return ExitCode.WRONG
        found = assets.reset_consumer(options.stream, options.consumer, sequence)
    found.pop("type", None)
    call.out.document(
        found,
        lambda: call.out.line(f"{options.consumer}: begins at {found['reset_seq']}"),
        quiet=found["name"],
    )
    return None


def _first_since(assets: JetStreamAssets, stream: str, since_ns: int) -> int:
    """The sequence of the first message from a time on; that of the next one if there is none."""
    from headrace.client.errors import JetStreamMissingError

    try:
        return assets.message(stream, since_ns=since_ns).sequence
    except JetStreamMissingError:
        return int(assets.stream_info(stream)["state"]["last_seq"]) + 1
