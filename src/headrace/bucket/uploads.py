"""The ranges of files that a snapshot stores, and the objects that it makes of them.

Stored is what only the write-ahead log holds. Besides, so that a file is not in ever more pieces: `MERGED`
neighbours of one size class are stored once more as one (each byte so at most once for each class, of which
there are few), and what is left of objects that are mostly dead. Never here: reading bytes, requests.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from headrace.bucket.changes import FileExtent
    from headrace.bucket.ranges import Ranges

LARGEST: Final = 16 << 20
"""Bytes of an object at most: an upload is in memory, and several are under way."""
ALONE: Final = 1 << 20
"""A range of so many bytes is an object of its own."""
SHARED: Final = 4 << 20
"""An object of smaller ranges is full at so many bytes."""
MOST_RANGES: Final = 256
"""An object of smaller ranges is full at so many: the files of all are open at once."""
MERGED: Final = 8
"""The neighbours of one size class that become one."""
_SMALLEST_CLASS: Final = 64 << 10


class FileSpan(Struct, frozen=True):
    """The bytes [start, end) of a file."""

    file: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def spans_to_store(
    file: int, extents: Sequence[FileExtent], unsaved: Ranges, dying: Collection[str]
) -> list[FileSpan]:
    """Return what a snapshot stores of a file. `unsaved`: bytes that only the WAL has; `dying`: objects that
    are mostly dead.
    """
    runs = list(_runs(extents, unsaved, dying))
    merged: list[_Run] = []
    for run in runs:
        merged.append(run)
        while _can_merge(merged):
            tail = merged[-MERGED:]
            merged[-MERGED:] = [_Run(tail[0].start, tail[-1].end, None)]
    return [FileSpan(file, run.start, run.end) for run in _joined(merged)]


class _Run(Struct):
    """Bytes of a file that follow each other in one object; `object` None: they are to be stored."""

    start: int
    end: int
    object: str | None

    @property
    def size_class(self) -> int:
        """The power of eight that its size reaches; -1: it is as large as objects get."""
        size = self.end - self.start
        if size >= LARGEST // 2:
            return -1
        return max(size // _SMALLEST_CLASS, 1).bit_length() // 3


def _can_merge(runs: list[_Run]) -> bool:
    tail = runs[-MERGED:]
    if len(tail) < MERGED or tail[-1].size_class < 0:
        return False
    return all(
        one.end == following.start and one.size_class == following.size_class
        for one, following in pairwise(tail)
    )


def _runs(extents: Sequence[FileExtent], unsaved: Ranges, dying: Collection[str]) -> Iterator[_Run]:
    """The pieces that a file is in, ascending: those to be stored anew, and those that lie in objects."""
    found: list[_Run] = [_Run(start, end, None) for start, end in unsaved]
    last: _Run | None = None
    end_in_object = 0
    for extent in extents:
        offset = extent.offset + extent.skip
        for start, end in unsaved.missing(extent.start, extent.end):
            here = offset + start - extent.start
            name = None if extent.object in dying else extent.object
            if last is not None and name == last.object and start == last.end and here == end_in_object:
                last.end = end
            else:
                last = _Run(start, end, name)
                found.append(last)
            end_in_object = here + end - start
    found.sort(key=lambda run: run.start)
    yield from found


def _joined(runs: Iterable[_Run]) -> Iterator[_Run]:
    """The runs to be stored; those that touch each other as one."""
    last: _Run | None = None
    for run in runs:
        if run.object is not None:
            continue
        if last is not None and last.end == run.start:
            last.end = run.end
            continue
        if last is not None:
            yield last
        last = _Run(run.start, run.end, None)
    if last is not None:
        yield last


def grouped(spans: Iterable[FileSpan]) -> Iterator[list[FileSpan]]:
    """Yield the spans of one object after the other: a large one alone, small ones together."""
    shared: list[FileSpan] = []
    size = 0
    for span in spans:
        for piece in _cut(span):
            if piece.size >= ALONE:
                yield [piece]
                continue
            shared.append(piece)
            size += piece.size
            if size >= SHARED or len(shared) >= MOST_RANGES:
                yield shared
                shared, size = [], 0
    if shared:
        yield shared


def _cut(span: FileSpan) -> Iterator[FileSpan]:
    """Cut a span where a multiple of an object's size is in its file."""
    start = span.start
    while start < span.end:
        end = min((start // LARGEST + 1) * LARGEST, span.end)
        yield FileSpan(span.file, start, end)
        start = end
