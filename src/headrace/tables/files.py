"""One Parquet file of a table: writing it in bounded memory, reading it back, finding what is wrong with it.

Row groups are bounded in rows and bytes and sorted by sequence, with statistics of sequence, time and
subject, so that readers skip what they do not want. Never here: which files a table has.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from msgspec.structs import replace

from headrace.objects.errors import KeyMissing, StoreError
from headrace.objects.port import OWN
from headrace.tables.columns import SCHEMA
from headrace.tables.errors import TableDamaged
from headrace.tables.manifest import DataFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.objects.port import ObjectStore

FILE_BYTES: Final = 256 << 20
"""About how large a file becomes; it is ended after the row group that reaches it."""
GROUP_ROWS: Final = 131_072
GROUP_BYTES: Final = 64 << 20
"""A row group ends when it has as many rows or, uncompressed, bytes. So much is held in memory."""
READ_ROWS: Final = 16_384
SUFFIX: Final = ".parquet"
REPLACED: Final = f"{OWN}/replaced"
"""The folder of files that newer ones have replaced."""
FILE_NAME: Final = re.compile(r"[0-9]{20}-[0-9]{20}-[0-9a-f]{8}\.parquet")
"""First and last sequence and a random part. Files of other names are not ours to clear away."""

_STATISTICS: Final = ("sequence", "timestamp", "timestamp_ns", "subject", "key", "revision")
_DICTIONARIES: Final = ("stream", "subject", "reply", "headers.key_value.key", "operation")
_DELTAS: Final = ("sequence", "timestamp", "timestamp_ns", "revision")
"""Spark, Polars and DuckDB read their encoding."""


def _options(schema: pa.Schema) -> dict[str, Any]:
    """Return the settings of Parquet for a schema; they name only columns that it has."""

    def there(names: Sequence[str]) -> list[str]:
        return [name for name in names if name.partition(".")[0] in schema.names]

    return {
        "compression": "zstd",
        "use_dictionary": there(_DICTIONARIES),
        "column_encoding": dict.fromkeys(there(_DELTAS), "DELTA_BINARY_PACKED"),
        "write_statistics": there(_STATISTICS),
        "write_page_index": True,
        "sorting_columns": [pq.SortingColumn(schema.get_field_index("sequence"))],
    }


class FileLimits(Struct, frozen=True):
    """The largest sizes of files and row groups. Bytes of files are compressed, those of groups are not."""

    file_bytes: int = FILE_BYTES
    group_rows: int = GROUP_ROWS
    group_bytes: int = GROUP_BYTES


class FileWriter:
    """One file: rows of a schema in ascending sequence, then `finish` or `abort`.

    Raises StoreError; ValueError for rows that do not ascend.
    """

    def __init__(self, store: ObjectStore, limits: FileLimits, schema: pa.Schema = SCHEMA) -> None:
        self._limits = limits
        self._schema = schema
        self._draft = store.draft()
        self._writer: Any = None
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._made: DataFile | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self._count(batch)
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        if self._waiting_rows >= self._limits.group_rows or self._waiting_bytes >= self._limits.group_bytes:
            self._write_group()

    def _count(self, batch: pa.RecordBatch) -> None:
        sequences = batch.column("sequence").to_numpy()
        times = batch.column("timestamp_ns").to_numpy()
        made = self._made
        last = made.last if made else 0
        if sequences[0] <= last or (np.diff(sequences) <= 0).any():
            raise ValueError(f"rows behind sequence {last} do not ascend")
        first_time, last_time = int(times.min()), int(times.max())
        if made is None:
            made = DataFile("", int(sequences[0]), 0, 0, first_time, last_time, 0, "")
        self._made = replace(
            made,
            last=int(sequences[-1]),
            rows=made.rows + batch.num_rows,
            first_time_ns=min(made.first_time_ns, first_time),
            last_time_ns=max(made.last_time_ns, last_time),
        )

    def _write_group(self) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._draft, self._schema, **_options(self._schema))
        rows = pa.Table.from_batches(self._waiting, self._schema)
        self._writer.write_table(rows, row_group_size=max(self._waiting_rows, 1))
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    @property
    def is_full(self) -> bool:
        """True once the written bytes have reached the size of a file."""
        return self._draft.tell() >= self._limits.file_bytes

    def finish(self) -> DataFile | None:
        """Put the file into the table's directory, durable; None if there was no row.

        It is not part of the table before a manifest names it.
        """
        if self._made is None:
            self._draft.discard()
            return None
        if self._waiting:
            self._write_group()
        self._writer.close()
        made = self._made
        key = f"{made.first:020}-{made.last:020}-{secrets.token_hex(4)}{SUFFIX}"
        size = self._draft.tell()
        return replace(made, path=key, bytes=size, sha256=self._draft.publish(key))

    def abort(self) -> None:
        """Take an unfinished file away; nothing when it is finished."""
        if self._writer is not None and self._writer.is_open:
            with suppress(StoreError):  # it writes its end, at the latest when it is collected
                self._writer.close()
        self._draft.discard()


@contextmanager
def opened(store: ObjectStore, path: str, *, in_parts: bool = False) -> Iterator[Any]:
    """A data file as pyarrow's ParquetFile, also one that was replaced since the manifest was read.

    `in_parts`: see `Store.open`. Raises: KeyMissing, TableDamaged.
    """
    try:
        raw = store.open(path, in_parts=in_parts)
    except KeyMissing:
        raw = store.open(f"{REPLACED}/{path}", in_parts=in_parts)
    with raw:
        try:
            file = pq.ParquetFile(raw, pre_buffer=in_parts)
        except (pa.ArrowInvalid, OSError) as error:
            raise TableDamaged(f"{store.location}: {path}: {error}") from error
        with file:
            yield file


def read(
    store: ObjectStore,
    file: DataFile,
    columns: Sequence[str] | None = None,
    schema: pa.Schema = SCHEMA,
) -> Iterator[pa.RecordBatch]:
    """Its rows: some columns, or those of `schema`; others of payloads may be behind them in the file.

    Raises: KeyMissing, TableDamaged, StoreError.
    """
    with opened(store, file.path) as parquet:
        batches = parquet.iter_batches(READ_ROWS, columns=list(schema.names if columns is None else columns))
        while True:
            try:
                batch = next(batches, None)
            except (pa.ArrowInvalid, OSError) as error:
                raise TableDamaged(f"{store.location}: {file.path}: {error}") from error
            if batch is None:
                return
            yield batch if columns is not None else batch.cast(schema)


def sequences_of(store: ObjectStore, file: DataFile) -> np.ndarray[Any, Any]:
    """The sequences of its rows, ascending. Raises: as `read`."""
    found = [batch.column("sequence").to_numpy() for batch in read(store, file, ["sequence"])]
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


def checksum(store: ObjectStore, path: str) -> tuple[str, int]:
    """SHA-256 and size of a file in the table. Raises: KeyMissing, StoreError."""
    digest, size = hashlib.sha256(), 0
    with store.open(path) as raw:
        while chunk := raw.read(1 << 20):
            digest.update(chunk)
            size += len(chunk)
    return digest.hexdigest(), size


def problems(store: ObjectStore, file: DataFile, schema: pa.Schema = SCHEMA) -> list[str]:
    """Compare a file with the manifest and the table's schema, and return its faults. Raises: StoreError."""
    try:
        problem = _problem(store, file, schema)
    except KeyMissing:
        problem = "it is missing"
    except TableDamaged as error:
        problem = str(error)
    return [f"{file.path}: {problem}"] if problem else []


def _problem(store: ObjectStore, file: DataFile, schema: pa.Schema) -> str | None:
    found, size = checksum(store, file.path)
    if (found, size) != (file.sha256, file.bytes):
        return f"it is not the file that was written ({size} bytes, {file.bytes} expected)"
    with opened(store, file.path) as parquet:
        if not pa.schema(list(parquet.schema_arrow)[: len(schema)]).equals(schema):
            return "its columns are not those of a table"
    sequences = sequences_of(store, file)
    if len(sequences) != file.rows or not len(sequences):
        return f"{len(sequences)} rows, {file.rows} expected"
    if (np.diff(sequences) <= 0).any() or (sequences[0], sequences[-1]) != (file.first, file.last):
        return f"its sequences are not those from {file.first} to {file.last} in order"
    return None
