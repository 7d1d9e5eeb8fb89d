"""Signals to a running server: `--signal ldm=1234`.

Here lives the translation of names and the sending. Never lives here: what a server does on a signal.
"""

from __future__ import annotations

import os
import re
import signal
from typing import Final

from headrace.cli.arguments import UsageError
from headrace.conf.problems import shown

_SIGNALS: Final = {
    "stop": signal.SIGKILL,
    "quit": signal.SIGINT,
    "term": signal.SIGTERM,
    "reopen": signal.SIGUSR1,
    "reload": signal.SIGHUP,
    "ldm": signal.SIGUSR2,
}
_PID: Final = re.compile(r"[0-9]{1,10}")


def send_signal(order: str) -> None:
    """Obey `name=pid` or `name=file`, where the file holds a process id.

    Unlike the Go server we do not look for a process to signal: it could be the wrong one.
    Raises: UsageError if the order is wrong or the process cannot be signalled.
    """
    name, equals, target = order.partition("=")
    if name not in _SIGNALS:
        raise UsageError(f"unknown signal {shown(name)}: {', '.join(_SIGNALS)} are known")
    if "=" in target:
        raise UsageError(f"invalid signal parameters: {shown(order)}")
    if not equals or not target:
        raise UsageError(f"a process id or pid file is missing: --signal {name}=<pid>")
    signal_process(process_id(target), name)


def signal_process(pid: int, name: str) -> None:
    """Send a signal, by its name, to a server.

    Raises: UsageError if the process cannot be signalled; KeyError for a name that is none.
    """
    try:
        os.kill(pid, _SIGNALS[name])
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no such process"
        raise UsageError(f'signal "{name}" {pid}: {(reason or str(error)).lower()}') from None


def process_id(target: str) -> int:
    """The process id that is given, or stands in a file. Raises: UsageError if there is none."""
    text = target
    try:
        with open(target, "rb") as file:
            text = file.read(64).decode("ascii", "replace").strip()
    except (OSError, ValueError):
        # No such file: then it is the id itself.
        pass
    # 0 and negative numbers would reach whole groups of processes.
    if not _PID.fullmatch(text) or int(text) == 0:
        raise UsageError(f"invalid pid: {shown(text)}")
    return int(text)
