"""The program `headrace`: finds the command and hands it the arguments.

Here lives the registry of commands. Never lives here: what a command does; its module is loaded only when
it is called, so a command costs the others nothing.

To add a command: a row in `COMMANDS`.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final, NoReturn, TextIO

from msgspec import Struct

from headrace.cli.names import DROP_IN, PROGRAM, STREAMING_DROP_IN, program_name, version_line
from headrace.interruption import SIGNALLED, Interrupted, end_starts, terminate_as_interrupt

if TYPE_CHECKING:
    from collections.abc import Sequence

_WRONG_USE: Final = 2
_INTERRUPTED: Final = SIGNALLED + signal.SIGINT


class Command(Struct, frozen=True):
    """A command: its module has `run(arguments, program) -> int`, which gives the exit code. Where it reads
    its arguments by argparse, `parser(program)` is what does.
    """

    module: str
    summary: str

    def run(self, arguments: Sequence[str], program: str) -> int:
        code: int = import_module(self.module).run(arguments, program)
        return code


_DROP_INS: Final = {DROP_IN: "serve", STREAMING_DROP_IN: "streaming"}

COMMANDS: Final[dict[str, Command]] = {
    "serve": Command("headrace.cli.serve", "Run the server; takes the flags of nats-server"),
    "reload": Command("headrace.cli.reload", "Have a running server take over its changed configuration"),
    "config": Command("headrace.cli.config", "Check a configuration; what a reload would change"),
    "streaming": Command(
        "headrace.cli.streaming", "Run the server with NATS Streaming; look after its channels"
    ),
    "jetstream": Command("headrace.cli.jetstream", "Stores of JetStream: import one, back it up, check it"),
    "tables": Command(
        "headrace.cli.tables", "Stored streams as Parquet tables: archive them, look after them"
    ),
    "checkpoints": Command("headrace.cli.checkpoints", "An object store for Spark's checkpoints"),
    "pipeline": Command("headrace.cli.pipeline", "Run pipelines on Spark: streams, tables, checks in a file"),
    "demo": Command("headrace.cli.demo", "Real flights through the server into a Spark table"),
    "completion": Command("headrace.cli.completion", "Completion of commands and flags for a shell"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; gives the exit code. `argv` includes the program's name, as `sys.argv` does.

    Without `argv` this is the process, and its end is the process's: nothing is said of a signal before a
    server has a log, or of a reader of what is written who has enough of it. To commands that are no servers
    TERM is what INT is; the exit code says which it was.
    """
    if argv is None:
        _be_process(sys.argv)
    argv0, *arguments = argv
    program = program_name(argv0)
    if program in _DROP_INS:
        # Whoever calls us so means that server, even if the command is named as well.
        meant = _DROP_INS[program]
        is_named = arguments[:1] == [meant]
        return COMMANDS[meant].run(arguments[1:] if is_named else arguments, program)
    if not arguments:
        print(_help(), file=sys.stderr)
        return _WRONG_USE
    name, *rest = arguments
    command = COMMANDS.get(name)
    if command is not None:
        return command.run(rest, program)
    if name in ("-v", "-version", "--version", "version"):
        print(version_line(program))
        return 0
    if name in ("-h", "-help", "--help", "help"):
        print(_help())
        return 0
    print(f"{PROGRAM}: unknown {_kind(name)} {name!r}; {_advice(name)}", file=sys.stderr)
    return _WRONG_USE


def _be_process(argv: Sequence[str]) -> NoReturn:
    is_server = _is_server(*argv)
    terminated: list[int] = []
    if is_server:
        end_starts()
    else:
        terminated = terminate_as_interrupt()
    try:
        code = main(argv)
    except Interrupted as interrupted:
        code = SIGNALLED + interrupted.number
    except KeyboardInterrupt:  # before the command looked out for it
        print(f"{PROGRAM}: interrupted", file=sys.stderr)
        code = _INTERRUPTED
    except SystemExit as ended:  # of argparse, after --help, or a mistake
        code = ended.code if isinstance(ended.code, int) else 0
    except BrokenPipeError:
        if sys.stdout is None or not _is_unread(sys.stdout):
            raise
        code = 0
    if terminated and code == _INTERRUPTED:
        code = SIGNALLED + signal.SIGTERM
    for stream in filter(None, (sys.stdout, sys.stderr)):
        if _is_unread(stream):  # who read it has enough of it: nothing is said of that
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        stream.flush()
    if is_server:  # its clients are gone, its stores closed, its log written: it need not be taken apart too
        os._exit(code)
    sys.exit(code)


def _is_server(argv0: str, *arguments: str) -> bool:
    """True if these arguments run a server, False if they use its command for something else."""
    return program_name(argv0) in _DROP_INS or arguments[:1] in [(name,) for name in _DROP_INS.values()]


def _is_unread(stream: TextIO) -> bool:
    """True if the stream is a pipe whose reader has gone."""
    poll = select.poll()
    poll.register(stream, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def _kind(name: str) -> str:
    return "flag" if name.startswith("-") else "command"


def _advice(name: str) -> str:
    if name.startswith("-"):
        return f"flags of the server follow its command: {PROGRAM} serve {name}"
    from difflib import get_close_matches

    close = get_close_matches(name[:32], COMMANDS, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(COMMANDS)}"


def _help() -> str:
    lines = [f"Usage: {PROGRAM} <command> [options]", "", "Commands:"]
    width = max(map(len, COMMANDS))
    lines += [f"  {name:<{width}} {command.summary}" for name, command in COMMANDS.items()]
    lines += ["", "Options:", "  -h, --help     Show this text", "  -v, --version  Show the version"]
    lines += ["", f"'{PROGRAM} <command> --help' explains a command."]
    return "\n".join(lines)
