"""A file system as one process of a simulation sees it: what a dead one still closes is closed already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.testing.faultfs import FaultyFileSystem

if TYPE_CHECKING:
    from harness.virtual_loop import Process
    from headrace.log.filesystem import FileSystem


class ProcessFiles(FaultyFileSystem):
    """The files of a machine for one of its processes. Coroutines of a killed one are closed in the end."""

    def __init__(self, inner: FileSystem, process: Process) -> None:
        super().__init__(inner)
        self._process: Final = process

    def close(self, handle: int) -> None:
        if self._process.is_alive:
            super().close(handle)
