"""The files of a shard, read from the bucket without a server and without a copy of them.

Here lives a `headrace.log.filesystem.FileSystem` with everything that was committed when it was loaded: what
the newest snapshot has, and behind it what the write-ahead log says, which is kept in memory. So whatever
opens a store or looks at logs does so there. What it writes stays in memory, too, and nobody sees it.
Never lives here: which bucket (`opening`), a store that stays (`restore`).
"""

from __future__ import annotations

import errno
import os
import threading
from typing import TYPE_CHECKING, Final

from headrace.bucket.changes import (
    Create,
    Mkdir,
    Rename,
    Rmdir,
    SnapshotTaken,
    Truncate,
    Unlink,
    Write,
    decode,
)
from headrace.bucket.errors import Behind, BucketError, DamagedObject
from headrace.bucket.follower import Point, WalFollower
from headrace.bucket.restore import read_log
from headrace.bucket.snapshots import newest_snapshot
from headrace.bucket.tree import Directory, Tree, TreeFile
from headrace.bucket.unsaved_bytes import UnsavedBytes
from headrace.bucket.wal_object import Kind
from headrace.log.filesystem import FileMode

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.bucket.changes import Change
    from headrace.bucket.extent_contents import ExtentContents
    from headrace.bucket.keys import ShardKeys
    from headrace.bucket.wal_object import WalObject
    from headrace.log.filesystem import Bytes, Identity
    from headrace.objects.port import AsyncObjectStore

ATTEMPTS: Final = 8
"""The number of times that loading begins again because objects were deleted meanwhile."""


async def load_shard_files(
    store: AsyncObjectStore, contents: ExtentContents, keys: ShardKeys, directory: Path
) -> ShardFiles:
    """Read what is committed by now: the newest snapshot and each WAL object behind it.

    `contents`: of the same shard, for the threads that read files. Raises: BucketError, also where there is
    no such shard; StoreError.
    """
    for _ in range(ATTEMPTS):
        manifest = await newest_snapshot(store, keys)
        tree = Tree() if manifest is None else manifest.tree()
        files = ShardFiles(contents, tree, directory)
        try:
            files.point = await read_log(store, keys, manifest, files.apply)
        except Behind:
            continue
        if not files.point.number:
            raise BucketError(f"there is no shard {keys.shard} in {store.location}")
        return files
    raise BucketError(
        f"{store.location}: objects of shard {keys.shard} are deleted faster than they can be read"
    )


async def read_further(store: AsyncObjectStore, keys: ShardKeys, files: ShardFiles) -> None:
    """Bring files that were loaded up to what is committed by now.

    Raises: Behind: then load them again; BucketError, StoreError.
    """
    follower = WalFollower(store, keys, files.point, files.apply)
    try:
        await follower.catch_up()
    finally:
        files.point = follower.point


