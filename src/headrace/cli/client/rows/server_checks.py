"""Rows of `server check`: for cron, Nagios and the like."""

from __future__ import annotations

from typing import Final

from headrace.cli.client.rows.server_flags import MONITOR_FLAGS
from headrace.cli.command_rows import CommandRow, JsonKey, ValueKind, WordArgument, WordFlag

_TEXT, _NUMBER, _DECIMAL, _SIZE = ValueKind.TEXT, ValueKind.NUMBER, ValueKind.DECIMAL, ValueKind.SIZE
_DURATION, _SUBJECT = ValueKind.DURATION, ValueKind.SUBJECT
_PRINTED: Final = (
    WordFlag(
        ("--format",), "how it is printed", _TEXT, default="nagios",
        choices=("text", "json", "nagios", "prometheus"),
    ),
    WordFlag(("--namespace",), "beginning of the names in Prometheus's format", _TEXT,
             default="nats_server_check"),
)  # fmt: skip
_KEYS: Final = (
    JsonKey("check", "the name of the check"),
    JsonKey("name", "the name of what was checked"),
    JsonKey("status", "`OK`, `WARNING`, `CRITICAL` or `UNKNOWN`"),
    JsonKey("ok", "sentences about what is right"),
    JsonKey("warnings", "sentences that are a warning"),
    JsonKey("criticals", "sentences that are critical"),
    JsonKey("unknowns", "sentences about what could not be found out"),
    JsonKey("numbers", "objects with `name`, `value`, `unit`, and `warning` and `critical` where given"),
)
_CODES: Final = (
    "Exit codes are those of Nagios plugins: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN. A server that cannot be "
    "reached is critical, and so is what is not there."
)


def _limits(name: str, text: str, kind: ValueKind, *defaults: object) -> tuple[WordFlag, WordFlag]:
    """The two thresholds of a number."""
    warning, critical = defaults or (None, None)
    return (
        WordFlag((f"--{name}-warn",), f"{text} from which it is a warning", kind, warning),
        WordFlag((f"--{name}-critical",), f"{text} from which it is critical", kind, critical),
    )


def _critical(name: str, text: str, kind: ValueKind) -> WordFlag:
    return WordFlag((f"--{name}-critical",), f"{text} from which it is critical", kind)


_SAMPLES: Final = {
    "stream": "ORDERS",
    "consumer": "worker",
    "bucket": "settings",
    "subject": "orders.eu",
    "credential": "user.creds",
}
"""The names of what examples check."""


def _check(
    name: str,
    summary: str,
    run: str,
    *flags: WordFlag,
    of: tuple[tuple[str, ValueKind], ...] = (),
    aliases: tuple[str, ...] = (),
    connects: bool = True,
    description: str = "",
) -> CommandRow:
    words = " ".join(["server check", name, *(_SAMPLES[each] for each, _ in of)])
    arguments = tuple(WordArgument(f"{each}-name", f"the {each}", kind, "?") for each, kind in of)
    chosen = tuple(
        WordFlag((f"--{each}",), f"the {each}, instead of the argument", kind) for each, kind in of
    )
    return CommandRow(
        words=("server", "check", name),
        summary=summary,
        description=f"{description} {_CODES}".strip(),
        run=run,
        aliases=aliases,
        arguments=arguments,
        flags=(*flags, *chosen, *_PRINTED),
        connects=connects,
        keys=_KEYS,
        examples=(f"{words} --format prometheus",),
    )


_STREAM: Final = ("stream", ValueKind.STREAM)
_PEERS: Final = (
    _critical("peer-lag", "operations a replica is behind", _NUMBER),
    _critical("peer-seen", "time since a replica was seen", _DURATION),
)
_EXPECTED: Final = WordFlag(("--peer-expect",), "how many replicas there are", _NUMBER)

