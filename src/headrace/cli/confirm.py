"""Questions before something is lost: when a command may ask, and what counts as a yes.

It asks only a person: standard input and standard error are terminals, and neither `--no-interaction` nor the
variable CI says that nobody is there. Otherwise only `--force` is a yes. Never lives here: what is lost.
"""

from __future__ import annotations

import os
import sys

from headrace.cli.outcomes import CommandError, ExitCode
from headrace.errors import on_one_line


def can_ask(no_interaction: bool) -> bool:
    """True if a person is there to answer, and none of them said not to ask."""
    if no_interaction or os.environ.get("CI"):
        return False
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def confirm(loss: str, *, force: bool, no_interaction: bool = False, name: str | None = None) -> None:
    """Return if the loss is agreed to: by `force`, or by an answer.

    `loss` says what goes, such as `ORDERS: 1,204,331 messages, 3 consumers`. With `name` it has to be typed;
    otherwise y is a yes. Raises: CommandError (wrong use) for a no, and where nobody can be asked.
    """
    if force:
        return
    shown = on_one_line(loss)
    if not can_ask(no_interaction):
        raise CommandError(f"{shown}; nothing was done: say --force", ExitCode.WRONG_USE)
    if name is not None:
        agreed = _answer(f"{shown}; type {on_one_line(name)} to go on: ") == name
    else:
        agreed = _answer(f"{shown}; go on? [y/N] ").lower() in ("y", "yes")
    if not agreed:
        raise CommandError("nothing was done", ExitCode.WRONG_USE)


def ask(no_interaction: bool, question: str, default: str = "") -> str:
    """Return an answer to a question of a guided command. Raises: CommandError where nobody can be asked."""
    if not can_ask(no_interaction):
        raise CommandError(f"nobody can be asked: {question}", ExitCode.WRONG_USE)
    return _answer(f"{question}{f' [{default}]' if default else ''}: ") or default


def ask_hidden(no_interaction: bool, question: str) -> str:
    """Return an answer that is not shown while it is typed. Raises: CommandError if nobody is there."""
    if not can_ask(no_interaction):
        raise CommandError(f"nobody can be asked for the {question.rstrip(': ')}", ExitCode.WRONG_USE)
    from getpass import getpass

    return getpass(question, stream=sys.stderr)


def _answer(question: str) -> str:
    # Not by input(): it writes its question to standard output where standard input has no line editor.
    print(question, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        print(file=sys.stderr)
    return line.strip()
