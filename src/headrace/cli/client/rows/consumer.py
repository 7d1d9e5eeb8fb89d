"""The rows of `consumer`."""

from __future__ import annotations

from typing import Final

from headrace.cli.client.rows.consumer_flags import CONFIG_FLAGS
from headrace.cli.client.rows.stream_flags import NO_SELECT
from headrace.cli.command_rows import CommandRow, JsonForm, JsonKey, ValueKind, WordArgument, WordFlag
from headrace.cli.json_keys import MESSAGE_KEYS

_STREAM: Final = WordArgument("stream", "the stream", ValueKind.STREAM)
_CONSUMER: Final = WordArgument("consumer", "the consumer", ValueKind.CONSUMER)
_BOTH: Final = (_STREAM, _CONSUMER)
_INFO: Final = "`CONSUMER.INFO` of JetStream's API"
_NAMED: Final = (JsonKey("stream", "the stream"), JsonKey("name", "the consumer"))
_CHANGES: Final = (
    JsonKey("stream", "with --dry-run: the stream"),
    JsonKey("name", "with --dry-run: the consumer"),
    JsonKey("changes", "with --dry-run: to each field that would change `before` and `after`"),
)
_AS_ALWAYS: Final = WordFlag(("--force", "-f"), "do not ask, as always", only_as_nats=True)

