"""The row of `sub`."""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import CommandRow, JsonForm, JsonKey, ValueKind, WordArgument, WordFlag
from headrace.cli.json_keys import MESSAGE_KEYS

_NUMBER, _DURATION, _TEXT = ValueKind.NUMBER, ValueKind.DURATION, ValueKind.TEXT

ROWS: Final = (
    CommandRow(
        words=("sub",),
        summary="Show messages as they come, or those of a stream",
        description="Goes on until it is interrupted, through outages of the server: it says then that "
        "messages may be missing. With --stream it goes on behind the last one, so none is missing.",
        run="sub:subscribe",
        arguments=(
            WordArgument(
                "subject", "subjects, with * and >; with --stream none means all", ValueKind.SUBJECT, "*"
            ),
        ),
        flags=(
            WordFlag(("--queue",), "queue group: each message goes to one member", _TEXT),
            WordFlag(("--inbox",), "listen on a new reply subject, too, and show it", nats_names=("-i",)),
            WordFlag(("--match-replies",), "show the answers to what is shown, too"),
            WordFlag(("--count",), "end after so many messages", _NUMBER),
            WordFlag(("--for",), "end after this time", _DURATION),
            WordFlag(("--idle",), "end after this time without a message", _DURATION, nats_names=("--wait",)),
            WordFlag(("--headers-only",), "show no bodies"),
            WordFlag(("--subjects-only",), "show only subjects"),
            WordFlag(
                ("--raw",),
                "show only bodies, as they are (on a terminal escaped, unless doubled)",
                repeated=True,
                nats_names=("-r",),
            ),
            WordFlag(("--null", "-0"), "end each body with a zero byte, with --raw"),
            WordFlag(("--pretty",), "show bodies that are JSON with a line for each value"),
            WordFlag(("--dump",), "write each message into two files, body and headers", ValueKind.DIRECTORY),
            WordFlag(
                ("--exec", "--translate"),
                "show what a command prints that has the body on its standard input; no shell reads it",
                _TEXT,
                metavar="COMMAND",
            ),
            WordFlag(
                ("--ignore",),
                "leave out messages of these subjects",
                ValueKind.SUBJECT,
                repeated=True,
                nats_names=("--ignore-subject", "-I"),
            ),
            WordFlag(("--grep",), "show messages with this text in the body", _TEXT),
            WordFlag(
                ("--where",),
                "show messages whose body is JSON with this value, such as order.total>100",
                _TEXT,
                metavar="CONDITION",
                repeated=True,
            ),
            WordFlag(
                ("--report",),
                "count messages by subject, and show only that, at the end",
                nats_names=("--report-subjects",),
            ),
            WordFlag(("--top",), "subjects of the report", _NUMBER, default=10, nats_names=("--report-top",)),
            WordFlag(("--depth",), "count by the first tokens of subjects, so many", _NUMBER, default=0),
            WordFlag(("--rate",), "show only how many come, once a second"),
            WordFlag(("--stream",), "show the messages of a stream", ValueKind.STREAM),
            WordFlag(("--all",), "from its first one on (so it is without another beginning)"),
            WordFlag(("--new",), "only new ones"),
            WordFlag(("--last",), "from its last one on"),
            WordFlag(("--last-per-subject",), "the last one of each subject, then new ones"),
            WordFlag(("--from-sequence", "--start-sequence"), "from this sequence on", _NUMBER),
            WordFlag(("--since",), "from this time on", ValueKind.SINCE),
            WordFlag(
                ("--until-end",),
                "end with the last one that is there",
                nats_names=("--terminate-at-end", "-T"),
            ),
            WordFlag(
                ("--durable",),
                "read by this consumer, made if it is not there; it acknowledges",
                ValueKind.CONSUMER,
            ),
            WordFlag(("--ack",), "acknowledge, as work queues need it"),
            WordFlag(("--timestamp", "-t"), "show when each came", only_as_nats=True),
            WordFlag(("--direct",), "read without a durable consumer, as always", only_as_nats=True),
        ),
        json=JsonForm.LINES,
        keys=(
            *MESSAGE_KEYS,
            JsonKey("answers", "the number of the message, from 1, that it answers, with --match-replies"),
            JsonKey("file", "the file with the body, with --dump"),
            JsonKey("messages", "how many messages of the subject, or of the last second"),
            JsonKey("messages_per_second", "messages a second, with --report and --rate"),
            JsonKey("bytes_per_second", "bytes a second"),
        ),
        examples=(
            "sub '>'",
            "sub 'orders.>' --count 3 --json",
            "sub '>' --report --depth 2 --for 10s",
            "sub --stream ORDERS --since 1h --where 'total>100'",
        ),
    ),
)
