"""Ranges of bytes of a file, as a set. Never here: what the bytes are."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Ranges:
    """A set of bytes, kept as ranges [start, end) that are ascending and do not touch each other.

    Adding to the end of the last range costs the same for any number of them.
    """

    __slots__ = ("_ends", "_starts")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in ranges:
            self.add(start, end)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._ends, strict=True)

    def __len__(self) -> int:
        return len(self._starts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and (self._starts, self._ends) == (other._starts, other._ends)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"Ranges({list(self)})"

    @property
    def size(self) -> int:
        """The number of bytes."""
        return sum(self._ends) - sum(self._starts)

    def add(self, start: int, end: int) -> None:
        """Add the bytes [start, end)."""
        if start >= end:
            return
        starts, ends = self._starts, self._ends
        if not ends or start > ends[-1]:
            starts.append(start)
            ends.append(end)
        elif start >= starts[-1]:
            ends[-1] = max(end, ends[-1])
        else:
            first, last = bisect_left(ends, start), bisect_right(starts, end)
            if first < last:
                start, end = min(start, starts[first]), max(end, ends[last - 1])
            starts[first:last] = [start]
            ends[first:last] = [end]

    def remove(self, start: int, end: int) -> None:
        """Take the bytes [start, end) out."""
        starts, ends = self._starts, self._ends
        first, last = bisect_right(ends, start), bisect_left(starts, end)
        if start >= end or first >= last:
            return
        left = [(starts[first], start)] if starts[first] < start else []
        right = [(end, ends[last - 1])] if end < ends[last - 1] else []
        starts[first:last] = [a for a, _ in left + right]
        ends[first:last] = [b for _, b in left + right]

    def cut(self, size: int) -> None:
        """Take all bytes from `size` on out."""
        if self._ends and self._ends[-1] > size:
            self.remove(size, self._ends[-1])

    def clear(self) -> None:
        """Take all bytes out."""
        self._starts.clear()
        self._ends.clear()

    def covers(self, start: int, end: int) -> bool:
        """True if all bytes of [start, end) are in the set."""
        place = bisect_right(self._starts, start) - 1
        return start >= end or (place >= 0 and end <= self._ends[place])

    def within(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of [start, end) that are in the set."""
        for place in range(bisect_right(self._ends, start), bisect_left(self._starts, end)):
            yield max(start, self._starts[place]), min(end, self._ends[place])

    def missing(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of [start, end) that are not in the set."""
        for a, b in self.within(start, end):
            if start < a:
                yield start, a
            start = b
        if start < end:
            yield start, end
