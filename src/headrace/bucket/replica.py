"""The files of a shard as far as the bucket was read: the tree, the local files, and the place in the WAL.

Here lives the start from a snapshot, and keeping up with an owner. Never here: when to claim (`owner_watch`),
what an owner does (`owner_term`), which bytes are on the local disk (`cache`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.bucket.cache import LocalCache
from headrace.bucket.capture import CapturingFileSystem
from headrace.bucket.follower import Point, WalFollower
from headrace.bucket.journal import Journal
from headrace.bucket.mirror import Mirror
from headrace.bucket.snapshots import newest_snapshot
from headrace.bucket.tree import Tree
from headrace.bucket.wal_object import Kind

if TYPE_CHECKING:
    from headrace.bucket.manifest import Manifest
    from headrace.bucket.place import ShardPlace
    from headrace.bucket.wal_object import WalObject
    from headrace.log.filesystem import FileSystem


class Replica:
    """The state of a shard at one server. `load` makes it; `catch_up` brings it up to date."""

    def __init__(self, place: ShardPlace, manifest: Manifest | None, tree: Tree, cache: LocalCache) -> None:
        self.tree: Final = tree
        self.cache: Final = cache
        self.snapshot: Final = 0 if manifest is None else manifest.number
        """The number of the snapshot that it began with."""
        self.collected: Final = 1 if manifest is None else manifest.collected
        """WAL objects below this number were deleted then, but for fences and milestones."""
        self.fences: Final[set[int]] = set() if manifest is None else set(manifest.fences)
        self.owner = ""
        """The name of the owner, as the last fence says."""
        self.position = 0
        """The position of the owner's journal up to which the bucket has it; 0: it does not say."""
        self.predecessor = Point()
        """The place in the WAL in front of the last fence that was read."""
        self.covered: Final[dict[bytes, int]] = {}
        """The last positions that were read, by the writers that said them."""
        journal = Journal(lock=cache.changes)
        journal.end("files of a server that stands by are only read")
        self.files: Final[FileSystem] = CapturingFileSystem(
            place.files, place.directory, tree, journal, cache
        )
        """The files as they are now, for any thread to read, whoever owns them."""
        self._mirror: Final = Mirror(place.files, place.directory, tree, cache, lock=cache.changes)
        point = Point() if manifest is None else Point(manifest.number, manifest.epoch, manifest.writer)
        self.follower: Final = WalFollower(place.store, place.keys, point, self._apply)

    @classmethod
    async def load(cls, place: ShardPlace) -> Replica:
        """Begin with the newest snapshot; the local files are what it says.

        Raises: StoreError, BucketError.
        """
        manifest = await newest_snapshot(place.store, place.keys)
        tree = Tree() if manifest is None else manifest.tree()
        cache = LocalCache(
            place.files,
            place.directory,
            place.reads,
            place.keys,
            tree,
            cache_bytes=place.options.cache_bytes or None,
            offload=place.offload,
        )
        await cache.begin()
        return cls(place, manifest, tree, cache)

    @property
    def point(self) -> Point:
        """The place in the WAL: what was read last."""
        return self.follower.point

    @property
    def is_released(self) -> bool:
        """True if the last owner has given the shard up, or there never was one."""
        return self.follower.is_released or not self.point.epoch

    async def catch_up(self, last: int | None = None) -> bool:
        """Read up to number `last`, or what is there; True if it was anything.

        Raises: StoreError, BucketError.
        """
        return await self.follower.read_on(last)

    def close(self) -> None:
        """Close the local files; what is on the disk stays."""
        self._mirror.close()
        self.cache.close()

    def replay(self, payload: bytes) -> None:
        """Make changes that the bucket does not have yet. Raises: DamagedObject, CacheFailed."""
        self._mirror.apply(payload)

    def _apply(self, found: WalObject) -> None:
        self.position = found.position
        if found.position:
            self.covered[found.writer] = found.position
        if found.kind is Kind.FENCE:
            self.predecessor = self.point
            self.fences.add(found.number)
            self.owner = found.payload.decode("utf-8", "replace")
        else:
            self._mirror.apply(found.payload)
