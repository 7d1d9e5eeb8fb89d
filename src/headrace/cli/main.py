"""The program `headrace`: finds the command and hands it the arguments.

Here lives the registry of commands. Never lives here: what a command does; its module is loaded only when
it is called, so a command costs the others nothing.

To add a word of the client: a line in `COMMANDS`, a `ClientWord` whose module has the rows of its commands.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, TextIO

from headrace.cli.names import (
    CLIENT_DROP_IN,
    DROP_IN,
    PROGRAM,
    STREAMING_DROP_IN,
    program_name,
    version_line,
)
from headrace.interruption import SIGNALLED, Interrupted, end_starts, terminate_as_interrupt

if TYPE_CHECKING:
    from collections.abc import Sequence

_WRONG_USE: Final = 2
_INTERRUPTED: Final = SIGNALLED + signal.SIGINT


class CommandGroup(Enum):
    """The groups of commands in the help."""

    RUN = "Run"
    TALK = "Talk"
    LOOK_AFTER = "Look after"


class Command(NamedTuple):
    """A command: its module has `run(arguments, program) -> int`, which gives the exit code. Where it reads
    its arguments by argparse, `parser(program)` is what does.
    """

    module: str
    summary: str

    group: CommandGroup = CommandGroup.RUN

    def run(self, arguments: Sequence[str], program: str) -> int:
        import_module("headrace.cli.msgspec_importing")
        code: int = import_module(self.module).run(arguments, program)
        return code


class ClientWord(NamedTuple):
    """A word of the client: its module has the rows of its commands, `ROWS` (`command_rows`).

    `aliases` are shorter names, those of the tool `nats`.
    """

    module: str
    summary: str
    group: CommandGroup
    aliases: tuple[str, ...] = ()

    def run(self, arguments: Sequence[str], program: str) -> int:
        from headrace.cli import tree

        rows = tree.rows_of(self.module)
        return tree.run(rows[0].words[0], rows, arguments, program, is_nats=program == CLIENT_DROP_IN)


_ROWS: Final = "headrace.cli.client.rows"
_TALK, _LOOK_AFTER = CommandGroup.TALK, CommandGroup.LOOK_AFTER

_DROP_INS: Final = {DROP_IN: "serve", STREAMING_DROP_IN: "streaming"}

COMMANDS: Final[dict[str, Command | ClientWord]] = {
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
    "pub": ClientWord(f"{_ROWS}.pub", "Publish messages", _TALK, ("publish",)),
    "sub": ClientWord(f"{_ROWS}.sub", "Show messages as they come", _TALK, ("subscribe",)),
    "request": ClientWord(f"{_ROWS}.request", "Ask and show the answers", _TALK, ("req",)),
    "reply": ClientWord(f"{_ROWS}.reply", "Answer requests", _TALK),
    "trace": ClientWord(f"{_ROWS}.trace", "Show the way of a message through servers", _TALK),
    "bench": ClientWord(f"{_ROWS}.bench", "Measure a server: publish, request, streams, key-value", _TALK),
    "latency": ClientWord(f"{_ROWS}.latency", "Measure messages from one server to another", _TALK, ("lat",)),
    "micro": ClientWord(f"{_ROWS}.micro", "Services: find them, ask them, serve one", _TALK, ("service",)),
    "rtt": ClientWord(f"{_ROWS}.rtt", "Measure the round trip to the server", _TALK),
    "stream": ClientWord(
        f"{_ROWS}.stream", "Streams: make them, look into them, change them", _LOOK_AFTER, ("str", "s")
    ),
    "consumer": ClientWord(
        f"{_ROWS}.consumer",
        "Consumers of streams: make them, read them, see why they are behind",
        _LOOK_AFTER,
        ("con", "c", "obs"),
    ),
    "kv": ClientWord(f"{_ROWS}.kv", "Buckets of keys and their values", _LOOK_AFTER),
    "object": ClientWord(f"{_ROWS}.object", "Buckets of objects: files and the like", _LOOK_AFTER, ("obj",)),
    "counter": ClientWord(f"{_ROWS}.counter", "Counters: sums that anybody adds to", _LOOK_AFTER, ("ctr",)),
    "account": ClientWord(f"{_ROWS}.account", "The user's account: limits, permissions", _LOOK_AFTER, ("a",)),
    "context": ClientWord(
        f"{_ROWS}.context", "Saved connections, those of the tool nats", _LOOK_AFTER, ("ctx",)
    ),
    "server": ClientWord(
        f"{_ROWS}.server", "Servers: who is there, reports, checks, commands to them", _LOOK_AFTER, ("srv",)
    ),
    "events": ClientWord(
        f"{_ROWS}.events", "What servers and JetStream tell of", _LOOK_AFTER, ("event", "e")
    ),
    "console": ClientWord(
        f"{_ROWS}.console", "A page for browsers that shows a server, from this machine", _LOOK_AFTER
    ),
    "top": ClientWord(f"{_ROWS}.top", "Watch a server and its connections", _LOOK_AFTER),
    "nkey": ClientWord(f"{_ROWS}.nkey", "Keys: made, shown; sign, encrypt", _LOOK_AFTER),
    "creds": ClientWord(f"{_ROWS}.creds", "Credentials files: made, shown, checked", _LOOK_AFTER),
    "doctor": ClientWord(f"{_ROWS}.doctor", "What will hurt, in a configuration or a server", _LOOK_AFTER),
    "cheat": ClientWord(f"{_ROWS}.cheat", "Lines to copy, of all commands or of one word", _LOOK_AFTER),
    "schema": ClientWord(f"{_ROWS}.schema", "The JSON of JetStream's API: schemas, checks", _LOOK_AFTER),
    "errors": ClientWord(
        f"{_ROWS}.errors", "The errors of JetStream by number and text", _LOOK_AFTER, ("error", "err")
    ),
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
        print(_help(program), file=sys.stderr)
        return _WRONG_USE
    if arguments[0] == "--complete":
        code: int = import_module("headrace.cli.live_names").run(arguments[1:])
        return code
    if arguments[0] in _ABOUT:
        print(version_line(program) if "v" in arguments[0] else _help(program))
        return 0
    return _run(program, arguments)


_ABOUT: Final = ("-v", "-version", "--version", "version", "-h", "-help", "--help", "help")


def _run(program: str, arguments: Sequence[str]) -> int:
    """Run the command that the arguments name; return the exit code."""
    name, *rest = arguments
    if name.startswith("-"):
        name, rest = _behind_flags(arguments)
    command = _commands(program).get(name) or _of_alias(name)
    if command is None or (name != arguments[0] and not isinstance(command, ClientWord)):
        print(f"{program}: unknown {_kind(arguments[0])} {name!r}; {_advice(name)}", file=sys.stderr)
        return _WRONG_USE
    meant = None if isinstance(command, ClientWord) else _near_miss(name, rest)
    if meant is not None:
        print(f"{program}: unknown command '{name} {rest[0]}'; did you mean {meant!r}?", file=sys.stderr)
        return _WRONG_USE
    return command.run(rest, program)


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
    # A server's clients are gone, its stores closed, its log written, and a client has closed its connection:
    # they need not be taken apart too.
    if is_server or _is_client(*argv) or _is_of_object_stores():
        os._exit(code)
    sys.exit(code)


def _is_server(argv0: str, *arguments: str) -> bool:
    """True if these arguments run a server, False if they use its command for something else."""
    return program_name(argv0) in _DROP_INS or arguments[:1] in [(name,) for name in _DROP_INS.values()]


def _is_client(argv0: str, *arguments: str) -> bool:
    """True if these arguments call a command of the client."""
    name = arguments[0] if arguments else ""
    return isinstance(COMMANDS.get(name), ClientWord) or program_name(argv0) == CLIENT_DROP_IN


def _is_of_object_stores() -> bool:
    """True if threads of obstore may come back to Python, which abort the process while it is taken apart.

    Not where Spark is, whose own end takes its Java along.
    """
    return "obstore" in sys.modules and "pyspark" not in sys.modules


def _is_unread(stream: TextIO) -> bool:
    """True if the stream is a pipe whose reader has gone."""
    poll = select.poll()
    poll.register(stream, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def _commands(program: str) -> dict[str, Command | ClientWord]:
    """The commands of the program under its name: `nats` has those of the client."""
    if program != CLIENT_DROP_IN:
        return COMMANDS
    return {name: command for name, command in COMMANDS.items() if isinstance(command, ClientWord)}


def _of_alias(name: str) -> ClientWord | None:
    words = (command for command in COMMANDS.values() if isinstance(command, ClientWord))
    return next((word for word in words if name in word.aliases), None)


def _behind_flags(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The word behind flags of every command, and the other arguments with these flags among them."""
    from headrace.cli.tree import leading

    end = leading(arguments)
    if end == 0 or end == len(arguments):
        return arguments[0], list(arguments[1:])
    return arguments[end], [*arguments[:end], *arguments[end + 1 :]]


