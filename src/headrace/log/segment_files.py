"""The files of a log's segments, open: reading records, and changing bytes where they are.

Here live the handles and who closes them. What is appended to the last segment, and when it is durable, is
for `segments` to know; which file is read, for `reader`. Never here: what is in a record.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Final

from headrace.errors import StorageError
from headrace.log.filesystem import DRAFT, FileMode, pwrite_all, storage_errors, write_all
from headrace.log.segment import BEGINNING, HEADER_BYTES, opener_of, packer_of, read_span

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.log.encryption import Cipher
    from headrace.log.filesystem import FileSystem
    from headrace.log.packing import Packed
    from headrace.log.segment import Segment

READ_HANDLES: Final = 4
"""Sealed segments kept open for reading; the least recently used one is closed for another."""


class SegmentFiles:
    """The open files of one log's segments. `release` and `close_reader` are for any thread."""

    def __init__(self, filesystem: FileSystem, cipher: Cipher | None) -> None:
        self._fs: Final = filesystem
        self._cipher: Final = cipher
        self._active: Segment | None = None
        self._active_handle = -1
        self._readers: dict[Path, int] = {}
        self.when_closed: Callable[[int], object] | None = None
        """Called, on any thread, before a descriptor that `descriptor` gave is closed."""

    def use_for(self, active: Segment, handle: int) -> None:
        """Read the active segment through the handle by which it is written; its owner closes that."""
        self._active, self._active_handle = active, handle

    def pread(self, segment: Segment, size: int, offset: int) -> bytes:
        """Read bytes of whole or cut records, `offset` from the first one. Raises: StorageError."""
        size = min(size, segment.size - HEADER_BYTES - offset)
        try:  # not `storage_errors`, which takes as long as a small read
            return read_span(self._fs, self._reader(segment), segment, size, offset) if size > 0 else b""
        except OSError as error:
            raise StorageError(f"cannot read {segment.path.name}: {error.strerror or error}") from error

    def descriptor(self, segment: Segment) -> int | None:
        """Return the file descriptor of a segment's open file; None if it has none. Raises: OSError."""
        return self._fs.descriptor(self._reader(segment))

    def _reader(self, segment: Segment) -> int:
        if segment is self._active:
            return self._active_handle
        handle = self._readers.pop(segment.path, None)
        if handle is None:
            if len(self._readers) >= READ_HANDLES:
                self.release(self._readers.pop(next(iter(self._readers))))
            handle = self._fs.open(segment.path, FileMode.READ)
        self._readers[segment.path] = handle
        return handle

    def overwrite(self, segment: Segment, offset: int, data: bytes) -> None:
        """Put other bytes in the place of a record; they are durable on return. Raises: StorageError."""
        with storage_errors(f"cannot overwrite a message in {segment.path.name}"):
            if segment.packed is not None:
                self._repack(segment, segment.packed, offset, data)
                return
            handle = self._fs.open(segment.path, FileMode.UPDATE)
            try:
                pwrite_all(self._fs, handle, data, HEADER_BYTES + offset)
                self._fs.fdatasync(handle)
            finally:
                self.release(handle)

    def _repack(self, segment: Segment, packed: Packed, offset: int, data: bytes) -> None:
        """Write a compressed segment anew with other bytes in one place. Frames are not overwritten: a crash
        would cost all that is in them. Afterwards the old file's bytes are, which nothing refers to any more.
        """
        fs, path = self._fs, segment.path
        draft = path.with_name(path.name + DRAFT)
        with contextlib.ExitStack() as opened:
            old = fs.open(path, FileMode.UPDATE)
            opened.callback(self.release, old)
            new = fs.open(draft, FileMode.APPEND)
            opened.callback(self.release, new)
            plain = packed.read(fs, old, packed.size, 0)
            fs.truncate(new, 0)
            write_all(fs, new, segment.header.beginning())
            packer = packer_of(segment, self._cipher, functools.partial(write_all, fs, new))
            packer.add(plain[:offset] + data + plain[offset + len(data) :])
            repacked = packer.finish(opener_of(segment, self._cipher))
            fs.fsync(new)
            fs.rename(draft, path)
            self.close_reader(path)
            segment.packed = repacked
            fs.fsync_dir(path.parent)
            pwrite_all(fs, old, bytes(fs.size(old) - BEGINNING), BEGINNING)
            fs.fdatasync(old)

    def restore_headers(self, segments: list[Segment]) -> None:
        """Write damaged headers once more; one that cannot be written is read from its copy next time."""
        for segment in segments:
            with contextlib.suppress(OSError):
                handle = self._fs.open(segment.path, FileMode.UPDATE)
                try:
                    pwrite_all(self._fs, handle, segment.header.pack(), 0)
                    self._fs.fdatasync(handle)
                finally:
                    self.release(handle)

    def close_reader(self, path: Path) -> None:
        """Close the file that a sealed segment is read by, if it is open: another takes its name, or none."""
        handle = self._readers.pop(path, None)
        if handle is not None:
            self.release(handle)

    def release(self, handle: int) -> None:
        """Close a file. What was promised about it has been synced; an error takes nothing back."""
        if self.when_closed is not None and (descriptor := self._fs.descriptor(handle)) is not None:
            self.when_closed(descriptor)
        with contextlib.suppress(OSError):
            self._fs.close(handle)

    def close(self) -> None:
        """Close the files of all sealed segments."""
        self._active = None
        while self._readers:
            self.release(self._readers.popitem()[1])
