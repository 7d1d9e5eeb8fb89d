"""The options of `format("nats")` when it writes: one table, and the frozen value it is read into.

What connects to a server is read by the source's own code, so that it means the same. Which promise a target
can keep is decided here and nowhere else; asking for more than it can is an error.
"""

from __future__ import annotations

import difflib
import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.client.jetstream_publish import DEFAULT_PREFIX
from headrace.client.pipeline import DEFAULT_WINDOW
from headrace.spark.errors import OptionError
from headrace.spark.options import OPTIONS, Option, SourceOptions, for_executors, read_options
from headrace.subjects.grammar import is_valid_literal, is_valid_subject

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_BUCKET: Final = "headrace_spark"


class Target(enum.Enum):
    """What messages are written to."""

    STREAM = "stream"
    CHANNEL = "channel"
    SUBJECT = "subject"


class Guarantee(enum.Enum):
    """The promises, strongest first."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    BEST_EFFORT = "best-effort"


STRONGEST: Final = {
    Target.STREAM: Guarantee.EXACTLY_ONCE,
    Target.CHANNEL: Guarantee.AT_LEAST_ONCE,
    Target.SUBJECT: Guarantee.BEST_EFFORT,
}


class Mode(enum.Enum):
    """What becomes of a row that cannot be a message."""

    FAIL_FAST = "failfast"
    DROP_MALFORMED = "dropmalformed"


SINK_OPTIONS: Final = (
    Option("stream", "one of `stream`, `channel`, `subject`, `target`", "JetStream stream to write into"),
    Option("channel", "none", "STAN channel to write into; wins over column `subject`"),
    Option(
        "subject", "column `subject`", "Subject of every message, of a stream or core; wins over the column"
    ),
    Option(
        "target", "as the others say", "`channel` or `subject`: where column `subject` names each row's own"
    ),
    Option(
        "deliveryGuarantee",
        "the target's strongest",
        "`exactly-once` (streams), `at-least-once` (streams, channels), `best-effort` (subjects)",
    ),
    Option("idColumn", "none", "Column with the message's id, the same whenever the row is computed again"),
    Option("keyColumns", "none", "Columns that tell the rows of one micro-batch apart, commas between them"),
    Option("positionalIds", "false", "Ids by partition and row: the plan has no shuffle and keeps its order"),
    Option("writeId", "made up", "Batch writes: name of this write; one started again under it adds nothing"),
    Option("batchBucket", DEFAULT_BUCKET, "KV bucket that notes where a batch began in its stream"),
    Option("mode", "failfast", "A row that cannot be a message: `failfast`, or `dropmalformed` and count it"),
    Option("maxInFlight", str(DEFAULT_WINDOW), "Messages of one task that wait for their acknowledgement"),
    Option(
        "jetStreamApiPrefix", DEFAULT_PREFIX, "Subjects of JetStream's API, such as `$JS.hub.API` (streams)"
    ),
)

CONNECTION_OPTIONS: Final = frozenset(
    {
        "url", "user", "password", "passwordfile", "token", "tokenfile", "tlscafile", "tlscertfile",
        "tlskeyfile", "tlsfirst", "connectionname", "connecttimeout", "reconnecttimeout", "clusterid",
        "context", "credsfile", "nkeyfile", "inboxprefix",
    }
)  # fmt: skip
"""Options of the source that mean the same here, by lower-case name."""

OF_SPARK: Final = frozenset({"checkpointlocation", "path", "queryname"})
"""What Spark itself hands a sink among its options."""

_ONLY_STREAMS: Final = (
    "idColumn",
    "keyColumns",
    "positionalIds",
    "writeId",
    "batchBucket",
    "jetStreamApiPrefix",
)
_MOST_IN_FLIGHT: Final = 1 << 16

_Kind = TypeVar("_Kind", bound=enum.Enum)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What one write was told. `name` is the stream or channel, `subject` that of every row."""

    target: Target
    name: str | None = None
    subject: str | None = None
    guarantee: Guarantee = Guarantee.BEST_EFFORT
    id_column: str | None = None
    key_columns: tuple[str, ...] = ()
    positional_ids: bool = False
    write_id: str | None = None
    bucket: str = DEFAULT_BUCKET
    mode: Mode = Mode.FAIL_FAST
    max_in_flight: int = DEFAULT_WINDOW
    api_prefix: str = DEFAULT_PREFIX
    server: SourceOptions = field(default_factory=SourceOptions)

    @property
    def title(self) -> str:
        """The target, for texts."""
        if self.target is Target.CHANNEL:
            return f"channel {self.name or 'by row'} of cluster {self.server.cluster_id}"
        return f"{self.target.value} {self.name or self.subject or 'by row'}"


