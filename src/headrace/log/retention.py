"""Retention of a file log: messages that it removes by itself because of its limits.

Here live the front of the log, the oldest messages of a subject, and the limits' work on both. Never here:
writing: what is removed is noted in the ledger, and the log writes that down.
"""

from __future__ import annotations

from collections import Counter, deque
from heapq import merge
from itertools import groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from headrace.errors import LogFull
from headrace.log.index import NEVER
from headrace.log.port import FOREVER, Limits, LogDiscard, size_of
from headrace.log.reader import LARGE_WINDOW, OUTLINES, WINDOW

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from headrace.engine.records import Scan
    from headrace.log.ledger import Ledger
    from headrace.log.outline import Outline
    from headrace.log.port import NewMessage
    from headrace.log.reader import SegmentReader
    from headrace.log.segments import Segments

CHAIN_LENGTH: Final = 1024
"""Messages of a subject that are found by going back from its last one; of more, the first are looked for
from the front."""
LOOK_AHEAD: Final = 1 << 20
"""Bytes of records that are looked at for the first ones: an append under a limit by subject waits for no
more, unless the way to the subject's next message is longer."""
FEW: Final = 8
FEW_BYTES: Final = 4096
"""Messages over a limit, and bytes for each of them, up to which they are removed one by one."""
FRONT: Final = 256
"""Outlines of the first messages that are kept. No more are read: a file may have to be brought for them."""
REMEMBERED: Final = 100_000
"""Outlines of subjects' oldest messages kept, in all (about 300 bytes each)."""

_sequence: Final = attrgetter("sequence")


