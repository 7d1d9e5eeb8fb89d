"""Files and folders as Spark's checkpoints need them, over an object store that has no rename, no folders.

A checkpoint file is made as a temporary file (`.name.<uuid>.tmp`) and renamed when it is whole. So such files
stay here, in a temporary directory, and the rename is the upload: one put, which for a rename that must not
replace is conditional, and of two exactly one succeeds. Temporary files of a gateway that ended are gone,
which is what becomes of them anyway. A folder is there when something is in it, or when it was made since the
gateway began. A key and a folder of the same name can both be there; then the file wins. The exceptions for
a path are here, too; `webhdfs` translates them into Hadoop's.
Never here: HTTP, or what is in a file. Source of the names: Spark's CheckpointFileManager.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from headrace.errors import HeadraceError
from headrace.objects.errors import KeyExists, KeyMissing, StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from headrace.objects.port import AsyncObjectStore, ObjectInfo


PIECE: Final = 4 << 20
"""Bytes of a file that are asked for at once."""

_TEMPORARY: Final = re.compile(r"\..+\.tmp")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_DELETED_AT_ONCE: Final = 500


class CheckpointError(HeadraceError):
    """The store failed or refused."""


class PathMissing(CheckpointError):
    """The store has no file or folder of that name."""


class PathExists(CheckpointError):
    """A file of that name exists, and must not be replaced."""


class FolderNotEmpty(CheckpointError):
    """A folder is not empty, and the request does not allow to remove what is in it."""


class BadPath(CheckpointError):
    """The path is none of a file (`..`, empty names, control characters), or does not fit the operation."""


class FileStatus(Struct, frozen=True):
    """A file, or a folder (without size). `name` is the last part of its path; the time is ms since 1970."""

    name: str
    is_folder: bool
    size: int = 0
    modified_ms: int = 0


class _Staged(Struct, frozen=True):
    path: Path
    size: int
    modified_ms: int


def key_of(path: str) -> str:
    """The key of a path such as `/a/b`, "" for the root. Raises: BadPath."""
    names = path.strip("/").split("/") if path.strip("/") else []
    if any(name in ("", ".", "..") for name in names) or _CONTROL.search(path):
        raise BadPath(f"not a path of a checkpoint: {path!r}")
    return "/".join(names)


def is_temporary(key: str) -> bool:
    """True if a key is of a file that is renamed when it is whole."""
    return _TEMPORARY.fullmatch(posixpath.basename(key)) is not None


class TemporaryFile:
    """A file that is being written, not to be seen yet."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.NamedTemporaryFile(dir=folder, delete=False)  # noqa: SIM115  # see close
        self.path = Path(self._file.name)

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def close(self) -> None:
        self._file.close()

    def discard(self) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)


