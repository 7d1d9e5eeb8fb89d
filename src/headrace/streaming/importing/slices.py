"""The messages of one channel: its files in order, and over damage in them.

After damage reading goes on at the next place the index names where there is a message; between, or without
an index, where the damaged record says that it ends, or else at the next bytes that are a message of this
channel with a checksum that holds and a neighbour that is one too. Only if index and header are both damaged
could bytes inside a payload be taken for messages, and only two whole records of this channel in a row.

Without checksums a record has to be exactly what the server would have written, of this channel, with the
sequence that the records before or after it, or the index, make plausible; bytes changed inside a payload
cannot be told then.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from headrace.errors import ProtocolError
from headrace.importing.findings import Finding, Severity
from headrace.protocol.protobuf import varint
from headrace.protocol.stan import MsgProto
from headrace.streaming.importing.model import SourceChannelMessage
from headrace.streaming.importing.records import (
    HEADER,
    START,
    VERSION,
    ByteFile,
    Unreadable,
    listed,
    record_at,
    shown_name,
    version_of,
)
from headrace.streaming.importing.slice_index import SliceIndex

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.streaming.importing.checksums import Checksum

_SLICE: Final = re.compile(r"msgs\.(\d{1,18})\.dat")
_INDEX: Final = re.compile(r"msgs\.(\d{1,18})\.idx")
_LEAST_RECORD: Final = 12
"""No record of a message is shorter: a header, a sequence, a time."""
_MAX_VARINT: Final = 10
_SCAN: Final = 1 << 20
_END: Final = 1 << 64
"""An offset behind all others."""


class Slice(Struct, frozen=True):
    """One message file of a channel."""

    number: int
    path: Path
    name: str

    @property
    def index_path(self) -> Path:
        return self.path.with_suffix(".idx")


def slices_of(directory: Path) -> list[Slice]:
    """A channel's message files in the order they were written; anything else in there is left alone."""
    return sorted(_slices(directory, _SLICE), key=lambda slice_: slice_.number)


def _lost_slices(directory: Path, after: int) -> list[Slice]:
    """Return the slices after the last message file of which only the index is left.

    Before it limits may have removed them: the server removes the message file first, and never the last.
    """
    slices = [slice_ for slice_ in _slices(directory, _INDEX) if slice_.number > after]
    return sorted(slices, key=lambda slice_: slice_.number)


def _slices(directory: Path, pattern: re.Pattern[str]) -> Iterator[Slice]:
    for path in listed(directory):
        match = pattern.fullmatch(path.name)
        if match and path.is_file():
            data = path.with_suffix(".dat")
            yield Slice(int(match[1]), data, shown_name(data, 2))