CHECKS: Final = (
    _check("connection", "Check that a server can be reached", "server_check:connection",
           *_limits("connect", "time to connect", _DURATION, 500_000_000, 1_000_000_000),
           *_limits("rtt", "round trip", _DURATION, 500_000_000, 1_000_000_000),
           *_limits("req", "time until a message comes back", _DURATION, 500_000_000, 1_000_000_000),
           aliases=("conn",)),
    _check("server", "Check a server's processor, memory, connections and settings", "server_check:server",
           WordFlag(("--name",), "name or id of the server; that which is connected to", _TEXT),
           *_limits("cpu", "percent of a processor", _DECIMAL), *_limits("mem", "memory", _SIZE),
           *_limits("conn", "connections", _NUMBER), *_limits("subs", "subscriptions", _NUMBER),
           *_limits("uptime", "time since its start, below it", _DURATION),
           WordFlag(("--auth-required",), "authentication has to be required"),
           WordFlag(("--tls-required",), "TLS has to be required"),
           WordFlag(("--js-required",), "JetStream has to be on"),
           *MONITOR_FLAGS,
           description="Takes a user of the system account, or --monitor."),
    _check("request", "Check that a service answers", "server_check:request",
           WordFlag(("--payload",), "body of the request; - reads it from a pipe", _TEXT),
           WordFlag(("--header", "-H"), "header of the request", ValueKind.HEADER, repeated=True),
           WordFlag(("--match-payload",), "regular expression that the answer has to match", _TEXT,
                    metavar="REGEX"),
           WordFlag(("--match-header",), "header that the answer has to have", ValueKind.HEADER,
                    repeated=True),
           *_limits("response", "time until the answer", _DURATION),
           of=(("subject", _SUBJECT),), aliases=("req",)),
    _check("stream", "Check a stream: messages, sources, replicas", "jetstream_check:stream",
           *_limits("msgs", "messages", _NUMBER), *_limits("subjects", "subjects", _NUMBER),
           WordFlag(("--min-sources",), "how many sources there are at least", _NUMBER),
           WordFlag(("--max-sources",), "and at most", _NUMBER),
           _critical("lag", "messages a source is behind", _NUMBER),
           _critical("seen", "time since a source was seen", _DURATION),
           _EXPECTED, *_PEERS, of=(_STREAM,),
           description="If the critical number is below the warning, less is bad."),
    _check("consumer", "Check a consumer: what waits in it, when it was read", "jetstream_check:consumer",
           _critical("outstanding-ack", "messages without acknowledgement", _NUMBER),
           _critical("waiting", "pulls that wait", _NUMBER),
           _critical("unprocessed", "messages that were not delivered", _NUMBER),
           _critical("redelivery", "messages that are delivered again", _NUMBER),
           _critical("last-delivery", "time since the last delivery", _DURATION),
           _critical("last-ack", "time since the last acknowledgement", _DURATION),
           WordFlag(("--pinned",), "a client has to be pinned"),
           of=(_STREAM, ("consumer", ValueKind.CONSUMER))),
    _check("message", "Check the last message of a subject", "jetstream_check:message",
           *_limits("age", "age", _DURATION),
           WordFlag(("--content",), "regular expression that the body has to match", _TEXT, metavar="REGEX"),
           WordFlag(("--body-timestamp",), "the body is the time, in seconds since 1970"),
           of=(_STREAM, ("subject", _SUBJECT)), aliases=("msg",)),
    _check("kv", "Check a bucket: values, a key", "jetstream_check:kv",
           *_limits("values", "values", _NUMBER),
           WordFlag(("--key",), "a key that has to be there", _TEXT),
           of=(("bucket", ValueKind.BUCKET),)),
    _check("jetstream", "Check what the account uses of JetStream's limits", "jetstream_check:jetstream",
           *_limits("mem", "percent of the memory", _DECIMAL, 75.0, 90.0),
           *_limits("store", "percent of the storage", _DECIMAL, 75.0, 90.0),
           *_limits("streams", "percent of the streams", _DECIMAL),
           *_limits("consumers", "percent of the consumers", _DECIMAL),
           WordFlag(("--replicas",), "check the replicas of all streams, too"), _EXPECTED, *_PEERS,
           aliases=("js",)),
    _check("credential", "Check how long a credentials file is good", "server_check:credential",
           *_limits("validity", "time left, below it", _DURATION),
           WordFlag(("--require-expiry",), "it has to expire"),
           of=(("credential", ValueKind.FILE),),
           aliases=("cred",), connects=False),
)  # fmt: skip
