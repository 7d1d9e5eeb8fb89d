"""The disk of a test's server: made slow or full, out of reach of a server that was killed, or without power.

Here lives what a test asks of a running server's disk. Never lives here: files in memory and what of them
survives, the Nth call that fails (`faultfs`).
"""

from __future__ import annotations

import errno
from random import Random
from time import sleep
from typing import TYPE_CHECKING, Final

from headrace.log.filesystem import RealFileSystem
from headrace.testing.faultfs import FaultyFileSystem, MemoryFileSystem

if TYPE_CHECKING:
    from headrace.log.filesystem import FileSystem

_GROWS: Final = frozenset(["write", "pwrite", "reserve", "mkdir"])


class Disk(FaultyFileSystem):
    """The disk that a server's store is on; `headrace.testing.Server.disk`.

    `is_full`: every write fails with ENOSPC, also one into room that its file has already; what is there can
    be read, synced and removed. `sync_seconds`: the time that every sync of a file takes beyond its own. Both
    may be changed while the server runs. What `FaultyFileSystem` can do besides holds, too.
    `files`: the system's; or a `MemoryFileSystem`, of which `lose_power` takes what was not synced.
    """

    def __init__(self, files: FileSystem | None = None) -> None:
        super().__init__(files or RealFileSystem())
        self.is_full = False
        self.sync_seconds = 0.0
        self._is_cut_off = False

    def cut_off(self) -> None:
        """Fail every call from now on, but for closing files: whoever has them open is dead."""
        self._is_cut_off = True

    def reconnect(self) -> None:
        """End `cut_off`: another server may have the files."""
        self._is_cut_off = False

    def lose_power(self, seed: int) -> None:
        """Take from the files what was not synced: all, a part, torn writes, as the seed has it.

        For files in memory, of a server that was killed and not started again yet. Raises: TypeError.
        """
        if not isinstance(self.inner, MemoryFileSystem):
            raise TypeError("a real disk keeps what was written: use Disk(MemoryFileSystem())")
        self.inner.crash(Random(seed))

    def _failure(self, name: str) -> int:
        if self._is_cut_off:
            return errno.EIO
        if self.is_full and name in _GROWS:
            return errno.ENOSPC
        return super()._failure(name)

    def _sync(self, name: str, handle: int) -> None:
        if self._is_cut_off:
            self._count(name)  # which fails; a sync that is not made loses nothing
        if self.sync_seconds > 0:
            sleep(self.sync_seconds)
        super()._sync(name, handle)
