"""The index of a cache: which local files are whole, so that a start need not bring them again.

A file is in it with what the system knows it by (its number, size and time of the last change, which nobody
can set) and with a digest of its extents. It is believed when both are the same: then its bytes are those of
the extents. The digest makes sure that a file of a past that was never committed is not: it has another size,
or bytes that are in no extent, so it was not in the index.

The file `.bucket/index`: 8 bytes "HRCACHE\\n", u32 version, u32 CRC32C of what follows, little-endian; then a
MessagePack list of the files. One that is not such a file says nothing.
"""

from __future__ import annotations

import hashlib
import struct
import threading
from typing import TYPE_CHECKING, Final

from msgspec import DecodeError, Struct, msgpack

from headrace.engine.records import crc32c
from headrace.log.filesystem import FileMode, Identity, make_directory, read_file, replace_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from headrace.bucket.tree import FileEntry, TreeFile
    from headrace.log.filesystem import FileSystem

NAME: Final = "index"
YOUNG_NS: Final = 2 * 10**9
"""A file that was changed so short a time ago is not noted: the next change may get the same time."""

_MAGIC: Final = b"HRCACHE\n"
_VERSION: Final = 1
_HEAD: Final = struct.Struct("<8sII")


class NotedFile(Struct, frozen=True, array_like=True):
    """A file of the index."""

    number: int
    path: bytes
    digest: bytes
    identity: Identity


def digest_of(file: TreeFile | FileEntry) -> bytes:
    """Return the digest of a file's size and extents."""
    parts = [(one.start, one.size, one.object, one.offset, one.skip) for one in file.extents]
    return hashlib.blake2b(msgpack.encode((file.size, parts)), digest_size=16).digest()


class TrustedFiles:
    """The files that an index says are whole."""

    def __init__(self, files: FileSystem, noted: Iterable[NotedFile]) -> None:
        self._files = files
        self._noted = {one.number: one for one in noted}

    def has(self, file: TreeFile, directory: Path) -> bool:
        """True if a local file is what the tree says. Raises: OSError."""
        noted = self._noted.get(file.id)
        if noted is None or noted.path != _bytes_of(file.path) or file.dirty or file.copying:
            return False
        try:
            identity = self._files.identity(directory / file.path)
        except FileNotFoundError:
            return False
        return identity == noted.identity and identity[1] == file.size and noted.digest == digest_of(file)


class CacheIndex:
    """The index in a folder; what is noted is on disk when it is written."""

    def __init__(self, files: FileSystem, folder: Path) -> None:
        self._files: Final = files
        self._folder: Final = folder
        self._synced: dict[int, NotedFile] = {}
        self._lock: Final = threading.Lock()
        """Held while the index is made: a standby's may not be done yet when an owner makes one."""

    def sync(self, whole: Iterable[FileEntry], directory: Path) -> None:
        """Sync files that were not synced as they are; they may be changed or renamed meanwhile.

        Raises: OSError.
        """
        with self._lock:
            self._synced = self._sync_all(whole, directory)

    def _sync_all(self, whole: Iterable[FileEntry], directory: Path) -> dict[int, NotedFile]:
        now = self._now_ns()
        synced: dict[int, NotedFile] = {}
        for one in whole:
            path = directory / one.path
            try:
                identity = self._files.identity(path)
                if identity[2] > now - YOUNG_NS:
                    continue
                known = self._synced.get(one.id)
                if known is None or known.identity != identity:
                    self._sync(path)
                if self._files.identity(path) == identity:
                    synced[one.id] = NotedFile(one.id, _bytes_of(one.path), digest_of(one), identity)
            except FileNotFoundError:
                continue
        return synced

    def write(self, still: Iterable[FileEntry]) -> None:
        """Write the index of those files that are still what they were before `sync`. Raises: OSError."""
        kept = []
        for one in still:
            synced = self._synced.get(one.id)
            if synced is not None and (synced.path, synced.digest) == (_bytes_of(one.path), digest_of(one)):
                kept.append(synced)
        data = msgpack.encode(kept)
        head = _HEAD.pack(_MAGIC, _VERSION, crc32c(data))
        with self._lock:
            make_directory(self._files, self._folder)
            replace_file(self._files, self._folder / NAME, head + data)

    def read(self) -> TrustedFiles:
        """Read the index. Raises: OSError."""
        try:
            data = read_file(self._files, self._folder / NAME)
        except FileNotFoundError:
            return TrustedFiles(self._files, ())
        head, body = data[: _HEAD.size], data[_HEAD.size :]
        if head != _HEAD.pack(_MAGIC, _VERSION, crc32c(body)):
            return TrustedFiles(self._files, ())
        try:
            return TrustedFiles(self._files, msgpack.decode(body, type=list[NotedFile]))
        except (DecodeError, UnicodeDecodeError):
            return TrustedFiles(self._files, ())

    def _sync(self, path: Path) -> None:
        handle = self._files.open(path, FileMode.READ)
        try:
            self._files.fdatasync(handle)
        finally:
            self._files.close(handle)

    def _now_ns(self) -> int:
        """The time that a file gets which is changed now."""
        make_directory(self._files, self._folder)
        path = self._folder / "now"
        handle = self._files.open(path, FileMode.APPEND)
        try:
            self._files.write(handle, b".")
        finally:
            self._files.close(handle)
        now = self._files.identity(path)[2]
        self._files.unlink(path)
        return now


def _bytes_of(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