class ChannelMessages:
    """Reads a channel's messages once, from the first to the last.

    While and after `items` runs: `last_sequence` is the last that was read, `listed_sequence` the last that
    an index knows of, `lost` counts sequences known to be lost, `position` bytes of the files.
    """

    def __init__(self, directory: Path, channel: bytes, checksum: Checksum | None) -> None:
        self._slices = slices_of(directory)
        self._lost = _lost_slices(directory, self._slices[-1].number if self._slices else 0)
        self._channel = channel
        self._checksum = checksum
        self._open: list[Finding] = []  # what they cost is known with the next message
        self.last_sequence = 0
        self.listed_sequence = 0
        self.lost = 0
        self.position = 0

    def items(self) -> Iterator[SourceChannelMessage | Finding]:
        """Messages ascending by sequence, findings where they are. Raises: SourceUnusable."""
        for slice_ in self._slices:
            with ByteFile(slice_.path, slice_.name) as file:
                start = self.position
                yield from self._slice(_OpenSlice(file, slice_, self._channel, self._checksum))
                self.position = start + file.size
        for slice_ in self._lost:
            self._miss(slice_)
        yield from self._settle(0, "")

    def _miss(self, slice_: Slice) -> None:
        """Report the messages of a missing file, which its index lists."""
        first, last = SliceIndex(slice_.index_path, self._checksum).span(START, _END)
        first = max(first, self.last_sequence + 1)
        if first <= last:
            self.listed_sequence = max(self.listed_sequence, last)
            self._open.append(
                Finding(Severity.MISSING, slice_.name, "the file is missing", 0, 0, first, last)
            )

    def _slice(self, slice_: _OpenSlice) -> Iterator[SourceChannelMessage | Finding]:
        self._open += slice_.check_version()
        offset, clean, repeated = START, START, 0
        start = self.position
        while offset < slice_.file.size:
            got = slice_.message_at(offset, self.last_sequence, clean)
            if isinstance(got, Unreadable):
                if slice_.file.zeros_from(offset):
                    yield slice_.note("space that was never written", offset)
                    break
                on = slice_.next_after(offset, self.last_sequence, clean)
                self._open.append(slice_.damage(got, offset, on))
                if on is None:
                    break
                offset = on
                continue
            message, offset = got
            clean = offset
            if message.sequence <= self.last_sequence:
                repeated += 1
                continue
            yield from self._settle(message.sequence, slice_.name)
            self.last_sequence = message.sequence
            self.position = start + offset
            yield message
        if repeated:
            yield slice_.note(f"{repeated:,} messages with a sequence that came before; skipped")
        self._expect(slice_)

    def _expect(self, slice_: _OpenSlice) -> None:
        """Damage that no record shows: the index lists messages the file does not reach."""
        listed = slice_.index.last_sequence
        self.listed_sequence = max(self.listed_sequence, listed)
        if listed <= max([self.last_sequence, *(finding.last_sequence for finding in self._open)]):
            return
        here = [place for place, finding in enumerate(self._open) if finding.file == slice_.name]
        if here:
            place = here[-1]
            first = self._open[place].first_sequence or self.last_sequence + 1
            self._open[place] = replace(self._open[place], first_sequence=first, last_sequence=listed)
        else:
            text = "the file ends before the last message of its index"
            size = slice_.file.size
            self._open.append(
                Finding(Severity.CUT, slice_.name, text, size, 0, self.last_sequence + 1, listed)
            )

    def _settle(self, sequence: int, name: str) -> Iterator[Finding]:
        """Tell what the findings cost, now that the next message is known; 0: there is none."""
        before = self.last_sequence
        first, last = (before + 1 if before else 0), max(0, sequence - 1)
        if not self._open and before and first <= last:
            text = "messages are missing before the next one in this file"
            self._open.append(Finding(Severity.MISSING, name, text))
        known = [finding for finding in self._open if finding.last_sequence]
        if sequence and before:
            self.lost += last - before
        elif known:
            start = before + 1 if before else min(finding.first_sequence for finding in known)
            self.lost += max(finding.last_sequence for finding in known) - start + 1
        for finding in self._open:
            if finding.last_sequence:
                yield finding
            elif first > last > 0:
                yield replace(finding, text=f"{finding.text}; no message is lost")
            else:
                yield replace(finding, first_sequence=first, last_sequence=last)
        self._open.clear()


