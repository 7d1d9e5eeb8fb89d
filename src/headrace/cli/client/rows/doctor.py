"""The row of `doctor`."""

from __future__ import annotations

from typing import Final

from headrace.cli.client.rows.server_flags import MONITOR_FLAGS
from headrace.cli.command_rows import CommandRow, JsonKey, ValueKind, WordArgument, WordFlag

ROWS: Final = (
    CommandRow(
        words=("doctor",),
        summary="Say what will hurt, in a configuration and in running servers",
        description="Looks at a configuration and what this machine has for it, at running servers, their "
        "clients, streams and consumers, and says what is wrong, the worst first, with what to do and where "
        "it is written: docs/doctor.md lists everything that is looked at. "
        "With a file and neither --server, --context nor --monitor only the file is looked at. A user of the "
        "system account (or --monitor) sees servers as a whole, any other user its account only. Ends with 3 "
        "if there is a warning or a danger; hints alone are no reason.",
        run="doctor:examine",
        arguments=(WordArgument("file", "a configuration, of Headrace or nats-server", ValueKind.FILE, "?"),),
        flags=(
            *MONITOR_FLAGS,
            WordFlag(
                ("--pid",),
                "the process that runs with the file, by its id or the file that holds it: its open files",
                ValueKind.TEXT,
                metavar="PID",
            ),
            WordFlag(
                ("--ignore",), "do not look for this, by its id", ValueKind.TEXT, repeated=True, metavar="ID"
            ),
        ),
        keys=(
            JsonKey("file", "the configuration that was looked at; absent without one"),
            JsonKey("servers", "the names of the servers that were looked at"),
            JsonKey(
                "scope",
                "`file`, `system`, `monitor`, or `account`: servers told of the user's account only",
            ),
            JsonKey("findings", "what was found, the worst first; empty where nothing is wrong"),
            JsonKey("findings[].id", "the id of the check, which never changes"),
            JsonKey("findings[].severity", "`danger`, `warning` or `hint`"),
            JsonKey("findings[].title", "what it means"),
            JsonKey("findings[].advice", "what to do"),
            JsonKey("findings[].link", "the page of the documents, with its section"),
            JsonKey("findings[].places", "where it is so: objects with `place` and `text`"),
        ),
        examples=("doctor headrace.conf", "doctor --monitor http://127.0.0.1:8222 --json"),
    ),
)
