"""The options of `format("nats")` when it writes: the value they are read into, with the entry of each.

What connects to a server is read by the source's own code, so that it means the same. Which promise a target
can keep is decided here and nowhere else; asking for more than it can is an error.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.client.jetstream_api import DEFAULT_PREFIX
from headrace.client.pipeline import DEFAULT_WINDOW
from headrace.spark.errors import OptionError
from headrace.spark.option_entry import Option, made_of, option, options_of, read_fields
from headrace.spark.option_names import check_names
from headrace.spark.options import OPTIONS, SourceOptions, for_executors, read_options
from headrace.subjects.grammar import is_valid_literal, is_valid_subject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.spark.typed_payloads import StreamPayloads

DEFAULT_BUCKET: Final = "headrace_spark"

_STREAMS: Final = ("stream",)
"""The targets of options that are about message ids."""


class SinkTarget(enum.Enum):
    """The kind of place that messages are written to."""

    STREAM = "stream"
    CHANNEL = "channel"
    SUBJECT = "subject"


class Guarantee(enum.Enum):
    """The promises, strongest first."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    BEST_EFFORT = "best-effort"


STRONGEST: Final = {
    SinkTarget.STREAM: Guarantee.EXACTLY_ONCE,
    SinkTarget.CHANNEL: Guarantee.AT_LEAST_ONCE,
    SinkTarget.SUBJECT: Guarantee.BEST_EFFORT,
}


class MalformedRows(enum.Enum):
    """The treatment of a row that cannot be a message."""

    FAIL_FAST = "failfast"
    DROP_MALFORMED = "dropmalformed"


OF_SPARK: Final = frozenset({"checkpointlocation", "path", "queryname"})
"""Options that Spark itself gives a sink."""

_MOST_IN_FLIGHT: Final = 1 << 16

_Kind = TypeVar("_Kind", bound=enum.Enum)


def _literal(name: str, text: str) -> str:
    raw = text.encode()
    if not is_valid_subject(raw) or not is_valid_literal(raw):
        raise OptionError(f"option {name}: {text!r} is empty somewhere or has blanks or wildcards")
    return text


def _word(name: str, text: str) -> str:
    if not text or not all(one.isascii() and (one.isalnum() or one in "-_=") for one in text):
        raise OptionError(f"option {name}: {text!r} is not made of letters, digits, '-', '_' and '='")
    return text


