"""Logs by name: both stores, then names, locks, removal and failing disks of the one in files."""

from __future__ import annotations

import errno
import subprocess
import sys
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import pytest
from log_makers import Clock, pages, put, sequences

from headrace.errors import LogClosed, StorageError, StoreLocked
from headrace.log.committer import InlineCommitter
from headrace.log.file import FileLog
from headrace.log.filesystem import RealFileSystem
from headrace.log.port import Limits, NewMessage, SyncPolicy
from headrace.log.store import LONGEST_ENTRY, FileStore, LogStore, MemoryStore
from headrace.testing.faultfs import Fault, FaultyFileSystem, MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.log.filesystem import FileSystem

ROOT: Final = Path("/store")
ODD_NAMES: Final = [
    b"orders",
    b"Orders",
    b"ORDERS.new",
    b".",
    b"..",
    b".hidden",
    b".removed.0",
    b"a/b",
    b"/",
    b"../escape",
    b"a b\t\n",
    b"\x00",
    b"\xff\xfe",
    "größe".encode(),
    b"$SYS.x",
    b"a~b",
    b"a%2Eb",
    b"a.name",
    b"lock",
    b"n" * 200,
    b"n" * 201,
    b"n" * 4096,
    b"n" * 4095 + b"m",
    b"\xff" * 100,
]


def file_store(files: FileSystem | None = None, directory: Path = ROOT) -> FileStore:
    return FileStore(directory, clock=Clock(), filesystem=files)


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LogStore]:
    made = MemoryStore(Clock()) if request.param == "memory" else file_store(directory=tmp_path / "store")
    yield made
    made.close()


class TestLate:
    """A store that need not remember logs to which nothing was written."""

    @pytest.fixture
    def files(self) -> MemoryFileSystem:
        return MemoryFileSystem()

    @pytest.fixture
    def late(self, files: MemoryFileSystem) -> FileStore:
        return FileStore(ROOT, clock=Clock(), filesystem=files, remembers=False)

    def test_a_log_takes_no_room_until_something_is_written(
        self, late: FileStore, files: MemoryFileSystem
    ) -> None:
        logs = [late.open(name) for name in ODD_NAMES]
        for log in logs:
            assert log.state().messages == log.sync() == 0
            assert log.last() is None
            assert not log.delete(1, erase=True)
            assert log.purge() == 0
        assert files.listdir(ROOT / "logs") == late.names() == []

        put(logs[1], b"a")

        assert late.names() == [b"Orders"]
        assert files.listdir(ROOT / "logs") == ["Orders"]

    def test_a_gap_is_something(self, late: FileStore, files: MemoryFileSystem) -> None:
        late.open(b"orders").append([], 100)
        late.close()
        again = FileStore(ROOT, clock=Clock(), filesystem=files, remembers=False)
        assert again.open(b"orders").state().last_sequence == 99

    def test_what_was_written_is_there_after_a_start(self, late: FileStore, files: MemoryFileSystem) -> None:
        for name in ODD_NAMES:
            put(late.open(name), b"a")
        late.open(b"nothing")
        late.close()

        again = FileStore(ROOT, clock=Clock(), filesystem=files, remembers=False)
        assert again.names() == sorted(ODD_NAMES)
        assert all(sequences(again.open(name)) == [1] for name in ODD_NAMES)

    def test_one_without_files_is_removed_and_made_anew(
        self, late: FileStore, files: MemoryFileSystem
    ) -> None:
        log = late.open(b"orders")
        assert late.remove(b"orders")
        assert not late.remove(b"orders")
        with pytest.raises(LogClosed):
            put(log, b"a")
        assert files.listdir(ROOT / "logs") == []
        put(late.open(b"orders"), b"a")
        assert late.remove(b"orders")
        assert sequences(late.open(b"orders")) == []

    @pytest.mark.parametrize("name", [b"orders", b"n" * 300])
    def test_a_disk_that_fails_at_the_first_message_refuses_it_and_takes_the_next(self, name: bytes) -> None:
        for call in range(1, 100):
            memory = MemoryFileSystem()
            files = FaultyFileSystem(memory)
            log = FileStore(ROOT, clock=Clock(), filesystem=files, remembers=False).open(name)
            files.calls, files.fail_at = 0, call
            try:
                put(log, b"a")
            except StorageError:
                files.fail_at = 0
                assert sequences(log) == []
                put(log, b"b")
            files.fail_at = 0
            kept = [message.subject for message in pages(log)]
            assert kept in ([b"a"], [b"b"])
            log.sync()
            memory.crash(Random(call))
            again = FileStore(ROOT, clock=Clock(), filesystem=memory, remembers=False)
            assert [message.subject for message in pages(again.open(name))] == kept
            if not files.failed:
                break
        assert call > 5


