"""The store of a table's files: the port, and a local directory behind it.

Keys are names relative to the table, with `/` between. The manifest's guarantee rests on `create`: of all who
create one key exactly one succeeds, and it is durable then. Here live bytes and names; never what is in them.
The other side of the port is `object_store`.
"""

from __future__ import annotations

import hashlib
import io
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Final, NamedTuple, Protocol

from headrace.log.filesystem import Mode, RealFileSystem, make_directory, read_file, replace_file, write_all
from headrace.tables.errors import KeyExists, KeyMissing, StoreError, TableLocked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from headrace.log.filesystem import Bytes, FileSystem

OWN: Final = "_headrace"
"""Readers of Parquet directories leave out names that begin with an underscore."""
MANIFESTS: Final = f"{OWN}/manifests"
REPLACED: Final = f"{OWN}/replaced"
DRAFTS: Final = f"{OWN}/drafts"
_LOCK: Final = f"{OWN}/lock"


class Entry(NamedTuple):
    """A key that is there; `modified_ns` where the store knows it."""

    key: str
    modified_ns: int | None


class Draft(Protocol):
    """A file being written: in no list until `publish`, gone after `discard` or when the writer dies."""

    @property
    def closed(self) -> bool: ...
    def write(self, data: Bytes) -> int: ...
    def flush(self) -> None: ...
    def tell(self) -> int: ...

    def close(self) -> None:
        """Ends the writing (what writes Parquet calls it). The file is still a draft."""

    def publish(self, key: str) -> str:
        """Puts it under its key, durable on return; gives its SHA-256. Raises: StoreError."""

    def discard(self) -> None:
        """Takes it away. Safe to call twice, and after `publish`, when it does nothing."""


class Store(Protocol):
    """All methods raise StoreError."""

    @property
    def location(self) -> str:
        """For people and for other readers: a path or a URL."""

    def lock(self) -> AbstractContextManager[bool]:
        """Keeps other writers out while it is held: True; False where the store has no locks.

        Raises: TableLocked.
        """

    def draft(self) -> Draft: ...

    def create(self, key: str, data: bytes) -> None:
        """Writes a key that was not there, whole and durable. Raises: KeyExists."""

    def read(self, key: str) -> bytes:
        """Raises: KeyMissing."""

    def open(self, key: str, *, in_parts: bool = False) -> IO[bytes]:
        """For reading anywhere in it; `in_parts`: only some of it will be, and it may be gone then.

        Raises: KeyMissing; with `in_parts` every read of it does, too.
        """

    def entries(self, folder: str = "") -> list[Entry]:
        """The keys directly in a folder ("": the table itself), sorted; none when it is not there."""

    def folders(self) -> list[str]:
        """Names of the folders directly in it, sorted."""

    def move(self, old: str, new: str) -> None:
        """Not atomic: a crash may leave both or, where `old` is of no use, none. Raises: KeyMissing."""

    def remove(self, key: str) -> None:
        """Durable on return. Nothing happens when it is not there."""


