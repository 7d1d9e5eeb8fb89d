"""`headrace request`: a question to whoever is subscribed, and the answers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from headrace.cli.client.pub import filled_body, filler, headers_of
from headrace.cli.json_keys import message_document
from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from headrace.cli.call import Call
    from headrace.client.blocking import ReceivedMessage

_ERROR: Final = "Nats-Service-Error"
_ERROR_CODE: Final = "Nats-Service-Error-Code"


def ask(call: Call) -> ExitCode:
    """Ask and print the answers; return 6 if one was an error. Raises: CommandError, ClientError."""
    from headrace.client.system import gather

    options = call.options
    count = _count(options.replies)
    if options.exec is not None:
        from headrace.cli.client.message_command import check_command

        check_command(options.exec, "--exec")
    quiet = options.reply_timeout / 1e9 if count is None else None
    body = call.body("-" if getattr(options, "force_stdin", False) else options.body)
    fill = filler(call)
    code = ExitCode.DONE
    with call.connected() as connection:
        for number in range(1, options.count + 1):
            answers = 0
            began = time.perf_counter_ns()
            for answer in gather(
                connection,
                options.subject,
                filled_body(call, body, number),
                headers=headers_of(options.header, fill, number) or None,
                count=None if options.until_empty and count == 1 else count,
                quiet=quiet,
                timeout=call.timeout,
                until_empty=options.until_empty,
            ):
                answers += 1
                if not _show(call, answer, time.perf_counter_ns() - began):
                    code = ExitCode.FAILED
                if _ERROR_CODE in answer.headers or options.fail_header in answer.headers:
                    code = ExitCode.REFUSED
                    text = answer.headers.get(_ERROR, ["the answer is an error"])[0]
                    call.out.warn(" ".join([*answer.headers.get(_ERROR_CODE, [])[:1], text]))
            if not answers and not options.until_empty:
                raise CommandError(
                    f"no answer on {options.subject!r} in {call.timeout:g} s", ExitCode.TIMED_OUT
                )
    return code


def _count(text: str) -> int | None:
    if text in ("all", "0"):
        return None
    if not text.isascii() or not text.isdigit():
        raise CommandError("--replies is a number or all", ExitCode.WRONG_USE)
    return int(text)


def _show(call: Call, answer: ReceivedMessage, took_ns: int) -> bool:
    """Print an answer, or what the command of `--exec` makes of it; False if that failed."""
    if call.options.exec is not None:
        from headrace.cli.client.message_command import run_command

        end = run_command(call.options.exec, call.options.subject, answer.headers, answer.data)
        if end.reason:
            call.out.warn(f"the command failed: {end.reason}")
            return False
        answer = answer._replace(data=end.output)
    document = message_document(
        answer.subject, answer.data, reply=answer.reply, headers=answer.headers, received_ns=time.time_ns()
    )
    call.out.event(document, lambda: _print(call, answer, took_ns), quiet=document.get("data"))
    return True


def _print(call: Call, answer: ReceivedMessage, took_ns: int) -> None:
    from headrace.cli.values import shown_duration

    out = call.out
    if not call.options.raw and out.is_terminal:
        out.line(f"answer after {shown_duration(took_ns)}", "dim")
    if not call.options.raw:
        for name, values in answer.headers.items():
            for value in values:
                out.line(f"{name}: {value}", "dim")
    out.body(answer.data, raw=out.is_raw(call.options.raw))
