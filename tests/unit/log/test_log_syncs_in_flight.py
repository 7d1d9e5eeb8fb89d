"""Syncs that are begun and end later: what they cover, what waits for them, what a failure of one means."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, cast

import pytest
from log_makers import Clock

from harness.tallies import note
from headrace.engine.syncer import Syncer, SyncJob
from headrace.log import syncs_in_flight
from headrace.log.committer import ThreadCommitter
from headrace.log.file import FileLog
from headrace.log.filesystem import RealFileSystem
from headrace.log.memory import MemoryLog
from headrace.log.port import NewMessage, SyncPolicy
from headrace.testing.faultfs import MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.errors import StorageError
    from headrace.log.filesystem import FileSystem
    from headrace.log.port import MessageLog

HERE: Final = Path("/logs/one")
WAIT_S: Final = 20
"""Seconds for what happens at once on another thread; a test that gets there fails."""


class Job:
    """A sync that ends when a test says so, or when somebody waits for it."""

    def __init__(self, end: Callable[[], int]) -> None:
        self._end = end
        self.is_done = False
        self.error = 0
        self.seconds = 0.0

    def wait(self) -> None:
        if not self.is_done:
            self.error = self._end()
            self.is_done = True


class SlowDisk(MemoryFileSystem):
    """Hands out jobs: of what was written when one is asked for, its end makes durable just that."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[Job] = []
        self.errors: list[int] = []

    def descriptor(self, handle: int) -> int | None:
        return handle

    def submit(self, descriptor: int) -> SyncJob:
        inode = self._handle(descriptor).inode
        covered = list(inode.pending)

        def end() -> int:
            if self.errors:
                self.lose_unsynced(descriptor)
                return self.errors.pop()
            for change in covered:
                if change in inode.pending:
                    change.apply(inode.durable)
                    inode.pending.remove(change)
            return 0

        self.jobs.append(Job(end))
        return cast("SyncJob", self.jobs[-1])


def open_log(files: FileSystem, *, segment_bytes: int = 64 << 10, directory: Path = HERE) -> FileLog:
    return FileLog(directory, clock=Clock(), filesystem=files, segment_bytes=segment_bytes)


def fill(log: MessageLog, count: int = 1, size: int = 100) -> None:
    for _ in range(count):
        log.append([NewMessage(b"s", b"x" * size)])


def begun(log: MessageLog, disk: SlowDisk) -> SyncJob:
    """A sync of all that was appended until now."""
    job = log.begin_sync(disk.submit)
    assert job is not None
    return job


def held(log: MessageLog) -> list[int]:
    return list(log.read_from(1, max_messages=100_000, max_bytes=1 << 30).messages.sequences())


@pytest.fixture
def disk() -> SlowDisk:
    return SlowDisk()


@pytest.fixture
def log(disk: SlowDisk) -> FileLog:
    """One whose files are there, durably."""
    made = open_log(disk)
    fill(made)
    made.sync()
    return made


class TestBegin:
    def test_covers_what_was_appended_before(self, disk: SlowDisk, log: FileLog) -> None:
        fill(log, 2)
        job = begun(log, disk)
        before = log.unsynced
        fill(log)
        added = log.unsynced - before
        job.wait()
        assert log.end_sync(job) is None
        assert log.unsynced == added

    def test_there_is_one_at_a_time(self, disk: SlowDisk, log: FileLog) -> None:
        fill(log)
        job = begun(log, disk)
        fill(log)
        assert log.begin_sync(disk.submit) is None
        job.wait()
        log.end_sync(job)
        assert log.begin_sync(disk.submit) is not None

    def test_none_where_nothing_is_to_be_synced(self, disk: SlowDisk, log: FileLog) -> None:
        assert log.begin_sync(disk.submit) is None

    def test_none_of_a_log_whose_names_are_not_durable(self, disk: SlowDisk) -> None:
        log = open_log(disk)
        fill(log)
        assert log.begin_sync(disk.submit) is None

    def test_none_while_a_checkpoint_waits(self, disk: SlowDisk, log: FileLog) -> None:
        fill(log)
        log._checkpoints.write()
        assert log.begin_sync(disk.submit) is None
        log.sync()
        fill(log)
        assert log.begin_sync(disk.submit) is not None

    def test_none_of_a_log_in_memory_or_closed_or_without_files(self, disk: SlowDisk, log: FileLog) -> None:
        log.close()
        late = FileLog(HERE / "late", filesystem=disk, make=lambda: None)
        for each in (MemoryLog(), log, late):
            assert each.begin_sync(disk.submit) is None

    def test_none_where_files_have_no_descriptor(self) -> None:
        log = open_log(MemoryFileSystem())
        fill(log)
        log.sync()
        fill(log)
        assert log.begin_sync(SlowDisk().submit) is None


