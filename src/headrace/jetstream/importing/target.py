"""The target of an import: a store of logs that appears when it is complete.

    NEW/jetstream.importing/   while it goes on; a server does not start beside it
    NEW/jetstream/             the whole of it, from one moment to the next

A run that was cut off leaves the first; the next one empties it and begins again.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from headrace.jetstream.importing.detecting import HOME, UNFINISHED
from headrace.log.staging import Staging
from headrace.log.store import FileStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.log.encryption import Cipher


class Target:
    """The store that an import fills. `store` is empty at first."""

    def __init__(self, staging: Staging, store: FileStore) -> None:
        self.store: Final = store
        self._staging = staging

    def publish(self) -> None:
        """Publish the written store, which must be durable. Raises: LogError."""
        self.store.close()
        self._staging.publish()


@contextmanager
def opened_target(directory: Path, cipher: Cipher | None = None) -> Iterator[Target]:
    """Open the store that an import fills, for a block.

    `directory`: the `store_dir` of the new server. Raises: StoreTaken, StoreLocked, StorageError.
    """
    with Staging(directory / HOME, directory / UNFINISHED) as staging:
        store = FileStore(staging.directory, cipher=cipher)
        try:
            for name in store.names():
                store.remove(name)
            yield Target(staging, store)
        finally:
            store.close()
