"""The row of `sub`."""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import CommandRow, JsonForm, ValueKind, WordArgument, WordFlag
from headrace.cli.json_keys import MESSAGE_KEYS

ROWS: Final = (
    CommandRow(
        words=("sub",),
        summary="Show messages as they come",
        description="Goes on until it is interrupted, through outages of the server: it says then that "
        "messages may be missing.",
        run="sub:subscribe",
        arguments=(WordArgument("subject", "subjects, with * and >", ValueKind.SUBJECT, "+"),),
        flags=(
            WordFlag(("--queue",), "queue group: each message goes to one member", ValueKind.TEXT),
            WordFlag(("--count",), "end after so many messages", ValueKind.NUMBER),
            WordFlag(("--for",), "end after this time", ValueKind.DURATION),
            WordFlag(("--idle",), "end after this time without a message", ValueKind.DURATION),
            WordFlag(("--headers-only",), "show no bodies"),
            WordFlag(("--subjects-only",), "show only subjects"),
            WordFlag(
                ("--raw",), "show only bodies, as they are (on a terminal with control characters escaped)"
            ),
            WordFlag(("--ignore",), "leave out messages of these subjects", ValueKind.SUBJECT, repeated=True),
            WordFlag(("--grep",), "show messages with this text in the body", ValueKind.TEXT),
        ),
        json=JsonForm.LINES,
        keys=MESSAGE_KEYS[:7],
        examples=("sub '>'", "sub 'orders.>' --count 3 --json"),
    ),
)
