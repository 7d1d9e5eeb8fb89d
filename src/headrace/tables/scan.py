"""Reading a span of a table: which files and row groups can hold what is wanted, and their rows.

Statistics decide what is read; whoever asked applies conditions on time and subject again to the rows. A file
that was rewritten or merged after it was looked up is looked up again, so a span is read to its end whatever
a writer does meanwhile. Never here: Spark, and what a missing row means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct

from headrace.objects.errors import KeyMissing
from headrace.tables.errors import TableDamaged
from headrace.tables.files import opened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.objects.port import ObjectStore
    from headrace.tables.manifest import DataFile, TableManifest
    from headrace.tables.table import Table

SCAN_ROWS: Final = 32_768
"""Rows of a batch."""


class RowSelection(Struct, frozen=True):
    """Rows with sequences [first, end), stored in [since_ns, until_ns), ns since 1970 UTC (None: no bound).

    `subjects`: ranges of texts, both ends included (None: every subject). Only the sequences are exact.
    """

    first: int
    end: int
    since_ns: int | None = None
    until_ns: int | None = None
    subjects: tuple[tuple[str, str], ...] | None = None

    def may_be_in(self, file: DataFile) -> bool:
        """True if a file may have wanted rows, by what the manifest says of it."""
        return (
            file.first < self.end
            and file.last >= self.first
            and self._time(file.first_time_ns, file.last_time_ns)
        )

    def may_be_in_group(self, group: Any) -> bool:
        """True if a row group may have wanted rows, by its statistics (pyarrow's metadata); without any it
        may.
        """
        bounds = group_bounds(group)
        low, high = bounds.get("sequence", (self.first, self.first))
        if not (low < self.end and high >= self.first):
            return False
        if "timestamp_ns" in bounds and not self._time(*bounds["timestamp_ns"]):
            return False
        if self.subjects is None or "subject" not in bounds:
            return True
        low, high = bounds["subject"]
        return any(first <= high and last >= low for first, last in self.subjects)

    def _time(self, low: int, high: int) -> bool:
        return (self.since_ns is None or high >= self.since_ns) and (
            self.until_ns is None or low < self.until_ns
        )


class RowGroup(Struct, frozen=True):
    """The part of a file that a row group is: its sequences [first, end) and compressed bytes."""

    first: int
    end: int
    bytes: int


def group_bounds(group: Any) -> dict[str, tuple[Any, Any]]:
    """Return the least and the greatest value of the columns of a row group that have statistics."""
    found = {}
    for number in range(group.num_columns):
        column = group.column(number)
        statistics = column.statistics
        if statistics is not None and statistics.has_min_max:
            found[column.path_in_schema] = statistics.min, statistics.max
    return found


def pieces(store: ObjectStore, file: DataFile, wanted: RowSelection) -> list[RowGroup]:
    """The row groups of a file that may hold what is wanted. Raises: KeyMissing, TableDamaged, StoreError."""
    with opened(store, file.path, in_parts=True) as parquet:
        groups = [parquet.metadata.row_group(number) for number in range(parquet.num_row_groups)]
    kept = []
    for group in groups:
        low, high = group_bounds(group).get("sequence", (file.first, file.last))
        if wanted.may_be_in_group(group):
            size = sum(group.column(number).total_compressed_size for number in range(group.num_columns))
            kept.append(RowGroup(low, high + 1, size))
    return kept


def scan(
    table: Table, files: Sequence[DataFile], wanted: RowSelection, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The rows of a span as they are now, ascending, each once; `columns` have to hold `sequence`.

    `files` are those of the version that was planned with. They are read while they are there, then those
    of the newest version. Raises: TableDamaged, TableMissing, StoreError.
    """
    at, missing = wanted.first, ""
    while True:
        left = RowSelection(at, wanted.end, wanted.since_ns, wanted.until_ns, wanted.subjects)
        file = next((one for one in files if one.last >= at and left.may_be_in(one)), None)
        if file is None:
            return
        try:
            for batch in _rows(table.store, file, left, columns):
                at = batch.column("sequence")[-1].as_py() + 1
                yield batch
            at = max(at, file.last + 1)
        except KeyMissing as error:
            files = table.manifest().files
            if any(one.path == file.path for one in files):
                if missing == file.path:
                    raise TableDamaged(f"{table.store.location}: {file.path}: it is missing") from error
                missing = file.path  # once more: it may have been put aside between the two looks


def _rows(
    store: ObjectStore, file: DataFile, wanted: RowSelection, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    with opened(store, file.path, in_parts=True) as parquet:
        groups = [
            number
            for number in range(parquet.num_row_groups)
            if wanted.may_be_in_group(parquet.metadata.row_group(number))
        ]
        if not groups:
            return
        batches = parquet.iter_batches(SCAN_ROWS, row_groups=groups, columns=list(columns))
        while True:
            try:
                batch = next(batches, None)
            except (pa.ArrowInvalid, OSError) as error:
                raise TableDamaged(f"{store.location}: {file.path}: {error}") from error
            if batch is None:
                return
            low, high = np.searchsorted(batch.column("sequence").to_numpy(), [wanted.first, wanted.end])
            if low < high:
                yield batch.slice(low, high - low)


def sequence_at(table: Table, manifest: TableManifest, time_ns: int) -> int | None:
    """The first sequence stored at that time or later; None when the table has none. Raises: as `scan`."""
    wanted = RowSelection(1, manifest.next, since_ns=time_ns)
    for batch in scan(table, manifest.files, wanted, ["sequence", "timestamp_ns"]):
        late = np.flatnonzero(batch.column("timestamp_ns").to_numpy() >= time_ns)
        if len(late):
            return int(batch.column("sequence")[int(late[0])].as_py())
    return None
