"""Room that a log reserves behind its records: who sees it, what it takes, what a power loss leaves."""

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
from headrace.log.filesystem import FileMode, read_file
from headrace.log.port import NewMessage, SyncPolicy, size_of
from headrace.log.segment import HEADER_BYTES, segment_path
from headrace.log.segments import BLOCK, LARGEST_STEP
from headrace.log.view import LogView, read_slice
from headrace.testing.faultfs import FaultyFileSystem, MemoryFileSystem

if TYPE_CHECKING:
    from headrace.log.filesystem import FileSystem

HERE: Final = Path("/logs/one")
FIRST: Final = segment_path(HERE, 1)
SEGMENT: Final = 64 << 10


def open_log(
    files: FileSystem, *, segment_bytes: int = SEGMENT, sync: SyncPolicy = SyncPolicy.GROUP
) -> FileLog:
    return FileLog(HERE, clock=Clock(), filesystem=files, segment_bytes=segment_bytes, sync=sync)


def message(number: int, size: int = 100) -> NewMessage:
    return NewMessage(b"s", b"%06d" % number + bytes([1 + number % 255]) * size)


def fill(log: FileLog, count: int, size: int = 100) -> None:
    for _ in range(count):
        log.append([message(log.state().last_sequence + 1, size)])


def length(files: FileSystem, path: Path = FIRST) -> int:
    return len(read_file(files, path))


def held(log: FileLog) -> list[int]:
    page = log.read_from(1, max_messages=100_000, max_bytes=1 << 30)
    assert all(m.payload == message(m.sequence, len(m.payload) - 6).payload for m in page.messages)
    return [m.sequence for m in page.messages]


def keep(content: bytes) -> MemoryFileSystem:
    """A disk on which only this segment is."""
    copy = MemoryFileSystem()
    for directory in (HERE.parent, HERE):
        copy.mkdir(directory)
    handle = copy.open(FIRST, FileMode.CREATE)
    copy.pwrite(handle, content, 0)
    copy.close(handle)
    return copy


