"""`format("table-replay")`: a Parquet table as a stream, at so many rows a second or as fast as it once came.

    spark.readStream.format("table-replay").option("path", "orders").option("rate", "1000")

Offsets are row numbers of the table in a fixed order, `{"v": 1, "replay": {"table": id, "next": n}}`, so a
restart goes on with the next row and a batch that runs again reads the same rows. The clock starts again with
the query. The table may not change while it is replayed: then the query fails, since row numbers would lie.
Runs in this process's Python beside the driver (offsets) and in executors (rows); both see `path`.
"""

from __future__ import annotations

import itertools
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from headrace.pipelines.table_files import TableFiles, TableReplayError, open_table, read_rows, times_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql.types import StructType

_OPTIONS: Final = ("path", "rate", "speed", "orderBy", "timeColumn", "maxOffsetsPerTrigger", "minPartitions")
_NUMBER: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?")


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The options of a table that is replayed.

    `rate` rows a second, or `speed` times as fast as `time_column` says; neither: no pace at all.
    """

    path: str
    rate: float | None = None
    speed: float | None = None
    order_by: str = "timestamp"
    time_column: str = "timestamp"
    max_rows: int | None = None
    min_partitions: int = 1


def read_replay_options(given: Mapping[str, str]) -> ReplayOptions:
    """The options, names in any case. Raises: TableReplayError naming the option."""
    names = {name.lower(): name for name in _OPTIONS}
    values = {name.lower(): value.strip() for name, value in given.items()}
    for name in values:
        if name not in names:
            raise TableReplayError(
                f"option {name} is not known to table-replay: there are {', '.join(_OPTIONS)}"
            )
    path = values.get("path")
    if not path or "://" in path:
        raise TableReplayError(f"option path: {path!r} is no folder of this machine")
    if "rate" in values and "speed" in values:
        raise TableReplayError("options rate and speed exclude each other")
    time_column = values.get("timecolumn") or "timestamp"
    most = _positive("maxOffsetsPerTrigger", values)
    return ReplayOptions(
        path,
        rate=_positive("rate", values),
        speed=_positive("speed", values),
        order_by=values.get("orderby") or time_column,
        time_column=time_column,
        max_rows=None if most is None else max(int(most), 1),
        min_partitions=max(int(_positive("minPartitions", values) or 1), 1),
    )


def _positive(name: str, values: dict[str, str]) -> float | None:
    text = values.get(name.lower())
    if text is None:
        return None
    if not _NUMBER.fullmatch(text) or float(text) == 0:
        raise TableReplayError(f"option {name}: {text!r} is not a number above 0")
    return float(text)


class ReplayPace:
    """The pace of a replay: `due(now)` tells how many rows are due, from row `first` on; `now` in seconds of
    any clock.
    """

    def __init__(self, table: TableFiles, options: ReplayOptions, first: int, now: float) -> None:
        self._table = table
        self._options = options
        self._first = first
        self._began = now
        self._file: int | None = None
        self._times: np.ndarray[Any, np.dtype[np.int64]] = np.empty(0, np.int64)
        self._origin = 0.0
        if options.speed is not None and first < table.rows:
            file = table.file_of(first)
            self._load(table.files.index(file))
            self._origin = float(self._times[first - file.first])

    def due(self, now: float) -> int:
        """Rows of the table that should be out by now; never fewer than at the call before."""
        elapsed = now - self._began
        if self._options.rate is not None:
            return min(self._first + int(self._options.rate * elapsed), self._table.rows)
        if self._options.speed is None or self._file is None:
            return self._table.rows
        reached = self._origin + self._options.speed * elapsed * 1e6
        while True:
            file = self._table.files[self._file]
            count = int(np.searchsorted(self._times, reached, "right"))
            if count < file.rows or self._file + 1 == len(self._table.files):
                return file.first + count
            self._load(self._file + 1)

    def _load(self, number: int) -> None:
        """Hold the times of one file, and only of one; a row never comes before those of earlier files."""
        floor = self._times[-1] if len(self._times) else np.iinfo(np.int64).min
        times = times_of(self._table, self._table.files[number], self._options.time_column)
        self._times, self._file = np.maximum(times, floor), number


class TableReplay(DataSource):
    """The class Spark knows as `format("table-replay")`."""

    @classmethod
    def name(cls) -> str:
        return "table-replay"

    def schema(self) -> StructType:
        """The table's columns. Raises: TableReplayError."""
        options = read_replay_options(self.options)
        made: StructType = from_arrow_schema(_spark_types(open_table(options.path, options.order_by).schema))
        return made

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        return ReplayReader(read_replay_options(self.options), schema)


