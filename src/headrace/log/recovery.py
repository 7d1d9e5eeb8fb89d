"""Opening a log: what is in its directory, what of it can be read, and what is left.

Here live the reading of a whole log and the choice between that and a checkpoint. Never here: appending,
limits. A start is refused only when the directory itself cannot be read or a key is missing.

Segments are read from the newest to the oldest: a record of removals is always behind what it removes, so
when a segment is counted, everything that was removed from it is known. Each is read twice, in memory: first
for removals, then for the census. Behind the last valid record of the last segment is a write that was cut
off, or room that was reserved: it is cut away. What is unreadable anywhere else is damage, reported by
sequence.

From a checkpoint, only what came after it is read, and of what that removed, the blocks of 64 KB it lies in:
the table of subjects must know whose messages they were. Where that cannot be found, everything is read.

A segment that is missing is damage, unless a record says that it was taken away. A segment that such a record
names and that is still there does not count: its unlinking did not come to the disk.

What a checkpoint says was synced when it was written, so a last segment that ends before it lost
acknowledged messages: they are reported too, and their sequences never given again.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from headrace.engine.records import HEADER_BYTES as RECORD_HEADER_BYTES
from headrace.engine.sequence_set import SequenceSet
from headrace.errors import StorageError
from headrace.log.checkpoint_recovery import CheckpointRecovery
from headrace.log.filesystem import DRAFT, FileMode, read_file, storage_errors
from headrace.log.index import SPACING, SparseIndex
from headrace.log.ledger import Checkpoint, Ledger, SegmentEntry
from headrace.log.outline import Outline
from headrace.log.port import PLAIN, Weights
from headrace.log.segment import (
    BEGINNING,
    CEILING,
    HEADER_BYTES,
    INDEX_SUFFIX,
    PACKED,
    SEALED,
    Header,
    Segment,
    base_of,
    cut_bytes,
    is_header_record,
    load_packed,
    read_records,
    segment_path,
)

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.log.encryption import Cipher
    from headrace.log.filesystem import FileSystem
    from headrace.log.packing import Packed

CHECKPOINT: Final = "checkpoint"
DAMAGED_BODY: Final = "its record on disk is damaged"


class Found(Struct):
    """A log as it was found."""

    ledger: Ledger
    segments: list[Segment] = field(default_factory=list)
    damaged: list[tuple[int, int]] = field(default_factory=list)
    obsolete: list[Path] = field(default_factory=list)
    """Files whose every message is gone, and what a crash left half done."""
    headless: list[Segment] = field(default_factory=list)
    """Segments whose header is damaged and known from elsewhere."""
    links: dict[int, int] = field(default_factory=dict)
    """The base of each segment that was taken away, with that of the one before it, as records say."""
    cut_bytes: int = 0
    """Bytes that were cut away behind the last valid record, without the zeros of reserved room."""
    from_checkpoint: bool = False
    read_bytes: int = 0
    """Bytes of records that had to be read for their contents."""


class LogRecovery:
    """Reads a directory once."""

    def __init__(
        self,
        directory: Path,
        filesystem: FileSystem,
        cipher: Cipher | None = None,
        weights: Weights | None = None,
    ) -> None:
        """Prepare the recovery of the log in a directory. `weights` None: whatever it was counted with."""
        self._directory = directory
        self._weights = weights
        self._fs = filesystem
        self._cipher = cipher

    def run(self, *, from_disk: bool = False) -> Found:
        """Read the log; return what was found.

        `from_disk`: what a process left that did not close the log is not taken for durable; this writes.

        Raises StorageError when the directory cannot be read, or the log is sealed and there is no key.
        """
        with storage_errors(f"cannot read the log in {self._directory.name}"):
            if from_disk:
                self._read_from_disk()
            saved = self._checkpoint()
            found = self._list(saved)
            if saved is not None and self._fits(saved, found):
                found.from_checkpoint = CheckpointRecovery(self._fs, self._cipher, saved, found).run()
            if not found.from_checkpoint:
                found = self._list(saved)
                self._count_all(found, saved)
            return found

    def _read_from_disk(self) -> None:
        """Sees to it that the newest segment is read as the disk has it; those before it were synced.

        A process may have ended after a sync that failed: the system shows what was written, takes it for
        clean, and never writes it. What came behind it would be durable, with a hole in front of it.
        """
        bases = [one for name in self._fs.listdir(self._directory) if (one := base_of(name)) is not None]
        if not bases:
            return
        handle = self._fs.open(segment_path(self._directory, max(bases)), FileMode.UPDATE)
        try:
            self._fs.fdatasync(handle)
            self._fs.forget_read(handle)
        finally:
            self._fs.close(handle)

    def without_header(self, base: int) -> Segment | None:
        """A segment whose header is damaged in both places, as far as it can be told. Raises: OSError."""
        path = segment_path(self._directory, base)
        bases = [one for name in self._fs.listdir(self._directory) if (one := base_of(name)) is not None]
        size, _ = self._head(path)
        previous = max((one for one in bases if one < base), default=0)
        header = self._header_of(path, base, size, previous, self._checkpoint())
        return None if header is None else Segment(path, header, size)

    # ---- what is there ----------------------------------------------------------------------

    def _list(self, saved: Checkpoint | None) -> Found:
        """The segments by their headers; one whose header is nowhere to be read is damage as a whole."""
        found = Found(Ledger())
        names = self._fs.listdir(self._directory)
        found.obsolete = [self._directory / name for name in names if name.endswith(DRAFT)]
        bases = sorted(base for name in names if (base := base_of(name)) is not None)
        headless: list[tuple[int, int]] = []
        for base in bases:
            path = segment_path(self._directory, base)
            size, start = self._head(path)
            header = Header.read(start)
            if header is None and base == bases[-1] and self._is_unwritten(path, size, start):
                found.obsolete.append(path)
                continue
            is_whole = Header.unpack(start) is not None
            if header is None or header.base != base:
                is_whole = False
                header = self._header_of(
                    path, base, size, found.segments[-1].base if found.segments else 0, saved
                )
            if header is not None:
                self._check_key(path, header)
                segment = self._segment(path, header, size)
                found.segments.append(segment)
                found.headless += [] if is_whole else [segment]
            else:
                headless.append((base, base + max(size - HEADER_BYTES, 0) // RECORD_HEADER_BYTES))
        self._judge_headless(headless, found)
        return found

    def _segment(self, path: Path, header: Header, size: int) -> Segment:
        segment = Segment(path, header, size, self._weights or PLAIN)
        if header.is_packed:
            segment.packed = self._packed(path, header)
            segment.size = HEADER_BYTES + (segment.packed.size if segment.packed is not None else 0)
        return segment

    def _packed(self, path: Path, header: Header) -> Packed | None:
        handle = self._fs.open(path, FileMode.READ)
        try:
            return load_packed(self._fs, handle, header, self._cipher)
        finally:
            self._fs.close(handle)

    def _check_key(self, path: Path, header: Header) -> None:
        if not header.flags & SEALED:
            return
        if self._cipher is None:
            raise StorageError(f"{path.name} is encrypted, and no key was given")
        if self._cipher.segment(header.salt, header.base).check != header.check:
            raise StorageError(f"{path.name} is encrypted with another key or algorithm")

    def _head(self, path: Path) -> tuple[int, bytes]:
        """The size of a segment's file, and what it begins with."""
        handle = self._fs.open(path, FileMode.READ)
        try:
            return self._fs.size(handle), self._fs.pread(handle, BEGINNING, 0)
        finally:
            self._fs.close(handle)

    def _is_unwritten(self, path: Path, size: int, start: bytes) -> bool:
        """True if a segment was created and nothing was written to it: at most a part of its first write, or
        reserved room, is on disk.
        """
        if size <= HEADER_BYTES or not read_file(self._fs, path).strip(b"\0"):
            return True
        return size <= BEGINNING and is_header_record(start[HEADER_BYTES:])

    def _header_of(
        self, path: Path, base: int, size: int, previous: int, saved: Checkpoint | None
    ) -> Header | None:
        """A header that is damaged in both places, as far as the records need it: the salt is in the index,
        and of the segment that was the last one, in the checkpoint. None: nor there, or no record fits it.
        """
        salt = saved.salt if saved is not None and saved.base == base else self._indexed_salt(path, base)
        if salt is None:
            return None
        header = Header(salt, base, 0, 0, previous)
        segment = Segment(path, header, size, packed=self._packed(path, header))
        found: list[Outline] = []
        scan = segment.scan(base, CEILING, 0, None)
        data = read_records(self._fs, segment)
        scan.outline(data, True, Outline, 0, CEILING, None, SequenceSet(), 0, found, 1)
        if not found:
            return None
        flags, check = PACKED if segment.packed is not None else 0, bytes(8)
        if scan.has_sealed:
            flags |= SEALED
            check = self._cipher.segment(salt, base).check if self._cipher is not None else check
        return Header(salt, base, found[0].time_ns, 0, header.previous, flags, check)

    def _indexed_salt(self, path: Path, base: int) -> int | None:
        try:
            data = read_file(self._fs, path.with_suffix(INDEX_SUFFIX))
        except FileNotFoundError:
            return None
        return SparseIndex.salt_of(data, base)

    def _judge_headless(self, headless: list[tuple[int, int]], found: Found) -> None:
        """Sequences in a segment without a header, or in one that is not there, are lost."""
        bases = [segment.base for segment in found.segments]
        for base, most in headless:
            following = next((b for b in bases if b > base), most + 1)
            found.damaged.append((base, min(most, following - 1)))
            if following == most + 1:
                found.ledger.last_sequence = max(found.ledger.last_sequence, most)

    def _checkpoint(self) -> Checkpoint | None:
        try:
            data: bytes | None = read_file(self._fs, self._directory / CHECKPOINT)
            if self._cipher is not None and data is not None:
                data = self._cipher.checkpoint().open(data, b"")
            return Checkpoint(data or b"")
        except (FileNotFoundError, ValueError):
            return None

    # ---- everything -------------------------------------------------------------------------

    def _count_all(self, found: Found, saved: Checkpoint | None) -> None:
        ledger = found.ledger
        widest = sum(segment.size for segment in found.segments) // RECORD_HEADER_BYTES + 1
        for segment in found.segments:
            ledger.raise_floor(segment.header.floor)
        ceiling = CEILING
        newest = True
        for segment in reversed(found.segments):
            if (ceiling <= ledger.floor and not newest) or segment.base in found.links:
                found.obsolete.append(segment.path)
            else:
                self._count(segment, ceiling, newest, widest, found)
            ceiling = segment.base
            newest = False
        found.segments = [s for s in found.segments if s.path not in found.obsolete]
        self._note_lost(found, saved)
        found.damaged = ledger.add_unreadable(found.damaged)
        ledger.noted()

    def _count(self, segment: Segment, ceiling: int, newest: bool, widest: int, found: Found) -> None:
        ledger = found.ledger
        data = read_records(self._fs, segment)
        found.read_bytes += len(data)
        scan = segment.scan(segment.base, ceiling, 0, self._cipher)
        scan.removals(data, True, ledger.removed, widest)
        if newest and scan.bad_from is not None:
            found.cut_bytes = cut_bytes(data, scan.bad_from)
            data = data[: scan.bad_from]
            segment.size = HEADER_BYTES + len(data)
        if newest:
            ledger.last_sequence = max(ledger.last_sequence, scan.settled - 1)
        else:
            scan.finish()
        ledger.last_time = max(ledger.last_time, scan.last_time, segment.header.last_time)
        ledger.raise_floor(scan.floor)
        found.damaged += scan.damaged
        segment.last = ceiling - 1 if scan.damaged else scan.settled - 1
        for base, other in scan.segments:
            if other < base:
                found.links[base] = other
            elif base == segment.base:
                segment.compacted_at = other
        scan = segment.scan(segment.base, ceiling, 0, self._cipher)
        marks = scan.census(
            data, True, ledger.table, ledger.removed, ledger.floor, segment.index.marked, SPACING
        )
        segment.index.add(marks, scan.expiry)
        ledger.count(scan, segment.base)

    def _note_lost(self, found: Found, saved: Checkpoint | None) -> None:
        """Sequences that a segment or a checkpoint tells of and no record."""
        ledger, links = found.ledger, found.links
        for before, after in pairwise(found.segments):
            previous, end = after.header.previous, after.base - 1
            while previous > before.base and previous in links:
                end, previous = previous - 1, links[previous]
            if previous > before.base:
                found.damaged.append((previous, end))
            elif after.header.previous == before.base:
                before.last = after.base - 1
        if saved is None or not any(s.salt == saved.salt and s.base == saved.base for s in found.segments):
            return
        if saved.ledger.last_sequence > ledger.last_sequence:
            found.damaged.append((ledger.last_sequence + 1, saved.ledger.last_sequence))
            ledger.last_sequence = saved.ledger.last_sequence
            ledger.last_time = max(ledger.last_time, saved.ledger.last_time)

    # ---- from a checkpoint ------------------------------------------------------------------

    def _fits(self, saved: Checkpoint, found: Found) -> bool:
        """True if a checkpoint belongs to these segments, and none is missing or shorter than it says."""
        here = {segment.base: segment for segment in found.segments}
        last = here.get(saved.base)
        if found.damaged or last is None or last.salt != saved.salt:
            return False
        if self._weights is not None and saved.weights != self._weights:
            return False  # it was another's, who counted otherwise
        if last.size < HEADER_BYTES + saved.offset:
            return False
        return all(base in here and here[base].size >= entry.size for base, entry in saved.segments.items())


def encode_checkpoint(
    ledger: Ledger, entries: list[SegmentEntry], active: Segment, cipher: Cipher | None
) -> bytes:
    """The checkpoint of a log at the end of its last segment. Removals must be written by now."""
    data = ledger.dump(active.salt, active.base, active.size - HEADER_BYTES, entries, active.weights)
    return data if cipher is None else cipher.checkpoint().seal(data, b"")