ROWS: Final = (
    CommandRow(
        words=("consumer", "ls"),
        summary="List the consumers of a stream",
        run="consumer_info:list_all",
        aliases=("list",),
        arguments=(_STREAM,),
        flags=(WordFlag(("--names", "-n"), "only their names"), NO_SELECT),
        lists=True,
        json=JsonForm.LISTING,
        keys=(JsonKey("name", "with --names: the name"),),
        says=_INFO,
        examples=("consumer ls ORDERS",),
    ),
    CommandRow(
        words=("consumer", "report"),
        summary="Show how far the consumers of a stream are, and how far behind",
        description="The lag is what is not done: messages that were not delivered yet or not acknowledged, "
        "and the age of the first of them.",
        run="consumer_info:report",
        arguments=(_STREAM,),
        flags=(
            WordFlag(
                ("--sort",),
                "the order; numbers begin with the largest",
                ValueKind.TEXT,
                default="name",
                choices=("name", "lag", "pending", "unacked", "redelivered"),
            ),
        ),
        lists=True,
        json=JsonForm.LISTING,
        keys=(
            JsonKey("name", "the consumer"),
            JsonKey("mode", "`pull` or `push`"),
            JsonKey("ack_policy", "`explicit`, `all`, `none` or `flow_control`"),
            JsonKey("pending", "messages that were not delivered yet"),
            JsonKey("unacked", "messages that were delivered and not acknowledged"),
            JsonKey("redelivered", "messages of them that were delivered more than once"),
            JsonKey("waiting", "pulls that wait for messages"),
            JsonKey("lag", "messages that are not done: pending and unacked"),
            JsonKey("lag_ns", "the age of the first message that is not done; absent without one"),
            JsonKey("last_delivery", "the time of the last delivery; absent without one"),
            JsonKey("last_ack", "the time of the last acknowledgement; absent without one"),
            JsonKey("paused_until", "the time until which it is paused; absent if it is not"),
        ),
        examples=("consumer report ORDERS --sort lag",),
    ),
    CommandRow(
        words=("consumer", "info"),
        summary="Show a consumer",
        run="consumer_info:info",
        aliases=("nfo",),
        arguments=_BOTH,
        flags=(NO_SELECT,),
        says=_INFO,
        examples=("consumer info ORDERS worker", "consumer info ORDERS worker --format '{num_pending}'"),
    ),
    CommandRow(
        words=("consumer", "state"),
        summary="Show the state of a consumer",
        run="consumer_info:state",
        arguments=_BOTH,
        flags=(NO_SELECT,),
        says=f"{_INFO}, without `config`",
        examples=("consumer state ORDERS worker",),
    ),
    CommandRow(
        words=("consumer", "add"),
        summary="Make a consumer",
        description="What is not said is the server's default; acknowledgements are explicit, with --target "
        "none. A consumer that is there with the same configuration is no error.",
        run="consumer_change:add",
        aliases=("create", "new"),
        arguments=(
            _STREAM,
            WordArgument("consumer", "its name (that of --config)", ValueKind.CONSUMER, "?"),
        ),
        flags=(
            *CONFIG_FLAGS,
            WordFlag(("--ephemeral",), "it goes when nobody has used it for a while; needs no name"),
            WordFlag(
                ("--pause-until", "--pause"),
                "pause it until this time, or so long",
                ValueKind.UNTIL,
            ),
            WordFlag(("--if-not-exists",), "one that is there with another configuration is no error"),
            WordFlag(("--defaults",), "ask nothing, as always", only_as_nats=True),
        ),
        changes=True,
        keys=_CHANGES,
        says=_INFO,
        examples=(
            "consumer add ORDERS worker --filter 'orders.eu.>' --max-deliver 5 --backoff 1s,10s,1m",
            "consumer add ORDERS --ephemeral --deliver new",
        ),
    ),
    CommandRow(
        words=("consumer", "edit"),
        summary="Change a consumer",
        description="Shows what changes, then changes it. What is not said stays.",
        run="consumer_change:edit",
        aliases=("update",),
        arguments=_BOTH,
        flags=(*CONFIG_FLAGS, _AS_ALWAYS),
        changes=True,
        keys=_CHANGES,
        says=_INFO,
        examples=("consumer edit ORDERS worker --wait 2m --dry-run",),
    ),
    CommandRow(
        words=("consumer", "rm"),
        summary="Remove consumers",
        run="consumer_control:remove",
        aliases=("delete", "del"),
        arguments=(_STREAM, WordArgument("consumer", "the consumers", ValueKind.CONSUMER, "+")),
        flags=(WordFlag(("--if-exists",), "one that is not there is no error"),),
        changes=True,
        asks=True,
        json=JsonForm.LISTING,
        keys=(
            *_NAMED,
            JsonKey("removed", "true if it was removed; false with --dry-run, or if it was not there"),
            JsonKey("pending", "messages that it had not delivered"),
            JsonKey("unacked", "messages that were delivered and not acknowledged"),
        ),
        examples=("consumer rm ORDERS worker --force",),
    ),
    CommandRow(
        words=("consumer", "pause"),
        summary="Pause a consumer",
        run="consumer_control:pause",
        arguments=(
            *_BOTH,
            WordArgument("until", "the time at which it goes on, or for how long", ValueKind.UNTIL),
        ),
        flags=(_AS_ALWAYS,),
        changes=True,
        keys=_CHANGES,
        says="`CONSUMER.PAUSE` of JetStream's API",
        examples=("consumer pause ORDERS worker 1h", "consumer pause ORDERS worker 2030-01-01"),
    ),
    CommandRow(
        words=("consumer", "resume"),
        summary="Let a paused consumer go on",
        run="consumer_control:resume",
        arguments=_BOTH,
        flags=(_AS_ALWAYS,),
        changes=True,
        keys=_CHANGES,
        says="`CONSUMER.PAUSE` of JetStream's API",
        examples=("consumer resume ORDERS worker",),
    ),
    CommandRow(
        words=("consumer", "unpin"),
        summary="Let another client of a priority group have the messages",
        run="consumer_control:unpin",
        arguments=(*_BOTH, WordArgument("group", "the group", ValueKind.TEXT)),
        flags=(_AS_ALWAYS,),
        changes=True,
        keys=(
            *_NAMED,
            JsonKey("group", "the group"),
            JsonKey("unpinned", "true if it was done, false with --dry-run"),
        ),
        examples=("consumer unpin ORDERS worker blue",),
    ),
    CommandRow(
        words=("consumer", "reset"),
        summary="Let a consumer begin again",
        description="It begins behind what was acknowledged, or at a message of the stream; what was "
        "delivered and not acknowledged is delivered again.",
        run="consumer_control:reset",
        arguments=_BOTH,
        flags=(
            WordFlag(("--sequence", "--seq"), "begin at this sequence", ValueKind.NUMBER),
            WordFlag(("--since",), "begin with the first message from this time on", ValueKind.SINCE),
            _AS_ALWAYS,
        ),
        changes=True,
        keys=(
            *_NAMED,
            JsonKey("sequence", "with --dry-run: where it would begin; absent: behind what was acknowledged"),
        ),
        says="`CONSUMER.RESET` of JetStream's API",
        examples=("consumer reset ORDERS worker --sequence 1",),
    ),
    CommandRow(
        words=("consumer", "next"),
        summary="Pull messages of a consumer",
        description="Without a choice each message is acknowledged once it is shown, and this is said. With "
        "--json the choice has to be made. Nothing within --wait is exit code 8, nothing there with --wait 0 "
        "is 4.",
        run="consumer_reading:pull",
        arguments=_BOTH,
        flags=(
            WordFlag(("--count",), "so many messages", ValueKind.NUMBER, default=1),
            WordFlag(("--wait",), "wait so long for all of them; 0: only what is there", ValueKind.DURATION),
            WordFlag(("--ack",), "acknowledge"),
            WordFlag(("--nak",), "refuse: they are delivered again"),
            WordFlag(
                ("--nak-delay",), "refuse: they are delivered again after this time", ValueKind.DURATION
            ),
            WordFlag(("--term",), "end: they are never delivered again"),
            WordFlag(("--progress",), "ask for more time"),
            WordFlag(("--no-ack",), "say nothing: they are delivered again when the time is over"),
            WordFlag(("--group",), "priority group to pull for", ValueKind.TEXT),
            WordFlag(
                ("--raw",),
                "show only bodies, as they are (on a terminal with control characters escaped)",
                nats_names=("-r",),
            ),
        ),
        json=JsonForm.LINES,
        keys=MESSAGE_KEYS,
        examples=("consumer next ORDERS worker", "consumer next ORDERS worker --count 10 --no-ack --json"),
    ),
    CommandRow(
        words=("consumer", "sub"),
        summary="Show the messages of a consumer as they come, and acknowledge each",
        description="Of one that is pulled from or that pushes. Goes on until it is interrupted, through "
        "outages of the server. A command gets the body on standard input, and the rest as with reply; "
        "a message is acknowledged if it ends with 0, else refused.",
        run="consumer_reading:subscribe",
        arguments=_BOTH,
        flags=(
            WordFlag(("--count",), "end after so many messages", ValueKind.NUMBER),
            WordFlag(("--for",), "end after this time", ValueKind.DURATION),
            WordFlag(("--idle",), "end after this time without a message", ValueKind.DURATION),
            WordFlag(("--headers-only",), "show no bodies"),
            WordFlag(("--subjects-only",), "show only subjects"),
            WordFlag(
                ("--exec",), "what a command makes of each body is shown", ValueKind.TEXT, metavar="CMD"
            ),
            WordFlag(
                ("--nak-delay",), "deliver again after this time what a command refused", ValueKind.DURATION
            ),
            WordFlag(("--no-ack",), "acknowledge nothing"),
            WordFlag(("--ack",), "acknowledge each, as always", only_as_nats=True),
            WordFlag(("--group",), "priority group to pull for", ValueKind.TEXT),
            WordFlag(
                ("--raw",),
                "show only bodies, as they are (on a terminal with control characters escaped)",
                nats_names=("-r",),
            ),
        ),
        json=JsonForm.LINES,
        keys=(*MESSAGE_KEYS, JsonKey("exit_code", "the exit code of the command of --exec")),
        examples=("consumer sub ORDERS worker", "consumer sub ORDERS worker --exec 'work {1}'"),
    ),
)
