"""One of Python's files over the bytes of an object, wherever these lie."""

from __future__ import annotations

import io
from abc import abstractmethod


class ObjectReader(io.RawIOBase):
    """An object of `size` bytes that is read from a position, which `seek` moves."""

    def __init__(self, size: int) -> None:
        self._at = 0
        self._size = size

    @abstractmethod
    def _read_at(self, start: int, size: int) -> bytes:
        """Return bytes from `start` on: `size` of them or fewer, none at the object's end only."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self._read_at(self._at, len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
