"""The segments of one log, oldest first: appending to the last one, syncing it, rolling to a new one.

Here lives the file that is written, with everything that may go wrong with it. Reading files is for
`segment_files`, what waits for a sync for `after_sync`; what is in the bytes for `headrace.engine.records`;
which messages there are, for `ledger`. Never here: limits, subjects.

Room. Under `SyncPolicy.GROUP` the file of the active segment is longer than its records, since a write over
zeros is synced sooner (docs/adr/0023-acknowledged-publishes.md). A roll and a close cut them off.

Durability. `sync` runs on any thread while the owner appends; a lock keeps it and a roll apart. A segment is
synced before the next one is begun, so only the last one can have a cut-off tail. After a write that failed
the file is cut back to whole records and synced, so that what was refused does not come back after a power
loss; while that fails, appends are refused. A log that is new is durable with its first sync, and no earlier
than its first message needs: who makes many logs waits for none of them. After an fsync that failed the
kernel may have dropped what was not on disk and still say yes the next time: what was unsynced is then read
back, checked record by record and written once more, and until that and an fsync have succeeded appends are
refused.
"""

from __future__ import annotations

import contextlib
import os
import threading
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NoReturn

from headrace.engine.log_core import WriteEnd
from headrace.engine.records import Scan
from headrace.engine.sequence_set import SequenceSet
from headrace.errors import StorageError
from headrace.log.after_sync import AfterSync
from headrace.log.filesystem import FileMode, RealFileSystem, pwrite_all, remove_file, storage_errors
from headrace.log.port import PLAIN, SyncPolicy, Weights
from headrace.log.segment import BEGINNING, CEILING, HEADER_BYTES, SEALED, Header, Segment, segment_path
from headrace.log.segment_files import SegmentFiles

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.engine.syncer import SyncJob
    from headrace.log.encryption import Cipher
    from headrace.log.filesystem import FileSystem
    from headrace.log.port import Submit

BLOCK: Final = 4096
"""Bytes that file systems give out at once."""
LARGEST_STEP: Final = 256 << 10
"""Bytes of zeros that are written at once: the sync after them writes them too."""
LARGEST_RESERVING: Final = 64 << 10
"""Bytes of a write for which room is reserved: a larger one would take most of a step."""
MORE_THAN_BYTES: Final = 1 << 62
"""Stands for a sync that has more than appended bytes to make durable: names of files, files beside them."""


def new_salt() -> int:
    return int.from_bytes(os.urandom(4))


