"""Snapshots of a shard: what a reader has who begins with one, whatever happens while it is taken."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

import pytest
from shard_model import KEYS, Owner, Reader, manifests

from harness import depth
from harness.memory_objects import ANSWER_LOST, FAILS, PROMPT, Fate, MemoryObjects, Request
from harness.virtual_loop import run
from headrace.bucket.errors import BucketError, DamagedObject
from headrace.bucket.extents import BLOCK
from headrace.bucket.snapshots import (
    LATE,
    RETRY_S,
    WAL_OBJECTS,
    newest_snapshot,
    read_snapshot,
    snapshot_numbers,
)
from headrace.bucket.uploads import LARGEST, MERGED
from headrace.objects.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.bucket.manifest import Manifest
    from headrace.objects.port import Bytes


async def taken(owner: Owner, between: Callable[[], object] = lambda: None) -> Manifest:
    """Take a snapshot while WAL objects are written each 10 ms; `between`: called before each."""

    async def write() -> None:
        while True:
            await asyncio.sleep(0.01)
            between()
            owner.commit()

    writing = asyncio.create_task(write())
    try:
        return await owner.snapshotter.take()
    finally:
        writing.cancel()
        owner.commit()


def test_a_snapshot_holds_what_the_wal_held(tmp_path: Path) -> None:
    async def main() -> None:
        store = MemoryObjects()
        owner = Owner(tmp_path, store)
        owner.make("a/small", b"some bytes")
        owner.make("a/other", b"other bytes")
        large = owner.make("large", bytes(range(256)) * 12288)  # 3 MiB
        owner.make("empty")
        manifest = await taken(owner)
        assert manifest.number < manifest.settled <= owner.number
        reader = Reader(store, manifest)
        assert reader.contents() == owner.states[manifest.number]
        assert [extent.size for extent in reader.tree.files[large.id].extents] == [BLOCK] * 3
        assert len({extent.object for extent in reader.tree.files[large.id].extents}) == 1
        assert len(manifest.objects()) == 2, "small ranges share an object"
        assert not reader.tree.unsaved
        assert await newest_snapshot(store, KEYS) == manifest

    run(main())


def test_a_second_snapshot_stores_what_is_new_only(tmp_path: Path) -> None:
    async def main() -> None:
        store = MemoryObjects()
        owner = Owner(tmp_path, store)
        file = owner.make("f", b"1" * 3000)
        owner.make("untouched", b"2" * 3000)
        first = await taken(owner)
        owner.write(file, 2000, b"3" * 2000)
        second = await taken(owner)
        made = second.objects().keys() - first.objects().keys()
        assert [len(store.objects[KEYS.segment(name)][0]) for name in made] == [2000]
        assert Reader(store, second).contents() == owner.contents()

    run(main())


def test_extents_end_at_blocks_and_objects_at_their_largest_size(tmp_path: Path) -> None:
    async def main() -> None:
        store = MemoryObjects()
        owner = Owner(tmp_path, store)
        file = owner.make("f", b"begin")
        await taken(owner)
        owner.write(file, 5, Random(1).randbytes(LARGEST + BLOCK // 2))
        manifest = await taken(owner)
        sizes = [len(store.objects[KEYS.segment(name)][0]) for name in manifest.objects()]
        assert max(sizes) == LARGEST - 5
        assert all(one.start // BLOCK == (one.end - 1) // BLOCK for one in manifest.files[0].extents)
        assert Reader(store, manifest).contents() == owner.contents()

    run(main())


def test_many_small_appends_are_merged(tmp_path: Path) -> None:
    async def main() -> None:
        store = MemoryObjects()
        owner = Owner(tmp_path, store)
        file = owner.make("f")
        for number in range(3 * MERGED):
            owner.write(file, file.size, bytes([number]) * 70_000)
            manifest = await taken(owner)
        assert len({extent.object for extent in manifest.files[0].extents}) <= 3 + MERGED
        assert Reader(store, manifest).contents() == owner.contents()

    run(main())


def test_what_is_left_of_a_dead_object_is_stored_anew(tmp_path: Path) -> None:
    async def main() -> None:
        store = MemoryObjects()
        owner = Owner(tmp_path, store)
        owner.make("stays", b"s" * 1000)
        gone = owner.make("goes", b"g" * 5000)
        first = await taken(owner)
        owner.unlink(gone)
        owner.snapshotter.dying = frozenset(first.objects())
        (tmp_path / "stays").write_bytes(b"?" * 1000)  # no longer what it was: the bucket is read for it
        second = await taken(owner)
        assert not first.objects().keys() & second.objects().keys()
        assert Reader(store, second).contents() == {"stays": b"s" * 1000}

    run(main())


def test_merging_does_not_bring_back_what_was_cut_off_meanwhile(tmp_path: Path) -> None:
    """Bytes that were cut off while they were merged are zeros when the file gets longer again."""

    async def main() -> None:
        store = MemoryObjects()
        owner = Owner(tmp_path, store)
        file = owner.make("f")
        for _ in range(MERGED - 1):
            owner.write(file, file.size, b"x" * 100)
            await taken(owner)
        owner.write(file, file.size, b"x" * 100)
        store.fate = lambda _request: Fate(0.0, 0.05)
        sizes = iter([50, 700])

        def cut() -> None:
            if size := next(sizes, 0):
                owner.truncate(file, size)

        manifest = await taken(owner, cut)
        assert owner.contents() == {"f": b"x" * 50 + bytes(650)}
        reader = Reader(store, manifest).read_to(owner.number)
        assert reader.contents() == owner.contents()
        assert Reader(store, await taken(owner)).contents() == owner.contents()

    run(main())


@pytest.mark.parametrize("seed", depth.seeds(200))
def test_readers_have_the_same_from_whichever_snapshot_they_begin(tmp_path: Path, seed: int) -> None:
    """Files change before each request of a snapshot; requests fail, and attempts are cut off anywhere."""
    random = Random(seed)
    largest = random.choice([300, 5000, 40_000])

    async def main() -> None:
        store = MemoryObjects()
        owner = Owner(tmp_path, store)

        def change() -> None:
            for _ in range(random.randrange(4)):
                owner.anything(random, largest)

        def fate(_request: Request) -> Fate:
            change()
            if random.random() < 0.05:
                return random.choice([FAILS, ANSWER_LOST])
            return Fate(random.random() / 20, random.random() / 20)

        for _ in range(8):
            for _ in range(random.randrange(6)):
                change()
                owner.commit()
            store.fate = fate
            if random.random() < 0.3 and (newest := max(manifests(store), default=0)):
                names = sorted(manifests(store)[newest].objects())
                owner.snapshotter.dying = frozenset(random.sample(names, len(names) // 2))
            with suppress(StoreError, TimeoutError):  # cut off: it is begun again by the next
                async with asyncio.timeout(random.choice([0.05, 0.2, 10.0])):
                    await taken(owner, change)
            store.fate = lambda _request: PROMPT
        await taken(owner)
        whole = Reader(store).read_to(owner.number)
        assert whole.contents() == owner.contents()
        for number, manifest in manifests(store).items():
            reader = Reader(store, manifest).read_to(manifest.settled)
            assert reader.contents() == owner.states[manifest.settled]
            reader.read_to(random.randrange(manifest.settled, owner.number + 1))
            assert reader.contents() == owner.states[reader.number]
            assert reader.read_to(owner.number).contents() == owner.contents()
            assert reader.known() == whole.known(), f"from {number} on"

    run(main())


def test_no_snapshot_is_half_true_wherever_it_ends(tmp_path: Path) -> None:
    """Its requests are counted; each run ends in front of another one, or behind it without the answer."""

    async def main(stop_at: int, *, has_effect: bool) -> int:
        directory = tmp_path / f"{stop_at}{has_effect}"
        directory.mkdir()
        store = MemoryObjects()
        owner = Owner(directory, store)
        count = 0

        def fate(_request: Request) -> Fate:
            nonlocal count
            count += 1
            return Fate(has_effect=has_effect, answer=FAILS.answer) if count == stop_at else PROMPT

        owner.make("f", b"1" * (2 << 20))
        owner.make("g", b"2" * 100)
        first = await taken(owner)
        owner.write(owner.tree.files[1], 100, b"3" * (1 << 20))
        store.fate = fate
        with suppress(StoreError):
            await taken(owner)
        store.fate = lambda _request: PROMPT
        newest = await newest_snapshot(store, KEYS)
        assert newest is not None
        assert newest.number >= first.number
        assert Reader(store, newest).read_to(owner.number).contents() == owner.contents()
        third = await taken(owner)
        assert Reader(store, third).contents() == owner.contents()
        return count

    requests = run(main(0, has_effect=True))
    assert requests == 2
    for stop_at in range(1, requests + 1):
        for has_effect in (False, True):
            run(main(stop_at, has_effect=has_effect))


class Insisting(MemoryObjects):
    """A client that had no answer to its first attempt."""

    async def create(self, key: str, data: Bytes | Path) -> None:
        await super().create(key, data)
        await super().create(key, data)


def test_a_lost_answer_to_the_manifest_is_no_failure(tmp_path: Path) -> None:
    async def main() -> None:
        store = Insisting()
        owner = Owner(tmp_path, store)
        owner.make("f", b"1")
        manifest = await taken(owner)
        assert await newest_snapshot(store, KEYS) == manifest
        store.objects[KEYS.snapshot(owner.number + 1)] = b"another one", 0
        with pytest.raises(BucketError, match="another snapshot"):
            await taken(owner)

    run(main())


def test_a_snapshot_is_taken_when_it_is_due_and_again_when_it_failed(tmp_path: Path) -> None:
    async def main() -> None:
        store = MemoryObjects()
        owner = Owner(tmp_path, store)
        seen: list[Manifest] = []
        running = asyncio.create_task(owner.snapshotter.run(seen.append))
        file = owner.make("f")
        for number in range(WAL_OBJECTS - 1):
            owner.write(file, number, b"x")
            owner.commit()
        await asyncio.sleep(1)
        assert not manifests(store)
        store.fate = lambda _request: FAILS
        owner.commit()
        await asyncio.sleep(0)
        owner.commit()
        await asyncio.sleep(1)
        assert owner.snapshotter.trouble is not None
        store.fate = lambda _request: PROMPT
        await asyncio.sleep(RETRY_S)
        for _ in range(3):
            await asyncio.sleep(0.1)
            owner.commit()
        await asyncio.sleep(0.1)
        assert len(seen) == 1
        assert owner.snapshotter.trouble is None
        assert Reader(store, seen[0]).contents() == owner.contents()
        running.cancel()

    run(main())


@pytest.mark.parametrize(("grown", "is_late"), [(WAL_OBJECTS, False), (LATE * WAL_OBJECTS, True)])
def test_a_snapshot_is_late_when_the_log_has_grown_by_two(
    tmp_path: Path, grown: int, *, is_late: bool
) -> None:
    """The log grows while the first of its puts waits for a token."""

    async def main() -> None:
        asked: list[bool] = []

        async def admit(*, is_late: bool) -> None:
            asked.append(is_late)
            for _ in range(grown if len(asked) == 1 else 0):
                owner.commit()

        owner = Owner(tmp_path, MemoryObjects(), admit=admit)
        owner.make("f", b"x")
        await taken(owner)
        assert asked == [False, is_late]

    run(main())


def test_a_listing_may_name_a_snapshot_that_is_gone(tmp_path: Path) -> None:
    async def main() -> None:
        store = MemoryObjects()
        owner = Owner(tmp_path, store)
        assert await newest_snapshot(store, KEYS) is None
        owner.make("f", b"1")
        first = await taken(owner)
        second = await taken(owner)
        assert await snapshot_numbers(store, KEYS) == [second.number, first.number]
        assert await read_snapshot(store, KEYS, first.number) == first
        data = store.objects[KEYS.snapshot(second.number)]

        def vanish(request: Request) -> Fate:
            if request.operation == "get" and request.key == KEYS.snapshot(second.number):
                store.objects.pop(request.key, None)
            return PROMPT

        store.fate = vanish
        assert await newest_snapshot(store, KEYS) == first
        store.objects[KEYS.snapshot(second.number)] = data[0][:-1], 0
        store.fate = lambda _request: PROMPT
        with pytest.raises(DamagedObject):
            await newest_snapshot(store, KEYS)

    run(main())
