"""`headrace stream get` and `view`: stored messages, read without a consumer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cli.call import Call
    from headrace.cli.conditions import FieldCondition
    from headrace.client.api import StreamMessage


def get(call: Call) -> None:
    """Show one message. Raises: CommandError (wrong use), JetStreamMissingError."""
    from headrace.client.api import JetStreamAssets

    options = call.options
    said = [each for each in (options.seq, options.last_for, options.at) if each is not None]
    if len(said) != 1:
        raise CommandError("say one of SEQ, --last-for and --at", ExitCode.WRONG_USE)
    with call.connected() as connection:
        message = JetStreamAssets(call.api(connection)).message(
            options.stream, options.seq, last_of=options.last_for, since_ns=options.at
        )
    _print(call, message)


def view(call: Call) -> ExitCode | None:
    """Show messages. Raises: CommandError (wrong use), JetStreamMissingError."""
    from headrace.cli.conditions import conditions

    options = call.options
    wanted = conditions(options.where)
    needle = None if options.match is None else options.match.encode("utf-8", "surrogateescape")
    limit = None if options.all else options.limit
    count = last = 0
    with call.connected() as connection:
        try:
            for message in _messages(call, connection, sifts=bool(wanted or needle)):
                if limit is not None and count >= limit:
                    break
                if (needle is None or needle in message.data) and _fits(message.data, wanted):
                    count += 1
                    _print(call, message)
                last = message.sequence
        except KeyboardInterrupt:
            if last and not options.reverse:
                call.out.warn(f"looked at messages up to {last}; --from {last + 1} goes on")
            raise
    return ExitCode.NOT_THERE if options.fail_empty and not count else None


def _messages(call: Call, connection: Any, *, sifts: bool) -> Iterator[StreamMessage]:
    from headrace.client.api import JetStreamAssets
    from headrace.client.stored_messages import ReadableStream

    options = call.options
    stored = ReadableStream(JetStreamAssets(call.api(connection)), options.stream)
    # No more is asked for than is shown, where that is known.
    few = (
        {}
        if sifts or options.all
        else {"window" if options.reverse else "batch": min(max(options.limit, 1), 256)}
    )
    read = stored.backward if options.reverse else stored.forward
    return read(
        first=1 if getattr(options, "from") is None else getattr(options, "from"),
        since_ns=options.since,
        subject=options.subject,
        **few,
    )


def _fits(data: bytes, wanted: list[FieldCondition]) -> bool:
    """True if a body is JSON of which all conditions are true, or if there are none."""
    if not wanted:
        return True
    try:
        document = json.loads(data)
    except ValueError:
        return False
    return all(condition.holds(document) for condition in wanted)


def _print(call: Call, message: StreamMessage) -> None:
    from headrace.cli.json_keys import message_document

    stream = call.options.stream
    document = message_document(
        message.subject,
        message.data,
        headers=message.headers,
        header_bytes=message.header_bytes or _header_size(message),
        stream=stream,
        sequence=message.sequence,
        time_ns=message.time_ns,
    )
    raw = call.out.is_raw(call.options.raw)

    def show() -> None:
        if not call.options.raw:
            call.out.line(f"[{message.sequence}] {message.subject}  {document['time']}", "bold")
            for name, values in message.headers.items():
                for value in values:
                    call.out.line(f"{name}: {value}", "dim")
        call.out.body(message.data, raw=raw)
        if not call.options.raw:
            call.out.line()

    if call.row.words[1] == "get":
        call.out.document(document, show, quiet=message.data.decode("utf-8", "backslashreplace"))
    else:
        call.out.event(document, show, quiet=str(message.sequence))


def _header_size(message: StreamMessage) -> int:
    """The bytes of the block of headers as it was published; a direct get adds headers of its own to it."""
    lines = [len(name.encode()) + len(value.encode()) + 4 for name, values in message.headers.items()
             for value in values]  # fmt: skip
    return len("NATS/1.0\r\n\r\n") + sum(lines) if lines else 0
