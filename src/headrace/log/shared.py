"""A store that several processes take turns with: it is opened when nobody else has it.

The lock of the store decides who that is. When to try is the caller's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import LogClosed, StoreLocked
from headrace.log.port import NO_LIMITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.log.port import Limits, MessageLog
    from headrace.log.store import LogStore


class SharedStore:
    """A `LogStore`; everything but `acquire` and `close` raises LogClosed until the store was acquired."""

    def __init__(self, open_store: Callable[[], LogStore]) -> None:
        self._open_store = open_store
        self._store: LogStore | None = None

    def acquire(self) -> bool:
        """Open the store; False while another process has it. Raises: StorageError."""
        try:
            self.take()
        except StoreLocked:
            return False
        return True

    def take(self) -> None:
        """Open the store. Raises: StoreLocked while another process has it, StorageError."""
        if self._store is None:
            self._store = self._open_store()

    def open(self, name: bytes, limits: Limits = NO_LIMITS) -> MessageLog:
        return self._acquired().open(name, limits)

    def names(self) -> list[bytes]:
        return self._acquired().names()

    def remove(self, name: bytes) -> bool:
        return self._acquired().remove(name)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    def _acquired(self) -> LogStore:
        if self._store is None:
            raise LogClosed("the store has not been acquired")
        return self._store
