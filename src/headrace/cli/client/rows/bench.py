"""The rows of `bench`."""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import CommandRow, JsonKey, ValueKind, WordArgument, WordFlag

_KEYS: Final = (
    JsonKey("scenario", "the words of the command"),
    JsonKey("server", "the address that was measured"),
    JsonKey("version", "the version of the server"),
    JsonKey("clients", "how many clients were measured, each a process"),
    JsonKey("partners", "publishers or responders of the run beside them"),
    JsonKey("message_size_bytes", "the payload of a message"),
    JsonKey("batch", "how many messages could be on their way"),
    JsonKey("messages", "the messages that were done"),
    JsonKey("size_bytes", "their headers and payloads"),
    JsonKey("seconds", "from the first client's begin to the last one's end"),
    JsonKey("messages_per_second", "`messages` by `seconds`"),
    JsonKey("bytes_per_second", "`size_bytes` by `seconds`"),
    JsonKey("errors", "what the server refused: to each text, how often"),
    JsonKey("latency", "`count`, `min_ns`, `average_ns`, `p50_ns`, `p90_ns`, `p99_ns`, `p999_ns`, `max_ns`"),
    JsonKey("histogram", "rows with `from_ns`, `to_ns` and `count`"),
    JsonKey("per_client", "the figures of each client"),
    JsonKey("interrupted", "true if the run was ended before its time"),
    JsonKey("servers", "with `--compare`: both addresses"),
    JsonKey("versions", "with `--compare`: both versions"),
    JsonKey("rounds", "with `--compare`: how often both were measured"),
    JsonKey("messages_per_second_ratio", "with `--compare`: the median of the first by that of the second"),
    JsonKey("latency_ratio", "with `--compare`: the same for `p50`, `p90`, `p99` and `p999`"),
)
DEFAULT_NAME: Final = "HEADRACE_BENCH"
"""The stream or the bucket of a run that names none."""
_SUBJECT: Final = WordArgument("subject", "the subject", ValueKind.SUBJECT)

_RUN: Final = (
    WordFlag(("--clients",), "clients, each a process", ValueKind.NUMBER, default=1),
    WordFlag(("--msgs",), "messages of all clients together", ValueKind.NUMBER, default=100_000),
    WordFlag(("--duration",), "end after so long instead", ValueKind.DURATION),
    WordFlag(("--csv",), "write the figures of each client as CSV", ValueKind.FILE),
)
_COMPARED: Final = (
    WordFlag(
        ("--compare",),
        "run on this server, too, in turn; print ratios only",
        metavar="URL",
        kind=ValueKind.SERVER,
    ),
    WordFlag(("--rounds",), "how often both are measured", ValueKind.NUMBER, default=5),
)
_SIZE: Final = WordFlag(("--size",), "bytes of a payload", ValueKind.SIZE, default=128)
_PAYLOAD: Final = WordFlag(("--payload",), "the payload, from a file", ValueKind.FILE)
_BODY: Final = (
    _SIZE,
    _PAYLOAD,
    WordFlag(("--header", "-H"), "a header of each message", ValueKind.HEADER, repeated=True),
    WordFlag(
        ("--rate",),
        "messages a second, of all clients together",
        ValueKind.DECIMAL,
        nats_names=("--throughput",),
    ),
)
_SUBJECTS: Final = WordFlag(("--subjects",), "subjects, named SUBJECT.0 and so on", ValueKind.NUMBER)
_QUEUE: Final = WordFlag(("--queue",), "the queue group", ValueKind.TEXT)
_WINDOW: Final = WordFlag(("--batch",), "how many may be on their way", ValueKind.NUMBER)
_PULL: Final = WordFlag(("--batch",), "messages of a pull", ValueKind.NUMBER, default=500)
_MADE: Final = (
    WordFlag(("--create",), "make it if it is missing"),
    WordFlag(("--keep",), "do not remove what was made"),
    WordFlag(("--storage",), "what is made", ValueKind.TEXT, default="file", choices=("file", "memory")),
    WordFlag(("--replicas",), "of what is made", ValueKind.NUMBER, default=1),
)
_PURGE: Final = WordFlag(("--purge",), "empty it before")
_STREAM: Final = (WordFlag(("--stream",), "the stream", ValueKind.STREAM, default=DEFAULT_NAME), *_MADE)
_BUCKET: Final = (
    WordFlag(("--bucket",), "the bucket", ValueKind.BUCKET, default=DEFAULT_NAME),
    *_MADE,
    WordFlag(("--keys",), "how many keys there are", ValueKind.NUMBER, nats_names=("--randomize",)),
)
_ACK: Final = WordFlag(
    ("--ack",),
    "how messages are acknowledged",
    ValueKind.TEXT,
    default="explicit",
    choices=("explicit", "none"),
    nats_names=("--acks",),
)
_FILLED: Final = (_SIZE, _PAYLOAD)


