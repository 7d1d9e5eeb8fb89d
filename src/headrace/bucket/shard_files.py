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
from collections import OrderedDict
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
from headrace.bucket.extents import fetches, pieces
from headrace.bucket.restore import read_log
from headrace.bucket.snapshots import newest_snapshot
from headrace.bucket.tree import Directory, Tree, TreeFile
from headrace.bucket.wal_object import Kind
from headrace.log.filesystem import FileMode
from headrace.objects.errors import KeyMissing, StoreError

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.bucket.changes import Change, FileExtent
    from headrace.bucket.keys import ShardKeys
    from headrace.bucket.wal_object import WalObject
    from headrace.log.filesystem import Bytes, Identity
    from headrace.objects.port import AsyncObjectStore, ObjectStore

KEPT: Final = 64 << 20
"""Bytes of extents that were read last and are kept in memory."""
ATTEMPTS: Final = 8
"""The number of times that loading begins again because objects were deleted meanwhile."""
_BLOCK: Final = 16 << 10
"""Bytes of a block of what no segment object has."""


async def load_shard_files(
    store: AsyncObjectStore, reads: ObjectStore, keys: ShardKeys, directory: Path, *, kept: int = KEPT
) -> ShardFiles:
    """Read what is committed by now: the newest snapshot and each WAL object behind it.

    `reads` is the same bucket for the threads that read files. Raises: BucketError, also where there is no
    such shard; StoreError.
    """
    for _ in range(ATTEMPTS):
        manifest = await newest_snapshot(store, keys)
        tree = Tree() if manifest is None else manifest.tree()
        files = ShardFiles(reads, keys, tree, directory, kept=kept)
        try:
            number = await read_log(store, keys, manifest, files.apply)
        except Behind:
            continue
        if not number:
            raise BucketError(f"there is no shard {keys.shard} in {store.location}")
        return files
    raise BucketError(
        f"{store.location}: objects of shard {keys.shard} are deleted faster than they can be read"
    )


