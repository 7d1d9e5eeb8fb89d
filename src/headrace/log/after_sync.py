"""The work of one log that waits for a sync: checkpoints to write, copies to trust, segments to unlink.

Here live its order and its positions. `segments` syncs and says how far; `checkpoints` and `compaction` say
what there is to do. Never here: syncing the segment that is written.

A segment is unlinked only after the record that gives its messages up is durable, else it could come back
without that record, and after a checkpoint that does not count on it: else a start from the one before would
miss it and read everything. All waits for the next sync of the log, so under `SyncPolicy.GROUP` it costs the
owner no fsync. Under NEVER nothing is promised, so nothing is waited for.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.log.filesystem import remove_file, replace_file
from headrace.log.port import SyncPolicy
from headrace.log.segment import BEGINNING

if TYPE_CHECKING:
    from pathlib import Path
    from threading import Lock

    from headrace.engine.log_core import WriteEnd
    from headrace.log.filesystem import FileSystem
    from headrace.log.segment import Segment
    from headrace.log.segment_files import SegmentFiles


class PendingCheckpoint(Struct, frozen=True):
    """A checkpoint and indexes, whose files may be written once everything up to `position` is durable."""

    number: int
    position: int
    files: list[tuple[Path, bytes]]
    indexed: list[Segment]
    """Segments whose index is among the files, and whole."""


class PendingFile(Struct, eq=False):
    """A file that is to be durable, together with the log up to `position`, before it is counted on.

    `checkpoint`: the number of the first checkpoint that counts on it.
    """

    handle: int
    position: int
    checkpoint: int
    is_durable: bool = False
    is_lost: bool = False
    """True if it could not be made durable and must be given up."""


class AfterSync:
    """The work that waits for a sync. `end`: how far the log is written; `lock`: held while it is synced.

    Its owner adds work; `sync_copies` and `run` are called with the lock, on the thread that syncs.
    """

    def __init__(
        self, filesystem: FileSystem, policy: SyncPolicy, files: SegmentFiles, end: WriteEnd, lock: Lock
    ) -> None:
        self._fs: Final = filesystem
        self._policy: Final = policy
        self._files: Final = files
        self._end: Final = end
        self._lock: Final = lock
        self._doomed: list[tuple[Segment, int, int]] = []
        """Segments given up; before each a position is to be durable and a checkpoint written."""
        self._pending: deque[PendingCheckpoint] = deque()
        """The one that waits; the owner adds, `run` takes."""
        self._copies: list[PendingFile] = []
        self.durable = 0
        """The position up to which the log is known to be durable."""
        self.saved = 0
        """The number of the last checkpoint that was written, or that failed and left none behind."""

    @property
    def has_work(self) -> bool:
        """True if the next sync has more to do than to make appended bytes durable."""
        buries = self._doomed and self._doomed[0][2] <= self.saved
        return bool(self._pending or self._copies or buries)

    def reached(self, position: int) -> None:
        """Note that the log is durable up to a position. With the lock."""
        self.durable = max(self.durable, position)

    def run(self) -> None:
        """Do what waited for the log to be durable. A failure costs room and time only."""
        if self._pending and self._pending[0].position <= self.durable:
            self._write_checkpoint(self._pending.popleft())
        self._unlink_doomed()

    def _run_unsynced(self) -> None:
        if self._policy is SyncPolicy.NEVER:
            with self._lock:
                self.durable = self._end.written
                self.sync_copies()
                self.run()

    # ---- checkpoints ------------------------------------------------------------------------

    def save(self, checkpoint: tuple[Path, bytes], segments: list[Segment]) -> None:
        """Have a checkpoint written when what it counts is durable: all that is written by now.

        `segments`: all of the log; an index that is not on disk yet is written first.
        """
        missing = [segment for segment in segments if not segment.is_indexed]
        files = [(s.index_path, s.index.dump(s.salt, s.base, s.size)) for s in missing if s.size > BEGINNING]
        if self._pending:
            with contextlib.suppress(IndexError):  # `run` may be taking it
                self._pending.popleft()
        indexed = [segment for segment in missing if segment is not self._end.active]  # that one grows
        self._end.drafted += 1
        self._pending.append(
            PendingCheckpoint(self._end.drafted, self._end.written, [*files, checkpoint], indexed)
        )
        self._run_unsynced()

    def _write_checkpoint(self, pending: PendingCheckpoint) -> None:
        durable = self._policy is not SyncPolicy.NEVER
        try:
            for path, data in pending.files:
                replace_file(self._fs, path, data, durable=durable)
        except OSError:  # only the next start takes longer
            if not self._is_forgotten(pending.files[-1][0], durable=durable):
                return
        else:
            for segment in pending.indexed:
                segment.is_indexed = True
        self.saved = pending.number

    def _is_forgotten(self, checkpoint: Path, *, durable: bool) -> bool:
        """True if no earlier checkpoint is left: it would count on files that go or change after this one."""
        try:
            remove_file(self._fs, checkpoint, durable=durable)
        except OSError:
            return False  # they wait for the next checkpoint
        return True

    # ---- segments that are given up ---------------------------------------------------------

    def unlink(self, segment: Segment) -> None:
        """Have the files of a segment unlinked; the record that gives it up must be written by now."""
        self._doomed.append((segment, self._end.written, self._end.drafted + 1))

    @property
    def doomed_bytes(self) -> int:
        """The bytes of segments that were given up and wait for a checkpoint that was not made yet."""
        return sum(segment.size for segment, _, checkpoint in self._doomed if checkpoint > self._end.drafted)

    @property
    def has_doomed(self) -> bool:
        """True if a segment that was given up still has its files."""
        return bool(self._doomed)

    def _unlink_doomed(self) -> None:
        while self._doomed and self._doomed[0][1] <= self.durable and self._doomed[0][2] <= self.saved:
            segment = self._doomed[0][0]
            self._files.close_reader(segment.path)
            try:
                for path in (segment.index_path, segment.path):
                    with contextlib.suppress(FileNotFoundError):
                        self._fs.unlink(path)
            except OSError:
                return  # tried again after the next sync; until then it only takes room
            del self._doomed[0]

    # ---- rewritten segments -----------------------------------------------------------------

    def await_copy(self, handle: int) -> PendingFile:
        """Have a file made durable after everything that is written by now."""
        copy = PendingFile(handle, self._end.written, self._end.drafted + 1)
        self._copies.append(copy)  # without the lock: a sync may hold it for long, and takes this
        self._run_unsynced()
        return copy

    def forget_copy(self, copy: PendingFile) -> None:
        """Wait for a copy no more; its handle may be closed afterwards."""
        if copy.is_durable or copy.is_lost:  # a sync has nothing to do with it any more
            self._copies.remove(copy)
            return
        with self._lock:
            self._copies.remove(copy)

    def sync_copies(self) -> None:
        """Make copies durable whose position in the log is."""
        for copy in list(self._copies):
            if copy.position > self.durable or copy.is_durable or copy.is_lost:
                continue
            try:
                if self._policy is not SyncPolicy.NEVER:
                    self._fs.fsync(copy.handle)
            except OSError:
                copy.is_lost = True  # a later fsync would not say what of it is on disk
            else:
                copy.is_durable = True