class ShardFiles:
    """The files of a shard below `directory`, which need not be there.

    A read of what was deleted from the bucket since raises OSError (ESTALE): then load it again.
    """

    def __init__(self, contents: ExtentContents, tree: Tree, directory: Path) -> None:
        self.contents: Final = contents
        self.tree: Final = tree
        self.directory: Final = directory
        self.unsaved: Final = UnsavedBytes()
        self.point = Point()
        """The place in the write-ahead log of which these files are."""
        self._opened: Final[dict[int, TreeFile]] = {}
        self._next = 1
        self._lock: Final = threading.RLock()

    # ---- changes ----------------------------------------------------------------------------

    def apply(self, found: WalObject) -> None:
        """Apply an object of the write-ahead log. Raises: DamagedObject."""
        if found.kind is not Kind.FENCE:  # whose payload says who the owner is
            for change in decode(found.payload):
                self._apply(change)

    def _apply(self, change: Change) -> None:
        with self._lock:
            file = self.tree.apply(change)
            if type(change) is Write and file is not None:
                self.unsaved.put(file.id, change.offset, change.data)
            elif type(change) is SnapshotTaken:
                for number in [number for number in self.unsaved.files() if number not in self.tree.unsaved]:
                    self._drop(number)
            elif file is not None and file.is_gone:
                self._drop(file.id)

    def _drop(self, number: int) -> None:
        """Give up the bytes of a file that has none of its own any more, unless somebody reads it."""
        if all(file.id != number for file in self._opened.values()):
            self.unsaved.drop(number)

    # ---- reading ----------------------------------------------------------------------------

    def open(self, path: Path, mode: FileMode) -> int:
        with self._lock:
            name = self._name(path)
            file = self.tree.file_at(name)
            if file is None and mode in {FileMode.APPEND, FileMode.CREATE}:
                self._change(Create(name), path)
                file = self.tree.file_at(name)
            if file is None:
                raise _error(errno.EISDIR if self.is_directory(path) else errno.ENOENT, path)
            handle, self._next = self._next, self._next + 1
            self._opened[handle] = file
        return handle

    def close(self, handle: int) -> None:
        with self._lock:
            file = self._opened.pop(handle, None)
            if file is None:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            if file.is_gone:
                self._drop(file.id)

    def size(self, handle: int) -> int:
        return self._file(handle).size

    def descriptor(self, handle: int) -> int | None:
        return None

    def pread(self, handle: int, size: int, offset: int) -> bytes:
        file = self._file(handle)
        with self._lock:
            end = min(offset + size, file.size)
            if end <= offset:
                return b""
            extents = list(file.extents_in(offset, end))
            unsaved = [*file.copying.within(offset, end), *file.dirty.within(offset, end)]
            own = [(start, self.unsaved.read(file.id, start, stop)) for start, stop in unsaved]
        data = bytearray(end - offset)
        for extent, content in self.contents.read(extents):
            first, behind = max(extent.start, offset), min(extent.end, end)
            data[first - offset : behind - offset] = content[first - extent.start : behind - extent.start]
        for start, piece in own:
            data[start - offset : start - offset + len(piece)] = piece
        return bytes(data)

    def _file(self, handle: int) -> TreeFile:
        file = self._opened.get(handle)
        if file is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return file

    # ---- names ------------------------------------------------------------------------------

    def identity(self, path: Path) -> Identity:
        file = self.tree.file_at(self._name(path))
        if file is None:
            if self.is_directory(path):
                return 0, 0, 0
            raise _error(errno.ENOENT, path)
        return file.id, file.size, 0

    def listdir(self, directory: Path) -> list[str]:
        found = self._directory_at(directory)
        if found is None:
            is_file = self.tree.file_at(self._name(directory)) is not None
            raise _error(errno.ENOTDIR if is_file else errno.ENOENT, directory)
        return list(found.entries)

    def is_directory(self, path: Path) -> bool:
        return self._directory_at(path) is not None

    def _directory_at(self, path: Path) -> Directory | None:
        name = self._name(path)
        found = self.tree.find(name) if name else self.tree.root
        return found if isinstance(found, Directory) else None

    def _name(self, path: Path) -> str:
        """Return a path as the tree has it. Raises: OSError for one that is not below the directory."""
        try:
            name = path.relative_to(self.directory).as_posix()
        except ValueError:
            raise _error(errno.ENOENT, path) from None
        return "" if name == "." else name

    # ---- what is written, in memory only ----------------------------------------------------

    def write(self, handle: int, data: Bytes) -> int:
        with self._lock:
            return self.pwrite(handle, data, self._file(handle).size)

    def pwrite(self, handle: int, data: Bytes, offset: int) -> int:
        file = self._file(handle)
        with self._lock:
            if file.is_gone:
                file.write(offset, len(data))
            else:
                self.tree.note_write(file, offset, len(data))
            self.unsaved.put(file.id, offset, data)
        return len(data)

    def reserve(self, handle: int, offset: int, size: int) -> None:
        with self._lock:
            self.truncate(handle, max(self._file(handle).size, offset + size))

    def truncate(self, handle: int, size: int) -> None:
        file = self._file(handle)
        with self._lock:
            if file.is_gone:
                file.truncate(size)
            else:
                self.tree.apply(Truncate(file.id, size))

    def fsync(self, handle: int) -> None:
        """Do nothing: no write outlives this object."""

    def fdatasync(self, handle: int) -> None:
        """Do nothing: no write outlives this object."""

    def forget_read(self, handle: int) -> None:
        """Do nothing: the bytes are those of objects that nobody changes."""

    def rename(self, old: Path, new: Path) -> None:
        before, after = self._name(old), self._name(new)
        if self.tree.find(before) is None:
            raise _error(errno.ENOENT, old)
        if before != after:
            self._change(Rename(before, after), new)

    def unlink(self, path: Path) -> None:
        if self.tree.file_at(self._name(path)) is None:
            raise _error(errno.EISDIR if self.is_directory(path) else errno.ENOENT, path)
        self._change(Unlink(self._name(path)), path)

    def mkdir(self, directory: Path) -> None:
        if not self._name(directory) or self.tree.find(self._name(directory)) is not None:
            raise _error(errno.EEXIST, directory)
        self._change(Mkdir(self._name(directory)), directory)

    def rmdir(self, directory: Path) -> None:
        if self.listdir(directory):
            raise _error(errno.ENOTEMPTY, directory)
        self._change(Rmdir(self._name(directory)), directory)

    def fsync_dir(self, directory: Path) -> None:
        """Do nothing: no write outlives this object."""

    def lock(self, path: Path) -> int:
        """Open the file: nobody else sees it."""
        return self.open(path, FileMode.CREATE)

    def _change(self, change: Change, path: Path) -> None:
        """Change names. Raises: OSError for what cannot be."""
        try:
            self._apply(change)
        except DamagedObject as error:
            raise OSError(errno.ENOENT, str(error), str(path)) from error


def _error(number: int, path: Path | str) -> OSError:
    return OSError(number, os.strerror(number), str(path))