def read_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """The options Spark passes on, names in any case; with what the environment adds, for the executors.

    Raises: OptionError naming the option and the fix; UnsupportedError for what a later version brings.
    """
    values = {name.lower(): value.strip() for name, value in given.items() if name.lower() not in OF_SPARK}
    connection = {name: values.pop(name) for name in CONNECTION_OPTIONS & values.keys()}
    for name in values:
        _check_name(name)
    target = _target(values)
    if target is not Target.STREAM:
        _refuse_strange(values, target)
    if target is not Target.CHANNEL and "clusterid" in connection:
        raise OptionError("option clusterId goes with option channel")
    options = SinkOptions(
        target=target,
        name=_name(values, target),
        subject=_subject(values.get("subject")),
        guarantee=_guarantee(values, target),
        id_column=values.get("idcolumn") or None,
        key_columns=tuple(filter(None, (part.strip() for part in values.get("keycolumns", "").split(",")))),
        positional_ids=_is_true(values, "positionalIds"),
        write_id=_word(values, "writeId"),
        bucket=_word(values, "batchBucket") or DEFAULT_BUCKET,
        mode=_choice("mode", values, Mode) or Mode.FAIL_FAST,
        max_in_flight=_in_flight(values),
        api_prefix=_subject(values.get("jetstreamapiprefix")) or DEFAULT_PREFIX,
        server=for_executors(read_options({**connection, "channel": "any"})),
    )
    _check_ids(options)
    return options


def _check_name(name: str) -> None:
    names = {option.name.lower(): option.name for option in SINK_OPTIONS}
    if name in names:
        return
    if name in {option.name.lower() for option in OPTIONS}:
        raise OptionError(f"option {name} is for reading")
    close = difflib.get_close_matches(name, names, 1)
    hint = f"did you mean {names[close[0]]}?" if close else f"options are {', '.join(names.values())}"
    raise OptionError(f'option {name} is not known to format("nats") for writing: {hint}')


def _target(values: Mapping[str, str]) -> Target:
    stated = _choice("target", values, Target)
    named = [kind for kind in (Target.STREAM, Target.CHANNEL) if values.get(kind.value)]
    if len(named) > 1:
        raise OptionError("options stream and channel exclude each other: a query writes to one target")
    found = named[0] if named else stated or (Target.SUBJECT if values.get("subject") else None)
    if found is None:
        raise OptionError(
            "option stream, channel or subject is missing: say what to write to, or set target to channel or "
            "subject where column subject says it for each row"
        )
    if stated not in (None, found):
        raise OptionError(
            f"option target is {stated.value if stated else ''}, and option {found.value} is set"
        )
    if found is Target.STREAM and not named:
        raise OptionError("option target stream needs option stream: the name of the JetStream stream")
    if found is Target.CHANNEL and values.get("subject"):
        raise OptionError("option subject goes with streams and core subjects; a channel is its own subject")
    return found


def _refuse_strange(values: Mapping[str, str], target: Target) -> None:
    for name in _ONLY_STREAMS:
        if name.lower() in values:
            raise OptionError(f"option {name} goes with option stream: a {target.value} knows no message ids")


def _name(values: Mapping[str, str], target: Target) -> str | None:
    name = values.get(target.value) if target is not Target.SUBJECT else None
    if not name:
        return None
    if target is Target.CHANNEL:
        return _literal("channel", name)
    if any(character in " \t\r\n.*>/\\" for character in name):
        raise OptionError(f"option stream: {name!r} is not the name of a JetStream stream")
    return name


def _subject(text: str | None) -> str | None:
    return _literal("subject", text) if text else None


def _literal(option: str, text: str) -> str:
    raw = text.encode()
    if not is_valid_subject(raw) or not is_valid_literal(raw):
        raise OptionError(f"option {option}: {text!r} is empty somewhere or has blanks or wildcards")
    return text


def _guarantee(values: Mapping[str, str], target: Target) -> Guarantee:
    order = list(Guarantee)
    strongest = STRONGEST[target]
    wanted = _choice("deliveryGuarantee", values, Guarantee) or strongest
    if order.index(wanted) < order.index(strongest):
        raise OptionError(
            f"option deliveryGuarantee: a {target.value} cannot give {wanted.value}, {strongest.value} is "
            "the most" + (" (exactly-once needs a JetStream stream)" if target is Target.CHANNEL else "")
        )
    if wanted is Guarantee.BEST_EFFORT and target is not Target.SUBJECT:
        raise OptionError(
            f"option deliveryGuarantee: best-effort is for core subjects; a {target.value} acknowledges"
        )
    return wanted


def _check_ids(options: SinkOptions) -> None:
    if options.target is not Target.STREAM:
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


def _word(values: Mapping[str, str], name: str) -> str | None:
    text = values.get(name.lower())
    if text is None:
        return None
    if not text or not all(one.isascii() and (one.isalnum() or one in "-_=") for one in text):
        raise OptionError(f"option {name}: {text!r} is not made of letters, digits, '-', '_' and '='")
    return text


def _choice(name: str, values: Mapping[str, str], kind: type[_Kind]) -> _Kind | None:
    text = values.get(name.lower())
    if text is None:
        return None
    try:
        return kind(text.lower())
    except ValueError:
        raise OptionError(
            f"option {name}: {text!r} is not one of {', '.join(str(one.value) for one in kind)}"
        ) from None


def _is_true(values: Mapping[str, str], name: str) -> bool:
    text = values.get(name.lower(), "false").lower()
    if text not in ("true", "false"):
        raise OptionError(f"option {name}: {text!r} is neither true nor false")
    return text == "true"


def _in_flight(values: Mapping[str, str]) -> int:
    text = values.get("maxinflight")
    if text is None:
        return DEFAULT_WINDOW
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= _MOST_IN_FLIGHT:
        raise OptionError(f"option maxInFlight: {text!r} is not a whole number from 1 to {_MOST_IN_FLIGHT}")
    return int(text)
