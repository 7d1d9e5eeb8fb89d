"""The archiver: what a stream has and its table has not yet, into files; then both in step.

A run goes from the table's `next` to the end of the stream, a commit for each file, so that one that was
killed goes on behind its last whole file. Two runs at once end with every message once: where there is a lock
the second is refused, elsewhere the one that commits later sees that its rows are there and drops its file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from headrace.tables.columns import layout_of
from headrace.tables.errors import SourceChanged, SourceMissing, TableConflict
from headrace.tables.files import FileLimits, FileWriter
from headrace.tables.manifest import (
    DataFile,
    Ranges,
    Retired,
    TableKind,
    TableManifest,
    add_ranges,
    without,
)
from headrace.tables.payload_columns import PayloadColumns, payloads_in
from headrace.tables.retention import STREAM, age_of, keep_in_step
from headrace.tables.rewrite import merge_tail

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.tables.source import SegmentSource, SourceBatch, SourceState
    from headrace.tables.table import Table, TableWriter

GRACE_NS: Final = 3_600 * 10**9
"""Nanoseconds for which replaced files are kept for readers that began before."""
_WORDS: Final = {
    TableKind.MESSAGES: "the messages of a stream",
    TableKind.HISTORY: "the history of a bucket",
    TableKind.LATEST: "the latest values of a bucket",
}
MOST_GAPS: Final = 4096
"""Gaps remembered of a run, to tell what limits took from single deletes; the first ones count."""


class ArchiveProgress(Struct, frozen=True):
    """The progress of a run: the sequences of the span that it works on, the rows and bytes that it
    committed.
    """

    first: int
    at: int
    end: int
    rows: int
    bytes: int


class ArchiveReport(Struct):
    """The outcome of a run. `missed` and `damaged` are of this run only."""

    stream: str
    rows: int = 0
    bytes: int = 0
    files: int = 0
    removed: int = 0
    next: int = 1
    missed: Ranges = ()
    damaged: Ranges = ()


class _Span(Struct):
    """The span that is being read, and its sequences that were not there."""

    first: int
    at: int
    end: int
    gaps: list[tuple[int, int]] = field(default_factory=list)
    damaged: list[tuple[int, int]] = field(default_factory=list)

    def see(self, batch: SourceBatch) -> None:
        self.damaged += batch.damaged
        found = batch.sequences
        if len(found) and found[-1] - self.at + 1 != len(found):
            for sequence in found:
                if sequence != self.at and len(self.gaps) < MOST_GAPS:
                    self.gaps.append((self.at, sequence - 1))
                self.at = sequence + 1
        elif len(found):
            self.at = found[-1] + 1

    def finish(self) -> None:
        if self.at < self.end:
            self.gaps.append((self.at, self.end - 1))
        self.at = self.end

    def missed(self, first_sequence: int) -> Ranges:
        """Return the sequences before the stream's first message that were not archived in time."""
        front = ((first_sequence, self.end),) if first_sequence < self.end else ()
        return without(without(tuple(self.gaps), front), tuple(self.damaged))


def archive(
    table: Table,
    source: SegmentSource,
    *,
    kind: TableKind = TableKind.MESSAGES,
    retain: str | None = None,
    restart: bool = False,
    limits: FileLimits | None = None,
    progress: Callable[[ArchiveProgress], object] = lambda _progress: None,
) -> ArchiveReport:
    """Bring a table up to where its stream is now, making it when there is none.

    `kind`: what the rows are; latest values are `headrace.tables.latest`'s. `retain`: see
    `headrace.tables.retention`; None leaves it as it is ("stream" for a new table).
    `restart`: when the stream was deleted and made again, begin again, too; what the table had is removed.

    Raises: SourceMissing, SourceChanged, LockHeld, TableConflict, TableDamaged, StoreError, ValueError for
    a rule of retention that is none, and what the source raises.
    """
    if retain is not None:
        age_of(retain)
    state_of(source)  # before a directory is made for it
    with table.writing(create=True) as writer:
        run = ArchiveRun(writer, source, kind, limits or FileLimits(), progress)
        run.begin(retain, restart=restart)
        run.copy()
        run.report.removed = keep_in_step(writer, source, run.limits)
        run.report.next = table.manifest().next
    return run.report


def archive_and_merge(
    table: Table,
    source: SegmentSource,
    *,
    kind: TableKind = TableKind.MESSAGES,
    retain: str | None = None,
    restart: bool = False,
    limits: FileLimits | None = None,
    progress: Callable[[ArchiveProgress], object] = lambda _progress: None,
) -> ArchiveReport:
    """Archive as `archive` does, again and again: also merges the small files that this makes.

    What was merged stays for `GRACE_NS`. Raises: as `archive`.
    """
    report = archive(
        table, source, kind=kind, retain=retain, restart=restart, limits=limits, progress=progress
    )
    if report.rows or report.removed:
        with table.writing() as writer:
            merge_tail(writer, limits)
            writer.vacuum(GRACE_NS)
    return report


def state_of(source: SegmentSource) -> SourceState:
    """Return the state of a source. Raises: SourceMissing, what the source raises."""
    state = source.state()
    if state is None:
        raise SourceMissing(f"there is no stream {source.stream}")
    return state