class Objects:
    """The files below the root of a store. One event loop uses it.

    Raises, from every method: CheckpointError and its kinds.
    """

    def __init__(self, store: AsyncObjectStore) -> None:
        self._store = store
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-checkpoints-"))
        self._staged: dict[str, _Staged] = {}
        self._folders: set[str] = set()

    def close(self) -> None:
        """Temporary files are gone after this."""
        shutil.rmtree(self._folder, ignore_errors=True)

    # ---- looking ----------------------------------------------------------------------------

    async def status(self, key: str) -> FileStatus:
        """Return the status of a file or folder. Raises: PathMissing."""
        staged = self._staged.get(key)
        if staged is not None:
            return _status_of(key, staged)
        if key:
            try:
                return _status_of_object(await self._head(key))
            except PathMissing:
                pass
        if await self._is_folder(key):
            return FileStatus(posixpath.basename(key), is_folder=True)
        raise PathMissing(f"there is no {_shown(key)}")

    async def entries(self, key: str) -> list[FileStatus]:
        """List a folder, by name. Of a file, return the file itself with name "". Raises: PathMissing."""
        with _failures(key):
            found = await self._store.list_folder(key)
        entries = {one.name: one for one in map(_status_of_object, found.objects)}
        for name in (*self._below(key), *found.folders):
            entries.setdefault(name, FileStatus(name, is_folder=True))
        for staged_key, staged in self._staged.items():
            if posixpath.dirname(staged_key) == key:
                entries[posixpath.basename(staged_key)] = _status_of(staged_key, staged)
        if not entries and key not in self._folders and key:
            one = await self.status(key)
            return [] if one.is_folder else [replace(one, name="")]
        return [entries[name] for name in sorted(entries)]

    async def read(self, key: str, offset: int, length: int | None) -> AsyncIterator[bytes]:
        """The bytes of a file, in pieces. Raises: PathMissing, BadPath for an offset behind its end."""
        one = await self.status(key)
        if one.is_folder:
            raise PathMissing(f"{_shown(key)} is a folder")
        if not 0 <= offset <= one.size:
            raise BadPath(f"offset {offset} of {_shown(key)}, which has {one.size} bytes")
        end = one.size if length is None else min(offset + length, one.size)
        return self._pieces(key, offset, end)

    # ---- changing ---------------------------------------------------------------------------

    def draft(self) -> TemporaryFile:
        return TemporaryFile(self._folder)

    async def create(self, key: str, draft: TemporaryFile, *, overwrite: bool) -> None:
        """The draft under its name; it is whole or not there. Raises: PathExists, BadPath."""
        draft.close()
        if not key or key in self._folders:
            raise PathExists(f"{_shown(key)} is a folder")
        if not is_temporary(key):
            await self._put(key, draft.path, overwrite=overwrite)
            draft.discard()
            return
        before = self._staged.get(key)
        if before is not None and not overwrite:
            raise PathExists(f"{_shown(key)} is there already")
        self._staged[key] = _Staged(draft.path, draft.path.stat().st_size, int(time.time() * 1000))
        if before is not None:
            before.path.unlink(missing_ok=True)

    async def rename(self, old: str, new: str, *, overwrite: bool) -> None:
        """One file under another name; without `overwrite` of two that mean the same name one succeeds.

        Raises: PathMissing, PathExists; BadPath for a folder.
        """
        if not old or not new:
            raise BadPath("the root cannot be renamed")
        staged = self._staged.pop(old, None)
        if staged is None:
            await self._rename_stored(old, new, overwrite=overwrite)
            return
        if is_temporary(new):
            if new in self._staged and not overwrite:
                self._staged[old] = staged
                raise PathExists(f"{_shown(new)} is there already")
            self._staged[new] = staged
            return
        try:
            await self._put(new, staged.path, overwrite=overwrite)
        except BaseException:
            self._staged[old] = staged  # it is still what it was
            raise
        staged.path.unlink(missing_ok=True)

    async def make_folder(self, key: str) -> None:
        """Make a folder and those above it. Raises: PathExists where a file stands."""
        if key in self._staged:
            raise PathExists(f"{_shown(key)} is a file")
        if key:
            try:
                await self._head(key)
            except PathMissing:
                pass
            else:
                raise PathExists(f"{_shown(key)} is a file")
        while key:
            self._folders.add(key)
            key = posixpath.dirname(key)

    async def remove(self, key: str, *, recursive: bool) -> bool:
        """A file, or a folder and what is in it; False if there was nothing. Raises: FolderNotEmpty."""
        staged = self._staged.pop(key, None)
        if staged is not None:
            staged.path.unlink(missing_ok=True)
            return True
        try:
            one = await self.status(key)
        except PathMissing:
            return False
        if not one.is_folder:
            with _failures(key):
                await self._store.delete([key])
            return True
        if not recursive and await self.entries(key):
            raise FolderNotEmpty(f"{_shown(key)} is not empty")
        await self._remove_below(key)
        return True

    # ---- inside -----------------------------------------------------------------------------

    async def _head(self, key: str) -> ObjectInfo:
        with _failures(key):
            return await self._store.head(key)

    async def _put(self, key: str, path: Path, *, overwrite: bool) -> None:
        with _failures(key):
            if overwrite:
                await self._store.put(key, path)
            else:
                await self._store.create(key, path)

    async def _rename_stored(self, old: str, new: str, *, overwrite: bool) -> None:
        if (await self.status(old)).is_folder:
            raise BadPath(f"{_shown(old)} is a folder: only files can be renamed")
        draft = self.draft()
        try:
            async for piece in await self.read(old, 0, None):
                draft.write(piece)
            await self.create(new, draft, overwrite=overwrite)
        except BaseException:
            draft.discard()
            raise
        with _failures(old):
            await self._store.delete([old])

    async def _is_folder(self, key: str) -> bool:
        if not key or key in self._folders or any(one.startswith(f"{key}/") for one in self._staged):
            return True
        with _failures(key):
            async for _ in self._store.list(key):
                return True
        return False

    def _below(self, key: str) -> list[str]:
        return [posixpath.basename(one) for one in self._folders if posixpath.dirname(one) == key]

    async def _pieces(self, key: str, start: int, end: int) -> AsyncIterator[bytes]:
        staged = self._staged.get(key)
        while start < end:
            stop = min(start + PIECE, end)
            if staged is not None:
                with _failures(key), staged.path.open("rb") as file:
                    file.seek(start)
                    yield file.read(stop - start)
            else:
                with _failures(key):
                    piece = await self._store.get_range(key, start, stop)
                yield piece
            start = stop

    async def _remove_below(self, key: str) -> None:
        inside = f"{key}/" if key else ""
        for one in [name for name in self._staged if name.startswith(inside)]:
            self._staged.pop(one).path.unlink(missing_ok=True)
        with _failures(key):
            found = [one.key async for one in self._store.list(key)]
            for start in range(0, len(found), _DELETED_AT_ONCE):
                await self._store.delete(found[start : start + _DELETED_AT_ONCE])
        self._folders = {one for one in self._folders if one != key and not one.startswith(inside)}


@contextmanager
def _failures(key: str) -> Iterator[None]:
    """Convert exceptions of the store, and of files of this machine, into ours."""
    try:
        yield
    except (KeyMissing, FileNotFoundError) as error:
        raise PathMissing(f"there is no {_shown(key)}") from error
    except KeyExists as error:
        raise PathExists(f"{_shown(key)} is there already") from error
    except (StoreError, OSError) as error:
        raise CheckpointError(f"the store failed at {_shown(key)}: {error}") from error


def _status_of_object(found: ObjectInfo) -> FileStatus:
    modified = (found.modified_ns or 0) // 1_000_000
    return FileStatus(posixpath.basename(found.key), False, found.size or 0, modified)


def _status_of(key: str, staged: _Staged) -> FileStatus:
    return FileStatus(posixpath.basename(key), False, staged.size, staged.modified_ms)


def _shown(key: str) -> str:
    return f"/{key}"
