"""The committer of a shard with `commit: disk`: when changes are written, whoever asks for a sync or not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.bucket.backlog import MOST_UNSYNCED, BucketBacklog
from headrace.bucket.backlog_format import SegmentHead, url_digest
from headrace.bucket.changes import Write
from headrace.bucket.disk_committer import DiskCommitter
from headrace.bucket.journal import Journal
from headrace.bucket.leftover import read_leftover
from headrace.log.committer import InlineCommitter
from headrace.log.filesystem import RealFileSystem
from headrace.log.memory import MemoryLog
from headrace.testing.faultfs import MemoryFileSystem

if TYPE_CHECKING:
    from headrace.engine.syncer import SyncJob
    from headrace.log.filesystem import FileSystem
    from headrace.log.port import Done, Syncable

FOLDER = Path("/store/.bucket/backlog")
URL = url_digest("s3://b/p")


class HeldSyncs(InlineCommitter):
    """Syncs that wait until the test has them done, as behind one that is under way."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Syncable, Done]] = []

    def request(self, log: Syncable, done: Done) -> None:
        self.waiting.append((log, done))

    def go_on(self) -> None:
        waiting, self.waiting = self.waiting, []
        for log, done in waiting:
            super().request(log, done)


class DiskBench:
    """A committer over a backlog, on a disk in memory unless another one is given."""

    def __init__(
        self, syncs: InlineCommitter, files: FileSystem | None = None, folder: Path = FOLDER
    ) -> None:
        self.memory = MemoryFileSystem()
        self.journal = Journal()
        self.backlog = BucketBacklog(
            files or self.memory,
            folder,
            SegmentHead("js", URL, 0, 1, bytes(16), 0),
            self.journal,
            clock=lambda: 0.0,
            wall_ns=lambda: 7,
        )
        self.left = 0
        self.backlog.when_left = self._note_left
        self.backlog.begin()
        self.committer = DiskCommitter(self.backlog, syncs)

    def _note_left(self) -> None:
        self.left += 1

    def change(self, size: int = 1) -> None:
        with self.journal.lock:
            self.journal.record(Write(1, self.journal.position, b"x" * size))

    def found(self) -> int:
        """Kill the process; return the position that a start finds."""
        self.memory.kill()
        left = read_leftover(self.memory, FOLDER, "js", URL)
        left.close(self.memory)
        return max((record.end for record in left.records), default=0)


def test_changes_without_a_request_are_written_at_the_end_of_the_turn() -> None:
    bench = DiskBench(HeldSyncs())
    bench.committer.begin_turn()
    assert bench.committer.in_turn
    bench.change()
    bench.change()
    bench.committer.end_turn(is_last=True)
    assert not bench.committer.in_turn
    assert bench.found() == 2


def test_changes_that_a_request_covers_are_left_to_its_sync() -> None:
    syncs = HeldSyncs()
    bench = DiskBench(syncs)
    told: list[object] = []
    bench.committer.begin_turn()
    bench.change()
    bench.committer.request(MemoryLog(), told.append)
    bench.committer.end_turn(is_last=True)
    assert bench.journal.pending_bytes > 0, "it was written twice"
    syncs.go_on()
    assert told == [None]
    assert bench.found() == 1


def test_changes_behind_the_last_request_are_written_at_the_end_of_the_turn() -> None:
    bench = DiskBench(HeldSyncs())
    bench.committer.begin_turn()
    bench.change()
    bench.committer.request(MemoryLog(), lambda _: None)
    bench.change()
    bench.committer.end_turn(is_last=False)
    assert bench.found() == 2


def test_only_changes_that_nobody_asked_for_are_told_of_behind_a_sync(tmp_path: Path) -> None:
    bench = DiskBench(HeldSyncs(), RealFileSystem(), tmp_path / "backlog")

    def synced_beside(*, asks: bool) -> int:
        """Have a change recorded while a sync is under way; return how often it was told of."""
        bench.left = 0

        def submit(_descriptor: int) -> SyncJob:
            bench.change()
            if asks:
                bench.committer.request(MemoryLog(), lambda _: None)
            return DONE

        bench.change()
        job = bench.backlog.begin_sync(submit)
        assert job is not None
        assert bench.backlog.end_sync(job) is None
        return bench.left

    try:
        assert synced_beside(asks=True) == 0
        assert synced_beside(asks=False) == 1
    finally:
        bench.backlog.close()


def test_much_that_nobody_waits_for_is_synced_all_the_same() -> None:
    syncs = HeldSyncs()
    bench = DiskBench(syncs)
    for _ in range(2):
        bench.committer.begin_turn()
        bench.change(MOST_UNSYNCED + 1)
        bench.committer.end_turn(is_last=True)
    assert len(syncs.waiting) == 1


def test_a_turn_that_ends_behind_the_stop_writes_nothing() -> None:
    bench = DiskBench(HeldSyncs())
    bench.committer.begin_turn()
    bench.change()
    bench.committer.stop()
    bench.committer.end_turn(is_last=True)
    assert bench.found() == 0


class _Done:
    error = 0


DONE: SyncJob = _Done()  # type: ignore[assignment]  # a job that is done
