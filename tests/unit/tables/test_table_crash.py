"""Writers that die at any call, disks that lose power, two writers at once: every message once."""

from __future__ import annotations

import contextlib
import copy
import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from table_makers import SMALL, START, Stream, archived, sequences

from harness import depth
from harness.object_stores import KeyedStore, Killed, as_store
from headrace.objects.errors import StoreError
from headrace.objects.local import LocalStore
from headrace.objects.port import OWN
from headrace.tables import Table
from headrace.tables.errors import TableConflict
from headrace.tables.rewrite import compact, remove_rows
from headrace.tables.table import ORPHAN_AGE_NS, version_key
from headrace.tables.verify import verify
from headrace.testing.faultfs import FaultyFileSystem, MemoryFileSystem

Work = Callable[[Table, Stream], object]
COUNT = 25
HOME = Path("/tables/orders")


def merge(table: Table, _stream: Stream) -> None:
    with table.writing() as writer:
        compact(writer)


def erase(table: Table, stream: Stream) -> None:
    for sequence in (5, 17, 18):
        stream.log.delete(sequence)
    with table.writing() as writer:
        remove_rows(writer, ((5, 5), (17, 18)))


def follow(table: Table, stream: Stream) -> None:
    """New messages, deleted ones and a purge in one run."""
    if stream.log.state().last_sequence == COUNT:
        stream.publish(15)
    stream.log.delete(23)
    stream.log.purge(up_to=14)
    archived(table, stream)


def vacuum(table: Table, _stream: Stream) -> None:
    with table.writing() as writer:
        compact(writer)
        writer.vacuum()


WORKS: list[Work] = [follow, merge, erase, vacuum]


class DyingFileSystem(FaultyFileSystem):
    """Dies instead of failing, and for good."""

    def _fails(self, name: str) -> bool:
        if super()._fails(name) or (self.fail_at and self.calls > self.fail_at):
            raise Killed
        return False


def copy_of(fs: MemoryFileSystem) -> MemoryFileSystem:
    """The same disk once more: making it anew for each of a hundred deaths takes most of the time."""
    made = MemoryFileSystem()
    made._root = copy.deepcopy(fs._root)
    return made


def calls() -> Iterator[int]:
    """The numbers of the calls that are the last ones, or fail: every twentieth in `make test`."""
    return (1 + number for number in depth.every(2000))


def plain_files(fs: MemoryFileSystem) -> list[str]:
    return sorted(name for name in fs.listdir(HOME) if name.endswith(".parquet"))


def check_whole(table: Table, stream: Stream) -> None:
    """After the same work was done again: what lives is there once, and the directory has nothing else."""
    assert sequences(table) == stream.live()
    assert verify(table) == []


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
def test_power_lost_at_any_call(work: Work) -> None:
    """The table is at once as before or as after, and the same work again brings it to where it should be."""
    made = MemoryFileSystem()
    archived(Table(LocalStore(HOME, made)), Stream(COUNT))
    before = sequences(Table(LocalStore(HOME, made)))
    for fail_at in calls():
        fs, stream = copy_of(made), Stream(COUNT)
        dying = DyingFileSystem(fs, fail_at)
        died = True
        with contextlib.suppress(Killed):
            work(Table(LocalStore(HOME, dying)), stream)
            died = False
        dying.fail_at = 0
        fs.crash(Random(fail_at))

        table = Table(LocalStore(HOME, fs))
        found = sequences(table)
        assert not [line for line in verify(table) if "it is not part" not in line], fail_at
        assert set(found) - set(before) <= set(range(COUNT + 1, COUNT + 16)), fail_at
        assert found == sorted(set(found)), fail_at
        assert set(stream.live()) & set(before) <= set(found), fail_at
        work(table, stream)
        archived(table, stream)
        check_whole(table, stream)
        named = sorted(file.path for file in table.manifest().files)
        assert plain_files(fs) == named, fail_at
        if not died:
            assert fail_at > 15, "the work did hardly anything"
            return
    pytest.fail("the work never ends")


