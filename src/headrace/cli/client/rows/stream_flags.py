"""The flags that say how a stream is configured: of `stream add`, `edit` and `copy`.

Here live their names and texts. Never lives here: what becomes of them (`stream_config`).
"""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import ValueKind, WordFlag

ALLOWED: Final = {
    "direct": "allow_direct",
    "rollup": "allow_rollup_hdrs",
    "msg-ttl": "allow_msg_ttl",
    "atomic": "allow_atomic",
    "fast": "allow_batched",
    "counter": "allow_msg_counter",
    "schedules": "allow_msg_schedules",
    "mirror-direct": "mirror_direct",
}
"""The words of `--allow`, and the fields that they set."""
DENIED: Final = {"delete": "deny_delete", "purge": "deny_purge"}
"""The words of `--deny`, and the fields that they set."""

AS_NATS: Final = {
    "--allow-direct": "allow_direct",
    "--allow-rollup": "allow_rollup_hdrs",
    "--allow-msg-ttl": "allow_msg_ttl",
    "--allow-batch": "allow_atomic",
    "--allow-fast": "allow_batched",
    "--allow-mirror-direct": "mirror_direct",
    "--allow-counter": "allow_msg_counter",
    "--allow-schedules": "allow_msg_schedules",
    "--deny-delete": "deny_delete",
    "--deny-purge": "deny_purge",
}
"""The switches of the tool nats, each with a `--no-` twin, and the fields that they set."""

NO_SELECT: Final = WordFlag(("--no-select",), "show no menu, as always", only_as_nats=True)

_TEXT: Final = ValueKind.TEXT

CONFIG_FLAGS: Final = (
    WordFlag(("--subjects",), "subjects that it takes, with commas or given again", _TEXT,
             repeated=True, metavar="SUBJECTS"),
    WordFlag(("--storage",), "where messages are stored: file or memory", _TEXT, metavar="KIND"),
    WordFlag(("--retention",), "when messages go: limits, interest or work", _TEXT, metavar="POLICY"),
    WordFlag(("--max-age",), "how long messages stay; 0 for ever", _TEXT, metavar="DURATION"),
    WordFlag(("--max-bytes",), "bytes that it keeps; -1 without limit", _TEXT, metavar="SIZE"),
    WordFlag(("--max-msgs",), "messages that it keeps; -1 without limit", _TEXT, metavar="N"),
    WordFlag(("--max-msgs-per-subject",), "messages of a subject that it keeps; -1 without limit", _TEXT,
             metavar="N"),
    WordFlag(("--max-msg-size",), "bytes of a message; -1 without limit", _TEXT, metavar="SIZE"),
    WordFlag(("--max-consumers",), "consumers that it may have; -1 without limit", _TEXT, metavar="N"),
    WordFlag(("--discard",), "what goes at a limit: old messages, or the new one", _TEXT, metavar="old|new"),
    WordFlag(("--discard-per-subject",), "with --discard new: refuse at the limit of a subject, too"),
    WordFlag(("--dupe-window",), "how long ids of messages are known", _TEXT, metavar="DURATION"),
    WordFlag(("--compression",), "compression of its file: none or s2", _TEXT, metavar="KIND"),
    WordFlag(("--replicas",), "servers that have it", ValueKind.NUMBER),
    WordFlag(("--allow",), f"what is allowed: {', '.join(ALLOWED)}; no-direct takes it back", _TEXT,
             repeated=True, metavar="WORDS"),
    WordFlag(("--deny",), f"what is denied for good: {', '.join(DENIED)}", _TEXT, repeated=True,
             metavar="WORDS"),
    WordFlag(("--mirror",), "the stream that it mirrors, its JSON, or @FILE with it; '' for none", _TEXT,
             metavar="STREAM"),
    WordFlag(("--source",), "a stream that it copies from; or its JSON, or @FILE with it", _TEXT,
             repeated=True, metavar="STREAM"),
    WordFlag(("--transform",), "how subjects are changed when they come", _TEXT, metavar="'A->B'"),
    WordFlag(("--republish",), "where stored messages are published again", _TEXT, metavar="'A->B'"),
    WordFlag(("--republish-headers",), "publish only the headers again"),
    WordFlag(("--first-sequence",), "the sequence of its first message", ValueKind.NUMBER),
    WordFlag(("--marker-ttl", "--subject-del-markers-ttl"),
             "how long a marker stays for the last message of a subject that expired",
             _TEXT, metavar="DURATION"),
    WordFlag(("--consumer-inactive", "--limit-consumer-inactive"),
             "the longest time that consumers may be inactive", _TEXT,
             metavar="DURATION"),
    WordFlag(("--consumer-max-pending", "--limit-consumer-max-pending"),
             "the most messages without acknowledgement of a consumer", _TEXT,
             metavar="N"),
    WordFlag(("--persist", "--persist-mode"),
             "when a message counts as stored: default or async", _TEXT, metavar="MODE"),
    WordFlag(("--no-ack",), "do not acknowledge messages"),
    WordFlag(("--cluster",), "the cluster that it is placed in", _TEXT),
    WordFlag(("--tag", "--tags"), "a tag that its servers have", _TEXT, repeated=True),
    WordFlag(("--description",), "a text for people", _TEXT),
    WordFlag(("--metadata",), "metadata of its own; NAME= removes one", ValueKind.PAIR, repeated=True),
    WordFlag(("--config",), "file with the configuration as JSON; - is standard input", ValueKind.FILE),
    WordFlag(("--defaults",), "what is not said is the server's default, as always", only_as_nats=True),
    WordFlag(("--ack",), "acknowledge messages, as always", only_as_nats=True),
    WordFlag(("--republish-source",), "what is published again", _TEXT, only_as_nats=True),
    WordFlag(("--republish-destination",), "where it is published again", _TEXT, only_as_nats=True),
    WordFlag(("--transform-source",), "subjects that are changed", _TEXT, only_as_nats=True),
    WordFlag(("--transform-destination",), "what they become", _TEXT, only_as_nats=True),
    WordFlag(("--no-discard-per-subject",), "not at the limit of a subject", only_as_nats=True),
    *(
        WordFlag((f"--no-{what}",), f"remove its {what}", only_as_nats=True)
        for what in ("mirror", "republish", "transform")
    ),
    *(
        WordFlag((f"--{no}{name.removeprefix('--')}",), f"field {field}", only_as_nats=True)
        for name, field in AS_NATS.items()
        for no in ("", "no-")
    ),
)  # fmt: skip
