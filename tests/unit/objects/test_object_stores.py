"""The contract of object stores: a directory, two stores in memory, moto's S3 and Azurite over HTTP."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from harness.object_stores import KeyedStore, as_store
from headrace.errors import UnsupportedError
from headrace.log.filesystem import FileMode, RealFileSystem
from headrace.objects import remote
from headrace.objects.errors import AccessRefused, KeyExists, KeyMissing, LockHeld, StoreError
from headrace.objects.local import DRAFTS, LocalStore
from headrace.objects.opening import open_async_store, open_store
from headrace.objects.shared_directory import SharedDirectory
from headrace.testing.faultfs import MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.object_stores import FakeObstore
    from headrace.objects.port import AsyncObjectStore, ObjectStore

# What moto and its dependencies warn of is theirs.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(params=["local", "keyed", "fake", "s3", "azure"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    """Every kind of store, empty. A local one is used under its lock, as writers do."""
    if request.param == "local":
        local = LocalStore(tmp_path / "table")
        with local.lock():
            yield local
    elif request.param == "keyed":
        yield as_store(KeyedStore())
    elif request.param == "fake":
        request.getfixturevalue("fake")
        yield open_store("s3://archive/orders")
    else:
        scheme = {"s3": "s3", "azure": "az"}[request.param]
        yield open_store(f"{scheme}://archive/{tmp_path.name}", **request.getfixturevalue(request.param))


def test_of_two_creates_one_succeeds(store: ObjectStore) -> None:
    store.create("_headrace/manifests/1.json", b"one")

    with pytest.raises(KeyExists):
        store.create("_headrace/manifests/1.json", b"other")
    assert store.get("_headrace/manifests/1.json") == b"one"


def test_keys_are_listed_by_folder_moved_and_removed(store: ObjectStore) -> None:
    for key in ("b.parquet", "a.parquet", "_headrace/manifests/1.json"):
        store.create(key, b"x" * 10)

    assert [entry.key for entry in store.list_folder().objects] == ["a.parquet", "b.parquet"]
    (version,) = store.list_folder("_headrace/manifests").objects
    assert version.key == "_headrace/manifests/1.json"
    assert store.list_folder("missing").objects == []
    assert store.list_folder().folders == ["_headrace"]
    store.move("a.parquet", "_headrace/replaced/a.parquet")
    store.delete("b.parquet")
    store.delete("b.parquet")
    assert store.list_folder().objects == []
    with store.open("_headrace/replaced/a.parquet") as file:
        file.seek(8)
        assert file.read() == b"xx"
    for missing in (lambda: store.get("b.parquet"), lambda: store.open("b.parquet")):
        with pytest.raises(KeyMissing):
            missing()
    with pytest.raises(KeyMissing):
        store.move("b.parquet", "c.parquet")


def test_a_draft_is_nowhere_until_it_is_published(store: ObjectStore) -> None:
    draft = store.draft()
    draft.write(b"half ")
    draft.write(memoryview(b"and half"))
    assert (draft.tell(), store.list_folder().objects) == (13, [])

    draft.publish("a.parquet")
    draft.discard()

    assert store.get("a.parquet") == b"half and half"
    given_up = store.draft()
    given_up.write(b"x")
    given_up.discard()
    given_up.discard()
    assert [entry.key for entry in store.list_folder().objects] == ["a.parquet"]


def test_large_objects_are_read_in_pieces(fake: FakeObstore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "PIECE", 7)
    fake.kept["a.parquet"] = bytes(range(50))

    with open_store("s3://archive/orders").open("a.parquet") as file:
        assert file.read() == bytes(range(50))


def test_parts_of_an_object_are_read_where_it_lies(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "PIECE", 1 << 16)
    store.create("a.parquet", bytes(range(256)) * 1024)

    with store.open("a.parquet", in_parts=True) as file:
        assert file.seek(-3, 2) == (256 << 10) - 3
        assert file.read() == bytes([253, 254, 255])
        file.seek(5)
        assert file.read(3) == bytes([5, 6, 7])
        assert file.read(200_000) == (bytes(range(256)) * 1024)[8:200_008]
    with pytest.raises(KeyMissing):
        store.open("b.parquet", in_parts=True)


def test_errors_of_obstore_are_one_line_with_the_place(fake: FakeObstore) -> None:
    with pytest.raises(StoreError, match=r"^gopher://x: no store for gopher://x$"):
        open_store("gopher://x")


def test_put_replaces_and_head_tells_the_size(store: ObjectStore) -> None:
    store.put("a/b", b"one")
    store.put("a/b", b"other")
    store.put("a/empty", b"")

    assert store.get("a/b") == b"other"
    assert store.head("a/b")[:2] == ("a/b", 5)
    assert store.head("a/empty").size == 0
    assert store.get("a/empty") == b""
    for missing in (lambda: store.head("a/c"), lambda: store.get_range("a/c", 0, 1)):
        with pytest.raises(KeyMissing):
            missing()


def test_ranges_end_where_the_object_ends(store: ObjectStore) -> None:
    store.put("a", bytes(range(100)))

    assert store.get_range("a", 0, 1) == b"\x00"
    assert store.get_range("a", 90, 100) == bytes(range(90, 100))
    assert store.get_range("a", 90, 200) == bytes(range(90, 100))


def test_everything_below_a_folder_is_listed_from_a_key_on(store: ObjectStore) -> None:
    for key in ("wal/09", "wal/10", "wal/11/x", "walrus", "b"):
        store.put(key, b"x")

    assert sorted(one.key for one in store.list()) == ["b", "wal/09", "wal/10", "wal/11/x", "walrus"]
    assert sorted(one.key for one in store.list("wal")) == ["wal/09", "wal/10", "wal/11/x"]
    assert sorted(one.key for one in store.list("wal", after="wal/09")) == ["wal/10", "wal/11/x"]
    assert list(store.list("none")) == []
    assert list(store.list("wal", after="wal/99")) == []


def test_folder_is_synced_whether_it_is_there_or_not(store: ObjectStore) -> None:
    store.sync_folder("a/b")
    store.put("a/b/c", b"x")
    store.sync_folder("a/b")

    assert [one.key for one in store.list_folder("a/b").objects] == ["a/b/c"]


def test_refused_credentials_are_another_error_than_a_store_that_fails(fake: FakeObstore) -> None:
    store = open_store("s3://archive/orders")
    for name in ("PermissionDeniedError", "UnauthenticatedError"):
        fake.failure = getattr(fake.exceptions, name)("signature does not match\nbody")
        with pytest.raises(AccessRefused, match=r"^cannot read s3://\S+/a: signature does not match$"):
            store.get("a")
    fake.failure = fake.exceptions.GenericError("503 Slow Down")
    with pytest.raises(StoreError, match="503 Slow Down") as caught:
        store.get("a")
    assert type(caught.value) is StoreError


# -- a directory


def test_second_writer_of_a_directory_is_kept_out(tmp_path: Path) -> None:
    with LocalStore(tmp_path).lock() as is_alone:
        assert is_alone
        with pytest.raises(LockHeld, match="another process writes to it"), LocalStore(tmp_path).lock():
            pytest.fail("two have the lock")


def test_directory_shows_no_file_that_is_being_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.new").write_bytes(b"half")
    assert LocalStore(tmp_path).list_folder() == ([], [])
    assert list(LocalStore(tmp_path).list()) == []


def test_draft_of_a_writer_that_died_is_written_over(tmp_path: Path) -> None:
    left = tmp_path / DRAFTS / "1"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"x" * 100)
    draft = LocalStore(tmp_path).draft()
    draft.write(b"new")
    draft.publish("deep/in/a")
    assert LocalStore(tmp_path).get("deep/in/a") == b"new"


def test_directory_that_may_not_be_written_refuses_access(tmp_path: Path) -> None:
    class ReadOnly(RealFileSystem):
        def open(self, path: Path, mode: FileMode) -> int:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    with pytest.raises(AccessRefused, match=r"cannot write .*: Permission denied"):
        LocalStore(tmp_path, ReadOnly()).put("b", b"x")


def test_options_of_a_directory_are_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a directory takes no options, and endpoint were given"):
        open_store(str(tmp_path), endpoint="x")


# -- on an event loop


@pytest.fixture(params=["memory", "local", "shared", "s3", "azure"])
def loop_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncObjectStore:
    if request.param == "shared":
        return SharedDirectory(tmp_path / "made")
    pytest.importorskip("obstore")
    if request.param == "s3":
        return open_async_store(f"s3://archive/{tmp_path.name}", **request.getfixturevalue("s3"))
    if request.param == "azure":
        return open_async_store(f"az://archive/{tmp_path.name}", **request.getfixturevalue("azure"))
    return open_async_store("memory:///" if request.param == "memory" else f"file://{tmp_path}/made")


def test_store_of_a_loop_keeps_the_same_contract(loop_store: AsyncObjectStore, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"of a file")

    async def run() -> None:
        store = loop_store
        await store.create("wal/1", b"one")
        with pytest.raises(KeyExists):
            await store.create("wal/1", b"other")
        await store.put("wal/2", b"two")
        await store.put("wal/2", file)
        await store.create("b", file)
        assert [await store.get(key) for key in ("wal/1", "wal/2", "b")] == [
            b"one",
            b"of a file",
            b"of a file",
        ]
        assert await store.get_range("wal/2", 3, 200) == b"a file"
        assert (await store.head("wal/1"))[:2] == ("wal/1", 3)
        assert sorted([one.key async for one in store.list()]) == ["b", "wal/1", "wal/2"]
        assert [one.key async for one in store.list("wal", after="wal/1")] == ["wal/2"]
        found = await store.list_folder()
        assert ([one.key for one in found.objects], found.folders) == (["b"], ["wal"])
        for missing in (store.get("c"), store.head("c"), store.get_range("c", 0, 1)):
            with pytest.raises(KeyMissing):
                await missing
        await store.delete([])
        await store.delete(["wal/1", "c", "wal/2"])
        await store.delete(["c"])
        assert [one.key async for one in store.list()] == ["b"]

    asyncio.run(run())


def test_of_many_creates_under_way_one_succeeds(loop_store: AsyncObjectStore) -> None:
    async def run() -> None:
        tried = [loop_store.create("wal/7", b"%d" % number) for number in range(8)]
        outcomes = await asyncio.gather(*tried, return_exceptions=True)
        (winner,) = (number for number, outcome in enumerate(outcomes) if outcome is None)
        assert sum(isinstance(outcome, KeyExists) for outcome in outcomes) == 7
        assert await loop_store.get("wal/7") == b"%d" % winner

    asyncio.run(run())


def test_store_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    for opened in (open_store, open_async_store):
        with pytest.raises(UnsupportedError, match="need the package obstore: pip install"):
            opened("s3://archive/orders")


# -- a directory without a lock


def test_objects_of_a_directory_survive_a_power_loss() -> None:
    async def run(files: MemoryFileSystem) -> None:
        store = SharedDirectory(Path("/bucket"), files)
        await store.create("wal/1", b"one")
        await store.put("wal/2", b"two")
        await store.create("wal/3", b"three")
        await store.delete(["wal/3"])
        with pytest.raises(KeyExists):
            await store.create("wal/2", b"other")

    for seed in range(20):
        files = MemoryFileSystem()
        files.mkdir(Path("/bucket"))
        files.fsync_dir(Path("/"))
        asyncio.run(run(files))
        files.crash(Random(seed))
        local = LocalStore(Path("/bucket"), files)
        assert {one.key: local.get(one.key) for one in local.list("wal")} == {
            "wal/1": b"one",
            "wal/2": b"two",
        }


def test_directory_tells_sizes_and_times_and_no_drafts(tmp_path: Path) -> None:
    async def run() -> None:
        store = SharedDirectory(tmp_path)
        before = time.time_ns()
        await store.create("wal/1", b"one")
        (info,) = [one async for one in store.list()]
        assert info == await store.head("wal/1")
        assert info.size == 3
        assert info.modified_ns is not None
        assert abs(info.modified_ns - before) < 60 * 10**9
        assert (await store.list_folder("_headrace")).objects == []

    asyncio.run(run())


def test_directory_that_is_full_leaves_no_object_and_no_draft() -> None:
    files = MemoryFileSystem(capacity=100)
    store = SharedDirectory(Path("/"), files)
    for write in (store.create, store.put):
        with pytest.raises(StoreError, match=r"^cannot write /wal/1: No space left on device$"):
            asyncio.run(write("wal/1", bytes(200)))
    asyncio.run(store.create("wal/1", bytes(90)))
    assert [one.key for one in LocalStore(Path("/"), files).list()] == ["wal/1"]
    assert files.listdir(Path("/") / DRAFTS) == []
