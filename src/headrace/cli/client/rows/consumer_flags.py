"""The flags that say what a consumer is to be, for `consumer add` and `edit`."""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import ValueKind, WordFlag

CONFIG_FLAGS: Final = (
    WordFlag(("--pull",), "messages are pulled from it, as is usual"),
    WordFlag(("--target",), "messages are pushed to this subject", ValueKind.SUBJECT),
    WordFlag(("--deliver-group",), "queue group of those who listen to --target", ValueKind.TEXT),
    WordFlag(
        ("--deliver",),
        "where it begins: all, new, last, last-per-subject, a sequence, or a time such as -1h",
        ValueKind.TEXT,
        metavar="WHERE",
    ),
    WordFlag(
        ("--filter",),
        "only messages of these subjects; '' for all",
        ValueKind.TEXT,
        repeated=True,
        metavar="SUBJECT",
    ),
    WordFlag(
        ("--ack",),
        "what is acknowledged: each message (usual), all up to one, or none (usual with --target)",
        ValueKind.TEXT,
        choices=("explicit", "all", "none"),
    ),
    WordFlag(("--wait",), "deliver again what was not acknowledged for so long", ValueKind.DURATION),
    WordFlag(
        ("--max-deliver",), "deliver a message so often at most; -1 for ever", ValueKind.TEXT, metavar="N"
    ),
    WordFlag(
        ("--backoff",),
        "wait so long after each delivery: 1s,10s,1m or linear:MIN:MAX:STEPS",
        ValueKind.TEXT,
        metavar="WAITS",
    ),
    WordFlag(("--backoff-steps",), "steps of --backoff linear", ValueKind.NUMBER, only_as_nats=True),
    WordFlag(("--backoff-min",), "its first wait", ValueKind.DURATION, only_as_nats=True),
    WordFlag(("--backoff-max",), "its last wait", ValueKind.DURATION, only_as_nats=True),
    WordFlag(
        ("--max-pending", "--max-outstanding"),
        "so many unacknowledged messages at most; -1 without limit",
        ValueKind.TEXT,
        metavar="N",
    ),
    WordFlag(("--max-waiting",), "so many pulls that wait at most", ValueKind.NUMBER),
    WordFlag(("--max-batch", "--max-pull-batch"), "messages of one pull at most", ValueKind.NUMBER),
    WordFlag(("--max-expires", "--max-pull-expire"), "how long one pull may wait", ValueKind.DURATION),
    WordFlag(("--max-bytes", "--max-pull-bytes"), "bytes of one pull at most", ValueKind.SIZE),
    WordFlag(
        ("--replay",),
        "how fast stored messages come: at once, or as they were published",
        ValueKind.TEXT,
        choices=("instant", "original"),
    ),
    WordFlag(
        ("--sample",),
        "percentage of acknowledgements that an advisory tells of",
        ValueKind.TEXT,
        metavar="N%",
    ),
    WordFlag(("--bps",), "push so many bits in a second at most", ValueKind.SIZE),
    WordFlag(("--headers-only",), "deliver no bodies"),
    WordFlag(("--no-headers-only",), "deliver bodies, too"),
    WordFlag(
        ("--inactive", "--inactive-threshold"),
        "remove it when nobody has used it for so long",
        ValueKind.DURATION,
    ),
    WordFlag(("--heartbeat",), "say on --target after so much silence that it is there", ValueKind.DURATION),
    WordFlag(("--flow-control",), "push no faster than the listener reads; needs --heartbeat"),
    WordFlag(("--no-flow-control",), "as is usual", only_as_nats=True),
    WordFlag(
        ("--groups",), "priority groups of those who pull", ValueKind.TEXT, repeated=True, metavar="NAMES"
    ),
    WordFlag(
        ("--group-policy",),
        "who of a group gets messages: one (pinned), who waits for overflow, or by priority",
        ValueKind.TEXT,
        choices=("pinned", "overflow", "prioritized"),
    ),
    WordFlag(("--pinned-ttl",), "another one of the group follows after so long", ValueKind.DURATION),
    WordFlag(("--pinned-groups",), "groups that pin one", ValueKind.TEXT, repeated=True, only_as_nats=True),
    WordFlag(
        ("--overflow-groups",), "groups that overflow", ValueKind.TEXT, repeated=True, only_as_nats=True
    ),
    WordFlag(
        ("--prioritized-groups",), "groups by priority", ValueKind.TEXT, repeated=True, only_as_nats=True
    ),
    WordFlag(
        ("--dead-letter",),
        "where messages go that are given up (Headrace; entry headrace.dead_letter_subject of the metadata)",
        ValueKind.SUBJECT,
    ),
    WordFlag(("--description",), "a text for people", ValueKind.TEXT),
    WordFlag(("--metadata",), "an entry of its metadata", ValueKind.PAIR, repeated=True),
    WordFlag(("--replicas",), "how many servers have it; 0 as its stream", ValueKind.NUMBER),
    WordFlag(("--memory",), "keep its state in memory"),
    WordFlag(
        ("--config",),
        "a file with a configuration, or - for standard input; flags go before it",
        ValueKind.FILE,
    ),
)
"""The flags that `consumer add` and `consumer edit` share."""