class TestMeanwhile:
    @pytest.mark.parametrize("does", ["sync", "close", "roll", "cut"])
    def test_what_changes_the_file_otherwise_waits_for_it(
        self, does: str, disk: SlowDisk, log: FileLog
    ) -> None:
        fill(log)
        job = begun(log, disk)
        fill(log)
        assert not job.is_done
        match does:
            case "sync":
                log.sync()
            case "close":
                log.close()
            case "roll":
                fill(log, 1, 70_000)
            case "cut":
                log._segments._cut_back()
        assert job.is_done
        assert log.end_sync(job) is None

    def test_reads_and_removals_do_not(self, disk: SlowDisk, log: FileLog) -> None:
        fill(log, 5)
        job = begun(log, disk)
        assert held(log) == [1, 2, 3, 4, 5, 6]
        log.delete(3)
        log.purge(up_to=2)
        assert held(log) == [2, 4, 5, 6]
        assert not job.is_done


class TestFailure:
    def test_is_told_and_what_was_written_is_written_again(self, disk: SlowDisk, log: FileLog) -> None:
        fill(log, 3)
        disk.errors = [errno.EIO]
        job = begun(log, disk)
        job.wait()
        error = log.end_sync(job)
        assert error is not None
        assert str(error) == "cannot sync 00000000000000000001.log: Input/output error"
        assert log.begin_sync(disk.submit) is None
        log.sync()
        disk.crash(Random(1))
        assert held(open_log(disk)) == [1, 2, 3, 4]

    def test_is_found_by_whoever_waits_first(self, disk: SlowDisk, log: FileLog) -> None:
        fill(log, 3)
        disk.errors = [errno.EIO]
        job = begun(log, disk)
        log.sync()
        error = log.end_sync(job)
        assert error is not None
        assert log.unsynced == 0
        disk.crash(Random(1))
        assert held(open_log(disk)) == [1, 2, 3, 4]


@pytest.mark.parametrize("segment_bytes", [6_000, 64 << 20])
def test_nothing_acknowledged_is_lost_with_the_power(segment_bytes: int) -> None:
    """Appends of any size, syncs of both kinds, failures of them, and the power goes at any moment."""
    for seed in range(150):
        random = Random(seed)
        disk = SlowDisk()
        log = open_log(disk, segment_bytes=segment_bytes)
        durable = covered = 0
        job: SyncJob | None = None
        for _ in range(random.randrange(1, 100)):
            fill(log, random.randrange(4), random.choice([10, 300, 5_000]))
            if job is None:
                disk.errors = [errno.EIO] if random.random() < 0.05 else []
                job, covered = log.begin_sync(disk.submit), log.state().last_sequence
                if job is None and random.random() < 0.5:
                    log.sync()
                    durable = log.state().last_sequence
            elif random.random() < 0.5:
                job.wait()
                if log.end_sync(job) is None:
                    durable = max(durable, covered)
                job = None
        disk.crash(random)
        again = open_log(disk, segment_bytes=segment_bytes)
        assert held(again)[:durable] == list(range(1, durable + 1)), seed
        assert all(sequence > durable for sequence in again.state().damaged), seed
        note("log: power losses", 1)


# ---- through the committer ------------------------------------------------------------------


class Watched(RealFileSystem):
    """Counts what is begun; its files can be of a kind that the system does not sync."""

    def __init__(self) -> None:
        self.begun = 0
        self.pipe: tuple[int, int] | None = None

    def descriptor(self, handle: int) -> int | None:
        self.begun += 1
        return handle if self.pipe is None else self.pipe[0]

    def break_files(self) -> None:
        self.pipe = os.pipe()

    def mend_files(self) -> None:
        for end in self.pipe or ():
            os.close(end)
        self.pipe = None


@pytest.fixture
def files() -> Iterator[Watched]:
    made = Watched()
    yield made
    made.mend_files()


