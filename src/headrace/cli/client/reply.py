"""`headrace reply`: requests answered by an echo, a text, or a command.

Commands, and answers that wait, are made by several workers, so that a slow one holds up no other. The
connection stays with the one thread that listens.
"""

from __future__ import annotations

import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.cli.client.pub import filler, headers_of
from headrace.cli.outcomes import CommandError, ExitCode
from headrace.client.blocking import messages_of

if TYPE_CHECKING:
    from argparse import Namespace

    from headrace.cli.call import Call
    from headrace.client.blocking import Connection, ReceivedMessage
    from headrace.client.services import ServiceRequest

    _Request = ReceivedMessage | ServiceRequest

_MOST_WAITING: Final = 256
"""Requests that wait for each worker; beyond these no further ones are received."""
_FLUSH_S: Final = 10.0
"""Seconds after which a connection that only waits for workers is heard from."""
_AGAIN_S: Final = 0.005
"""Seconds after which it looks for answers that workers have made."""


class MadeAnswer(NamedTuple):
    """An answer to a request; `exit_code` is that of the command that made it."""

    data: bytes
    headers: dict[str, list[str]]
    exit_code: int | None = None


def answer(call: Call) -> None:
    """Answer requests until it is interrupted. Raises: CommandError, ClientError."""
    options = call.options
    if options.body is not None and options.text is not None:
        raise CommandError("TEXT and --body exclude each other", ExitCode.WRONG_USE)
    text = options.text if options.body is None else options.body
    if call.is_nats and text is None and options.command is None:
        options.echo = True
    if sum((options.echo, text is not None, options.command is not None)) != 1:
        raise CommandError("give one of --echo, --body and --command", ExitCode.WRONG_USE)
    if not options.workers:
        raise CommandError("--workers is 1 or more", ExitCode.WRONG_USE)
    check_answers(options)
    with call.reconnecting() as connection:
        connection.subscribe(options.subject, options.queue)
        connection.flush(call.timeout)
        call.out.note(f"answering on {options.subject}, queue group {options.queue}")
        _Answering(call, connection, text).go_on()


class _Answering:
    """The requests of one service, and those of them that workers are busy with."""

    def __init__(self, call: Call, connection: Connection, text: str | None) -> None:
        self._call = call
        self._connection = connection
        self._text = text
        self._busy: dict[Future[MadeAnswer], ReceivedMessage] = {}

    def go_on(self) -> None:
        """Answer until the count is reached."""
        options = self._call.options
        taken = 0
        most = _MOST_WAITING * options.workers
        workers = ThreadPoolExecutor(options.workers) if options.command or options.sleep else None
        try:
            while options.count is None or taken < options.count:
                for request in self._received():
                    taken += 1
                    if workers is None:
                        self._send(request, made_answer(self._call, request, self._text, taken))
                    else:
                        made = workers.submit(made_answer, self._call, request, self._text, taken)
                        self._busy[made] = request
                    if taken == options.count:
                        break
                self._send_made()
                while len(self._busy) >= most:
                    wait(self._busy, return_when=FIRST_COMPLETED)
                    self._send_made()
            while self._busy:
                wait(self._busy, timeout=_FLUSH_S, return_when=FIRST_COMPLETED)
                self._send_made()
                self._connection.flush(self._call.timeout)
            self._connection.flush(self._call.timeout)
        finally:
            if workers is not None:
                workers.shutdown(wait=False, cancel_futures=True)

    def _received(self) -> list[ReceivedMessage]:
        """The requests that came; those without a reply subject want no answer."""
        batch = self._connection.receive(_AGAIN_S if self._busy else None)
        return [request for request in messages_of(batch) if request.reply is not None]

    def _send_made(self) -> None:
        for made in [made for made in self._busy if made.done()]:
            self._send(self._busy.pop(made), made.result())

    def _send(self, request: ReceivedMessage, found: MadeAnswer) -> None:
        assert request.reply is not None
        self._connection.publish(request.reply, found.data, headers=found.headers or None)
        self._connection.flush(self._call.timeout)
        say_answer(self._call, request, found)


def check_answers(options: Namespace) -> None:
    """Raise CommandError (wrong use) for a `--command` that cannot be run."""
    if options.command is not None and not options.shell:
        from headrace.cli.client.message_command import check_command

        check_command(options.command, "--command")


def made_answer(call: Call, request: _Request, text: str | None, number: int) -> MadeAnswer:
    """Return the answer to a request, by the flags of `reply`: an echo, a text, or what a command prints."""
    options = call.options
    if options.sleep:
        import random

        time.sleep(random.uniform(0, options.sleep / 1e9))
    has_templates = options.templates or call.is_nats
    if has_templates:
        from headrace.cli.client.templates import filled
    headers = headers_of(options.header, filler(call), number)
    if options.echo:
        return MadeAnswer(request.data, {**request.headers, **headers})
    if text is not None:
        return MadeAnswer((filled(text, number) if has_templates else text).encode(), headers)
    from headrace.cli.client.message_command import run_command

    end = run_command(
        options.command,
        request.subject,
        request.headers,
        request.data,
        has_shell=options.shell,
        has_body_variable=call.is_nats,
    )
    failure = _error(end.reason) if end.code else {}
    return MadeAnswer(end.output, {**headers, **failure}, end.code)


def _error(text: str) -> dict[str, list[str]]:
    from headrace.errors import on_one_line

    return {"Nats-Service-Error-Code": ["500"], "Nats-Service-Error": [on_one_line(text)]}


def say_answer(call: Call, request: _Request, found: MadeAnswer, **more: str) -> None:
    """Say what was answered; `more` are further keys of the document."""
    document = {
        **more,
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