class TestRoom:
    def test_is_zeros_behind_the_records_and_counts_for_nothing(self) -> None:
        files = MemoryFileSystem()
        log = open_log(files)
        fill(log, 100)

        size = log._segments.active.size
        content = read_file(files, FIRST)
        assert len(content) > size
        assert not any(content[size:])
        assert log.state().bytes == sum(size_of(message(n)) for n in range(1, 101))
        assert held(log) == list(range(1, 101))

    def test_goes_at_a_close(self) -> None:
        files = MemoryFileSystem()
        log = open_log(files)
        fill(log, 100)
        size = log._segments.active.size
        log.close()

        assert length(files) == size

    def test_goes_with_the_next_segment(self) -> None:
        files = MemoryFileSystem()
        log = open_log(files, segment_bytes=10_000)
        fill(log, 200)

        sealed = log._segments.all[:-1]
        assert len(sealed) > 1
        assert [length(files, s.path) for s in sealed] == [s.size for s in sealed]

    def test_is_one_block_for_a_log_with_a_message(self, tmp_path: Path) -> None:
        for name in range(50):
            log = FileLog(tmp_path / str(name), clock=Clock())
            log.append([message(1)])
            log.sync()
        sizes = {path.stat().st_size for path in tmp_path.glob("*/*.log")}
        assert sizes == {BLOCK}

    def test_grows_with_the_segment_and_stays_a_quarter(self) -> None:
        files = FaultyFileSystem(MemoryFileSystem(), only=["reserve"])
        log = open_log(files, segment_bytes=64 << 20)
        for _ in range(100):
            log.append([message(n, 1000) for n in range(100)])
            log.append([message(1)])
            size = log._segments.active.size
            assert length(files) - size <= min(size // 4, LARGEST_STEP) + BLOCK
        assert files.calls < 100

    def test_is_not_taken_for_a_write_that_is_larger(self) -> None:
        files = FaultyFileSystem(MemoryFileSystem(), only=["reserve"])
        log = open_log(files, segment_bytes=64 << 20)
        log.append([message(1, 100_000)])

        assert files.calls == 0
        assert length(files) == log._segments.active.size

    def test_most_appends_change_no_length(self) -> None:
        files = MemoryFileSystem()
        log = open_log(files, segment_bytes=64 << 20)
        fill(log, 500)
        lengths = set()
        for _ in range(1000):
            fill(log, 1)
            lengths.add(length(files))
        assert len(lengths) < 20

    @pytest.mark.parametrize("size", [100, 2_000, 40_000])
    def test_writes_of_any_common_size_find_it(self, size: int) -> None:
        """Also many publishers' messages together, one write: what is reserved lasts for several of those."""
        files = FaultyFileSystem(MemoryFileSystem(), only=["reserve"])
        log = open_log(files, segment_bytes=64 << 20)
        fill(log, 2 + 4 * LARGEST_STEP // size, size)
        before = files.calls
        count = max(100, 8 * LARGEST_STEP // size)
        fill(log, count, size)
        assert 1 <= files.calls - before <= 2 + count * (size + 100) // (LARGEST_STEP - size)

    @pytest.mark.parametrize("policy", [SyncPolicy.NEVER, SyncPolicy.INTERVAL])
    def test_is_not_taken_where_nobody_waits_for_a_sync(self, policy: SyncPolicy) -> None:
        files = MemoryFileSystem()
        log = open_log(files, sync=policy)
        fill(log, 10)
        assert length(files) == log._segments.active.size

    @pytest.mark.parametrize("error", [errno.ENOTSUP, errno.ENOSPC, errno.EIO])
    def test_is_done_without_where_there_is_none(self, error: int) -> None:
        files = FaultyFileSystem(MemoryFileSystem(), 1, error, failures=1 << 30, only=["reserve"])
        log = open_log(files, segment_bytes=10_000)
        fill(log, 200)
        log.sync()
        log.close()

        assert files.failed
        assert held(open_log(files)) == list(range(1, 201))

    def test_a_failed_cut_keeps_the_segment_until_it_works(self) -> None:
        files = FaultyFileSystem(MemoryFileSystem(), only=["truncate"])
        log = open_log(files, segment_bytes=6000)
        fill(log, 30)
        files.fail_at = files.calls + 1
        with pytest.raises(StorageError, match="to its records"):
            fill(log, 30)
        count = log.state().last_sequence
        fill(log, 30)
        log.sync()

        assert held(log) == list(range(1, count + 31))
        assert length(files) == log._segments.all[0].size

    def test_is_there_on_a_real_disk(self, tmp_path: Path) -> None:
        log = FileLog(tmp_path / "log", clock=Clock())
        fill(log, 100)
        path = segment_path(tmp_path / "log", 1)
        size = log._segments.active.size

        assert path.stat().st_size > size
        assert path.stat().st_blocks * 512 >= path.stat().st_size
        log.close()
        assert path.stat().st_size == size


class TestUnsynced:
    def test_is_what_was_appended_since(self) -> None:
        log = open_log(MemoryFileSystem())
        log.sync()
        before = log._segments.active.size
        fill(log, 3)
        assert log.unsynced == log._segments.active.size - before
        log.sync()
        assert log.unsynced == 0

    def test_is_very_much_while_the_file_itself_is_not_durable(self) -> None:
        log = open_log(MemoryFileSystem())
        assert log.unsynced > 1 << 40
        log.sync()
        assert log.unsynced == 0

    def test_is_very_much_while_a_checkpoint_waits(self) -> None:
        log = open_log(MemoryFileSystem())
        fill(log, 3)
        log.sync()
        log._checkpoints.write()
        assert log.unsynced > 1 << 40
        log.sync()
        assert log.unsynced == 0


class TestReaders:
    def test_a_view_of_a_log_that_is_written_sees_records_only(self, tmp_path: Path) -> None:
        log = FileLog(tmp_path / "log", clock=Clock())
        fill(log, 100)
        seen = LogView(tmp_path / "log")

        assert (seen.last_sequence, seen.damaged) == (100, [])
        found = [
            (m.sequence, damage)
            for part in seen.slices(1, 101, 3)
            for messages, damage in read_slice(part)
            for m in messages
        ]
        assert found == [(n, []) for n in range(1, 101)]

    def test_a_segment_that_ends_after_a_view_was_made_is_read_all_the_same(self, tmp_path: Path) -> None:
        log = FileLog(tmp_path / "log", clock=Clock(), segment_bytes=20_000)
        fill(log, 100)
        seen = LogView(tmp_path / "log")
        fill(log, 100)
        assert len(log._segments.all) > 1

        parts = [messages for part in seen.slices(1, 101, 1) for messages, _ in read_slice(part)]
        assert [m.sequence for messages in parts for m in messages] == list(range(1, 101))


class TestCutOff:
    """What is left when the process is killed, or the power goes in the middle of a write."""

    def test_a_killed_process_leaves_zeros_and_no_damage(self) -> None:
        files = MemoryFileSystem()
        log = open_log(files)
        fill(log, 300)
        files.kill()
        again = open_log(files)

        assert (held(again), again.cut_bytes) == (list(range(1, 301)), 0)
        assert again.state().damaged == ()
        assert length(files) == again._segments.active.size

    def test_from_a_checkpoint_too(self) -> None:
        files = MemoryFileSystem()
        log = open_log(files)
        fill(log, 200)
        log._checkpoints.write()
        log.sync()
        fill(log, 100)
        files.kill()
        again = open_log(files)

        assert (held(again), again.cut_bytes, again.state().damaged) == (list(range(1, 301)), 0, ())

    def test_what_a_checkpoint_counts_and_is_zeros_now_is_reported(self) -> None:
        """The length of the file says nothing: a copy taken of a running store, or a disk that lied."""
        files = MemoryFileSystem()
        log = open_log(files)
        fill(log, 200)
        kept = log._segments.active.size
        fill(log, 100)
        log._checkpoints.write()
        log.sync()
        fill(log, 1)
        length_then = length(files)
        handle = files.open(FIRST, FileMode.UPDATE)
        files.truncate(handle, kept)
        files.reserve(handle, kept, length_then - kept)
        files.kill()
        again = open_log(files)

        assert held(again) == list(range(1, 201))
        assert again.state().damaged == tuple(range(201, 301))
        assert again.append([message(1)]) == 301

    @pytest.mark.parametrize("part", ["head", "tail"])
    def test_a_record_torn_anywhere_over_zeros_is_not_there(self, part: str) -> None:
        """Whatever of it came to the disk, and the room behind it is zeros or is not there."""
        files = MemoryFileSystem()
        log = open_log(files)
        fill(log, 20)
        start = log._segments.active.size
        fill(log, 1)
        end = log._segments.active.size
        content = read_file(files, FIRST)
        for cut in range(start, end):
            torn = bytearray(content)
            torn[slice(cut, end) if part == "head" else slice(start, cut + 1)] = bytes(
                end - cut if part == "head" else cut + 1 - start
            )
            for until in (len(torn), end, *((cut,) if part == "head" else ())):
                again = open_log(keep(bytes(torn[:until])))
                assert held(again) == list(range(1, 21))
                assert again.state().damaged == ()
                assert again.cut_bytes == len(bytes(torn[start:until]).rstrip(b"\0"))
                fill(again, 1)
                assert held(again) == list(range(1, 22))

    def test_a_new_segment_of_which_only_the_length_came_to_the_disk_is_none(self) -> None:
        for size in (1, HEADER_BYTES, HEADER_BYTES + 1, BLOCK):
            again = open_log(keep(bytes(size)))
            assert again.state().damaged == ()
            fill(again, 3)
            assert held(again) == [1, 2, 3]

    @pytest.mark.parametrize("segment_bytes", [6_000, 64 << 20])
    def test_nothing_acknowledged_is_lost_with_the_power(self, segment_bytes: int) -> None:
        """Steps of room, records over zeros and cuts before the next segment, each durable or not."""
        for seed in range(120):
            random = Random(seed)
            files = MemoryFileSystem()
            log = open_log(files, segment_bytes=segment_bytes)
            durable = 0
            for _ in range(random.randrange(1, 120)):
                first = log.state().last_sequence + 1
                log.append([message(first + n, 50) for n in range(random.randrange(1, 6))])
                if random.random() < 0.5:
                    log.sync()
                    durable = log.state().last_sequence
            files.crash(random)
            again = open_log(files, segment_bytes=segment_bytes)
            found = held(again)
            assert found[:durable] == list(range(1, durable + 1)), seed
            assert all(sequence > durable for sequence in again.state().damaged), seed
            assert length(files, again._segments.active.path) == again._segments.active.size
            fill(again, 3)
            again.sync()
            kept = held(again)
            files.crash(random)
            assert held(open_log(files, segment_bytes=segment_bytes)) == kept, seed
            note("log: power losses", 2)
