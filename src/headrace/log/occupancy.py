"""Occupancy of segments: the number of live messages in each, and the bytes of their records.

Here lives the count by segment, kept with every append and removal; never files, nor the decision what to do
about a segment that is mostly dead (`compaction`). On the heap: some 200 bytes per segment.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from headrace.engine.log_core import LiveRecords

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.log.outline import Outline

_sequence: Final = attrgetter("sequence")


class Occupancy:
    """The live messages of each segment, by its base. A segment that was never counted holds none."""

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._live: dict[int, LiveRecords] = {}
        self.look_after = 1 << 20
        """Bytes of records that are removed between two looks at all segments."""
        self._taken = 1 << 62
        """Bytes removed since the last look; a log that was just opened is looked at."""

    def add(self, base: int, messages: int, size: int) -> None:
        """`messages` more are in a segment, in records of `size` bytes."""
        live = self.of_active(base)
        live.messages += messages
        live.bytes += size

    def of_active(self, base: int) -> LiveRecords:
        """Return the counts of a segment; whoever appends to it keeps them while it is the active one."""
        live = self._live.get(base)
        if live is None:
            live = self._live[base] = LiveRecords()
            insort(self._bases, base)
        return live

    def take_out(self, sequence: int, size: int) -> None:
        """One that was counted is removed."""
        self._take(self._live[self._bases[bisect_right(self._bases, sequence) - 1]], 1, size)

    def take_out_some(self, outlines: Sequence[Outline]) -> None:
        """Note that messages, ascending, are removed; most are in one segment."""
        at = 0
        while at < len(outlines):
            place = bisect_right(self._bases, outlines[at].sequence)
            end = len(outlines)
            if place < len(self._bases) and outlines[-1].sequence >= self._bases[place]:
                end = bisect_left(outlines, self._bases[place], at, key=_sequence)
            size = sum(outline.length for outline in outlines[at:end])
            self._take(self._live[self._bases[place - 1]], end - at, size)
            at = end

    def take_out_first(self, base: int, messages: int, size: int) -> None:
        """Note that the first messages of a segment are removed, with records of `size` bytes."""
        self._take(self._live[base], messages, size)

    def _take(self, live: LiveRecords, messages: int, size: int) -> None:
        live.messages -= messages
        live.bytes -= size
        self._taken += self.look_after if live.messages == 0 else size

    def take_out_all(self) -> None:
        for live in self._live.values():
            live.messages = live.bytes = 0
        self.look_again()

    def of(self, base: int) -> tuple[int, int]:
        """Live messages of a segment and the bytes of their records."""
        live = self._live.get(base)
        return (0, 0) if live is None else (live.messages, live.bytes)

    def drop(self, base: int) -> None:
        """The segment is gone."""
        if self._live.pop(base, None) is not None:
            self._bases.remove(base)

    @property
    def is_due(self) -> bool:
        """True if enough was removed for another look at the segments."""
        return self._taken >= self.look_after

    def look_again(self) -> None:
        self._taken += self.look_after

    def looked(self) -> None:
        """Note that a look for segments to rewrite found none."""
        self._taken = 0
