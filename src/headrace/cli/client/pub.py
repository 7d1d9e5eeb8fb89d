"""`headrace pub`: messages published, or stored by a stream."""

from __future__ import annotations

import sys
import time
from functools import partial
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
    stored = _stored_headers(options)
    if stored and not options.jetstream:
        raise CommandError("headers for a stream need --jetstream", ExitCode.WRONG_USE)
    bodies = _bodies(call)
    fill = _filler(call)
    with call.connected() as connection:
        send = _storing(call, connection) if options.jetstream else _plain(call, connection)
        total = 0
        for number, body in enumerate(bodies, 1):
            if number > 1 and options.sleep:
                connection.flush(call.timeout)
                time.sleep(options.sleep / 1e9)
            headers = headers_of(options.header, partial(fill, number=number)) | stored
            data = fill(body.decode(), number=number).encode() if options.templates or call.is_nats else body
            send(options.subject, data, headers)
            total += 1
        connection.flush(call.timeout)
    if not options.jetstream:
        call.out.note(f"published {total} message{'' if total == 1 else 's'} on {options.subject}")


def headers_of(pairs: list[tuple[str, str]] | None, fill: Callable[[str], str]) -> dict[str, list[str]]:
    """Return headers by name, with templates filled."""
    found: dict[str, list[str]] = {}
    for name, value in pairs or ():
        found.setdefault(name, []).append(fill(value))
    return found


def _filler(call: Call) -> Callable[..., str]:
    if not (call.options.templates or call.is_nats):
        return _as_it_is
    from headrace.cli.client.templates import filled

    return filled


def _as_it_is(text: str, number: int) -> str:
    return text


def _stored_headers(options: Any) -> dict[str, list[str]]:
    ttl = None if options.ttl is None else f"{-(-options.ttl // 1_000_000_000)}s"
    values = {
        "Nats-Msg-Id": options.msg_id,
        "Nats-Expected-Stream": options.expect_stream,
        "Nats-Expected-Last-Sequence": options.expect_last_seq,
        "Nats-Expected-Last-Subject-Sequence": options.expect_last_subject_seq,
        "Nats-TTL": ttl,
    }
    return {name: [str(value)] for name, value in values.items() if value is not None}


def _bodies(call: Call) -> Iterator[bytes]:
    """The bodies, one for each message. Raises: CommandError for two that exclude each other."""
    options = call.options
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
    if call.options.reply is not None:
        raise CommandError("--reply and --jetstream exclude each other", ExitCode.WRONG_USE)
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
