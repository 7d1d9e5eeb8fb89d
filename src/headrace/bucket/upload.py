"""A store of a local disk brought into a bucket: a shard is made of it, and the store stays as it is.

1. Its files go into segment objects, which nobody sees. Their names are those of their content, so what an
   upload that was cut off had brought is not sent again.
2. The shard is claimed, as by a server, and StoreUploaded is created as its next WAL object. That one object
   decides: whoever claims the shard before it makes the upload fail, nobody gets past it without a snapshot.
3. The snapshot of that object is created, which names the files. From then on they are there.
4. The shard is released: the first server with the bucket takes it over.

Never lives here: where a store's directory is, what is in its files, the flags of the command.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.bucket.cache import OWN
from headrace.bucket.capture import LOCAL_NAMES
from headrace.bucket.changes import Create, Mkdir, StoreUploaded, decode, encode
from headrace.bucket.claim import claim, create_object
from headrace.bucket.errors import BucketError, Overtaken
from headrace.bucket.follower import Point, WalFollower
from headrace.bucket.identity import check_identity
from headrace.bucket.keys import MILESTONE
from headrace.bucket.manifest import Manifest
from headrace.bucket.snapshots import LocalFiles, in_thread, newest_snapshot, packed, stored_groups
from headrace.bucket.tree import FileEntry, Tree
from headrace.bucket.uploads import FileSpan, grouped
from headrace.bucket.wal_object import WRITER_BYTES, Kind, WalObject
from headrace.errors import StorageError, StoreLocked
from headrace.log.filesystem import FileMode, RealFileSystem, storage_errors
from headrace.objects.errors import KeyExists

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headrace.bucket.changes import FileExtent
    from headrace.bucket.keys import ShardKeys
    from headrace.bucket.snapshots import Offload
    from headrace.log.filesystem import FileSystem
    from headrace.objects.port import AsyncObjectStore

OWNER: Final = b"headrace jetstream upload"
"""The name of the owner that the shard has meanwhile."""
UPLOADS: Final = 4
"""Segment objects that are read and put at once; each is in memory."""


class UploadedStore(NamedTuple):
    """A store that was uploaded: its files, their bytes, and those of them that were sent now."""

    files: int
    bytes: int
    sent: int


async def upload_store(
    store: AsyncObjectStore,
    keys: ShardKeys,
    home: Path,
    *,
    cluster: str,
    writer: bytes,
    wall_ns: Callable[[], int],
    told: Callable[[int, int], object] = lambda _done, _of: None,
    filesystem: FileSystem | None = None,
    offload: Offload = in_thread,
) -> UploadedStore:
    """Make a shard of the store in a directory, which no server may have open; it stays as it is.

    `cluster`: the name of the cluster whose servers the prefix is for, "" for any. `writer`: random, new for
    each call. `told` of bytes that are in the bucket, and of all.

    Raises: BucketError for a shard that has something or an owner, StoreError, StoreLocked, StorageError;
    then the shard is as it was, unless the last step failed: another run goes on with that.
    """
    assert len(writer) == WRITER_BYTES
    files = filesystem or RealFileSystem()
    with storage_errors(f"cannot read {home}"):
        if not files.is_directory(home / "logs"):
            raise StorageError(f"{home} is not the directory of a store")
        if files.is_directory(home / OWN):
            raise BucketError(f"{home} is a cache of a bucket, which has its streams already")
        try:
            lock = files.lock(home / "lock")
        except BlockingIOError as error:
            raise StoreLocked(f"another process has {home} open: stop the server first") from error
        try:
            work = _Upload(
                store, keys, home, writer=writer, wall_ns=wall_ns, told=told, files=files, offload=offload
            )
            return await work.run(cluster)
        finally:
            files.close(lock)


class _Upload:
    """One upload."""

    def __init__(
        self,
        store: AsyncObjectStore,
        keys: ShardKeys,
        home: Path,
        *,
        writer: bytes,
        wall_ns: Callable[[], int],
        told: Callable[[int, int], object],
        files: FileSystem,
        offload: Offload,
    ) -> None:
        self._store: Final = store
        self._keys: Final = keys
        self._home: Final = home
        self._writer: Final = writer
        self._wall_ns: Final = wall_ns
        self._told: Final = told
        self._files: Final = files
        self._offload: Final = offload
        self._where: Final = f"shard {keys.shard} in {store.location}"
        self._tree: Final = Tree()
        self._extents: dict[int, list[FileExtent]] = {}
        self._bytes = self._done = self._sent = 0

    async def run(self, cluster: str) -> UploadedStore:
        await check_identity(self._store, cluster)
        await self._look()  # before anything is sent
        await self._offload(self._list_files)
        await self._send_all()
        shard, follower = await self._look()
        decision = shard.decision or await self._decide(follower)
        await self._publish(decision, shard)
        made = WalObject(
            self._keys.shard,
            decision.epoch,
            decision.writer,
            decision.number + 1,
            Kind.RELEASE,
            self._wall_ns(),
        )
        await create_object(self._store, self._keys, made)  # or a server was there already, and has it all
        return UploadedStore(len(self._tree.files), self._bytes, self._sent)

    # ---- the shard --------------------------------------------------------------------------

    async def _look(self) -> tuple[_Shard, WalFollower]:
        """Read what there is of the shard. Raises: BucketError for one that has something or an owner."""
        manifest = await newest_snapshot(self._store, self._keys)
        shard = _Shard(manifest)
        point = Point() if manifest is None else Point(manifest.number, manifest.epoch, manifest.writer)
        follower = WalFollower(self._store, self._keys, point, shard.apply)
        await follower.catch_up()
        if shard.tree.files:
            raise BucketError(f"{self._where} has a store already: give another prefix, or delete that one")
        is_owned = follower.point.epoch and not follower.is_released and shard.owner != OWNER
        if is_owned and shard.decision is None:
            owner = shard.owner.decode("utf-8", "replace")
            raise BucketError(f"{self._where} is owned by the server {owner}: stop it first")
        return shard, follower

    async def _decide(self, follower: WalFollower) -> WalObject:
        """Claim the shard, and create the object that has the upload count; return that."""
        claimed = await claim(follower, writer=self._writer, owner=OWNER, wall_ns=self._wall_ns)
        number = claimed.next_number
        payloads = [b""] if number % MILESTONE == 0 else []  # which holds no changes
        for payload in [*payloads, encode([StoreUploaded()])]:
            made = WalObject(
                self._keys.shard, claimed.epoch, self._writer, number, Kind.COMMIT, self._wall_ns(), payload
            )
            if await create_object(self._store, self._keys, made) != made:
                raise Overtaken(f"{self._where} was taken by a server meanwhile: nothing was uploaded to it")
            number += 1
        return made

    async def _publish(self, decision: WalObject, shard: _Shard) -> None:
        """Create the snapshot that names the files."""
        entries = tuple(
            FileEntry(one.id, one.path, one.size, tuple(self._extents.get(one.id, ())))
            for one in self._tree.files.values()
        )
        manifest = Manifest(
            self._keys.shard,
            decision.epoch,
            decision.writer,
            decision.number,
            decision.number,
            self._wall_ns(),
            self._tree.next_id,
            tuple(sorted(shard.fences)),
            shard.collected,
            tuple(self._tree.directories()),
            entries,
        )
        key, data = self._keys.snapshot(decision.number), await self._offload(manifest.pack)
        try:
            await self._store.create(key, data)
        except KeyExists:  # an answer was lost
            if await self._store.get(key) != data:
                raise BucketError(f"{self._where}: another upload was finished meanwhile") from None

    # ---- the files --------------------------------------------------------------------------

    def _list_files(self) -> None:
        """Take down all files of the store in the tree. Raises: OSError, DamagedObject."""
        for path, is_directory in _below(self._files, self._home):
            name = path.relative_to(self._home).as_posix()
            if is_directory:
                self._tree.apply(Mkdir(name))
            elif path.name not in LOCAL_NAMES:
                file = self._tree.apply(Create(name))
                assert file is not None
                file.size = self._size(path)
                self._bytes += file.size

    def _size(self, path: Path) -> int:
        handle = self._files.open(path, FileMode.READ)
        try:
            return self._files.size(handle)
        finally:
            self._files.close(handle)

    async def _send_all(self) -> None:
        """Have all bytes in segment objects. Raises: StoreError, OSError."""
        prefix = f"{self._keys.segments_prefix}/"
        there = {
            one.key.removeprefix(prefix): one.size
            async for one in self._store.list(self._keys.segments_prefix)
        }
        groups = grouped(FileSpan(one.id, 0, one.size) for one in self._tree.files.values())
        self._extents = await stored_groups(groups, lambda group: self._send(group, there), UPLOADS)

    async def _send(
        self, group: list[FileSpan], there: dict[str, int | None]
    ) -> list[tuple[int, FileExtent]]:
        """Put the object of a group, unless it is there; return what is in it."""
        local = LocalFiles(self._files, self._home, self._offload)
        handles = local.open([self._tree.files[span.file] for span in group])
        contents = await local.read(handles, group)
        name = await self._offload(lambda: _name_of(contents))
        data, extents = await self._offload(lambda: packed(name, group, contents))
        if there.get(name) != len(data):
            await self._store.put(self._keys.segment(name), data)
            self._sent += len(data)
        self._done += len(data)
        self._told(self._done, self._bytes)
        return extents


class _Shard:
    """The shard as it is in the bucket before an upload."""

    def __init__(self, manifest: Manifest | None) -> None:
        self.tree: Final = Tree() if manifest is None else manifest.tree()
        self.fences: Final = set() if manifest is None else set(manifest.fences)
        self.collected: Final = 1 if manifest is None else manifest.collected
        self.owner = b""
        self.decision: WalObject | None = None
        """The object of an upload that was cut off before its snapshot was there."""

    def apply(self, found: WalObject) -> None:
        if found.kind is Kind.FENCE:
            self.fences.add(found.number)
            self.owner = found.payload
            return
        for change in decode(found.payload):
            if type(change) is StoreUploaded:
                self.decision = found
            else:
                self.tree.apply(change)


def _below(files: FileSystem, directory: Path) -> Iterator[tuple[Path, bool]]:
    """Yield paths below a directory, each behind the one that it is in; True for a directory.

    Raises: StorageError for a link, which may lead to what is not the store's.
    """
    for name in sorted(files.listdir(directory)):
        path = directory / name
        if path.is_symlink():
            raise StorageError(f"{path} is a link: a store has none")
        is_directory = files.is_directory(path)
        yield path, is_directory
        if is_directory:
            yield from _below(files, path)


def _name_of(contents: list[list[bytes]]) -> str:
    """Return the name of an object by its content."""
    digest = hashlib.sha256()
    for content in contents:
        for block in content:
            digest.update(block)
    return f"upload-{digest.hexdigest()}"
