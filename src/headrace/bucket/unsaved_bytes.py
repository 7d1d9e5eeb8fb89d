"""The bytes of files that no segment object has, in memory: the write-ahead log alone holds them.

Which of them count is what the tree says. Never here: the bytes that objects have (`extent_contents`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.log.filesystem import Bytes

_BLOCK: Final = 16 << 10
"""Bytes of a block, which is in memory as a whole."""


class UnsavedBytes:
    """Bytes at places of files, which are meant by their numbers. One thread at a time."""

    def __init__(self) -> None:
        self._blocks: Final[dict[int, dict[int, bytearray]]] = {}

    def __len__(self) -> int:
        """The number of files of which there are bytes."""
        return len(self._blocks)

    def put(self, file: int, offset: int, data: Bytes) -> None:
        """Keep bytes that were written to a file."""
        blocks = self._blocks.setdefault(file, {})
        view, done = memoryview(data), 0
        while done < len(view):
            number, start = divmod(offset + done, _BLOCK)
            size = min(_BLOCK - start, len(view) - done)
            block = blocks.get(number)
            if block is None:
                block = blocks[number] = bytearray(_BLOCK)
            block[start : start + size] = view[done : done + size]
            done += size

    def read(self, file: int, start: int, end: int) -> bytes:
        """Return the bytes [start, end) of a file, all of which were put."""
        blocks = self._blocks[file]
        first, behind = start // _BLOCK, -(-end // _BLOCK)
        whole = b"".join(blocks[number] for number in range(first, behind))
        return whole[start - first * _BLOCK : end - first * _BLOCK]

    def drop(self, file: int) -> None:
        """Give up the bytes of a file."""
        self._blocks.pop(file, None)

    def files(self) -> Iterable[int]:
        """The numbers of the files of which there are bytes."""
        return list(self._blocks)
