"""Reading stored channels from the files of their logs, with no server in the path.

Beside the driver a reader looks once at each log (`headrace.log.view`) and cuts what it holds into slices of
about equal bytes; tasks read their slice from the files, as Arrow batches. A server may have the store open
and write on: nothing is locked or changed. With option `url` only what does not grow any more is read from
files, and the newest segment's messages from the server, which knows what is durable: sequences tell the two
apart, so one scan has every message once. Messages that should be there and are not end the query, or, with
`failOnDataLoss` false, are told of in the log. A stream needs `url`: only the server knows what is durable.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec.structs
import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from headrace.engine.columns import ColumnsBuilder
from headrace.errors import LogGone, StorageError
from headrace.log.segment import base_of
from headrace.log.store import list_logs, log_name
from headrace.log.view import LogView, ViewSlice, read_slice
from headrace.protocol.columns import Columns, pack
from headrace.spark.errors import StoredStreamError
from headrace.spark.offsets import CHANNEL, StoredRange, range_between
from headrace.spark.option_places import Edge
from headrace.spark.schema import COLUMNS, arrow_schema, columns_record_batch
from headrace.spark.stored_link import StoredState
from headrace.spark.stored_reader import StoredBatchReader, StoredStreamReader, start_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.spark.options import SourceOptions
    from headrace.spark.stored_link import StoredLink
    from headrace.spark.typed_payloads import TypedDecoder
    from headrace.spark.values import Decoder

SLICE_BYTES: Final = 4 << 20
"""Fewer bytes of records than this do not pay for a second task."""
FROM_FILES: Final = 50_000
"""Sequences of a micro-batch's range from which on looking at the files pays."""
_WHOLE: Final = 1 << 30
_TIME: Final = StructType([COLUMNS["timestamp"]])
_OWN: Final = b"$"
"""Begins the names of logs that the server keeps for itself."""


@dataclass(frozen=True)
class LogPartition(InputPartition):
    """The part of a read that one task does from files; `host` made the plan."""

    channel: str
    directory: str
    host: str
    slice: ViewSlice


@dataclass(frozen=True, slots=True)
class _Part:
    """The part of one log that is read from its files, and the sequence from which its server is asked."""

    channel: str
    directory: Path
    view: LogView
    first: int
    end: int

    def slices(self, count: int) -> list[ViewSlice]:
        return self.view.slices(self.first, self.end, count)

    @property
    def size(self) -> int:
        return sum(one.size for one in self.slices(1))


