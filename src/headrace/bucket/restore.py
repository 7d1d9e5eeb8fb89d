"""A shard's store as it was at a WAL number or a time, made in an empty directory.

It is made from a snapshot that was settled by then and the WAL objects behind it, beside its place, and takes
that when it is whole (`headrace.log.staging`). Nothing in the bucket is changed, and no owner is disturbed.
Never lives here: where a store's directory is, or what is in its files.
"""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.bucket.errors import Behind, BucketError, DamagedObject
from headrace.bucket.extents import fetches, pieces
from headrace.bucket.follower import Point, WalFollower
from headrace.bucket.mirror import Mirror
from headrace.bucket.snapshots import in_thread, read_snapshot, snapshot_numbers
from headrace.bucket.tree import Tree
from headrace.bucket.wal_object import Kind
from headrace.log.filesystem import FileMode, RealFileSystem, pwrite_all, storage_errors
from headrace.log.staging import Staging
from headrace.objects.errors import KeyMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headrace.bucket.extents import Fetch
    from headrace.bucket.keys import ShardKeys
    from headrace.bucket.manifest import Manifest
    from headrace.bucket.snapshots import Offload
    from headrace.bucket.tree import TreeFile
    from headrace.bucket.wal_object import WalObject
    from headrace.log.filesystem import FileSystem
    from headrace.objects.port import AsyncObjectStore

REQUESTS: Final = 8
"""Ranges of segment objects that are asked for at once."""


class RestorePoint(NamedTuple):
    """The moment that a store is restored as of: a WAL number, a time (ns since 1970 UTC), or now."""

    number: int | None = None
    time_ns: int | None = None

    def has_settled(self, manifest: Manifest) -> bool:
        """True if a snapshot was settled by this moment: a store may be made from it."""
        if self.number is not None:
            return manifest.settled <= self.number
        return self.time_ns is None or manifest.time_ns <= self.time_ns

    def is_before(self, found: WalObject, settled: int) -> bool:
        """True if a WAL object is behind this moment."""
        if self.number is not None:
            return found.number > self.number
        return self.time_ns is not None and found.number > settled and found.time_ns > self.time_ns


class RestoredShard(NamedTuple):
    """A store that was made: as of which WAL object, and the bytes that segment objects gave."""

    number: int
    time_ns: int
    files: int
    bytes: int


class LogEnd(Exception):
    """The next object is behind the moment that is read up to."""


async def read_log(
    store: AsyncObjectStore,
    keys: ShardKeys,
    manifest: Manifest | None,
    apply: Callable[[WalObject], object],
) -> Point:
    """Apply the log behind a snapshot, up to what is committed by now or to where `apply` raises `LogEnd`.

    Return the place that was reached, number 0 for a shard of which there is nothing.

    Raises: Behind, BucketError, StoreError; DamagedObject also where the log ends before the snapshot was
    settled.
    """
    point = Point() if manifest is None else Point(manifest.number, manifest.epoch, manifest.writer)
    follower = WalFollower(store, keys, point, apply)
    with suppress(LogEnd):
        await follower.catch_up()
    if manifest is not None and follower.point.number < manifest.settled:
        raise DamagedObject(f"shard {keys.shard}: WAL object {follower.point.number + 1} is missing")
    return follower.point


async def restore_shard(
    store: AsyncObjectStore,
    keys: ShardKeys,
    home: Path,
    unfinished: Path,
    moment: RestorePoint,
    *,
    told: Callable[[int, int], object] = lambda _done, _of: None,
    filesystem: FileSystem | None = None,
    offload: Offload = in_thread,
) -> RestoredShard:
    """Make `home` what a shard's store was at a moment; `unfinished` is what there is of it until then.

    `told` of bytes that segment objects gave, and of all. Raises: BucketError, StoreError, StoreTaken,
    StoreLocked, StorageError; then `home` is as it was.
    """
    files = filesystem or RealFileSystem()
    manifest = await _snapshot_for(store, keys, moment)
    with Staging(home, unfinished, files) as staging, storage_errors(f"cannot write {unfinished}"):
        await offload(lambda: _clear(staging.directory))
        made = _Making(store, keys, files, staging.directory, offload)
        restored = await made.run(manifest, moment, told)
        await offload(lambda: _sync(files, staging.directory))
        staging.publish()
    return restored


async def _snapshot_for(store: AsyncObjectStore, keys: ShardKeys, moment: RestorePoint) -> Manifest | None:
    """Return the newest snapshot that was settled by a moment; None: the WAL is read from its beginning.

    Raises: BucketError where that is not there any more, StoreError.
    """
    oldest: Manifest | None = None
    for number in await snapshot_numbers(store, keys):
        with suppress(KeyMissing):  # of a listing that is old
            oldest = await read_snapshot(store, keys, number)
            if moment.has_settled(oldest):
                return oldest
    if oldest is not None and oldest.collected > 1:
        raise BucketError(
            f"{store.location}: shard {keys.shard} is there from WAL object {oldest.settled} on only"
        )
    return None


