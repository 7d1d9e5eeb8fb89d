"""The log in memory: all of the contract but survival.

Here lives `MemoryLog`, for servers that keep nothing and for tests; never a file.
Memory is proportional to what is held: besides its parts a message costs about 180 bytes, a subject 230.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final

from headrace.engine.log_reading import MemoryReads
from headrace.engine.messages import StoredMessages
from headrace.errors import LogClosed, LogError, LogFull, MessageTooLarge
from headrace.log.filters import SubjectFilter
from headrace.log.memory_index import SLACK, MessageTable, SubjectIndex
from headrace.log.port import (
    FOREVER,
    LARGEST_SEQUENCE,
    LARGEST_TIME,
    LONGEST_SUBJECT,
    NO_LIMITS,
    Discard,
    Limits,
    LogState,
    Page,
    StoredMessage,
    SubjectState,
    same_weights,
    size_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from headrace.engine.syncer import SyncJob
    from headrace.errors import StorageError
    from headrace.log.port import NewMessage, Submit

SCAN: Final = 4096
"""Messages that one filtered read looks at; then its page ends, empty or not."""


class MemoryLog:
    """A `MessageLog` that forgets on `close`. `clock`: wall clock in ns since 1970 UTC."""

    def __init__(self, limits: Limits = NO_LIMITS, clock: Callable[[], int] = time.time_ns) -> None:
        self._limits = limits
        self._clock = clock
        self._closed = False
        self._written = 0
        self._last_sequence = 0
        self._last_time = 0
        self._reads = MemoryReads(self.read, self._last_of_one, StoredMessage)
        self._clear()

    def _clear(self) -> None:
        self._messages = MessageTable()
        self._subjects = SubjectIndex(self._messages)
        self._bytes = 0
        self._ends: dict[int, int] = {}
        """The expiry of messages with a TTL, by sequence."""
        self._queue: list[tuple[int, int]] = []
        """A heap of (end, sequence), with some of messages that are gone."""
        self._forever: set[int] = set()
        """Those whose age does not matter."""
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
        self._make_fit(self._subjects.names())
        if not limits.waits_for_expire:
            self.expire(self._clock())

    @property
    def written(self) -> int:
        return self._written

    def begin_sync(self, submit: Submit) -> SyncJob | None:
        return None

    def end_sync(self, job: SyncJob) -> StorageError | None:
        raise AssertionError("none was begun")

    @property
    def size(self) -> int:
        return self._bytes

    @property
    def unsynced(self) -> int:
        return 0

    def append(self, batch: Sequence[NewMessage], first_sequence: int = 0) -> int:
        self._check_open()
        batch = list(batch)  # of compiled messages every look would make new tuples
        first = self._admit(batch, first_sequence)
        self._last_sequence = first - 1
        now = 0
        for sequence, message in enumerate(batch, first):
            time_ns = message.time_ns or now or (now := self._clock())
            self._add(sequence, max(time_ns, self._last_time), message)
        self._make_fit({message.subject for message in batch})
        self._written += bool(batch or first_sequence)
        return first

    def _admit(self, batch: Sequence[NewMessage], first_sequence: int) -> int:
        """The first sequence of a batch that may be appended. Raises what `append` does; changes nothing."""
        if first_sequence and first_sequence <= self._last_sequence:
            raise ValueError(f"sequence {first_sequence} is not above the last one, {self._last_sequence}")
        first = first_sequence or self._last_sequence + 1
        if first < 0 or first + len(batch) - 1 > LARGEST_SEQUENCE:
            raise LogError(f"no sequences for {len(batch)} messages from {first}")
        limit = self._limits.max_message_size
        for message in batch:
            if not (0 <= message.time_ns <= LARGEST_TIME and 0 <= message.ttl_ns <= LARGEST_TIME):
                raise ValueError("a message's time and TTL cannot be negative, nor beyond 292 years")
            if max(len(message.subject), len(message.reply)) > LONGEST_SUBJECT:
                raise MessageTooLarge(f"a subject of more than {LONGEST_SUBJECT} bytes")
            if limit and len(message.headers) + len(message.payload) > limit:
                size = len(message.headers) + len(message.payload)
                raise MessageTooLarge(f"{size} bytes of headers and payload, {limit} are allowed")
        if self._limits.discard is Discard.NEW:
            self._check_room(batch)
        return first

    def _check_room(self, batch: Sequence[NewMessage]) -> None:
        """Plays the batch through under `Discard.NEW`. Raises: LogFull."""
        limits = self._limits
        count, total = len(self._messages), self._bytes
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
        found = map(self._messages.get, self._subjects.sequences(subject))
        weights = self._limits.weights
        return [size_of(message, weights) for message in found if message is not None]

    def _add(self, sequence: int, time_ns: int, new: NewMessage) -> None:
        message = StoredMessage(sequence, time_ns, new.subject, new.reply, new.headers, new.payload)
        self._messages.add(message)
        self._subjects.add(message.subject, sequence)
        self._bytes += size_of(message, self._limits.weights)
        self._last_sequence = sequence
        self._last_time = time_ns
        if time_ns + new.ttl_ns >= FOREVER:
            self._forever.add(sequence)
        elif new.ttl_ns:
            self._ends[sequence] = time_ns + new.ttl_ns
            heapq.heappush(self._queue, (time_ns + new.ttl_ns, sequence))

    def _remove(self, sequence: int) -> bool:
        message = self._messages.pop(sequence)
        if message is None:
            return False
        self._subjects.remove(message.subject)
        self._forever.discard(sequence)
        self._bytes -= size_of(message, self._limits.weights)
        if self._ends.pop(sequence, None) and len(self._queue) > 2 * len(self._ends) + SLACK:
            self._queue = [(end, sequence) for sequence, end in self._ends.items()]
            heapq.heapify(self._queue)
        return True

    def _remove_all(self, sequences: Iterable[int]) -> int:
        """`sequences` must not be read from the tables on the way."""
        removed = sum(map(self._remove, sequences))
        self._written += bool(removed)
        return removed

    def _make_fit(self, subjects: Iterable[bytes]) -> None:
        """Removes what is over the limits: of these subjects first, then the oldest, never the newest.

        Under `Discard.NEW` only what is over the limit of its subject.
        """
        limits, messages = self._limits, self._messages
        if limits.max_messages_per_subject:
            for subject in subjects:
                excess = self._subjects.count(subject) - limits.max_messages_per_subject
                if excess > 0:
                    self._remove_all(list(islice(self._subjects.sequences(subject), excess)))
        if limits.discard is Discard.NEW:
            return
        excess = len(messages) - (limits.max_messages or len(messages))
        while (excess > 0 or (limits.max_bytes and self._bytes > limits.max_bytes)) and len(messages) > 1:
            self._remove(self._first_sequence())
            self._written += 1
            excess -= 1

    def read(self, sequence: int) -> StoredMessage | None:
        self._check_open()
        return self._messages.get(sequence)

    @property
    def reads(self) -> MemoryReads | None:
        return None if self._closed else self._reads

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
        end = self._last_sequence + 1 if up_to is None else min(up_to, self._last_sequence + 1)
        wanted = SubjectFilter(filters)
        page = StoredMessages(StoredMessage)
        for looked_at, message in enumerate(self._candidates(wanted, sequence)):
            if message.sequence >= end:
                break
            if page and (len(page) >= max_messages or size_of(message) > max_bytes):
                return Page(page, message.sequence, [])
            if not wanted.everything and looked_at == SCAN:
                return Page(page, message.sequence, [])
            if wanted(message.subject):
                page.append(message)
                max_bytes -= size_of(message)
        return Page(page, max(sequence, end), [])

    def _candidates(self, wanted: SubjectFilter, start: int) -> Iterator[StoredMessage]:
        """Messages at or after `start` that may match; without wildcards only those that do."""
        if wanted.everything or wanted.patterns:
            yield from self._messages.walk(start)
            return
        lists = (self._subjects.sequences(subject, start) for subject in wanted.literals)
        for message in map(self._messages.get, heapq.merge(*lists)):
            if message is not None:
                yield message

    def count_from(self, sequence: int, filters: Sequence[bytes] = ()) -> int:
        self._check_open()
        wanted = SubjectFilter(filters)
        if wanted.everything:
            return len(self._messages) - self._messages.below(sequence)
        names = self._subjects.names() if wanted.patterns else wanted.literals
        return sum(self._subjects.count_from(name, sequence) for name in names if wanted(name))

    def gone(self, sequence: int, most: int = 10_000) -> tuple[list[int], int]:
        self._check_open()
        found: list[int] = []
        for first, following in self._messages.gaps(sequence, self._last_sequence + 1):
            found += islice(range(first, following), most - len(found))
            if len(found) >= most:
                return found, found[-1] + 1
        return found, self._last_sequence + 1

    def absent(self, sequences: Iterable[int]) -> list[int]:
        self._check_open()
        return [sequence for sequence in sequences if self._messages.get(sequence) is None]

    def sequence_at(self, time_ns: int) -> int:
        self._check_open()
        message = self._messages.at_time(time_ns)
        return message.sequence if message else self._last_sequence + 1

    def last(self, subject: bytes | None = None) -> StoredMessage | None:
        self._check_open()
        if subject is None:
            return self._messages.last()
        return self._messages.get(self.last_of(subject))

    def last_of(self, subject: bytes) -> int:
        self._check_open()
        return max((state.last_sequence for _, state in self._matching(subject)), default=0)

    def _last_of_one(self, subject: bytes) -> int:
        """`last_of` a subject without wildcards."""
        state = self._subjects.state(subject)
        return state.last_sequence if state else 0

    def subjects(self, subject: bytes = b">") -> Iterator[tuple[bytes, SubjectState]]:
        self._check_open()
        return self._matching(subject)

    def totals(self, subject: bytes = b">") -> Iterator[tuple[bytes, int]]:
        self._check_open()
        return ((name, state.messages) for name, state in self._matching(subject))

    def _matching(self, subject: bytes) -> Iterator[tuple[bytes, SubjectState]]:
        wanted = SubjectFilter([subject])
        names = self._subjects.names() if wanted.patterns else wanted.literals
        for name in names:
            state = self._subjects.state(
                name
            )  # of now: the log may have changed since the caller's last step
            if state and wanted(name):
                yield name, state

    def delete(self, sequence: int, *, erase: bool = False) -> bool:
        """Erased or not, nothing is left here; Python's memory is not overwritten."""
        self._check_open()
        return self._remove_all([sequence]) > 0

    def remove(self, sequences: Iterable[int]) -> int:
        self._check_open()
        return self._remove_all(sequences)

    def purge(self, subject: bytes | None = None, *, up_to: int | None = None, keep: int = 0) -> int:
        self._check_open()
        if subject is None and up_to is None and keep <= 0:
            removed = len(self._messages)
            self._clear()
            self._written += bool(removed)
            return removed
        below = self._last_sequence + 1 if up_to is None else up_to
        if subject is None:
            excess = self._messages.below(below) - max(keep, 0)
            return self._remove_all([m.sequence for m in islice(self._messages.walk(0), max(excess, 0))])
        found = [
            s for name, _ in self._matching(subject) for s in self._subjects.sequences(name) if s < below
        ]
        found.sort()
        return self._remove_all(found[: max(len(found) - max(keep, 0), 0)])

    def expire(self, now_ns: int) -> int:
        self._check_open()
        return self._remove_all([message.sequence for message in self._over(now_ns)])

    def expired(self, now_ns: int) -> Iterator[tuple[int, bytes]]:
        self._check_open()
        return ((message.sequence, message.subject) for message in self._over(now_ns))

    def _over(self, now_ns: int) -> list[StoredMessage]:
        """Messages over their age or TTL, ascending."""
        found = {}
        first = self._first_aging() if self._limits.max_age_ns else None
        if first is not None:
            for message in self._messages.walk(first.sequence):
                if message.time_ns + self._limits.max_age_ns > now_ns:
                    break
                if message.sequence not in self._forever:
                    found[message.sequence] = message
        due = []
        while self._is_due(now_ns):
            due.append(heapq.heappop(self._queue))
        for entry in due:
            heapq.heappush(self._queue, entry)
            ended = self._messages.get(entry[1])
            if ended is not None:
                found[ended.sequence] = ended
        return [found[sequence] for sequence in sorted(found)]

    def _is_due(self, now_ns: int) -> bool:
        """True if a TTL has ended. Drops entries of removed messages at the front."""
        while self._queue and self._queue[0][1] not in self._ends:
            heapq.heappop(self._queue)
        return bool(self._queue) and self._queue[0][0] <= now_ns

    def _first_aging(self) -> StoredMessage | None:
        """The first message that does not stay forever; all before it do."""
        for message in self._messages.walk(self._aging_from):
            self._aging_from = message.sequence
            if message.sequence not in self._forever:
                return message
        return None

    def next_expiry(self) -> int | None:
        self._check_open()
        self._is_due(0)
        ends = [self._queue[0][0]] if self._queue else []
        first = self._first_aging() if self._limits.max_age_ns else None
        if first is not None:
            ends.append(first.time_ns + self._limits.max_age_ns)
        return min(ends, default=None)

    def state(self) -> LogState:
        self._check_open()
        first = self._messages.first()
        first_sequence = self._first_sequence()
        return LogState(
            messages=len(self._messages),
            bytes=self._bytes,
            first_sequence=first_sequence,
            first_time_ns=first.time_ns if first else 0,
            last_sequence=self._last_sequence,
            last_time_ns=self._last_time,
            deleted=self._last_sequence - first_sequence + 1 - len(self._messages),
            subjects=len(self._subjects),
            damaged=(),
        )

    def sync(self) -> int:
        """There is nothing to force: what memory promises is kept already."""
        self._check_open()
        return self._written

    def close(self) -> None:
        self._closed = True
        self._clear()

    def _first_sequence(self) -> int:
        first = self._messages.first()
        return first.sequence if first else self._last_sequence + 1

    def _check_open(self) -> None:
        if self._closed:
            raise LogClosed("the log is closed")