def test_a_version_that_a_killed_writer_left_is_made_durable_before_anything_relies_on_it() -> None:
    """Killed between the rename and the sync of a version that gives a file up; later the power goes."""

    class DiesAtSync(FaultyFileSystem):
        is_renamed = False

        def rename(self, old: Path, new: Path) -> None:
            super().rename(old, new)
            self.is_renamed = new.parent.name == "manifests"

        def fsync_dir(self, directory: Path) -> None:
            if self.is_renamed and directory.name == "manifests":
                raise Killed
            super().fsync_dir(directory)

    class DiesAtClearing(FaultyFileSystem):
        def unlink(self, path: Path) -> None:
            if path.parent.name == "manifests":
                raise Killed
            super().unlink(path)

    for seed in range(12):
        fs = MemoryFileSystem()
        stream = Stream(COUNT)
        archived(Table(LocalStore(HOME, fs)), stream)
        with pytest.raises(Killed):
            erase(Table(LocalStore(HOME, DiesAtSync(fs))), stream)
        fs.kill()
        with pytest.raises(Killed):
            erase(Table(LocalStore(HOME, DiesAtClearing(fs))), stream)
        fs.crash(Random(seed))

        assert verify(Table(LocalStore(HOME, fs))) == [], seed


def test_power_lost_while_a_table_is_made() -> None:
    for fail_at in calls():
        fs = MemoryFileSystem()
        dying = DyingFileSystem(fs, fail_at)
        stream = Stream(25)
        died = True
        with contextlib.suppress(Killed):
            archived(Table(LocalStore(HOME, dying)), stream)
            died = False
        fs.crash(Random(fail_at))

        table = Table(LocalStore(HOME, fs))
        archived(table, stream)
        check_whole(table, stream)
        if not died:
            return
    pytest.fail("the work never ends")


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_at_any_call(error: int) -> None:
    """A run that was told of an error leaves a table that the next run completes."""
    for fail_at in calls():
        fs = MemoryFileSystem()
        faulty = FaultyFileSystem(fs, fail_at, error)
        stream, failed = Stream(25), False
        table = Table(LocalStore(HOME, faulty))
        try:
            archived(table, stream)
        except StoreError:
            failed = True
        faulty.fail_at = 0
        assert fs.open_handles == 0, fail_at

        archived(table, stream)
        check_whole(table, stream)
        if not failed and not faulty.failed:
            return
    pytest.fail("the work never ends")


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "behind the call"])
@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
def test_killed_at_any_call_of_an_object_store(work: Work, after: bool) -> None:
    for fail_at in range(1, 200):
        store, stream = KeyedStore(), Stream(COUNT)
        table = Table(as_store(store), clock=lambda: START)
        archived(table, stream)
        before = sequences(table)
        store.calls, store.fail_at, store.after = 0, fail_at, after
        died = True
        with contextlib.suppress(Killed):
            work(table, stream)
            died = False
        store.fail_at = 0

        found = sequences(table)
        assert not [line for line in verify(table) if "it is not part" not in line], fail_at
        assert found == sorted(set(found)), fail_at
        assert set(stream.live()) & set(before) <= set(found), fail_at
        work(table, stream)
        archived(table, stream)
        assert sequences(table) == stream.live(), fail_at
        later = Table(as_store(store), clock=lambda: START + 2 * ORPHAN_AGE_NS)
        with later.writing() as writer:
            writer.vacuum()
        assert verify(table) == [], "what the dead writer left is gone"
        if not died:
            return
    pytest.fail("the work never ends")


def test_without_a_lock_young_files_of_others_are_left_alone() -> None:
    store = KeyedStore()
    stream = Stream(25)
    archived(Table(as_store(store)), stream)
    young = f"{26:020}-{30:020}-0123abcd.parquet"
    store.put(young, b"")
    store.put("somebody-else.parquet", b"")

    store.now += ORPHAN_AGE_NS // 2
    with Table(as_store(store), clock=lambda: store.now).writing() as writer:
        writer.vacuum()
    assert young in store.objects
    store.now += ORPHAN_AGE_NS
    with Table(as_store(store), clock=lambda: store.now).writing() as writer:
        writer.vacuum()
    assert young not in store.objects
    assert "somebody-else.parquet" in store.objects, "it is not ours"


