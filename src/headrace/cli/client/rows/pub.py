"""The row of `pub`."""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import CommandRow, JsonForm, JsonKey, ValueKind, WordArgument, WordFlag

ROWS: Final = (
    CommandRow(
        words=("pub",),
        summary="Publish messages",
        description="The body is the text given, standard input for - or --stdin, or a file. With "
        "--jetstream a stream has to store each message, and its sequence is printed; with a schedule the "
        "stream publishes it later, on the subject of --to.",
        run="pub:publish",
        arguments=(
            WordArgument("subject", "the subject", ValueKind.SUBJECT),
            WordArgument("body", "the body; - reads it from standard input", count="?"),
        ),
        flags=(
            WordFlag(("--header", "-H"), "a header", ValueKind.HEADER, repeated=True),
            WordFlag(("--reply",), "the reply subject", ValueKind.SUBJECT),
            WordFlag(("--count",), "how many times", ValueKind.NUMBER, default=1),
            WordFlag(("--sleep",), "pause between messages", ValueKind.DURATION),
            WordFlag(("--stdin", "--force-stdin"), "read the body from standard input"),
            WordFlag(("--per-line",), "each line of standard input is a message"),
            WordFlag(
                ("--send-on",),
                "read standard input: all of it, or each line",
                ValueKind.TEXT,
                choices=("eof", "newline"),
                only_as_nats=True,
            ),
            WordFlag(("--null",), "each text of standard input that ends in a zero byte is a message"),
            WordFlag(("--file",), "read the body from a file", ValueKind.FILE),
            WordFlag(
                ("--templates",), "replace {{n}}, {{uuid}}, {{time}} and the like in the body and headers"
            ),
            WordFlag(("--jetstream", "-J"), "wait until a stream has stored it"),
            WordFlag(("--msg-id",), "id by which the stream drops duplicates", ValueKind.TEXT),
            WordFlag(("--expect-stream",), "refuse another stream", ValueKind.STREAM),
            WordFlag(("--expect-last-seq",), "refuse unless the stream's last is this", ValueKind.NUMBER),
            WordFlag(
                ("--expect-last-subject-seq",), "refuse unless the subject's last is this", ValueKind.NUMBER
            ),
            WordFlag(
                ("--ttl",),
                "how long the stream keeps it, of a schedule what it publishes",
                ValueKind.DURATION,
                nats_names=("--schedule-ttl",),
            ),
            WordFlag(("--atomic",), "store all messages as one batch, or none"),
            WordFlag(
                ("--at",),
                "have the stream publish it at this time",
                ValueKind.TIME,
                nats_names=("--schedule-at",),
            ),
            WordFlag(
                ("--after",),
                "have the stream publish it after this time",
                ValueKind.DURATION,
                nats_names=("--schedule-after",),
            ),
            WordFlag(
                ("--every",),
                "have the stream publish it again and again",
                ValueKind.DURATION,
                nats_names=("--schedule-every",),
            ),
            WordFlag(
                ("--cron",),
                "have the stream publish it at these times, '0 30 8 * * *' or @daily",
                ValueKind.TEXT,
                nats_names=("--schedule-cron",),
            ),
            WordFlag(("--time-zone",), "zone of --cron, such as Europe/Berlin (UTC)", ValueKind.TEXT),
            WordFlag(
                ("--to",),
                "the subject on which the stream publishes it",
                ValueKind.SUBJECT,
                nats_names=("--schedule-dest",),
            ),
        ),
        json=JsonForm.LINES,
        keys=(
            JsonKey("subject", "the subject"),
            JsonKey("size_bytes", "the bytes of the body"),
            JsonKey("stream", "the stream that stored it"),
            JsonKey("sequence", "its sequence"),
            JsonKey("messages", "how many were stored, with --atomic"),
            JsonKey("duplicate", "true if the stream had it already"),
        ),
        examples=(
            "pub greetings hello",
            "pub orders.new '{}' -J --msg-id 17",
            "pub schedules.wake '{}' --after 15m --to orders.wake",
        ),
    ),
)
