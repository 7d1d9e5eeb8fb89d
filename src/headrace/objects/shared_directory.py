"""Objects in a directory that several processes write, without a lock, for an event loop.

A create is a hard link to a draft that is on disk already: it succeeds for one. Calls of the file system run
on threads. A call that is cancelled goes on there, as a request that has left goes on in an object store.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headrace.errors import on_one_line
from headrace.log.filesystem import FileMode, FileSystem, RealFileSystem, make_directory, write_all
from headrace.objects.errors import KeyExists
from headrace.objects.local import DRAFTS, LocalStore, path_errors
from headrace.objects.port import OWN, Listing, ObjectInfo

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from headrace.objects.port import Bytes


class LinkingFileSystem(FileSystem, Protocol):
    """A file system with hard links."""

    def link(self, old: Path, new: Path) -> None:
        """Give a file another name; atomic. Raises: FileExistsError."""


class SharedDirectory:
    """The objects in a directory (`headrace.objects.port.AsyncObjectStore`), made with the first of them.

    Times are when the file was changed last, its number of links too: the moment of its create.
    """

    def __init__(self, directory: Path, filesystem: LinkingFileSystem | None = None) -> None:
        self._directory = directory
        self._fs: LinkingFileSystem = filesystem or RealFileSystem()
        self._files = LocalStore(directory, self._fs)

    @property
    def location(self) -> str:
        return self._directory.as_uri()

    async def get(self, key: str) -> bytes:
        return await asyncio.to_thread(self._files.get, key)

    async def get_range(self, key: str, start: int, end: int) -> bytes:
        return await asyncio.to_thread(self._files.get_range, key, start, end)

    async def head(self, key: str) -> ObjectInfo:
        return await asyncio.to_thread(self._info, key)

    async def put(self, key: str, data: Bytes | Path) -> None:
        await asyncio.to_thread(self._put, key, data)

    async def create(self, key: str, data: Bytes | Path) -> None:
        await asyncio.to_thread(self._create, key, data)

    async def list(self, prefix: str = "", *, after: str = "") -> AsyncIterator[ObjectInfo]:
        for info in await asyncio.to_thread(self._list, prefix, after):
            yield info

    async def list_folder(self, folder: str = "") -> Listing:
        found = await asyncio.to_thread(self._files.list_folder, folder)
        return found._replace(folders=[name for name in found.folders if folder or name != OWN])

    async def delete(self, keys: Sequence[str]) -> None:
        await asyncio.to_thread(self._delete, keys)

    def _info(self, key: str) -> ObjectInfo:
        path = self._directory / key
        with path_errors(f"cannot read {path}"):
            _, size, time_ns = self._fs.identity(path)
        return ObjectInfo(key, size, time_ns)

    def _list(self, prefix: str, after: str) -> Sequence[ObjectInfo]:
        found = []
        for entry in self._files.list(prefix, after=after):
            with suppress(FileNotFoundError):  # deleted meanwhile
                _, size, time_ns = self._fs.identity(self._directory / entry.key)
                found.append(ObjectInfo(entry.key, size, time_ns))
        return found

    def _put(self, key: str, data: Bytes | Path) -> None:
        path = self._directory / key
        with path_errors(f"cannot write {path}"):
            draft = self._draft(data)
            make_directory(self._fs, path.parent)
            self._fs.rename(draft, path)
            self._fs.fsync_dir(path.parent)

    def _create(self, key: str, data: Bytes | Path) -> None:
        path = self._directory / key
        with path_errors(f"cannot write {path}"):
            draft = self._draft(data)
            try:
                make_directory(self._fs, path.parent)
                self._fs.link(draft, path)
            except FileExistsError as error:
                raise KeyExists(on_one_line(f"{path} is there already")) from error
            finally:
                self._fs.unlink(draft)
                # Also a name that another one gave: whoever is told that it is there relies on it.
                self._fs.fsync_dir(path.parent)

    def _draft(self, data: Bytes | Path) -> Path:
        """Return the file of a draft that is on disk."""
        path = self._directory / DRAFTS / secrets.token_hex(8)
        make_directory(self._fs, path.parent)
        handle = self._fs.open(path, FileMode.APPEND)
        try:
            write_all(self._fs, handle, data.read_bytes() if isinstance(data, Path) else data)
            self._fs.fsync(handle)
        except BaseException:
            with suppress(OSError):  # the first error is told
                self._fs.unlink(path)
            raise
        finally:
            self._fs.close(handle)
        return path

    def _delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._files.delete(key)
