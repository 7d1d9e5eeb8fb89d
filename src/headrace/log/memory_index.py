"""The messages of the log in memory: by sequence, in blocks, and by subject.

Here live the two tables of `MemoryLog` and nothing that decides what stays or goes. Both cost O(1) per append
and removal, averaged, whatever is removed from wherever; a gap in the sequences costs nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from headrace.log.port import SubjectState

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from headrace.log.port import StoredMessage

BLOCK: Final = 512
"""Sequences of one block; a block goes when its last message does."""
SLACK: Final = 32
"""Entries of messages that are gone which a list may hold, besides as many as there are messages."""


class _Block:
    """Consecutive sequences from `first`; None is one that is gone. `head`: index of the first message."""

    __slots__ = ("first", "head", "items", "last_time", "live")

    def __init__(self, first: int) -> None:
        self.first = first
        self.items: list[StoredMessage | None] = []
        self.head = 0
        self.live = 0
        self.last_time = 0


class MessageTable:
    """Messages by sequence, ascending, with gaps."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._firsts: list[int] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, sequence: object) -> bool:
        return isinstance(sequence, int) and self.get(sequence) is not None

    def add(self, message: StoredMessage) -> None:
        """A message whose sequence and time are at or above those of every earlier one."""
        block = self._blocks[-1] if self._blocks else None
        if block is None or len(block.items) == BLOCK or block.first + len(block.items) != message.sequence:
            block = _Block(message.sequence)
            self._blocks.append(block)
            self._firsts.append(message.sequence)
        block.items.append(message)
        block.live += 1
        block.last_time = message.time_ns
        self._count += 1

    def get(self, sequence: int) -> StoredMessage | None:
        place = bisect_right(self._firsts, sequence) - 1
        if place < 0:
            return None
        block = self._blocks[place]
        index = sequence - block.first
        return block.items[index] if index < len(block.items) else None

    def pop(self, sequence: int) -> StoredMessage | None:
        place = bisect_right(self._firsts, sequence) - 1
        if place < 0:
            return None
        block = self._blocks[place]
        index = sequence - block.first
        message = block.items[index] if index < len(block.items) else None
        if message is None:
            return None
        block.items[index] = None
        block.live -= 1
        self._count -= 1
        if not block.live:
            del self._blocks[place], self._firsts[place]
        elif index == block.head:
            while block.items[block.head] is None:
                block.head += 1
        return message

    def first(self) -> StoredMessage | None:
        return self._blocks[0].items[self._blocks[0].head] if self._blocks else None

    def last(self) -> StoredMessage | None:
        if not self._blocks:
            return None
        return next(message for message in reversed(self._blocks[-1].items) if message is not None)

    def walk(self, sequence: int) -> Iterator[StoredMessage]:
        """Messages at or after `sequence`, ascending. The table must not change on the way."""
        place = max(bisect_right(self._firsts, sequence) - 1, 0)
        for block in self._blocks[place:]:
            for index in range(max(sequence - block.first, block.head), len(block.items)):
                message = block.items[index]
                if message is not None:
                    yield message

    def below(self, sequence: int) -> int:
        """Count the messages below `sequence`."""
        place = bisect_left(self._firsts, sequence)
        if not place:
            return 0
        whole = sum(block.live for block in self._blocks[: place - 1])
        block = self._blocks[place - 1]
        return whole + sum(message is not None for message in block.items[: sequence - block.first])

    def gaps(self, sequence: int, end: int) -> Iterator[tuple[int, int]]:
        """Runs between messages at or after `sequence`, up to `end`: (first, one above the last).

        What is before the first message is no gap. The table must not change on the way.
        """
        first = self.first()
        expected = max(sequence, first.sequence if first else end)
        for message in self.walk(expected):
            if message.sequence > expected:
                yield expected, message.sequence
            expected = message.sequence + 1
        if expected < end:
            yield expected, end

    def at_time(self, time_ns: int) -> StoredMessage | None:
        """The first message of `time_ns` or later."""
        place = bisect_left(self._blocks, time_ns, key=lambda block: block.last_time)
        if place == len(self._blocks):
            return None
        return next((m for m in self.walk(self._firsts[place]) if m.time_ns >= time_ns), None)


class _Subject:
    """Sequences of one subject from `head` on, ascending; those between the ends may be gone."""

    __slots__ = ("count", "head", "sequences")

    def __init__(self) -> None:
        self.count = 0
        self.head = 0
        self.sequences: list[int] = []

    def remove_one(self, there: Container[int]) -> None:
        """One of the sequences is not `there` any more."""
        self.count -= 1
        sequences = self.sequences
        while sequences[self.head] not in there:
            self.head += 1
        while sequences[-1] not in there:
            sequences.pop()
        if self.head > SLACK + self.count:
            del sequences[: self.head]
            self.head = 0
        if len(sequences) - self.head > 2 * self.count + SLACK:
            self.sequences = [sequence for sequence in sequences[self.head :] if sequence in there]
            self.head = 0


class SubjectIndex:
    """Sequences by subject. `there` says which sequences are there; removals tell it first."""

    def __init__(self, there: Container[int]) -> None:
        self._there = there
        self._subjects: dict[bytes, _Subject] = {}

    def __len__(self) -> int:
        return len(self._subjects)

    def names(self) -> list[bytes]:
        return list(self._subjects)

    def add(self, subject: bytes, sequence: int) -> None:
        entry = self._subjects.get(subject)
        if entry is None:
            entry = self._subjects[subject] = _Subject()
        entry.sequences.append(sequence)
        entry.count += 1

    def remove(self, subject: bytes) -> None:
        """One message of the subject has gone."""
        entry = self._subjects[subject]
        if entry.count == 1:
            del self._subjects[subject]
        else:
            entry.remove_one(self._there)

    def count(self, subject: bytes) -> int:
        entry = self._subjects.get(subject)
        return entry.count if entry else 0

    def count_from(self, subject: bytes, sequence: int) -> int:
        """Messages of the subject at or after `sequence`."""
        entry = self._subjects.get(subject)
        if entry is None:
            return 0
        if sequence <= entry.sequences[entry.head]:
            return entry.count
        return sum(1 for _ in self.sequences(subject, sequence))

    def state(self, subject: bytes) -> SubjectState | None:
        entry = self._subjects.get(subject)
        if entry is None:
            return None
        return SubjectState(entry.count, entry.sequences[entry.head], entry.sequences[-1])

    def sequences(self, subject: bytes, start: int = 0) -> Iterator[int]:
        """Those of the subject at or after `start`, ascending. The table must not change on the way."""
        entry = self._subjects.get(subject)
        if entry is None:
            return
        place = bisect_left(entry.sequences, start, lo=entry.head)
        for index in range(place, len(entry.sequences)):
            if entry.sequences[index] in self._there:
                yield entry.sequences[index]