class TestBoth:
    def test_a_log_is_made_when_missing(self, store: LogStore) -> None:
        assert store.names() == []

        put(store.open(b"orders"), b"a")

        assert store.names() == [b"orders"]

    def test_a_log_that_is_open_is_given_again_under_the_new_limits(self, store: LogStore) -> None:
        first = store.open(b"orders")
        put(first, b"a", b"a", b"a")

        again = store.open(b"orders", Limits(max_messages=2))

        assert again is first
        assert sequences(first) == [2, 3]

    def test_logs_are_apart(self, store: LogStore) -> None:
        logs = {name: store.open(name, Limits(max_messages=n)) for n, name in enumerate(ODD_NAMES, 1)}
        for n, (name, log) in enumerate(logs.items()):
            log.append([NewMessage(b"s", name)], n + 1)

        assert store.names() == sorted(ODD_NAMES)
        for n, (name, log) in enumerate(logs.items(), 1):
            stored = log.last()
            assert stored is not None
            assert (stored.payload, stored.sequence, log.limits.max_messages) == (name, n, n)

    def test_times_are_the_clocks(self, store: LogStore) -> None:
        log = store.open(b"orders")
        put(log, b"a")

        assert log.state().last_time_ns == Clock().now

    def test_a_log_without_a_name_is_refused(self, store: LogStore) -> None:
        with pytest.raises(ValueError, match="name"):
            store.open(b"")

        assert store.names() == []

    def test_a_removed_log_is_gone(self, store: LogStore) -> None:
        log = store.open(b"orders")
        put(log, b"a", b"a")
        put(store.open(b"kept"), b"a")

        assert store.remove(b"orders")

        assert store.names() == [b"kept"]
        with pytest.raises(LogClosed):
            log.read(1)
        assert not store.remove(b"orders")
        assert not store.remove(b"never there")
        again = store.open(b"orders")
        assert (again.state().messages, again.state().last_sequence) == (0, 0)
        assert sequences(store.open(b"kept")) == [1]

    def test_close_closes_the_logs(self, store: LogStore) -> None:
        log = store.open(b"orders")
        store.close()
        store.close()

        with pytest.raises(LogClosed):
            log.append([])
        for call in (lambda: store.open(b"a"), store.names, lambda: store.remove(b"a")):
            with pytest.raises(LogClosed):
                call()


def test_a_log_in_memory_is_there_until_it_is_closed() -> None:
    store = MemoryStore()
    log = store.open(b"orders")
    put(log, b"a")
    log.close()

    assert store.names() == []
    assert not store.remove(b"orders")
    assert store.open(b"orders").state().last_sequence == 0


