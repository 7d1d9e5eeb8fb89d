"""The latest values of a key-value bucket as a table: one row for each key that has a value.

A run reads what is new, takes the rows out that it replaces or that went from the bucket (deleted, purged,
expired), and puts all of it into one version: no reader sees a key twice. Rows that were deleted go for good,
those that a newer value replaces stay aside for `GRACE_NS` for readers that began before. Messages and the
history of a bucket are `archive`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from headrace.tables.archive import GRACE_NS, ArchiveProgress, ArchiveReport, ArchiveRun, state_of
from headrace.tables.columns import PUT, HistoryLayout, LatestLayout
from headrace.tables.errors import SourceChanged, TableConflict
from headrace.tables.files import FileLimits, FileWriter, read
from headrace.tables.manifest import TableKind, add_ranges
from headrace.tables.payload_columns import PayloadColumns
from headrace.tables.retention import as_ranges, gone_from
from headrace.tables.rewrite import copy_without, merge_tail
from headrace.tables.table import swapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.tables.manifest import DataFile, TableManifest
    from headrace.tables.source import SegmentSource
    from headrace.tables.table import Table, TableWriter

CATCH_UPS: Final = 8
"""Times a run reads what came while it read and compared. A key that was written to in the last of them may
be missing in this version, where its older value is gone; the next run has it."""


def archive_latest(
    table: Table,
    source: SegmentSource,
    *,
    restart: bool = False,
    limits: FileLimits | None = None,
    progress: Callable[[ArchiveProgress], object] = lambda _progress: None,
) -> ArchiveReport:
    """Bring a table of latest values up to where its bucket is now, making it when there is none.

    `restart`: as of `headrace.tables.archive`. Cost: what is new; when something changed, the headers of all
    messages, and the files that lose rows. Memory: some 100 bytes for each key that changed.

    Raises: as `headrace.tables.archive.archive`.
    """
    limits = limits or FileLimits()
    state_of(source)  # before a directory is made for it
    with table.writing(create=True) as writer:
        run = _LatestRun(writer, source, limits, progress)
        run.begin(None, restart=restart)
        run.compare()
        if run.report.rows or run.report.removed:
            merge_tail(writer, limits)
        writer.vacuum(GRACE_NS)
        run.report.next = table.manifest().next
    return run.report


class _Old(Struct):
    """The sequences that leave a file, and whether one of them was deleted, not replaced."""

    file: DataFile
    gone: np.ndarray[Any, Any]
    is_deleted: bool


class _LatestRun(ArchiveRun):
    """One run over one bucket."""

    def __init__(
        self,
        writer: TableWriter,
        source: SegmentSource,
        limits: FileLimits,
        progress: Callable[[ArchiveProgress], object],
    ) -> None:
        super().__init__(writer, source, TableKind.LATEST, limits, progress)
        self._last: dict[str, int] = {}
        """The last sequence of each key that changed; negative where it has no value any more."""
        self._made: list[DataFile] = []

    def compare(self) -> None:
        """Make the table what the bucket is, in one version. Raises: SourceChanged, TableConflict."""
        base = self._writer.table.manifest()
        before = self._state
        if base.next > before.last_sequence and base.messages == before.messages:
            return
        span, messages = self._span, -1
        for _ in range(CATCH_UPS):
            self._read_span()
            old = [one for file in base.files if (one := self._look(file)) is not None]
            state = self._state_now()
            if state.created_ns != before.created_ns:
                raise SourceChanged(f"stream {self._source.stream} was deleted while it was archived")
            if state.last_sequence + 1 == span.at:
                messages = state.messages
                break
            span.end = state.last_sequence + 1  # a message that is gone may have been replaced meanwhile
        self._drop_replaced()
        self._commit_all(base, old, messages)

    # -- what is new ------------------------------------------------------------------------------

    def _read_span(self) -> None:
        """Write the values that came since into files that no version names yet."""
        span, stream = self._span, self._source.stream
        history, latest = HistoryLayout(), LatestLayout()
        columns = PayloadColumns(self._writer.table.manifest())
        file = FileWriter(self._writer.store, self.limits, columns.schema)
        try:
            for batch in self._source.batches(span.at, span.end):
                span.see(batch)
                if batch.messages is None:
                    continue
                rows = history.rows(stream, batch.messages)
                self._last.update(_last_of(rows))
                file.write(columns.add(latest.values_of(rows)))
                self._show()
                if file.is_full:
                    self._keep(file)
                    file = FileWriter(self._writer.store, self.limits, columns.schema)
            span.finish()
            self._keep(file)
        finally:
            file.abort()

    def _keep(self, file: FileWriter) -> None:
        made = file.finish()
        if made is not None:
            self._made.append(made)

    def _drop_replaced(self) -> None:
        """Take the values out of the new files that are not the last of their keys."""
        kept: list[DataFile] = []
        for file in self._made:
            keys, sequences = self._rows_of(file)
            gone = np.fromiter((self._last[key] != at for key, at in zip(keys, sequences, strict=True)), bool)
            if not gone.any():
                kept.append(file)
                continue
            made, _ = copy_without(self._writer, [file], self.limits, as_ranges(sequences[gone]))
            kept += [made] if made is not None else []
            self._discard([file])
        self._made = kept

    # -- what is old ------------------------------------------------------------------------------

    def _look(self, file: DataFile) -> _Old | None:
        """Find what leaves a file: None, if all of it stays."""
        keys, sequences = self._rows_of(file)
        changes = [self._last.get(key, 0) for key in keys]
        changed = np.fromiter((one != 0 for one in changes), bool, len(changes))
        deleted = np.fromiter((one < 0 for one in changes), bool, len(changes))
        expired = np.isin(sequences, gone_from(self._source, file, sequences)) & ~changed
        gone = changed | expired
        if not gone.any():
            return None
        return _Old(file, sequences[gone], bool((deleted | expired).any()))

    def _rows_of(self, file: DataFile) -> tuple[list[str], np.ndarray[Any, Any]]:
        keys: list[str] = []
        sequences = [np.empty(0, dtype=np.int64)]
        for batch in read(self._writer.store, file, ["key", "sequence"]):
            keys += batch.column("key").to_pylist()
            sequences.append(batch.column("sequence").to_numpy())
        return keys, np.concatenate(sequences)

    # -- the version ------------------------------------------------------------------------------

    def _commit_all(self, base: TableManifest, old: list[_Old], messages: int) -> None:
        writer, report = self._writer, self.report
        new = self._made
        rewritten: list[DataFile] = []
        swaps: list[tuple[_Old, list[DataFile]]] = []
        for one in old:
            made, lost = copy_without(writer, [one.file], self.limits, as_ranges(one.gone))
            swaps.append((one, [made] if made is not None else []))
            rewritten += swaps[-1][1]
            report.removed += lost
        damaged = add_ranges((), tuple(self._span.damaged))

        def change(current: TableManifest | None) -> TableManifest:
            if current is None or current.commit != base.commit:
                raise TableConflict(f"{writer.store.location}: another archiver was quicker")
            for one, files in swaps:
                now = writer.table.clock()
                current = swapped(current, [one.file], files, erase=one.is_deleted, now_ns=now)
            return replace(
                current,
                next=self._span.at,
                files=(*current.files, *new),
                damaged=add_ranges(current.damaged, damaged),
                messages=messages,
            )

        try:
            version = writer.commit(change)
        except TableConflict:
            self._discard([*new, *rewritten])
            raise
        writer.settle(version)
        report.damaged = damaged
        report.rows = sum(file.rows for file in new)
        report.bytes = sum(file.bytes for file in new)
        report.files = len(new)

    def _discard(self, files: Iterable[DataFile]) -> None:
        for file in files:
            self._writer.store.delete(file.path)


def _last_of(rows: Any) -> dict[str, int]:
    """The last sequence of each key of a history's rows; negative where that ends its value."""
    sequences = rows.column("sequence").to_pylist()
    operations = rows.column("operation").to_pylist()
    signed = (at if done == PUT else -at for at, done in zip(sequences, operations, strict=True))
    return dict(zip(rows.column("key").to_pylist(), signed, strict=True))
