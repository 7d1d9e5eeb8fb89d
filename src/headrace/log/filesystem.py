"""The few file-system calls that a log makes, as a port, and the real ones behind it.

Here live the port, its real side and the few compounds that must be right everywhere (write all of it,
replace a file, make a directory that survives). Never here: formats, retries, or any decision about an
error: `OSError` passes through, and the log says what it means (`storage_errors`). The sides for tests are in
`headrace.testing.faultfs`.

What POSIX promises, and no more, is what callers may count on: data is durable after `fsync` or `fdatasync`
of a handle of its file; that a name exists, is gone or was renamed is durable after `fsync_dir` of its
directory; until then any subset of the changes may survive a power loss, in any order, and a write may
survive in part.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import contextmanager, suppress
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from headrace.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Bytes: TypeAlias = "bytes | bytearray | memoryview"
"""Bytes to write. (`collections.abc.Buffer` needs Python 3.12.)"""

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700


class FileMode(Enum):
    """The mode in which a file is opened. Every handle can be read with `pread`."""

    READ = os.O_RDONLY
    """The file must exist."""
    APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT
    """Created when missing; `write` adds to its end. Not for `pwrite`: Linux would append."""
    CREATE = os.O_RDWR | os.O_CREAT
    """Created when missing; for `pwrite`."""
    UPDATE = os.O_RDWR
    """The file must exist; for `pwrite`."""


Identity: TypeAlias = tuple[int, int, int]
"""The identity of a file or directory. It differs from any other, and after a change."""


class FileSystem(Protocol):
    """The functions of `os` that a log of files calls; they raise OSError as the system does.

    Handles are small integers; calls on any thread.
    """

    def open(self, path: Path, mode: FileMode) -> int:
        """A handle. Raises: FileNotFoundError for READ and UPDATE, or when the directory is not there."""

    def close(self, handle: int) -> None: ...

    def pread(self, handle: int, size: int, offset: int) -> bytes:
        """Return up to `size` bytes; fewer only at the end of the file."""

    def write(self, handle: int, data: Bytes) -> int:
        """Add to the end of a file opened for APPEND; return the number of bytes that went in, perhaps fewer
        than given.
        """

    def pwrite(self, handle: int, data: Bytes, offset: int) -> int:
        """Write at `offset` of a file opened for CREATE or UPDATE; may take fewer bytes than given."""

    def reserve(self, handle: int, offset: int, size: int) -> None:
        """Extend a file that ends at `offset` by `size` zeros. They are written: room that is only promised
        (`posix_fallocate`) costs a commit of the file system's journal with the first write into it. May
        fail; the file may be longer then all the same.
        """

    def descriptor(self, handle: int) -> int | None:
        """Return the system's file descriptor; None if there is none.

        It is for reading and syncing without `pread` and `fdatasync`.
        """

    def truncate(self, handle: int, size: int) -> None:
        """Cut or extend (with zeros) to `size` bytes."""

    def size(self, handle: int) -> int: ...

    def identity(self, path: Path) -> Identity:
        """Its number, its size, and when it was changed last: its bytes, or the names in a directory.
        A copy, or what was written since, has another one.
        """

    def fsync(self, handle: int) -> None:
        """Once this raised, what was unsynced may never reach the disk, whatever a later call returns."""

    def fdatasync(self, handle: int) -> None:
        """Sync a file's content and size, but not its times and owners."""

    def forget_read(self, handle: int) -> None:
        """Make the next read of a file come from the disk after a sync, as far as the system can be told to.

        A system may go on showing what an earlier sync, which failed, did not write.
        """

    def rename(self, old: Path, new: Path) -> None:
        """Replace `new` when it is a file; atomic."""

    def unlink(self, path: Path) -> None: ...

    def listdir(self, directory: Path) -> list[str]:
        """Names in no order."""

    def is_directory(self, path: Path) -> bool: ...

    def mkdir(self, directory: Path) -> None:
        """One directory. Raises: FileExistsError."""

    def rmdir(self, directory: Path) -> None: ...

    def fsync_dir(self, directory: Path) -> None: ...

    def lock(self, path: Path) -> int:
        """Create the file when missing and lock it until the handle is closed. Raises: BlockingIOError."""


