"""A log read from its files while another process writes it: nothing is locked, changed or repaired.

Here live `LogView`, which looks once at what is there, and `read_slice`, which reads a part of that, anywhere
the files can be seen. Never here: anything that writes, or waits for more to come.

A view ends at the last whole record of the moment it was made. What is in the newest segment may not be
durable yet: after a power loss of the machine that writes, other messages may get the same sequences.
Everything before `sealed_end` is durable (unless the log is never synced). A segment that was removed since
is `LogGone`, and so is one of a log that was deleted and made again: each carries a random salt. One that
was rewritten without its dead messages keeps its salt: it is read from its beginning.

Messages that are deleted after the view was made may still be read; their bytes, if they were erased, not.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from headrace.engine.messages import StoredMessages
from headrace.engine.sequence_set import SequenceSet
from headrace.errors import LogGone, StorageError
from headrace.log.filesystem import FileMode, RealFileSystem, storage_errors
from headrace.log.port import StoredMessage
from headrace.log.recovery import LogRecovery
from headrace.log.segment import BEGINNING, CEILING, HEADER_BYTES, Header, Segment, load_packed, read_span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from headrace.engine.records import Scan
    from headrace.log.encryption import Cipher
    from headrace.log.filesystem import FileSystem
    from headrace.log.recovery import Found

WINDOW: Final = 4 << 20
"""Bytes of records read at once, but for a longer record: about so much is in one step of `read_slice`. Spark
takes few large batches better than many small ones; beyond this the processor's caches do not.
"""
ATTEMPTS: Final = 8
"""The number of times a view begins again because a segment was removed meanwhile."""
_NO_LIMIT: Final = (1 << 62) - 1
_MARKER_BYTES: Final = 64
_MARKER_KIND: Final = 5
"""A segment that was rewritten begins with a record of this kind, never overwritten, of so many bytes."""


class SegmentPart(Struct, frozen=True):
    """The part of one segment whose records are read."""

    path: Path
    header: Header
    marker: bytes
    """The segment's mark of its last compaction; empty: it never was compacted."""
    offset: int
    """The offset from the first record."""
    size: int
    """Bytes of the file as far as the view saw whole records."""
    expected: int
    """The sequence that comes next at the offset if none is missing."""
    ceiling: int
    stop: int
    """The offset from the first record behind what is wanted, by the index: no more is read."""

    def reads(self) -> list[tuple[int, int]] | None:
        """The spans of bytes of the file that are read, as long as it is as it was; None: any may be."""
        if self.header.is_packed:
            return None
        return [(0, BEGINNING + _MARKER_BYTES), (HEADER_BYTES + self.offset, HEADER_BYTES + self.stop)]


class ViewSlice(Struct, frozen=True):
    """The sequences [first, end) of a view, and where they are. Can be pickled."""

    first: int
    end: int
    size: int
    """About the bytes of records that reading it looks at."""
    pieces: tuple[SegmentPart, ...]
    removed: bytes
    """Sequences that are not there any more: `SequenceSet.dump`."""


