"""The row of `reply`."""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import CommandRow, JsonForm, JsonKey, ValueKind, WordArgument, WordFlag

ANSWER_FLAGS: Final = (
    WordFlag(("--echo",), "the answer is the request, headers too"),
    WordFlag(("--body",), "the answer", ValueKind.TEXT),
    WordFlag(("--command",), "the answer is what a command prints", ValueKind.TEXT),
    WordFlag(("--shell",), "let a shell read the command"),
    WordFlag(("--templates",), "replace {{n}}, {{uuid}}, {{time}} and the like in the answer"),
    WordFlag(("--header", "-H"), "a header of answers", ValueKind.HEADER, repeated=True),
    WordFlag(("--sleep",), "wait up to this time before each answer", ValueKind.DURATION),
    WordFlag(("--count",), "end after so many answers", ValueKind.NUMBER),
)
"""The flags that say what is answered."""

ANSWER_KEYS: Final = (
    JsonKey("subject", "the subject of the request"),
    JsonKey("size_bytes", "the bytes of the request's body"),
    JsonKey("answer_bytes", "the bytes of the answer's body"),
    JsonKey("exit_code", "the exit code of the command"),
)

ROWS: Final = (
    CommandRow(
        words=("reply",),
        summary="Answer requests",
        description="A command gets the body on standard input, its standard output is the answer; the "
        "subject and headers are in NATS_REQUEST_SUBJECT and NATS_REQUEST_HEADER_NAME, tokens of the "
        "subject in {0}, {1}. One that fails is answered with an error. No shell reads it "
        "without --shell.",
        run="reply:answer",
        arguments=(
            WordArgument("subject", "the subject", ValueKind.SUBJECT),
            WordArgument("text", "the answer, as --body", count="?"),
        ),
        flags=(
            *ANSWER_FLAGS,
            WordFlag(("--queue",), "queue group", ValueKind.TEXT, default="headrace-reply"),
            WordFlag(("--workers",), "commands that run at a time", ValueKind.NUMBER, default=4),
        ),
        json=JsonForm.LINES,
        keys=ANSWER_KEYS,
        examples=("reply help.me --echo", "reply 'weather.*' --command 'forecast {1}'"),
    ),
)
