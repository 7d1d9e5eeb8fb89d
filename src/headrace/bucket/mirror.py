"""The mirror: the changes of another server, made in the tree and in the local files.

Here lives what a server that stands by does with the payload of a WAL object. Nothing is synced: the local
files are a cache. Tree and files are changed under the cache's lock: other threads bring bytes meanwhile.
Never here: which objects there are, and whose count (`follower`).
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from headrace.bucket.capture import AllHere
from headrace.bucket.changes import Create, Mkdir, Rename, Rmdir, Truncate, Unlink, Write, decode
from headrace.bucket.errors import CacheFailed
from headrace.log.filesystem import FileMode, pwrite_all

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from headrace.bucket.capture import Residence
    from headrace.bucket.changes import Change
    from headrace.bucket.tree import Tree, TreeFile
    from headrace.log.filesystem import FileSystem

OPEN_FILES: Final = 64
"""Files that are kept open; the one that was written longest ago is closed for another."""


class Mirror:
    """The files below a directory, as the changes that were applied so far make them.

    After `CacheFailed` the local files are not what the tree says: they are to be made from a snapshot again.
    `lock`: held while tree and files are changed; None: nobody else changes or reads them meanwhile.
    """

    def __init__(
        self,
        files: FileSystem,
        directory: Path,
        tree: Tree,
        residence: Residence | None = None,
        *,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        self._files: Final = files
        self._directory: Final = directory
        self._tree: Final = tree
        self._residence: Final[Residence] = residence or AllHere()
        self._lock: Final[AbstractContextManager[object]] = lock or nullcontext()
        self._handles: Final[OrderedDict[int, int]] = OrderedDict()
        """Handles by the number of the file."""

    def apply(self, payload: bytes) -> None:
        """Make the changes of one object. Raises: DamagedObject, CacheFailed."""
        for change in decode(payload):
            with self._lock:
                file = self._tree.apply(change)
                try:
                    self._change(change, file)
                except OSError as error:
                    what = "local files" if file is None else file.path
                    raise CacheFailed(f"{what}: {error.strerror or error}") from error

    def close(self) -> None:
        """Close the files that are open."""
        while self._handles:
            self._close(next(iter(self._handles)))

    def _change(self, change: Change, file: TreeFile | None) -> None:
        """Change the local files; `file`: what the change is about, in the tree as it is now."""
        files = self._files
        if type(change) is Write and file is not None:
            pwrite_all(files, self._handle(file), change.data, change.offset)
            self._residence.wrote(file.id, change.offset, change.offset + len(change.data))
        elif type(change) is Truncate and file is not None:
            files.truncate(self._handle(file), change.size)
            self._residence.truncated(file.id, change.size)
        elif type(change) is Create and file is not None:
            self._create(file)
        elif type(change) is Rename:
            self._forget(file)
            files.rename(self._directory / change.old, self._directory / change.new)
        elif type(change) is Unlink:
            self._forget(file)
            files.unlink(self._directory / change.path)
        elif type(change) is Mkdir:
            self._mkdir(self._directory / change.path)
        elif type(change) is Rmdir:
            files.rmdir(self._directory / change.path)

    def _create(self, file: TreeFile) -> None:
        handle = self._files.open(self._directory / file.path, FileMode.CREATE)
        self._keep(file, handle)
        if self._files.size(handle):  # of nobody's, left by an earlier life of the directory
            self._files.truncate(handle, 0)
        self._residence.created(file.id)

    def _mkdir(self, directory: Path) -> None:
        if not self._files.is_directory(directory):  # else it is of an earlier life of the directory
            self._files.mkdir(directory)

    def _forget(self, file: TreeFile | None) -> None:
        """Give up a file that is gone."""
        if file is not None and file.is_gone:
            if file.id in self._handles:
                self._close(file.id)
            self._residence.removed(file.id)

    def _handle(self, file: TreeFile) -> int:
        handle = self._handles.get(file.id)
        if handle is not None:
            self._handles.move_to_end(file.id)
            return handle
        handle = self._files.open(self._directory / file.path, FileMode.UPDATE)
        self._keep(file, handle)
        return handle

    def _keep(self, file: TreeFile, handle: int) -> None:
        if len(self._handles) >= OPEN_FILES:
            self._close(next(iter(self._handles)))
        self._handles[file.id] = handle
        self._residence.opened(file.id)

    def _close(self, number: int) -> None:
        self._files.close(self._handles.pop(number))
        self._residence.closed(number)
