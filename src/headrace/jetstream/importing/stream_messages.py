"""The messages of one stream, as nats-server would serve them after a start.

Where its index is as new as its blocks, the index says which messages are deleted. After a kill the blocks
alone count: records in rising order, without those that a tombstone deletes, which may be in a later block.
Limits are not looked at here; a server that opens the result keeps to them.

nats-server drops what follows damage in a block; here reading goes on after it.
Source: nats-server 2.15 (filestore.go: recoverFullState, recoverMsgs, rebuildStateFromBufLocked).
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, TypeAlias

from headrace.engine import message_blocks
from headrace.importing.findings import Finding, Severity
from headrace.jetstream.importing.block_files import BlockFiles, read_file
from headrace.jetstream.importing.crypt import WrongKey
from headrace.jetstream.importing.model import Extent, SourceStreamMessage
from headrace.jetstream.importing.stream_index import FILE, BadIndex, Deleted, read_index, without_checksum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from headrace.jetstream.importing.block_files import MessageBlock
    from headrace.jetstream.importing.crypt import Opened
    from headrace.jetstream.importing.raft_streams import Tail
    from headrace.jetstream.importing.stream_index import BlockState, StreamIndex

Behind: TypeAlias = "Callable[[Extent], Tail]"
_LISTED: Final = 1000
"""Ranges of lost sequences in one block that are told one by one."""


class StreamMessages:
    """Reads a stream's messages once, from the first to the last, with what is found on the way.

    While and after `items` runs `position` counts bytes of the files and `lost` sequences that are known to
    be lost; after it `extent` says how far the stream reaches, and `deleted` what is to be removed of it.
    """

    def __init__(
        self, files: BlockFiles, stream: str, opened: Opened | None, shown: str, behind: Behind | None = None
    ) -> None:
        self._files = files
        self._key = hashlib.sha256(stream.encode()).digest()
        self._opened = opened
        self._shown = f"{shown}/{files.directory.name}/{FILE}"
        self._first = 0
        self._last = 0
        self._last_time = 0
        self.position = 0
        self.lost = 0
        self.extent = Extent(0, 0, 0)
        self.deleted: set[int] = set()
        self.passed_over: Callable[[SourceStreamMessage], object] = lambda _message: None
        """The function that is told of messages that are in the blocks and deleted."""
        self._behind = behind

    def items(self) -> Iterator[SourceStreamMessage | Finding]:
        """Yield messages in order, and findings where they are.

        Raises: SourceUnusable when the disk fails.
        """
        index, finding = self._index()
        if finding is not None:
            yield finding
        if index is not None and self._is_current(index):
            for block in index.blocks:
                yield from self._indexed(block)
            self._first, self._last = index.first_sequence, index.last_sequence
            self._last_time = index.last_time_ns
        else:
            yield from self._rebuilt(index)
        first = self._first if self._first <= self._last else self._last + 1
        self.extent = Extent(first, self._last, self._last_time)
        if self._behind is not None:
            yield from self._not_stored(self._behind(self.extent))

    def _not_stored(self, tail: Tail) -> Iterator[SourceStreamMessage | Finding]:
        """Yield the messages that only the log of the Raft group has."""
        self.deleted |= tail.deleted
        yield from tail.findings
        first = self.extent.first_sequence
        for message in tail.messages:
            self.extent = Extent(first, message.sequence, message.time_ns)
            if message.subject:
                yield message

    # -- with an index -----------------------------------------------------------------------------------

    def _index(self) -> tuple[StreamIndex | None, Finding | None]:
        path = self._files.directory / FILE
        if not path.is_file():
            return None, None
        data = read_file(path)
        try:
            body = without_checksum(data, self._key)
            return read_index(self._opened.unseal(body) if self._opened is not None else body), None
        except (BadIndex, WrongKey) as error:
            text = f"{error}; the message blocks say it all again"
            return None, Finding(Severity.NOTE, self._shown, text, 0, len(data))

    def _is_current(self, index: StreamIndex) -> bool:
        """True if nothing was written after the index: there is no later block, and its last block ends as it
        says.
        """
        there = set(self._files.numbers)
        if not index.blocks or index.blocks[-1].number != index.last_block:
            return False
        if max(there, default=0) > index.last_block or not there.issuperset(b.number for b in index.blocks):
            return False
        last = self._files.read(index.last_block, bodies=False)
        return last.checksum == index.last_checksum

    def _indexed(self, state: BlockState) -> Iterator[SourceStreamMessage | Finding]:
        block = self._files.read(state.number)
        found: set[int] = set()
        for message in _rising(block, 0):
            if state.first <= message.sequence <= state.last and message.sequence not in state.deleted:
                found.add(message.sequence)
                yield message
            else:
                self.passed_over(message)
        missing = _without([(state.first, state.last)], sorted(found), state.deleted)
        yield from self._found(block, state.number, missing)
        self.position += block.size

    def _found(
        self, block: MessageBlock, number: int, missing: Iterator[tuple[int, int]]
    ) -> Iterator[Finding]:
        """Yield the faults of a block, and the missing sequences that it should have."""
        lost = list(missing)
        self.lost += sum(last - first + 1 for first, last in lost)
        name = self._files.name(number)
        yield from block.found
        for place in block.places:
            kind = Severity.CUT if place.is_cut else Severity.DAMAGED
            yield Finding(kind, name, _why(place.is_cut), place.offset, place.length)
        for first, last in lost[:_LISTED]:
            yield Finding(Severity.MISSING, name, "lost", first_sequence=first, last_sequence=last)
        if len(lost) > _LISTED:
            text = f"and {len(lost) - _LISTED:,} more ranges of lost messages"
            yield Finding(
                Severity.MISSING, name, text, first_sequence=lost[_LISTED][0], last_sequence=lost[-1][1]
            )

    # -- without -----------------------------------------------------------------------------------------

    def _rebuilt(self, index: StreamIndex | None) -> Iterator[SourceStreamMessage | Finding]:
        """An index that is older than the blocks still knows how far the stream was.

        Where a block is damaged, it also knows what was in it; elsewhere it is not asked, as a sequence may
        have been given anew since.
        """
        deleted = self._survey()
        known = {} if index is None else {block.number: block for block in index.blocks}
        if index is not None and index.last_sequence > self._last:
            self._last, self._last_time = index.last_sequence, index.last_time_ns
        before = 0
        for number in self._files.numbers:
            block = self._files.read(number)
            state = known.get(number) if block.found or block.places else None
            found: set[int] = set()
            for message in _rising(block, before):
                before = message.sequence
                if not (message.sequence in deleted or (state and _says_gone(state, message.sequence))):
                    self._first = self._first or message.sequence
                    found.add(message.sequence)
                    yield message
                else:
                    self.passed_over(message)
            yield from self._found(block, number, _missing(block, state, deleted | found))
            self.position += block.size
        self._first = self._first or self._last + 1

    def _survey(self) -> set[int]:
        """Return all sequences that tombstones delete, wherever they are; find out how far the stream
        reaches.
        """
        deleted: set[int] = set()
        for number in self._files.numbers:
            for kind, sequence, time_ns, *_ in self._files.read(number, bodies=False).records:
                if kind == message_blocks.DELETES:
                    deleted.add(sequence)
                if sequence >= self._last:
                    self._last, self._last_time = sequence, time_ns or self._last_time
        return deleted


def _says_gone(state: BlockState, sequence: int) -> bool:
    """True if a message of a block was deleted when its index was written."""
    return sequence < state.first or sequence in state.deleted


def _missing(block: MessageBlock, state: BlockState | None, known: set[int]) -> Iterator[tuple[int, int]]:
    """Ranges of sequences that a damaged block had, as far as they can be known, but for those in `known`.

    They are between the records before and after a damaged place, or the index lists them.
    """
    spans = [(state.first, state.last)] if state is not None else []
    before, after = _neighbours(block)
    for place in block.places:
        if before[place.records] and after[place.records]:
            spans.append((before[place.records] + 1, after[place.records] - 1))
    if spans:
        yield from _without(spans, sorted(known), state.deleted if state is not None else Deleted())


def _without(spans: list[tuple[int, int]], known: list[int], deleted: Deleted) -> Iterator[tuple[int, int]]:
    """Yield the parts of the spans that are neither known nor deleted; ascending, each sequence once."""
    end = 0
    for begin, last in sorted(spans):
        first = max(begin, end + 1)
        end = max(end, last)
        held = known[bisect_left(known, first) : bisect_right(known, last)]
        for gap in _gaps(first, last, held):
            yield from _gaps(*gap, deleted.between(*gap))


def _gaps(first: int, last: int, held: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The ranges from `first` to `last` that are between those held, which are ascending and within."""
    for sequence in held:
        if first < sequence:
            yield first, sequence - 1
        first = sequence + 1
    if first <= last:
        yield first, last


def _rising(block: MessageBlock, before: int) -> Iterator[SourceStreamMessage]:
    """The messages of a block whose sequences go up, from behind `before` on."""
    for kind, sequence, time_ns, subject, headers, payload in block.records:
        if kind == message_blocks.DELETES or sequence <= before:
            continue
        before = sequence
        if kind == message_blocks.MESSAGE:
            yield SourceStreamMessage(sequence, time_ns, subject, headers, payload)


def _neighbours(block: MessageBlock) -> tuple[list[int], list[int]]:
    """Return, for each record, the nearest sequences in the stream's order before it and from it on; 0: there
    is none.
    """
    if not block.places:
        return [], []
    ordered = [0 if kind == message_blocks.DELETES else sequence for kind, sequence, *_ in block.records]
    return _nearest(ordered), _nearest(ordered[::-1])[::-1]


def _nearest(sequences: list[int]) -> list[int]:
    """Return, for each place in a list, the last sequence up to it that is not 0."""
    found = [0]
    for sequence in sequences:
        found.append(sequence or found[-1])
    return found


def _why(is_cut: bool) -> str:
    return (
        "the block ends within a record" if is_cut else "a record that is damaged: its checksum does not hold"
    )
