"""`headrace streaming`: the server with NATS Streaming, or a command about its channels.

Here lives the choice between the two and the registry of those commands. Never lives here: flags
(`streaming_flags`), what a command does; its module is loaded only when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.cli.names import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Sequence


class StreamingCommand(Struct, frozen=True):
    """A command: its module has `function(arguments, program) -> int`, which gives the exit code, and
    `parser(program)`, by the name given, which reads the arguments.
    """

    module: str
    function: str
    summary: str
    parser: str = "parser"

    def run(self, arguments: Sequence[str], program: str) -> int:
        from importlib import import_module

        code: int = getattr(import_module(self.module), self.function)(arguments, program)
        return code


_STORE: Final = "headrace.cli.streaming_store"

COMMANDS: Final[dict[str, StreamingCommand]] = {
    "channels": StreamingCommand(
        _STORE, "channels", "List the channels of a store or a running server", "channels_parser"
    ),
    "report": StreamingCommand(_STORE, "report", "Show channels with their subscriptions", "report_parser"),
    "purge": StreamingCommand(_STORE, "purge", "Remove messages of a channel", "purge_parser"),
    "rm": StreamingCommand(_STORE, "remove", "Remove channels", "remove_parser"),
    "adopt": StreamingCommand(
        "headrace.cli.streaming_adopt", "run", "Turn a durable into a JetStream consumer"
    ),
    "replay": StreamingCommand(
        "headrace.cli.streaming_replay", "run", "Print stored messages of a running server"
    ),
    "import": StreamingCommand(
        "headrace.cli.streaming_import", "run", "Take over a store of nats-streaming-server"
    ),
}


def run(arguments: Sequence[str], program: str = PROGRAM) -> int:
    """Do what the arguments say; gives the exit code, after the server has stopped if one was started.

    Under the name of nats-streaming-server there are no commands: it has none.
    """
    if program == PROGRAM and arguments and arguments[0] in COMMANDS:
        return COMMANDS[arguments[0]].run(arguments[1:], program)
    from headrace.cli import serve

    commands = _commands_help() if program == PROGRAM else ""
    return serve.run(arguments, program, streaming=True, more_help=commands)


def _commands_help() -> str:
    lines = [f"  {name:<9} {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(["", f"Commands ({PROGRAM} streaming <command> --help):", *lines])
