"""The overview of a shard for who has a bucket and no server: its log, its snapshots, its owner, its bytes.

Only reads. It costs some listings, and a request for each WAL object behind the newest snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from headrace.bucket.errors import BucketError
from headrace.bucket.follower import Point, WalFollower, read_object
from headrace.bucket.snapshots import read_snapshot, snapshot_numbers
from headrace.bucket.wal_object import Kind
from headrace.objects.errors import KeyMissing

if TYPE_CHECKING:
    from headrace.bucket.keys import ShardKeys
    from headrace.bucket.manifest import Manifest
    from headrace.bucket.wal_object import WalObject
    from headrace.objects.port import AsyncObjectStore

_SHARDS: Final = "shards"
"""The folder of all shards."""


class StoredObjects(NamedTuple):
    """The objects of one kind: their number, and their bytes."""

    number: int
    bytes: int


class ShardOverview(Struct, frozen=True):
    """A shard as its bucket has it. Times are ns since 1970 UTC, 0 where there is none.

    `number`: of the last WAL object; `snapshot`: of the newest snapshot, 0 without one. `is_released`: its
    owner has given it up, or it never had one. It can be restored as it was after each WAL object from
    `oldest` to `number`, written at `oldest_ns` and `number_ns`.
    """

    shard: str
    epoch: int
    owner: str
    is_released: bool
    number: int
    number_ns: int
    snapshot: int
    snapshot_ns: int
    oldest: int
    oldest_ns: int
    wal: StoredObjects
    snapshots: StoredObjects
    segments: StoredObjects


async def shards_of(store: AsyncObjectStore) -> list[str]:
    """Return the names of the shards that a bucket has, sorted. Raises: StoreError."""
    return (await store.list_folder(_SHARDS)).folders


async def overview(store: AsyncObjectStore, keys: ShardKeys) -> ShardOverview:
    """Read what there is of a shard now; its owner may go on meanwhile.

    Raises: StoreError, BucketError if there is nothing of it, or something is damaged.
    """
    wal, snapshots, segments = [
        await _stored(store, folder)
        for folder in (keys.wal_prefix, keys.snapshots_prefix, keys.segments_prefix)
    ]
    newest, oldest = await _ends(store, keys)
    end = _End()
    point = Point()
    if newest is not None:
        point = Point(newest.number, newest.epoch, newest.writer)
        end.time_ns = newest.time_ns
        for number in newest.fences[-1:]:
            end.take(await _existing(store, keys, number))
    reader = WalFollower(store, keys, point, end.take)
    await reader.catch_up()
    if not reader.point.number:
        raise BucketError(f"there is no shard {keys.shard} in {store.location}")
    first = oldest.settled if oldest is not None else 1
    begun = await _existing(store, keys, first)
    return ShardOverview(
        shard=keys.shard,
        epoch=reader.point.epoch,
        owner=end.owner,
        is_released=reader.is_released,
        number=reader.point.number,
        number_ns=end.time_ns,
        snapshot=newest.number if newest is not None else 0,
        snapshot_ns=newest.time_ns if newest is not None else 0,
        oldest=first,
        oldest_ns=begun.time_ns,
        wal=wal,
        snapshots=snapshots,
        segments=segments,
    )


class _End:
    """The owner and the time that the last objects name."""

    def __init__(self) -> None:
        self.owner = ""
        self.time_ns = 0

    def take(self, found: WalObject) -> None:
        self.time_ns = max(self.time_ns, found.time_ns)
        if found.kind is Kind.FENCE:
            self.owner = found.payload.decode("utf-8", "replace")


async def _ends(store: AsyncObjectStore, keys: ShardKeys) -> tuple[Manifest | None, Manifest | None]:
    """Return the newest snapshot and the oldest one; those that went since the listing are passed over."""
    numbers = await snapshot_numbers(store, keys)
    return await _first(store, keys, numbers), await _first(store, keys, numbers[::-1])


async def _first(store: AsyncObjectStore, keys: ShardKeys, numbers: list[int]) -> Manifest | None:
    for number in numbers:
        try:
            return await read_snapshot(store, keys, number)
        except KeyMissing:
            continue
    return None


async def _existing(store: AsyncObjectStore, keys: ShardKeys, number: int) -> WalObject:
    found = await read_object(store, keys, number)
    if found is None:
        raise BucketError(f"{store.location}/{keys.wal(number)} is missing: the shard is damaged")
    return found


async def _stored(store: AsyncObjectStore, folder: str) -> StoredObjects:
    count = size = 0
    async for one in store.list(folder):
        count += 1
        size += one.size or 0
    return StoredObjects(count, size)