class TestFiles:
    def test_everything_is_there_when_opened_again(self, tmp_path: Path) -> None:
        with_logs = file_store(directory=tmp_path)
        for name in ODD_NAMES:
            put(with_logs.open(name), name)
        with_logs.close()

        again = file_store(directory=tmp_path)

        assert again.names() == sorted(ODD_NAMES)
        for name in ODD_NAMES:
            stored = again.open(name).last()
            assert stored is not None
            assert stored.subject == name
        again.close()

    def test_all_is_below_the_directory_and_its_names_are_short(self, tmp_path: Path) -> None:
        store = file_store(directory=tmp_path / "store")
        for name in ODD_NAMES:
            put(store.open(name), b"a")
        store.close()

        assert [p.name for p in tmp_path.iterdir()] == ["store"]
        assert {p.name for p in (tmp_path / "store").iterdir()} == {"closed", "lock", "logs"}
        entries = [p.name for p in (tmp_path / "store" / "logs").iterdir()]
        assert max(map(len, entries)) <= LONGEST_ENTRY
        assert not [entry for entry in entries if entry.startswith(".")]
        assert "%2E." in entries
        assert "a%2Fb" in entries
        assert "orders" in entries

    def test_a_log_closed_by_its_user_is_opened_again(self, tmp_path: Path) -> None:
        store = file_store(directory=tmp_path)
        log = store.open(b"orders")
        put(log, b"a")
        log.close()

        assert store.names() == [b"orders"]
        assert sequences(store.open(b"orders")) == [1]
        store.open(b"orders").close()
        assert store.remove(b"orders")
        assert store.names() == []
        store.close()

    def test_what_is_not_a_log_is_left_alone(self, tmp_path: Path) -> None:
        file_store(directory=tmp_path).close()
        logs = tmp_path / "logs"
        strangers = ["a b", "%zz", "%41", "lost+found", "x~y"]
        for name in strangers:
            (logs / name).mkdir()
        (logs / "file").write_bytes(b"x")

        store = file_store(directory=tmp_path)

        assert store.names() == []
        store.close()
        assert sorted(p.name for p in logs.iterdir()) == sorted([*strangers, "file"])

    def test_limits_hold_when_a_log_is_opened(self, tmp_path: Path) -> None:
        store = file_store(directory=tmp_path)
        put(store.open(b"orders"), *[b"a"] * 5)
        store.close()

        store = file_store(directory=tmp_path)
        assert sequences(store.open(b"orders", Limits(max_messages=2))) == [4, 5]
        store.close()

    def test_damage_is_reported_with_the_logs_name(self, tmp_path: Path) -> None:
        store = file_store(directory=tmp_path)
        log = store.open(b"orders")
        log.append(
            [NewMessage(b"a", b"the first"), NewMessage(b"a", b"the second"), NewMessage(b"a", b"third")]
        )
        store.close()
        damaged = 0
        for path in (tmp_path / "logs" / "orders").iterdir():
            data = path.read_bytes()
            if b"the second" in data:
                path.write_bytes(data.replace(b"the second", b"the xxxxxx"))
                damaged += 1
        assert damaged
        reports: list[tuple[bytes, int]] = []

        store = FileStore(tmp_path, report=lambda name, damage: reports.append((name, damage.first)))
        page = store.open(b"orders").read_from(1)

        assert [m.sequence for m in page.messages] == [1, 3]
        assert page.damaged == [2]
        assert reports == [(b"orders", 2)]
        store.close()


