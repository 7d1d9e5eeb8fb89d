"""The retention of rows in a table, and the rows that are gone from its stream.

    stream    as long as the message is in the stream: limits, purges, TTL, deletes and erasure count here too
    forever   what limits or a purge took from the front of the stream stays; single messages that were
              deleted or erased behind that go. Where the newest of each subject are kept, or messages go
              once they are consumed, a deleted message looks as those do: all rows stay
    720h      as forever, and a file goes when its newest row is as old as that

Here live these rules; never the rewriting of files (`rewrite`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from headrace.protocol.durations import parse_duration
from headrace.tables.errors import SourceChanged
from headrace.tables.files import sequences_of
from headrace.tables.rewrite import remove_rows

if TYPE_CHECKING:
    from headrace.tables.files import FileLimits
    from headrace.tables.manifest import DataFile, Ranges, TableManifest
    from headrace.tables.source import SegmentSource, SourceState
    from headrace.tables.table import TableWriter

STREAM: Final = "stream"
FOREVER: Final = "forever"


def age_of(retain: str) -> int | None:
    """The age in ns that a rule sets, None for the two that set none. Raises: ValueError for no rule."""
    if retain in (STREAM, FOREVER):
        return None
    seconds = parse_duration(retain)
    if seconds <= 0:
        raise ValueError("it is not above 0")
    return round(seconds * 1e9)


def keep_in_step(writer: TableWriter, source: SegmentSource, limits: FileLimits) -> int:
    """Remove the rows that the table's rule no longer keeps; return their number.

    Raises: SourceChanged, StoreError, TableDamaged, TableConflict, what the source raises.
    """
    manifest = writer.table.manifest()
    removed = 0
    age = age_of(manifest.retain)
    if age is not None:
        cutoff = writer.table.clock() - age
        old = [file for file in manifest.files if file.last_time_ns < cutoff]
        if old:
            writer.swap(old, [], erase=True)
            removed += sum(file.rows for file in old)
    state = _state(source, manifest)
    if manifest.retain == STREAM and state.first_sequence > 1:
        removed += remove_rows(writer, ((1, state.first_sequence - 1),), limits=limits)
    if manifest.retain != STREAM and not state.keeps_order:
        return removed  # what is gone was replaced or consumed
    return removed + _remove_deleted(writer, source, state, limits)


def _state(source: SegmentSource, manifest: TableManifest) -> SourceState:
    state = source.state()
    if state is None or state.created_ns != manifest.created_ns:
        raise SourceChanged(f"stream {manifest.stream} was deleted while it was archived")
    return state


def _remove_deleted(
    writer: TableWriter, source: SegmentSource, state: SourceState, limits: FileLimits
) -> int:
    """Single messages that were deleted from the stream after they were archived.

    The stream says how many messages it has. Of those, at most as many as there are sequences lie behind the
    table, so when table and stream agree with none missing behind, nothing was deleted and nothing is read.
    """
    manifest = writer.table.manifest()
    first, end = state.first_sequence, manifest.next
    common = [file for file in manifest.files if file.last >= first]
    behind = max(state.last_sequence + 1 - max(end, first), 0)
    rows = sum(_rows_from(writer, file, first) for file in common)
    if state.messages == rows + behind:
        return 0
    dead: list[tuple[DataFile, Ranges]] = []
    for file in common:
        gone = gone_from(source, file, sequences_of(writer.store, file))
        if len(gone):
            dead.append((file, as_ranges(gone)))
    if not dead:
        return 0
    # What the limits took while this read is not deleted, and a stream that was made again has none of them.
    now = _state(source, manifest)
    removed = 0
    for file, ranges in dead:
        behind_front = tuple(
            (max(low, now.first_sequence), high) for low, high in ranges if high >= now.first_sequence
        )
        removed += remove_rows(writer, behind_front, [file], limits)
    return removed


def _rows_from(writer: TableWriter, file: DataFile, first: int) -> int:
    if file.first >= first:
        return file.rows
    return int((sequences_of(writer.store, file) >= first).sum())


def gone_from(source: SegmentSource, file: DataFile, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Sequences of a file that the stream no longer has; one that it cannot read any more is not gone."""
    gone = np.ones(len(rows), dtype=bool)
    for batch in source.present(file.first, file.last + 1):
        present = np.asarray(batch.sequences, dtype=np.int64)
        gone &= ~np.isin(rows, present, assume_unique=True)
        for low, high in batch.damaged:
            gone[np.searchsorted(rows, low) : np.searchsorted(rows, high, "right")] = False
    return rows[gone]


def as_ranges(sequences: np.ndarray[Any, Any]) -> Ranges:
    """Ascending sequences as ranges with both ends."""
    if not len(sequences):
        return ()
    breaks = np.flatnonzero(np.diff(sequences) > 1)
    lows = np.concatenate(([sequences[0]], sequences[breaks + 1]))
    highs = np.concatenate((sequences[breaks], [sequences[-1]]))
    return tuple((int(low), int(high)) for low, high in zip(lows, highs, strict=True))
