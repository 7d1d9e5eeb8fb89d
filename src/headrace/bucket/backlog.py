"""The backlog of an owner that acknowledges on its own disk: changes that the bucket does not have yet.

Here lives the local write-ahead log of `commit: disk` (ADR 0041). It takes the changes of the journal in
their order as records, writes them into segments below the shard's directory, and gives them to the writer of
the bucket. What is synced here is durable; what the bucket has is removed here. Never here: the format
(`backlog_format`), what a start makes of what it finds (`leftover`), who waits for what (`disk_committer`).

A record is written before its sync begins, and nothing is written while a sync is under way. The records of
a sync that failed go into the next segment: nobody knows what of them is in this one. The bucket's writer may
take a record that is not durable here: what it puts is durable there.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from headrace.bucket.backlog_format import HEAD_BYTES, RECORD_BYTES, pack_record, read_record
from headrace.bucket.errors import CacheFailed
from headrace.bucket.spare_segments import SpareSegments
from headrace.bucket.writer import LARGEST_PAYLOAD
from headrace.errors import StorageError
from headrace.log.filesystem import FileMode, make_directory, pwrite_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from headrace.bucket.backlog_format import SegmentHead
    from headrace.bucket.journal import Journal
    from headrace.engine.syncer import SyncJob
    from headrace.log.filesystem import FileSystem
    from headrace.log.port import Submit

FOLDER: Final = "backlog"
"""The folder of the segments, in the cache's own folder."""
SEGMENT_BYTES: Final = 16 << 20
"""Bytes of a segment after which the next one is begun. A load that goes on writes over a few such files
(`spare_segments`)."""
MOST_KEPT: Final = 64 << 20
"""Bytes of records in memory that wait for the bucket; what is synced beyond them is read back later."""
MOST_UNSYNCED: Final = 1 << 20
"""Bytes that nobody waits for, after which they are synced all the same: until then they are in memory."""
READ_BACK: Final = 1 << 20
"""Bytes of an object whose records are read back, about: the event loop waits for that."""
MOST_PARTS: Final = 16
"""Pieces of a payload that are kept as they are; more are put together: each takes room by itself."""
_ROOM: Final = 256 << 10
"""Zeros that are written ahead: over them a small record is durable sooner (ADR 0023)."""
_SMALL: Final = 64 << 10
"""Bytes of a record for which zeros are written ahead."""
_NAME_DIGITS: Final = 20


class BacklogSegment(Struct, eq=False):
    """A segment: its file, the seed of its checksums, and the position behind its last record."""

    path: Path
    seed: int
    end: int
    handle: int = -1
    """-1: it is not open."""
    size: int = HEAD_BYTES
    """Bytes up to the end of the last record."""
    room: int = 0
    """The end of the bytes behind that which can be written over: zeros, or what a spare had."""
    is_sound: bool = False
    """True if this backlog began it, and no sync of it failed: it can be written over."""


class BacklogRecord(Struct, eq=False):
    """A record: changes between two positions, which the bucket does not have yet."""

    start: int
    end: int
    is_cut: bool
    size: int
    time_ns: int
    since: float
    """The time of the loop from which on it waits."""
    parts: Sequence[bytes | memoryview] | None = None
    """Its changes, until the writer has them; None: they are in the segment."""
    segment: BacklogSegment | None = None
    at: int = 0
    """The place of the payload in the segment."""


class TakenRecords(NamedTuple):
    """The payload of one object in pieces, and the position that it ends at."""

    parts: Sequence[bytes | memoryview]
    position: int
    is_last: bool = False
    """False: records may wait behind it, for others or for their time."""


def segment_name(number: int) -> str:
    """Return the name of a segment's file."""
    return f"{number:0{_NAME_DIGITS}}"


