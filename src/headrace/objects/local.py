"""Objects in a directory: files, synced before a write returns, with a lock for one writer.

Everything goes through the port of `headrace.log.filesystem`, so that tests take the power away. Folders are
made with the first object in them; files are their owner's alone.
"""

from __future__ import annotations

import hashlib
import io
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Final

from headrace.log.filesystem import (
    DRAFT,
    FileMode,
    RealFileSystem,
    make_directory,
    read_file,
    replace_file,
    write_all,
)
from headrace.objects.errors import AccessRefused, KeyExists, KeyMissing, LockHeld, StoreError
from headrace.objects.port import OWN, Listing, ObjectInfo
from headrace.objects.reading import ObjectReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from headrace.log.filesystem import FileSystem
    from headrace.objects.port import Bytes

DRAFTS: Final = f"{OWN}/drafts"
_LOCK: Final = f"{OWN}/lock"
_HIDDEN: Final = (DRAFTS, _LOCK)


@contextmanager
def path_errors(what: str) -> Iterator[None]:
    """Raise the StoreError that an OSError means; `what` could not be done."""
    try:
        yield
    except FileNotFoundError as error:
        raise KeyMissing(f"{what}: it is not there") from error
    except PermissionError as error:
        raise AccessRefused(f"{what}: {error.strerror or error}") from error
    except OSError as error:
        raise StoreError(f"{what}: {error.strerror or error}") from error


class LocalStore:
    """The objects in a directory (`headrace.objects.port.ObjectStore`); it is made with the first of them."""

    def __init__(self, directory: Path, filesystem: FileSystem | None = None) -> None:
        self._directory = directory
        self._fs: FileSystem = filesystem or RealFileSystem()
        self._drafts = 0

    @property
    def location(self) -> str:
        return str(self._directory)

    def get(self, key: str) -> bytes:
        path = self._directory / key
        with path_errors(f"cannot read {path}"):
            return read_file(self._fs, path)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        path = self._directory / key
        with path_errors(f"cannot read {path}"), self._opened(path) as handle:
            return self._fs.pread(handle, max(end - start, 0), start)

    def head(self, key: str) -> ObjectInfo:
        path = self._directory / key
        with path_errors(f"cannot read {path}"), self._opened(path) as handle:
            return ObjectInfo(key, self._fs.size(handle))

    def open(self, key: str, *, in_parts: bool = False) -> IO[bytes]:
        path = self._directory / key
        with path_errors(f"cannot read {path}"):
            return io.BufferedReader(_File(self._fs, path), 64 << 10)

    def put(self, key: str, data: bytes) -> None:
        path = self._directory / key
        with path_errors(f"cannot write {path}"):
            self._make_folder_of(path)
            replace_file(self._fs, path, data)

    def create(self, key: str, data: bytes) -> None:
        """Write an object that must be new.

        The caller holds `lock`: nobody else creates between the look and the rename.
        """
        path = self._directory / key
        with path_errors(f"cannot write {path}"):
            if path.name in self._names(path.parent):
                raise KeyExists(f"{path} is there already")
            self._make_folder_of(path)
            replace_file(self._fs, path, data)

    def draft(self) -> LocalDraft:
        self._drafts += 1
        path = self._directory / DRAFTS / f"{self._drafts}"
        with path_errors(f"cannot write {path}"):
            self._make_folder_of(path)
            handle = self._fs.open(path, FileMode.APPEND)
            try:
                self._fs.truncate(handle, 0)  # what a writer that died left
            except BaseException:
                self._fs.close(handle)
                raise
        return LocalDraft(self, path, handle, self._fs)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        found = self.list_folder(prefix)
        yield from (one for one in found.objects if one.key > after)
        for name in found.folders:
            yield from self.list(f"{prefix}/{name}" if prefix else name, after=after)

    def list_folder(self, folder: str = "") -> Listing:
        directory = self._directory / folder
        prefix = f"{folder}/" if folder else ""
        listing = Listing([], [])
        with path_errors(f"cannot list {directory}"):
            for name in sorted(self._names(directory)):
                key = prefix + name
                if key in _HIDDEN or name.endswith(DRAFT):
                    continue
                if self._fs.is_directory(directory / name):
                    listing.folders.append(name)
                else:
                    listing.objects.append(ObjectInfo(key))
        return listing

    def move(self, old: str, new: str) -> None:
        source, target = self._directory / old, self._directory / new
        with path_errors(f"cannot move {source}"):
            self._make_folder_of(target)
            self._rename(source, target)
            self._fs.fsync_dir(source.parent)

    def delete(self, key: str) -> None:
        path = self._directory / key
        with path_errors(f"cannot remove {path}"):
            if path.name in self._names(path.parent):
                self._fs.unlink(path)
                self._fs.fsync_dir(path.parent)

    @contextmanager
    def lock(self) -> Iterator[bool]:
        path = self._directory / _LOCK
        with path_errors(f"cannot make {self._directory}"):
            make_directory(self._fs, path.parent)
        try:
            handle = self._fs.lock(path)
        except BlockingIOError:
            raise LockHeld(f"{self._directory}: another process writes to it") from None
        except OSError as error:
            raise StoreError(f"cannot lock {path}: {error.strerror or error}") from error
        try:
            yield True
        finally:
            with suppress(OSError):  # the lock goes with the process at the latest
                self._fs.close(handle)

    def sync_folder(self, folder: str) -> None:
        directory = self._directory / folder
        with path_errors(f"cannot sync {directory}"):
            make_directory(self._fs, directory)
            self._fs.fsync_dir(directory)

    def publish(self, draft: Path, key: str) -> None:
        """Give the file of a draft, which is on disk, its key."""
        target = self._directory / key
        with path_errors(f"cannot write {target}"):
            self._make_folder_of(target)
            self._rename(draft, target)

    @contextmanager
    def _opened(self, path: Path) -> Iterator[int]:
        handle = self._fs.open(path, FileMode.READ)
        try:
            yield handle
        finally:
            self._fs.close(handle)

    def _rename(self, source: Path, target: Path) -> None:
        self._fs.rename(source, target)
        self._fs.fsync_dir(target.parent)

    def _make_folder_of(self, path: Path) -> None:
        if not self._fs.is_directory(path.parent):
            make_directory(self._fs, path.parent)

    def _names(self, directory: Path) -> Sequence[str]:
        return self._fs.listdir(directory) if self._fs.is_directory(directory) else []


