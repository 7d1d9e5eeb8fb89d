"""`headrace counter`: sums of streams that have counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from headrace.cli.call import Call
    from headrace.client.api import JetStreamAssets
    from headrace.client.counters import CounterStream, CounterValue

Document = dict[str, Any]


def list_all(call: Call) -> ExitCode | None:
    """List counters. Raises: CommandError for a stream without them, ClientError."""
    from headrace.client.api import JetStreamAssets
    from headrace.client.errors import JetStreamMissingError

    options = call.options
    items: list[Document] = []
    total = 0
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        if options.stream is not None:
            streams: list[CounterStream] = [_of(assets, assets.stream_info(options.stream))]
        else:
            infos = sorted(assets.streams(), key=lambda info: str(info["config"]["name"]))
            streams = [_of(assets, info) for info in infos if info["config"].get("allow_msg_counter")]
        for stream in streams:
            for subject in stream.subjects(options.subject or ">"):
                total += 1
                if len(items) >= options.limit:
                    continue
                try:
                    items.append(_document(stream.stream, stream.value(subject)))
                except JetStreamMissingError:
                    total -= 1  # it was removed meanwhile

    def show() -> None:
        from headrace.cli.text_table import ColumnKind, TextColumn
        from headrace.protocol.rfc3339 import parse_time

        columns = (
            TextColumn("Stream"),
            TextColumn("Subject"),
            TextColumn("Value", ColumnKind.NUMBER),
            TextColumn("Changed", ColumnKind.TIME),
        )
        rows = [
            (item["stream"], item["subject"], int(item["value"]), parse_time(item["time"])) for item in items
        ]
        call.out.table(columns, rows)
        if total > len(items):
            call.out.note(f"{total - len(items):,} more; --limit says how many are listed")

    call.out.listing(items, show, total=total, name="subject")
    return ExitCode.NOT_THERE if options.fail_empty and not items else None


def get(call: Call) -> None:
    """Show a counter. Raises: CommandError if no stream has it, ClientError."""
    from headrace.client.api import JetStreamAssets

    options = call.options
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        if options.stream is not None:
            stream = _of(assets, assets.stream_info(options.stream))
        else:
            stream = _that_takes(assets, options.subject)
        found = _document(stream.stream, stream.value(options.subject))
    call.out.document(found, lambda: call.out.line(found["value"]), quiet=found["value"])


def increase(call: Call) -> ExitCode | None:
    """Add to a counter. Raises: CommandError, ClientError."""
    return _add(call, 1)


def decrease(call: Call) -> ExitCode | None:
    """Take from a counter. Raises: CommandError, ClientError."""
    return _add(call, -1)


def _add(call: Call, sign: int) -> ExitCode | None:
    from headrace.client.counters import add_to_counter

    options = call.options
    amount = sign * (1 if options.amount is None else options.amount)
    with call.connected() as connection:
        api = call.api(connection)
        if options.dry_run:
            from headrace.client.api import JetStreamAssets

            return _would_add(call, JetStreamAssets(api), amount)
        found = add_to_counter(api, options.subject, amount)
    value = str(found.value)
    document = {
        "stream": found.stream,
        "subject": options.subject,
        "value": value,
        "sequence": found.sequence,
    }
    call.out.document(document, lambda: call.out.line(value), quiet=value)
    return None


def _would_add(call: Call, assets: JetStreamAssets, amount: int) -> ExitCode | None:
    from headrace.client.errors import JetStreamMissingError

    subject = call.options.subject
    stream = _that_takes(assets, subject)
    document: Document = {"stream": stream.stream, "subject": subject, "changes": {}}
    before: int | None
    try:
        before = stream.value(subject).value
    except JetStreamMissingError:
        before = None
    after = (before or 0) + amount
    if before != after:
        shown = None if before is None else str(before)
        document["changes"]["value"] = {"before": shown, "after": str(after)}
    words = "nothing" if before is None else str(before)
    call.out.document(
        document, lambda: call.out.line(f"{subject}: {words}, would be {after}"), quiet=str(after)
    )
    return ExitCode.WRONG if before != after else None


def _that_takes(assets: JetStreamAssets, subject: str) -> CounterStream:
    """The stream that takes a subject. Raises: CommandError if none takes it and has counters."""
    for info in assets.streams(subject):
        if info["config"].get("allow_msg_counter"):
            return _of(assets, info)
    raise CommandError(f"no stream that has counters takes {subject!r}", ExitCode.NOT_THERE)


def _of(assets: JetStreamAssets, info: Document) -> CounterStream:
    from headrace.client.counters import CounterStream

    config = info["config"]
    if not config.get("allow_msg_counter"):
        text = f"stream {config['name']} has no counters: it was not made with --allow counter"
        raise CommandError(text, ExitCode.NOT_THERE)
    return CounterStream(assets, str(config["name"]), direct=bool(config.get("allow_direct")))


def _document(stream: str, counter: CounterValue) -> Document:
    from headrace.cli.values import exact_time

    found: Document = {
        "stream": stream,
        "subject": counter.subject,
        "value": str(counter.value),
        "sequence": counter.sequence,
        "time": exact_time(counter.time_ns),
        "increment": str(counter.increment),
    }
    return {**found, "sources": counter.sources} if counter.sources else found
