"""The row of `trace`."""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import CommandRow, JsonForm, ValueKind, WordArgument, WordFlag

ROWS: Final = (
    CommandRow(
        words=("trace",),
        summary="Show the way of a message through servers",
        description="Sends a message that servers trace, and shows who would get it; it is delivered only "
        "with --deliver. Exit code 8 if no server tells anything.",
        run="trace:trace",
        arguments=(
            WordArgument("subject", "the subject", ValueKind.SUBJECT),
            WordArgument("body", "the body; - reads it from standard input", count="?"),
        ),
        flags=(
            WordFlag(("--deliver",), "deliver the message, too"),
            WordFlag(("--header", "-H"), "a header", ValueKind.HEADER, repeated=True),
        ),
        json=JsonForm.LINES,
        says="the trace of each server (ADR-41 of NATS)",
        examples=("trace orders.new", "trace orders.new '{}' --deliver --json"),
    ),
)
