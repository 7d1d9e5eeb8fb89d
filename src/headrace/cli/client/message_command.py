"""A command that is run for a message: what it is told of it, and what becomes of it.

The body is its standard input; subject and headers are in its environment, tokens of the subject in its
words.
Here lives how it is run, without a shell unless one is wanted. Never lives here: what its end means.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.client.headers import Headers

_TOKEN: Final = r"\{\{ *(?:([0-9]+)|Subject) *\}\}|\{([0-9]+)\}"
"""The places of a command line that are filled; the doubled brackets are those of the tool nats."""
_LONGEST_VARIABLE: Final = 64 << 10
"""Bytes of a body that is given in the environment: the system takes twice that."""
_NOT_RUN: Final = 127


class CommandEnd(NamedTuple):
    """The end of a command: its exit code (127 if it could not be run), output, and reason of a failure."""

    code: int
    output: bytes
    reason: str = ""


def check_command(text: str, flag: str) -> None:
    """Raise CommandError (wrong use) for a command that is empty or has a quotation without an end."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise CommandError(f"{flag}: {error}", ExitCode.WRONG_USE) from None
    if not words:
        raise CommandError(f"{flag}: the command is empty", ExitCode.WRONG_USE)


def _words(text: str, subject: str, *, has_shell: bool) -> list[str]:
    """The words of a command line, with `{0}`, `{1}` replaced by tokens of a subject, `{{Subject}}` by all.

    For a shell the tokens are its `$1`, `$2`: it reads none of them.
    """
    tokens = subject.split(".")

    def token(match: re.Match[str]) -> str:
        number = match[1] or match[2]
        if number is None:
            return subject
        return tokens[int(number)] if int(number) < len(tokens) else match[0]

    if has_shell:
        return ["/bin/sh", "-c", text, "reply", *tokens]
    return [re.sub(_TOKEN, token, word) for word in shlex.split(text)]


def run_command(
    text: str,
    subject: str,
    headers: Headers,
    data: bytes,
    *,
    has_shell: bool = False,
    meanwhile: Callable[[], object] | None = None,
    every: float | None = None,
    has_body_variable: bool = False,
) -> CommandEnd:
    """Run a command for a message and return its end; what it says on standard error goes to ours.

    `text` has passed `check_command`, unless a shell reads it.
    `has_body_variable`: the body is in NATS_REQUEST_BODY, too, unless it is long or has zero bytes.
    `meanwhile` is called after each `every` seconds that it runs. The code of a signal is 128 and its number.
    """
    environment = {**os.environ, "NATS_REQUEST_SUBJECT": subject}
    if has_body_variable and len(data) <= _LONGEST_VARIABLE and b"\0" not in data:
        environment["NATS_REQUEST_BODY"] = os.fsdecode(data)
    for name, values in headers.items():
        variable = re.sub(r"[^A-Z0-9_]", "_", name.upper())
        environment[f"NATS_REQUEST_HEADER_{variable}"] = values[0].replace("\0", "")
    pipe = subprocess.PIPE
    try:
        words = _words(text, subject, has_shell=has_shell)
        process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)
    except (OSError, ValueError) as error:
        return CommandEnd(_NOT_RUN, b"", f"{text}: {error}")
    with process:
        waited_with: bytes | None = data
        while True:
            try:
                output, errors = process.communicate(waited_with, timeout=every)
                break
            except subprocess.TimeoutExpired:
                waited_with = None
                if meanwhile is not None:
                    meanwhile()
            except BaseException:
                process.kill()
                raise
    _write_error(errors)
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    if not code:
        return CommandEnd(0, output)
    lines = errors.decode("utf-8", "backslashreplace").strip().splitlines()
    return CommandEnd(code, output, lines[-1] if lines else f"exit code {code}")


def _write_error(data: bytes) -> None:
    sys.stderr.flush()
    binary = getattr(sys.stderr, "buffer", None)
    if binary is None:
        sys.stderr.write(data.decode("utf-8", "backslashreplace"))
    else:
        binary.write(data)
    sys.stderr.flush()
