"""Reading a file log: finding a sequence, walking on from it, message by message or by outline.

Here live windows over the segments and where to begin in them. Never here: anything that changes the log.
A message alone is read in compiled code (`headrace.engine.log_reading`), with the few records around it. What
that cannot read is found by a walk: messages of sealed and compressed segments, damaged ones. A walk looks at
about 64 KB of records first, or goes on where the last one stopped.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from headrace.engine.log_core import Cursors
from headrace.engine.log_reading import PointReads
from headrace.engine.messages import StoredMessages
from headrace.engine.records import HEADER_BYTES as RECORD_HEADER_BYTES
from headrace.engine.sequence_set import SequenceSet
from headrace.errors import MessageDamaged
from headrace.log.encryption import OVERHEAD
from headrace.log.index import SPACING
from headrace.log.outline import Outline
from headrace.log.port import StoredMessage
from headrace.log.recovery import DAMAGED_BODY
from headrace.log.segment import HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.engine.records import Scan
    from headrace.log.encryption import Cipher
    from headrace.log.ledger import Ledger
    from headrace.log.outline import Filters
    from headrace.log.segments import Segments

SPREAD: Final = 16
"""The share of a message that is read besides each, since messages are not all as long as their mean."""
WINDOW: Final = SPACING + (8 << 10)
"""Bytes read at once for a point read: a block between two marks and a record of common size."""
KNOWN: Final = 4 << 10
"""Bytes read at least where it is known at which byte a record begins."""
GROWTH: Final = 4
"""The factor by which a read grows when the one before was not enough, up to the large window."""
LARGE_WINDOW: Final = 256 << 10
OUTLINES: Final = 1024
"""Messages outlined at once."""
NEAR: Final = 64
"""Sequences between two wanted messages that are read over rather than looked around."""
_NOTHING_REMOVED: Final = SequenceSet()


class SegmentReader:
    """Reads what the segments hold and the ledger says is live. `found_damage`: called with new damage."""

    def __init__(
        self,
        segments: Segments,
        ledger: Ledger,
        found_damage: Callable[[list[tuple[int, int]]], None],
        cipher: Cipher | None = None,
    ) -> None:
        self._segments = segments
        self._files = segments.files
        self._ledger = ledger
        self._found_damage = found_damage
        self._cipher = cipher
        self.cursors: Final = Cursors()
        """The places where the last reads stopped, and those of the last appends: reads begin there."""
        self.points: Final = PointReads(self._block_of, StoredMessage)
        segments.files.when_closed = self.points.forget

    def walk(
        self, sequence: int, window: int, step: Callable[[Scan, bytes, bool], bool], most_bytes: int = 1 << 62
    ) -> tuple[int, list[tuple[int, int]]]:
        """Hand buffers to `step` from a sequence on, until it says True or `most_bytes` are read.

        `window`: bytes that hold what is looked for if the place of `sequence` is known, else more are read.
        Gives the sequence to go on from and the ranges that were unreadable on the way.
        """
        segments = self._segments.all
        damaged: list[tuple[int, int]] = []
        place, offset, expected, window = self._start(sequence, window)
        seen = 0
        while True:
            segment = segments[place]
            following_base = self._ledger.last_sequence + 1  # what is beyond the last one was never there
            ceiling = segments[place + 1].base if place + 1 < len(segments) else following_base
            scan = segment.scan(expected, ceiling, offset, self._cipher)
            stopped = is_cut = False
            end = offset + 1
            while not stopped and offset < end:
                wanted = max(window, scan.need)
                data = self._files.pread(segment, wanted, offset)
                end = segment.size - HEADER_BYTES
                is_cut = len(data) < wanted and offset + len(data) < end  # by somebody, since it was opened
                final = is_cut or offset + len(data) >= end
                stopped = step(scan, data, final)
                seen += scan.at
                offset = scan.base + scan.at
                if final or seen >= most_bytes:
                    break
                window = max(window, min(GROWTH * window, LARGE_WINDOW))
            if not stopped and offset >= end:
                scan.finish()
            damaged += scan.damaged
            if is_cut and not stopped and scan.expected < ceiling:
                damaged.append((scan.expected, ceiling - 1))
            if stopped or (place + 1 == len(segments)) or seen >= most_bytes:
                break
            place, offset, expected = place + 1, 0, segments[place + 1].base
        following = max(scan.expected, sequence)
        if stopped or seen >= most_bytes:
            self.cursors.remember(following, segment, offset)
        else:
            following = max(self._ledger.last_sequence + 1, sequence)
        if damaged:
            self._found_damage(damaged)
        return following, damaged

    def window_for(self, messages: int) -> int:
        """Bytes that probably hold so many messages of this log and one more, which is where a read ends."""
        ledger, active = self._ledger, self._segments.active
        besides = RECORD_HEADER_BYTES + (OVERHEAD if self._cipher is not None else 0)
        mean = ledger.bytes // max(ledger.messages, 1) + besides - active.weights.besides
        return min((messages + 1) * max(mean + mean // SPREAD, 1), LARGE_WINDOW)

    def _start(self, sequence: int, window: int) -> tuple[int, int, int, int]:
        """(place of the segment, offset in it, sequence expected there, bytes to read first)."""
        segments = self._segments
        known = self.cursors.find(sequence)
        if known is not None and known[0] in segments.all:
            return segments.all.index(known[0]), known[1], sequence, max(window, KNOWN)
        place = segments.at(sequence)
        segment = segments.all[place]
        offset, expected = segment.index.before_sequence(sequence)
        return place, offset, max(expected, segment.base), max(window, WINDOW)

    def _block_of(self, sequence: int) -> tuple[int, int, int, int, int] | None:
        """Return the block in which point reads look for a message, in the form of `PointReads`."""
        segments = self._segments
        place = segments.at(sequence)
        segment = segments.all[place]
        if segment.packed is not None or segment.is_sealed or segment.base > sequence:
            return None
        descriptor = None
        with suppress(OSError):  # whoever walks over the segment meets it again, and reports it
            descriptor = self._files.descriptor(segment)
        if descriptor is None:
            return None
        offset, first, following = segment.index.block_of(sequence)
        if not following and place + 1 < len(segments.all):
            following = segments.all[place + 1].base
        return descriptor, segment.salt, HEADER_BYTES + offset, max(first, segment.base), following

    # ---- one message ------------------------------------------------------------------------

    def message(self, sequence: int) -> StoredMessage | None:
        """Return a message; None when it is not there. Raises: MessageDamaged, StorageError."""
        ledger = self._ledger
        if not ledger.floor <= sequence <= ledger.last_sequence or sequence in ledger.removed:
            return None
        if ledger.unreadable and ledger.is_unreadable(sequence):
            raise MessageDamaged(sequence, DAMAGED_BODY)
        found = self.points.message(sequence, ledger.last_sequence)
        return self._walk_to(sequence) if found is None else found

    def _walk_to(self, sequence: int) -> StoredMessage | None:
        """A message that no point read gives; damage is noted. Raises: MessageDamaged, StorageError."""
        out = StoredMessages(StoredMessage)

        def step(scan: Scan, data: bytes, final: bool) -> bool:
            scan.messages_in(data, final, sequence, sequence, None, _NOTHING_REMOVED, 0, out, 1, 1)
            return bool(out) or scan.expected > sequence

        _, damaged = self.walk(sequence, KNOWN, step)
        if not out and any(a <= sequence <= b for a, b in damaged):
            raise MessageDamaged(sequence, DAMAGED_BODY)
        return out[0] if out else None

    def record(self, sequence: int) -> Outline | None:
        """The outline of the record of a sequence, live or not, if it can be read."""
        out: list[Outline] = []

        def step(scan: Scan, data: bytes, final: bool) -> bool:
            scan.outline(data, final, Outline, sequence, sequence, None, _NOTHING_REMOVED, 0, out, 1)
            return bool(out) or scan.expected > sequence

        if self._segments.all[0].base <= sequence <= self._ledger.last_sequence:
            self.walk(sequence, KNOWN, step)
        return out[0] if out else None

    def live(self, sequence: int) -> Outline | None:
        return self.record(sequence) if self._ledger.is_live(sequence) else None

    # ---- many -------------------------------------------------------------------------------

    def some_outlines(
        self, first: int, last: int, filters: Filters, most: int, most_bytes: int
    ) -> tuple[list[Outline], int]:
        """Live messages from `first` to `last`, of about `most_bytes` of records, and where to go on."""
        ledger = self._ledger
        out: list[Outline] = []

        def step(scan: Scan, data: bytes, final: bool) -> bool:
            return scan.outline(
                data, final, Outline, first, last, filters, ledger.removed, ledger.floor, out, most
            )

        following, _ = self.walk(max(first, ledger.floor), LARGE_WINDOW, step, most_bytes)
        return out, following

    def outlines(
        self, first: int, last: int, filters: Filters = None, most: int = OUTLINES
    ) -> Iterator[Outline]:
        """Live messages from `first` to `last`, read `most` at a time; some may be removed by then."""
        ledger = self._ledger
        while first <= last:
            out: list[Outline] = []
            window = WINDOW if most < OUTLINES else LARGE_WINDOW
            stopped = False

            def step(
                scan: Scan, data: bytes, final: bool, start: int = first, out: list[Outline] = out
            ) -> bool:
                nonlocal stopped
                stopped = scan.outline(
                    data, final, Outline, start, last, filters, ledger.removed, ledger.floor, out, most
                )
                return stopped

            first, _ = self.walk(max(first, ledger.floor), window, step)
            yield from out
            if not stopped:
                return

    def these(self, sequences: list[int]) -> list[Outline]:
        """Live messages of so many sequences, ascending; those that are near each other are read together."""
        found: list[Outline] = []
        place = 0
        while place < len(sequences):
            end = place + 1
            while end < len(sequences) and sequences[end] - sequences[end - 1] <= NEAR:
                end += 1
            wanted = set(sequences[place:end])
            most = OUTLINES if end - place > 1 else 1
            some = self.outlines(sequences[place], sequences[end - 1], None, most)
            found += [outline for outline in some if outline.sequence in wanted]
            place = end
        return found