class TestLock:
    def test_a_second_store_is_kept_out_until_the_first_closes(self, tmp_path: Path) -> None:
        first = file_store(directory=tmp_path)

        with pytest.raises(StoreLocked, match=str(tmp_path)):
            file_store(directory=tmp_path)
        put(first.open(b"orders"), b"a")
        first.close()
        file_store(directory=tmp_path).close()

    def test_another_process_is_kept_out_and_its_death_frees_the_store(self, tmp_path: Path) -> None:
        code = (
            "import sys, pathlib; from headrace.log.store import FileStore\n"
            "from headrace.log.port import NewMessage\n"
            "store = FileStore(pathlib.Path(sys.argv[1]))\n"
            "store.open(b'orders').append([NewMessage(b'a', b'x')])\n"
            "print('held', flush=True); sys.stdin.read()"
        )
        command = [sys.executable, "-c", code, str(tmp_path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(StoreLocked):
                file_store(directory=tmp_path)
            holder.kill()
            holder.wait()

        store = file_store(directory=tmp_path)
        assert sequences(store.open(b"orders")) == [1]
        store.close()

    def test_a_store_that_could_not_open_lets_go_of_its_lock(self) -> None:
        memory = MemoryFileSystem()
        for call in range(1, 100):
            files = FaultyFileSystem(memory, call)
            try:
                file_store(files).close()
            except StorageError:
                assert memory.open_handles == 0
            if not files.failed:
                break
        assert call > 3


class TestFailures:
    def test_every_failing_call_is_a_storage_error_and_the_store_goes_on(self) -> None:
        """Start, open logs of a short and a long name, append, remove, close, with a fault at each call."""
        names = [b"orders", b"n" * 1000]
        failures = 0
        for fail_at in range(1, 500):
            memory = MemoryFileSystem()
            files = FaultyFileSystem(memory, fail_at, errno.ENOSPC, fault=Fault.SHORT)
            steps = self.steps(files, names)
            for step in steps:
                try:
                    step()
                except StorageError:
                    failures += 1
                    if step.__name__ == "close":
                        continue
                    step()  # what failed once works now: space has returned
            memory.crash(Random(fail_at))
            after = file_store(memory)
            assert after.names() == [b"kept"], fail_at
            assert sequences(after.open(b"kept")) == [1], fail_at
            after.close()
            assert memory.open_handles == 0
            if not files.failed:
                break
        assert failures > 10
        assert fail_at < 499

    def steps(self, files: FileSystem, names: list[bytes]) -> list:  # type: ignore[type-arg]
        stores: list[FileStore] = []

        def start() -> None:
            stores.append(file_store(files))

        def make() -> None:
            for name in names:
                stores[0].open(name)

        def append() -> None:
            log = stores[0].open(b"kept")
            if not log.state().last_sequence:
                put(log, b"a")
            log.sync()

        def remove() -> None:
            for name in names:
                stores[0].remove(name)
            assert stores[0].names() == [b"kept"]

        def close() -> None:
            stores[0].close()

        return [start, make, append, remove, close]

    @pytest.mark.parametrize("seed", range(30))
    def test_a_log_is_durable_with_its_first_message(self, seed: int) -> None:
        """Until then a power loss may take all of it, and it is begun anew without a word of damage."""
        memory = MemoryFileSystem()
        log = FileStore(ROOT, clock=Clock(), filesystem=memory, remembers=False).open(b"orders")
        if seed % 3:
            put(log, b"a")
        if seed % 3 == 2:
            log.sync()
        memory.crash(Random(seed))
        damaged: list[int] = []
        after = FileStore(
            ROOT,
            clock=Clock(),
            filesystem=memory,
            report=lambda _, damage: damaged.append(damage.first),
        )
        found = sequences(after.open(b"orders"))
        assert found == [1] if seed % 3 == 2 else found in ([], [1])
        assert damaged == []
        put(after.open(b"orders"), b"b")
        assert len(sequences(after.open(b"orders"))) == len(found) + 1

    @pytest.mark.parametrize("name", [b"orders", b"n" * 1000])
    def test_removal_is_whole_whenever_the_power_fails(self, name: bytes) -> None:
        """After a crash at any call a log that was being removed is there with all it had, or not at all."""
        seen = set()
        for fail_at in range(1, 200):
            memory = MemoryFileSystem()
            files = FaultyFileSystem(memory)
            store = file_store(files)
            log = store.open(name)
            put(log, *[b"a"] * 3)
            log.sync()
            store.open(b"other").sync()
            files.calls, files.fail_at, files.failures = 0, fail_at, 1_000_000
            removed = True
            try:
                store.remove(name)
            except StorageError:
                removed = False
            memory.crash(Random(fail_at))

            after = file_store(memory)
            there = name in after.names()
            seen.add(there)
            assert not (there and removed)
            if there:
                assert sequences(after.open(name)) == [1, 2, 3]
            assert memory.listdir(ROOT / "logs").count("other") == 1
            assert not [entry for entry in memory.listdir(ROOT / "logs") if entry.startswith(".removed")]
            after.close()
            if not files.failed:
                break
        assert seen == {True, False}

    def test_a_log_whose_sync_fails_is_removed_all_the_same(self) -> None:
        memory = MemoryFileSystem()
        files = FaultyFileSystem(memory, only=["fsync", "fdatasync"])
        store = file_store(files)
        put(store.open(b"orders"), b"a")
        files.fail_at, files.failures = files.calls + 1, 1000

        assert store.remove(b"orders")

        files.fail_at = 0
        store.close()
        assert memory.open_handles == 0
        assert memory.listdir(ROOT / "logs") == []

    def test_close_tells_of_the_first_failure_and_closes_all(self) -> None:
        memory = MemoryFileSystem()
        files = FaultyFileSystem(memory, only=["fsync", "fdatasync"])
        store = file_store(files)
        for name in (b"a", b"b", b"c"):
            put(store.open(name), b"a")
        files.fail_at, files.failures = files.calls + 1, 1000

        with pytest.raises(StorageError):
            store.close()

        assert memory.open_handles == 0
        store.close()

    def test_a_directory_that_cannot_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")

        with pytest.raises(StorageError, match="file"):
            file_store(directory=tmp_path / "file")

    @pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
    def test_a_directory_that_cannot_be_written(self, number: int) -> None:
        memory = MemoryFileSystem()
        file_store(memory).close()
        files = FaultyFileSystem(memory, 1, number, failures=1000, only=["lock"])

        with pytest.raises(StorageError, match=str(ROOT)):
            file_store(files)

    def test_a_file_system_that_does_not_tell_case(self, tmp_path: Path) -> None:
        class Folding(RealFileSystem):
            """`is_directory` is the one call that meets both names."""

            def is_directory(self, path: Path) -> bool:
                return path.is_dir() or path.with_name(path.name.lower()).is_dir()

        store = file_store(Folding(), tmp_path)
        put(store.open(b"orders"), b"a")

        with pytest.raises(StorageError, match="case"):
            store.open(b"ORDERS")

        assert store.names() == [b"orders"]
        store.close()


@pytest.mark.parametrize("seed", range(25))
def test_no_acknowledged_message_is_lost_when_the_power_fails(seed: int) -> None:
    """Several logs, a disk that fails now and then, a crash at any time; ten lives of one store.

    What was appended and not acknowledged may be there or not. So may what was refused after half of it was
    written, since cutting it off again may not survive; nothing else, and nothing twice.
    """
    random = Random(seed)
    memory = MemoryFileSystem()
    acknowledged: dict[bytes, dict[int, bytes]] = {name: {} for name in (b"a", b"b", b"c")}
    submitted: dict[bytes, set[bytes]] = {name: set() for name in acknowledged}
    for life in range(10):
        files = FaultyFileSystem(memory, fault=random.choice(list(Fault)))
        store = FileStore(ROOT, clock=Clock(), filesystem=files, segment_bytes=1000)
        committer = InlineCommitter()
        for step in range(random.randrange(40)):
            files.fail_at = files.calls + random.randrange(1, 8) if random.random() < 0.2 else 0
            name = random.choice(list(acknowledged))
            payloads = [b"%d.%d.%d" % (life, step, n) * random.randrange(1, 20) for n in range(3)]
            submitted[name].update(payloads)
            try:
                log = store.open(name)
                first = log.append([NewMessage(b"s", payload) for payload in payloads])
            except StorageError:
                continue
            batch = dict(enumerate(payloads, first))
            committer.request(log, partial(acknowledge, acknowledged[name], batch))
        memory.crash(random)

        store = file_store(memory)
        for name, messages in acknowledged.items():
            held = {m.sequence: m.payload for m in pages(store.open(name))}
            assert {n: held.get(n) for n in messages} == messages
            assert submitted[name] >= set(held.values())
            assert len(held) == len(set(held.values()))
            assert list(held) == list(range(1, len(held) + 1))
        store.close()
    assert any(acknowledged.values())


def acknowledge(messages: dict[int, bytes], batch: dict[int, bytes], error: StorageError | None) -> None:
    if error is None:
        messages.update(batch)


@pytest.mark.parametrize("policy", SyncPolicy)
def test_logs_have_the_stores_policy(policy: SyncPolicy) -> None:
    store = FileStore(ROOT, filesystem=MemoryFileSystem(), sync=policy)
    log = store.open(b"orders")

    assert isinstance(log, FileLog)
    assert log.sync_policy is policy
    store.close()
