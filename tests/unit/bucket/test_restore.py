"""A store as it was: at a number, at a time, now; and nothing where it cannot be made."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from shard_model import KEYS, SECOND, Owner, inline, manifests

from harness import depth
from harness.memory_objects import FAILS, PROMPT, MemoryObjects
from harness.virtual_loop import run
from headrace.bucket.errors import BucketError, DamagedObject
from headrace.bucket.restore import RestorePoint, restore_shard
from headrace.bucket.wal_object import Kind, WalObject
from headrace.errors import StoreTaken
from headrace.objects.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.bucket.restore import RestoredShard


class World:
    """An owner with a few snapshots, and restores of what it had."""

    def __init__(self, place: Path, seed: int = 1, snapshots: int = 3, largest: int = 3000) -> None:
        self.store = MemoryObjects()
        (place / "owner").mkdir()
        self.owner = Owner(place / "owner", self.store)
        self.owner.commit(Kind.FENCE)
        self._place = place
        self._count = 0
        random = Random(seed)

        def change() -> None:
            for _ in range(3):
                self.owner.anything(random, largest)
            self.owner.commit()

        async def main() -> None:
            for _ in range(snapshots):
                for _ in range(5):
                    change()
                taking = asyncio.create_task(self.owner.snapshotter.take())
                while not taking.done():
                    await asyncio.sleep(0.01)
                    change()
                taking.result()
            for _ in range(5):
                change()

        run(main())

    def restore(self, number: int | None = None, time_ns: int | None = None) -> RestoredShard:
        self._count += 1
        self.home = self._place / f"home{self._count}"
        self.unfinished = self._place / f"home{self._count}.importing"
        return self.again(number, time_ns)

    def again(self, number: int | None = None, time_ns: int | None = None) -> RestoredShard:
        moment = RestorePoint(number, time_ns)
        return run(
            restore_shard(
                self.store, KEYS, self.home, self.unfinished, moment, told=self.told, offload=inline
            )
        )

    def told(self, done: int, total: int) -> None:
        assert 0 < done <= total

    def contents(self) -> dict[str, bytes]:
        found = {
            path.relative_to(self.home).as_posix(): path.read_bytes()
            for path in self.home.rglob("*")
            if path.is_file()
        }
        found.pop("staging.lock")
        return found


@pytest.mark.parametrize("seed", depth.seeds(30))
def test_any_number_that_the_bucket_has_can_be_restored(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, seed)
    settled = [manifest.settled for manifest in manifests(world.store).values()]
    some = Random(seed).sample(range(1, world.owner.number + 1), 5)
    for number in sorted({1, *some, *settled, *(number - 1 for number in settled)}):
        restored = world.restore(number)
        assert restored.number == number
        assert world.contents() == world.owner.states[number]
        assert not world.unfinished.exists()
    assert world.restore().number == world.owner.number
    assert world.contents() == world.owner.contents()


def test_a_time_is_that_of_the_last_object_before_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    for number in (3, 8, 20, world.owner.number):
        restored = world.restore(time_ns=number * SECOND + SECOND // 2)
        assert (restored.number, restored.time_ns) == (number, number * SECOND)
        assert world.contents() == world.owner.states[number]


def test_what_the_bucket_no_longer_has_is_said(tmp_path: Path) -> None:
    world = World(tmp_path)
    first, second, _ = manifests(world.store).values()
    del world.store.objects[KEYS.snapshot(first.number)]
    for number in range(1, second.number):
        world.store.objects.pop(KEYS.wal(number))
    assert world.restore(second.settled).number == second.settled
    with pytest.raises(BucketError):
        world.restore(second.number)
    assert not world.home.exists()
    with pytest.raises(BucketError, match=f"no WAL object {world.owner.number + 1} yet"):
        world.restore(world.owner.number + 1)
    assert not world.home.exists()


def test_damaged_and_missing_objects_are_named(tmp_path: Path) -> None:
    world = World(tmp_path)
    newest = max(manifests(world.store).values(), key=lambda manifest: manifest.number)
    name = max(newest.objects())
    data, _ = world.store.objects.pop(KEYS.segment(name))
    with pytest.raises(BucketError, match=f"cannot be restored: .*{name}.*not there"):
        world.restore()
    assert not world.home.exists()
    world.store.objects[KEYS.segment(name)] = bytes(len(data)), 0
    with pytest.raises(BucketError, match=f"cannot be restored: segment object {name}: the checksum"):
        world.again()
    world.store.objects[KEYS.segment(name)] = data, 0
    key = KEYS.wal(newest.settled)
    wal, _ = world.store.objects[key]
    world.store.objects[key] = wal[:-1] + b"?", 0
    with pytest.raises(DamagedObject, match=f"object {newest.settled} "):
        world.again()
    del world.store.objects[key]
    with pytest.raises(DamagedObject, match=f"WAL object {newest.settled} is missing"):
        world.again()
    assert not world.home.exists()
    world.store.objects[key] = wal, 0
    world.again()
    assert world.contents() == world.owner.contents()


def test_a_run_that_was_cut_off_is_begun_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.store.fate = lambda request: FAILS if request.operation == "get_range" else PROMPT
    with pytest.raises(StoreError, match="failed"):
        world.restore()
    assert world.unfinished.is_dir()
    (world.unfinished / "d0").mkdir(exist_ok=True)
    (world.unfinished / "d0" / "of another run").write_bytes(b"?")
    (world.unfinished / "another").write_bytes(b"?")
    world.store.fate = lambda _request: PROMPT
    world.again()
    assert world.contents() == world.owner.contents()


def test_a_store_that_is_there_is_left_alone(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.restore()
    (world.home / "mine").write_bytes(b"1")
    with pytest.raises(StoreTaken):
        world.again()
    assert (world.home / "mine").read_bytes() == b"1"


def test_a_bucket_without_snapshots_is_read_from_its_beginning(tmp_path: Path) -> None:
    world = World(tmp_path, snapshots=0)
    world.restore()
    assert world.contents() == world.owner.contents()


def test_a_fence_that_names_its_owner_is_no_change(tmp_path: Path) -> None:
    world = World(tmp_path, snapshots=0)
    data, time_ns = world.store.objects[KEYS.wal(1)]
    fence = WalObject.unpack(data, KEYS.shard, 1)
    assert fence.kind is Kind.FENCE
    world.store.objects[KEYS.wal(1)] = replace(fence, payload=b"server-a").pack(), time_ns

    world.restore()

    assert world.contents() == world.owner.contents()


def test_a_shard_that_is_not_there_makes_no_store(tmp_path: Path) -> None:
    world = World(tmp_path, snapshots=0)
    with pytest.raises(BucketError, match=f"shard {KEYS.shard} has nothing by then"):
        world.restore(time_ns=1)
    assert not world.home.exists()
    world.store.objects.clear()
    with pytest.raises(BucketError, match=f"shard {KEYS.shard} has nothing$"):
        world.restore()
    assert not world.home.exists()