class Segments(WriteEnd):
    """The segments, oldest first; the last one is written. `segment_bytes`: about how large one becomes."""

    active: Segment

    def __init__(
        self,
        directory: Path,
        filesystem: FileSystem,
        policy: SyncPolicy,
        segment_bytes: int,
        cipher: Cipher | None = None,
        *,
        weights: Weights = PLAIN,
    ) -> None:
        self.directory: Final = directory
        self._weights: Final = weights
        self.all: list[Segment] = []
        self._fs: Final = filesystem
        self._is_plain = type(filesystem) is RealFileSystem  # of others every call is to be seen
        self._policy: Final = policy
        self.reserves = policy is SyncPolicy.GROUP
        self.segment_bytes = segment_bytes
        self._cipher: Final = cipher
        self._handle: int | None = None
        self._lock: Final = threading.Lock()
        self.files: Final = SegmentFiles(filesystem, cipher)
        self.after_sync: Final = AfterSync(filesystem, policy, self.files, self, self._lock)
        self._synced_size = 0
        """Bytes of the active segment that are durable."""
        self._is_trimmed = False
        """Its file was cut to its records, and that is not durable."""
        self._names_changed = False
        self._is_named = False
        """True if the directory's existence is durable."""
        self._job: SyncJob | None = None
        """A sync that `begin_sync` has begun and nobody has ended."""
        self._job_covers = (0, 0)
        """The position and the bytes of the active segment that it makes durable."""

    # ---- opening ----------------------------------------------------------------------------

    def adopt(self, segments: list[Segment], *, is_durable: bool = False) -> None:
        """Take over segments that recovery found; the last one is cut to its size and written from now on.

        `is_durable`: it is on disk as it was found, but for what a close cut off behind the last record.
        """
        self.all = segments
        active = segments[-1]
        if active.packed is not None:  # the one behind it is lost; nothing is added to this one
            return
        with storage_errors(f"cannot open {active.path.name}"):
            self._handle = self._fs.open(active.path, FileMode.UPDATE)
            self._write_to(active, self._handle)
            if self._fs.size(self._handle) != active.size:
                self._fs.truncate(self._handle, active.size)
                is_durable = False
            if is_durable:
                self._is_trimmed = True
            elif self._policy is not SyncPolicy.NEVER:
                # What a process that was killed wrote is visible, but perhaps not yet on disk.
                self._fs.fdatasync(self._handle)
                self._sync_names()
        self._synced_size = self.extent = active.size

    def begin(self, base: int, last_time: int, floor: int) -> None:
        """Begin a segment. Raises: StorageError; then nothing is different.

        The first one may go with a power loss as long as nothing is in it: then it is begun once more.
        """
        path = segment_path(self.directory, base)
        previous = self.all[-1].base if self.all else 0
        salt = new_salt()
        sealed = (SEALED, self._cipher.segment(salt, base).check) if self._cipher is not None else ()
        header = Header(salt, base, last_time, floor, previous, *sealed)
        handle: int | None = None
        with storage_errors(f"cannot begin segment {path.name}"):
            try:
                handle = self._fs.open(path, FileMode.CREATE)
                self._fs.truncate(handle, 0)
                pwrite_all(self._fs, handle, header.beginning(), 0)
                if self.all and self._policy is not SyncPolicy.NEVER:
                    self._fs.fdatasync(handle)
            except OSError:
                self.abandoned = path
                if handle is not None:
                    self.files.release(handle)
                self._clear_abandoned()
                raise
        if self.all:
            self.all[-1].last = base - 1
        with self._lock:
            self.is_begun = bool(self.all) or self._policy is SyncPolicy.NEVER
            old, self._handle = self._handle, handle
            self.all.append(Segment(path, header, BEGINNING, self._weights))
            self._write_to(self.all[-1], handle)
            self._synced_size = self.extent = BEGINNING
            self._names_changed = True
        if old is not None:
            self.files.release(old)

    def _write_to(self, active: Segment, handle: int) -> None:
        self.write_to(active, handle if self._is_plain else -1)
        self.files.use_for(active, handle)

    def _clear_abandoned(self) -> None:
        """Remove a segment that could not be begun, durably: a power loss that brought it back would end the
        one before it, which takes the next messages, too early.
        """
        if self.abandoned is None:
            return
        try:
            remove_file(self._fs, self.abandoned, durable=self._policy is not SyncPolicy.NEVER)
        except OSError:
            return  # tried again before the next append, which is refused until it works
        self.abandoned = None

    # ---- writing ----------------------------------------------------------------------------

    def is_full(self, more: int, base: int) -> bool:
        """True if `more` bytes from `base` on need a new segment; one without messages takes any number."""
        return self.active.base < base and self.active.size + more > self.segment_bytes

    def roll(self, base: int, last_time: int, floor: int) -> None:
        """Seal the active segment and begin the next. Raises: StorageError; then nothing is different."""
        with storage_errors(f"cannot cut {self.active.path.name} to its records"):
            self._trim()
        if self._policy is not SyncPolicy.NEVER:
            self._sync(with_copies=False)  # the owner does not wait for those
        self.begin(base, last_time, floor)

    def check(self) -> None:
        """Mend the files after a write or a sync that failed. Raises: StorageError while that cannot be."""
        if self.abandoned is not None:
            self._clear_abandoned()
            if self.abandoned is not None:
                raise StorageError(f"cannot remove {self.abandoned.name}, which was begun and failed")
        if self.is_uncut:
            self._cut_back()
        if self.is_suspect:
            with self._lock:
                self._rewrite()

    def append(self, data: bytes) -> int:
        """Add records to the active segment in one write; returns their offset. Call `check` before.

        Raises: StorageError; then nothing of `data` is part of the log.
        """
        assert self._handle is not None
        active = self.active
        if not self.is_begun:
            self._sync_header()
        try:
            pwrite_all(self._fs, self._handle, data, active.size)
        except OSError as error:
            self.failed(error)
        active.size += len(data)
        self.written += len(data)
        if active.size > self.extent:
            self.extent = active.size
            self.reserve(len(data))
        return active.size - len(data) - HEADER_BYTES

    def failed(self, error: OSError) -> NoReturn:
        """Cut back a write of records that failed, perhaps after a part of them. Raises: StorageError."""
        self.is_uncut = True
        with contextlib.suppress(StorageError):
            self._cut_back()  # if it fails, `check` tries again and refuses until it succeeds
        raise StorageError(f"cannot write {self.active.path.name}: {error.strerror or error}") from error

    def _sync_header(self) -> None:
        """Make the header durable: records behind one that a power loss took would count as damaged."""
        assert self._handle is not None
        with self._lock, storage_errors(f"cannot begin segment {self.active.path.name}"):
            try:
                self._fs.fdatasync(self._handle)
            except OSError:
                self.is_suspect = True
                raise
            self.is_begun = True

    def reserve(self, more: int) -> None:
        """Make room behind a write of so many bytes: those that follow change no size and no place on the
        disk, and are synced sooner. In steps that grow with the segment; a write that takes most of a step
        gains nothing.
        """
        assert self._handle is not None
        start = self.active.size
        step = min(start // 4, LARGEST_STEP)
        if not self.reserves or more > LARGEST_RESERVING or more > max(step, BLOCK):
            return
        # Also when it fails: the next one is a step further on.
        self.extent = -(-(start + step) // BLOCK) * BLOCK
        with contextlib.suppress(OSError):  # the disk is full: the next write will tell
            self._fs.reserve(self._handle, start, self.extent - start)

    def _trim(self) -> None:
        """Cut the file to its records: room that was reserved is not needed. Raises: OSError."""
        assert self._handle is not None
        if self.extent > self.active.size:
            with self._lock:
                self._end_job()
                self._is_trimmed = True
                self._fs.truncate(self._handle, self.active.size)
                self.extent = self.active.size

    def _cut_back(self) -> None:
        assert self._handle is not None
        active = self.active
        with self._lock, storage_errors(f"cannot cut {active.path.name} back to its last whole record"):
            self._end_job()
            self._fs.truncate(self._handle, active.size)
            self.extent = active.size
            if self._policy is not SyncPolicy.NEVER:
                try:
                    self._fs.fdatasync(self._handle)
                except OSError:
                    self.is_suspect = True
                    raise
                if not self.is_suspect:
                    self._synced_size = active.size
        self.is_uncut = False

    # ---- durability -------------------------------------------------------------------------

    @property
    def unsynced(self) -> int:
        """Bytes that were appended and are not known to be durable; very many when more waits for `sync`."""
        return MORE_THAN_BYTES if self._has_more_than_bytes else self.written - self.after_sync.durable

    @property
    def _has_more_than_bytes(self) -> bool:
        return self._names_changed or self.after_sync.has_work

    def begin_sync(self, submit: Submit) -> SyncJob | None:
        """Have `submit` sync appended bytes, if that is all that `sync` would do; else return None."""
        assert self._handle is not None
        descriptor = self._fs.descriptor(self._handle)
        if descriptor is None or self._job is not None or not self._lock.acquire(blocking=False):
            return None
        try:
            is_odd = self._has_more_than_bytes or self.is_suspect or self._is_trimmed or not self.is_begun
            if is_odd or self.active.size == self._synced_size:
                return None
            self._job_covers = self.written, self.active.size
            self._job = submit(descriptor)
        finally:
            self._lock.release()
        return self._job

    def end_sync(self, job: SyncJob) -> StorageError | None:
        """End a sync, which others may have ended before, and return its error."""
        if job is self._job:
            with self._lock:
                self._end_job()
        if not job.error:
            return None
        return StorageError(f"cannot sync {self.active.path.name}: {os.strerror(job.error)}")

    def _end_job(self) -> None:
        """Wait for a sync that was begun: nothing may be changed under it. With the lock."""
        job, self._job = self._job, None
        if job is None:
            return
        job.wait()
        if job.error:
            self.is_suspect = True
            return
        position, self._synced_size = self._job_covers
        self.after_sync.reached(position)

    def sync(self) -> int:
        """Make all that is written durable; returns the position. Any thread. Raises: StorageError."""
        return self._sync(with_copies=True)

    def _sync(self, *, with_copies: bool) -> int:
        with self._lock:
            self._end_job()
            position = self.written
            size = self.active.size
            if self.is_suspect:
                self._rewrite()
            elif position != self.after_sync.durable or self._names_changed or self._is_trimmed:
                self._fsync(size)
            self.after_sync.reached(position)
            if with_copies:
                self.after_sync.sync_copies()
            self.after_sync.run()
            return position

    def _fsync(self, size: int) -> None:
        assert self._handle is not None
        try:
            if size != self._synced_size or self._is_trimmed or not self.is_begun:
                self._fs.fdatasync(self._handle)
                self._synced_size = size
                self._is_trimmed = False
                self.is_begun = True
            if self._names_changed:
                self._sync_names()
        except OSError as error:
            self.is_suspect = True
            raise StorageError(f"cannot sync {self.active.path.name}: {error.strerror or error}") from error

    def _sync_names(self) -> None:
        """Make names in the directory durable, and the first time its own. Raises: OSError."""
        self._fs.fsync_dir(self.directory)
        if not self._is_named:
            self._fs.fsync_dir(self.directory.parent)
            self._is_named = True
        self._names_changed = False

    def _rewrite(self) -> None:
        """Write and sync bytes once more that a failed fsync may have lost, if they can still be read."""
        active = self.active
        with storage_errors(f"{active.path.name} could not be synced"):
            handle = self._fs.open(active.path, FileMode.UPDATE)
            try:
                start, end = self._synced_size, active.size
                data = self._fs.pread(handle, end - start, start)
                scan = Scan(active.salt, 0, CEILING)
                scan.removals(data, True, SequenceSet(), 0)
                if len(data) != end - start or scan.bad_from is not None or scan.damaged:
                    raise StorageError(
                        f"{active.path.name}: an fsync failed and {end - start} bytes since the one before "
                        "are lost; open the log again"
                    )
                if not self.is_begun:
                    pwrite_all(self._fs, handle, active.header.beginning(), 0)
                pwrite_all(self._fs, handle, data, start)
                self._fs.fsync(handle)
            finally:
                self.files.release(handle)
            self._sync_names()
        self._synced_size = end
        self.is_begun = True
        self._is_trimmed = False
        self.is_suspect = False

    # ---- old segments -----------------------------------------------------------------------

    def give_up(self, floor: int) -> list[Segment]:
        """Give up the segments of which every sequence is below the floor, and return them.

        They are unlinked when the record that says so, which must be written by now, is durable.
        """
        given = self.all[: self.count_below(floor)]
        for segment in given:
            self.take_away(segment)
        return given

    def take_away(self, segment: Segment) -> None:
        """Give up one segment, not the last one; the record that says so must be written by now."""
        self.all.remove(segment)
        self.after_sync.unlink(segment)

    def count_below(self, floor: int) -> int:
        """Count the segments that lie below a sequence, without the last one."""
        count = 0
        while count + 1 < len(self.all) and self.all[count + 1].base <= floor:
            count += 1
        return count

    # ---- rewritten segments -----------------------------------------------------------------

    def replace(self, old: Segment, new: Segment, draft: Path) -> None:
        """Put a rewritten segment in the place of the old one; reads see it at once. Raises: OSError."""
        self._fs.rename(draft, old.path)
        with self._lock:
            self._names_changed = True
            self.files.close_reader(old.path)
        self.all[self.all.index(old)] = new

    @property
    def are_names_durable(self) -> bool:
        """True if no power loss brings back a segment that was rewritten."""
        return self._policy is SyncPolicy.NEVER or not self._names_changed

    # ---- reading ----------------------------------------------------------------------------

    def at(self, sequence: int) -> int:
        """The place of the segment that may hold a sequence."""
        return max(bisect_right(self.all, sequence, key=lambda segment: segment.base) - 1, 0)

    def close(self) -> None:
        if self._handle is not None:
            with contextlib.suppress(OSError):  # zeros behind the records are cut off by the next start
                self._trim()
        with self._lock:
            self._end_job()
            handle, self._handle = self._handle, None
            self.write_to(self.active, -1)
        self.files.close()
        if handle is not None:
            self.files.release(handle)
