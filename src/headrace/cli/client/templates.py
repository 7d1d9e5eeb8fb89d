"""Templates in bodies and headers of messages: `{{n}}`, `{{uuid}}`, `{{time}}`, `{{random 10 20}}`.

Here lives what each stands for, in our spelling and in that of the tool `nats`. An unknown one is an error,
so that no message with a mistake leaves.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Final

from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PLACE: Final = r"\{\{\s*([^{}]*?)\s*\}\}"
_OF_NATS: Final = {
    "Count": "n", "Cnt": "n", "TimeStamp": "time", "Unix": "unix", "UnixNano": "unix_ns", "Time": "clock",
    "Random": "random", "ID": "uuid",
}  # fmt: skip
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def _uuid() -> str:
    from uuid import uuid4

    return str(uuid4())


def _time() -> str:
    from headrace.cli.values import exact_time

    return exact_time(time.time_ns())


def _host() -> str:
    import socket

    return socket.gethostname()


_PLAIN: Final[Mapping[str, Callable[[], str]]] = {
    "n": str,
    "uuid": _uuid,
    "time": _time,
    "unix": lambda: str(time.time_ns() // 1_000_000_000),
    "unix_ns": lambda: str(time.time_ns()),
    "clock": lambda: time.strftime("%H:%M:%S", time.gmtime()),
    "host": _host,
}
"""The values without arguments by name; that of `n` is the number of the message."""


def filled(text: str, number: int) -> str:
    """Return a text with its templates replaced; `number` counts messages from 1. Raises: CommandError."""
    return re.sub(_PLACE, lambda match: _value(match[1], number), text)


def _value(words: str, number: int) -> str:
    name, *arguments = words.split() or [""]
    name = _OF_NATS.get(name.removeprefix("."), name)
    if name in _PLAIN and not arguments:
        return str(number) if name == "n" else _PLAIN[name]()
    match name, arguments:
        case "env", [variable]:
            if variable not in os.environ:
                raise CommandError(f"the variable {variable} of a template is not set", ExitCode.WRONG_USE)
            return os.environ[variable]
        case (("random" | "int"), [low, high]) if low.isdigit() and high.isdigit() and int(low) <= int(high):
            import random

            drawn = random.randint(int(low), int(high))
            return str(drawn) if name == "int" else "".join(random.choices(_LETTERS, k=drawn))
    raise CommandError(
        f"unknown template {{{{{words}}}}}: there are n, uuid, time, unix, unix_ns, host, env NAME, "
        "random MIN MAX, int MIN MAX",
        ExitCode.WRONG_USE,
    )
