"""The file system that logs write to while this server owns the shard: changes are made, and recorded.

Here lives `CapturingFileSystem`. A change is made in the local files first, then in the tree, then it is in
the journal, in one order for all threads; what fails locally is recorded nowhere, what may not be recorded is
not tried. The tree says which names there are: what else lies in the directory, of an earlier life of it, is
not seen. Never here: which local files hold which bytes (`Residence`), what becomes of a change (`writer`).

Files that mean something on this machine only are not recorded: locks, the mark of a store that was closed
(`headrace.log.closing`). Zeros that are reserved are recorded as a size, not as bytes.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final, Protocol

from headrace.bucket.changes import Create, Mkdir, Rename, Rmdir, Truncate, Unlink, Write, is_path
from headrace.bucket.tree import Directory
from headrace.log.closing import NAME as CLOSED
from headrace.log.filesystem import DRAFT, FileMode

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.bucket.changes import Change
    from headrace.bucket.journal import Journal
    from headrace.bucket.tree import Tree, TreeFile
    from headrace.log.filesystem import Bytes, FileSystem, Identity

LOCAL_NAMES: Final = frozenset({"lock", "staging.lock", CLOSED, CLOSED + DRAFT})
"""Names of files that are not recorded."""


class Residence(Protocol):
    """The local files as a cache: which bytes of which files of the tree are here. Calls on any thread.

    A file that is not wholly here is there all the same, with its whole size, so that it can be written.
    """

    def is_whole(self, number: int) -> bool:
        """True if all bytes of a file are here, and will be as long as it is open."""

    def pread(self, file: TreeFile, handle: int, size: int, offset: int) -> bytes:
        """Read bytes of a file that is not wholly here. Raises: OSError."""

    def opened(self, number: int) -> None:
        """Note a handle of a file: until `closed` it stays where it is."""

    def closed(self, number: int) -> None:
        """Note that a handle of a file was closed."""

    def created(self, number: int) -> None:
        """Note a new file, which is wholly here."""

    def wrote(self, number: int, start: int, end: int) -> None:
        """Note that the bytes [start, end) of a file are here."""

    def truncated(self, number: int, size: int) -> None:
        """Note another size of a file; where it got longer its bytes are here."""

    def removed(self, number: int) -> None:
        """Note that a file is gone."""


class AllHere:
    """The local files where nothing is anywhere else."""

    def is_whole(self, number: int) -> bool:
        return True

    def pread(self, file: TreeFile, handle: int, size: int, offset: int) -> bytes:
        raise OSError(errno.EIO, f"{file.path} is not here")

    def opened(self, number: int) -> None:
        """Do nothing: no file is taken away."""

    def closed(self, number: int) -> None:
        """Do nothing: no file is taken away."""

    def created(self, number: int) -> None:
        """Do nothing: all bytes are here."""

    def wrote(self, number: int, start: int, end: int) -> None:
        """Do nothing: all bytes are here."""

    def truncated(self, number: int, size: int) -> None:
        """Do nothing: all bytes are here."""

    def removed(self, number: int) -> None:
        """Do nothing: no list of files is kept."""


class CapturingFileSystem:
    """The files below one directory, over `inner`. What is elsewhere is handed on.

    Syncs do nothing: what makes a change durable is the bucket, or the backlog.
    A change that may not be recorded raises OSError (EIO).
    """

    def __init__(
        self,
        inner: FileSystem,
        directory: Path,
        tree: Tree,
        journal: Journal,
        residence: Residence | None = None,
    ) -> None:
        self._inner: Final = inner
        self._prefix: Final = str(directory).rstrip("/") + "/"
        self._tree: Final = tree
        self._journal: Final = journal
        self._lock: Final = journal.lock
        self._residence: Final[Residence] = residence or AllHere()
        self._opened: Final[dict[int, TreeFile]] = {}

    def note(self, change: Change) -> None:
        """Make a change of the tree that is none of a file, and record it. Raises: OSError."""
        with self._lock:
            self._journal.check(adds=False)
            self._record(change)

    # ---- handles ----------------------------------------------------------------------------

    def open(self, path: Path, mode: FileMode) -> int:
        name = self._name(path)
        if name is None:
            return self._inner.open(path, mode)
        with self._lock:
            file = self._tree.file_at(name)
            if file is not None:
                handle = self._inner.open(path, mode)
            elif mode in {FileMode.APPEND, FileMode.CREATE}:
                handle, file = self._create(path, name, mode)
            elif self._tree.find(name) is not None:
                raise _error(errno.EISDIR, path)
            else:
                raise _error(errno.ENOENT, path)
            self._opened[handle] = file
            self._residence.opened(file.id)
        return handle

    def _create(self, path: Path, name: str, mode: FileMode) -> tuple[int, TreeFile]:
        self._journal.check(adds=True)
        handle = self._inner.open(path, mode)
        if self._inner.size(handle):  # of nobody's, left by an earlier life of the directory
            self._inner.truncate(handle, 0)
        self._record(Create(name))
        file = self._tree.file_at(name)
        assert file is not None
        self._residence.created(file.id)
        return handle, file

    def close(self, handle: int) -> None:
        with self._lock:
            file = self._opened.pop(handle, None)
            self._inner.close(handle)
        if file is not None:
            self._residence.closed(file.id)

    def descriptor(self, handle: int) -> int | None:
        file = self._opened.get(handle)
        is_here = file is None or self._residence.is_whole(file.id)
        return self._inner.descriptor(handle) if is_here else None

    def pread(self, handle: int, size: int, offset: int) -> bytes:
        file = self._opened.get(handle)
        if file is None or self._residence.is_whole(file.id):
            return self._inner.pread(handle, size, offset)
        return self._residence.pread(file, handle, size, offset)

    def size(self, handle: int) -> int:
        return self._inner.size(handle)

    def forget_read(self, handle: int) -> None:
        self._inner.forget_read(handle)

    # ---- changes of a file ------------------------------------------------------------------

    def write(self, handle: int, data: Bytes) -> int:
        file = self._opened.get(handle)
        if file is None:
            return self._inner.write(handle, data)
        with self._lock:
            self._journal.check(adds=True)
            taken = self._inner.write(handle, data)
            self._wrote(file, file.size, data, taken)
        return taken

    def pwrite(self, handle: int, data: Bytes, offset: int) -> int:
        file = self._opened.get(handle)
        if file is None:
            return self._inner.pwrite(handle, data, offset)
        with self._lock:
            self._journal.check(adds=True)
            taken = self._inner.pwrite(handle, data, offset)
            self._wrote(file, offset, data, taken)
        return taken

    def _wrote(self, file: TreeFile, offset: int, data: Bytes, taken: int) -> None:
        """Record as much of a write as went in. The journal keeps the bytes; others may change a buffer."""
        if taken <= 0 or file.is_gone:
            return
        kept = data if type(data) is memoryview and type(data.obj) is bytes else bytes(data)
        self._residence.wrote(file.id, offset, offset + taken)
        self._tree.note_write(file, offset, taken)
        self._journal.record(Write(file.id, offset, kept if taken == len(kept) else kept[:taken]))

    def reserve(self, handle: int, offset: int, size: int) -> None:
        file = self._opened.get(handle)
        if file is None:
            self._inner.reserve(handle, offset, size)
            return
        with self._lock:
            self._journal.check(adds=True)
            self._inner.reserve(handle, offset, size)
            self._resized(file, max(file.size, offset + size))

    def truncate(self, handle: int, size: int) -> None:
        file = self._opened.get(handle)
        if file is None:
            self._inner.truncate(handle, size)
            return
        with self._lock:
            self._journal.check(adds=size > file.size)
            self._inner.truncate(handle, size)
            self._resized(file, size)

    def _resized(self, file: TreeFile, size: int) -> None:
        if size != file.size and not file.is_gone:
            self._residence.truncated(file.id, size)
            self._record(Truncate(file.id, size))

    # ---- changes of names -------------------------------------------------------------------

    def rename(self, old: Path, new: Path) -> None:
        before, after = self._name(old), self._name(new)
        if before is None and after is None:
            self._inner.rename(old, new)
            return
        if before is None or after is None:
            raise _error(errno.EXDEV, new)
        with self._lock:
            self._journal.check(adds=False)
            if self._tree.find(before) is None:
                raise _error(errno.ENOENT, old)
            self._inner.rename(old, new)
            if before != after:
                self._record(Rename(before, after))

    def unlink(self, path: Path) -> None:
        name = self._name(path)
        if name is None:
            self._inner.unlink(path)
            return
        with self._lock:
            self._journal.check(adds=False)
            if self._tree.file_at(name) is None:
                raise _error(errno.ENOENT if self._tree.find(name) is None else errno.EISDIR, path)
            self._inner.unlink(path)
            self._record(Unlink(name))

    def mkdir(self, directory: Path) -> None:
        name = self._name(directory, is_file=False)
        if name is None:
            self._inner.mkdir(directory)
            return
        with self._lock:
            self._journal.check(adds=True)
            if self._tree.find(name) is not None:
                raise _error(errno.EEXIST, directory)
            if not self._inner.is_directory(directory):  # else it is of an earlier life of the directory
                self._inner.mkdir(directory)
            self._record(Mkdir(name))

    def rmdir(self, directory: Path) -> None:
        name = self._name(directory, is_file=False)
        if name is None:
            self._inner.rmdir(directory)
            return
        with self._lock:
            self._journal.check(adds=False)
            if self._directory(directory, name).entries:
                raise _error(errno.ENOTEMPTY, directory)
            self._inner.rmdir(directory)
            self._record(Rmdir(name))

    def _record(self, change: Change) -> None:
        replaced = self._tree.apply(change)
        self._journal.record(change)
        if replaced is not None and replaced.is_gone:
            self._residence.removed(replaced.id)

    # ---- questions --------------------------------------------------------------------------

    def identity(self, path: Path) -> Identity:
        return self._inner.identity(path)

    def listdir(self, directory: Path) -> list[str]:
        name = self._name(directory, is_file=False)
        is_top = str(directory).rstrip("/") + "/" == self._prefix
        if name is None and not is_top:
            return self._inner.listdir(directory)
        with self._lock:
            found = self._tree.root if name is None else self._directory(directory, name)
            return list(found.entries)

    def is_directory(self, path: Path) -> bool:
        name = self._name(path, is_file=False)
        return (
            self._inner.is_directory(path) if name is None else isinstance(self._tree.find(name), Directory)
        )

    def _directory(self, path: Path, name: str) -> Directory:
        found = self._tree.find(name)
        if not isinstance(found, Directory):
            raise _error(errno.ENOENT if found is None else errno.ENOTDIR, path)
        return found

    def lock(self, path: Path) -> int:
        return self._inner.lock(path)

    # ---- syncs ------------------------------------------------------------------------------

    def fsync(self, handle: int) -> None:
        """Do nothing."""

    def fdatasync(self, handle: int) -> None:
        """Do nothing."""

    def fsync_dir(self, directory: Path) -> None:
        """Do nothing."""

    def _name(self, path: Path, *, is_file: bool = True) -> str | None:
        """Return a path as the tree has it; None for what is not recorded: the directory itself, too.

        Raises: OSError.
        """
        text = str(path)
        if not text.startswith(self._prefix) or text == self._prefix:
            return None
        name = text[len(self._prefix) :]
        if is_file and path.name in LOCAL_NAMES and self._tree.find(name) is None:
            return None
        if not is_path(name):
            raise _error(errno.EINVAL, path)
        return name


def _error(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))