class RealFileSystem:
    """The operating system's calls. Files and directories are the owner's alone."""

    def open(self, path: Path, mode: FileMode) -> int:
        return os.open(path, mode.value, FILE_MODE)

    def close(self, handle: int) -> None:
        os.close(handle)

    def pread(self, handle: int, size: int, offset: int) -> bytes:
        data = os.pread(handle, size, offset)
        if len(data) == size or not data:
            return data
        parts = [data]  # a signal or the limit of one call (2 GB) may cut a read short
        while data and (missing := size - sum(map(len, parts))):
            data = os.pread(handle, missing, offset + size - missing)
            parts.append(data)
        return b"".join(parts)

    def write(self, handle: int, data: Bytes) -> int:
        return os.write(handle, data)

    def pwrite(self, handle: int, data: Bytes, offset: int) -> int:
        return os.pwrite(handle, data, offset)

    def reserve(self, handle: int, offset: int, size: int) -> None:
        pwrite_all(self, handle, bytes(size), offset)

    def descriptor(self, handle: int) -> int | None:
        return handle

    def truncate(self, handle: int, size: int) -> None:
        os.ftruncate(handle, size)

    def size(self, handle: int) -> int:
        return os.fstat(handle).st_size

    def identity(self, path: Path) -> Identity:
        found = os.stat(path)
        return found.st_ino, found.st_size, found.st_ctime_ns  # nobody can set that time

    def fsync(self, handle: int) -> None:
        os.fsync(handle)

    def fdatasync(self, handle: int) -> None:
        # Where there is no fdatasync (macOS), fsync is the nearest.
        getattr(os, "fdatasync", os.fsync)(handle)

    def forget_read(self, handle: int) -> None:
        if hasattr(os, "posix_fadvise"):  # not on macOS
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)

    def rename(self, old: Path, new: Path) -> None:
        os.replace(old, new)

    def link(self, old: Path, new: Path) -> None:
        os.link(old, new)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def listdir(self, directory: Path) -> list[str]:
        return os.listdir(directory)

    def is_directory(self, path: Path) -> bool:
        return path.is_dir()

    def mkdir(self, directory: Path) -> None:
        os.mkdir(directory, DIRECTORY_MODE)

    def rmdir(self, directory: Path) -> None:
        os.rmdir(directory)

    def fsync_dir(self, directory: Path) -> None:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def lock(self, path: Path) -> int:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(handle)
            raise
        return handle


@contextmanager
def storage_errors(what: str) -> Iterator[None]:
    """Raise StorageError in the place of OSError, with what could not be done: "cannot read 1.log"."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{what}: {error.strerror or error}") from error


def write_all(filesystem: FileSystem, handle: int, data: Bytes) -> None:
    """Append all of `data`, in one call where the system takes it in one.

    Raises OSError, possibly with a part of it written: the caller knows the size before and cuts back to it.
    """
    rest = memoryview(data).cast("B")
    while rest:
        taken = filesystem.write(handle, rest)
        if taken <= 0:
            raise OSError(errno.EIO, "the system takes no bytes and gives no reason")
        rest = rest[taken:]


def pwrite_all(filesystem: FileSystem, handle: int, data: Bytes, offset: int) -> None:
    """Write all of `data` at `offset`. Raises OSError, possibly with a part of it written."""
    rest = data if isinstance(data, bytes) else memoryview(data).cast("B")
    while rest:
        taken = filesystem.pwrite(handle, rest, offset)
        if taken <= 0:
            raise OSError(errno.EIO, "the system takes no bytes and gives no reason")
        if taken == len(rest):
            return
        rest = memoryview(rest)[taken:]
        offset += taken


def read_file(filesystem: FileSystem, path: Path) -> bytes:
    """A whole file, as large as it is when it is opened."""
    handle = filesystem.open(path, FileMode.READ)
    try:
        return filesystem.pread(handle, filesystem.size(handle), 0)
    finally:
        filesystem.close(handle)


DRAFT: Final = ".new"
"""The suffix of a draft, which `replace_file` writes first."""


def replace_file(filesystem: FileSystem, path: Path, data: bytes, *, durable: bool = True) -> None:
    """Put `data` in place of a file so that a power loss leaves the old one or the new one, whole.

    Durable on return, unless that is not asked for: then only a killed process cannot spoil it. What a
    cut-off attempt left behind (`<name>.new`) is overwritten by the next.
    """
    draft = path.with_name(path.name + DRAFT)
    handle = filesystem.open(draft, FileMode.APPEND)
    try:
        filesystem.truncate(handle, 0)
        write_all(filesystem, handle, data)
        if durable:
            filesystem.fsync(handle)
    finally:
        filesystem.close(handle)
    filesystem.rename(draft, path)
    if durable:
        filesystem.fsync_dir(path.parent)


def remove_file(filesystem: FileSystem, path: Path, *, durable: bool = True) -> None:
    """Take a file away, also one that is not there; durable on return, unless that is not asked for."""
    with suppress(FileNotFoundError):
        filesystem.unlink(path)
    if durable:
        filesystem.fsync_dir(path.parent)


def make_directory(filesystem: FileSystem, directory: Path) -> None:
    """Make a directory and those above it where they are missing; that it is there is durable on return.

    Raises: NotADirectoryError where a file stands, and OSError.
    """
    if directory.parent == directory:
        return
    missing = not filesystem.is_directory(directory)
    if missing:
        make_directory(filesystem, directory.parent)
        try:
            filesystem.mkdir(directory)
        except FileExistsError:
            if not filesystem.is_directory(directory):  # a file stands there
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory)) from None
    # Also when it is there: the process that made it may have died before this.
    filesystem.fsync_dir(directory.parent)