class LogRetention:
    """Removes from the ledger what the limits say, oldest first."""

    def __init__(self, segments: Segments, ledger: Ledger, reader: SegmentReader) -> None:
        self._segments = segments
        self._ledger = ledger
        self._reader = reader
        self._front: deque[Outline] = deque()
        self._oldest: dict[bytes, deque[Outline]] = {}
        self._remembered = 0
        self._aging_from = 0
        """No message before this sequence ends by its age: those that are left stay forever."""

    # ---- the front --------------------------------------------------------------------------

    def first(self) -> Outline | None:
        """The first live message; the floor is raised to it, but not over what is unreadable."""
        ledger, front = self._ledger, self._front
        while front and not ledger.is_live(front[0].sequence):
            front.popleft()
        if not front and ledger.messages:
            some = self._reader.outlines(ledger.floor, ledger.last_sequence, most=FRONT)
            front.extend(islice(some, FRONT))
        found = front[0] if front else None
        following = found.sequence if found else ledger.last_sequence + 1
        unreadable = ledger.unreadable_from(ledger.floor)
        ledger.raise_floor(following if unreadable is None else min(following, unreadable))
        return found

    def forget_front(self) -> None:
        """Forget what is remembered of the front, since it may have changed."""
        self._front.clear()
        self._oldest.clear()
        self._remembered = 0

    # ---- limits -----------------------------------------------------------------------------

    def make_fit(self, limits: Limits, subjects: Iterable[bytes]) -> int:
        """Remove what is over the limits, of these subjects first, never the newest message; return the
        number of messages.

        Under `LogDiscard.NEW` only what is over the limit of its subject.
        """
        ledger = self._ledger
        removed = 0
        if limits.max_messages_per_subject:
            for subject in subjects:
                removed += self._trim(subject, limits.max_messages_per_subject)
        if limits.discard is LogDiscard.NEW:
            return removed
        removed += self._drop_first(limits)
        while ledger.messages > 1 and (
            (limits.max_messages and ledger.messages > limits.max_messages)
            or (limits.max_bytes and ledger.bytes > limits.max_bytes)
        ):
            first = self.first()
            if first is None:
                break  # the rest cannot be read
            ledger.forget(first, is_first=True)
            removed += 1
        return removed

    def _drop_first(self, limits: Limits) -> int:
        """Remove many messages from the front at once, as far as they can be read; return their number."""
        ledger, segments = self._ledger, self._segments
        removed = 0
        while not ledger.unreadable:
            messages = max(ledger.messages - limits.max_messages, 0) if limits.max_messages else 0
            size = max(ledger.bytes - limits.max_bytes, 0) if limits.max_bytes else 0
            if messages < FEW and size < FEW * FEW_BYTES:
                break
            found = self._drop(messages, size)
            if found is None or not found.messages:
                break
            ledger.forget_first(found, segments.all[segments.at(found.last_message)].base)
            removed += found.messages
        return removed

    def _drop(self, messages: int, size: int) -> Scan | None:
        """Drop messages from the front, and return the scan of the first segment that had any."""
        ledger = self._ledger
        found: Scan | None = None

        def step(scan: Scan, data: bytes, final: bool) -> bool:
            nonlocal found
            if found is not None and found.messages and scan is not found:
                return True  # another segment has counts of its own
            found = scan
            return scan.drop(
                *(data, final, ledger.table, ledger.removed, ledger.floor),
                *(messages, size, ledger.messages - 1),
            )

        self._reader.walk(ledger.floor, LARGE_WINDOW if messages > OUTLINES else WINDOW, step)
        return found

    def _trim(self, subject: bytes, most: int) -> int:
        removed = 0
        while (known := self._ledger.table.get(subject)) is not None and known[0] > most:
            oldest = self.oldest(subject)
            if oldest is None:
                break
            self._ledger.forget(oldest, is_first=oldest.sequence == self._ledger.floor)
            removed += 1
        return removed

    def oldest(self, subject: bytes) -> Outline | None:
        """The first live message of a subject; None when it has none that can be read."""
        held = self._oldest.get(subject)
        while held and not self._ledger.is_live(held[0].sequence):
            held.popleft()
            self._remembered -= 1
        if not held:
            self._oldest.pop(subject, None)
            held = self._find_oldest(subject)
            if not held:
                return None
            if self._remembered + len(held) > REMEMBERED:
                self._oldest.clear()
                self._remembered = 0
            self._oldest[subject] = held
            self._remembered += len(held)
        self._ledger.table.settle_first(subject, held[0].sequence)
        return held[0]

    def _find_oldest(self, subject: bytes) -> deque[Outline]:
        known = self._ledger.table.get(subject)
        if known is None:
            return deque()
        count, first, last, is_exact, _ = known
        if is_exact:
            outline = self._reader.live(first)
            if outline is not None and outline.subject == subject:
                return deque([outline])
        if count <= CHAIN_LENGTH:
            found = self._back_from(subject, last, count)
            if len(found) == count:
                return found
        found = deque()
        while not found and first <= last:
            some, first = self._reader.some_outlines(first, last, subject, CHAIN_LENGTH, LOOK_AHEAD)
            found.extend(some)
        return found

    def _back_from(self, subject: bytes, sequence: int, count: int) -> deque[Outline]:
        """The last `count` live messages of a subject, by each record's link to the one before."""
        found: deque[Outline] = deque()
        steps = 0
        while sequence and len(found) < count and steps < 2 * CHAIN_LENGTH:
            outline = self._reader.record(sequence)
            if outline is None or outline.subject != subject:
                break
            if self._ledger.is_live(sequence):
                found.appendleft(outline)
            sequence = outline.previous
            steps += 1
        return found

    def all_of(self, subject: bytes) -> list[Outline] | None:
        """The live messages of a subject, ascending; None when they are too many to be found one by one."""
        known = self._ledger.table.get(subject)
        if known is None:
            return []
        if known[0] > CHAIN_LENGTH:
            return None
        found = self._back_from(subject, known[2], known[0])
        return list(found) if len(found) == known[0] else None

    def newest(self, subject: bytes) -> int:
        """The sequence of a subject's last live message; 0 when it has none that can be read."""
        table = self._ledger.table
        known = table.get(subject)
        if known is None:
            return 0
        if known[4]:
            return known[2]
        found = self._back_from(subject, known[2], 1)
        if not found:
            found = deque(self._reader.outlines(known[1], known[2], subject), 1)
        if not found:
            return 0
        table.settle_last(subject, found[-1].sequence)
        return found[-1].sequence

    def check_room(self, limits: Limits, batch: Sequence[NewMessage]) -> None:
        """Play a batch through under `LogDiscard.NEW`. Raises: LogFull."""
        count, total = self._ledger.messages, self._ledger.bytes
        most = max(limits.max_messages, count)  # more only when the limit is younger than they are
        per_subject = limits.max_messages_per_subject
        wanted = Counter(message.subject for message in batch) if per_subject else Counter()
        sizes: dict[bytes, deque[int]] = {}
        held: Counter[bytes] = Counter()
        for index, message in enumerate(batch):
            size, subject = size_of(message, limits.weights), message.subject
            if per_subject:
                if subject not in sizes:
                    held[subject] = (self._ledger.table.get(subject) or (0,))[0]
                    evictable = (
                        not limits.discard_new_per_subject and held[subject] + wanted[subject] > per_subject
                    )
                    sizes[subject] = deque(self._sizes(subject, wanted[subject]) if evictable else ())
                if held[subject] >= per_subject:
                    if limits.discard_new_per_subject:
                        raise LogFull("maximum messages per subject exceeded", index)
                    held[subject] -= 1
                    count -= 1
                    total -= sizes[subject].popleft() if sizes[subject] else 0
                held[subject] += 1
                sizes[subject].append(size)
            count += 1
            total += size
            if limits.max_messages and count > most:
                raise LogFull("maximum messages exceeded", index)
            if limits.max_bytes and total > limits.max_bytes:
                raise LogFull("maximum bytes exceeded", index)

    def _sizes(self, subject: bytes, most: int) -> list[int]:
        """Return the counted sizes of a subject's oldest messages: of all, or of `most`."""
        known = self._ledger.table.get(subject)
        if known is None:
            return []
        if most == 1:
            oldest = self.oldest(subject)
            return [oldest.size] if oldest else []
        return [o.size for o in islice(self._reader.outlines(known[1], known[2], subject), most)]

    # ---- age --------------------------------------------------------------------------------

    def expire(self, limits: Limits, now_ns: int) -> int:
        """Remove messages over their age or TTL; return their number."""
        removed = 0
        for outline in self._aged(limits, now_ns):
            self._ledger.forget(outline, is_first=outline.sequence == self._ledger.floor)
            removed += 1
        for segment in self._segments.all:
            for place, first_sequence, following in list(segment.index.due(now_ns)):
                last = following - 1 if following else self._last_in(segment.base)
                removed += self._expire_block(first_sequence, last, now_ns)
                expiry = self._next_in(first_sequence, last)
                segment.index.set_expiry(place, expiry)
        return removed

    def _aged(self, limits: Limits, now_ns: int) -> Iterator[Outline]:
        """Messages over their age, ascending; they may be removed as they come."""
        first = self.first_aging() if limits.max_age_ns else None
        if first is None or first.time_ns + limits.max_age_ns > now_ns:
            return
        for outline in self._reader.outlines(first.sequence, self._ledger.last_sequence, most=256):
            if outline.time_ns + limits.max_age_ns > now_ns:
                return
            if outline.expiry != FOREVER:
                yield outline

    def first_aging(self) -> Outline | None:
        """The first live message that does not stay forever."""
        first = self.first()
        if first is None or not self._ledger.expiring or first.expiry != FOREVER:
            return first
        for outline in self._reader.outlines(self._aging_from, self._ledger.last_sequence, most=64):
            self._aging_from = outline.sequence
            if outline.expiry != FOREVER:
                return outline
        return None

    def expired(self, limits: Limits, now_ns: int) -> Iterator[tuple[int, bytes]]:
        """See `MessageLog.expired`."""
        blocks = [
            (first, following - 1 if following else self._last_in(segment.base))
            for segment in self._segments.all
            for _, first, following in segment.index.due(now_ns)
        ]
        ended = (o for block in blocks for o in self._reader.outlines(*block) if 0 < o.expiry <= now_ns)
        both = merge(self._aged(limits, now_ns), ended, key=_sequence)
        return ((sequence, next(same).subject) for sequence, same in groupby(both, _sequence))

    def _last_in(self, base: int) -> int:
        """The last sequence of a segment."""
        place = self._segments.at(base) + 1
        segments = self._segments.all
        return segments[place].base - 1 if place < len(segments) else self._ledger.last_sequence

    def _expire_block(self, first: int, last: int, now_ns: int) -> int:
        removed = 0
        for outline in self._reader.outlines(first, last):
            if 0 < outline.expiry <= now_ns:
                self._ledger.forget(outline, is_first=outline.sequence == self._ledger.floor)
                removed += 1
        return removed

    def _next_in(self, first: int, last: int) -> int:
        return min((o.expiry for o in self._reader.outlines(first, last) if o.expiry), default=NEVER)

    def next_expiry(self, limits: Limits) -> int | None:
        """Return when the next message expires, perhaps too early, never too late."""
        if not (limits.max_age_ns or self._ledger.expiring):
            return None
        ends = [NEVER]
        if self._ledger.expiring:
            ends += [segment.index.next_expiry for segment in self._segments.all]
        first = self.first_aging() if limits.max_age_ns else None
        if first is not None:
            ends.append(first.time_ns + limits.max_age_ns)
        least = min(ends)
        return None if least == NEVER else least
