"""The local files as a cache: reads of what is not here, room, and what a start may believe."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from random import Random
from typing import TYPE_CHECKING

import pytest
from shard_model import KEYS, Owner, Reads, inline, manifests

from harness import depth
from harness.memory_objects import MemoryObjects
from harness.virtual_loop import run
from headrace.bucket.cache import OWN, READ_AHEAD, LocalCache
from headrace.bucket.capture import CapturingFileSystem
from headrace.bucket.changes import Truncate, Unlink, Write, encode
from headrace.bucket.extents import BLOCK
from headrace.bucket.journal import Journal
from headrace.bucket.mirror import Mirror
from headrace.log.blocking import NotHere, without_waiting
from headrace.log.filesystem import FileMode, RealFileSystem
from headrace.objects.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.bucket.manifest import Manifest
    from headrace.bucket.tree import Tree


async def taken(owner: Owner) -> Manifest:
    taking = asyncio.create_task(owner.snapshotter.take())
    while not taking.done():
        await asyncio.sleep(0.01)
        owner.commit()
    return taking.result()


def bucket_of(directory: Path, files: dict[str, bytes]) -> tuple[MemoryObjects, Manifest]:
    """A bucket with a snapshot of some files."""

    directory.mkdir()

    async def main() -> tuple[MemoryObjects, Manifest]:
        store = MemoryObjects()
        owner = Owner(directory, store)
        for path, data in files.items():
            owner.make(path, data)
        return store, await taken(owner)

    return run(main())


class Cold:
    """A server that has a snapshot, and in its directory what `begin` made of it."""

    def __init__(
        self, directory: Path, store: MemoryObjects, manifest: Manifest, cache_bytes: int | None = None
    ) -> None:
        self.directory = directory
        self.tree: Tree = manifest.tree()
        self.reads = Reads(store)
        files = RealFileSystem()
        self.cache = LocalCache(
            files, directory, self.reads, KEYS, self.tree, cache_bytes=cache_bytes, offload=inline
        )
        run(self.cache.begin())
        self.journal = Journal()
        self.cache.changes = self.journal.lock
        self.files = CapturingFileSystem(files, directory, self.tree, self.journal, self.cache)

    def open(self, path: str, mode: FileMode = FileMode.READ) -> int:
        return self.files.open(self.directory / path, mode)

    def read(self, path: str) -> bytes:
        handle = self.open(path)
        try:
            return self.files.pread(handle, self.files.size(handle), 0)
        finally:
            self.files.close(handle)

    def make_old(self) -> None:
        """Wait until no file was changed lately, as far as the index can tell."""
        now = self.cache._index._now_ns
        self.cache._index._now_ns = lambda: now() + 10**12  # type: ignore[method-assign]


@pytest.fixture(name="large")
def large_file() -> bytes:
    return Random(1).randbytes(5 * BLOCK + 1000)


def test_a_start_downloads_nothing_and_a_read_brings_its_block(tmp_path: Path, large: bytes) -> None:
    store, manifest = bucket_of(tmp_path / "owner", {"d/large": large, "small": b"some bytes", "empty": b""})
    cold = Cold(tmp_path / "cold", store, manifest)
    assert not cold.reads.requests
    handle = cold.open("d/large")
    assert cold.files.size(handle) == len(large)
    assert cold.files.descriptor(handle) is None
    assert cold.files.pread(handle, 100, 3 * BLOCK + 5) == large[3 * BLOCK + 5 : 3 * BLOCK + 105]
    ((_, start, end),) = cold.reads.requests
    assert end - start == BLOCK
    assert cold.files.pread(handle, 100, 4 * BLOCK - 100) == large[4 * BLOCK - 100 : 4 * BLOCK]
    assert len(cold.reads.requests) == 1, "it is here now"
    assert cold.files.pread(handle, 100, len(large) - 10) == large[-10:]
    assert cold.files.pread(handle, 100, len(large)) == b""
    assert cold.read("small") == b"some bytes"
    assert cold.read("empty") == b""
    cold.cache.close()


def test_a_file_that_is_read_wholly_has_a_descriptor(tmp_path: Path, large: bytes) -> None:
    store, manifest = bucket_of(tmp_path / "owner", {"large": large})
    cold = Cold(tmp_path / "cold", store, manifest)
    handle = cold.open("large")
    assert cold.files.pread(handle, len(large), 0) == large
    descriptor = cold.files.descriptor(handle)
    assert descriptor is not None
    assert os.pread(descriptor, len(large), 0) == large
    cold.cache.close()


def test_who_reads_on_and_on_has_more_brought_ahead(tmp_path: Path) -> None:
    large = Random(2).randbytes(2 * READ_AHEAD + 12345)
    store, manifest = bucket_of(tmp_path / "owner", {"large": large})
    cold = Cold(tmp_path / "cold", store, manifest)
    handle = cold.open("large")
    at = 0
    while at < len(large):
        data = cold.files.pread(handle, 256 << 10, at)
        assert data == large[at : at + (256 << 10)]
        at += len(data)
    sizes = [end - start for _, start, end in cold.reads.requests]
    assert sum(sizes) == len(large), "no byte twice"
    assert len(sizes) < len(large) // BLOCK // 2
    assert cold.cache.fetched == len(large)
    cold.cache._pool.shutdown()
    assert cold.cache._ahead_bytes == 0
    cold.cache.close()


def test_ranges_ahead_are_asked_for_at_the_same_time(tmp_path: Path) -> None:
    large = Random(3).randbytes(40 * BLOCK)
    store, manifest = bucket_of(tmp_path / "owner", {"d/1": large, "d/2": large})
    cold = Cold(tmp_path / "cold", store, manifest)
    asked = threading.Condition()
    started = 0

    def several(_key: str) -> None:
        nonlocal started
        with asked:
            started += 1
            asked.notify_all()
            assert asked.wait_for(lambda: started >= 4, 20), "one range after the other"

    handle = cold.open("d/1")
    for at in range(0, len(large), BLOCK // 4):
        assert cold.files.pread(handle, BLOCK // 4, at) == large[at : at + BLOCK // 4]
    cold.files.close(handle)
    cold.reads.fail = several
    following = cold.open("d/2")
    assert cold.files.pread(following, 100, 0) == large[:100], "the reader goes on with the next file"
    cold.cache.close()


def test_who_may_not_wait_is_told_what_to_wait_for(tmp_path: Path, large: bytes) -> None:
    store, manifest = bucket_of(tmp_path / "owner", {"f": large})
    cold = Cold(tmp_path / "cold", store, manifest)
    handle = cold.open("f")
    with without_waiting(), pytest.raises(NotHere) as raised:
        cold.files.pread(handle, 10, 0)
    raised.value.arrival.result(60)
    with without_waiting():
        assert cold.files.pread(handle, 10, 0) == large[:10]
    assert len(cold.reads.requests) == 1
    cold.reads.fail = failing
    with without_waiting():
        with pytest.raises(NotHere) as raised:
            cold.files.pread(handle, 10, 3 * BLOCK)
        assert isinstance(raised.value.arrival.exception(60), OSError)
        with pytest.raises(OSError, match="not reachable"):
            cold.files.pread(handle, 10, 3 * BLOCK)
        cold.reads.fail = lambda _key: None
        with pytest.raises(NotHere) as raised:
            cold.files.pread(handle, 10, 3 * BLOCK)
        raised.value.arrival.result(60)
        assert cold.files.pread(handle, 10, 3 * BLOCK) == large[3 * BLOCK : 3 * BLOCK + 10]
        cold.cache.close()
        with pytest.raises(NotHere) as raised:
            cold.files.pread(handle, 10, 5 * BLOCK)
        with pytest.raises(OSError, match="not read any more"):
            raised.value.arrival.result(60)


def failing(_key: str) -> None:
    raise StoreError("not reachable")


def test_what_is_written_is_not_read_from_the_bucket(tmp_path: Path, large: bytes) -> None:
    store, manifest = bucket_of(tmp_path / "owner", {"f": large})
    cold = Cold(tmp_path / "cold", store, manifest)
    model = bytearray(large)
    handle = cold.open("f", FileMode.UPDATE)
    for at, data in ((BLOCK + 5, b"new"), (4 * BLOCK - 2, b"over"), (len(large) + 50, b"behind")):
        cold.files.pwrite(handle, data, at)
        model += bytes(max(at + len(data) - len(model), 0))
        model[at : at + len(data)] = data
    assert cold.files.pread(handle, 10, BLOCK + 3) == model[BLOCK + 3 : BLOCK + 13]
    assert cold.read("f") == model
    cold.files.truncate(handle, 2 * BLOCK + 7)
    cold.files.truncate(handle, 3 * BLOCK)
    assert cold.read("f") == model[: 2 * BLOCK + 7] + bytes(BLOCK - 7)
    cold.cache.close()


def test_cut_off_bytes_do_not_come_back(tmp_path: Path, large: bytes) -> None:
    store, manifest = bucket_of(tmp_path / "owner", {"f": large})
    cold = Cold(tmp_path / "cold", store, manifest)
    handle = cold.open("f", FileMode.UPDATE)
    cold.files.truncate(handle, 100)
    cold.files.truncate(handle, len(large))
    assert cold.read("f") == large[:100] + bytes(len(large) - 100)
    cold.cache.close()


def test_a_reader_of_a_file_without_a_name_reads_on(tmp_path: Path, large: bytes) -> None:
    store, manifest = bucket_of(tmp_path / "owner", {"f": large})
    cold = Cold(tmp_path / "cold", store, manifest)
    handle = cold.open("f")
    assert cold.files.pread(handle, 10, 0) == large[:10]
    cold.files.unlink(tmp_path / "cold" / "f")
    assert cold.files.pread(handle, BLOCK, BLOCK - 50) == large[BLOCK - 50 : 2 * BLOCK - 50]
    cold.files.close(handle)
    assert not cold.cache._partial
    assert not cold.cache._gone
    cold.cache.close()


def test_failures_are_tried_again_and_told(tmp_path: Path, large: bytes) -> None:
    store, manifest = bucket_of(tmp_path / "owner", {"f": large})
    cold = Cold(tmp_path / "cold", store, manifest)
    failures = iter([StoreError("503")])

    def once(_key: str) -> None:
        for error in failures:
            raise error

    cold.reads.fail = once
    handle = cold.open("f")
    assert cold.files.pread(handle, 10, 0) == large[:10]

    def always(_key: str) -> None:
        raise StoreError("not reachable")

    cold.reads.fail = always
    with pytest.raises(OSError, match="not reachable") as raised:
        cold.files.pread(handle, 10, 3 * BLOCK)
    assert raised.value.errno == errno.EIO
    cold.reads.fail = lambda _key: None
    (name,) = manifest.objects()
    whole = store.objects[KEYS.segment(name)]
    store.objects[KEYS.segment(name)] = bytes(len(whole[0])), 0
    with pytest.raises(OSError, match="checksum"):
        cold.files.pread(handle, 10, 3 * BLOCK)
    del store.objects[KEYS.segment(name)]
    with pytest.raises(OSError, match="not there"):
        cold.files.pread(handle, 10, 3 * BLOCK)
    store.objects[KEYS.segment(name)] = whole
    assert cold.files.pread(handle, 10, 3 * BLOCK) == large[3 * BLOCK : 3 * BLOCK + 10]
    cold.cache.close()
    with pytest.raises(OSError, match="not read any more"):
        cold.files.pread(handle, 10, BLOCK)


def test_room_is_made_by_what_was_not_used_for_longest(tmp_path: Path) -> None:
    files = {f"f{number}": bytes([number]) * BLOCK for number in range(6)}
    store, manifest = bucket_of(tmp_path / "owner", files)
    cold = Cold(tmp_path / "cold", store, manifest, cache_bytes=4 * BLOCK)
    held = cold.open("f0")
    assert cold.files.pread(held, BLOCK, 0) == files["f0"]
    for name in ("f1", "f2", "f3", "f4", "f5", "f1"):
        assert cold.read(name) == files[name]
        cold.cache.make_room()
    assert cold.cache.local_bytes <= 4 * BLOCK
    assert cold.files.descriptor(held) is not None, "an open file stays"
    used = sum(os.stat(tmp_path / "cold" / name).st_blocks for name in files) * 512
    assert used <= 5 * BLOCK
    requests = len(cold.reads.requests)
    assert cold.read("f1") == files["f1"]
    assert len(cold.reads.requests) == requests, "it was used last"
    assert {name: cold.read(name) for name in files} == files
    cold.cache.close()


def test_what_only_the_wal_has_stays(tmp_path: Path) -> None:
    store, manifest = bucket_of(tmp_path / "owner", {"f": b"1" * BLOCK, "g": b"2" * BLOCK})
    cold = Cold(tmp_path / "cold", store, manifest, cache_bytes=0)
    handle = cold.open("f", FileMode.UPDATE)
    cold.files.pwrite(handle, b"new", 10)
    cold.files.close(handle)
    assert cold.read("f")[8:15] == b"11new11"
    assert cold.read("g") == b"2" * BLOCK
    cold.cache.make_room()
    assert cold.cache.local_bytes == BLOCK
    assert cold.read("f")[8:15] == b"11new11"
    cold.cache.close()


def test_a_start_believes_what_the_index_says(tmp_path: Path) -> None:
    files = {"d/same": b"1" * 1000, "d/touched": b"2" * 1000, "d/other": b"3" * 1000, "d/gone": b"4" * 10}
    store, manifest = bucket_of(tmp_path / "owner", files)
    first = Cold(tmp_path / "cold", store, manifest)
    assert {path: first.read(path) for path in files} == files
    first.make_old()
    run(first.cache.save())
    first.cache.close()
    (tmp_path / "cold/d/touched").write_bytes(b"x" * 1000)
    (tmp_path / "cold/d/other").write_bytes(b"3" * 1000 + b"a tail that was never committed")
    (tmp_path / "cold/d/gone").unlink()
    (tmp_path / "cold/d/stranger").write_bytes(b"?")
    (tmp_path / "cold/e/f").mkdir(parents=True)
    (tmp_path / "cold/e/f/lock").write_bytes(b"")
    (tmp_path / "cold/lock").write_bytes(b"")
    second = Cold(tmp_path / "cold", store, manifest)
    same = second.tree.file_at("d/same")
    assert [file.path for file in second.tree.files.values() if second.cache.is_whole(file.id)] == ["d/same"]
    assert same is not None
    assert {path: second.read(path) for path in files} == files
    assert sorted(os.listdir(tmp_path / "cold")) == [OWN, "d", "lock"]
    assert not (tmp_path / "cold/d/stranger").exists()
    second.cache.close()


@pytest.mark.parametrize("change", [Write(1, 5, b"x"), Truncate(1, 1001), Truncate(1, 999), Unlink("f")])
def test_what_was_never_committed_is_not_believed(tmp_path: Path, change: Write | Truncate | Unlink) -> None:
    """An owner changed a file, noted what is whole, and lost the shard before the change was committed."""
    store, manifest = bucket_of(tmp_path / "owner", {"f": b"1" * 1000})
    first = Cold(tmp_path / "cold", store, manifest)
    assert first.read("f") == b"1" * 1000
    first.make_old()
    run(first.cache.save())
    Mirror(RealFileSystem(), tmp_path / "cold", first.tree, first.cache).apply(encode([change]))
    run(first.cache.save())
    first.cache.close()
    second = Cold(tmp_path / "cold", store, manifest)
    assert second.read("f") == b"1" * 1000
    second.cache.close()


@pytest.mark.parametrize("data", [b"", b"HRCACHE\n", b"x" * 100])
def test_an_index_that_is_none_says_nothing(tmp_path: Path, data: bytes) -> None:
    store, manifest = bucket_of(tmp_path / "owner", {"f": b"1" * 1000})
    (tmp_path / "cold" / OWN).mkdir(parents=True)
    (tmp_path / "cold" / OWN / "index").write_bytes(data)
    (tmp_path / "cold/f").write_bytes(b"?" * 1000)
    cold = Cold(tmp_path / "cold", store, manifest)
    assert cold.read("f") == b"1" * 1000
    cold.cache.close()


def test_a_file_that_was_changed_just_now_is_not_noted(tmp_path: Path) -> None:
    store, manifest = bucket_of(tmp_path / "owner", {"f": b"1" * 1000})
    first = Cold(tmp_path / "cold", store, manifest)
    first.read("f")
    run(first.cache.save())
    first.cache.close()
    second = Cold(tmp_path / "cold", store, manifest)
    assert not second.cache.is_whole(1)
    second.cache.close()


@pytest.mark.parametrize("seed", depth.seeds(60))
def test_random_reads_and_writes_are_those_of_plain_files(tmp_path: Path, seed: int) -> None:
    """Reads, writes, cuts, room that is made and starts in between, beside the same files in memory."""
    random = Random(seed)
    files = {f"f{n}": random.randbytes(random.choice([10, 5000, BLOCK + 100, 3 * BLOCK])) for n in range(4)}
    store, _ = bucket_of(tmp_path / "owner", files)
    (manifest,) = manifests(store).values()
    cold = Cold(tmp_path / "cold", store, manifest, cache_bytes=random.choice([None, BLOCK, 4 * BLOCK]))
    model = {path: bytearray(data) for path, data in files.items()}
    handles: dict[int, str] = {}

    def write(path: str, handle: int) -> None:
        at, data = random.randrange(len(model[path]) + 100), random.randbytes(random.randrange(1, 3000))
        cold.files.pwrite(handle, data, at)
        model[path] += bytes(max(at + len(data) - len(model[path]), 0))
        model[path][at : at + len(data)] = data

    def cut(path: str, handle: int) -> None:
        size = random.randrange(len(model[path]) + BLOCK // 2)
        cold.files.truncate(handle, size)
        model[path] += bytes(max(size - len(model[path]), 0))
        del model[path][size:]

    def read(path: str, handle: int) -> None:
        at, size = random.randrange(len(model[path]) + 10), random.choice([1, 5000, BLOCK, 2 * BLOCK])
        assert cold.files.pread(handle, size, at) == model[path][at : at + size]

    steps: list[Callable[[str, int], object]] = [read, read, read, write, cut]
    for _ in range(60):
        if len(handles) < 3 and random.random() < 0.4:
            path = random.choice(list(model))
            handles[cold.open(path, FileMode.UPDATE)] = path
        elif handles and random.random() < 0.2:
            handle = random.choice(list(handles))
            del handles[handle]
            cold.files.close(handle)
            cold.cache.make_room()
        elif handles:
            handle = random.choice(list(handles))
            random.choice(steps)(handles[handle], handle)
    for handle in handles:
        cold.files.close(handle)
    assert {path: cold.read(path) for path in model} == model
    cold.cache.close()