@dataclass(frozen=True)
class RowRange(InputPartition):
    """The rows [first, end), counted from 0, of one task."""

    table: TableFiles
    first: int
    end: int


class ReplayReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of `format("table-replay")`; `clock` gives seconds."""

    def __init__(
        self, options: ReplayOptions, schema: StructType, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._options = options
        self._schema = schema
        self._clock = clock
        self._table: TableFiles | None = None
        self._pace: ReplayPace | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        return self._offset(1)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        most = self._options.max_rows
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the offset of the rows that are due now.

        Raises: TableReplayError if the table has changed.
        """
        begin = self._next(start)
        if self._pace is None:
            self._pace = ReplayPace(self._opened(), self._options, begin - 1, self._clock())
        end = self._pace.due(self._clock()) + 1
        if isinstance(limit, ReadMaxRows):
            end = min(end, begin + limit.max_rows)
        return self._offset(max(begin, end))

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """The table's end, so that lag is what is still to come."""
        return self._offset(self._opened().rows + 1)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """Refuse the trigger `availableNow` with a pace, which it would not keep.

        Raises: TableReplayError.
        """
        if self._options.rate is not None or self._options.speed is not None:
            raise TableReplayError(
                "trigger once reads all there is at once: leave out options rate and speed, or use a trigger "
                "with an interval (in a pipeline with stop: caught_up)"
            )

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One task, so that rows stay in order, or `minPartitions`."""
        first, last = self._next(start) - 1, self._next(end) - 1
        pieces = min(self._options.min_partitions, max(last - first, 0))
        edges = [first + (last - first) * piece // pieces for piece in range(pieces + 1)] if pieces else []
        table = self._opened()
        return [RowRange(table, low, high) for low, high in itertools.pairwise(edges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task. Runs in executors."""
        assert isinstance(partition, RowRange)
        wanted = to_arrow_schema(self._schema, timezone="UTC")
        for batch in read_rows(partition.table, partition.first, partition.end, wanted.names):
            columns = [batch.column(field.name).cast(field.type, safe=False) for field in wanted]
            yield pa.RecordBatch.from_arrays(columns, schema=wanted)

    def _opened(self) -> TableFiles:
        if self._table is None:
            self._table = open_table(self._options.path, self._options.order_by)
        return self._table

    def _offset(self, following: int) -> dict[str, Any]:
        return {"v": 1, "replay": {"table": self._opened().fingerprint, "next": following}}

    def _next(self, offset: dict[str, Any]) -> int:
        """Row number from 1. Raises: TableReplayError if the offset is not one of this table as it is."""
        place = offset.get("replay")
        if not isinstance(place, dict):
            raise TableReplayError(
                f"the checkpoint holds the offset {offset}, which table-replay did not write"
            )
        if place["table"] != self._opened().fingerprint:
            raise TableReplayError(
                f"{self._options.path} has changed since the checkpoint was written: its row numbers mean "
                "other rows now; give this query a checkpoint of its own"
            )
        return int(place["next"])


def _spark_types(schema: pa.Schema) -> pa.Schema:
    """Return a schema with times as instants in microseconds and without dictionaries, as Spark has them.

    Spark's own Parquet files say of their times no zone that Arrow would see; they are UTC.
    """
    fields = []
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_timestamp(kind):
            kind = pa.timestamp("us", "UTC")
        fields.append(field.with_type(kind))
    return pa.schema(fields)