class LogBatchReader(StoredBatchReader):
    """The reader of `spark.read.format("nats").option("path", ...)`."""

    def partitions(self) -> Sequence[InputPartition]:
        """The ranges from `startingOffsets` to `endingOffsets` of every log, settled now.

        Raises: StoredStreamError, also when there is no log; DataLossError, OptionError.
        """
        parts, tails = [], []
        for channel, directory in self.logs().items():
            view = _look(directory)
            wanted, sealed = self._wanted(channel, directory, view)
            self._check_view(channel, directory, view, wanted)
            parts.append(_Part(channel, directory, view, wanted.first, min(wanted.end, sealed)))
            tails.append(replace(wanted, first=max(wanted.first, min(sealed, wanted.end))))
        nothing = LogPartition(parts[0].channel, "", "", ViewSlice(1, 1, 0, (), b""))
        return [*self._slices(parts), *self._plan(tails, ())] or [nothing]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task. Runs in executors.

        Raises: StoredStreamError, DataLossError, ValueFormatError.
        """
        if not isinstance(partition, LogPartition):
            yield from super().read(partition)
            return
        builder, decoder = ColumnsBuilder(), self._decoder()
        name = _raw(partition.channel)
        for piece in partition.slice.pieces:
            found = read_slice(msgspec.structs.replace(partition.slice, pieces=(piece,)))
            try:
                for messages, damaged in found:
                    self._report(partition, damaged)
                    done = 0
                    while done < len(messages):
                        builder.clear()
                        done += builder.add(messages, done, len(messages) - done, name, _WHOLE)
                        yield self._rows(partition, Columns.read(pack(builder)), decoder)
            except LogGone as error:
                self._gone(partition, error)
            except StorageError as error:
                raise StoredStreamError(f"channel {partition.channel}: {error}") from error

    def _rows(
        self, partition: LogPartition, found: Columns, decoder: Decoder | TypedDecoder
    ) -> pa.RecordBatch:
        raw = columns_record_batch(found, arrow_schema(decoder.raw_columns))
        return decoder.decode(raw, found.sequences, self._of(partition.channel))

    # ---- the plan ---------------------------------------------------------------------------

    def sealed(self, ranges: Sequence[StoredRange]) -> tuple[list[LogPartition], list[StoredRange]]:
        """Tasks for what of these does not grow any more, and what is left for the server to give.

        What its files do not have, is of another incarnation or was deleted is left to the server, which
        says why. Raises: StoredStreamError, DataLossError.
        """
        parts, left, directories = [], [], self.logs(all_of_them=False)
        for wanted in ranges:
            directory, state = directories.get(wanted.name), self._link.state(wanted.name)
            if directory is None or state is None or state.created_ns != wanted.created:
                left.append(wanted)
                continue
            view = _look(directory)
            self._server_state(wanted.name, directory, view)
            cut = min(view.sealed_end, wanted.end)
            if view.first_sequence > wanted.first or cut <= wanted.first:
                left.append(wanted)
                continue
            self._check_view(wanted.name, directory, view, replace(wanted, end=cut))
            parts.append(_Part(wanted.name, directory, view, wanted.first, cut))
            left.append(replace(wanted, first=cut))
        return self._slices(parts), left

    def logs(self, *, all_of_them: bool = True) -> dict[str, Path]:
        """Channels and the directories of their logs.

        Raises: StoredStreamError, also where one that is named is not there, unless told not to mind.
        """
        path, channels = Path(self._options.path or "").resolve(), self._options.channels
        try:
            if (path / "logs").is_dir():
                logs = {
                    _text(name): one for name, one in list_logs(path).items() if not name.startswith(_OWN)
                }
                wanted = CHANNEL.chosen(channels or (">",), logs)
                missing = [name for name in wanted if name not in logs]
                if all_of_them and (missing or not wanted):
                    what = f"log of channel {missing[0] if missing else ', '.join(channels)}"
                    raise StoredStreamError(f"there is no {what if channels else 'log'} in {path}")
                return {name: logs[name] for name in wanted if name in logs}
            if any(base_of(name) is not None for name in os.listdir(path)):
                own = log_name(path)
                if len(channels) > 1 or any(map(CHANNEL.is_pattern, channels)):
                    raise StoredStreamError(
                        f"{path} is the log of one channel, option channel says {', '.join(channels)}"
                    )
                return {channels[0] if channels else _text(own or path.name.encode()): path}
        except OSError as error:
            raise StoredStreamError(f"cannot read {path}: {error.strerror or error}") from error
        raise StoredStreamError(f"there is no log in {path}: it is no store's directory and no log's")

    def _wanted(self, channel: str, directory: Path, view: LogView) -> tuple[StoredRange, int]:
        """Return the range that is read of a log, and the first sequence that its server is asked for."""
        state, sealed = StoredState(view.first_sequence, view.last_sequence, 0, 0, 0), view.last_sequence + 1
        if self._options.url is not None:
            state, sealed = self._server_state(channel, directory, view), view.sealed_end
        start = start_of(channel, self._options.starting, Edge.EARLIEST)
        stop = start_of(channel, self._options.ending, Edge.LATEST)
        begin = self._place("startingOffsets", channel, start, state)
        end = self._place("endingOffsets", channel, stop, state)
        wanted = range_between(channel, begin, end)
        if wanted.first < min(state.first_sequence, wanted.end):
            low = min(state.first_sequence, wanted.end)
            self._lost(
                f"channel {channel} begins at sequence {state.first_sequence} now: {wanted.first} to "
                f"{low - 1} were removed by its limits or a purge before they were read"
            )
        return wanted, sealed

    def _server_state(self, channel: str, directory: Path, view: LogView) -> StoredState:
        """Ask the server for the state of the channel.

        Raises: StoredStreamError if it is not the channel of this log.
        """
        state = self._link.state(channel)
        last = view.sealed_end - 1
        same = state is not None and state.last_sequence >= last
        if state is not None and same and last >= max(state.first_sequence, 1):
            newest = StoredRange(channel, last, last + 1, state.created_ns)
            for rows in self._link.rows(newest, (), _TIME):
                times = rows.table.column("timestamp").cast(pa.int64()).to_pylist()  # in microseconds
                same = not times or times[0] == view.sealed_time_ns // 1000
        if state is None or not same:
            raise StoredStreamError(
                f"the log in {directory} is not that of channel {channel} of cluster "
                f"{self._options.cluster_id} at option url: they hold different messages"
            )
        return state

    def _check_view(self, channel: str, directory: Path, view: LogView, wanted: StoredRange) -> None:
        for low, high in view.damaged:
            if low < wanted.end and high >= wanted.first:
                self._lost(
                    f"the log of channel {channel} in {directory} is damaged: {span(low, high)} cannot be "
                    "read"
                )

    def _slices(self, parts: Sequence[_Part]) -> list[LogPartition]:
        """A task for every `SLICE_BYTES`, at most `minPartitions` (else one per core) in all."""
        most = self._options.min_partitions or os.cpu_count() or 1
        total = sum(part.size for part in parts)
        host = socket.gethostname()
        planned = []
        for part in parts:
            share = -(-most * part.size // total) if total else 0
            count = min(share, -(-part.size // SLICE_BYTES)) if not self._options.min_partitions else share
            for one in part.slices(max(count, 1)):
                planned.append(LogPartition(part.channel, str(part.directory), host, one))
        return planned

    # ---- what is missing --------------------------------------------------------------------

    def _report(self, partition: LogPartition, damaged: Sequence[tuple[int, int]]) -> None:
        for low, high in damaged:
            self._lost(
                f"the log of channel {partition.channel} in {partition.directory} is damaged: "
                f"{span(low, high)} cannot be read"
            )

    def _gone(self, partition: LogPartition, error: LogGone) -> None:
        """Raise the error for a log that is gone: StoredStreamError where the directory cannot be seen from
        here, else DataLossError.
        """
        if partition.host != socket.gethostname() and not Path(partition.directory).is_dir():
            raise StoredStreamError(
                f"{partition.directory} cannot be seen from {socket.gethostname()}: option path must name a "
                "directory that the driver and all executors share"
            ) from error
        self._lost(
            f"channel {partition.channel}: some of sequences {partition.slice.first} to "
            f"{partition.slice.end - 1} were removed before they were read ({error})"
        )


class LogStreamReader(StoredStreamReader):
    """The reader of `spark.readStream.format("nats")` with options `path` and `url`.

    Offsets are those of the channels on their server, which knows what is durable. A range that is large and
    sealed is read from files, as when a query catches up.
    """

    def __init__(self, options: SourceOptions, schema: StructType, link: StoredLink | None = None) -> None:
        super().__init__(options, schema, link)
        self._files = LogBatchReader(options, schema, link)

    def _plan(self, ranges: Sequence[StoredRange], filters: tuple[str, ...]) -> list[InputPartition]:
        small = [one for one in ranges if one.end - one.first < FROM_FILES]
        large = [one for one in ranges if one.end - one.first >= FROM_FILES]
        tasks, left = self._files.sealed(large) if large else ([], [])
        return [*tasks, *super()._plan([*small, *left], filters)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task. Runs in executors.

        Raises: StoredStreamError, DataLossError, ValueFormatError.
        """
        if isinstance(partition, LogPartition):
            yield from self._files.read(partition)
        else:
            yield from super().read(partition)


def _look(directory: Path) -> LogView:
    try:
        return LogView(directory)
    except StorageError as error:
        raise StoredStreamError(
            f"{error}. Logs that are encrypted are read through their server (options url and channel)"
            if "encrypted" in str(error)
            else str(error)
        ) from error


def span(low: int, high: int) -> str:
    """Sequences for people, both ends included."""
    return f"sequences {low} to {high}" if high > low else f"sequence {low}"


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _raw(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
