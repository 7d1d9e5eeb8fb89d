"""The contents of extents for threads that read them, asked of the bucket and kept for a while.

Here lives `ExtentContents`: which requests bring what is wanted, and what stays in memory. Never here: files
(`shard_files`), and local copies that outlive a process (`cache`).
"""

from __future__ import annotations

import errno
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from headrace.bucket.errors import DamagedObject
from headrace.bucket.extents import fetches, pieces
from headrace.objects.errors import KeyMissing, StoreError

if TYPE_CHECKING:
    from headrace.bucket.changes import FileExtent
    from headrace.bucket.counted_reading import RangeReads
    from headrace.bucket.keys import ShardKeys

KEPT: Final = 64 << 20
"""Bytes of extents that were read last and are kept in memory."""


class ExtentContents:
    """The bytes of the extents of one shard. Any thread may read. `most`: bytes that are kept in memory."""

    def __init__(self, reads: RangeReads, keys: ShardKeys, most: int = KEPT) -> None:
        self._reads: Final = reads
        self._keys: Final = keys
        self._most: Final = most
        self._kept: Final[OrderedDict[FileExtent, bytes]] = OrderedDict()
        self._lock: Final = threading.Lock()
        self.kept_bytes = 0
        """The bytes that are in memory now."""

    def read(self, wanted: list[FileExtent]) -> list[tuple[FileExtent, bytes]]:
        """Return the bytes of extents.

        Raises: OSError with what is wrong with an object; ESTALE where it was deleted since.
        """
        found: dict[FileExtent, bytes] = {}
        with self._lock:
            for extent in wanted:
                if extent in self._kept:
                    self._kept.move_to_end(extent)
                    found[extent] = self._kept[extent]
        for fetch in fetches(extent for extent in wanted if extent not in found):
            try:
                data = self._reads.get_range(self._keys.segment(fetch.object), fetch.start, fetch.end)
                for extent, (_, piece) in zip(fetch.extents, pieces(fetch, data), strict=True):
                    found[extent] = bytes(piece)
                    self._keep(extent, found[extent])
            except KeyMissing as error:
                raise OSError(errno.ESTALE, f"{error}: deleted while it was read, read it again") from error
            except (StoreError, DamagedObject) as error:
                raise OSError(errno.EIO, str(error)) from error
        return list(found.items())

    def _keep(self, extent: FileExtent, content: bytes) -> None:
        with self._lock:
            if extent not in self._kept:
                self._kept[extent] = content
                self.kept_bytes += len(content)
            while self.kept_bytes > self._most:
                self.kept_bytes -= len(self._kept.popitem(last=False)[1])