@contextmanager
def _errors(what: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise KeyMissing(f"{what}: it is not there") from error
    except OSError as error:
        raise StoreError(f"{what}: {error.strerror or error}") from error


class LocalStore:
    """A table in a directory, which is made with the first draft or lock. Files are the owner's alone.

    Everything goes through the port of `headrace.log.filesystem`, so that tests take the power away.
    """

    def __init__(self, directory: Path, filesystem: FileSystem | None = None) -> None:
        self._directory = directory
        self._fs: FileSystem = filesystem or RealFileSystem()
        self._drafts = 0

    @property
    def location(self) -> str:
        return str(self._directory)

    @contextmanager
    def lock(self) -> Iterator[bool]:
        path = self._directory / _LOCK
        with _errors(f"cannot make {self._directory}"):
            for folder in (MANIFESTS, REPLACED, DRAFTS):
                make_directory(self._fs, self._directory / folder)
        try:
            handle = self._fs.lock(path)
        except BlockingIOError:
            raise TableLocked(f"{self._directory}: another process writes to it") from None
        except OSError as error:
            raise StoreError(f"cannot lock {path}: {error.strerror or error}") from error
        try:
            with _errors(f"cannot sync {self._directory}"):
                # The process that made the newest version may have died before this. What an older version
                # names is removed on the newest one's word.
                self._fs.fsync_dir(self._directory / MANIFESTS)
            yield True
        finally:
            with suppress(OSError):  # the lock goes with the process at the latest
                self._fs.close(handle)

    def draft(self) -> LocalDraft:
        self._drafts += 1
        path = self._directory / DRAFTS / f"{self._drafts}"
        with _errors(f"cannot write {path}"):
            handle = self._fs.open(path, Mode.APPEND)
            try:
                self._fs.truncate(handle, 0)  # what a writer that died left
            except BaseException:
                self._fs.close(handle)
                raise
        return LocalDraft(self._directory, path, handle, self._fs)

    def create(self, key: str, data: bytes) -> None:
        """Only under `lock`: nobody else creates between the look and the rename."""
        path = self._directory / key
        with _errors(f"cannot write {path}"):
            if path.name in self._names(path.parent):
                raise KeyExists(f"{path} is there already")
            replace_file(self._fs, path, data)

    def read(self, key: str) -> bytes:
        path = self._directory / key
        with _errors(f"cannot read {path}"):
            return read_file(self._fs, path)

    def open(self, key: str, *, in_parts: bool = False) -> IO[bytes]:
        path = self._directory / key
        with _errors(f"cannot read {path}"):
            return io.BufferedReader(_Reading(self._fs, path), 64 << 10)

    def entries(self, folder: str = "") -> list[Entry]:
        directory = self._directory / folder
        with _errors(f"cannot list {directory}"):
            names = [name for name in self._names(directory) if not name.endswith(".new")]
            prefix = f"{folder}/" if folder else ""
            return [
                Entry(prefix + name, None)
                for name in sorted(names)
                if not self._fs.is_directory(directory / name)
            ]

    def folders(self) -> list[str]:
        with _errors(f"cannot list {self._directory}"):
            return sorted(
                name for name in self._names(self._directory) if self._fs.is_directory(self._directory / name)
            )

    def move(self, old: str, new: str) -> None:
        source, target = self._directory / old, self._directory / new
        with _errors(f"cannot move {source}"):
            self._fs.rename(source, target)
            self._fs.fsync_dir(target.parent)
            self._fs.fsync_dir(source.parent)

    def remove(self, key: str) -> None:
        path = self._directory / key
        with _errors(f"cannot remove {path}"):
            if path.name in self._names(path.parent):
                self._fs.unlink(path)
                self._fs.fsync_dir(path.parent)

    def _names(self, directory: Path) -> list[str]:
        return self._fs.listdir(directory) if self._fs.is_directory(directory) else []


class LocalDraft:
    """A draft beside the table's own files; renamed into the table when it is whole and on disk."""

    def __init__(self, directory: Path, path: Path, handle: int, filesystem: FileSystem) -> None:
        self._directory = directory
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
        with _errors(f"cannot write {self._path}"):
            write_all(self._fs, self._handle, view)
        self._hash.update(view)
        self._size += len(view)
        return len(view)

    def flush(self) -> None:
        """Nothing waits here; the disk is asked in `publish`."""

    def tell(self) -> int:
        return self._size

    def close(self) -> None:
        self._is_written = True

    def publish(self, key: str) -> str:
        assert self._handle is not None
        target = self._directory / key
        with _errors(f"cannot write {target}"):
            self._fs.fsync(self._handle)
            self._give_back()
            self._fs.rename(self._path, target)
            self._fs.fsync_dir(target.parent)
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


class _Reading(io.RawIOBase):
    """A file of the port as one of Python's."""

    def __init__(self, filesystem: FileSystem, path: Path) -> None:
        self._fs = filesystem
        self._at = 0
        self._handle = filesystem.open(path, Mode.READ)
        try:
            self._size = filesystem.size(self._handle)
        except BaseException:
            filesystem.close(self._handle)
            raise

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self._fs.pread(self._handle, len(buffer), self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._fs.close(self._handle)
        super().close()