class ShardFiles:
    """The files of a shard below `directory`, which need not be there.

    `kept`: bytes of extents that are kept in memory. A read of what was deleted from the bucket since raises
    OSError (ESTALE): then load it again.
    """

    def __init__(
        self, reads: ObjectStore, keys: ShardKeys, tree: Tree, directory: Path, *, kept: int = KEPT
    ) -> None:
        self._store: Final = reads
        self._keys: Final = keys
        self._tree: Final = tree
        self._directory: Final = directory
        self._opened: Final[dict[int, TreeFile]] = {}
        self._next = 1
        self._blocks: Final[dict[int, dict[int, bytearray]]] = {}
        """Bytes that no segment object has, by the number of the file and of the block. Which of them count
        is what the tree says."""
        self._most: Final = kept
        self._kept: Final[OrderedDict[FileExtent, bytes]] = OrderedDict()
        self._kept_bytes = 0
        self._lock: Final = threading.RLock()

    # ---- changes ----------------------------------------------------------------------------

    def apply(self, found: WalObject) -> None:
        """Apply an object of the write-ahead log. Raises: DamagedObject."""
        if found.kind is not Kind.FENCE:  # whose payload says who the owner is
            for change in decode(found.payload):
                self._apply(change)

    def _apply(self, change: Change) -> None:
        with self._lock:
            file = self._tree.apply(change)
            if type(change) is Write and file is not None:
                self._put(file, change.offset, change.data)
            elif type(change) is SnapshotTaken:
                for number in [number for number in self._blocks if number not in self._tree.unsaved]:
                    self._drop(number)
            elif file is not None and file.is_gone:
                self._drop(file.id)

    def _put(self, file: TreeFile, offset: int, data: Bytes) -> None:
        blocks = self._blocks.setdefault(file.id, {})
        view, done = memoryview(data), 0
        while done < len(view):
            number, start = divmod(offset + done, _BLOCK)
            size = min(_BLOCK - start, len(view) - done)
            block = blocks.get(number)
            if block is None:
                block = blocks[number] = bytearray(_BLOCK)
            block[start : start + size] = view[done : done + size]
            done += size

    def _drop(self, number: int) -> None:
        """Give up the bytes of a file that has none of its own any more, unless somebody reads it."""
        if all(file.id != number for file in self._opened.values()):
            self._blocks.pop(number, None)

    # ---- reading ----------------------------------------------------------------------------

    def open(self, path: Path, mode: FileMode) -> int:
        with self._lock:
            name = self._name(path)
            file = self._tree.file_at(name)
            if file is None and mode in {FileMode.APPEND, FileMode.CREATE}:
                self._change(Create(name), path)
                file = self._tree.file_at(name)
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
            own = [(start, self._own(file, start, stop)) for start, stop in unsaved]
        data = bytearray(end - offset)
        for extent, content in self._contents(extents):
            first, behind = max(extent.start, offset), min(extent.end, end)
            data[first - offset : behind - offset] = content[first - extent.start : behind - extent.start]
        for start, piece in own:
            data[start - offset : start - offset + len(piece)] = piece
        return bytes(data)

    def _own(self, file: TreeFile, start: int, end: int) -> bytes:
        """Return bytes that no segment object has."""
        blocks = self._blocks[file.id]
        first, behind = start // _BLOCK, -(-end // _BLOCK)
        whole = b"".join(blocks[number] for number in range(first, behind))
        return whole[start - first * _BLOCK : end - first * _BLOCK]

    def _contents(self, wanted: list[FileExtent]) -> list[tuple[FileExtent, bytes]]:
        """Return the bytes of extents. Raises: OSError (EIO) with what is wrong with an object."""
        found: dict[FileExtent, bytes] = {}
        with self._lock:
            for extent in wanted:
                if extent in self._kept:
                    self._kept.move_to_end(extent)
                    found[extent] = self._kept[extent]
        for fetch in fetches(extent for extent in wanted if extent not in found):
            try:
                data = self._store.get_range(self._keys.segment(fetch.object), fetch.start, fetch.end)
                for extent, (_, piece) in zip(fetch.extents, pieces(fetch, data), strict=True):
                    found[extent] = bytes(piece)
                    self._keep(extent, found[extent])
            except KeyMissing as error:
                raise OSError(errno.ESTALE, f"{error}: deleted while it was read, read it again") from error
            except (StoreError, DamagedObject) as error:
                raise OSError(errno.EIO, str(error)) from error
        return list(found.items())

    def _keep(self, extent: FileExtent, content: bytes) -> None:
        with self._lock:
            if extent not in self._kept:
                self._kept[extent] = content
                self._kept_bytes += len(content)
            while self._kept_bytes > self._most:
                self._kept_bytes -= len(self._kept.popitem(last=False)[1])

    def _file(self, handle: int) -> TreeFile:
        file = self._opened.get(handle)
        if file is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return file

    # ---- names ------------------------------------------------------------------------------

    def identity(self, path: Path) -> Identity:
        file = self._tree.file_at(self._name(path))
        if file is None:
            if self.is_directory(path):
                return 0, 0, 0
            raise _error(errno.ENOENT, path)
        return file.id, file.size, 0

    def listdir(self, directory: Path) -> list[str]:
        found = self._directory_at(directory)
        if found is None:
            is_file = self._tree.file_at(self._name(directory)) is not None
            raise _error(errno.ENOTDIR if is_file else errno.ENOENT, directory)
        return list(found.entries)

    def is_directory(self, path: Path) -> bool:
        return self._directory_at(path) is not None

    def _directory_at(self, path: Path) -> Directory | None:
        name = self._name(path)
        found = self._tree.find(name) if name else self._tree.root
        return found if isinstance(found, Directory) else None

    def _name(self, path: Path) -> str:
        """Return a path as the tree has it. Raises: OSError for one that is not below the directory."""
        try:
            name = path.relative_to(self._directory).as_posix()
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
                self._tree.note_write(file, offset, len(data))
            self._put(file, offset, data)
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
                self._tree.apply(Truncate(file.id, size))

    def fsync(self, handle: int) -> None:
        """Do nothing: no write outlives this object."""

    def fdatasync(self, handle: int) -> None:
        """Do nothing: no write outlives this object."""

    def forget_read(self, handle: int) -> None:
        """Do nothing: the bytes are those of objects that nobody changes."""

    def rename(self, old: Path, new: Path) -> None:
        before, after = self._name(old), self._name(new)
        if self._tree.find(before) is None:
            raise _error(errno.ENOENT, old)
        if before != after:
            self._change(Rename(before, after), new)

    def unlink(self, path: Path) -> None:
        if self._tree.file_at(self._name(path)) is None:
            raise _error(errno.EISDIR if self.is_directory(path) else errno.ENOENT, path)
        self._change(Unlink(self._name(path)), path)

    def mkdir(self, directory: Path) -> None:
        if not self._name(directory) or self._tree.find(self._name(directory)) is not None:
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
