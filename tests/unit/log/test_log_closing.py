"""The mark of a store that was closed in order: when it saves syncs, and when it is not believed."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import pytest
from log_makers import Clock, put, sequences

from headrace.errors import HeadraceError, LogError
from headrace.log.closing import NAME
from headrace.log.filesystem import FileMode, RealFileSystem
from headrace.log.port import NewMessage, SyncPolicy
from headrace.log.store import FileStore
from headrace.testing.faultfs import Fault, FaultyFileSystem, MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.log.filesystem import FileSystem

ROOT: Final = Path("/store")
NAMES: Final = [b"a", b"b", b"c"]
SYNCS: Final = ("fdatasync", "fsync", "fsync_dir")
FOR_EVER: Final = 1 << 30


class Dying(FaultyFileSystem):
    """The process is gone at a call: nothing is done any more, and a sync that was not made loses nothing."""

    def _sync(self, name: str, _handle: int) -> None:
        self._count(name)


def store_of(files: FileSystem, sync: SyncPolicy = SyncPolicy.GROUP, directory: Path = ROOT) -> FileStore:
    return FileStore(directory, clock=Clock(), filesystem=files, sync=sync, segment_bytes=4096)


def closed_store(files: FileSystem, *, messages: int = 3, sync: SyncPolicy = SyncPolicy.GROUP) -> None:
    store = store_of(files, sync)
    for name in NAMES:
        for _ in range(messages):
            put(store.open(name), b"x")
    store.close()


def syncs_of_opening(files: FileSystem, name: bytes = NAMES[0]) -> int:
    """Of a log, not of the store. The store is left as a killed process leaves it."""
    counted = FaultyFileSystem(files, only=SYNCS)
    store = store_of(counted)
    counted.calls = 0
    assert sequences(store.open(name)) == [1, 2, 3]
    return counted.calls


def segment_of(files: FileSystem, name: bytes = NAMES[0]) -> Path:
    directory = ROOT / "logs" / name.decode()
    return directory / max(entry for entry in files.listdir(directory) if entry.endswith(".log"))


@pytest.fixture
def files() -> MemoryFileSystem:
    return MemoryFileSystem()


def test_logs_that_were_closed_in_order_are_not_synced_again(files: MemoryFileSystem) -> None:
    closed_store(files)
    assert syncs_of_opening(files) == 0


@pytest.mark.parametrize("failures", range(1, 8))
@pytest.mark.parametrize("fault", Fault)
def test_a_refused_batch_that_could_not_be_cut_back_is_not_behind_the_mark(
    files: MemoryFileSystem, fault: Fault, failures: int
) -> None:
    log = store_of(files).open(NAMES[0])
    assert [put(log, b"s") for _ in range(3)] == [1, 2, 3]
    log.sync()
    files.kill()
    failing = FaultyFileSystem(files, fault=fault)
    store = FileStore(ROOT, filesystem=failing, remembers=False)
    log = store.open(NAMES[0])
    failing.fail_at, failing.failures = failing.calls + 1, failures
    with pytest.raises(LogError):
        log.append([NewMessage(b"s", b"refused")] * 4)
    failing.fail_at = 0
    store.close()

    for expected in (4, 5):
        log = FileStore(ROOT, filesystem=files, remembers=False).open(NAMES[0])
        assert (log.state().last_sequence, put(log, b"s")) == (expected - 1, expected)
        assert {message.payload for message in log.read_from(1).messages} == {b"x"}
        files.kill()


def test_the_mark_is_gone_as_long_as_the_store_is_open(files: MemoryFileSystem) -> None:
    closed_store(files)
    assert NAME in files.listdir(ROOT)
    store = store_of(files)
    files.crash(Random(0))  # taken away durably: no power loss brings it back
    assert NAME not in files.listdir(ROOT)
    store = store_of(files)
    store.close()
    assert NAME in files.listdir(ROOT)


def test_after_a_kill_every_log_is_synced(files: MemoryFileSystem) -> None:
    closed_store(files)
    store_of(files)
    files.kill()
    assert syncs_of_opening(files) > 0


def test_logs_that_nobody_opened_stay_known_as_durable(files: MemoryFileSystem) -> None:
    closed_store(files)
    for _ in range(3):
        store = store_of(files)
        put(store.open(NAMES[1]), b"more")
        store.close()
    assert syncs_of_opening(files) == 0


def test_a_log_that_was_removed_and_made_again_is_not_the_one_of_the_mark(files: MemoryFileSystem) -> None:
    closed_store(files)
    store = store_of(files)
    store.remove(NAMES[0])
    put(store.open(NAMES[0]), b"new")
    files.kill()
    assert sequences(store_of(files).open(NAMES[0])) == [1]


def _append_a_byte(files: MemoryFileSystem) -> None:
    handle = files.open(segment_of(files), FileMode.APPEND)
    files.write(handle, b"\0")
    files.close(handle)


def _write_in_place(files: MemoryFileSystem) -> None:
    handle = files.open(segment_of(files), FileMode.UPDATE)
    files.pwrite(handle, files.pread(handle, 8, 0), 0)
    files.close(handle)


def _copy(files: MemoryFileSystem) -> None:
    path = segment_of(files)
    handle, copy = files.open(path, FileMode.READ), files.open(path.with_suffix(".copy"), FileMode.APPEND)
    files.write(copy, files.pread(handle, files.size(handle), 0))
    files.close(handle)
    files.close(copy)
    files.rename(path.with_suffix(".copy"), path)


def _name_in_the_directory(files: MemoryFileSystem) -> None:
    files.close(files.open(segment_of(files).with_name("stray"), FileMode.APPEND))


@pytest.mark.parametrize("change", [_append_a_byte, _write_in_place, _copy, _name_in_the_directory])
def test_a_log_that_was_changed_since_is_synced(change: Callable[[MemoryFileSystem], None]) -> None:
    for name, is_changed in ((NAMES[0], True), (NAMES[1], False)):
        files = MemoryFileSystem()
        closed_store(files)
        change(files)
        assert (syncs_of_opening(files, name) > 0) is is_changed


def test_the_real_system_tells_a_change_and_a_copy(tmp_path: Path) -> None:
    files = RealFileSystem()
    path = tmp_path / "file"
    path.write_bytes(b"one")
    before, directory = files.identity(path), files.identity(tmp_path)
    assert files.identity(path) == before
    copy = tmp_path / "copy"
    copy.write_bytes(b"one")
    os.utime(copy, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    os.replace(copy, path)  # as `cp -a` and `mv` do it: the same bytes, the same time
    assert files.identity(path) != before
    assert files.identity(tmp_path) != directory


@pytest.mark.parametrize("spoil", [b"", b"HRCLOSE\n", None], ids=["empty", "cut", "one byte"])
def test_a_mark_that_is_damaged_says_nothing(files: MemoryFileSystem, spoil: bytes | None) -> None:
    closed_store(files)
    handle = files.open(ROOT / NAME, FileMode.APPEND)
    if spoil is None:
        data = bytearray(files.pread(handle, files.size(handle), 0))
        data[len(data) // 2] ^= 1
        spoil = bytes(data)
    files.truncate(handle, 0)
    files.write(handle, spoil)
    files.close(handle)
    assert syncs_of_opening(files) > 0
    assert NAME not in files.listdir(ROOT)


def test_what_is_never_synced_gets_no_mark(files: MemoryFileSystem) -> None:
    closed_store(files, sync=SyncPolicy.NEVER)
    assert NAME not in files.listdir(ROOT)


def test_a_log_that_could_not_be_synced_is_not_in_the_mark(files: MemoryFileSystem) -> None:
    failing = FaultyFileSystem(files, only=["fdatasync"])
    store = store_of(failing)
    for name in NAMES:
        log = store.open(name)
        put(log, b"x")
        put(log, b"x")
        put(log, b"x")
        log.sync()
        put(log, b"which nobody was told is there")
    failing.fail_at = failing.calls + 1  # of the log that is closed first
    with pytest.raises(HeadraceError):
        store.close()
    assert failing.failed == ["fdatasync"]
    assert syncs_of_opening(files, NAMES[0]) > 0
    files.kill()


def test_no_crash_at_any_call_of_a_life_loses_what_was_synced_or_seen() -> None:
    """Written, closed, opened again, written, closed: the process dies at each call, then the power goes.

    Between the two another process has a look: what it is shown is there after the power loss, too.
    """
    call, is_over = 0, False
    while not is_over:
        call += 1
        for seed in range(3):
            random, memory = Random(1000 * call + seed), MemoryFileSystem()
            files = Dying(memory, fail_at=call, failures=FOR_EVER)
            synced: dict[bytes, int] = {}
            try:
                _live(files, synced)
                is_over = True
            except (HeadraceError, OSError):
                pass
            memory.kill()
            seen = {}
            if seed:
                store = store_of(memory)
                seen = {name: store.open(name).state().last_sequence for name in store.names()}
                if seed == 2:
                    store.close()
            memory.crash(random)
            store = store_of(memory)
            for name in NAMES[:2]:
                expected = set(range(1, max(seen.get(name, 0), synced.get(name, 0)) + 1))
                assert expected <= held(store, name), (call, seed, name)
    assert call > 100


def held(store: FileStore, name: bytes) -> set[int]:
    """What is there, beside what was never synced and is damaged now."""
    log, found, sequence = store.open(name), set[int](), 1
    while sequence <= log.state().last_sequence:
        page = log.read_from(sequence)
        found |= {message.sequence for message in page.messages}
        sequence = page.next_sequence
    return found


def _live(files: FileSystem, synced: dict[bytes, int]) -> None:
    for life in range(2):
        store = store_of(files)
        logs = [store.open(name) for name in NAMES[:2]]
        for log, name in zip(logs, NAMES, strict=False):
            for _ in range(2):
                put(log, b"subject", payload=b"x" * 1500)  # the second life begins segments
            if name == NAMES[0]:  # what the other has, only the close syncs
                log.sync()
                synced[name] = log.state().last_sequence
        store.close()
        synced |= dict.fromkeys(NAMES[:2], 2 * life + 2)
