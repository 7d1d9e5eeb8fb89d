"""Reading core subjects as a stream: offsets are places in a capture, partitions are pieces of its spool.

The object that Spark keeps beside the driver owns the capture, which begins with the first question about
offsets. Copies of it are made for planning and for tasks; they hold options only. Promise: at most once
over restarts (core subjects keep nothing); within one run every message received is in exactly one batch,
a retried task reads the same rows, and a broken capture fails the query.
"""

from __future__ import annotations

import itertools
import logging
import os
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from headrace.errors import UnsupportedError
from headrace.spark.capture import Capture
from headrace.spark.errors import DataLossError
from headrace.spark.offsets import CoreOffset
from headrace.spark.schema import arrow_schema
from headrace.spark.spool import SpoolSlice, read_slices
from headrace.spark.values import Decoder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from headrace.spark.options import SourceOptions

ROWS_PER_TASK: Final = 10_000
"""Fewer messages than this do not pay for a second task."""

_log = logging.getLogger("headrace.spark")


@dataclass(frozen=True)
class CapturePartition(InputPartition):
    """Rows of the spool for one task; `shift` is added to the sequences found there."""

    slices: tuple[SpoolSlice, ...]
    shift: int = 0


class CoreStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of `spark.readStream.format("nats").option("subject", ...)`."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._id = secrets.token_hex(8)
        self._capture: Capture | None = None
        self._shift = 0  # offset and column say sequence s + shift where the capture counts s
        self._target: int | None = None
        self._warned = False

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_capture": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """The first message from now on; the subscription is live when this returns."""
        self._live()
        return CoreOffset(self._id, 1).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next batch. Raises: CaptureError, DataLossError, UnsupportedError."""
        begin = CoreOffset.from_json(start)
        capture = self._live()
        if begin.capture != self._id:
            self._take_over(begin)
        end = capture.seal()
        if self._target is not None:
            end = min(end, self._target)
        end += self._shift + 1
        if isinstance(limit, ReadMaxRows):
            end = min(end, begin.next + limit.max_rows)
        elif not isinstance(limit, ReadAllAvailable):
            raise UnsupportedError(f"read limit {limit} is not supported by this version yet")
        if end <= begin.next and begin.capture != self._id:
            return start
        return CoreOffset(self._id, max(end, begin.next)).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802  # Spark's name
        """Return the end of what was received so far, for the lag in the query's progress."""
        if self._capture is None:
            return None
        return CoreOffset(self._id, self._capture.captured() + self._shift + 1).to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """Listen for `captureDuration`, then freeze the target.

        Raises: UnsupportedError without that option; CaptureError.
        """
        if self._options.capture_duration is None:
            raise UnsupportedError(
                "trigger(availableNow=True) reads what is stored, and core subjects store nothing: set "
                "option captureDuration to how long to listen first (such as 10s), or use another trigger"
            )
        capture = self._live()
        capture.listen(self._options.capture_duration)
        self._target = capture.seal()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One task for every `ROWS_PER_TASK` messages, at most `minPartitions` (else one per core)."""
        begin, finish = CoreOffset.from_json(start), CoreOffset.from_json(end)
        capture = self._live()
        if finish.capture != self._id:
            self._refuse_loss(finish)
            return []
        rows = finish.next - begin.next
        if rows <= 0:
            return []
        wanted = self._options.min_partitions or os.cpu_count() or 1
        tasks = min(wanted, -(-rows // ROWS_PER_TASK))
        edges = [begin.next + rows * task // tasks - self._shift for task in range(tasks + 1)]
        return [
            CapturePartition(capture.slices(low, high), self._shift)
            for low, high in itertools.pairwise(edges)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, with the wanted columns in the wanted order. Runs in executors."""
        assert isinstance(partition, CapturePartition)
        decoder = Decoder(self._options.value_format, self._schema)
        stored, wanted = arrow_schema(), arrow_schema(decoder.raw_columns)
        for batch in read_slices(partition.slices, stored):
            columns = [batch.column(name) for name in wanted.names]
            if partition.shift and "sequence" in wanted.names:
                place = wanted.names.index("sequence")
                columns[place] = pc.add(columns[place], pa.scalar(partition.shift, pa.int64()))
            raw = pa.RecordBatch.from_arrays(columns, schema=wanted)
            yield decoder.decode(raw, batch.column("sequence"), ", ".join(self._options.subjects))

    def commit(self, end: dict[str, Any]) -> None:
        """Free what no batch can ask for again."""
        done = CoreOffset.from_json(end)
        if self._capture is not None and done.capture == self._id:
            self._capture.discard_below(done.next - self._shift)

    def stop(self) -> None:
        if self._capture is not None:
            self._capture.stop()
            self._capture = None

    def _live(self) -> Capture:
        if self._capture is None:
            self._capture = Capture.start(self._options)
        return self._capture

    def _take_over(self, begin: CoreOffset) -> None:
        """Let the sequences of this run follow those of the run that wrote the checkpoint."""
        self._refuse_loss(begin)
        self._shift = begin.next - 1

    def _refuse_loss(self, old: CoreOffset) -> None:
        text = (
            f"the checkpoint continues an earlier run (capture {old.capture}, up to sequence {old.next - 1})"
            "; core subjects keep nothing, so what was published since, and what that run had received and "
            "not finished, is gone"
        )
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{text}. Start with a new checkpointLocation, or set option failOnDataLoss to false to go "
                "on with what is published from now on"
            )
        if not self._warned:
            _log.warning("%s; going on because failOnDataLoss is false", text)
            self._warned = True
