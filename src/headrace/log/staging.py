"""A store that is made beside its place, and takes it when it is whole.

    <home>          the store: not there, or empty, until `publish`; all of it afterwards
    <unfinished>    beside it: what there is of the store until then

Here lives what an import and a restore have in common. Never here: what is put into the store, or what
becomes of the rest of a run that was cut off.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self

from headrace.errors import StorageError, StoreLocked, StoreTaken
from headrace.log.filesystem import RealFileSystem, make_directory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

    from headrace.log.filesystem import FileSystem

_LOCK: Final = "staging.lock"
"""The lock of a store that is being made; the store's own is given back before the store is renamed."""


class Staging:
    """A store that is prepared in a directory beside its place.

    `with Staging(home, unfinished) as staging: ...; staging.publish()`, one process at a time.

    Raises: StoreTaken when there is a store, StoreLocked while another process makes one, StorageError.
    """

    def __init__(self, home: Path, unfinished: Path, filesystem: FileSystem | None = None) -> None:
        self.directory: Final = unfinished
        """The directory in which the store is made. Files of a run that was cut off are still in it."""
        self._home = home
        self._files = filesystem or RealFileSystem()
        self._lock: int | None = None

    def __enter__(self) -> Self:
        self._refuse_taken()
        with self._storage():
            make_directory(self._files, self.directory)
            try:
                self._lock = self._files.lock(self.directory / _LOCK)
            except BlockingIOError as error:
                raise StoreLocked(f"another import or restore writes to {self.directory}") from error
        try:
            self._refuse_taken()  # by who had the lock before
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def publish(self) -> None:
        """Publish the directory as the store. Its files must be durable. Raises: StoreTaken, StorageError."""
        self._refuse_taken()
        with self._storage():
            if self._files.is_directory(self._home):
                self._files.rmdir(self._home)
            self._files.rename(self.directory, self._home)
            self._files.fsync_dir(self._home.parent)

    def _refuse_taken(self) -> None:
        with self._storage():
            is_taken = self._files.is_directory(self._home) and bool(self._files.listdir(self._home))
        if is_taken:
            raise StoreTaken(f"{self._home} is not empty: an import or a restore makes a store of its own")

    def _release(self) -> None:
        handle, self._lock = self._lock, None
        if handle is not None:
            self._files.close(handle)

    @contextmanager
    def _storage(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(f"cannot write {self.directory}: {error}") from error
