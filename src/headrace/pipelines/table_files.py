"""The rows of a Parquet table as one sequence: which files, in which order, read by row number.

Here lives the order of rows and reading some of them. Never lives here: Spark, pace (`table_replay`).

Of a table of `headrace.tables` the newest version of its manifest says which files count. A folder that a
streaming query of Spark wrote holds files of failed attempts too; the list of good ones is its
`_spark_metadata`, lines of JSON after a line `v1`, the latest `.compact` file standing for all before it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headrace.errors import HeadraceError
from headrace.objects.opening import open_store
from headrace.objects.port import OWN
from headrace.tables.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

BATCH_ROWS: Final = 10_000
FILE_LOG: Final = "_spark_metadata"
"""The log that Spark's file sink keeps in its folder: the good files of each micro-batch."""


class TableReplayError(HeadraceError):
    """A table cannot be read as a sequence of rows; the text names it."""


@dataclass(frozen=True, slots=True)
class File:
    """One file; its rows are those from `first` (0: the table's first row) on."""

    path: str
    first: int
    rows: int


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The files in order and the Arrow schema, columns of partitions included."""

    folder: str
    files: tuple[File, ...]
    schema: pa.Schema

    @property
    def rows(self) -> int:
        return self.files[-1].first + self.files[-1].rows if self.files else 0

    @property
    def fingerprint(self) -> str:
        """Say whether it is still the same rows in the same order."""
        names = "\n".join(f"{Path(file.path).name} {file.rows}" for file in self.files)
        return hashlib.sha256(names.encode()).hexdigest()[:16]

    def file_of(self, row: int) -> File:
        return next(file for file in self.files if row < file.first + file.rows)


def open_table(folder: str, order_by: str) -> TableFiles:
    """The table in a folder, files ordered by the smallest value of a column, then by name.

    Cost: reads that one column. Raises: TableReplayError.
    """
    paths = [str(path) for path in _good_files(Path(folder))]
    if not paths:
        raise TableReplayError(f"{folder} holds no Parquet files")
    try:
        dataset = _dataset(paths, folder)
        if order_by not in dataset.schema.names:
            raise TableReplayError(
                f"{folder} has no column {order_by} (option orderBy), only {dataset.schema.names}"
            )
        found = []
        for fragment in dataset.get_fragments():
            rows = fragment.count_rows()
            if rows:
                column = fragment.to_table(schema=dataset.schema, columns=[order_by]).column(0)
                lowest = pc.min(column).as_py()
                if lowest is None:
                    raise TableReplayError(
                        f"{fragment.path}: column {order_by} (option orderBy) is null in every row"
                    )
                found.append((lowest, fragment.path, rows))
    except (pa.ArrowException, OSError) as error:
        raise TableReplayError(f"{folder} cannot be read as a Parquet table: {error}") from error
    files, first = [], 0
    for _, path, rows in sorted(found):
        files.append(File(path, first, rows))
        first += rows
    return TableFiles(folder, tuple(files), dataset.schema)


def read_rows(table: TableFiles, first: int, end: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows [first, end) in order, only these columns."""
    for file in table.files:
        low, high = max(first, file.first), min(end, file.first + file.rows)
        if low < high:
            yield from _read_file(table, file, low - file.first, high - file.first, columns)


def times_of(table: TableFiles, file: File, column: str) -> npt.NDArray[np.int64]:
    """Return, for each row of a file, the latest time of any row up to it, in microseconds since 1970.

    Rows without a time have that of the row before. Raises: TableReplayError if the column holds no times.
    """
    values = pa.chunked_array([batch.column(0) for batch in _read_file(table, file, 0, file.rows, [column])])
    if not pa.types.is_timestamp(values.type):
        raise TableReplayError(
            f"{table.folder}: column {column} (option timeColumn) is {values.type}, not a time"
        )
    numbers = values.cast(pa.timestamp("us", values.type.tz), safe=False).cast(pa.int64())
    filled = pc.fill_null(numbers, np.iinfo(np.int64).min).to_numpy()
    return np.asarray(np.maximum.accumulate(filled), np.int64)


def _read_file(
    table: TableFiles, file: File, low: int, high: int, columns: list[str]
) -> Iterator[pa.RecordBatch]:
    fragment = next(_dataset([file.path], table.folder).get_fragments())
    at = 0
    for group in fragment.split_by_row_group():
        rows = group.row_groups[0].num_rows  # count_rows() is the whole file's
        if at + rows > low and at < high:
            here = at
            for batch in group.to_batches(schema=table.schema, columns=columns, batch_size=BATCH_ROWS):
                begin, finish = max(low - here, 0), min(high - here, batch.num_rows)
                if begin < finish:
                    yield batch.slice(begin, finish - begin)
                here += batch.num_rows
        at += rows


def _dataset(paths: list[str], folder: str) -> ds.Dataset:
    return ds.dataset(
        paths, format="parquet", partitioning=ds.partitioning(flavor="hive"), partition_base_dir=folder
    )


def newest_batch(log: Path) -> int:
    """The newest micro-batch in a log of Spark's, whose files have numbers as names; -1 if there is none."""
    return max(_batches(log), default=-1)


def _batches(log: Path) -> dict[int, Path]:
    """Return the files of a log of Spark's by the number of their micro-batch; none if there is no log."""
    if not log.is_dir():
        return {}
    found = ((path.name.removesuffix(".compact"), path) for path in log.iterdir())
    return {int(number): path for number, path in found if number.isdecimal()}


def _good_files(folder: Path) -> list[Path]:
    if (folder / OWN).is_dir():
        return [Path(path) for path in Table(open_store(str(folder))).locations()]
    log = folder / FILE_LOG
    if not log.is_dir():
        found = folder.rglob("*.parquet")
        return sorted(path for path in found if not _is_hidden(path.relative_to(folder)))
    entries = _batches(log)
    compacts = [number for number, path in entries.items() if path.name.endswith(".compact")]
    begin = max(compacts, default=0)
    good: list[Path] = []
    for number in sorted(entries):
        if number >= begin and not (number == begin and compacts and number not in compacts):
            good += _logged(entries[number])
    return good


def _logged(entry: Path) -> list[Path]:
    version, *lines = entry.read_text().splitlines()
    if version != "v1":
        raise TableReplayError(
            f"{entry} begins with {version!r}, not v1: this version of Spark's log is not known"
        )
    return [Path(unquote(urlsplit(json.loads(line)["path"]).path)) for line in lines if line]


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in path.parts)
