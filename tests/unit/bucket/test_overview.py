"""The overview of a shard: what a bucket tells without a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from bucket_makers import KEYS, Bucket, commit, fence, log_until, release, writer_of

from harness import virtual_loop
from harness.memory_objects import START_NS
from headrace.bucket.errors import BucketError, DamagedObject
from headrace.bucket.keys import ShardKeys
from headrace.bucket.manifest import Manifest
from headrace.bucket.overview import ShardOverview, StoredObjects, overview, shards_of

if TYPE_CHECKING:
    from headrace.bucket.wal_object import WalObject


def look(bucket: Bucket) -> ShardOverview:
    return virtual_loop.run(overview(bucket, KEYS))


def take_snapshot(bucket: Bucket, number: int, *, epoch: int = 1, fences: tuple[int, ...] = (1,)) -> None:
    """The manifest of an empty tree; its SnapshotTaken is the object behind it."""
    made = Manifest(
        "js", epoch, writer_of(epoch), number, number + 1, START_NS + number, 1, fences, 1, (), ()
    )
    bucket.objects[KEYS.snapshot(number)] = made.pack(), START_NS


def size(objects: list[WalObject]) -> int:
    return sum(len(each.pack()) for each in objects)


def test_log_without_a_snapshot() -> None:
    log = log_until(7)
    assert look(Bucket(log)) == ShardOverview(
        shard="js",
        epoch=1,
        owner="server",
        is_released=False,
        number=7,
        number_ns=START_NS,
        snapshot=0,
        snapshot_ns=0,
        oldest=1,
        oldest_ns=START_NS,
        wal=StoredObjects(7, size(log)),
        snapshots=StoredObjects(0, 0),
        segments=StoredObjects(0, 0),
    )


def test_owner_of_the_last_fence_and_its_release() -> None:
    found = look(Bucket([*log_until(3), fence(4, 2), commit(5, 2), release(6, 2)]))
    assert (found.epoch, found.number, found.is_released) == (2, 6, True)


def test_it_can_be_restored_from_the_oldest_snapshot_on() -> None:
    bucket = Bucket(log_until(40))
    for number in (10, 20, 30):
        take_snapshot(bucket, number)
    bucket.objects[KEYS.segment("a-1")] = b"x" * 100, START_NS
    bucket.remove(range(2, 11))

    found = look(bucket)

    assert (found.snapshot, found.snapshot_ns) == (30, START_NS + 30)
    assert (found.oldest, found.number, found.owner) == (11, 40, "server")
    assert found.segments == StoredObjects(1, 100)
    assert found.snapshots.number == 3
    assert found.wal.number == 31


def test_log_is_read_from_the_newest_snapshot_on() -> None:
    bucket = Bucket(log_until(40))
    take_snapshot(bucket, 38)
    look(bucket)
    read = {request.key for request in bucket.requests if request.operation == "get"}
    assert not read & {KEYS.wal(number) for number in range(2, 38)}


def test_bucket_without_the_shard() -> None:
    with pytest.raises(BucketError, match="there is no shard js in memory"):
        look(Bucket())


def test_fence_that_is_missing() -> None:
    bucket = Bucket(log_until(20))
    take_snapshot(bucket, 10)
    bucket.remove([1])
    with pytest.raises(BucketError, match=r"wal/0{19}1 is missing: the shard is damaged"):
        look(bucket)


def test_damage_is_told() -> None:
    bucket = Bucket(log_until(5))
    data, time_ns = bucket.objects[KEYS.wal(4)]
    bucket.objects[KEYS.wal(4)] = data[:-1], time_ns
    with pytest.raises(DamagedObject):
        look(bucket)


def test_shards_have_names() -> None:
    bucket = Bucket(log_until(2))
    bucket.objects[ShardKeys("stan-test").wal(1)] = b"", START_NS
    assert virtual_loop.run(shards_of(bucket)) == ["js", "stan-test"]
    assert virtual_loop.run(shards_of(Bucket())) == []