class _Making:
    """One store that is being made."""

    def __init__(
        self, store: AsyncObjectStore, keys: ShardKeys, files: FileSystem, directory: Path, offload: Offload
    ) -> None:
        self._store = store
        self._keys = keys
        self._files = files
        self._directory = directory
        self._offload = offload
        self._time_ns = 0

    async def run(
        self, manifest: Manifest | None, moment: RestorePoint, told: Callable[[int, int], object]
    ) -> RestoredShard:
        tree = manifest.tree() if manifest is not None else Tree()
        done = await self._download(tree, told)
        mirror = Mirror(self._files, self._directory, tree)
        try:
            number = await self._read_on(mirror, manifest, moment)
        finally:
            mirror.close()
        where = f"{self._store.location}: shard {self._keys.shard}"
        if not number:
            raise BucketError(f"{where} has nothing{' by then' if moment != RestorePoint() else ''}")
        if moment.number is not None and number < moment.number:
            raise BucketError(f"{where} has no WAL object {moment.number} yet, the last one is {number}")
        return RestoredShard(number, self._time_ns, len(tree.files), done)

    async def _download(self, tree: Tree, told: Callable[[int, int], object]) -> int:
        """Write the files of a tree; return the bytes that came from segment objects."""
        await self._offload(lambda: self._make_files(tree))
        total = sum(extent.stored for file in tree.files.values() for extent in file.extents)
        done = 0
        waiting = ((file, fetch) for file in tree.files.values() for fetch in fetches(file.extents))
        failures: list[Exception] = []

        async def work() -> None:
            nonlocal done
            for file, fetch in waiting:
                if failures:
                    return
                try:
                    await self._bring(file, fetch)
                except Exception as error:  # noqa: BLE001 - raised below, when no other request is under way
                    failures.append(error)
                    return
                done += fetch.end - fetch.start
                told(done, max(total, done))

        await asyncio.gather(*(work() for _ in range(REQUESTS)))
        if failures:
            raise failures[0]
        return done

    def _make_files(self, tree: Tree) -> None:
        for path in tree.directories():
            self._files.mkdir(self._directory / path)
        for file in tree.files.values():
            handle = self._files.open(self._directory / file.path, FileMode.CREATE)
            try:
                self._files.truncate(handle, file.size)
            finally:
                self._files.close(handle)

    async def _bring(self, file: TreeFile, fetch: Fetch) -> None:
        key = self._keys.segment(fetch.object)
        try:
            data = await self._store.get_range(key, fetch.start, fetch.end)
            found = list(pieces(fetch, data))
        except (KeyMissing, DamagedObject) as error:
            raise BucketError(f"{file.path} cannot be restored: {error}") from error
        await self._offload(lambda: self._write(file.path, found))

    def _write(self, path: str, found: list[tuple[int, memoryview]]) -> None:
        handle = self._files.open(self._directory / path, FileMode.UPDATE)
        try:
            for at, piece in found:
                pwrite_all(self._files, handle, piece, at)
        finally:
            self._files.close(handle)

    async def _read_on(self, mirror: Mirror, manifest: Manifest | None, moment: RestorePoint) -> int:
        """Apply the WAL behind a snapshot; return the number that was reached."""
        settled = manifest.settled if manifest is not None else 0
        self._time_ns = manifest.time_ns if manifest is not None else 0

        def apply(found: WalObject) -> None:
            if moment.is_before(found, settled):
                raise LogEnd
            if found.kind is not Kind.FENCE:  # whose payload says who the owner is
                mirror.apply(found.payload)
            self._time_ns = found.time_ns

        try:
            number = (await read_log(self._store, self._keys, manifest, apply)).number
        except Behind as error:
            raise BucketError(f"{self._store.location}: objects were deleted meanwhile: {error}") from error
        return number if moment.number is None else min(number, moment.number)


def _clear(directory: Path) -> None:
    """Take away what an earlier run, which was cut off, left."""
    for entry in directory.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name != "staging.lock":
            entry.unlink()


def _sync(files: FileSystem, directory: Path) -> None:
    """Make all that is below a directory durable."""
    for path in _below(files, directory):
        handle = files.open(path, FileMode.READ)
        try:
            files.fsync(handle)
        finally:
            files.close(handle)


def _below(files: FileSystem, directory: Path) -> Iterator[Path]:
    for name in files.listdir(directory):
        path = directory / name
        if files.is_directory(path):
            yield from _below(files, path)
        else:
            yield path
    files.fsync_dir(directory)
