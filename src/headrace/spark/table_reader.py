"""Reading tables (docs/tables.md) as `format("nats")`: archived messages from Parquet, newer from the log.

A table says which sequence it will archive next. What lies before is read from its files, and with option
`url` or `logPath` what comes from there on is read from the stream's server or its log: one scan with every
message once, whatever is archived, merged or published meanwhile. A task is a span of sequences, whose row
groups are found by their statistics. Tables, not streams: a stream asks a server what is new.
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec.structs
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from headrace.errors import StorageError
from headrace.log.view import LogView, read_slice
from headrace.objects.errors import StoreError
from headrace.objects.opening import open_store
from headrace.objects.port import OWN
from headrace.schemas.metadata import entries_of
from headrace.spark.errors import StoredStreamError
from headrace.spark.log_reader import SLICE_BYTES, LogBatchReader, LogPartition, span
from headrace.spark.offsets import StoredRange
from headrace.spark.option_places import Edge, Moment
from headrace.spark.pushdown import Bounds, bounds_of
from headrace.spark.schema import arrow_schema
from headrace.spark.stored_link import StoredState
from headrace.spark.stored_reader import StoredBatchReader, StoredPartition, start_of
from headrace.spark.typed_payloads import payloads_of
from headrace.tables.errors import TableError, TableMissing
from headrace.tables.manifest import TableKind
from headrace.tables.open import find_tables
from headrace.tables.scan import RowGroup, RowSelection, pieces, scan, sequence_at
from headrace.tables.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from headrace.spark.options import SourceOptions
    from headrace.spark.stored_link import StoredLink
    from headrace.spark.typed_payloads import StreamPayloads
    from headrace.tables.manifest import DataFile, Ranges, TableManifest

FOOTERS: Final = 4
"""The files for each task above which tasks are whole files: no footer is read for the plan."""
_LAST_TEXT: Final = "\U0010ffff"


@dataclass(frozen=True)
class TablePartition(InputPartition):
    """The part of a table that one task reads; `host` made the plan with these files."""

    stream: str
    location: str
    host: str
    wanted: RowSelection
    files: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class _Part:
    """The part of one table that is read, and of the stream behind it."""

    table: Table
    manifest: TableManifest
    wanted: RowSelection
    tail: StoredRange

    @property
    def files(self) -> list[DataFile]:
        if self.wanted.first >= self.wanted.end:
            return []
        return [file for file in self.manifest.files if self.wanted.may_be_in(file)]

    def pieces(self) -> list[RowGroup]:
        return [one for file in self.files for one in pieces(self.table.store, file, self.wanted)]


def holds_tables(path: str) -> bool:
    """True if a path is a table or has tables directly below; a URL always is."""
    if re.match(r"[a-z][a-z0-9+.-]*://", path):
        return True
    folder = Path(path)
    try:
        return (folder / OWN).is_dir() or any((one / OWN).is_dir() for one in folder.iterdir())
    except OSError:
        return False  # what is wrong with it is said by whoever reads it


def described_tables(options: SourceOptions, *, is_asked_for: bool) -> StreamPayloads | None:
    """The schema of the payloads of the tables that the options select, if it is the same of all.

    Raises: StoredStreamError; OptionError if it cannot be used, or if there is none although it is asked for.
    """
    try:
        found = {manifest.stream: manifest.payloads for _, manifest in chosen_tables(options)}
    except (TableError, StoreError) as error:
        raise StoredStreamError(str(error)) from error
    entries = {name: {} if one is None else entries_of(one) for name, one in found.items()}
    return payloads_of(entries, (), is_asked_for=is_asked_for)


def chosen_tables(options: SourceOptions) -> list[tuple[Table, TableManifest]]:
    """The tables that the options select. Raises: TableError, StoreError, StoredStreamError."""
    assert options.path is not None
    kind, wanted = options.stored_kind, options.stored_names
    found: dict[str, tuple[Table, TableManifest]] = {}
    for table in find_tables(options.path):
        manifest = table.manifest()
        if manifest.stream in found:
            other = found[manifest.stream][0].store.location
            raise StoredStreamError(
                f"{other} and {table.store.location} are of one stream: option path has to name one"
            )
        found[manifest.stream] = table, manifest
    names = kind.chosen(wanted, found) if wanted else sorted(found)
    for name in names or wanted:
        if name not in found:
            raise StoredStreamError(f"there is no table of {kind.word} {name} in {options.path}")
    return [found[name] for name in names]


class TableBatchReader(StoredBatchReader):
    """The reader of `spark.read.format("nats").option("path", ...)` for a place of tables."""

    def __init__(self, options: SourceOptions, schema: StructType, link: StoredLink | None = None) -> None:
        super().__init__(options, schema, link)
        self._log_reader = LogBatchReader(replace(options, path=options.log_path), schema, link)

    def partitions(self) -> Sequence[InputPartition]:
        """The spans from `startingOffsets` to `endingOffsets` of every table and of what is behind them.

        Raises: StoredStreamError, also when there is no table; DataLossError, OptionError.
        """
        try:
            parts = [self._part(table, manifest) for table, manifest in chosen_tables(self._options)]
            planned: list[InputPartition] = [*self._spans(parts)]
        except (TableError, StoreError) as error:
            raise StoredStreamError(str(error)) from error
        planned += self._behind([part.tail for part in parts])
        stream, nowhere = parts[0].manifest.stream, RowSelection(1, 1)
        return planned or [TablePartition(stream, parts[0].table.store.location, "", nowhere, ())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task. Runs in executors.

        Raises: StoredStreamError, DataLossError, ValueFormatError.
        """
        if isinstance(partition, TablePartition):
            try:
                yield from self._table_rows(partition)
            except (TableError, StoreError) as error:
                raise self._unreadable(partition, error) from error
        elif isinstance(partition, LogPartition):
            yield from self._log_reader.read(partition)
        else:
            yield from super().read(partition)

    def _table_rows(self, partition: TablePartition) -> Iterator[pa.RecordBatch]:
        if not partition.files:
            return
        table = Table(open_store(partition.location))
        decoder = self._decoder()
        schema = arrow_schema(decoder.raw_columns)
        columns = [*schema.names, *(() if "sequence" in schema.names else ("sequence",))]
        first = None
        for batch in scan(table, partition.files, partition.wanted, columns):
            sequences = batch.column("sequence")
            first = sequences[0].as_py() if first is None else first
            arrays = [batch.column(field.name).cast(field.type) for field in schema]
            raw = pa.RecordBatch.from_arrays(arrays, schema=schema)
            yield decoder.decode(raw, sequences, self._of(partition.stream))
        if first != partition.wanted.first:
            self._check_front(table, partition)

    def _check_front(self, table: Table, partition: TablePartition) -> None:
        """The plan began where the table did or later: if it begins behind that now, rows were removed."""
        begins, first = _first(table.manifest()), partition.wanted.first
        if begins > first:
            self._lost(
                f"the table {partition.location} begins at sequence {begins} now: {first} to "
                f"{min(begins, partition.wanted.end) - 1} were removed before they were read"
            )

    def _unreadable(self, partition: TablePartition, error: TableError | StoreError) -> StoredStreamError:
        here = socket.gethostname()
        if isinstance(error, TableMissing) and partition.host != here:
            return StoredStreamError(
                f"{partition.location} cannot be seen from {here}: option path must name a directory that "
                "the driver and all executors share, or a URL"
            )
        return StoredStreamError(str(error))

    # ---- the plan ---------------------------------------------------------------------------

    def _part(self, table: Table, manifest: TableManifest) -> _Part:
        """Plan the part of a table that is read, and of the stream behind it.

        Raises: StoredStreamError, DataLossError, OptionError.
        """
        name = manifest.stream
        first = _first(manifest)
        behind = self._state_behind(table, manifest)
        last = manifest.next - 1 if behind is None else behind.last_sequence
        created = None if behind is None else behind.created_ns
        state = StoredState(first, last, 0, 0, created or 0)
        begin = self._place_in(table, manifest, "startingOffsets", Edge.EARLIEST, state)
        end = max(begin, self._place_in(table, manifest, "endingOffsets", Edge.LATEST, state))
        where = table.store.location
        missing = ((begin, min(first, end) - 1),)
        self._report(f"the table {where} begins at sequence {first}, it does not have", missing, begin, end)
        self._report(f"{where}: gone from the stream before they were archived", manifest.missed, begin, end)
        self._report(f"{where}: damaged in the stream", manifest.damaged, begin, end)
        if behind is not None:
            gone = (manifest.next, min(behind.first_sequence, behind.last_sequence + 1) - 1)
            self._report(f"{self._of(name)}: removed before they were archived", (gone,), begin, end)
        bounds = self._bounds
        if not bounds.may_hold_stream(_shown(name)):
            begin = end
        tail = StoredRange(name, min(max(begin, manifest.next), end), end, created)
        return _Part(table, manifest, _wanted(begin, min(end, manifest.next), bounds), tail)

    def _place_in(
        self, table: Table, manifest: TableManifest, option: str, default: Edge, state: StoredState
    ) -> int:
        given = self._options.starting if option == "startingOffsets" else self._options.ending
        start = start_of(manifest.stream, given, default)
        if isinstance(start, Moment):
            found = sequence_at(table, manifest, start.ns)
            if found is not None:
                return found
            if self._options.log_path is not None and self._options.url is None:
                raise StoredStreamError(
                    f"{table.store.location} has no message of that time or later yet: logs have no offsets "
                    "by time, set option url too"
                )
            if self._options.url is None:
                return manifest.next
        return self._place(option, manifest.stream, start, state).next

    def _report(self, what: str, ranges: Ranges, begin: int, end: int) -> None:
        """Tells of missing sequences that are wanted. Raises: DataLossError."""
        for low, high in ranges:
            if low <= high and low < end and high >= begin:
                self._lost(f"{what}: {span(max(low, begin), min(high, end - 1))}")

    def _spans(self, parts: Sequence[_Part]) -> list[TablePartition]:
        """Tasks of about equal bytes: `minPartitions` (else one per core) in all, for small tables fewer."""
        most = self._options.min_partitions or os.cpu_count() or 1
        total = sum(file.bytes for part in parts for file in part.files)
        least = 1 if self._options.min_partitions else SLICE_BYTES
        by_group = sum(len(part.files) for part in parts) <= FOOTERS * most
        host, planned = socket.gethostname(), []
        for part in parts:
            files = part.files
            size = sum(file.bytes for file in files)
            count = max(1, min(-(-most * size // max(total, 1)), -(-size // least)))
            units = [RowGroup(file.first, file.last + 1, file.bytes) for file in files]
            if by_group and (count > 1 or self._options.pushdown):
                units = part.pieces()
            for low, end in _grouped(units, count):
                wanted = msgspec.structs.replace(
                    part.wanted, first=max(low, part.wanted.first), end=min(end, part.wanted.end)
                )
                own = tuple(file for file in files if wanted.may_be_in(file))
                where = part.table.store.location
                planned.append(TablePartition(part.manifest.stream, where, host, wanted, own))
        return planned

    # ---- behind the tables ------------------------------------------------------------------

    def _state_behind(self, table: Table, manifest: TableManifest) -> StoredState | None:
        """Ask for the state of a table's stream; None if it is not needed. Raises: StoredStreamError."""
        name, where = manifest.stream, table.store.location
        is_behind = self._options.log_path is not None or self._options.url is not None
        if is_behind and manifest.kind is not TableKind.MESSAGES:
            raise StoredStreamError(
                f"{where} has rows of a key-value bucket: what is newer than they is not read with option url"
            )
        state = None
        if self._options.log_path is not None:
            [directory] = self._log_of(name).values()
            view = LogView(directory)
            self._check_log(table, manifest, directory, view)
            state = StoredState(view.first_sequence, view.last_sequence, 0, 0, manifest.created_ns)
        if self._options.url is not None:
            state = self._link.state(name)
            if state is None:
                raise StoredStreamError(
                    f"there is no {self._link.place(name)}, of which {where} is the table"
                )
            if manifest.created_ns not in (0, state.created_ns):
                raise StoredStreamError(
                    f"{self._link.place(name)} was deleted and made again since {where} was made from it"
                )
        if state is not None and state.last_sequence + 1 < manifest.next:
            raise StoredStreamError(
                f"{self._of(name)} ends at sequence {state.last_sequence}, and {where} has it up to "
                f"{manifest.next - 1}: it is not the same {self._kind.word}, or an older copy of it"
            )
        return state

    def _log_of(self, name: str) -> dict[str, Path]:
        return LogBatchReader(
            replace(self._options, path=self._options.log_path, channels=(name,)), self._schema, self._link
        ).logs()

    def _check_log(self, table: Table, manifest: TableManifest, directory: Path, view: LogView) -> None:
        """The last archived message that the log still has is the same there. Raises: StoredStreamError."""
        if not manifest.files:
            return
        last = manifest.files[-1].last
        row = next(
            scan(table, manifest.files, RowSelection(last, last + 1), ["sequence", "timestamp_ns"]), None
        )
        try:
            found = [
                m.time_ns for one in view.slices(last, last + 1, 1) for ms, _ in read_slice(one) for m in ms
            ]
        except StorageError as error:
            raise StoredStreamError(f"{self._of(manifest.stream)}: {error}") from error
        if row is not None and found and found != row.column("timestamp_ns").to_pylist():
            raise StoredStreamError(
                f"{table.store.location} is not the table of the log in {directory}: they hold different "
                "messages"
            )

    def _behind(self, tails: Sequence[StoredRange]) -> list[InputPartition]:
        """Tasks for what the tables do not have yet. Raises: StoredStreamError, DataLossError."""
        bounds = self._bounds
        left = [replace(one, first=max(one.first, bounds.low)) for one in tails]
        if bounds.high is not None:
            left = [replace(one, end=min(one.end, bounds.high + 1)) for one in left]
        left = [one for one in left if one.first < one.end]
        if not left:
            return []
        if self._options.log_path is None:
            filters = bounds.filters(())
            return [] if filters is None else list(self._plan(left, filters))
        options = replace(
            self._options,
            path=self._options.log_path,
            channels=tuple(one.name for one in left),
            starting={one.name: one.first for one in left},
            ending={one.name: one.end for one in left},
        )
        planned = LogBatchReader(options, self._schema, self._link).partitions()
        return [one for one in planned if isinstance(one, StoredPartition | LogPartition)]


class FilteringTableReader(TableBatchReader):
    """The reader for option `pushdown`: conditions say which files and row groups are read at all."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802  # Spark's name
        self._bounds = bounds_of(filters)
        return filters


def _first(manifest: TableManifest) -> int:
    """The first sequence that a table has; the next one of an empty table."""
    return manifest.files[0].first if manifest.files else manifest.next


def _wanted(first: int, end: int, bounds: Bounds) -> RowSelection:
    high = end if bounds.high is None else min(end, bounds.high + 1)
    subjects = None if bounds.subjects is None else tuple(map(_texts, bounds.subjects))
    return RowSelection(max(first, bounds.low), high, bounds.since_ns, bounds.until_ns, subjects)


def _texts(pattern: str) -> tuple[str, str]:
    """The least and the greatest text that a subject with wildcards can be."""
    tokens = pattern.split(".")
    for number, token in enumerate(tokens):
        if token in ("*", ">"):
            start = "".join(f"{one}." for one in tokens[:number])
            return start, start + _LAST_TEXT
    return pattern, pattern


def _grouped(units: Sequence[RowGroup], count: int) -> Iterator[tuple[int, int]]:
    """Neighbours together, up to `count` groups of about equal bytes, as spans of sequences."""
    total = sum(unit.bytes for unit in units)
    first, done, cuts = None, 0, 1
    for number, unit in enumerate(units, 1):
        first = unit.first if first is None else first
        done += unit.bytes
        if done * count >= total * cuts or number == len(units):
            yield first, unit.end
            first, cuts = None, done * count // max(total, 1) + 1


def _shown(name: str) -> str:
    """Return a stream's name as column `stream` shows it."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
