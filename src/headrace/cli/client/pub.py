"""`headrace pub`: messages published, or stored by a stream."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final, cast

from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import BufferedIOBase

    from headrace.cli.call import Call
    from headrace.client.blocking import Connection

_BLOCK: Final = 1 << 16


def publish(call: Call) -> None:
    """Publish and say what was. Raises: CommandError, ClientError."""
    options = call.options
    special = _stored_headers(options)
    is_stored = options.jetstream or options.atomic or "Nats-Schedule" in special
    if special and not is_stored:
        raise CommandError("headers for a stream need --jetstream", ExitCode.WRONG_USE)
    if is_stored and options.reply is not None:
        raise CommandError("--reply and --jetstream exclude each other", ExitCode.WRONG_USE)
    bodies = _bodies(call)
    with call.connected() as connection:
        messages = _messages(call, connection, bodies, special)
        if options.atomic:
            _store_together(call, connection, messages)
            return
        send = _storing(call, connection) if is_stored else _plain(call, connection)
        total = 0
        for subject, data, headers in messages:
            send(subject, data, headers)
            total += 1
        connection.flush(call.timeout)
    if not is_stored:
        call.out.note(f"published {total} message{'' if total == 1 else 's'} on {options.subject}")


def _messages(
    call: Call, connection: Connection, bodies: Iterator[bytes], special: dict[str, list[str]]
) -> Iterator[tuple[str, bytes, dict[str, list[str]]]]:
    """Yield the subjects, bodies and headers of the messages, each when it is its time."""
    options = call.options
    fill = filler(call)
    for number, body in enumerate(bodies, 1):
        if number > 1 and options.sleep:
            connection.flush(call.timeout)
            time.sleep(options.sleep / 1e9)
        headers = headers_of(options.header, fill, number) | special
        yield options.subject, filled_body(call, body, number), headers


def headers_of(
    pairs: list[tuple[str, str]] | None, fill: Callable[[str, int], str], number: int = 1
) -> dict[str, list[str]]:
    """Return the headers of the message of a number by name, with templates filled."""
    found: dict[str, list[str]] = {}
    for name, value in pairs or ():
        found.setdefault(name, []).append(fill(value, number))
    return found


def filled_body(call: Call, body: bytes, number: int) -> bytes:
    """Return the body of the message of a number, with templates filled where they are wanted."""
    if not (call.options.templates or call.is_nats):
        return body
    return filler(call)(body.decode(), number).encode()


def filler(call: Call) -> Callable[[str, int], str]:
    """Return what fills templates in a text for the message of a number, if they are wanted."""
    if not (call.options.templates or call.is_nats):
        return lambda text, _number: text
    from headrace.cli.client.templates import filled

    return filled


def _stored_headers(options: Any) -> dict[str, list[str]]:
    """Return the headers that tell a stream something. Raises: CommandError."""
    schedule = _schedule(options)
    ttl = None if options.ttl is None else f"{-(-options.ttl // 1_000_000_000)}s"
    values = {
        "Nats-Msg-Id": options.msg_id,
        "Nats-Expected-Stream": options.expect_stream,
        "Nats-Expected-Last-Sequence": options.expect_last_seq,
        "Nats-Expected-Last-Subject-Sequence": options.expect_last_subject_seq,
        "Nats-TTL" if schedule is None else "Nats-Schedule-TTL": ttl,
        "Nats-Schedule": schedule,
        "Nats-Schedule-Target": options.to,
        "Nats-Schedule-Time-Zone": options.time_zone,
    }
    return {name: [str(value)] for name, value in values.items() if value is not None}


def _schedule(options: Any) -> str | None:
    """Return the pattern of the schedule that the message is; None if it is none. Raises: CommandError."""
    given = [name for name in ("at", "after", "every", "cron") if getattr(options, name) is not None]
    if len(given) > 1:
        text = " and ".join(f"--{name}" for name in given)
        raise CommandError(f"{text} exclude each other", ExitCode.WRONG_USE)
    if bool(given) != (options.to is not None):
        raise CommandError(
            "--at, --after, --every and --cron need --to, and it one of them", ExitCode.WRONG_USE
        )
    if options.time_zone is not None and options.cron is None:
        raise CommandError("--time-zone needs --cron", ExitCode.WRONG_USE)
    if not given:
        return None
    if options.cron is not None:
        return str(options.cron)
    if options.every is not None:
        seconds, rest = divmod(options.every, 1_000_000_000)
        return f"@every {options.every}ns" if rest else f"@every {seconds}s"
    from headrace.cli.values import exact_time

    return f"@at {exact_time(time.time_ns() + options.after if options.at is None else options.at)}"


def _bodies(call: Call) -> Iterator[bytes]:
    """The bodies, one for each message. Raises: CommandError for two that exclude each other."""
    options = call.options
    send_on = getattr(options, "send_on", None)
    options.stdin = options.stdin or send_on == "eof"
    options.per_line = options.per_line or send_on == "newline"
    from_stdin = options.stdin or options.body == "-" or options.per_line or options.null
    given = [bool(from_stdin), options.file is not None, options.body not in (None, "-")]
    if sum(given) > 1:
        raise CommandError("give one of BODY, --stdin and --file", ExitCode.WRONG_USE)
    if options.per_line or options.null:
        return _pieces(b"\0" if options.null else b"\n")
    if from_stdin:
        body = call.body("-")
    elif options.file is not None:
        with open(options.file, "rb") as file:
            body = file.read()
    else:
        body = call.body(options.body)
    return (body for _ in range(options.count))


def _pieces(end: bytes) -> Iterator[bytes]:
    """Yield the pieces of standard input, each as soon as its end is there."""
    rest = b""
    source = cast("BufferedIOBase", sys.stdin.buffer)
    while data := source.read1(_BLOCK):
        *whole, rest = (rest + data).split(end)
        yield from whole
    if rest:
        yield rest


def _plain(call: Call, connection: Connection) -> Callable[[str, bytes, dict[str, list[str]]], None]:
    def send(subject: str, data: bytes, headers: dict[str, list[str]]) -> None:
        connection.publish(subject, data, reply=call.options.reply, headers=headers or None)
        if call.out.is_json:
            call.out.event({"subject": subject, "size_bytes": len(data)}, lambda: None)

    return send


def _storing(call: Call, connection: Connection) -> Callable[[str, bytes, dict[str, list[str]]], None]:
    api = call.api(connection)

    def send(subject: str, data: bytes, headers: dict[str, list[str]]) -> None:
        answer = api.publish(subject, data, headers=headers or None)
        found = {
            "subject": subject,
            "size_bytes": len(data),
            "stream": answer["stream"],
            "sequence": answer["seq"],
            "duplicate": bool(answer.get("duplicate")),
        }
        text = f"stored in {found['stream']}, sequence {found['sequence']}"
        if found["duplicate"]:
            text += " (it was there already)"
        call.out.event(found, lambda: call.out.line(text), quiet=str(found["sequence"]))

    return send


def _store_together(
    call: Call, connection: Connection, messages: Iterator[tuple[str, bytes, dict[str, list[str]]]]
) -> None:
    from headrace.client.jetstream_api import OutgoingMessage

    answer = call.api(connection).publish_atomic(OutgoingMessage(*message) for message in messages)
    if not answer:
        call.out.note("no message to store")
        return
    found = {
        "subject": call.options.subject,
        "stream": answer["stream"],
        "sequence": answer["seq"],
        "messages": int(answer.get("count", 1)),
    }
    unit = "message" if found["messages"] == 1 else "messages"
    text = (
        f"stored {found['messages']} {unit} in {found['stream']}, the last has sequence {found['sequence']}"
    )
    call.out.event(found, lambda: call.out.line(text), quiet=str(found["sequence"]))
