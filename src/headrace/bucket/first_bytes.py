"""The bytes that opening the logs of a shard reads, and having them here before: many at once, by a thread.

Opening reads one range after the other, and on an empty disk each waits for the bucket: with a hundred logs,
hundreds of times its latency. Never here: which bytes of a log those are (`headrace.log.first_reads`).
"""

from __future__ import annotations

from concurrent.futures import wait
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.bucket.tree import Directory, TreeFile
from headrace.log.first_reads import is_log, reads_by_contents, reads_by_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.bucket.cache import LocalCache
    from headrace.bucket.tree import Tree
    from headrace.log.encryption import Cipher
    from headrace.log.filesystem import FileSystem
    from headrace.log.first_reads import FirstRead


class _Log(NamedTuple):
    """A log of which not all bytes are here: its directory, below that of the shard, and its files."""

    path: str
    files: dict[str, TreeFile]
    sizes: dict[str, int]


class FirstBytes:
    """The first bytes of the logs that a tree has now. `directory`: of the local files.

    `filesystem`: reads these, whether or not they are here. `cipher`: of the logs.
    """

    def __init__(
        self,
        tree: Tree,
        cache: LocalCache,
        directory: Path,
        filesystem: FileSystem,
        cipher: Cipher | None,
    ) -> None:
        self._cache: Final = cache
        self._directory: Final = directory
        self._files: Final = filesystem
        self._cipher: Final = cipher
        self._logs: Final = [
            log for log in _logs(tree) if not all(cache.is_whole(file.id) for file in log.files.values())
        ]

    def bring(self) -> None:
        """Bring them; this waits for the bucket, on a thread that may.

        It is no error if some cannot be had: who opens the log reads them again, and is told.
        """
        wait(self._cache.bring(self.by_name()).arrivals)
        wait(self._cache.bring(self.by_contents()).arrivals)

    def by_name(self) -> Iterator[tuple[TreeFile, int, int]]:
        """Yield the ranges that names and sizes of files tell, as `LocalCache.bring` takes them."""
        for log in self._logs:
            for read in reads_by_name(log.sizes):
                yield log.files[read.name], read.start, read.end

    def by_contents(self) -> Iterator[tuple[TreeFile, int, int]]:
        """Yield the ranges that these tell once they are here; they are read, on a thread that may wait."""
        for log in self._logs:
            for read in self._by_contents(log):
                yield log.files[read.name], read.start, read.end

    def _by_contents(self, log: _Log) -> list[FirstRead]:
        try:
            found = reads_by_contents(self._directory / log.path, log.sizes, self._files, self._cipher)
            return list(found)
        except OSError:  # as above
            return []


def _logs(tree: Tree) -> Iterator[_Log]:
    """Yield the logs that a tree has."""
    waiting = [tree.root]
    for directory in waiting:
        waiting += [node for node in directory.entries.values() if isinstance(node, Directory)]
        files = {name: node for name, node in directory.entries.items() if isinstance(node, TreeFile)}
        sizes = {name: file.size for name, file in files.items()}
        if is_log(sizes):
            yield _Log(directory.path, files, sizes)