class ArchiveRun:
    """One run over one stream."""

    def __init__(
        self,
        writer: TableWriter,
        source: SegmentSource,
        kind: TableKind,
        limits: FileLimits,
        progress: Callable[[ArchiveProgress], object],
    ) -> None:
        self.kind = kind
        self.limits = limits
        self.report = ArchiveReport(source.stream)
        self._writer = writer
        self._source = source
        self._progress = progress
        self._state = self._state_now()
        self._span = _Span(1, 1, 1)
        self._payloads = payloads_in(self._state.metadata)

    def _state_now(self) -> SourceState:
        return state_of(self._source)

    def begin(self, retain: str | None, *, restart: bool) -> None:
        """Find the table or make it; begin it again, or set another rule, where that is asked for."""
        stream, state = self._source.stream, self._state

        def change(current: TableManifest | None) -> TableManifest:
            if current is None:
                first = state.first_sequence
                made = TableManifest(0, stream, state.created_ns, first, retain or STREAM, kind=self.kind)
                return replace(made, payloads=self._payloads)
            self._check_same(current, restart=restart)
            if current.created_ns != state.created_ns:
                current = begun_again(current, state, self._writer.table.clock())
            return replace(current, retain=retain or current.retain, payloads=self._payloads)

        found = self._writer.table.newest()
        if found is None or change(found) != found:
            found = self._writer.commit(change)
            self._writer.settle(found)
        self._span = _Span(found.next, found.next, state.last_sequence + 1)

    def _check_same(self, table: TableManifest, *, restart: bool) -> None:
        where, stream, state = self._writer.store.location, self._source.stream, self._state
        if table.stream != stream:
            raise SourceChanged(f"{where} is the table of stream {table.stream}, not of {stream}")
        if table.kind is not self.kind:
            raise SourceChanged(f"{where} has {_WORDS[table.kind]}, not {_WORDS[self.kind]}")
        if table.created_ns != state.created_ns:
            if restart:
                return
            raise SourceChanged(
                f"stream {stream} was deleted and made again since {where} was made from it: archive it to "
                "another place, or restart the table, which removes what it has"
            )
        if state.last_sequence + 1 < table.next:
            raise SourceChanged(
                f"stream {stream} ends at sequence {state.last_sequence}, and {where} has it up to "
                f"{table.next - 1}: it is not the same stream, or an older copy of it"
            )

    def copy(self) -> None:
        """Read what is not archived and commit it, file by file."""
        span = self._span
        if span.first >= span.end:
            return
        committed = span.first
        manifest = self._writer.table.manifest()
        layout, columns = layout_of(manifest), PayloadColumns(manifest)
        file = FileWriter(self._writer.store, self.limits, columns.schema)
        try:
            for batch in self._source.batches(span.first, span.end):
                span.see(batch)
                if batch.messages is not None:
                    file.write(columns.add(layout.rows(self._source.stream, batch.messages)))
                self._show()
                if file.is_full:
                    self._commit(file.finish(), committed, span.at)
                    committed = span.at
                    file = FileWriter(self._writer.store, self.limits, columns.schema)
            span.finish()
            after = self._state_now()
            if after.created_ns != self._state.created_ns:
                raise SourceChanged(f"stream {self._source.stream} was deleted while it was archived")
            self.report.missed = span.missed(after.first_sequence) if after.keeps_order else ()
            self._commit(file.finish(), committed, span.end)
            self._show()
        finally:
            file.abort()

    def _show(self) -> None:
        span, report = self._span, self.report
        self._progress(ArchiveProgress(span.first, span.at, span.end, report.rows, report.bytes))

    def _commit(self, file: DataFile | None, first: int, end: int) -> None:
        """Add a file (None: nothing was there) and say that everything below `end` is archived."""
        store, report = self._writer.store, self.report
        report.damaged = add_ranges(report.damaged, tuple(self._span.damaged))

        def change(current: TableManifest | None) -> TableManifest:
            if current is None or current.next != first:
                raise TableConflict(f"{store.location}: another archiver was quicker")
            return replace(
                current,
                next=end,
                files=current.files if file is None else (*current.files, file),
                missed=add_ranges(current.missed, report.missed),
                damaged=add_ranges(current.damaged, report.damaged),
            )

        try:
            self._writer.commit(change)
        except TableConflict:
            if file is not None:
                store.delete(file.path)
            raise
        if file is not None:
            report.rows += file.rows
            report.bytes += file.bytes
            report.files += 1


def begun_again(table: TableManifest, state: SourceState, now_ns: int) -> TableManifest:
    """The table of a stream that was made again: empty, and what it had is to be removed."""
    gone = tuple(Retired(one.path, one.first, one.last, now_ns, True) for one in table.files)
    erased = tuple(replace(one, erase=True) for one in table.retired)
    first = state.first_sequence
    fresh = TableManifest(0, table.stream, state.created_ns, first, table.retain, kind=table.kind)
    return replace(
        fresh, version=table.version, commit=table.commit, lineage=table.lineage, retired=gone + erased
    )
