"""The row of `request`."""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import CommandRow, JsonForm, ValueKind, WordArgument, WordFlag
from headrace.cli.json_keys import MESSAGE_KEYS

REQUEST_FLAGS: Final = (
    WordFlag(("--header", "-H"), "a header", ValueKind.HEADER, repeated=True),
    WordFlag(("--count",), "how many times", ValueKind.NUMBER, default=1),
    WordFlag(("--replies",), "answers to wait for, a number or all", ValueKind.TEXT, default="1"),
    WordFlag(
        ("--reply-timeout",),
        "silence behind an answer that ends them, with --replies all",
        ValueKind.DURATION,
        default=300_000_000,
    ),
    WordFlag(("--until-empty",), "an answer without a body ends them", nats_names=("--wait-for-empty",)),
    WordFlag(
        ("--raw",),
        "show only bodies, as they are (on a terminal escaped, unless doubled)",
        repeated=True,
        nats_names=("-r",),
    ),
    WordFlag(
        ("--exec", "--translate"),
        "show what a command prints that has the answer on its standard input; no shell reads it",
        ValueKind.TEXT,
        metavar="COMMAND",
    ),
    WordFlag(("--fail-header",), "an answer with this header is an error", ValueKind.TEXT),
    WordFlag(("--templates",), "replace {{n}}, {{uuid}}, {{time}} and the like in the body and headers"),
    WordFlag(("--force-stdin",), "read the body from standard input", only_as_nats=True),
    WordFlag(("--wait", "-w"), "wait for an answer, as always", only_as_nats=True),
)
"""The flags that say how is asked, and which answers are waited for."""

ROWS: Final = (
    CommandRow(
        words=("request",),
        summary="Ask and show the answers",
        description="Exit codes: 5 if nobody is subscribed, 6 if a service answers with an error, 8 if "
        "nobody answers in time.",
        run="request:ask",
        arguments=(
            WordArgument("subject", "the subject", ValueKind.SUBJECT),
            WordArgument("body", "the body; - reads it from standard input", count="?"),
        ),
        flags=REQUEST_FLAGS,
        json=JsonForm.LINES,
        keys=MESSAGE_KEYS[:7],
        examples=("request help.me please", "request '$SRV.PING' --replies all --json"),
    ),
)