class LocalDraft:
    """A file beside the objects, renamed when it is whole and on disk."""

    def __init__(self, store: LocalStore, path: Path, handle: int, filesystem: FileSystem) -> None:
        self._store = store
        self._path = path
        self._handle: int | None = handle
        self._fs = filesystem
        self._hash = hashlib.sha256()
        self._size = 0
        self._is_written = False

    @property
    def closed(self) -> bool:
        return self._is_written

    def write(self, data: Bytes) -> int:
        view = memoryview(data).cast("B")
        assert self._handle is not None
        with path_errors(f"cannot write {self._path}"):
            write_all(self._fs, self._handle, view)
        self._hash.update(view)
        self._size += len(view)
        return len(view)

    def flush(self) -> None:
        """Do nothing: the draft is synced in `publish`."""

    def tell(self) -> int:
        return self._size

    def close(self) -> None:
        self._is_written = True

    def publish(self, key: str) -> str:
        assert self._handle is not None
        with path_errors(f"cannot write {self._path}"):
            self._fs.fsync(self._handle)
            self._give_back()
        self._store.publish(self._path, key)
        return self._hash.hexdigest()

    def discard(self) -> None:
        if self._handle is None:
            return
        self._give_back()
        with suppress(OSError):  # the next writer clears what is left
            self._fs.unlink(self._path)

    def _give_back(self) -> None:
        handle, self._handle = self._handle, None
        assert handle is not None
        self._fs.close(handle)


class _File(ObjectReader):
    """A file of the port as one of Python's."""

    def __init__(self, filesystem: FileSystem, path: Path) -> None:
        self._fs = filesystem
        self._handle = filesystem.open(path, FileMode.READ)
        try:
            super().__init__(filesystem.size(self._handle))
        except BaseException:
            filesystem.close(self._handle)
            raise

    def _read_at(self, start: int, size: int) -> bytes:
        return self._fs.pread(self._handle, size, start)

    def close(self) -> None:
        if not self.closed:
            self._fs.close(self._handle)
        super().close()
