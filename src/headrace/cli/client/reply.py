"""`headrace reply`: requests answered by an echo, a text, or a command."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from headrace.cli.client.pub import headers_of
from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from headrace.cli.call import Call
    from headrace.client.blocking import ReceivedMessage
    from headrace.client.services import ServiceRequest

    _Request = ReceivedMessage | ServiceRequest


class MadeAnswer(Struct):
    """An answer to a request; `exit_code` is that of the command that made it."""

    data: bytes
    headers: dict[str, list[str]] = field(default_factory=dict)
    exit_code: int | None = None


def answer(call: Call) -> None:
    """Answer requests until it is interrupted. Raises: CommandError, ClientError."""
    options = call.options
    if options.body is not None and options.text is not None:
        raise CommandError("TEXT and --body exclude each other", ExitCode.WRONG_USE)
    text = options.text if options.body is None else options.body
    if sum((options.echo, text is not None, options.command is not None)) != 1:
        raise CommandError("give one of --echo, --body and --command", ExitCode.WRONG_USE)
    answered = 0
    with call.reconnecting() as connection:
        connection.subscribe(options.subject, options.queue)
        connection.flush(call.timeout)
        call.out.note(f"answering on {options.subject}, queue group {options.queue}")
        for request in connection.messages():
            if request.reply is None:
                continue
            answered += 1
            if options.sleep:
                import random

                time.sleep(random.uniform(0, options.sleep / 1e9))
            found = made_answer(call, request, text, answered)
            connection.publish(request.reply, found.data, headers=found.headers or None)
            connection.flush(call.timeout)
            _say(call, request, found)
            if options.count is not None and answered >= options.count:
                return


def made_answer(call: Call, request: _Request, text: str | None, number: int) -> MadeAnswer:
    """Return the answer to a request, by the flags of `reply`: an echo, a text, or what a command prints."""
    options = call.options
    has_templates = options.templates or call.is_nats
    if has_templates:
        from headrace.cli.client.templates import filled
    headers = headers_of(options.header, lambda value: filled(value, number) if has_templates else value)
    if options.echo:
        return MadeAnswer(request.data, {**request.headers, **headers})
    if text is not None:
        return MadeAnswer((filled(text, number) if has_templates else text).encode(), headers)
    return _of_command(options, request, headers)


def _of_command(options: Any, request: _Request, headers: dict[str, list[str]]) -> MadeAnswer:
    """Run the command; an answer that is an error if it fails."""
    from headrace.cli.client.message_command import run_command

    end = run_command(options.command, request.subject, request.headers, request.data, shell=options.shell)
    failure = _error(end.reason) if end.code else {}
    return MadeAnswer(end.output, {**headers, **failure}, end.code)


def _error(text: str) -> dict[str, list[str]]:
    from headrace.errors import on_one_line

    return {"Nats-Service-Error-Code": ["500"], "Nats-Service-Error": [on_one_line(text)]}


def _say(call: Call, request: ReceivedMessage, found: MadeAnswer) -> None:
    document = {
        "subject": request.subject,
        "size_bytes": len(request.data),
        "answer_bytes": len(found.data),
    }
    if found.exit_code is not None:
        document["exit_code"] = found.exit_code
    text = f"{request.subject}: {len(request.data)} bytes, answered with {len(found.data)}"
    if found.exit_code:
        text += f", the command failed with {found.exit_code}"
    call.out.event(document, lambda: call.out.line(text))
