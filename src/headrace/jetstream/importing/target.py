"""Where an import writes: beside the directory that a server opens, whose place it takes in the end.

    NEW/jetstream.importing/   while it goes on; a server does not start beside it
    NEW/jetstream/             the whole of it, from one moment to the next

A run that was cut off leaves the first; the next one empties it and begins again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from headrace.errors import StorageError, StoreLocked
from headrace.importing.errors import TargetTaken
from headrace.jetstream.importing.detecting import HOME, UNFINISHED
from headrace.log.filesystem import RealFileSystem, make_directory
from headrace.log.store import FileStore

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from headrace.log.sealing import Cipher


class Target:
    """`with Target(directory) as target: ...; target.publish()`. Raises: TargetTaken, LogError."""

    def __init__(self, directory: Path, cipher: Cipher | None = None) -> None:
        self._home = directory / HOME
        self._unfinished = directory / UNFINISHED
        self._cipher = cipher
        self._files = RealFileSystem()

    def __enter__(self) -> Self:
        self._refuse_taken()
        try:
            self.store = FileStore(self._unfinished, cipher=self._cipher)
        except StoreLocked as error:
            raise TargetTaken(f"another import writes to {self._unfinished}") from error
        try:
            for name in self.store.names():
                self.store.remove(name)
        except BaseException:
            self.store.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.store.close()

    def publish(self) -> None:
        """What was written, and is durable, is the store from now on. Raises: LogError, TargetTaken."""
        self._refuse_taken()
        self.store.close()
        try:
            make_directory(self._files, self._home.parent)
            if self._files.is_directory(self._home):
                self._files.rmdir(self._home)
            self._files.rename(self._unfinished, self._home)
            self._files.fsync_dir(self._home.parent)
        except OSError as error:
            raise StorageError(f"{self._home}: {error}") from error

    def _refuse_taken(self) -> None:
        try:
            is_taken = self._files.is_directory(self._home) and any(self._files.listdir(self._home))
        except OSError as error:
            raise StorageError(f"{self._home}: {error}") from error
        if is_taken:
            raise TargetTaken(f"{self._home} is not empty: an import makes a store of its own")