class _OpenSlice:
    """One file being read, with its index."""

    def __init__(self, file: ByteFile, slice_: Slice, channel: bytes, checksum: Checksum | None) -> None:
        self.file = file
        self.name = slice_.name
        self.index = SliceIndex(slice_.index_path, checksum)
        self._channel = channel
        self._checksum = checksum
        self._mark = b"\x12" + varint(len(channel)) + channel

    def check_version(self) -> list[Finding]:
        version = version_of(self.file)
        if version == VERSION or not self.file.size:
            return []
        text = "the file ends within its version" if version is None else f"version {version} is unknown"
        return [Finding(Severity.DAMAGED, self.name, text, 0, min(START, self.file.size))]

    def note(self, text: str, offset: int = 0) -> Finding:
        return Finding(Severity.NOTE, self.name, text, offset, self.file.size - offset if offset else 0)

    def damage(self, unreadable: Unreadable, offset: int, on: int | None) -> Finding:
        kind = Severity.CUT if unreadable.is_cut and on is None else Severity.DAMAGED
        end = self.file.size if on is None else on
        first, last = self.index.span(offset, end)
        return Finding(kind, self.name, unreadable.why, offset, end - offset, first, last)

    def message_at(
        self, offset: int, before: int, clean: int
    ) -> tuple[SourceChannelMessage, int] | Unreadable:
        """The message at `offset` and where it ends; `before`, the last good sequence, ended at `clean`."""
        record = record_at(self.file, offset, self._checksum, typed=False)
        if isinstance(record, Unreadable):
            return record
        try:
            proto = MsgProto.decode(record.body)
        except ProtocolError as error:
            return Unreadable(f"a record that is no message ({error})")
        if not proto.sequence:
            return Unreadable("a message without a sequence")
        if self._checksum is None:
            if proto.subject != self._channel or proto.encode() != record.body:
                return Unreadable("a record that is no message of this channel")
            if not self._plausible(proto.sequence, offset, record.end, before, clean):
                return Unreadable(f"a message with an impossible sequence, {proto.sequence:,}")
        return SourceChannelMessage(proto.sequence, proto.timestamp, proto.reply, proto.data), record.end

    def next_after(self, offset: int, before: int, clean: int) -> int | None:
        """Find the next message after damage at `offset`; None if this file has none."""
        target: int | None = None
        below = 1 << 64
        for entry in self.index.untried(offset):
            got = self.message_at(entry.offset, before, clean)
            if not isinstance(got, Unreadable) and before < got[0].sequence == entry.sequence:
                target, below = entry.offset, entry.sequence
                break
        here = self.index.at(offset)
        if here is not None and here.end == target:
            return target
        limit = self.file.size if target is None else target
        for candidate in self._candidates(offset, limit):
            got = self.message_at(candidate, before, clean)
            if isinstance(got, Unreadable) or not before < got[0].sequence < below:
                continue
            if self._has_neighbour(got[0].sequence, got[1], limit):
                return candidate
        return target

    def _plausible(self, sequence: int, offset: int, end: int, before: int, clean: int) -> bool:
        """True if a sequence without a checksum is the next one, or made likely by the index or the record
        after it.
        """
        entry = self.index.at(offset)
        if entry is not None and entry.sequence == sequence:
            return True
        if before and before < sequence <= before + 1 + max(0, offset - clean) // _LEAST_RECORD:
            return True
        after = record_at(self.file, end, None, typed=False)
        if isinstance(after, Unreadable):
            return not before and entry is None and end == self.file.size
        try:
            return MsgProto.decode(after.body).sequence == sequence + 1
        except ProtocolError:
            return False

    def _has_neighbour(self, sequence: int, end: int, limit: int) -> bool:
        if end >= limit:
            return end == limit
        after = self.message_at(end, sequence, end)
        if isinstance(after, Unreadable):
            return self.file.zeros_from(end)
        return after[0].sequence > sequence

    def _candidates(self, offset: int, limit: int) -> Iterator[int]:
        """Places between `offset` and `limit` that may be the start of a record, likeliest first."""
        header = self.file.read(offset, HEADER.size)
        if len(header) == HEADER.size:  # what is damaged may be the body only
            end = offset + HEADER.size + HEADER.unpack(header)[0]
            if end < limit:
                yield end
        if self._checksum is None:
            return
        overlap = len(self._mark) + _MAX_VARINT + 1 + HEADER.size
        start = offset + 1
        while start < limit:
            window = self.file.read(start, min(_SCAN, limit - start) + overlap)
            place = window.find(self._mark)
            while place >= 0:
                for length in range(1, _MAX_VARINT + 1):
                    key = place - length - 1
                    if key >= HEADER.size and window[key] == 0x08 and start + key - HEADER.size < limit:
                        yield start + key - HEADER.size
                place = window.find(self._mark, place + 1)
            start += _SCAN
