"""A store of a local disk that is brought into a bucket: whole or not at all, and untouched at its source."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from shard_model import KEYS, inline

from harness.memory_objects import ANSWER_LOST, FAILS, PROMPT, MemoryObjects
from harness.virtual_loop import run
from headrace.bucket import upload
from headrace.bucket.changes import Create, Mkdir, decode, encode
from headrace.bucket.claim import claim, create_object
from headrace.bucket.errors import Behind, BucketError, Overtaken
from headrace.bucket.follower import Point, WalFollower
from headrace.bucket.identity import check_identity
from headrace.bucket.restore import RestorePoint, read_log, restore_shard
from headrace.bucket.snapshots import newest_snapshot
from headrace.bucket.tree import Tree
from headrace.bucket.upload import upload_store
from headrace.bucket.wal_object import Kind, WalObject
from headrace.errors import StorageError, StoreLocked
from headrace.log.filesystem import RealFileSystem
from headrace.objects.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

    from harness.memory_objects import Fate, Request
    from headrace.bucket.upload import UploadedStore

WRITER = b"u" * 16


def made_store(place: Path) -> dict[str, bytes]:
    """Make a directory that looks like a store; return its files, without what is of this machine."""
    contents = {
        "logs/a/1.log": bytes(range(256)) * 20_000,
        "logs/a/index": b"",
        "logs/b/1.log": b"b" * 1000,
        "logs/b/c/2.log": b"c" * 70_000,
    }
    for name, data in contents.items():
        path = place / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (place / "home" / "lock").write_bytes(b"")
    return contents


def everything(place: Path) -> dict[Path, bytes]:
    return {one: one.read_bytes() for one in place.rglob("*") if one.is_file()}


async def uploaded(place: Path, store: MemoryObjects, **more: Any) -> UploadedStore:
    given = {"cluster": "", "writer": WRITER, "wall_ns": lambda: 1_000, "offload": inline, **more}
    return await upload_store(store, KEYS, place / "home", **given)


def restored(place: Path, store: MemoryObjects) -> dict[str, bytes]:
    """The files that the bucket has now."""
    home = place / "restored"
    run(restore_shard(store, KEYS, home, place / "unfinished", RestorePoint(), offload=inline))
    found = {one.relative_to(home).as_posix(): data for one, data in everything(home).items()}
    found.pop("staging.lock")
    return found


def test_store_comes_whole_and_stays_as_it_is(tmp_path: Path) -> None:
    contents, store, told = made_store(tmp_path), MemoryObjects(), []
    before = everything(tmp_path)
    made = run(uploaded(tmp_path, store, told=lambda done, of: told.append((done, of))))
    size = sum(map(len, contents.values()))
    assert made == (4, size, size)
    assert told[-1] == (size, size)
    assert everything(tmp_path) == before
    assert restored(tmp_path, store) == contents
    manifest = run(newest_snapshot(store, KEYS))
    assert manifest is not None
    assert manifest.fences == (1,)

    async def read_on() -> WalFollower:
        assert manifest is not None
        point = Point(manifest.number, manifest.epoch, manifest.writer)
        follower = WalFollower(store, KEYS, point, lambda _: None)
        await follower.catch_up()
        return follower

    assert run(read_on()).is_released  # the first server takes it over at once
    with pytest.raises(BucketError, match="has a store already"):
        run(uploaded(tmp_path, store))


def as_read(store: MemoryObjects) -> Tree | None:
    """The files that a reader finds now; None: it is told that there is more than it can see."""
    manifest = run(newest_snapshot(store, KEYS))
    tree = Tree() if manifest is None else manifest.tree()

    def apply(found: WalObject) -> None:
        for change in decode(found.payload) if found.kind is not Kind.FENCE else ():
            tree.apply(change)

    try:
        run(read_log(store, KEYS, manifest, apply))
    except Behind:
        return None
    return tree


def fate_after(store: MemoryObjects, last: int, how: Fate, _request: Request) -> Fate:
    """Have the first requests do well, and all others go another way."""
    return PROMPT if len(store.requests) <= last else how


@pytest.mark.parametrize("how", [FAILS, ANSWER_LOST])
def test_upload_that_fails_anywhere_is_whole_or_nothing_and_goes_on(tmp_path: Path, how: Fate) -> None:
    """Whichever request is the last: the bucket has nothing of the store or all, and another run ends it."""
    contents = made_store(tmp_path)
    size, last, is_done = sum(map(len, contents.values())), 0, False
    seen = set()
    while not is_done:
        store = MemoryObjects()
        store.fate = partial(fate_after, store, last, how)
        try:
            run(uploaded(tmp_path, store))
            is_done = True
        except (StoreError, BucketError):
            seen.add(None if (tree := as_read(healed(store))) is None else len(tree.files))
        again = healed(store)
        if run(newest_snapshot(again, KEYS)) is None:
            assert run(uploaded(tmp_path, again)).bytes == size
        assert restored(tmp_path / str(last), again) == contents
        last += 1
    assert last > 20
    assert {0, None} <= seen <= {0, None, len(contents)}


def healed(store: MemoryObjects) -> MemoryObjects:
    """The same bucket, which answers again."""
    return MemoryObjects(objects=store.objects)


def test_what_was_sent_is_not_sent_again(tmp_path: Path) -> None:
    contents = made_store(tmp_path)
    store = MemoryObjects(
        lambda request: FAILS if request.operation == "create" and "/wal/" in request.key else PROMPT
    )
    with pytest.raises(StoreError):
        run(uploaded(tmp_path, store))
    assert run(uploaded(tmp_path, healed(store))) == (4, sum(map(len, contents.values())), 0)
    assert restored(tmp_path, healed(store)) == contents


def test_server_that_was_faster_keeps_the_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_store(tmp_path)
    store = MemoryObjects()

    async def overtaken(follower: WalFollower, **more: Any) -> Any:
        claimed = await claim(follower, **more)
        other = WalFollower(store, KEYS, Point(), lambda _: None)
        await claim(other, writer=b"s" * 16, owner=b"server", wall_ns=lambda: 1)
        return claimed

    monkeypatch.setattr(upload, "claim", overtaken)
    with pytest.raises(Overtaken, match="was taken by a server meanwhile"):
        run(uploaded(tmp_path, store))
    assert run(newest_snapshot(store, KEYS)) is None
    monkeypatch.undo()
    with pytest.raises(BucketError, match="is owned by the server server: stop it first"):
        run(uploaded(tmp_path, store))


def test_shards_and_directories_that_cannot_be_meant(tmp_path: Path) -> None:
    made_store(tmp_path)
    store = MemoryObjects()
    with pytest.raises(StorageError, match="is not the directory of a store"):
        run(uploaded(tmp_path / "none", store))
    lock = RealFileSystem().lock(tmp_path / "home" / "lock")
    with pytest.raises(StoreLocked, match="stop the server first"):
        run(uploaded(tmp_path, store))
    RealFileSystem().close(lock)
    (tmp_path / "home" / ".bucket").mkdir()
    with pytest.raises(BucketError, match="is a cache of a bucket"):
        run(uploaded(tmp_path, store))
    (tmp_path / "home" / ".bucket").rmdir()
    (tmp_path / "home" / "logs" / "a" / "2.log").symlink_to("/etc/passwd")
    with pytest.raises(StorageError, match=r"2\.log is a link"):
        run(uploaded(tmp_path, store))
    assert not any("segments" in key for key in store.objects)


def test_shard_with_a_store_is_left_alone(tmp_path: Path) -> None:
    """A server that was there wrote a file, and released the shard."""
    made_store(tmp_path)
    store = MemoryObjects()

    async def serve() -> None:
        follower = WalFollower(store, KEYS, Point(), lambda _: None)
        claimed = await claim(follower, writer=b"s" * 16, owner=b"server", wall_ns=lambda: 1)
        changes = encode([Mkdir("logs"), Create("logs/x")])
        for number, (kind, payload) in enumerate(
            [(Kind.COMMIT, changes), (Kind.RELEASE, b"")], claimed.next_number
        ):
            made = WalObject(KEYS.shard, claimed.epoch, claimed.writer, number, kind, 1, payload)
            await create_object(store, KEYS, made)

    run(check_identity(store, ""))
    run(serve())
    before = dict(store.objects)
    with pytest.raises(BucketError, match="has a store already: give another prefix"):
        run(uploaded(tmp_path, store))
    assert store.objects == before
