"""`headrace jetstream`: commands about stores of JetStream, by name.

Never lives here: what a command does; its module is loaded only when it is called. To add a command: a row in
`COMMANDS`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from headrace.cli.names import PROGRAM
from headrace.cli.streaming import StreamingCommand

if TYPE_CHECKING:
    from collections.abc import Sequence

_BACKUP: Final = "headrace.cli.jetstream_backup"

COMMANDS: Final[dict[str, StreamingCommand]] = {
    "import": StreamingCommand("headrace.cli.jetstream_import", "run", "Take over a store of nats-server"),
    "backup": StreamingCommand(
        _BACKUP, "run_backup", "Back up streams while the server runs", "backup_parser"
    ),
    "verify": StreamingCommand(_BACKUP, "run_verify", "Check a backup without restoring it", "verify_parser"),
    "restore": StreamingCommand(
        _BACKUP, "run_restore", "Make a store of a backup or a bucket", "restore_parser"
    ),
    "upload": StreamingCommand(
        "headrace.cli.bucket_upload",
        "run",
        "Bring the streams of a local disk into a bucket",
        "upload_parser",
    ),
    "status": StreamingCommand("headrace.cli.jetstream_status", "run", "Show the bucket that streams are in"),
    "stepdown": StreamingCommand(
        "headrace.cli.jetstream_stepdown", "run", "Have another server of the cluster serve the streams"
    ),
}
_WRONG_USE: Final = 2


def run(arguments: Sequence[str], program: str = PROGRAM) -> int:
    """Do what the arguments say; gives the exit code."""
    name, *rest = arguments or ("",)
    if name in COMMANDS:
        return COMMANDS[name].run(rest, program)
    if name in ("-h", "-help", "--help", "help"):
        print(_help())
        return 0
    wrong = f"{PROGRAM} jetstream: unknown command {name!r}\n" if name else ""
    print(wrong + _help(), file=sys.stderr)
    return _WRONG_USE


def _help() -> str:
    lines = [f"  {name:<9} {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join([f"usage: {PROGRAM} jetstream <command> [--help]", "", *lines])
