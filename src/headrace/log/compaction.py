"""Compaction: a segment that is mostly dead is rewritten without the messages that were removed from it.

Here lives the choice of a segment and its rewriting, a slice at a time on the owner's thread. Never here:
what is live (`ledger`), when files are durable (`segments`).

1. Slices of the segment are read, and the records of live messages written to `<base>.log.new` as they are:
   same salt, same key, same times and links. A message that is removed meanwhile may be in the copy; the
   record that removes it comes later in the log.
2. Behind them come the records of removals that are still needed: those about messages in earlier segments
   whose records are still on disk. In front stands which segment was the last one when the copy was begun:
   what records in earlier ones say about this one is done, and they can be dropped in turn.
3. The copy, the log and a checkpoint that counts on neither file are made durable by the next `sync`.
4. The copy is renamed over the segment, which is one step for a crash and for readers.

If no message and no such record is left, there is no copy: the log says that the segment is taken away, so
that the hole is not taken for damage, and the file is unlinked. Whatever fails on the way costs only room.
What a crash leaves behind (`.new`) is unlinked at the next start.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from headrace.engine.records import encode_removal, encode_segments
from headrace.engine.sequence_set import SequenceSet
from headrace.engine.subject_index import SubjectIndex
from headrace.errors import StorageError
from headrace.log.filesystem import DRAFT, FileMode, write_all
from headrace.log.index import SPACING, SparseIndex
from headrace.log.ledger import SegmentEntry
from headrace.log.segment import CEILING, HEADER_BYTES, PACKED, Header, Segment, opener_of, packer_of

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.engine.records import Scan
    from headrace.log.after_sync import PendingFile
    from headrace.log.encryption import Cipher
    from headrace.log.filesystem import FileSystem
    from headrace.log.ledger import Ledger
    from headrace.log.packing import Packed, Packer
    from headrace.log.port import Limits
    from headrace.log.segments import Segments

SLICE: Final = 256 << 10
"""Bytes that one step reads: well below a millisecond, or some with encryption."""
MOST_SLICES: Final = 16
"""Slices that one append waits for at most."""
MOST_WAITING: Final = 16
"""Copies that wait for a checkpoint; then one is made, whatever it costs."""
PACKED_SEGMENT_BYTES: Final = 8 << 20
"""About how large a segment of a compressed log becomes: what is written last is not compressed yet."""
LOOKED_AT: Final = 512 << 10
"""Bytes of a segment that are compressed before it is judged whether that saves anything."""
RETRY_AFTER: Final = 8
"""Segments rewritten or taken away before one without messages is looked at again."""
LEAST_WIN: Final = 1 << 20
"""Bytes that rewriting a segment must win; an eighth of a segment where those are small."""
_NOTHING: Final = SequenceSet()


class _Job(Struct):
    """A segment that is being rewritten. `size` counts as if it were not compressed."""

    segment: Segment
    path: Path
    header: Header
    handle: int
    scan: Scan
    compacted_at: int
    packer: Packer | None = None
    packed: Packed | None = None
    size: int = HEADER_BYTES
    live: int = 0
    offset: int = 0
    index: SparseIndex = field(default_factory=SparseIndex)


class Compaction:
    """Rewrites segments, one at a time. `segment_bytes`: about how large one is."""

    def __init__(
        self,
        segments: Segments,
        ledger: Ledger,
        filesystem: FileSystem,
        segment_bytes: int,
        cipher: Cipher | None = None,
    ) -> None:
        self._segments = segments
        self._after_sync = segments.after_sync
        self._ledger = ledger
        self._fs = filesystem
        self._cipher = cipher
        self._least = min(LEAST_WIN, segment_bytes // 8)
        ledger.occupancy.look_after = self._least
        self._job: _Job | None = None
        self._segment_bytes = segment_bytes
        self._packs = False
        self._packed_until = -1
        """The base of the last segment when there was none before it that could be compressed."""
        self._kept_up_at = 0
        """The position of the log when it last did some work."""
        self._waiting: list[tuple[_Job, PendingFile]] = []
        """All is copied; they take their places when they and a checkpoint are durable."""
        self.rewritten = 0
        """Segments, since the log was opened."""
        self.taken_away = 0
        """Segments that were not the first ones, since the log was opened."""

    @property
    def is_idle(self) -> bool:
        is_due = self._ledger.occupancy.is_due or self._has_unpacked
        return self._job is None and not self._waiting and not is_due

    def obey(self, limits: Limits) -> None:
        """Full segments are compressed from now on, or not any more: those that are stay so."""
        self._packs = limits.compresses
        self._packed_until = -1
        self._segments.segment_bytes = (
            min(self._segment_bytes, PACKED_SEGMENT_BYTES) if self._packs else self._segment_bytes
        )

    @property
    def _has_unpacked(self) -> bool:
        segments = self._segments.all  # none before the first message
        return self._packs and len(segments) > 1 and segments[-1].base != self._packed_until

    @property
    def waiting_bytes(self) -> int:
        """The bytes that the next checkpoint frees; 0: nothing waits for one."""
        drafted = self._segments.drafted
        waiting = [job for job, copy in self._waiting if drafted < copy.checkpoint]
        if len(waiting) >= MOST_WAITING:
            return 1 << 62
        return sum(max(job.segment.size - job.size, 1) for job in waiting)

    def keep_up(self) -> None:
        """Do as much as was appended since the last time asks for, and a slice at least."""
        if self.is_idle:
            return
        appended, self._kept_up_at = self._segments.written - self._kept_up_at, self._segments.written
        for _ in range(1 + min(2 * appended // SLICE, MOST_SLICES)):
            if not self.step():
                break

    def step(self) -> bool:
        """Do a slice of work; False: there was nothing to do."""
        try:
            if self._replace_ready():
                return True
            if self._job is not None:
                self._copy(self._job)
                return True
            segment = self._choose() if len(self._waiting) < MOST_WAITING else None
            if segment is None:
                return False
            self._begin(segment)
        except (OSError, StorageError):
            if self._job is not None:
                _never_again(self._job.segment)
            self._abandon()
        return True

    # ---- choice -----------------------------------------------------------------------------

    def _choose(self) -> Segment | None:
        occupancy = self._ledger.occupancy
        waiting = [job.segment for job, _ in self._waiting]
        if not occupancy.is_due:
            return self._unpacked(waiting)
        done = self.rewritten + self.taken_away
        for segment in self._segments.all[:-1]:
            messages, live = occupancy.of(segment.base)
            dead = segment.size - HEADER_BYTES - live - segment.dregs
            wins = dead * 2 > segment.size and dead >= self._least
            is_empty = messages == 0 and done >= segment.retry_at
            if (wins or is_empty) and segment not in waiting and not self._has_damage(segment):
                return segment
        occupancy.looked()
        return self._unpacked(waiting)

    def _unpacked(self, waiting: list[Segment]) -> Segment | None:
        """A segment that is to be compressed, and is not."""
        if not self._has_unpacked:
            return None
        for segment in self._segments.all[:-1]:
            is_plain = segment.packed is None and not segment.stays_plain
            if is_plain and segment not in waiting and not self._has_damage(segment):
                return segment
        if not waiting:  # else it is looked at again, since one of them may come to nothing
            self._packed_until = self._segments.active.base
        return None

    def _has_damage(self, segment: Segment) -> bool:
        """True if a segment has unreadable records: it stays as it is, and is reported."""
        damaged = self._ledger.unreadable_from(segment.base)
        return damaged is not None and damaged <= segment.last

    # ---- copying ----------------------------------------------------------------------------

    def _begin(self, segment: Segment) -> None:
        path = segment.path.with_name(segment.path.name + DRAFT)
        handle = self._fs.open(path, FileMode.APPEND)
        compacted_at = self._segments.active.base
        # What is compressed is sealed as a whole; else sealed bodies are copied as they are: no opener.
        packs = self._packs or (segment.packed is not None and segment.is_sealed)
        scan = segment.scan(segment.base, CEILING, 0, self._cipher if packs else None)
        flags = segment.header.flags | PACKED if packs else segment.header.flags & ~PACKED
        job = _Job(segment, path, replace(segment.header, flags=flags), handle, scan, compacted_at)
        self._job = job
        self._fs.truncate(handle, 0)
        write_all(self._fs, handle, job.header.pack())
        if packs:
            write_all(self._fs, handle, job.header.again())
            job.packer = packer_of(segment, self._cipher, partial(write_all, self._fs, handle))
        self._write(job, job.header.again() + self._marker(segment, compacted_at))
        self._copy(job)

    def _marker(self, segment: Segment, compacted_at: int) -> bytes:
        header = segment.header
        entry = (segment.base, compacted_at)
        return encode_segments([entry], segment.base - 1, header.last_time, segment.salt)

    def _write(self, job: _Job, data: bytes) -> None:
        if job.packer is not None:
            job.packer.add(data)
        elif data:
            write_all(self._fs, job.handle, data)
        job.size += len(data)

    def _copy(self, job: _Job) -> None:
        segment, ledger = job.segment, self._ledger
        data = self._segments.files.pread(segment, max(SLICE, job.scan.need), job.offset)
        final = HEADER_BYTES + job.offset + len(data) >= segment.size
        records = job.scan.survivors(data, final, ledger.removed, ledger.floor)
        job.offset = job.scan.base + job.scan.at
        if job.scan.damaged or (final and job.scan.bad_from is not None):
            raise StorageError(f"{segment.path.name} is damaged")
        if self._is_in_vain(job):
            segment.stays_plain = True
            self._abandon()
            return
        if records:
            scan = segment.scan(segment.base, CEILING, job.size - HEADER_BYTES, self._cipher)
            marks = scan.census(records, True, SubjectIndex(), _NOTHING, 0, job.index.marked, SPACING)
            job.index.add(marks, scan.expiry)
            job.live += len(records)
            self._write(job, records)
        if final:
            self._finish(job)

    def _is_in_vain(self, job: _Job) -> bool:
        """True if a copy that is only made for compression is not smaller."""
        packer = job.packer
        if packer is None or job.segment.packed is not None or packer.size < LOOKED_AT or packer.saves:
            return False
        return self._ledger.occupancy.of(job.segment.base)[1] * 2 > job.segment.size

    def _finish(self, job: _Job) -> None:
        """Decide about a segment whose live messages are all copied, by what else is needed of it."""
        segment, segments, ledger = job.segment, self._segments, self._ledger
        first = segments.all[0].base
        links = [(base, other) for base, other in set(job.scan.segments) if first < base and other < base]
        ranges = self._needed(job)
        if not job.live and not ranges:
            self._take_away(segment, links)
            return
        last = max(job.scan.expected - 1, segment.base - 1)
        time = max(job.scan.last_time, segment.header.last_time)
        rest = encode_removal(ranges, 0, last, time, segment.salt)
        rest += encode_segments(links, last, time, segment.salt)
        wins = job.size + 2 * len(rest) + self._least <= segment.size
        if not wins and not self._packs_now(job):
            segment.stays_plain = True
            segment.dregs = segment.size - HEADER_BYTES - ledger.occupancy.of(segment.base)[1]
            segment.retry_at = self.rewritten + self.taken_away + RETRY_AFTER
            self._abandon()
            return
        self._write(job, 2 * rest)
        if job.packer is not None:
            job.packed = job.packer.finish(opener_of(segment, self._cipher))
        self._write_down(b"")
        self._job = None
        self._waiting.append((job, self._after_sync.await_copy(job.handle)))

    def _packs_now(self, job: _Job) -> bool:
        """True if a copy is worth making for its compression alone."""
        return job.packer is not None and job.segment.packed is None and job.packer.saves

    def _write_down(self, record: bytes) -> None:
        """Write removals that wait, and a record. Raises StorageError."""
        segments, ledger = self._segments, self._ledger
        segments.check()
        news = ledger.removal_records(segments.active.salt)
        if news or record:
            segments.append(news + record)
            ledger.noted()

    def _needed(self, job: _Job) -> list[tuple[int, int]]:
        """Return the ranges of removed sequences that a segment must keep: their messages may be on disk in
        another one.
        """
        floor, segments = self._ledger.floor, self._segments.all
        trusted = self._segments.are_names_durable
        found: list[tuple[int, int]] = []
        for first, final in dict.fromkeys(job.scan.ranges):  # each is there twice
            at = max(first, floor, segments[0].base)
            end = min(final, job.segment.base - 1)
            while at <= end:
                place = self._segments.at(at)
                segment = segments[place]
                until = min(end, segments[place + 1].base - 1)
                is_done = trusted and segment.compacted_at > job.segment.base
                if not is_done and at <= segment.last:
                    found.append((at, min(until, segment.last)))
                at = until + 1
        return found

    # ---- the end ----------------------------------------------------------------------------

    def _take_away(self, segment: Segment, links: list[tuple[int, int]]) -> None:
        segments, ledger = self._segments, self._ledger
        pairs = [(segment.base, segment.header.previous), *links]
        active = segments.active
        self._write_down(2 * encode_segments(pairs, ledger.last_sequence, ledger.last_time, active.salt))
        self._abandon()
        segments.take_away(segment)
        ledger.occupancy.drop(segment.base)
        self.taken_away += 1

    def _replace_ready(self) -> bool:
        if not self._waiting:
            return False
        job, copy = self._waiting[0]
        if copy.is_lost:
            del self._waiting[0]
            self._after_sync.forget_copy(copy)
            _never_again(job.segment)
            self._discard(job)
            return True
        if not copy.is_durable or self._after_sync.saved < copy.checkpoint:
            return False
        old = job.segment
        job.index.expire_no_sooner(old.index.next_expiry)  # messages may have expired since they were copied
        new = replace(
            old, header=job.header, size=job.size, packed=job.packed, index=job.index, is_indexed=False
        )
        new.compacted_at = job.compacted_at
        new.dregs = job.size - HEADER_BYTES - job.live
        del self._waiting[0]
        self._after_sync.forget_copy(copy)
        try:
            self._segments.replace(old, new, job.path)
        except OSError:
            _never_again(old)
            self._discard(job)
            raise
        with suppress(OSError):
            self._fs.close(job.handle)
        self.rewritten += 1
        if self._ledger.occupancy.of(new.base)[0] == 0:  # the rest was removed meanwhile
            self._ledger.occupancy.look_again()
        return True

    def _abandon(self) -> None:
        """Give the copy at hand up, if there is one; what cannot be unlinked is at the next start."""
        job, self._job = self._job, None
        if job is not None:
            self._discard(job)

    def _discard(self, job: _Job) -> None:
        with suppress(OSError):
            self._fs.close(job.handle)
        with suppress(OSError):
            self._fs.unlink(job.path)

    def close(self) -> None:
        self._abandon()
        for job, copy in self._waiting:
            self._after_sync.forget_copy(copy)
            self._discard(job)
        self._waiting.clear()

    def erase(self, segment: Segment) -> None:
        """Give up a copy of this segment. Raises OSError: the copy may still be there, and so may this."""
        job = self._job
        if job is not None and job.segment is segment:
            self._fs.unlink(job.path)
            self._abandon()
        for job, copy in self._waiting:
            if job.segment is segment:
                self._fs.unlink(job.path)
                self._waiting.remove((job, copy))
                self._after_sync.forget_copy(copy)
                self._discard(job)
                break

    # ---- for the checkpoint -----------------------------------------------------------------

    def entries(self) -> list[SegmentEntry]:
        """The segments as they will be when a copy that waits has taken its place."""
        copies = {job.segment.base: job for job, _ in self._waiting}
        found = []
        for segment in self._segments.all:
            job = copies.get(segment.base)
            file: Segment | _Job = segment if job is None else job
            live = self._ledger.occupancy.of(segment.base)
            found.append(SegmentEntry(segment.base, file.size, segment.last, *live, file.compacted_at))
        return found


def _never_again(segment: Segment) -> None:
    """Pass a segment over until the next start."""
    segment.dregs, segment.retry_at, segment.stays_plain = segment.size, 1 << 62, True
