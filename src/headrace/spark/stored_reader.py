"""Reading stored streams: offsets are sequences, partitions are ranges of them, every message exactly once.

Beside the driver a reader asks the server how far the streams have come and plans ranges; tasks read
their range from the server themselves, as Arrow batches. `partitions(start, end)` depends on its arguments
only, and a stored sequence never changes, so a batch that Spark runs again, after a crash too, holds the
same rows. Messages that should be there and are not end the query, or, with `failOnDataLoss` false, are
told of in the log. A stream is a STAN channel or a JetStream stream, which only the link knows.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from headrace.errors import UnsupportedError
from headrace.spark.channel_link import ChannelLink
from headrace.spark.errors import DataLossError, OptionError, StoredStreamError
from headrace.spark.jetstream_link import JetStreamLink
from headrace.spark.offsets import (
    STREAM,
    Backlog,
    Place,
    StoredRange,
    batch_places,
    latest_to_json,
    places_from_json,
    places_to_json,
    range_between,
    shared_limit,
    split,
)
from headrace.spark.option_places import Edge, Moment
from headrace.spark.pushdown import Bounds, bounds_of
from headrace.spark.typed_payloads import TypedDecoder, payloads_of
from headrace.spark.values import Decoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from headrace.protocol.replay import Damage
    from headrace.spark.offsets import StoredKind
    from headrace.spark.option_places import Start, Starts
    from headrace.spark.options import SourceOptions
    from headrace.spark.stored_link import StoredAnswers, StoredState
    from headrace.spark.typed_payloads import StreamPayloads

ROWS_PER_TASK: Final = 10_000
"""Fewer messages than this do not pay for a second task."""

ASK_AGAIN: Final = 1.0
"""Seconds for which a reader knows when the first waiting message of a stream was stored, without asking."""

_log = logging.getLogger("headrace.spark")


@dataclass(frozen=True)
class StoredPartition(InputPartition):
    """The part of a read that one task does: a range, and the subjects in it (none: all)."""

    range: StoredRange
    filters: tuple[str, ...] = ()


def described_payloads(options: SourceOptions, *, is_asked_for: bool) -> StreamPayloads | None:
    """Ask for the schema of what the options select of JetStream streams.

    Raises: StoredStreamError; OptionError if it cannot be used, or if there is none although it is asked for.
    """
    states = states_of(JetStreamLink(options), STREAM, options.streams)
    metadata = {name: state.metadata for name, state in states.items() if state is not None}
    return payloads_of(metadata, options.filters, is_asked_for=is_asked_for)


def states_of(link: StoredAnswers, kind: StoredKind, names: Iterable[str]) -> dict[str, StoredState | None]:
    """Ask for the states of streams by their names, or by wildcards. Raises: StoredStreamError."""
    states: dict[str, StoredState | None] = {}
    for name in names:
        if kind.is_pattern(name):
            states |= link.matching(name)
        else:
            states[name] = link.state(name)
    return states


def link_of(options: SourceOptions) -> StoredAnswers:
    """The link to the kind of streams that the options select."""
    return JetStreamLink(options) if options.streams else ChannelLink(options)


class StoredTasks:
    """The common part of reading a stream and reading a table: the plan of a range, and the task."""

    def __init__(self, options: SourceOptions, schema: StructType, link: StoredAnswers | None = None) -> None:
        self._options = options
        self._schema = schema
        self._link = link or link_of(options)
        self._kind = options.stored_kind
        self._names = options.stored_names

    def _found(self) -> dict[str, StoredState | None]:
        """Ask for the state of each stream that the options name, or that their wildcards match now."""
        return states_of(self._link, self._kind, self._names)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task. Runs in executors.

        Raises: StoredStreamError, DataLossError, ValueFormatError.
        """
        assert isinstance(partition, StoredPartition)
        wanted = partition.range
        if wanted.first >= wanted.end:
            return
        state = self._present(wanted)
        if state is None:
            return
        gap = _Gap(wanted.first)
        decoder = self._decoder(state.metadata)
        for rows in self._link.rows(wanted, partition.filters, decoder.raw_columns):
            self._check_damage(wanted.name, rows.damaged)
            if rows.sequences:
                gap.see(rows.sequences)
                yield decoder.decode(rows.table, rows.sequences, self._of(wanted.name))
        gap.end(wanted.end)
        # Whoever makes a stream again or removes messages while this reads is seen now.
        if self._present(wanted) is not None and gap.first is not None:
            self._check_gap(wanted, gap.first)

    def _plan(self, ranges: Sequence[StoredRange], filters: tuple[str, ...]) -> Sequence[InputPartition]:
        """One task for every `ROWS_PER_TASK` messages, at most `minPartitions` (else one per core) in all."""
        rows = sum(one.end - one.first for one in ranges)
        most = self._options.min_partitions or os.cpu_count() or 1
        tasks = []
        for one in ranges:
            width = one.end - one.first
            pieces = min(-(-width // ROWS_PER_TASK), max(1, -(-most * width // rows))) if width else 0
            tasks += [StoredPartition(piece, filters) for piece in split(one, pieces)]
        return tasks

    def _of(self, name: str) -> str:
        return f"{self._kind.word} {name}"

    def _place(self, option: str, name: str, start: Start, state: StoredState | None) -> Place:
        """Find the place that an option points to.

        Raises: OptionError if there can be nothing; StoredStreamError.
        """
        end = _last_place(state)
        if start is Edge.LATEST:
            return end
        if start is Edge.EARLIEST:
            return Place(1 if state is None else max(1, state.first_sequence), end.created)
        if isinstance(start, Moment):
            if state is None:
                return end
            return Place(min(self._link.sequence_at(name, start.ns), end.next), end.created)
        assert isinstance(start, int)
        if start > end.next:
            raise OptionError(
                f"option {option}: sequence {start} of {self._of(name)} is not there yet, the next one is "
                f"{end.next}"
            )
        return Place(start, end.created)

    def _decoder(self, metadata: Mapping[str, str] | None = None) -> Decoder | TypedDecoder:
        """Make what turns payloads into columns. `metadata`: those of the stream now, if they are known."""
        form = self._options.value_format
        if form.payloads is None:
            return Decoder(form, self._schema)
        return TypedDecoder(form.payloads, form.mode, self._schema, metadata or {})

    def _present(self, wanted: StoredRange) -> StoredState | None:
        """The state of the stream, if it is still there and still the one of the plan.

        Raises: DataLossError if it is not, unless option `failOnDataLoss` is false.
        """
        state, of = self._link.state(wanted.name), self._of(wanted.name)
        span = f"sequences {wanted.first} to {wanted.end - 1}"
        if state is None:
            self._lost(f"{of} was deleted, {span} cannot be read")
            return None
        if state.created_ns != wanted.created:
            self._lost(f"{of} was deleted and made again, {span} are gone")
            return None
        if state.last_sequence + 1 < wanted.end:
            self._lost(f"{of} ends at sequence {state.last_sequence} now, before {span}")
        return state

    def _check_gap(self, wanted: StoredRange, first: int) -> None:
        """Single messages may have been deleted, that is no loss; what limits or a purge took is."""
        state = self._link.state(wanted.name)
        if state is not None and state.keeps_order and state.first_sequence > first:
            end = min(state.first_sequence, wanted.end) - 1
            self._lost(
                f"{self._of(wanted.name)} begins at sequence {state.first_sequence} now: {first} to {end} "
                "were removed by its limits or a purge before they were read"
            )

    def _check_damage(self, name: str, damage: Damage) -> None:
        for _, ranges in damage:
            spans = ", ".join(f"{low} to {high}" if high > low else str(low) for low, high in ranges)
            self._lost(f"{self._of(name)} is damaged on disk: sequences {spans} cannot be read")

    def _lost(self, what: str) -> None:
        """Raise DataLossError, unless an option allows the loss."""
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{what}. Set option failOnDataLoss to false to go on with what is there, or start with a "
                "new checkpointLocation"
            )
        _log.warning("%s; going on because failOnDataLoss is false", what)


class StoredStreamReader(StoredTasks, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of `spark.readStream.format("nats")` with option `channel` or `stream`."""

    def __init__(
        self,
        options: SourceOptions,
        schema: StructType,
        link: StoredAnswers | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(options, schema, link)
        self._clock = clock
        self._now = now
        self._behind: dict[str, Backlog] = {}
        self._oldest: dict[str, tuple[float, int | None]] = {}
        self._targets: dict[str, Place] | None = None
        self._latest: dict[str, Place] | None = None
        self._initial: dict[str, Any] | None = None
        self._triggered: float | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Return the offset of the starting options, else the one behind the last stored message.

        Raises: StoredStreamError, OptionError.
        """
        places = {}
        for name, state in self._states().items():
            start = start_of(name, self._options.starting, Edge.LATEST)
            places[name] = self._place("startingOffsets", name, start, state)
            if state is None:
                _log.warning("%s is not there yet: reading it begins with its first message", self._of(name))
        self._initial = places_to_json(self._kind, places)
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next batch. Raises: StoredStreamError, DataLossError, UnsupportedError."""
        begins = places_from_json(self._kind, start, self._names)
        states = self._states(begins)
        begins |= {name: Place(1, None) for name in states if name not in begins}
        self._latest = {name: _last_place(state) for name, state in states.items()}
        ends = self._batch_ends(begins, states, limit)
        self._behind = {name: self._backlog(name, ends[name], last) for name, last in self._latest.items()}
        if ends == begins:
            return start  # to the letter: Spark compares the JSON
        return places_to_json(self._kind, ends, begins if start == self._initial else None)

    def _batch_ends(
        self, begins: dict[str, Place], states: Mapping[str, StoredState | None], limit: ReadLimit
    ) -> dict[str, Place]:
        """Return the ends of the next batch. Raises: DataLossError, UnsupportedError."""
        ends = {name: self._end(name, begins[name], state) for name, state in states.items()}
        ranges = {name: range_between(name, begins[name], end) for name, end in ends.items()}
        waiting = {name: one.end - one.first for name, one in ranges.items()}
        if isinstance(limit, ReadMaxRows):
            most = limit.max_rows
        elif isinstance(limit, ReadAllAvailable):
            most = sum(waiting.values())
        else:
            raise UnsupportedError(f"read limit {limit} is not supported by this version yet")
        if self._is_too_little(sum(waiting.values())):
            return begins
        most = min(most, self._rows_in_bytes(waiting, states))
        if most < sum(waiting.values()):
            ends = _limited(ranges, ends, shared_limit(waiting, most))
        return ends

    def _backlog(self, name: str, end: Place, last: Place) -> Backlog:
        """The messages of one stream that wait behind the end of a batch. Asks the server when the first of
        them was stored, once in `ASK_AGAIN`.

        Raises: StoredStreamError.
        """
        rest = range_between(name, end, last)
        if rest.first >= rest.end:
            self._oldest.pop(name, None)
            return Backlog(0, 0)
        asked, stored_ns = self._oldest.get(name, (-ASK_AGAIN, None))
        if self._clock() - asked >= ASK_AGAIN:
            stored_ns = self._link.time_at(name, rest.first, self._options.filters)
            self._oldest[name] = self._clock(), stored_ns
        ms = None if stored_ns is None else max(0, round(self._now() * 1000) - stored_ns // 1_000_000)
        return Backlog(rest.end - rest.first, ms)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802  # Spark's name
        """Return the ends of the streams at the last question and what waits, for the query's progress."""
        return None if self._latest is None else latest_to_json(self._kind, self._latest, self._behind)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """Freeze the target at what is stored now. Raises: StoredStreamError."""
        self._targets = {name: _last_place(state) for name, state in self._states().items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a batch, without a question to the server.

        Raises: DataLossError for offsets of another source.
        """
        begins, ends = batch_places(self._kind, start, end, self._names)
        nothing = Place(1, None)  # of what wildcards mean since
        ranges = [range_between(name, begins.get(name, nothing), end) for name, end in ends.items()]
        return self._plan(ranges, self._options.filters)

    def _states(self, begun: Iterable[str] = ()) -> dict[str, StoredState | None]:
        """Return the states of the streams that are read: those that the options mean now, and those that
        were begun.
        """
        states = self._found()
        if self._targets is not None:
            states = {name: state for name, state in states.items() if name in self._targets}
        return states | {name: self._link.state(name) for name in begun if name not in states}

    def _is_too_little(self, waiting: int) -> bool:
        """True while the query waits for `minOffsetsPerTrigger`: at most `maxTriggerDelay`, and never at its
        end.
        """
        least = self._options.min_offsets_per_trigger
        if least is None or self._targets is not None:
            return False
        now = self._clock()
        late = self._triggered is None or now - self._triggered >= self._options.max_trigger_delay
        if waiting < least and not late:
            return True
        if waiting:
            self._triggered = now
        return False

    def _rows_in_bytes(self, waiting: Mapping[str, int], states: Mapping[str, StoredState | None]) -> int:
        """Return about how many messages `maxBytesPerTrigger` allows, by the mean size of what is stored."""
        rows, most = sum(waiting.values()), self._options.max_bytes_per_trigger
        if most is None:
            return rows
        size = sum(
            waiting[name] * state.bytes // state.messages
            for name, state in states.items()
            if state is not None and state.messages
        )
        return rows if size <= most else max(1, rows * most // size)

    def _end(self, name: str, begin: Place, state: StoredState | None) -> Place:
        """The most that may be read now, and whether what comes before it is still there."""
        of = self._of(name)
        if state is None:
            if begin.created is not None:
                self._lost(f"{of} was deleted; it had been read up to sequence {begin.next - 1}")
            return begin
        if begin.created is not None and begin.created != state.created_ns:
            self._lost(
                f"{of} was deleted and made again since it was read up to sequence "
                f"{begin.next - 1}; the new one begins at its first message"
            )
        elif state.last_sequence + 1 < begin.next:
            self._lost(
                f"{of} ends at sequence {state.last_sequence}, and was read up to {begin.next - 1} before"
            )
        first = 1 if begin.created != state.created_ns else begin.next
        if state.keeps_order and state.first_sequence > first and state.last_sequence >= first:
            self._lost(
                f"{of} begins at sequence {state.first_sequence} now: {first} to "
                f"{state.first_sequence - 1} were removed by its limits or a purge before they were read"
            )
        end = _last_place(state)
        if self._targets is None:
            return end
        target = self._targets.get(name, begin)
        return Place(min(end.next, target.next), end.created) if target.created == end.created else begin


class StoredBatchReader(StoredTasks, DataSourceReader):
    """The reader of `spark.read.format("nats")` with option `channel` or `stream`."""

    _bounds = Bounds()

    def partitions(self) -> Sequence[InputPartition]:
        """The ranges from the starting to the ending options, both settled now.

        Raises: StoredStreamError, also for a stream that is not there; DataLossError, OptionError.
        """
        bounds = self._bounds
        filters = bounds.filters(self._options.filters)
        ranges = []
        states = self._found()
        if not states:
            raise StoredStreamError(f"there is no {self._link.place(', '.join(self._names))}")
        for name, state in states.items():
            if state is None:
                raise StoredStreamError(f"there is no {self._link.place(name)}")
            start = start_of(name, self._options.starting, Edge.EARLIEST)
            stop = start_of(name, self._options.ending, Edge.LATEST)
            begin = self._place("startingOffsets", name, start, state)
            end = self._place("endingOffsets", name, stop, state)
            whole = range_between(name, begin, end)
            if filters is not None and bounds.may_hold_stream(name):
                whole = self._narrowed(whole, bounds)
            else:
                whole = StoredRange(name, whole.first, whole.first, whole.created)
            ranges.append(whole)
        # PySpark makes up a partition of its own where there is none.
        nothing = StoredPartition(StoredRange(ranges[0].name, 1, 1, ranges[0].created))
        return self._plan(ranges, filters or ()) or [nothing]

    def _narrowed(self, whole: StoredRange, bounds: Bounds) -> StoredRange:
        first, end = max(whole.first, bounds.low), whole.end
        if bounds.high is not None:
            end = min(end, bounds.high + 1)
        if bounds.since_ns is not None and first < end:
            first = max(first, self._link.sequence_at(whole.name, bounds.since_ns))
        if bounds.until_ns is not None and first < end:
            end = min(end, self._link.sequence_at(whole.name, bounds.until_ns))
        return StoredRange(whole.name, first, max(first, end), whole.created)


class FilteringBatchReader(StoredBatchReader):
    """The reader for option `pushdown`: Spark hands over the conditions of a query.

    What they say about sequence, timestamp, subject and stream narrows what is read; Spark applies them all
    once more.
    """

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802  # Spark's name
        self._bounds = bounds_of(filters)
        return filters


class _Gap:
    """The first sequence of a range that did not come, seen batch by batch."""

    def __init__(self, first: int) -> None:
        self.first: int | None = None
        self._next = first

    def see(self, sequences: Sequence[int]) -> None:
        if self.first is None and sequences[-1] - self._next + 1 != len(sequences):
            expected = range(self._next, self._next + len(sequences))
            self.first = next(
                wanted for wanted, got in zip(expected, sequences, strict=True) if wanted != got
            )
        self._next = sequences[-1] + 1

    def end(self, end: int) -> None:
        if self.first is None and self._next < end:
            self.first = self._next


def _last_place(state: StoredState | None) -> Place:
    """Return the place behind the last message."""
    return Place(1, None) if state is None else Place(state.last_sequence + 1, state.created_ns)


def start_of(name: str, given: Starts | None, default: Edge) -> Start:
    """Return the start that an option gives for one stream."""
    if given is None:
        return default
    return given if isinstance(given, Edge | Moment) else given[name]


def _limited(
    ranges: Mapping[str, StoredRange], ends: Mapping[str, Place], shares: Mapping[str, int]
) -> dict[str, Place]:
    return {
        name: Place(one.first + shares[name], ends[name].created) if one.end > one.first else ends[name]
        for name, one in ranges.items()
    }
