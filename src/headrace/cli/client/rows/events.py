"""The row of `events`."""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import CommandRow, JsonForm, JsonKey, ValueKind, WordFlag

ROWS: Final = (
    CommandRow(
        words=("events",),
        summary="Show what servers and JetStream tell of",
        description="Advisories of JetStream, if no flag says otherwise. Events of servers and accounts take "
        "a user of the system account. Goes on until it is interrupted, through outages of the server. "
        "--since takes a stream of these subjects: servers keep no events by themselves.",
        run="events:events",
        flags=(
            WordFlag(("--all",), "all of these", nats_names=("-a",)),
            WordFlag(("--js-advisory",), "advisories of JetStream"),
            WordFlag(("--js-metric",), "metrics of JetStream"),
            WordFlag(
                ("--server-events", "--server-advisory"), "events of servers", nats_names=("--srv-advisory",)
            ),
            WordFlag(("--no-srv-advisory",), "no events of servers, as is usual", only_as_nats=True),
            WordFlag(("--account-events", "--connections"), "connections that come and go"),
            WordFlag(("--subjects",), "this subject, too", ValueKind.SUBJECT, repeated=True),
            WordFlag(("--filter",), "events with this text", ValueKind.TEXT),
            WordFlag(
                ("--since",), "those that a stream has kept since then, before what comes", ValueKind.SINCE
            ),
            WordFlag(("--short",), "one line an event"),
            WordFlag(("--count",), "end after so many", ValueKind.NUMBER),
            WordFlag(("--for",), "end after this time", ValueKind.DURATION),
        ),
        json=JsonForm.LINES,
        keys=(
            JsonKey("subject", "the subject, of an event that is no JSON object"),
            JsonKey("data", "the body of such an event, where it is UTF-8"),
            JsonKey("data_base64", "the body of such an event in base64, where it is not"),
        ),
        says="the event as it was published",
        examples=("events --all --short", "events --account-events --json"),
    ),
)
