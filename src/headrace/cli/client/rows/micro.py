"""The rows of `micro`: services as the micro clients of NATS make them."""

from __future__ import annotations

from typing import Final

from headrace.cli.client.rows.reply import ANSWER_FLAGS, ANSWER_KEYS
from headrace.cli.client.rows.request import REQUEST_FLAGS
from headrace.cli.command_rows import CommandRow, JsonForm, JsonKey, ValueKind, WordArgument, WordFlag
from headrace.cli.json_keys import MESSAGE_KEYS

_SERVICE: Final = WordArgument("service", "the name of the service", ValueKind.SERVICE)
_ANY_SERVICE: Final = WordArgument("service", "the name of the service (all)", ValueKind.SERVICE, "?")
_INSTANCE: Final = WordArgument("id", "the id of an instance (all of them)", ValueKind.SERVICE, "?")
_EXPECT: Final = WordFlag(
    ("--expect",), "do not wait for more answers than these", ValueKind.NUMBER, metavar="N"
)

ROWS: Final = (
    CommandRow(
        words=("micro", "ls"),
        summary="List the instances of services",
        run="micro:list_all",
        aliases=("list",),
        arguments=(_ANY_SERVICE,),
        flags=(_EXPECT,),
        lists=True,
        json=JsonForm.LISTING,
        says="`$SRV.INFO` of each instance",
        examples=("micro ls",),
    ),
    CommandRow(
        words=("micro", "info"),
        summary="Show the instances of a service with their endpoints",
        run="micro:info",
        arguments=(_SERVICE, _INSTANCE),
        flags=(_EXPECT,),
        json=JsonForm.LISTING,
        says="`$SRV.INFO` of each instance",
        examples=("micro info orders",),
    ),
    CommandRow(
        words=("micro", "stats"),
        summary="Show how often the endpoints of a service were asked, and how long they took",
        run="micro:stats",
        arguments=(_SERVICE, _INSTANCE),
        flags=(_EXPECT,),
        json=JsonForm.LISTING,
        says="`$SRV.STATS` of each instance",
        examples=("micro stats orders",),
    ),
    CommandRow(
        words=("micro", "ping"),
        summary="Show which instances answer, and how quickly",
        run="micro:ping",
        arguments=(_ANY_SERVICE, _INSTANCE),
        flags=(_EXPECT,),
        json=JsonForm.LINES,
        keys=(JsonKey("rtt_ns", "how long it took until the answer was there"),),
        says="`$SRV.PING` of an instance",
        examples=("micro ping",),
    ),
    CommandRow(
        words=("micro", "request"),
        summary="Ask an endpoint of a service and show the answer",
        description="Where an endpoint listens is asked of the service. Exit codes as with request; 4 where "
        "there is no such service or endpoint.",
        run="micro:ask",
        aliases=("req",),
        arguments=(
            _SERVICE,
            WordArgument("endpoint", "the name of the endpoint"),
            WordArgument("body", "the body; - reads it from standard input", count="?"),
        ),
        flags=REQUEST_FLAGS,
        json=JsonForm.LINES,
        keys=MESSAGE_KEYS[:7],
        examples=("micro request orders total '{\"id\": 5}'",),
    ),
    CommandRow(
        words=("micro", "serve"),
        summary="Serve a service",
        description="Answers PING, INFO, STATS and SCHEMA as the micro clients of NATS expect, and requests "
        "to its endpoints: with an echo, a text, or what a command prints, as reply does.",
        run="micro_serve:serve",
        arguments=(WordArgument("name", "the name of the service", ValueKind.SERVICE),),
        flags=(
            WordFlag(
                ("--endpoint",),
                "an endpoint (one with the name of the service); its subject is its name",
                ValueKind.TEXT,
                repeated=True,
                metavar="NAME[=SUBJECT]",
            ),
            *ANSWER_FLAGS,
            WordFlag(("--queue",), "queue group of the endpoints", ValueKind.TEXT, default="q"),
            WordFlag(("--version",), "its version", ValueKind.TEXT, default="0.0.1", metavar="X.Y.Z"),
            WordFlag(("--description",), "a text for people", ValueKind.TEXT, default=""),
            WordFlag(("--metadata",), "an entry of its metadata", ValueKind.PAIR, repeated=True),
            WordFlag(("--schema",), "what endpoints take and give, request and response", ValueKind.JSON),
        ),
        json=JsonForm.LINES,
        keys=(JsonKey("endpoint", "the name of the endpoint"), *ANSWER_KEYS),
        examples=("micro serve greeter --command 'greet {1}' --endpoint 'greet=greet.*'",),
    ),
)
