"""The files of a shard, read where they are: plain files, what the log has behind a snapshot, a store."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from shard_model import KEYS, Owner, Reads

from harness.memory_objects import MemoryObjects
from harness.virtual_loop import run
from headrace.bucket import shard_files
from headrace.bucket.errors import Behind, BucketError
from headrace.bucket.extent_contents import ExtentContents
from headrace.bucket.extents import BLOCK
from headrace.bucket.shard_files import ShardFiles, load_shard_files
from headrace.bucket.wal_object import Kind
from headrace.errors import StorageError
from headrace.log.file import FileLog
from headrace.log.filesystem import FileMode
from headrace.log.port import NewMessage
from headrace.log.store import FileStore
from headrace.log.view import LogView, read_slice
from headrace.objects.errors import StoreError

if TYPE_CHECKING:
    from headrace.bucket.follower import Point
    from headrace.bucket.manifest import Manifest

PLACE = Path("/shards/orders")


def bucket_of(directory: Path, files: dict[str, bytes]) -> tuple[MemoryObjects, Manifest]:
    """A bucket with a snapshot of some files."""
    directory.mkdir()

    async def main() -> tuple[MemoryObjects, Manifest]:
        store = MemoryObjects()
        owner = Owner(directory, store)
        for path, data in files.items():
            owner.make(path, data)
        taking = asyncio.create_task(owner.snapshotter.take())
        while not taking.done():
            await asyncio.sleep(0.01)
            owner.commit()
        return store, taking.result()

    return run(main())


def test_files_are_read_by_range(tmp_path: Path) -> None:
    large = Random(1).randbytes(3 * BLOCK + 500)
    store, manifest = bucket_of(tmp_path / "owner", {"d/large": large, "d/e/small": b"abc", "empty": b""})
    reads = Reads(store)
    files = ShardFiles(ExtentContents(reads, KEYS, 2 * BLOCK), manifest.tree(), PLACE)
    assert sorted(files.listdir(PLACE)) == ["d", "empty"]
    assert sorted(files.listdir(PLACE / "d")) == ["e", "large"]
    assert files.is_directory(PLACE / "d/e")
    assert not files.is_directory(PLACE / "d/large")
    assert not reads.requests
    handle = files.open(PLACE / "d/large", FileMode.READ)
    assert files.size(handle) == len(large)
    assert files.descriptor(handle) is None
    random = Random(2)
    for _ in range(50):
        at, size = random.randrange(len(large) + 10), random.choice([1, 1000, BLOCK, 4 * BLOCK])
        assert files.pread(handle, size, at) == large[at : at + size]
        assert files.contents.kept_bytes <= 2 * BLOCK
    requests = len(reads.requests)
    assert files.pread(handle, 10, at if at < len(large) else 0) is not None
    assert len(reads.requests) <= requests + 1
    files.close(handle)
    with pytest.raises(OSError, match="Bad file"):
        files.pread(handle, 1, 0)
    empty = files.open(PLACE / "empty", FileMode.READ)
    assert files.pread(empty, 10, 0) == b""


def test_a_block_that_was_read_is_kept(tmp_path: Path) -> None:
    store, manifest = bucket_of(tmp_path / "owner", {"f": b"1" * 1000})
    reads = Reads(store)
    files = ShardFiles(ExtentContents(reads, KEYS), manifest.tree(), PLACE)
    handle = files.open(PLACE / "f", FileMode.READ)
    assert [files.pread(handle, 10, at) for at in (0, 500, 0)] == [b"1" * 10] * 3
    assert len(reads.requests) == 1


def test_failures_are_errors_of_reading(tmp_path: Path) -> None:
    store, manifest = bucket_of(tmp_path / "owner", {"f": b"1" * 1000})
    reads = Reads(store)
    files = ShardFiles(ExtentContents(reads, KEYS), manifest.tree(), PLACE)
    handle = files.open(PLACE / "f", FileMode.READ)

    def fail(_key: str) -> None:
        raise StoreError("not reachable")

    reads.fail = fail
    with pytest.raises(OSError, match="not reachable") as raised:
        files.pread(handle, 10, 0)
    assert raised.value.errno == errno.EIO
    reads.fail = lambda _key: None
    (name,) = manifest.objects()
    store.objects[KEYS.segment(name)] = b"2" * 1000, 0
    with pytest.raises(OSError, match="checksum"):
        files.pread(handle, 10, 0)
    with pytest.raises(FileNotFoundError):
        files.open(PLACE / "g", FileMode.READ)
    with pytest.raises(FileNotFoundError):
        files.open(Path("/elsewhere/f"), FileMode.READ)
    with pytest.raises(FileNotFoundError):
        files.listdir(PLACE / "g")
    with pytest.raises(NotADirectoryError):
        files.listdir(PLACE / "f")


async def behind_a_snapshot(directory: Path, store: MemoryObjects, seed: int) -> Owner:
    """Changes at random, some WAL objects of them, with snapshots in between and more behind the last."""
    random = Random(seed)
    owner = Owner(directory, store)
    owner.commit(Kind.FENCE)

    def change() -> None:
        for _ in range(random.randrange(1, 6)):
            owner.anything(random, 40_000)
        owner.commit()

    for _ in range(random.randrange(1, 4)):
        for _ in range(random.randrange(1, 6)):
            change()
        taking = asyncio.create_task(owner.snapshotter.take())
        while not taking.done():
            await asyncio.sleep(0.01)
            change()
        taking.result()
    for _ in range(random.randrange(4)):
        change()
    return owner


@pytest.mark.parametrize("seed", range(20))
def test_everything_that_is_committed_is_there(tmp_path: Path, seed: int) -> None:
    (tmp_path / "owner").mkdir()

    async def main() -> tuple[Owner, ShardFiles]:
        store = MemoryObjects()
        owner = await behind_a_snapshot(tmp_path / "owner", store, seed)
        return owner, await load_shard_files(store, ExtentContents(Reads(store), KEYS), KEYS, PLACE)

    owner, files = run(main())
    random = Random(seed)
    wanted = owner.states[owner.number]
    folders = files.listdir(PLACE)
    assert {f"{one}/{name}" for one in folders for name in files.listdir(PLACE / one)} == set(wanted)
    for name, data in wanted.items():
        handle = files.open(PLACE / name, FileMode.READ)
        assert files.size(handle) == len(data)
        assert files.pread(handle, len(data) + 1, 0) == data
        at, size = random.randrange(len(data) + 1), random.randrange(30_000)
        assert files.pread(handle, size, at) == data[at : at + size]


def test_without_a_snapshot_the_log_is_read_from_its_beginning(tmp_path: Path) -> None:
    (tmp_path / "owner").mkdir()

    async def main() -> ShardFiles:
        store = MemoryObjects()
        owner = Owner(tmp_path / "owner", store)
        owner.commit(Kind.FENCE)
        owner.make("d/a", b"one")
        owner.commit()
        return await load_shard_files(store, ExtentContents(Reads(store), KEYS), KEYS, PLACE)

    files = run(main())
    assert files.pread(files.open(PLACE / "d/a", FileMode.READ), 10, 0) == b"one"


def test_a_shard_that_is_not_there(tmp_path: Path) -> None:
    store = MemoryObjects()
    with pytest.raises(BucketError, match="there is no shard orders in"):
        run(load_shard_files(store, ExtentContents(Reads(store), KEYS), KEYS, tmp_path))


def test_loading_begins_again_when_what_it_reads_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "owner").mkdir()
    attempts: list[int] = []
    read = shard_files.read_log

    async def deleted_at_first(*arguments: Any) -> Point:
        attempts.append(1)
        reached = await read(*arguments)
        if len(attempts) < 3:
            raise Behind("object 1 of shard orders is deleted")
        return reached

    async def never(*arguments: Any) -> Point:
        raise Behind(f"object 1 of {arguments[1].shard} is deleted")

    async def main() -> tuple[dict[str, bytes], ShardFiles]:
        store = MemoryObjects()
        owner = await behind_a_snapshot(tmp_path / "owner", store, 1)
        monkeypatch.setattr(shard_files, "read_log", deleted_at_first)
        files = await load_shard_files(store, ExtentContents(Reads(store), KEYS), KEYS, PLACE)
        monkeypatch.setattr(shard_files, "read_log", never)
        with pytest.raises(BucketError, match="deleted faster"):
            await load_shard_files(store, ExtentContents(Reads(store), KEYS), KEYS, PLACE)
        return owner.states[owner.number], files

    wanted, files = run(main())
    assert len(attempts) == 3
    for name, data in wanted.items():
        assert files.pread(files.open(PLACE / name, FileMode.READ), len(data), 0) == data


def test_bytes_that_were_deleted_since_are_no_gap(tmp_path: Path) -> None:
    store, manifest = bucket_of(tmp_path / "owner", {"f": b"1" * 1000})
    files = ShardFiles(ExtentContents(Reads(store), KEYS), manifest.tree(), PLACE)
    handle = files.open(PLACE / "f", FileMode.READ)
    (name,) = manifest.objects()
    del store.objects[KEYS.segment(name)]
    with pytest.raises(OSError, match="read it again") as raised:
        files.pread(handle, 10, 0)
    assert raised.value.errno == errno.ESTALE


def test_what_is_written_stays_in_memory(tmp_path: Path) -> None:
    store, manifest = bucket_of(tmp_path / "owner", {"f": b"1" * 1000})
    before = dict(store.objects)
    files = ShardFiles(ExtentContents(Reads(store), KEYS), manifest.tree(), PLACE)
    handle = files.open(PLACE / "f", FileMode.APPEND)
    assert files.write(handle, b"22") == 2
    assert files.pwrite(handle, b"3", 0) == 1
    assert files.pread(handle, 2000, 0) == b"3" + b"1" * 999 + b"22"
    files.truncate(handle, 2)
    files.reserve(handle, 2, 3)
    assert files.pread(handle, 9, 0) == b"31\0\0\0"
    files.mkdir(PLACE / "d")
    files.rename(PLACE / "f", PLACE / "d/g")
    with pytest.raises(FileExistsError):
        files.mkdir(PLACE / "d")
    with pytest.raises(OSError, match="not empty"):
        files.rmdir(PLACE / "d")
    files.unlink(PLACE / "d/g")
    assert files.pwrite(handle, b"4", 1) == 1  # of a file that only its handle has
    assert files.pread(handle, 9, 0) == b"34\0\0\0"
    files.close(handle)
    assert not len(files.unsaved)
    files.rmdir(PLACE / "d")
    assert files.listdir(PLACE) == []
    for change in (
        lambda: files.unlink(PLACE / "f"),
        lambda: files.rename(PLACE / "f", PLACE / "g"),
        lambda: files.open(PLACE / "none/f", FileMode.CREATE),
    ):
        with pytest.raises(FileNotFoundError):
            change()
    assert dict(store.objects) == before


def test_a_log_is_viewed_without_its_server(tmp_path: Path) -> None:
    log = FileLog(tmp_path / "log", segment_bytes=20_000)
    payloads = [b"message %d " % number * 20 for number in range(1, 301)]
    for payload in payloads:
        log.append([NewMessage(b"orders", payload)])
    log.close()
    assert len(list((tmp_path / "log").glob("*.log"))) > 3
    contents = {f"logs/a/{path.name}": path.read_bytes() for path in (tmp_path / "log").iterdir()}
    store, manifest = bucket_of(tmp_path / "owner", contents)
    files = ShardFiles(ExtentContents(Reads(store), KEYS), manifest.tree(), PLACE)
    view = LogView(PLACE / "logs/a", filesystem=files)
    assert (view.first_sequence, view.last_sequence) == (1, len(payloads))
    found = [
        message.payload
        for piece in view.slices(1, len(payloads) + 1, 3)
        for messages, _ in read_slice(piece, filesystem=files)
        for message in messages
    ]
    assert found == payloads


def test_a_store_is_opened_without_its_server(tmp_path: Path) -> None:
    log = FileLog(tmp_path / "log")
    log.append([NewMessage(b"orders", b"one"), NewMessage(b"orders", b"two")])
    log.close()
    contents = {f"logs/a/{path.name}": path.read_bytes() for path in (tmp_path / "log").iterdir()}
    store, manifest = bucket_of(tmp_path / "owner", contents)
    opened = FileStore(
        PLACE,
        filesystem=ShardFiles(ExtentContents(Reads(store), KEYS), manifest.tree(), PLACE),
        remembers=False,
    )
    found = opened.open(b"a").read_from(1, max_messages=10, max_bytes=1000)
    assert [message.payload for message in found.messages] == [b"one", b"two"]
    opened.close()


def test_a_log_whose_objects_were_deleted_since_has_no_gap(tmp_path: Path) -> None:
    log = FileLog(tmp_path / "log", segment_bytes=20_000)
    for number in range(1, 301):
        log.append([NewMessage(b"orders", b"message %d " % number * 20)])
    log.close()
    contents = {f"logs/a/{path.name}": path.read_bytes() for path in (tmp_path / "log").iterdir()}
    store, manifest = bucket_of(tmp_path / "owner", contents)
    files = ShardFiles(ExtentContents(Reads(store), KEYS, 0), manifest.tree(), PLACE)
    opened = FileStore(PLACE, filesystem=files, remembers=False)
    found = opened.open(b"a")
    view = LogView(PLACE / "logs/a", filesystem=files)
    for name in manifest.objects():
        del store.objects[KEYS.segment(name)]
    with pytest.raises(StorageError, match="read it again"):
        found.read_from(1, max_messages=1000, max_bytes=1 << 20)
    with pytest.raises((StorageError, OSError), match="read it again"):
        list(read_slice(view.slices(1, 301, 1)[0], filesystem=files))
    opened.close()
