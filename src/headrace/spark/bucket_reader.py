"""Reading streams and channels from their bucket, as tables and as streams.

With option `url` what is newer comes from a server. Offsets are those of the streams on a server: sequences,
and when the stream was made. So a query may go on with the bucket where it read from the server, and the
other way round. The driver looks at the bucket and cuts ranges into slices of about equal bytes, tasks read
the objects themselves. A task whose objects were deleted meanwhile looks again, and goes on behind its last
message.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.bucket_streams import ObjectsGone, StreamSlice
from headrace.protocol.documents import raw_name
from headrace.spark.bucket_link import BucketLink
from headrace.spark.log_reader import FROM_FILES, SLICE_BYTES
from headrace.spark.stored_reader import (
    FilteringBatchReader,
    StoredBatchReader,
    StoredPartition,
    StoredStreamReader,
    StoredTasks,
    link_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from headrace.spark.offsets import StoredRange
    from headrace.spark.options import SourceOptions
    from headrace.spark.stored_link import StoredAnswers, StoredState

_log = logging.getLogger("headrace.spark")


@dataclass(frozen=True)
class BucketPartition(StoredPartition):
    """The part of a read that one task does from objects of a bucket."""

    slice: StreamSlice | None = None
    metadata: Mapping[str, str] | None = None


class BucketTasks(StoredTasks):
    """The common part of reading a stream and a table from a bucket: the plan of ranges, and the task."""

    def __init__(self, options: SourceOptions, schema: StructType, link: StoredAnswers | None = None) -> None:
        self._bucket = BucketLink(options)
        server = link_of(options) if options.url is not None else None
        super().__init__(options, schema, link or server or self._bucket)

    def _found(self) -> dict[str, StoredState | None]:
        if self._link is self._bucket:
            self._bucket.look_again()
        return super()._found()

    def _plan(self, ranges: Sequence[StoredRange], filters: tuple[str, ...]) -> list[InputPartition]:
        """Tasks of about equal bytes for what the bucket has, at most `minPartitions` (else one per core) in
        all; of what it does not have yet those of the server.
        """
        wanted, left = list(ranges), []
        if self._link is not self._bucket:
            wanted = [one for one in ranges if self._pays(one)]
            left = [one for one in ranges if one not in wanted]
            if wanted:
                self._bucket.look_again()
        sizes = [self._bucket.size_of(one) for one in wanted]
        most = self._options.min_partitions or os.cpu_count() or 1
        tasks: list[InputPartition] = []
        for one, size in zip(wanted, sizes, strict=True):
            share = -(-most * size // max(sum(sizes), 1))
            count = share if self._options.min_partitions else min(share, -(-size // SLICE_BYTES))
            planned, rest = self._from_bucket(one, filters, max(count, 1))
            tasks += planned
            left += [rest] if rest.first < rest.end else []
        return [*tasks, *super()._plan(left, filters)] if left else tasks

    def _pays(self, one: StoredRange) -> bool:
        """True if looking at the bucket pays for a range that the server could give."""
        return one.end - one.first >= FROM_FILES

    def _from_bucket(
        self, wanted: StoredRange, filters: tuple[str, ...], count: int
    ) -> tuple[list[BucketPartition], StoredRange]:
        """Tasks for what the bucket has of a range, and what is left of it for the server to give.

        Raises: StoredStreamError, DataLossError.
        """
        nothing = replace(wanted, first=wanted.end)
        if wanted.first >= wanted.end:
            return [], nothing
        if self._link is self._bucket:
            if self._present(wanted) is None:
                return [], nothing
            self._check_gap(wanted, wanted.first)
        part = self._bucket.part(wanted, count)
        if part is None:
            return [], wanted
        here = part.range
        damaged = [(a, b) for a, b in part.damaged if a < here.end and b >= here.first]
        self._check_damage(wanted.name, ((raw_name(wanted.name), tuple(damaged)),) if damaged else ())
        tasks = [
            BucketPartition(
                replace(here, first=one.view.first, end=one.view.end), filters, one, part.metadata
            )
            for one in part.slices
        ]
        return tasks, replace(wanted, first=here.end) if self._link is not self._bucket else nothing

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task. Runs in executors.

        Raises: StoredStreamError, DataLossError, ValueFormatError.
        """
        assert isinstance(partition, StoredPartition)
        left = partition.range
        if isinstance(partition, BucketPartition) and partition.slice is not None:
            decoder = self._decoder(partition.metadata)
            found = self._bucket.rows_of(left.name, partition.slice, partition.filters, decoder.raw_columns)
            try:
                for rows in found:
                    self._check_damage(left.name, rows.damaged)
                    if rows.sequences:
                        left = replace(left, first=rows.sequences[-1] + 1)
                        yield decoder.decode(rows.table, rows.sequences, self._of(left.name))
                return
            except ObjectsGone as error:
                _log.warning("%s: %s; looking again", self._bucket.place(left.name), error)
        yield from super().read(StoredPartition(left, partition.filters))


class BucketBatchReader(BucketTasks, StoredBatchReader):
    """The reader of `spark.read.format("nats").option("path", ...)` for a bucket of streams."""


class FilteringBucketReader(BucketTasks, FilteringBatchReader):
    """The same for option `pushdown`: conditions say which sequences and subjects are read at all."""


class BucketStreamReader(BucketTasks, StoredStreamReader):
    """The reader of `spark.readStream.format("nats").option("path", ...)` for a bucket of streams."""