def _row(
    words: str,
    summary: str,
    *flags: WordFlag,
    takes_subject: bool = False,
    fills: bool = False,
    only_as_nats: bool = False,
) -> CommandRow:
    examples = f"bench {words} {'bench.load ' if takes_subject else ''}--msgs 10 --json"
    return CommandRow(
        words=("bench", *words.split()),
        summary=summary,
        run="bench:measure",
        arguments=(_SUBJECT,) if takes_subject else (),
        flags=(*_RUN, *flags),
        asks=fills,
        keys=_KEYS,
        examples=(examples,) if words == "pub" else (),
        only_as_nats=only_as_nats,
    )


_PUBLISHED: Final = (*_BODY, _SUBJECTS, _WINDOW, *_STREAM, _PURGE, *_COMPARED)


ROWS: Final = (
    _row("pub", "Measure publishing", *_BODY, _SUBJECTS, *_COMPARED, takes_subject=True),
    _row(
        "sub",
        "Measure subscribers; each gets all messages",
        *_BODY,
        _SUBJECTS,
        _QUEUE,
        WordFlag(("--publishers",), "publishers that this run brings", ValueKind.NUMBER, default=0),
        *_COMPARED,
        takes_subject=True,
    ),
    _row(
        "request",
        "Measure requests",
        *_BODY,
        _SUBJECTS,
        _WINDOW,
        WordFlag(("--responders",), "responders that this run brings", ValueKind.NUMBER, default=0),
        *_COMPARED,
        takes_subject=True,
    ),
    _row(
        "serve",
        "Answer requests until that is interrupted",
        _SIZE,
        _PAYLOAD,
        _SUBJECTS,
        _QUEUE,
        takes_subject=True,
    ),
    _row(
        "service",
        "Measure requests to a micro service that this run brings",
        *_BODY,
        _WINDOW,
        WordFlag(("--responders",), "instances of the service", ValueKind.NUMBER, default=1),
        *_COMPARED,
    ),
    _row(
        "js pub",
        "Measure publishing into a stream",
        *_BODY,
        _SUBJECTS,
        WordFlag(("--subject",), "the subject", ValueKind.SUBJECT, default="headrace.bench"),
        WordFlag(("--sync",), "one message after the other"),
        WordFlag(("--async",), "many on their way, each acknowledged (default)"),
        WordFlag(("--atomic",), "in atomic batches"),
        WordFlag(("--fast",), "by fast ingest"),
        _WINDOW,
        *_STREAM,
        _PURGE,
        *_COMPARED,
        fills=True,
    ),
    _row(
        "js consume",
        "Measure a consumer with pulls that overlap",
        _PULL,
        _ACK,
        *_STREAM,
        *_FILLED,
        *_COMPARED,
    ),
    _row(
        "js fetch",
        "Measure a consumer with one pull after the other",
        _PULL,
        _ACK,
        *_STREAM,
        *_FILLED,
        *_COMPARED,
    ),
    _row(
        "js ordered",
        "Measure ordered consumers; each gets all messages",
        _PULL,
        *_STREAM,
        *_FILLED,
        *_COMPARED,
    ),
    _row("js get", "Measure direct gets", _WINDOW, *_STREAM, *_FILLED, *_COMPARED),
    _row(
        "kv put",
        "Measure puts into a key-value bucket",
        *_BODY,
        _WINDOW,
        *_BUCKET,
        _PURGE,
        *_COMPARED,
        fills=True,
    ),
    *(
        _row(
            f"js pub {way}",
            "Measure publishing into a stream",
            *_PUBLISHED,
            takes_subject=True,
            fills=True,
            only_as_nats=True,
        )
        for way in ("sync", "async", "atomic", "batch", "fast")
    ),
    *(
        _row(
            f"js get {way}", "Measure direct gets", _WINDOW, *_STREAM, *_FILLED, *_COMPARED, only_as_nats=True
        )
        for way in ("sync", "batch")
    ),
    _row(
        "service request",
        "Measure requests",
        *_BODY,
        _SUBJECTS,
        _WINDOW,
        *_COMPARED,
        takes_subject=True,
        only_as_nats=True,
    ),
    _row(
        "service serve",
        "Answer requests until that is interrupted",
        _SIZE,
        _PAYLOAD,
        _SUBJECTS,
        takes_subject=True,
        only_as_nats=True,
    ),
    _row("kv get", "Measure gets out of a key-value bucket", _WINDOW, *_BUCKET, *_FILLED, *_COMPARED),
)