_NEAR: Final = ("serve", "streaming", "config")
"""Commands that are taken for one of the client: `near_misses`."""


def _near_miss(name: str, arguments: Sequence[str]) -> str | None:
    """The command of the client that is meant by the arguments of one that runs a server."""
    if name not in _NEAR or not arguments or arguments[0].startswith("-"):
        return None
    from headrace.cli.near_misses import meant_elsewhere

    return meant_elsewhere(name, arguments[0])


def _kind(name: str) -> str:
    return "flag" if name.startswith("-") else "command"


def _advice(name: str) -> str:
    if name.startswith("-"):
        return f"flags of the server follow its command: {PROGRAM} serve {name}"
    from difflib import get_close_matches

    close = get_close_matches(name[:32], COMMANDS, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(COMMANDS)}"


def _help(program: str) -> str:
    from headrace.cli.tree import help_of_shared_flags

    commands = _commands(program)
    lines = [f"Usage: {program} <command> [options]"]
    width = max(map(len, COMMANDS))
    for group in CommandGroup:
        here = {name: command for name, command in commands.items() if command.group is group}
        if here:
            lines += ["", f"{group.value}:"]
            lines += [f"  {name:<{width}} {command.summary}" for name, command in here.items()]
    lines += ["", "Options:", "  -h, --help     Show this text", "  -v, --version  Show the version"]
    lines += ["", *help_of_shared_flags(), "", f"'{program} <command> --help' explains a command."]
    return "\n".join(lines)
