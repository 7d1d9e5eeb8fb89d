"""The log in memory: all of the contract but survival.

Here lives `MemoryLog`, for servers that keep nothing and for tests; never a file.
Memory is proportional to what is held; the messages are in a `MemoryTable`, what ends by itself is kept here.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from headrace.engine.memory_log import SLACK, MemoryTable
from headrace.engine.memory_reading import MemoryReads
from headrace.engine.messages import NewMessages, StoredMessages
from headrace.errors import LogClosed, LogError, LogFull
from headrace.log.filters import SubjectFilter
from headrace.log.port import (
    FOREVER,
    LARGEST_SEQUENCE,
    LARGEST_TIME,
    LONGEST_SUBJECT,
    NO_LIMITS,
    Limits,
    LogDiscard,
    LogState,
    NewMessage,
    Page,
    StoredMessage,
    SubjectState,
    same_weights,
    size_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from headrace.engine.log_core import LogAppends
    from headrace.engine.syncer import SyncJob
    from headrace.errors import StorageError
    from headrace.log.port import Submit

SCAN: Final = 4096
"""Messages that one filtered read looks at; then its page ends, empty or not."""
ANY_SIZE: Final = (1 << 63) - 1
SUBJECTS_AT_ONCE: Final = 1000


class MemoryLog:
    """A `MessageLog` that forgets on `close`. `clock`: wall clock in ns since 1970 UTC."""

    def __init__(self, limits: Limits = NO_LIMITS, clock: Callable[[], int] = time.time_ns) -> None:
        self._limits = limits
        self._clock = clock
        self._table: Final = MemoryTable(clock, self._make_fit)
        self.appends: LogAppends = self._table
        self._table.obey(limits)
        self._reads = MemoryReads(self._table, StoredMessage)
        self._clear()

    def _clear(self) -> None:
        self._table.clear()
        self._ends: dict[int, int] = {}
        """The expiry of messages with a TTL, by sequence."""
        self._queue: list[tuple[int, int]] = []
        """A heap of (end, sequence), with some of messages that are gone."""
        self._forever: set[int] = set()
        """Sequences of messages whose age does not matter."""
        self._aging_from = 0
        """Messages before this sequence are among those."""

    @property
    def may_end_torn(self) -> bool:
        return False

    def when_opened(self, function: Callable[[], object]) -> None:
        self._check_open()
        function()

    @property
    def limits(self) -> Limits:
        return self._limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._check_open()
        self._limits = same_weights(self._limits, limits)
        self._table.obey(limits)
        self._make_fit(self._names())
        if not limits.waits_for_expire:
            self.expire(self._clock())

    @property
    def written(self) -> int:
        return self._table.changes

    def begin_sync(self, submit: Submit) -> SyncJob | None:
        return None

    def end_sync(self, job: SyncJob) -> StorageError | None:
        raise AssertionError("none was begun")

    @property
    def size(self) -> int:
        return self._table.size

    @property
    def unsynced(self) -> int:
        return 0

    def append(self, batch: Sequence[NewMessage], first_sequence: int = 0) -> int:
        self._check_open()
        messages = batch if isinstance(batch, NewMessages) else NewMessages(NewMessage, batch)
        table = self._table
        if not first_sequence and (appended := table.append(messages)):
            return appended  # else something is out of the ordinary
        first = self._admit(messages, first_sequence)
        if not messages:
            table.skip_to(first - 1)
        for sequence, end in table.add(messages, first):
            if end >= FOREVER:
                self._forever.add(sequence)
            else:
                self._ends[sequence] = end
                heapq.heappush(self._queue, (end, sequence))
        self._make_fit(messages.subjects())
        table.changes += bool(messages or first_sequence)
        return first

    def _admit(self, batch: NewMessages[NewMessage], first_sequence: int) -> int:
        """The first sequence of a batch that may be appended. Raises what `append` does; changes nothing."""
        last = self._table.last_sequence
        if first_sequence and first_sequence <= last:
            raise ValueError(f"sequence {first_sequence} is not above the last one, {last}")
        first = first_sequence or last + 1
        if first < 0 or first + len(batch) - 1 > LARGEST_SEQUENCE:
            raise LogError(f"no sequences for {len(batch)} messages from {first}")
        batch.measure(self._limits.max_message_size, LONGEST_SUBJECT, ANY_SIZE)
        if self._limits.discard is LogDiscard.NEW:
            self._check_room(list(batch))  # of compiled messages every look would make new tuples
        return first

    def _check_room(self, batch: Sequence[NewMessage]) -> None:
        """Play the batch through under `LogDiscard.NEW`. Raises: LogFull."""
        limits = self._limits
        count, total = self._table.messages, self._table.size
        most = max(limits.max_messages, count)  # more only when the limit is younger than they are
        per_subject = limits.max_messages_per_subject
        sizes: dict[bytes, list[int]] = {}
        evicted: Counter[bytes] = Counter()
        for index, message in enumerate(batch):
            size = size_of(message, limits.weights)
            if per_subject:
                held = sizes.get(message.subject)
                if held is None:
                    held = sizes[message.subject] = self._sizes(message.subject)
                if len(held) - evicted[message.subject] >= per_subject:
                    if limits.discard_new_per_subject:
                        raise LogFull("maximum messages per subject exceeded", index)
                    count -= 1
                    total -= held[evicted[message.subject]]
                    evicted[message.subject] += 1
                held.append(size)
            count += 1
            total += size
            if limits.max_messages and count > most:
                raise LogFull("maximum messages exceeded", index)
            if limits.max_bytes and total > limits.max_bytes:
                raise LogFull("maximum bytes exceeded", index)

    def _sizes(self, subject: bytes) -> list[int]:
        """Return the counted sizes of a subject's messages, oldest first; no more of them than the subject's
        limit.
        """
        return [self._reads.size_of(sequence) for sequence in self._table.sequences(subject)]

    def _remove_all(self, sequences: Iterable[int]) -> int:
        """Remove messages; return their number. `sequences` must not be read from the tables on the way."""
        if self._forever or self._ends:
            removed = sum(map(self._remove, sequences))
        else:
            removed = self._table.remove(sequences)
        self._table.changes += bool(removed)
        return removed

    def _remove(self, sequence: int) -> int:
        """Remove a message that may have a TTL; 0 when it is not there, else 1."""
        removed = self._table.remove((sequence,))
        self._forever.discard(sequence)
        if self._ends.pop(sequence, None) and len(self._queue) > 2 * len(self._ends) + SLACK:
            self._queue = [(end, sequence) for sequence, end in self._ends.items()]
            heapq.heapify(self._queue)
        return removed

    def _make_fit(self, subjects: Iterable[bytes]) -> None:
        """Remove what is over the limits: of these subjects first, then the oldest, never the newest.

        Under `LogDiscard.NEW` only what is over the limit of its subject.
        """
        limits, table = self._limits, self._table
        if limits.max_messages_per_subject:
            for subject in subjects:
                excess = table.count_from(subject, 0) - limits.max_messages_per_subject
                if excess > 0:
                    self._remove_all(table.sequences(subject, most=excess))
        if limits.discard is not LogDiscard.NEW:
            self._remove_all(self._reads.oldest_over(limits.max_messages, limits.max_bytes))

    def read(self, sequence: int) -> StoredMessage | None:
        self._check_open()
        return self._reads.get(sequence)

    @property
    def reads(self) -> MemoryReads[StoredMessage] | None:
        return self._reads if self._table.is_open else None

    def read_from(
        self,
        sequence: int,
        *,
        filters: Sequence[bytes] = (),
        max_messages: int = 256,
        max_bytes: int = 1 << 20,
        up_to: int | None = None,
    ) -> Page:
        self._check_open()
        last = self._table.last_sequence
        end = last + 1 if up_to is None else min(up_to, last + 1)
        page = StoredMessages(StoredMessage)
        if sequence >= end:
            return Page(page, sequence, [])
        wanted = SubjectFilter(filters)
        if not (wanted.everything or wanted.patterns or wanted.literals):
            return Page(page, end, [])
        following = self._reads.page(
            page,
            max(sequence, 0),
            end,
            literals=list(wanted.literals),
            patterns=list(wanted.patterns),
            most=max_messages,
            room=min(max_bytes, ANY_SIZE),
            most_looked_at=SCAN,
        )
        return Page(page, following, [])

    def count_from(self, sequence: int, filters: Sequence[bytes] = ()) -> int:
        self._check_open()
        table = self._table
        if sequence > table.last_sequence:
            return 0
        start = max(sequence, 0)
        wanted = SubjectFilter(filters)
        if wanted.everything:
            return table.messages - self._reads.below(start)
        names = self._names() if wanted.patterns else wanted.literals
        return sum(table.count_from(name, start) for name in names if wanted(name))

    def gone(self, sequence: int, most: int = 10_000) -> tuple[list[int], int]:
        self._check_open()
        return self._reads.gone(min(max(sequence, 0), self._table.last_sequence + 1), most)

    def absent(self, sequences: Iterable[int]) -> list[int]:
        self._check_open()
        return [sequence for sequence in sequences if sequence not in self._table]

    def sequence_at(self, time_ns: int) -> int:
        self._check_open()
        if time_ns > self._table.last_time:
            return self._table.last_sequence + 1
        return self._reads.at_time(max(time_ns, 0)) or self._table.last_sequence + 1

    def last(self, subject: bytes | None = None) -> StoredMessage | None:
        self._check_open()
        return self._reads.get(self._table.last() if subject is None else self.last_of(subject))

    def last_of(self, subject: bytes) -> int:
        self._check_open()
        return max((state.last_sequence for _, state in self._matching(subject)), default=0)

    def subjects(self, subject: bytes = b">") -> Iterator[tuple[bytes, SubjectState]]:
        self._check_open()
        return self._matching(subject)

    def totals(self, subject: bytes = b">") -> Iterator[tuple[bytes, int]]:
        self._check_open()
        return ((name, state.messages) for name, state in self._matching(subject))

    def _matching(self, subject: bytes) -> Iterator[tuple[bytes, SubjectState]]:
        wanted = SubjectFilter([subject])
        for name in self._names(subject) if wanted.patterns else wanted.literals:
            if found := self._table.subjects.get(name):  # of now: the log may have changed
                yield name, SubjectState(*found[:3])

    def _names(self, pattern: bytes | None = None) -> Iterator[bytes]:
        """Subjects with messages that match a pattern, None: all; the log may change on the way."""
        place = 0
        while True:
            names, place = self._table.subjects.matching(pattern, place, SUBJECTS_AT_ONCE)
            yield from names
            if not place:
                return

    def delete(self, sequence: int, *, erase: bool = False) -> bool:
        """Erased or not, nothing is left here; Python's memory is not overwritten."""
        self._check_open()
        return self._remove_all([sequence]) > 0

    def remove(self, sequences: Iterable[int]) -> int:
        self._check_open()
        return self._remove_all(sequences)

    def purge(self, subject: bytes | None = None, *, up_to: int | None = None, keep: int = 0) -> int:
        self._check_open()
        table = self._table
        if subject is None and up_to is None and keep <= 0:
            removed = table.messages
            self._clear()
            self._table.changes += bool(removed)
            return removed
        below = table.last_sequence + 1 if up_to is None else min(max(up_to, 0), table.last_sequence + 1)
        if subject is None:
            excess = self._reads.below(below) - max(keep, 0)
            return self._remove_all(self._reads.oldest(max(excess, 0)))
        found = [s for name, _ in self._matching(subject) for s in table.sequences(name) if s < below]
        found.sort()
        return self._remove_all(found[: max(len(found) - max(keep, 0), 0)])

    def expire(self, now_ns: int) -> int:
        self._check_open()
        return self._remove_all(self._over(now_ns))

    def expired(self, now_ns: int) -> Iterator[tuple[int, bytes]]:
        self._check_open()
        return iter([(sequence, self._reads.subject_of(sequence)) for sequence in self._over(now_ns)])

    def _over(self, now_ns: int) -> list[int]:
        """The sequences of messages over their age or TTL, ascending."""
        found = set[int]()
        if first := self._first_aging() if self._limits.max_age_ns else 0:
            found.update(self._reads.up_to(first, min(now_ns - self._limits.max_age_ns, LARGEST_TIME)))
            found -= self._forever
        due = []
        while self._is_due(now_ns):
            due.append(heapq.heappop(self._queue))
        for entry in due:
            heapq.heappush(self._queue, entry)
            found.add(entry[1])
        return sorted(found)

    def _is_due(self, now_ns: int) -> bool:
        """True if a TTL has ended. Drops entries of removed messages at the front."""
        while self._queue and self._queue[0][1] not in self._ends:
            heapq.heappop(self._queue)
        return bool(self._queue) and self._queue[0][0] <= now_ns

    def _first_aging(self) -> int:
        """The sequence of the first message that does not stay forever, 0: none; all before it do."""
        sequence = self._reads.following(self._aging_from)
        while sequence and sequence in self._forever:
            self._aging_from = sequence
            sequence = self._reads.following(sequence + 1)
        return sequence

    def next_expiry(self) -> int | None:
        self._check_open()
        self._is_due(0)
        ends = [self._queue[0][0]] if self._queue else []
        if first := self._first_aging() if self._limits.max_age_ns else 0:
            ends.append(self._reads.time_of(first) + self._limits.max_age_ns)
        return min(ends, default=None)

    def state(self) -> LogState:
        self._check_open()
        table = self._table
        first = table.first()
        return LogState(
            messages=table.messages,
            bytes=table.size,
            first_sequence=first,
            first_time_ns=self._reads.time_of(first) if table.messages else 0,
            last_sequence=table.last_sequence,
            last_time_ns=table.last_time,
            deleted=table.last_sequence - first + 1 - table.messages,
            subjects=len(table.subjects),
            damaged=(),
        )

    def sync(self) -> int:
        """Do nothing: what memory promises is kept already."""
        self._check_open()
        return self._table.changes

    def close(self) -> None:
        self._table.is_open = False
        self._clear()

    def _check_open(self) -> None:
        if not self._table.is_open:
            raise LogClosed("the log is closed")
