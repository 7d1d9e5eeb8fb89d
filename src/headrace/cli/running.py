"""A server that runs on this machine: with which flags and in which directory it was started.

Here lives the look into the process table. Never lives here: signals (`signals`), what flags mean (`serve`).
"""

from __future__ import annotations

import os
from contextlib import chdir
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.cli import flags
from headrace.cli.arguments import UsageError
from headrace.cli.names import DROP_IN, PROGRAM, STREAMING_DROP_IN

if TYPE_CHECKING:
    from headrace.conf.options import Options

_PROCESSES: Final = Path("/proc")
_COMMANDS: Final = {"serve": False, "streaming": True}
_DROP_INS: Final = {DROP_IN: "serve", STREAMING_DROP_IN: "streaming"}


def options_of(pid: int, config_file: str | None = None) -> Options:
    """Load the options that a running server would have if it were started now, with another file if one is
    given.

    Raises: UsageError if its command line cannot be seen or is none of ours, ConfigError.
    """
    from headrace.cli.serve import options_of_invocation

    arguments, is_streaming = _command_line(pid)
    invocation = flags.read_invocation(arguments, streaming=is_streaming)
    if config_file is not None:
        invocation.config_file = str(Path(config_file).absolute())
    with chdir(_PROCESSES / str(pid) / "cwd"):  # what it was told is relative to where it was started
        return options_of_invocation(invocation)


def _command_line(pid: int) -> tuple[list[str], bool]:
    """The flags of a server, and whether they are streaming's."""
    try:
        words = [os.fsdecode(word) for word in (_PROCESSES / str(pid) / "cmdline").read_bytes().split(b"\0")]
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot see how process {pid} was started: {reason}") from None
    for place, word in enumerate(words[:-1]):
        rest = words[place + 1 : -1]
        name = Path(word).name
        if name in _DROP_INS:
            command = _DROP_INS[name]
            return rest[1:] if rest[:1] == [command] else rest, _COMMANDS[command]
        if name == PROGRAM and rest and rest[0] in _COMMANDS:
            return rest[1:], _COMMANDS[rest[0]]
    raise UsageError(f"process {pid} is none of ours: {' '.join(words[:3])!r}")