def read_back(files: FileSystem, record: BacklogRecord) -> bytes:
    """Read the payload of a record from its segment, which stays open. Raises: CacheFailed."""
    segment = record.segment
    assert segment is not None, "it is in memory until it is written"
    try:
        if segment.handle < 0:
            segment.handle = files.open(segment.path, FileMode.READ)
        data = files.pread(segment.handle, RECORD_BYTES + record.size, record.at - RECORD_BYTES)
    except OSError as error:
        raise CacheFailed(f"{segment.path}: {error.strerror or error}") from error
    head = read_record(data, 0, segment.seed)
    if head is None or (head.start, head.end) != (record.start, record.end):
        raise CacheFailed(f"{segment.path}: the record at {record.at} cannot be read back")
    return data[RECORD_BYTES:]


class BucketBacklog:
    """The backlog of one term of an owner. `begin` comes first, `close` last.

    `head`: that of its first segment, but for the number, which is the highest one that was used. `journal`:
    what it takes, from the base of that head on. `found`, in `segments`: records of an earlier term that go
    on up to there. `pace_s`: seconds that changes wait for others until they are put, unless there are many.
    `clock`: the time of the loop.

    It is a `Syncable` for a `ThreadCommitter`, and the source of a `WalWriter`. `kick` and `when_left` are
    called by any thread: there is something for the writer; changes were recorded while a sync was under way
    for which nobody asks for one.
    """

    def __init__(
        self,
        files: FileSystem,
        folder: Path,
        head: SegmentHead,
        journal: Journal,
        *,
        found: Iterable[BacklogRecord] = (),
        segments: Iterable[BacklogSegment] = (),
        pace_s: float = 0.0,
        clock: Callable[[], float],
        wall_ns: Callable[[], int],
    ) -> None:
        self.journal: Final = journal
        self.trouble: str | None = None
        """Why the disk does not take it; None: it does."""
        self.is_hurried = False
        """True: the writer is given all that there is at once."""
        self.asked = 0
        """The position up to which a sync was asked for: it is written without anything else."""
        self.kick: Callable[[], object] = lambda: None
        self.when_left: Callable[[], object] = lambda: None
        self.when_due: Callable[[float], object] = lambda _: None
        """Called by `take` with the seconds until it has something."""
        self._files: Final = files
        self._folder: Final = folder
        self._head = head
        self._pace: Final = pace_s
        self._clock: Final = clock
        self._wall_ns: Final = wall_ns
        self._turn: Final = threading.Lock()
        """Held by whoever writes and syncs, from the write until the sync has ended."""
        self._lock: Final = threading.Lock()
        """Guards what follows."""
        self._waiting: Final[deque[BacklogRecord]] = deque(found)
        """Records that the bucket does not have yet."""
        self._untaken: Final[deque[BacklogRecord]] = deque(self._waiting)
        """Records among them that the writer has not taken."""
        self._unwritten: Final[deque[tuple[BacklogRecord, Sequence[bytes | memoryview]]]] = deque()
        self._unsynced: Final[deque[tuple[BacklogRecord, Sequence[bytes | memoryview]]]] = deque()
        """Records that are written since the last sync."""
        self._segments: Final[deque[BacklogSegment]] = deque(segments)
        self._spares: Final = SpareSegments(files, folder)
        self._active: BacklogSegment | None = None
        self._end = head.base
        """The position behind the last record."""
        self._synced = head.base
        self._covers = head.base
        """The position that the sync under way makes durable."""
        self._kept = 0
        self._unsynced_bytes = 0
        self._untaken_bytes = self._waiting_bytes = sum(record.size for record in self._waiting)
        self._reached = 0
        self._ended: str | None = None

    def begin(self) -> None:
        """Make the first segment, durably. Raises: CacheFailed."""
        try:
            make_directory(self._files, self._folder)
            self._spares.remove_old()
            self._begin_segment()
        except OSError as error:
            raise CacheFailed(f"{self._folder}: {error.strerror or error}") from error

    # ---- syncs, for a committer ---------------------------------------------------------------

    @property
    def unsynced(self) -> int:
        """Bytes that the next sync makes durable, about."""
        return self.journal.pending_bytes + self._unsynced_bytes

    def begin_sync(self, submit: Submit) -> SyncJob | None:
        """Write what was recorded, and have `submit` sync it; None if there is more to do, or nothing."""
        if not self._turn.acquire(blocking=False):
            return None
        job = None
        try:
            job = self._begin_sync(submit)
        finally:
            if job is None:
                self._turn.release()
        return job

    def _begin_sync(self, submit: Submit) -> SyncJob | None:
        segment = self._active
        if self._ended is not None or segment is None or segment.size >= SEGMENT_BYTES:
            return None
        descriptor = self._files.descriptor(segment.handle)
        if descriptor is None:
            return None
        try:
            self._write(segment)
        except OSError as error:  # `sync` tries again, and says so
            self._fail(error)
            return None
        if not self._unsynced:
            return None
        self._covers = self._unsynced[-1][0].end
        return submit(descriptor)

    def end_sync(self, job: SyncJob) -> StorageError | None:
        """End a sync that is done; return its error."""
        error: StorageError | None = None
        if job.error:
            error = self._fail(OSError(job.error, os.strerror(job.error)))
        else:
            self._note_synced(self._covers)
        self._turn.release()
        self._look_again()
        return error

    def sync(self) -> int:
        """Write and sync what was recorded; return the position that is durable. Raises: StorageError."""
        with self._turn:
            if self._ended is not None:
                raise StorageError(self._ended)
            try:
                segment = self._active
                if segment is not None and segment.size >= SEGMENT_BYTES:
                    if self._unsynced:
                        self._files.fdatasync(segment.handle)
                        self._note_synced(self._unsynced[-1][0].end)
                    segment = None
                if segment is None:
                    segment = self._begin_segment()
                self._write(segment)
                if self._unsynced:
                    end = self._unsynced[-1][0].end
                    self._files.fdatasync(segment.handle)
                    self._note_synced(end)
            except OSError as error:
                raise self._fail(error) from error
            self.trouble = None
        self._look_again()
        return self._synced

    def write(self) -> bool:
        """Write what was recorded, and sync nothing; False if a sync is due.

        A process that is killed loses nothing of it then. Nobody may be told that it is durable.
        """
        segment = self._active
        if segment is None or segment.size >= SEGMENT_BYTES or self._unsynced_bytes > MOST_UNSYNCED:
            return False
        if not self._turn.acquire(blocking=False):
            return True  # who has the turn looks again
        try:
            if self._ended is None:
                self._write(segment)
        except OSError as error:
            self._fail(error)
        finally:
            self._turn.release()
        return True

    def _look_again(self) -> None:
        """Have what was recorded meanwhile written, if nobody waits for it."""
        if self.has_unasked and self._ended is None:
            self.when_left()

    @property
    def has_unasked(self) -> bool:
        """True if changes are in memory only, and no sync is asked for that would write them."""
        journal = self.journal
        return journal.pending_bytes > 0 and journal.position > max(self.asked, self._end)

    # ---- what is written, by whoever has the turn -----------------------------------------------

    def _gather(self) -> None:
        """Make records of what was recorded. With the lock."""
        had_some = bool(self._untaken)
        while self.journal.position != self._end and (span := self.journal.take(LARGEST_PAYLOAD)) is not None:
            parts = span.parts
            if len(parts) > MOST_PARTS:
                parts = (b"".join(parts),)
            size = sum(map(len, parts))
            record = BacklogRecord(
                self._end, span.position, span.is_cut, size, self._wall_ns(), self._clock(), parts
            )
            self._end = span.position
            self._unwritten.append((record, parts))
            self._waiting.append(record)
            self._untaken.append(record)
            self._kept += size
            self._unsynced_bytes += size
            self._untaken_bytes += size
            self._waiting_bytes += size
        if self._untaken and (not had_some or self._untaken_bytes >= LARGEST_PAYLOAD):
            self.kick()

    def _write(self, segment: BacklogSegment) -> None:
        """Write all records that are in no segment yet. Raises: OSError."""
        with self._lock:
            self._gather()
        while self._unwritten:
            record, parts = self._unwritten[0]
            data = pack_record(
                parts,
                record.start,
                record.end,
                is_cut=record.is_cut,
                synced=self._synced,
                time_ns=record.time_ns,
                seed=segment.seed,
            )
            pwrite_all(self._files, segment.handle, data, segment.size)
            end = segment.size + len(data)
            with self._lock:
                record.segment, record.at = segment, segment.size + RECORD_BYTES
            segment.size, segment.end = end, record.end
            self._unsynced.append(self._unwritten.popleft())
            if end > segment.room and len(data) <= _SMALL:
                self._make_room(segment)

    def _make_room(self, segment: BacklogSegment) -> None:
        """Write zeros behind the last record. They cost nothing but time where that fails."""
        segment.room = segment.size + _ROOM
        with contextlib.suppress(OSError):
            self._files.reserve(segment.handle, segment.size, _ROOM)

    def _begin_segment(self) -> BacklogSegment:
        """Make the next segment, durably: what is in front of it is durable. Raises: OSError."""
        head = self._head = replace(self._head, number=self._head.number + 1, base=self._synced)
        path, data = self._folder / segment_name(head.number), head.pack()
        found = self._spares.use(path, data)
        handle, room = (self._new_file(path, data), 0) if found is None else found
        segment = BacklogSegment(path, head.seed, head.base, handle, room=room, is_sound=True)
        with self._lock:
            self._segments.append(segment)
            self._active = segment
        return segment

    def _new_file(self, path: Path, head: bytes) -> int:
        """Make the file of a segment, durably; return its handle. Raises: OSError."""
        handle = self._files.open(path, FileMode.CREATE)
        try:
            self._files.truncate(handle, 0)
            pwrite_all(self._files, handle, head, 0)
            self._files.fsync(handle)
            self._files.fsync_dir(self._folder)
        except OSError:
            self._files.close(handle)
            raise
        return handle

    def _note_synced(self, end: int) -> None:
        """Note that the records up to a position are durable, and give their bytes up if they are many."""
        self._synced = max(self._synced, end)
        self.trouble = None
        with self._lock:
            while self._unsynced and self._unsynced[0][0].end <= end:
                record, _ = self._unsynced.popleft()
                self._unsynced_bytes -= record.size
                if self._kept > MOST_KEPT and record.parts is not None:
                    record.parts = None
                    self._kept -= record.size

    def _fail(self, error: OSError) -> StorageError:
        """Give the segment up: nobody knows what of its last records is on disk. The next one has them."""
        where = self._folder if self._active is None else self._active.path
        with self._lock:
            self._unwritten.extendleft(reversed(self._unsynced))
            self._unsynced.clear()
            for record, _ in self._unwritten:
                record.segment = None
            if self._active is not None:
                self._active.is_sound = False
            self._active = None
        self.trouble = f"{where}: {error.strerror or error}"
        self.journal.refuse(self.trouble)
        return StorageError(self.trouble)

    # ---- what the bucket's writer takes and has, on the loop --------------------------------------

    @property
    def pending_bytes(self) -> int:
        """0: nobody who publishes waits for the bucket."""
        return 0

    def watch(self, size: int) -> None:
        """Do nothing: as `pending_bytes` says, nobody waits for a burst to be whole."""

    def take(self, most_bytes: int) -> TakenRecords | None:
        """Take records for one object, about so many bytes; None: there are none, or they wait for others.

        Raises: CacheFailed if records cannot be read back.
        """
        with self._lock:
            if self.trouble is not None:
                self._gather()
            taken = self._next_records(most_bytes)
            kept = [record.parts for record in taken]
            for record in taken:
                record.parts = None
        if not taken:
            return None
        found: list[bytes | memoryview] = []
        for record, parts in zip(taken, kept, strict=True):
            found.extend((read_back(self._files, record),) if parts is None else parts)
        return TakenRecords(found, taken[-1].end)

    def _next_records(self, most_bytes: int) -> list[BacklogRecord]:
        """Take the records of the next object. With the lock."""
        taken: list[BacklogRecord] = []
        size = 0
        if not self._untaken or not self._is_due():
            return taken
        while self._untaken:
            record = self._untaken[0]
            if taken and size + record.size > (most_bytes if record.parts is not None else READ_BACK):
                break
            taken.append(self._untaken.popleft())
            size += record.size
            if record.is_cut:
                break
        self._untaken_bytes -= size
        self._kept -= sum(record.size for record in taken if record.parts is not None)
        return taken

    def _is_due(self) -> bool:
        """True if the first record has waited for others long enough. With the lock."""
        wait = self._untaken[0].since + self._pace - self._clock()
        if self.is_hurried or wait <= 0 or self._untaken_bytes >= LARGEST_PAYLOAD:
            return True
        self.when_due(wait)
        return False

    def reached(self, position: int) -> bool:
        """Note that the bucket has everything up to a position; True if segments can be removed."""
        with self._lock:
            self._reached = max(self._reached, position)
            while self._waiting and self._waiting[0].end <= position:
                self._waiting_bytes -= self._waiting.popleft().size
            return self._is_removable()

    def _is_removable(self) -> bool:
        first = self._segments[0] if self._segments else None
        return first is not None and first is not self._active and first.end <= self._reached

    def remove_reached(self) -> None:
        """Remove segments that the bucket has, or keep them to be written over. Raises: OSError; the next
        call goes on.
        """
        while True:
            with self._lock:
                if not self._is_removable():
                    return
                segment = self._segments[0]
            if not self._is_kept(segment):
                with self._lock:
                    self._close(segment)
                with contextlib.suppress(FileNotFoundError):
                    self._files.unlink(segment.path)
            with self._lock:
                self._segments.popleft()

    def _is_kept(self, segment: BacklogSegment) -> bool:
        """Have the file of a segment be a spare, if there can be one more. Raises: OSError; then its handle
        is closed, and the next call removes it.
        """
        with self._lock:
            if not segment.is_sound or segment.handle < 0:
                return False
            handle, segment.handle = segment.handle, -1  # `close`, on another thread, is not to close it, too
            segment.is_sound = False
        is_kept = False
        try:
            is_kept = self._spares.keep(segment.path, handle, max(segment.size, segment.room))
        finally:
            if not is_kept:
                self._files.close(handle)
        return is_kept

    def remove(self) -> None:
        """Remove all segments, once the bucket has everything and nothing more comes. Raises: OSError."""
        self.end("the backlog was given up")
        with self._turn:
            with self._lock:
                self._active = None
                self._reached = self._end
            self._spares.remove()  # from now on none is made
            self.remove_reached()
            self._files.fsync_dir(self._folder)

    # ---- how much it is ---------------------------------------------------------------------------

    @property
    def waiting_bytes(self) -> int:
        """Bytes of changes that the bucket does not have."""
        return self.journal.pending_bytes + self._waiting_bytes

    @property
    def is_empty(self) -> bool:
        """True if the bucket has all records."""
        return not self._waiting

    @property
    def lag_s(self) -> float:
        """Seconds since the first of these was made; 0.0 if there are none."""
        with self._lock:
            return self._clock() - self._waiting[0].since if self._waiting else 0.0

    # ---- the end ------------------------------------------------------------------------------------

    def end(self, reason: str) -> None:
        """Make nothing durable any more: the shard is another server's."""
        self._ended = reason

    def close(self) -> None:
        """Close the files; what is in them stays."""
        self._spares.close()
        with self._turn, self._lock:
            self._ended = self._ended or "the backlog is closed"
            for segment in self._segments:
                self._close(segment)

    def _close(self, segment: BacklogSegment) -> None:
        if segment.handle >= 0:
            self._files.close(segment.handle)
            segment.handle = -1