class LogView:
    """A view of the log in a directory, as it is now.

    Raises: StorageError when it cannot be read, or is encrypted and `cipher` is not its key; LogGone when
    it is not there.
    """

    def __init__(
        self, directory: Path, *, filesystem: FileSystem | None = None, cipher: Cipher | None = None
    ) -> None:
        self._fs: Final[FileSystem] = filesystem if filesystem is not None else RealFileSystem()
        self._cipher: Final = cipher
        found = _look(directory, self._fs, cipher)
        self._segments: Final = found.segments
        self._removed: Final = found.ledger.removed.dump()
        self.first_sequence: Final = min(found.ledger.floor, found.ledger.last_sequence + 1)
        """The first sequence: every message below is removed."""
        self.last_sequence: Final = found.ledger.last_sequence
        self.damaged: Final = sorted(found.ledger.unreadable)
        """Ranges of sequences, both ends included, found unreadable; not all that are."""

    @property
    def sealed_end(self) -> int:
        """The first sequence of the newest segment: what is below does not grow any more."""
        return self._segments[-1].base if self._segments else self.last_sequence + 1

    @property
    def sealed_time_ns(self) -> int:
        """The time of the last message below `sealed_end`, removed or not; 0: there was none."""
        return self._segments[-1].header.last_time if self._segments else 0

    def slices(self, first: int, end: int, count: int) -> list[ViewSlice]:
        """[first, end) in up to `count` parts of about equal bytes, cut where an index has a mark.

        Raises: LogGone, StorageError.
        """
        cuts = self.cuts(first, end, count)
        return [self._slice(a, b) for a, b in pairwise(cuts)]

    def bytes_of(self, first: int, end: int) -> int:
        """About the bytes of records that reading [first, end) looks at."""
        first, end = max(first, self.first_sequence), min(end, self.last_sequence + 1)
        return self._marks(first, end)[-1][1] if first < end else 0

    def cuts(self, first: int, end: int, count: int) -> list[int]:
        """The sequences at which [first, end) is cut into up to `count` parts of about equal bytes, both ends
        included; none where nothing is there.
        """
        first, end = max(first, self.first_sequence), min(end, self.last_sequence + 1)
        if first >= end:
            return []
        marks = self._marks(first, end)
        total = marks[-1][1] if marks else 0
        cuts = [first]
        for number in range(1, count):
            place = bisect_left(marks, total * number // count, key=lambda mark: mark[1])
            if place < len(marks) and cuts[-1] < marks[place][0] < end:
                cuts.append(marks[place][0])
        return [*cuts, end]

    def _marks(self, first: int, end: int) -> list[tuple[int, int]]:
        """Places to cut: (sequence, bytes of records before it), and the end."""
        marks: list[tuple[int, int]] = []
        before = 0
        for segment, ceiling in self._within(first, end):
            inside = [(segment.base, 0), *zip(segment.index.sequences, segment.index.offsets, strict=True)]
            start = max((offset for sequence, offset in inside if sequence <= first), default=0)
            stop = self._stop(segment, end)
            marks += [
                (sequence, before + offset - start) for sequence, offset in inside if first < sequence < end
            ]
            before += max(stop - start, 0)
            if ceiling >= end:
                break
        return [*marks, (end, before)]

    def _stop(self, segment: Segment, end: int) -> int:
        """The offset from which on no record of a segment has a sequence below `end`, by its index."""
        place = bisect_left(segment.index.sequences, end)
        offsets = segment.index.offsets
        return offsets[place] if place < len(offsets) else segment.size - HEADER_BYTES

    def _within(self, first: int, end: int) -> Iterator[tuple[Segment, int]]:
        """Segments that may hold some of [first, end), each with the base of the next."""
        ceilings = [segment.base for segment in self._segments[1:]] + [CEILING]
        for segment, ceiling in zip(self._segments, ceilings, strict=False):  # no segment has no ceiling
            if ceiling > first and segment.base < end:
                yield segment, ceiling

    def _slice(self, first: int, end: int) -> ViewSlice:
        pieces = []
        for segment, ceiling in self._within(first, end):
            offset, expected = segment.index.before_sequence(first)
            expected = max(expected, segment.base)
            handle = _open(self._fs, segment.path)
            try:
                _, marker = _beginning(self._fs, handle, self._cipher)
            finally:
                self._fs.close(handle)
            span = (offset, segment.size, expected, ceiling, self._stop(segment, end))
            pieces.append(SegmentPart(segment.path, segment.header, marker, *span))
        size = self._marks(first, end)[-1][1]
        return ViewSlice(first, end, size, tuple(pieces), self._removed)


def _open(filesystem: FileSystem, path: Path) -> int:
    with storage_errors(f"cannot read {path.name}"):
        try:
            return filesystem.open(path, FileMode.READ)
        except FileNotFoundError as error:
            raise LogGone(f"{path.name} is not there any more") from error


def _beginning(filesystem: FileSystem, handle: int, cipher: Cipher | None) -> tuple[Header | None, bytes]:
    """The header of a segment, and what it says about its last rewriting. Raises: OSError."""
    data = filesystem.pread(handle, BEGINNING + _MARKER_BYTES, 0)
    header = Header.read(data)
    if header is not None and header.is_packed:
        packed = load_packed(filesystem, handle, header, cipher)
        if packed is not None:
            data = data[:HEADER_BYTES] + packed.read(
                filesystem, handle, BEGINNING - HEADER_BYTES + _MARKER_BYTES, 0
            )
    at = BEGINNING if header is not None and data[HEADER_BYTES:BEGINNING] == header.again() else HEADER_BYTES
    first = data[at : at + _MARKER_BYTES]
    is_compacted = len(first) == _MARKER_BYTES and first[9] == _MARKER_KIND
    return header, first if is_compacted else b""


def _look(directory: Path, filesystem: FileSystem, cipher: Cipher | None) -> Found:
    """Find what recovery would find, and change nothing. Raises: StorageError, LogGone."""
    for _ in range(ATTEMPTS):
        try:
            return LogRecovery(directory, filesystem, cipher).run()
        except StorageError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            if not filesystem.is_directory(directory):
                raise LogGone(f"there is no log in {directory}") from error
    raise StorageError(f"{directory}: segments are removed faster than they can be looked at")


def read_slice(
    wanted: ViewSlice,
    *,
    filesystem: FileSystem | None = None,
    cipher: Cipher | None = None,
    filters: Sequence[bytes] = (),
) -> Iterator[tuple[StoredMessages[StoredMessage], list[tuple[int, int]]]]:
    """The messages of a slice in order, about `WINDOW` bytes at a time, each with ranges that are unreadable;
    with `filters` those of which the subject matches one of them.

    Raises: LogGone when a segment is not there any more; StorageError.
    """
    files = filesystem if filesystem is not None else RealFileSystem()
    removed = SequenceSet()
    removed.load(wanted.removed)
    for piece in wanted.pieces:
        reading = _Reading(piece, wanted, removed, files, cipher, filters=list(filters) or None)
        damaged: list[tuple[int, int]] = []
        for messages, found in reading.run():
            damaged += found
            if len(messages):
                yield messages, []
        if damaged:  # an erasure in place may have been under way: what is damaged stays so
            again = [both for _, found in reading.run() for both in found]
            yield StoredMessages(StoredMessage), [both for both in damaged if both in again]


class _Reading:
    """One piece, from its first byte to its last as often as it is run."""

    def __init__(
        self,
        piece: SegmentPart,
        wanted: ViewSlice,
        removed: SequenceSet,
        files: FileSystem,
        cipher: Cipher | None,
        *,
        filters: list[bytes] | None,
    ) -> None:
        self._filters = filters
        self._piece = piece
        self._wanted = wanted
        self._removed = removed
        self._files = files
        self._cipher = cipher

    def run(self) -> Iterator[tuple[StoredMessages[StoredMessage], list[tuple[int, int]]]]:
        piece = self._piece
        handle = _open(self._files, piece.path)
        with storage_errors(f"cannot read {piece.path.name}"):
            try:
                header, marker = _beginning(self._files, handle, self._cipher)
                if header is not None and header.salt != piece.header.salt:
                    raise LogGone(f"{piece.path.name} is another one now")
                here = header or piece.header
                packed = load_packed(self._files, handle, here, self._cipher) if here.is_packed else None
                if marker != piece.marker:  # its records are elsewhere in it; it does not grow any more
                    size = self._files.size(handle) if packed is None else HEADER_BYTES + packed.size
                    base = piece.header.base
                    piece = replace(piece, offset=0, size=size, expected=base, stop=size - HEADER_BYTES)
                yield from self._records(handle, piece, Segment(piece.path, here, piece.size, packed=packed))
            finally:
                self._files.close(handle)

    def _records(
        self, handle: int, piece: SegmentPart, segment: Segment
    ) -> Iterator[tuple[StoredMessages[StoredMessage], list[tuple[int, int]]]]:
        end = piece.stop
        scan = segment.scan(piece.expected, piece.ceiling, piece.offset, self._cipher)
        offset = piece.offset
        while offset < end:
            size = min(max(WINDOW, scan.need), end - offset)
            data = read_span(self._files, handle, segment, size, offset)
            if len(data) < size:
                raise LogGone(f"{piece.path.name} is shorter than it was")
            final = offset + size >= end
            messages, stopped = self._step(scan, data, final)
            offset = scan.base + scan.at
            if final and not stopped:
                scan.finish()
            yield messages, self._damage(scan)
            if final or stopped:
                return

    def _step(self, scan: Scan, data: bytes, final: bool) -> tuple[StoredMessages[StoredMessage], bool]:
        wanted = self._wanted
        messages = StoredMessages(StoredMessage)
        left = scan.messages_in(
            data,
            final,
            wanted.first,
            wanted.end - 1,
            self._filters,
            self._removed,
            0,
            messages,
            _NO_LIMIT,
            _NO_LIMIT,
        )
        return messages, left < 0

    def _damage(self, scan: Scan) -> list[tuple[int, int]]:
        """Return the damage that the scan has found since the last call, within the wanted span."""
        found, scan.damaged = scan.damaged, []
        first, last = self._wanted.first, self._wanted.end - 1
        return [(max(a, first), min(b, last)) for a, b in found if a <= last and b >= first]
