"""Spare segments of a backlog: files whose records the bucket has, kept to be written over.

A write over bytes that are there changes neither the size of a file nor its place on the disk, so its sync
has less to do, and no zeros are written ahead of it. What a spare still has of its former life is void: no
reader looks at its name, and behind the head of a new segment no old record has a valid checksum.

Never here: when a segment is begun, or which ones the bucket has (`backlog`).
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.log.filesystem import pwrite_all

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.log.filesystem import FileSystem

MOST: Final = 2
"""Files that are kept at most."""
LARGEST: Final = 32 << 20
"""Bytes of a file that is kept at most: what waited for a slow disk is in one segment, and may be many."""
PREFIX: Final = "spare-"
"""The beginning of their names: those of segments are numbers."""


class _Spare(NamedTuple):
    path: Path
    handle: int
    size: int


class SpareSegments:
    """The spares in the folder of one backlog. Calls on any thread."""

    def __init__(self, files: FileSystem, folder: Path) -> None:
        self._files: Final = files
        self._folder: Final = folder
        self._lock: Final = threading.Lock()
        self._kept: Final[deque[_Spare]] = deque()
        self._made = 0
        self._is_closed = False

    def remove_old(self) -> None:
        """Remove the spares of an earlier process: nobody knows whether they are sound. Raises: OSError."""
        for name in self._files.listdir(self._folder):
            if name.startswith(PREFIX):
                self._files.unlink(self._folder / name)

    def keep(self, path: Path, handle: int, size: int) -> bool:
        """Take the file of a segment over, durably under another name; False: there are enough, or it is
        too large.

        `handle`: open for writing. `size`: bytes that were written. Raises: OSError; then the handle is still
        the caller's, and the file may have either name.
        """
        with self._lock:
            if self._is_closed or len(self._kept) >= MOST or size > LARGEST:
                return False
            self._made += 1
            spare = _Spare(self._folder / f"{PREFIX}{self._made}", handle, size)
            self._files.rename(path, spare.path)
            try:
                self._files.fsync_dir(self._folder)  # else the old name might lead to the new head
            except OSError:
                with contextlib.suppress(OSError):
                    self._files.unlink(spare.path)
                raise
            self._kept.append(spare)
            return True

    def use(self, path: Path, head: bytes) -> tuple[int, int] | None:
        """Make a segment of a spare: `head` is in it before it has its name, both durably.

        Returns its handle and the bytes that are there to be written over; None: there is no spare. Raises:
        OSError; the spare is removed then.
        """
        with self._lock:
            if not self._kept:
                return None
            spare = self._kept.popleft()
        try:
            pwrite_all(self._files, spare.handle, head, 0)
            self._files.fsync(spare.handle)
            self._files.rename(spare.path, path)
            self._files.fsync_dir(self._folder)
        except OSError:
            for each in (path, spare.path):  # it may have either name
                with contextlib.suppress(OSError):
                    self._files.unlink(each)
            self._files.close(spare.handle)
            raise
        return spare.handle, spare.size

    def remove(self) -> None:
        """Remove all spares, and keep none from now on. Raises: OSError; the next call goes on."""
        with self._lock:
            self._is_closed = True
            while self._kept:
                self._files.unlink(self._kept[0].path)
                self._files.close(self._kept.popleft().handle)

    def close(self) -> None:
        """Close the files; the next process removes them."""
        with self._lock:
            self._is_closed = True
            while self._kept:
                self._files.close(self._kept.popleft().handle)