def test_two_archivers_at_once_where_there_is_no_lock() -> None:
    """The second runs whole between any two commits of the first."""
    for turn in range(1, 8):
        store = KeyedStore()
        table = Table(as_store(store))
        stream = Stream(45)
        archived(table, Stream(0))
        commits = 0

        def other(_key: str, turn: int = turn, table: Table = table, stream: Stream = stream) -> None:
            nonlocal commits
            commits += 1
            if commits == turn:
                archived(table, stream)

        store.on_create = other
        with contextlib.suppress(TableConflict):
            archived(table, stream)
        store.on_create = lambda _key: None
        archived(table, stream)

        assert sequences(table) == list(range(1, 46)), turn
        assert verify(table) == [], "the loser took its file away"


def test_compaction_and_archiver_at_once_where_there_is_no_lock() -> None:
    store = KeyedStore()
    table = Table(as_store(store))
    stream = Stream(45)
    archived(table, stream)
    stream.publish(30)
    waiting: list[Any] = [lambda: merge(table, stream)]
    store.on_create = lambda _key: waiting.pop()() if waiting else None

    archived(table, stream)

    assert sequences(table) == list(range(1, 76))
    assert len(table.manifest().files) == 4, "merged, and three new ones behind"
    assert verify(table) == []


def test_compaction_loses_to_an_erasure() -> None:
    """What was erased while a compaction copied it must not come back with the copy."""
    store = KeyedStore()
    table = Table(as_store(store))
    stream = Stream(45)
    archived(table, stream)
    waiting: list[Any] = [lambda: erase(table, stream)]
    store.on_create = lambda _key: waiting.pop()() if waiting else None

    with pytest.raises(TableConflict, match="replaced by another writer"):
        merge(table, stream)

    assert sequences(table) == stream.live()
    assert verify(table) == []
    assert not any(b"message 17" in data for data in store.objects.values())


def test_a_commit_whose_answer_was_lost_is_not_made_twice() -> None:
    """The upload was done, and a retry below us met its own object."""

    class Repeating(KeyedStore):
        def create(self, key: str, data: bytes) -> None:
            super().create(key, data)
            super().create(key, data)

    table = Table(as_store(Repeating()))
    archived(table, Stream(25))

    assert sequences(table) == list(range(1, 26))
    assert table.manifest().version == 4


def test_a_commit_under_a_number_that_was_cleared_is_not_taken_for_one() -> None:
    """A writer that slept over commits and a vacuum finds its number free, and the table elsewhere."""
    store = KeyedStore()
    table = Table(as_store(store))
    stream = Stream(10)
    archived(table, stream)
    asleep = True

    def wake(_key: str) -> None:
        nonlocal asleep
        if not asleep:
            return
        asleep = False
        for _ in range(3):
            with table.writing() as writer:
                writer.commit(lambda current: replace(current, retain="forever"))  # type: ignore[type-var]
        for number in range(1, table.manifest().version):
            del store.objects[version_key(number)]

    store.on_create = wake
    stream.publish(10)
    archived(table, stream)

    assert sequences(table) == list(range(1, 21))
    assert table.manifest().retain == "forever"
    numbers = sorted(key for key in store.objects if key.startswith(OWN))
    assert numbers[-1] == version_key(table.manifest().version)


def test_the_one_that_is_always_too_late_gives_up() -> None:
    store = KeyedStore()
    table = Table(as_store(store))
    archived(table, Stream(10))

    def quicker(key: str) -> None:
        store.on_create = lambda _key: None
        with table.writing() as writer:
            writer.commit(lambda current: replace(current, retain="forever"))  # type: ignore[type-var]
        store.on_create = quicker

    store.on_create = quicker
    with pytest.raises(TableConflict, match="other writers were quicker"), table.writing() as writer:
        writer.commit(lambda current: replace(current, retain="stream"))  # type: ignore[type-var]


def test_readers_meet_whole_versions_while_files_are_merged_and_rows_erased() -> None:
    """Before every call of a writer a reader sees all the rows that live."""
    store = KeyedStore()
    table = Table(as_store(store))
    stream = Stream(45)
    archived(table, stream, SMALL)
    whole, seen = list(range(1, 46)), 0

    class Watching(KeyedStore):
        def _call(self) -> Any:
            nonlocal seen
            seen += 1
            assert sequences(table) in (whole, [n for n in whole if n not in (5, 17, 18)])
            return super()._call()

    store.__class__ = Watching
    merge(table, stream)
    with table.writing() as writer:
        remove_rows(writer, ((5, 5), (17, 18)))

    assert seen > 10
