"""The file log when the file system fails: at every call once, when the disk is full, when the power goes."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import pytest
from log_makers import Clock

from harness.tallies import note
from headrace.errors import StorageError
from headrace.log.file import FileLog
from headrace.log.port import NO_LIMITS, Limits, NewMessage, SyncPolicy
from headrace.testing.faultfs import Fault, FaultyFileSystem, MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.log.filesystem import FileSystem

HERE: Final = Path("/logs/one")
SMALL: Final = 1024


def open_log(files: FileSystem, limits: Limits = NO_LIMITS, segment_bytes: int = SMALL) -> FileLog:
    return FileLog(
        HERE,
        limits=limits,
        clock=Clock(),
        filesystem=files,
        segment_bytes=segment_bytes,
        sync=SyncPolicy.GROUP,
    )


def held(log: FileLog) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    sequence = 1
    while sequence <= log.state().last_sequence:
        page = log.read_from(sequence, max_messages=1000)
        assert not page.damaged
        found |= {m.sequence: m.payload for m in page.messages}
        sequence = page.next_sequence
    return found


class Story:
    """Appends, removes and syncs, and knows what each call that returned has promised."""

    def __init__(self, files: FileSystem) -> None:
        self.files = files
        self.log: FileLog | None = None
        self.held: dict[int, bytes] = {}
        self.acknowledged: dict[int, bytes] = {}
        self.unsure: set[int] = set()
        self.last = 0

    def attempt(self, call: Callable[[], None]) -> None:
        try:
            call()
        except StorageError:
            if self.log is not None:
                assert self.log.state().last_sequence == self.last

    def open(self) -> None:
        self.log = open_log(self.files)

    def append(self, *payloads: bytes) -> None:
        assert self.log is not None
        first = self.log.append([NewMessage(b"s.%d" % (n % 3), p) for n, p in enumerate(payloads)])
        assert first == self.last + 1
        self.held |= dict(enumerate(payloads, first))
        self.last += len(payloads)

    def sync(self) -> None:
        assert self.log is not None
        self.log.sync()
        self.acknowledged = dict(self.held)

    def delete(self, sequence: int, erase: bool = False) -> None:
        assert self.log is not None
        if erase:
            self.unsure.add(sequence)  # a failure to overwrite leaves it removed
        if self.log.delete(sequence, erase=erase):
            self.forget(sequence)

    def purge(self, up_to: int) -> None:
        assert self.log is not None
        self.log.purge(up_to=up_to)
        for sequence in [s for s in self.held if s < up_to]:
            self.forget(sequence)

    def forget(self, sequence: int) -> None:
        self.held.pop(sequence, None)
        self.acknowledged.pop(sequence, None)
        self.unsure.add(sequence)

    def run(self) -> None:
        for _ in range(2):
            self.attempt(self.open)
            if self.log is not None:
                break
        assert self.log is not None
        for n in range(6):
            self.attempt(lambda n=n: self.append(*[b"%d.%d" % (n, k) * 20 for k in range(4)]))  # type: ignore[misc]
            self.attempt(self.sync)
        self.attempt(lambda: self.delete(3))
        self.attempt(lambda: self.delete(5, erase=True))
        self.attempt(lambda: self.append(b"after"))
        self.attempt(lambda: self.purge(9))
        self.attempt(self.sync)
        self.attempt(lambda: self.append(b"unsynced"))

    def check(self, log: FileLog, expected: dict[int, bytes]) -> None:
        found = held(log)
        assert {s: p for s, p in found.items() if s not in self.unsure} == {
            s: p for s, p in expected.items() if s not in self.unsure
        }


def calls_of_the_story() -> int:
    files = FaultyFileSystem(MemoryFileSystem())
    Story(files).run()
    return files.calls


@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_failure_at_every_call(fault: Fault, error: int) -> None:
    """What a call that raised was to do is not there; all else is, also after kill -9 and power loss."""
    total = calls_of_the_story()
    assert total > 60
    for n in range(1, total + 1):
        inner = MemoryFileSystem()
        files = FaultyFileSystem(inner, n, error, fault=fault)
        story = Story(files)
        story.run()
        assert files.failed, n
        assert story.log is not None
        story.check(story.log, story.held)
        files.fail_at = 0
        story.append(b"space returned")
        story.sync()
        story.append(b"not synced")
        inner.kill()
        with_everything = open_log(inner)
        story.check(with_everything, story.held)
        inner.crash(Random(n))
        story.check(open_log(inner), {**story.held})
        note("log: calls that failed", 1)
        note("log: images after them", 2)


@pytest.mark.parametrize("seed", range(60))
def test_power_loss(seed: int) -> None:
    """Nothing acknowledged is lost, nothing invented; what is damaged was never acknowledged."""
    random = Random(seed)
    inner = MemoryFileSystem()
    story = Story(inner)
    written: dict[int, bytes] = {}
    for _ in range(4):
        story.open()
        log = story.log
        assert log is not None
        story.last = log.state().last_sequence
        for _ in range(random.randrange(40)):
            story.append(*[random.randbytes(random.randrange(300)) for _ in range(random.randrange(1, 4))])
            written.update(story.held)
            if random.random() < 0.3:
                story.sync()
        if random.random() < 0.3:
            story.purge(random.randrange(story.last + 2))
        inner.crash(random)
        log = open_log(inner)
        found: dict[int, bytes] = {}
        lost: list[int] = []
        sequence = 1
        while sequence <= log.state().last_sequence:
            page = log.read_from(sequence)
            found |= {m.sequence: m.payload for m in page.messages}
            lost += page.damaged
            sequence = page.next_sequence
        missing = {s for s in story.acknowledged if s not in found} - story.unsure
        assert not missing
        assert all(written[s] == p for s, p in found.items())
        assert not set(lost) & set(story.acknowledged)
        assert log.state().messages == len(found)
        if found:  # no gap that was neither removed nor reported
            gone = set(range(min(found), max(found))) - set(found) - set(lost)
            assert gone <= story.unsure
        story.held = dict(found)
        story.acknowledged = dict(found)  # opening synced what it found
        note("log: power losses", 1)
        inner.crash(random)


def test_a_process_that_begins_after_a_failed_sync_sees_what_the_disk_has() -> None:
    """Else what it appends would be durable behind a hole."""
    inner = MemoryFileSystem()
    files = FaultyFileSystem(inner, only={"fdatasync"})
    log = open_log(files, segment_bytes=1 << 20)
    log.append([NewMessage(b"a", b"first")])
    log.sync()
    log.append([NewMessage(b"a", b"second")])
    files.fail_at, files.failures = files.calls + 1, 100
    with pytest.raises(StorageError):
        log.sync()
    inner.kill()

    files.fail_at = 0
    again = open_log(files)
    assert held(again) == {1: b"first"}
    assert again.append([NewMessage(b"a", b"third")]) == 2
    again.sync()
    inner.crash(Random(0))

    assert held(open_log(inner)) == {1: b"first", 2: b"third"}


def fill(log: FileLog) -> None:
    while True:
        log.append([NewMessage(b"a", b"x" * 500)] * 3)


class TestDiskFull:
    def test_nothing_is_half_there_and_space_brings_it_back(self) -> None:
        inner = MemoryFileSystem(capacity=20_000)
        log = open_log(inner, segment_bytes=1 << 20)
        with pytest.raises(StorageError, match="No space left"):
            fill(log)
        count = log.state().last_sequence
        before = log.state()
        assert before.messages == count > 20
        assert count % 3 == 0
        assert len(held(log)) == count

        inner.capacity = None
        assert log.append([NewMessage(b"a", b"y")]) == count + 1
        log.sync()
        inner.crash(Random(1))
        assert len(held(open_log(inner))) == count + 1

    def test_no_appends_while_the_file_cannot_be_cut_back(self) -> None:
        inner = MemoryFileSystem()
        files = FaultyFileSystem(inner, fault=Fault.PARTIAL)
        log = open_log(files)
        log.append([NewMessage(b"a", b"1")])
        files.fail_at, files.failures = files.calls + 1, 3

        for _ in range(2):  # the write and the cut, then the cut
            with pytest.raises(StorageError):
                log.append([NewMessage(b"a", b"2")])

        assert files.failed == ["pwrite", "truncate", "truncate"]
        assert held(log) == {1: b"1"}
        assert log.append([NewMessage(b"a", b"3")]) == 2
        inner.kill()
        assert held(open_log(inner)) == {1: b"1", 2: b"3"}

    def test_limits_still_remove_when_that_cannot_be_written(self) -> None:
        inner = MemoryFileSystem()
        files = FaultyFileSystem(inner, only=["pwrite"])
        log = open_log(files, Limits(max_messages=2))
        log.append([NewMessage(b"a", b"1"), NewMessage(b"a", b"2")])
        log.append([NewMessage(b"a", b"3")])
        files.fail_at = files.calls + 1
        with pytest.raises(StorageError):
            log.append([NewMessage(b"a", b"4")])
        assert held(log) == {2: b"2", 3: b"3"}

        log.append([NewMessage(b"a", b"4")])
        inner.kill()

        assert held(open_log(inner)) == {2: b"2", 3: b"3", 4: b"4"}  # what 4 removed was not written yet
        inner.kill()
        assert held(open_log(inner, Limits(max_messages=2))) == {3: b"3", 4: b"4"}

    @pytest.mark.parametrize(
        "limits", [Limits(max_messages=5), Limits(max_bytes=300), Limits(max_messages_per_subject=2)]
    )
    def test_a_batch_costs_one_write_at_a_limit_too(self, limits: Limits) -> None:
        files = FaultyFileSystem(MemoryFileSystem(), only=["pwrite"])
        log = open_log(files, limits, segment_bytes=1 << 20)
        before = files.calls
        for n in range(30):
            log.append([NewMessage(b"s.%d" % (n % 4), b"1"), NewMessage(b"s.%d" % (n % 3), b"2")])

        assert files.calls - before == 30


@pytest.mark.parametrize("limits", [Limits(max_messages_per_subject=1), Limits(max_age_ns=5)])
def test_limits_that_cannot_be_applied_leave_those_before(limits: Limits) -> None:
    files = FaultyFileSystem(MemoryFileSystem(), only=["pread"])
    log = FileLog(Path("/log"), filesystem=files, clock=lambda: 100)
    for n in range(8):
        log.append([NewMessage(b"s", b"%d" % n, time_ns=1)])
    held = log.state().messages
    files.fail_at, files.failures = files.calls + 1, 100
    with pytest.raises(StorageError):
        log.limits = limits
    files.fail_at = 0
    assert log.limits == Limits()
    log.append([NewMessage(b"s", b"more")])
    assert log.state().messages == held + 1
    log.limits = limits
    assert log.limits == limits
    assert log.state().messages <= 1
    log.close()


class TestFailedSync:
    def test_what_was_lost_is_written_again_before_anything_is_promised(self) -> None:
        inner = MemoryFileSystem()
        files = FaultyFileSystem(inner, only=["fdatasync"])
        log = open_log(files)
        log.append([NewMessage(b"a", b"1")])
        files.fail_at = files.calls + 1
        with pytest.raises(StorageError, match="cannot sync"):
            log.sync()

        assert log.sync() == log.written

        inner.crash(Random(0))
        assert held(open_log(inner)) == {1: b"1"}

    def test_an_append_heals_it_first_or_is_refused(self) -> None:
        inner = MemoryFileSystem()
        files = FaultyFileSystem(inner, only=["fdatasync", "fsync"])
        log = open_log(files)
        log.append([NewMessage(b"a", b"1")])
        files.fail_at, files.failures = files.calls + 1, 2
        with pytest.raises(StorageError):
            log.sync()
        with pytest.raises(StorageError, match="could not be synced"):
            log.append([NewMessage(b"a", b"2")])

        log.append([NewMessage(b"a", b"3")])
        log.sync()

        inner.crash(Random(0))
        assert held(open_log(inner)) == {1: b"1", 2: b"3"}

    def test_bytes_that_cannot_be_read_back_are_never_promised(self) -> None:
        inner = MemoryFileSystem()
        files = FaultyFileSystem(inner, only=["fdatasync"])
        log = open_log(files)
        log.append([NewMessage(b"a", b"1")])
        files.fail_at = files.calls + 1
        with pytest.raises(StorageError):
            log.sync()
        spoil(inner, "log", log._segments.active.size - 1)  # zeros that were reserved follow

        for _ in range(2):
            with pytest.raises(StorageError, match="open the log again"):
                log.sync()
        with pytest.raises(StorageError, match="open the log again"):
            log.append([NewMessage(b"a", b"2")])


def spoil(files: MemoryFileSystem, suffix: str, offset: int) -> None:
    """Turns one byte of the newest file of a kind."""
    from headrace.log.filesystem import FileMode

    name = max(n for n in files.listdir(HERE) if n.endswith(suffix))
    handle = files.open(HERE / name, FileMode.UPDATE)
    place = offset % files.size(handle)
    (byte,) = files.pread(handle, 1, place)
    files.pwrite(handle, bytes([byte ^ 0xFF]), place)
    files.close(handle)


@pytest.mark.parametrize("policy", list(SyncPolicy))
def test_fsync_is_called_as_the_policy_says(policy: SyncPolicy) -> None:
    files = FaultyFileSystem(MemoryFileSystem(), only=["fdatasync", "fsync", "fsync_dir"])
    log = FileLog(HERE, clock=Clock(), filesystem=files, segment_bytes=300, sync=policy)
    opened = files.calls
    for n in range(10):
        log.append([NewMessage(b"a", b"%d" % n * 50)])

    assert (files.calls > opened) == (policy is not SyncPolicy.NEVER)
    before = files.calls
    log.close()
    assert (files.calls > before) == (policy is not SyncPolicy.NEVER)
