"""Taking rows out of files, and few large files out of many small ones.

Both write new files, commit, and only then take the old ones away; a crash in between leaves the table as it
was or as it shall be. A file that lost rows is removed at once, since they are to be gone; one that was only
merged stays aside for readers that began earlier, until `TableWriter.vacuum`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from headrace.tables.columns import layout_of
from headrace.tables.files import FileLimits, FileWriter, read
from headrace.tables.manifest import add_ranges
from headrace.tables.payload_columns import PayloadColumns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.tables.manifest import DataFile, Ranges
    from headrace.tables.table import TableWriter

    Progress = Callable[[int, int], object]
    """Told of bytes done and bytes in all."""

TAIL_FILES: Final = 16
"""The number of small files at the end of a table that `merge_tail` merges."""
SMALL_SHARE: Final = 2
"""A file below one part in so many of the size wanted is worth merging."""


def _silent(_done: int, _all: int) -> None:
    """Report no progress."""


def remove_rows(
    writer: TableWriter,
    ranges: Ranges,
    files: Sequence[DataFile] | None = None,
    limits: FileLimits | None = None,
) -> int:
    """Take the rows with these sequences out, for good; return their number.

    `files`: those that can have them (else: all). Raises: TableConflict, StoreError, TableDamaged.
    """
    limits = limits or FileLimits()
    ranges = add_ranges(ranges, ())
    removed = 0
    for file in writer.table.manifest().files if files is None else files:
        inside = [(low, high) for low, high in ranges if low <= file.last and high >= file.first]
        if not inside:
            continue
        if any(low <= file.first and high >= file.last for low, high in inside):
            writer.swap([file], [], erase=True)
            removed += file.rows
            continue
        made, lost = copy_without(writer, [file], limits, tuple(inside))
        if not lost:
            if made is not None:
                writer.store.delete(made.path)
            continue
        writer.swap([file], [made] if made else [], erase=True)
        removed += lost
    return removed


def compact(
    writer: TableWriter, limits: FileLimits | None = None, progress: Progress = _silent
) -> tuple[int, int]:
    """Merge small neighbours; return how many files were merged, and into how many.

    Raises: TableConflict, StoreError, TableDamaged, TableMissing.
    """
    limits = limits or FileLimits()
    groups = small_neighbours(writer.table.manifest().files, limits.file_bytes)
    total, done = sum(file.bytes for group in groups for file in group), 0
    for group in groups:
        progress(done, total)
        _merge(writer, group, limits)
        done += sum(file.bytes for file in group)
    progress(done, total)
    return sum(map(len, groups)), len(groups)


def merge_tail(writer: TableWriter, limits: FileLimits | None = None) -> int:
    """Merge the newest small files once there are many of them; return their number. For after each of many
    runs.

    A file goes in only with as many bytes of newer ones behind it, so how often a row is written again grows
    with the logarithm of a file's size, however little each run adds.

    Raises: as `compact`.
    """
    limits = limits or FileLimits()
    group = newest_to_merge(writer.table.manifest().files, limits.file_bytes)
    if group:
        _merge(writer, group, limits)
    return len(group)


def newest_to_merge(files: Sequence[DataFile], size: int) -> list[DataFile]:
    """The newest files that are small, if they are `TAIL_FILES`; the first is no larger than the rest."""
    group: list[DataFile] = []
    room = size
    for file in reversed(files):
        if file.bytes * SMALL_SHARE > size or file.bytes > room:
            break
        group.insert(0, file)
        room -= file.bytes
    while group and group[0].bytes > sum(file.bytes for file in group[1:]):
        del group[0]
    return group if len(group) >= TAIL_FILES else []


def small_neighbours(files: Sequence[DataFile], size: int) -> list[list[DataFile]]:
    """Groups of two and more neighbours, none of them large, that together come to `size` at most."""
    groups: list[list[DataFile]] = [[]]
    room = size
    for file in files:
        is_small = file.bytes * SMALL_SHARE <= size
        if not is_small or file.bytes > room:
            groups.append([])
            room = size
        if is_small:
            groups[-1].append(file)
            room -= file.bytes
    return [group for group in groups if len(group) > 1]


def _merge(writer: TableWriter, group: Sequence[DataFile], limits: FileLimits) -> None:
    """A group becomes one file, however large."""
    made, _ = copy_without(writer, group, replace(limits, file_bytes=1 << 62), ())
    assert made is not None
    writer.swap(group, [made], erase=False)


def copy_without(
    writer: TableWriter,
    files: Sequence[DataFile],
    limits: FileLimits,
    left_out: Ranges,
) -> tuple[DataFile | None, int]:
    """One new file with the rows of `files` but those in `left_out`, and how many those were.

    None: no row is left. Raises: StoreError, TableDamaged.
    """
    manifest = writer.table.manifest()
    schema, columns = layout_of(manifest).schema, PayloadColumns(manifest)
    target = FileWriter(writer.store, limits, columns.schema)
    lost = 0
    try:
        for file in files:
            for batch in read(writer.store, file, schema=schema):
                kept = _without(batch, left_out)
                lost += batch.num_rows - kept.num_rows
                target.write(columns.add(kept))
        return target.finish(), lost
    finally:
        target.abort()


def _without(batch: pa.RecordBatch, ranges: Ranges) -> pa.RecordBatch:
    if not ranges:
        return batch
    sequences = batch.column("sequence").to_numpy()
    edges = np.asarray(ranges, dtype=np.int64)  # there may be a million, so no loop over them
    place = np.searchsorted(edges[:, 0], sequences, "right") - 1
    keep = (place < 0) | (sequences > edges[place, 1])
    return batch if keep.all() else batch.filter(pa.array(keep))
