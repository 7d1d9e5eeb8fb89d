"""A log that was closed in order and that nobody uses: what it answers without its files, and when not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from log_makers import Clock, put, sequences

from headrace.errors import LogClosed, StorageError
from headrace.log.encryption import Cipher
from headrace.log.file import FileLog
from headrace.log.port import NO_LIMITS, Limits, NewMessage
from headrace.log.store import FileStore
from headrace.testing.faultfs import FaultyFileSystem, MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.log.filesystem import FileSystem
    from headrace.log.port import MessageLog

ROOT: Final = Path("/store")
NAMES: Final = [b"a", b"b"]
LOOKS: Final = 2
"""At its directory and at its last segment: they tell that nothing was done to it."""


def store_of(files: FileSystem, clock: Clock | None = None) -> FileStore:
    return FileStore(ROOT, clock=clock or Clock(), filesystem=files, segment_bytes=4096)


def closed_store(files: FileSystem) -> None:
    """Three messages in each log that is not there yet."""
    store = store_of(files)
    for name in set(NAMES) - set(store.names()):
        put(store.open(name), b"x", b"x", b"x")
    store.close()


@pytest.fixture
def files() -> MemoryFileSystem:
    return MemoryFileSystem()


def calls_of_opening(files: FileSystem, limits: Limits = NO_LIMITS) -> tuple[int, FileLog]:
    """System calls that a log takes to be opened and asked what an unused one is asked, and the log."""
    counted = FaultyFileSystem(files)
    store = store_of(counted)
    counted.calls = 0
    log = store.open(NAMES[0], limits)
    assert isinstance(log, FileLog)
    assert (log.state().messages, log.size, log.written, log.unsynced) == (3, 102, 0, 0)
    assert (log.next_expiry(), log.expire(1 << 60), log.sync(), log.limits) == (None, 0, 0, limits)
    assert list(log.expired(1 << 60)) == []
    assert not log.may_end_torn
    return counted.calls, log


def test_a_log_that_nobody_uses_opens_no_file(files: MemoryFileSystem) -> None:
    closed_store(files)
    calls, log = calls_of_opening(files)
    assert calls == LOOKS
    assert sequences(log) == [1, 2, 3]
    assert put(log, b"more") == 4
    assert (log.state().messages, log.size) == (4, 139)


def test_a_log_that_was_used_before_a_kill_is_opened(files: MemoryFileSystem) -> None:
    closed_store(files)
    store_of(files).open(NAMES[0])
    files.kill()
    counted = FaultyFileSystem(files)
    store = store_of(counted)
    counted.calls = 0
    assert store.open(NAMES[0]).may_end_torn
    assert counted.calls > LOOKS


def test_it_stays_unopened_life_after_life(files: MemoryFileSystem) -> None:
    closed_store(files)
    for _ in range(3):
        store = store_of(files)
        assert store.open(NAMES[0]).state().messages == 3
        store.close()
    assert calls_of_opening(files)[0] == LOOKS


@pytest.mark.parametrize(
    ("limits", "left"),
    [(Limits(max_messages=2), [2, 3]), (Limits(max_age_ns=5), []), (Limits(max_messages=9), [1, 2, 3])],
)
def test_other_limits_hold_at_once(files: MemoryFileSystem, limits: Limits, left: list[int]) -> None:
    for by_opening in (True, False):
        closed_store(files)
        clock = Clock()
        clock.now += 10
        store = store_of(files, clock)
        log = store.open(NAMES[0], limits if by_opening else NO_LIMITS)
        log.limits = limits
        assert log.state().messages == len(left)
        assert sequences(log) == left
        for name in NAMES:
            store.remove(name)
        store.close()


def test_what_is_over_its_age_goes_as_it_does_with_an_open_log(files: MemoryFileSystem) -> None:
    for waits in (True, False):
        limits = Limits(max_age_ns=100, waits_for_expire=waits)
        store = store_of(files)
        put(store.open(NAMES[0], limits), b"x")
        store.close()
        clock = Clock()
        store = store_of(files, clock)
        log = store.open(NAMES[0], limits)
        due = log.next_expiry()
        assert due == clock.now + 100
        assert log.expire(due - 1) == 0
        clock.now = due
        store.close()
        store = store_of(files, clock)
        log = store.open(NAMES[0], limits)
        assert log.state().messages == int(waits)
        assert [sequence for sequence, _ in log.expired(due)] == [1] * waits
        assert log.expire(due) == int(waits)
        assert sequences(log) == []
        store.remove(NAMES[0])
        store.close()


def test_a_log_that_cannot_be_opened_when_it_is_needed_says_so_and_tries_again(
    files: MemoryFileSystem,
) -> None:
    closed_store(files)
    for call in range(1, 40):
        failing = FaultyFileSystem(files)
        store = store_of(failing)
        log = store.open(NAMES[0])
        failing.fail_at = failing.calls + call
        try:
            found = log.read(2)
        except StorageError:
            assert log.state().messages == 3
        else:
            break
        assert sequences(log) == [1, 2, 3]
        assert put(log, b"four") == 4
        store.remove(NAMES[0])
        store.close()
        closed_store(files)
    assert found is not None
    assert call > 3


def test_who_waits_for_the_opening_is_first(files: MemoryFileSystem) -> None:
    uses: list[Callable[[MessageLog], object]] = [
        *(lambda log: log.read(1), lambda log: log.append([NewMessage(b"x", b"")]), lambda log: log.purge()),
        *(lambda log: log.delete(1), lambda log: log.remove([1]), lambda log: log.read_from(1)),
        lambda log: setattr(log, "limits", Limits(max_messages=1)),
    ]
    for use in uses:
        closed_store(files)
        store = store_of(files)
        log = store.open(NAMES[0])
        seen: list[list[int]] = []
        log.when_opened(lambda log=log, seen=seen: seen.append(sequences(log)))
        assert log.state().messages == 3
        assert not seen
        use(log)
        use(log)
        assert seen == [[1, 2, 3]]
        log.when_opened(lambda seen=seen: seen.append([]))
        assert len(seen) == 2
        store.remove(NAMES[0])
        store.close()


def test_what_fails_at_the_opening_fails_the_call_and_is_tried_again(files: MemoryFileSystem) -> None:
    closed_store(files)
    log = store_of(files).open(NAMES[0])
    failures = [StorageError("first"), StorageError("second")]

    def fill() -> None:
        if failures:
            raise failures.pop(0)

    log.when_opened(fill)
    for text in ("first", "second"):
        with pytest.raises(StorageError, match=text):
            log.purge()
        assert log.state().messages == 3
    assert log.purge() == 3


def test_a_log_that_is_closed_unopened_is_closed(files: MemoryFileSystem) -> None:
    closed_store(files)
    store = store_of(files)
    log = store.open(NAMES[0])
    log.close()
    log.close()
    asked: list[Callable[[], object]] = [
        *(log.state, log.sync, log.next_expiry, lambda: log.size, lambda: log.read(1)),
        *(lambda: log.expire(1), lambda: log.expired(1), lambda: setattr(log, "limits", NO_LIMITS)),
    ]
    for ask in asked:
        with pytest.raises(LogClosed):
            ask()
    assert sequences(store.open(NAMES[0])) == [1, 2, 3]
    store.close()
    assert calls_of_opening(files)[0] == LOOKS


def test_damage_is_looked_at_by_every_start(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    put(store.open(b"a"), b"x", b"x")
    store.close()
    path = next(tmp_path.rglob("*.log"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    for _ in range(3):
        told: list[bytes] = []
        store = FileStore(tmp_path, report=lambda name, _, told=told: told.append(name))
        log = store.open(b"a")
        assert log.read_from(1).damaged == [2]
        assert log.state().damaged == (2,)
        assert told == [b"a"]
        store.close()


def test_a_key_is_tried_by_every_start(tmp_path: Path) -> None:
    store = FileStore(tmp_path, cipher=Cipher(b"k" * 32))
    put(store.open(b"a"), b"x")
    store.close()
    for key in (None, Cipher(b"o" * 32)):
        store = FileStore(tmp_path, cipher=key)
        with pytest.raises(StorageError):
            store.open(b"a")
        store.close()