class Owner:
    """A loop with a committer, and what was told on it, in order."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.told: list[tuple[str, StorageError | None]] = []
        self.changed = asyncio.Event()
        self.group = self.committer()

    def committer(self, policy: SyncPolicy = SyncPolicy.GROUP) -> ThreadCommitter:
        loop = self.loop
        return ThreadCommitter(
            loop.call_soon_threadsafe, policy, add_reader=loop.add_reader, remove_reader=loop.remove_reader
        )

    def request(self, log: MessageLog, name: str) -> None:
        """One more message, and its sync."""

        def tell(error: StorageError | None) -> None:
            self.told.append((name, error))
            self.changed.set()

        fill(log)
        self.group.request(log, tell)

    def names(self, count: int) -> list[str]:
        """Whom `count` calls told."""

        async def run() -> None:
            async with asyncio.timeout(WAIT_S):
                while len(self.told) < count:
                    self.changed.clear()
                    await self.changed.wait()

        self.loop.run_until_complete(run())
        return [name for name, _ in self.told]

    @property
    def errors(self) -> list[str]:
        return [str(error or "") for _, error in self.told]


@pytest.fixture
def owner() -> Iterator[Owner]:
    made = Owner()
    yield made
    made.group.stop()
    made.loop.close()


def real_log(files: FileSystem, path: Path) -> FileLog:
    log = open_log(files, directory=path)
    fill(log)
    log.sync()
    return log


def test_who_comes_while_one_goes_on_waits_for_the_next(tmp_path: Path, files: Watched, owner: Owner) -> None:
    log = real_log(files, tmp_path)
    for name in "abcd":
        owner.request(log, name)
    assert files.begun == 1
    assert owner.names(4) == ["a", "b", "c", "d"]
    assert files.begun == 2
    assert owner.errors == [""] * 4
    assert log.unsynced == 0


def test_many_logs_have_theirs_in_turn(tmp_path: Path, files: Watched, owner: Owner) -> None:
    logs = [real_log(files, tmp_path / str(number)) for number in range(20)]
    for turn in range(5):
        for number, log in enumerate(logs):
            owner.request(log, f"{number} {turn}")
    names = owner.names(100)
    for number in range(20):
        of_one = [name for name in names if name.startswith(f"{number} ")]
        assert of_one == [f"{number} {turn}" for turn in range(5)]
    assert not any(owner.errors)


def test_a_failure_is_told_to_those_it_is_for(tmp_path: Path, files: Watched, owner: Owner) -> None:
    log = real_log(files, tmp_path)
    files.break_files()
    owner.request(log, "a")
    owner.names(1)
    files.mend_files()
    owner.request(log, "b")
    owner.names(2)
    assert owner.errors == ["cannot sync 00000000000000000001.log: Invalid argument", ""]
    assert held(log) == [1, 2, 3]


def test_what_is_not_for_it_is_done_by_the_worker(tmp_path: Path, files: Watched, owner: Owner) -> None:
    log = real_log(files, tmp_path)
    log._checkpoints.write()
    for name in "ab":
        owner.request(log, name)
    assert owner.names(2) == ["a", "b"]
    assert log.unsynced == 0


@pytest.mark.parametrize("is_new", [False, True])
def test_a_stop_tells_everybody(tmp_path: Path, files: Watched, owner: Owner, *, is_new: bool) -> None:
    """Also those whose sync would have begun when the present one had ended."""
    log = real_log(files, tmp_path / "log")
    other = open_log(files, directory=tmp_path / "other") if is_new else log
    for name in "abc":
        owner.request(log, name)
        owner.request(other, name)
    owner.group.stop()
    assert sorted(name for name, _ in owner.told) == sorted("abcabc")
    assert not any(owner.errors)
    owner.group.stop()


def test_where_the_loop_is_closed_the_worker_syncs(tmp_path: Path, files: Watched, owner: Owner) -> None:
    log = real_log(files, tmp_path)
    owner.loop.close()
    owner.request(log, "a")
    owner.group.stop()
    assert owner.told == [("a", None)]
    assert log.unsynced == 0


@pytest.mark.parametrize("error", [OSError(errno.EMFILE, "no descriptors"), RuntimeError("no threads")])
def test_where_no_thread_is_to_be_had_the_worker_syncs(
    tmp_path: Path, files: Watched, owner: Owner, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail() -> Syncer:
        raise error

    monkeypatch.setattr(syncs_in_flight, "Syncer", fail)
    log = real_log(files, tmp_path)
    owner.request(log, "a")
    assert owner.names(1) == ["a"]
    assert (owner.errors, log.unsynced, files.begun) == ([""], 0, 0)


def test_a_loop_that_is_closed_while_one_goes_on(tmp_path: Path, files: Watched, owner: Owner) -> None:
    log = real_log(files, tmp_path)
    owner.request(log, "a")
    owner.loop.close()
    owner.request(log, "b")
    owner.group.stop()
    assert owner.told == [("a", None), ("b", None)]


@pytest.mark.parametrize("policy", [SyncPolicy.INTERVAL, SyncPolicy.NEVER])
def test_other_policies_begin_none(policy: SyncPolicy, tmp_path: Path, files: Watched, owner: Owner) -> None:
    log = real_log(files, tmp_path)
    owner.group = owner.committer(policy)
    owner.request(log, "a")
    assert owner.names(1) == ["a"]
    assert files.begun == 0


def test_a_real_file_is_durable_by_its_descriptor(tmp_path: Path) -> None:
    """What is given out is the descriptor of the segment that is written."""
    log, syncer = real_log(RealFileSystem(), tmp_path / "log"), Syncer()
    seen: list[int] = []

    def submit(descriptor: int) -> SyncJob:
        seen.append(descriptor)
        return syncer.submit(descriptor)

    fill(log)
    job = log.begin_sync(submit)
    assert job is not None
    assert os.readlink(f"/proc/self/fd/{seen[0]}") == str(tmp_path / "log" / "00000000000000000001.log")
    syncer.stop()
    assert log.end_sync(job) is None
    log.close()