def _columns(_name: str, text: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def _choice(name: str, text: str, kind: type[_Kind]) -> _Kind:
    try:
        return kind(text.lower())
    except ValueError:
        raise OptionError(
            f"option {name}: {text!r} is not one of {', '.join(str(one.value) for one in kind)}"
        ) from None


def _mode(name: str, text: str) -> MalformedRows:
    return _choice(name, text, MalformedRows)


def _in_flight(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= _MOST_IN_FLIGHT:
        raise OptionError(f"option {name}: {text!r} is not a whole number from 1 to {_MOST_IN_FLIGHT}")
    return int(text)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of one write, each field with the entry of its option.

    `name` is the stream or channel, `subject` that of every row.
    """

    target: SinkTarget
    name: str | None = made_of(
        None,
        Option(
            "stream",
            "text",
            "one of `stream`, `channel`, `subject`, `target`",
            "JetStream stream to write into",
            elsewhere=("topic", "nats.stream", "streamName"),
        ),
        Option(
            "channel",
            "text",
            "none",
            "STAN channel to write into; wins over column `subject`",
            elsewhere=("topic", "nats.channel"),
        ),
        Option(
            "target",
            "word",
            "as the others say",
            "`channel` or `subject`: where column `subject` names each row's own",
        ),
    )
    subject: str | None = option(
        None,
        "subject",
        "Subject of every message, of a stream or core; wins over the column",
        shown_default="column `subject`",
        read=_literal,
        elsewhere=("topic", "nats.subject"),
    )
    guarantee: Guarantee = made_of(
        Guarantee.BEST_EFFORT,
        Option(
            "deliveryGuarantee",
            "word",
            "the target's strongest",
            "`exactly-once` (streams), `at-least-once` (streams, channels), `best-effort` (subjects)",
            elsewhere=("kafka.acks", "kafka.enable.idempotence", "kafka.transactional.id", "guarantee"),
        ),
    )
    id_column: str | None = option(
        None,
        "text",
        "Column with the message's id, the same whenever the row is computed again",
        of=_STREAMS,
        elsewhere=("msgIdColumn", "messageId", "Nats-Msg-Id"),
    )
    key_columns: tuple[str, ...] = option(
        (),
        "list",
        "Columns that tell the rows of one micro-batch apart, or fields of them such as `window.start`, "
        "commas between them",
        shown_default="none",
        of=_STREAMS,
        read=_columns,
        elsewhere=("keyColumn", "keys"),
    )
    positional_ids: bool = option(
        False,
        "true or false",
        "Ids by partition and row: the plan has no shuffle and keeps its order",
        of=_STREAMS,
    )
    write_id: str | None = option(
        None,
        "word",
        "Batch writes: name of this write; one started again under it adds nothing",
        shown_default="made up",
        of=_STREAMS,
        read=_word,
    )
    bucket: str = option(
        DEFAULT_BUCKET,
        "word",
        "KV bucket that notes where a batch began in its stream",
        name="batchBucket",
        of=_STREAMS,
        read=_word,
    )
    mode: MalformedRows = option(
        MalformedRows.FAIL_FAST,
        "word",
        "A row that cannot be a message: `failfast`, or `dropmalformed` and count it",
        shown_default=MalformedRows.FAIL_FAST.value,
        read=_mode,
    )
    max_in_flight: int = option(
        DEFAULT_WINDOW,
        "number",
        "Messages of one task that wait for their acknowledgement",
        read=_in_flight,
        elsewhere=("kafka.max.in.flight.requests.per.connection", "kafka.batch.size", "kafka.linger.ms"),
    )
    api_prefix: str = option(
        DEFAULT_PREFIX,
        "subject",
        "Subjects of JetStream's API, such as `$JS.hub.API`",
        name="jetStreamApiPrefix",
        of=_STREAMS,
        read=_literal,
    )
    server: SourceOptions = field(default_factory=SourceOptions)
    payloads: StreamPayloads | None = None
    """The schema of the stream, for a frame that has the fields of payloads instead of column `data`."""

    @property
    def title(self) -> str:
        """The target, for texts."""
        if self.target is SinkTarget.CHANNEL:
            return f"channel {self.name or 'by row'} of cluster {self.server.cluster_id}"
        return f"{self.target.value} {self.name or self.subject or 'by row'}"


SINK_OPTIONS: Final = options_of(SinkOptions)
"""The entries of all options but those that mean the same as for reading."""

_CONNECTING: Final = tuple(entry for entry in OPTIONS if entry.writes)
CONNECTION_OPTIONS: Final = frozenset(entry.name.lower() for entry in _CONNECTING)
"""Options of the source that mean the same here, by lower-case name."""


def read_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """The options Spark passes on, names in any case; with what the environment adds, for the executors.

    Raises: OptionError naming the option and the fix; UnsupportedError for what a later version brings.
    """
    values = {name.lower(): value.strip() for name, value in given.items() if name.lower() not in OF_SPARK}
    check_names(values, (*SINK_OPTIONS, *_CONNECTING), reading=OPTIONS)
    connection = {name: values.pop(name) for name in CONNECTION_OPTIONS & values.keys()}
    target = _target(values)
    if target is not SinkTarget.STREAM:
        _refuse_strange(values, target)
    if target is not SinkTarget.CHANNEL and "clusterid" in connection:
        raise OptionError("option clusterId goes with option channel")
    options = SinkOptions(
        target=target,
        name=_name(values, target),
        guarantee=_guarantee(values, target),
        server=for_executors(read_options({**connection, "channel": "any"})),
        **read_fields(SinkOptions, values),
    )
    _check_ids(options)
    return options


def _target(values: Mapping[str, str]) -> SinkTarget:
    stated = _choice("target", values["target"], SinkTarget) if "target" in values else None
    named = [kind for kind in (SinkTarget.STREAM, SinkTarget.CHANNEL) if values.get(kind.value)]
    if len(named) > 1:
        raise OptionError("options stream and channel exclude each other: a query writes to one target")
    found = named[0] if named else stated or (SinkTarget.SUBJECT if values.get("subject") else None)
    if found is None:
        raise OptionError(
            "option stream, channel or subject is missing: say what to write to, or set target to channel or "
            "subject where column subject says it for each row"
        )
    if stated not in (None, found):
        raise OptionError(
            f"option target is {stated.value if stated else ''}, and option {found.value} is set"
        )
    if found is SinkTarget.STREAM and not named:
        raise OptionError("option target stream needs option stream: the name of the JetStream stream")
    if found is SinkTarget.CHANNEL and values.get("subject"):
        raise OptionError("option subject goes with streams and core subjects; a channel is its own subject")
    return found


def _refuse_strange(values: Mapping[str, str], target: SinkTarget) -> None:
    for entry in SINK_OPTIONS:
        if entry.of == _STREAMS and entry.name.lower() in values:
            raise OptionError(
                f"option {entry.name} goes with option stream: a {target.value} knows no message ids"
            )


def _name(values: Mapping[str, str], target: SinkTarget) -> str | None:
    name = values.get(target.value) if target is not SinkTarget.SUBJECT else None
    if not name:
        return None
    if target is SinkTarget.CHANNEL:
        return _literal("channel", name)
    if any(character in " \t\r\n.*>/\\" for character in name):
        raise OptionError(f"option stream: {name!r} is not the name of a JetStream stream")
    return name


def _guarantee(values: Mapping[str, str], target: SinkTarget) -> Guarantee:
    order = list(Guarantee)
    strongest = STRONGEST[target]
    text = values.get("deliveryguarantee")
    wanted = strongest if text is None else _choice("deliveryGuarantee", text, Guarantee)
    if order.index(wanted) < order.index(strongest):
        raise OptionError(
            f"option deliveryGuarantee: a {target.value} cannot give {wanted.value}, {strongest.value} is "
            "the most" + (" (exactly-once needs a JetStream stream)" if target is SinkTarget.CHANNEL else "")
        )
    if wanted is Guarantee.BEST_EFFORT and target is not SinkTarget.SUBJECT:
        raise OptionError(
            f"option deliveryGuarantee: best-effort is for core subjects; a {target.value} acknowledges"
        )
    return wanted


def _check_ids(options: SinkOptions) -> None:
    if options.target is not SinkTarget.STREAM:
        return
    given = [bool(options.id_column), bool(options.key_columns), options.positional_ids].count(True)
    if given > 1:
        raise OptionError("options idColumn, keyColumns and positionalIds exclude each other")
    if options.guarantee is Guarantee.EXACTLY_ONCE:
        if not given:
            raise OptionError(
                "writing into a stream exactly once needs ids that are the same when a row is computed "
                "again: set idColumn or keyColumns; or set positionalIds to true, right only where the plan "
                "has no shuffle (no groupBy, join, distinct, repartition, orderBy) between a source that "
                "repeats its rows and this sink; or set deliveryGuarantee to at-least-once"
            )
    elif given:
        raise OptionError("options idColumn, keyColumns and positionalIds go with exactly-once")
    elif options.write_id:
        raise OptionError("option writeId goes with exactly-once")
