"""Reading stored channels: offsets are sequences, partitions are ranges of them, every message exactly once.

Beside the driver a reader asks the server how far the channels have come and plans ranges; tasks read
their range from the server themselves, as Arrow batches. `partitions(start, end)` depends on its arguments
only, and a stored sequence never changes, so a batch that Spark runs again, after a crash too, holds the
same rows. Messages that should be there and are not end the query, or, with `failOnDataLoss` false, are
told of in the log.
"""

from __future__ import annotations

import logging
import os
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
from headrace.spark.errors import ChannelError, DataLossError, OptionError
from headrace.spark.offsets import (
    ChannelRange,
    Place,
    channels_from_json,
    channels_to_json,
    range_between,
    shared_limit,
    split,
)
from headrace.spark.options import Edge
from headrace.spark.schema import replay_record_batch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from headrace.client.replay import ChannelState, ReplayBatch
    from headrace.protocol.columns import Columns
    from headrace.spark.options import SourceOptions, Start

ROWS_PER_TASK: Final = 10_000
"""Fewer messages than this do not pay for a second task."""

_log = logging.getLogger("headrace.spark")


@dataclass(frozen=True)
class ChannelPartition(InputPartition):
    """What one task reads."""

    range: ChannelRange


class _ChannelTasks:
    """What reading a stream and reading a table have in common: the plan of a range, and the task."""

    def __init__(self, options: SourceOptions, schema: StructType, link: ChannelLink | None = None) -> None:
        self._options = options
        self._schema = schema
        self._link = link or ChannelLink(options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task. Runs in executors. Raises: ChannelError, DataLossError."""
        assert isinstance(partition, ChannelPartition)
        wanted = partition.range
        if wanted.first >= wanted.end:
            return
        if not self._check_present(wanted):
            return
        gap = _Gap(wanted.first)
        for batch in self._link.batches(wanted.channel, wanted.first, wanted.end):
            self._check_damage(wanted.channel, batch)
            if len(batch):
                gap.see(batch.sequences)
                yield replay_record_batch(batch, self._schema)
        gap.end(wanted.end)
        # Whoever makes a channel again or removes messages while this reads is seen now.
        if self._check_present(wanted) and gap.first is not None:
            self._check_gap(wanted, gap.first)

    def _plan(self, ranges: Sequence[ChannelRange]) -> list[ChannelPartition]:
        """One task for every `ROWS_PER_TASK` messages, at most `minPartitions` (else one per core) in all."""
        rows = sum(one.end - one.first for one in ranges)
        most = self._options.min_partitions or os.cpu_count() or 1
        tasks = []
        for one in ranges:
            width = one.end - one.first
            pieces = min(-(-width // ROWS_PER_TASK), max(1, -(-most * width // rows))) if width else 0
            tasks += [ChannelPartition(piece) for piece in split(one, pieces)]
        return tasks

    def _check_present(self, wanted: ChannelRange) -> bool:
        """Whether the channel is still the one that was planned for. Raises: DataLossError if not."""
        state = self._link.state(wanted.channel)
        span = f"sequences {wanted.first} to {wanted.end - 1}"
        if state is None:
            self._lost(f"channel {wanted.channel} was deleted, {span} cannot be read")
            return False
        if state.created_ns != wanted.created:
            self._lost(f"channel {wanted.channel} was deleted and made again, {span} are gone")
            return False
        if state.last_sequence + 1 < wanted.end:
            self._lost(f"channel {wanted.channel} ends at sequence {state.last_sequence} now, before {span}")
        return True

    def _check_gap(self, wanted: ChannelRange, first: int) -> None:
        """Single messages may have been deleted, that is no loss; what limits or a purge took is."""
        state = self._link.state(wanted.channel)
        if state is not None and state.first_sequence > first:
            end = min(state.first_sequence, wanted.end) - 1
            self._lost(
                f"channel {wanted.channel} begins at sequence {state.first_sequence} now: {first} to {end} "
                "were removed by its limits or a purge before they were read"
            )

    def _check_damage(self, channel: str, batch: ReplayBatch | Columns) -> None:
        for _, ranges in batch.damaged:
            spans = ", ".join(f"{low} to {high}" if high > low else str(low) for low, high in ranges)
            self._lost(f"channel {channel} is damaged on disk: sequences {spans} cannot be read")

    def _lost(self, what: str) -> None:
        """Raises: DataLossError unless told that loss is fine."""
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{what}. Set option failOnDataLoss to false to go on with what is there, or start with a "
                "new checkpointLocation"
            )
        _log.warning("%s; going on because failOnDataLoss is false", what)


class ChannelStreamReader(_ChannelTasks, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What `spark.readStream.format("nats").option("channel", ...)` runs on."""

    def __init__(self, options: SourceOptions, schema: StructType, link: ChannelLink | None = None) -> None:
        super().__init__(options, schema, link)
        self._targets: dict[str, Place] | None = None
        self._latest: dict[str, Place] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Where `startingOffsets` says, else behind what is stored now. Raises: ChannelError, OptionError."""
        places = {}
        for channel, state in self._states().items():
            start = start_of(channel, self._options.starting, Edge.LATEST)
            places[channel] = place_of("startingOffsets", channel, start, state)
            if state is None:
                _log.warning("channel %s is not there yet: reading it begins with its first message", channel)
        return channels_to_json(places)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """How far the next batch goes. Raises: ChannelError, DataLossError, UnsupportedError."""
        begins = channels_from_json(start, self._options.channels)
        states = self._states()
        self._latest = {name: _last_place(state) for name, state in states.items()}
        ends = {name: self._end(name, begins[name], state) for name, state in states.items()}
        if isinstance(limit, ReadMaxRows):
            ends = _limited(begins, ends, limit.max_rows)
        elif not isinstance(limit, ReadAllAvailable):
            raise UnsupportedError(f"read limit {limit} is not supported by this version yet")
        return channels_to_json(ends)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802  # Spark's name
        """How far the channels had come at the last question, for the lag in the query's progress."""
        return None if self._latest is None else channels_to_json(self._latest)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """Freeze the target at what is stored now. Raises: ChannelError."""
        self._targets = {name: _last_place(state) for name, state in self._states().items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a batch; asks nobody. Raises: DataLossError for offsets of another source."""
        channels = self._options.channels
        begins, ends = channels_from_json(start, channels), channels_from_json(end, channels)
        return self._plan([range_between(name, begins[name], ends[name]) for name in channels])

    def _states(self) -> dict[str, ChannelState | None]:
        return {channel: self._link.state(channel) for channel in self._options.channels}

    def _end(self, channel: str, begin: Place, state: ChannelState | None) -> Place:
        """The most that may be read now, and whether what comes before it is still there."""
        if state is None:
            if begin.created is not None:
                self._lost(f"channel {channel} was deleted; it had been read up to sequence {begin.next - 1}")
            return begin
        if begin.created is not None and begin.created != state.created_ns:
            self._lost(
                f"channel {channel} was deleted and made again since it was read up to sequence "
                f"{begin.next - 1}; the new one begins at its first message"
            )
        elif state.last_sequence + 1 < begin.next:
            self._lost(
                f"channel {channel} ends at sequence {state.last_sequence}, and was read up to "
                f"{begin.next - 1} before"
            )
        first = 1 if begin.created != state.created_ns else begin.next
        if state.first_sequence > first and state.last_sequence >= first:
            self._lost(
                f"channel {channel} begins at sequence {state.first_sequence} now: {first} to "
                f"{state.first_sequence - 1} were removed by its limits or a purge before they were read"
            )
        end = _last_place(state)
        if self._targets is None:
            return end
        target = self._targets[channel]
        return Place(min(end.next, target.next), end.created) if target.created == end.created else begin


class ChannelBatchReader(_ChannelTasks, DataSourceReader):
    """What `spark.read.format("nats").option("channel", ...)` runs on."""

    def partitions(self) -> Sequence[InputPartition]:
        """The ranges from `startingOffsets` to `endingOffsets`, both settled now.

        Raises: ChannelError, also for a channel that is not there; DataLossError, OptionError.
        """
        ranges = []
        for channel in self._options.channels:
            state = self._link.state(channel)
            if state is None:
                raise ChannelError(f"there is no channel {channel} in cluster {self._options.cluster_id}")
            start = start_of(channel, self._options.starting, Edge.EARLIEST)
            stop = start_of(channel, self._options.ending, Edge.LATEST)
            begin = place_of("startingOffsets", channel, start, state)
            end = place_of("endingOffsets", channel, stop, state)
            ranges.append(range_between(channel, begin, end))
        nothing = ChannelPartition(ranges[0])  # PySpark makes up a partition of its own where there is none
        return self._plan(ranges) or [nothing]


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


def _last_place(state: ChannelState | None) -> Place:
    """Behind the last message."""
    return Place(1, None) if state is None else Place(state.last_sequence + 1, state.created_ns)


def start_of(channel: str, given: Mapping[str, Start] | Edge | None, default: Edge) -> Start:
    """What an option says of one channel."""
    if given is None:
        return default
    return given if isinstance(given, Edge) else given[channel]


def place_of(option: str, channel: str, start: Start, state: ChannelState | None) -> Place:
    """Where an option points to. Raises: OptionError if there can be nothing."""
    end = _last_place(state)
    if start is Edge.LATEST:
        return end
    if start is Edge.EARLIEST:
        return Place(1 if state is None else max(1, state.first_sequence), end.created)
    if start > end.next:
        raise OptionError(
            f"option {option}: sequence {start} of channel {channel} is not there yet, the next one is "
            f"{end.next}"
        )
    return Place(start, end.created)


def _limited(begins: Mapping[str, Place], ends: Mapping[str, Place], most: int) -> dict[str, Place]:
    ranges = {name: range_between(name, begins[name], end) for name, end in ends.items()}
    shares = shared_limit({name: one.end - one.first for name, one in ranges.items()}, most)
    return {
        name: Place(one.first + shares[name], ends[name].created) if one.end > one.first else ends[name]
        for name, one in ranges.items()
    }
