"""The change log: the durable state of a service as a log of its changes and, now and then, a snapshot.

The changes of one turn are one record, so after a crash all of them are there or none. Records are appended
without waiting for a sync; a caller that must wait asks for one. When the changes outweigh the state itself,
the whole state is written as a snapshot between two marks and synced, and only then everything before it is
purged. A snapshot without its second mark does not count. Never lives here: the meaning of an entry, which is
the service's.

A record's payload is entries, each kind (1 byte), length (u32 little-endian), body; the marks are `(`, `)`.
Every record is there twice, since one that is lost could be all that says of a stream that it exists: the
first begins with `2`, the one behind it with `=`. Those of earlier versions have neither and are there once.
"""

from __future__ import annotations

import struct
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

from headrace.engine.consumer import ChangeCounts
from headrace.errors import LogError, ProtocolError, StorageError
from headrace.log.port import NewMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from headrace.log.port import MessageLog, StoredMessage
    from headrace.turns import Turns

    Waiter = Callable[[LogError | None], None]

_MIN_GROWTH: Final = 4 << 20
"""Bytes of changes before a snapshot is thought of; at 100 bytes a tick that is 40,000 ticks."""
_GROWTH_FACTOR: Final = 4
"""Changes may outweigh the last snapshot this many times."""
_MIN_GROWTH_IN_MEMORY: Final = 64 << 10
"""The growth before a snapshot where changes are not on a disk: each takes several times its bytes."""
_RETRY_S: Final = 1.0
"""Seconds between two tries to write after the storage failed."""
_RECORD_BYTES: Final = 256 << 10
"""A snapshot is cut into records of about this size."""
_ENTRY: Final = struct.Struct("<cI")
BEGIN: Final = b"("
END: Final = b")"
TWICE: Final = _ENTRY.pack(b"2", 0)
"""The beginning of a record that has a copy behind it."""
COPY: Final = _ENTRY.pack(b"=", 0)
"""The beginning of the copy."""


def entry(kind: bytes, body: bytes = b"") -> bytes:
    return _ENTRY.pack(kind, len(body)) + body


class Note(Protocol):
    """The log to which damaged changes are reported."""

    def error(self, text: str, *arguments: object) -> object: ...


class ChangeWriter(ChangeCounts):
    """Gathers a turn's changes, appends them once, answers who waits.

    `open_log` is called when there is something to write, at the latest; `state` gives the entries of the
    whole state. A failed write loses no change: the next one is then a snapshot of everything, and whoever
    waited is told. `syncs_at_once`: whether a commit means more than an append; else a snapshot is synced
    by hand before what it replaces is purged. `is_in_memory`: the log is; then it never outweighs the state
    by much.
    """

    log: MessageLog | None
    waiters: list[Waiter]

    def __init__(
        self,
        open_log: Callable[[], MessageLog],
        turns: Turns,
        note: Note,
        state: Callable[[], Iterable[bytes]],
        *,
        subject: bytes,
        syncs_at_once: bool,
        is_in_memory: bool = False,
    ) -> None:
        self._open_log = open_log
        self._turns = turns
        self._note = note
        self._state = state
        self._subject = subject
        self._syncs_at_once = syncs_at_once
        self._is_in_memory = is_in_memory
        self.most_growth = self._growth_after(0)
        self._retrying = False
        self._syncs_fail = False
        """True from a sync that failed, which is logged, to the next one that does not."""

    def add(self, change: bytes) -> None:
        self.entries.append(change)

    def after_commit(self, waiter: Waiter) -> None:
        """Calls `waiter` when everything said so far is durable under the store's policy, or cannot be."""
        self.waiters.append(waiter)

    @property
    def idle(self) -> bool:
        return not (self.entries or self.waiters)

    def gather(self) -> None:
        """Add what was only marked as changed: for those who coalesce their changes."""

    def flush(self) -> None:
        """Append what was gathered, as one record; does not wait for a sync."""
        if self.idle:
            return
        self.gather()
        waiters, self.waiters = self.waiters, []
        gathered, self.entries = self.entries, []
        if self.snapshot_due and self._retrying and not waiters:
            return  # everything is in the snapshot that will be tried
        try:
            if self.snapshot_due:
                self._write_snapshot()
            elif gathered:
                self._append([NewMessage(self._subject, b"".join(gathered))])
        except LogError as error:
            self.failed(error, waiters)
            return
        if waiters:
            self._commit_for(waiters)
        self.snapshot_if_grown()

    def snapshot_if_grown(self) -> None:
        """Write a snapshot if there are more changes than there may be."""
        if self.grown > self.most_growth:
            self.snapshot_due = True
            self._try_snapshot()

    def _growth_after(self, snapshot_size: int) -> int:
        """Return how many bytes of changes there may be after a snapshot of so many."""
        if self._is_in_memory:
            return max(min(_MIN_GROWTH, _MIN_GROWTH_IN_MEMORY), snapshot_size)
        return max(_MIN_GROWTH, _GROWTH_FACTOR * snapshot_size)

    def _append(self, batch: list[NewMessage]) -> int:
        if self.log is None:
            self.log = self._open_log()
        first = self.log.append(twice(batch))
        for record in batch:
            self.grown += len(record.payload)
        self.appended += len(batch)
        return first

    def _commit_for(self, waiters: list[Waiter]) -> None:
        appended = self.appended
        if self.log is None or appended == self.synced:
            _tell(waiters, None)
            return

        def committed(error: StorageError | None) -> None:
            if error is None:
                self.synced = max(self.synced, appended)
            self._note_sync(error)
            _tell(waiters, error)

        self._turns.commit(self.log, committed)

    def _note_sync(self, error: StorageError | None) -> None:
        """Log the first of syncs that fail one after the other: each that follows has the same reason."""
        if error is not None and not self._syncs_fail:
            self._note.error("state could not be synced: %s", error)
        self._syncs_fail = error is not None

    def failed(self, error: LogError, waiters: list[Waiter]) -> None:
        self.snapshot_due = True
        if not self._retrying:
            self._retrying = True
            self._note.error("state could not be written: %s", error)
            self._turns.later(_RETRY_S, self._retry)
        _tell(waiters, error)

    def _retry(self) -> None:
        self._retrying = False
        self._try_snapshot()

    def _try_snapshot(self) -> None:
        if not self.snapshot_due:
            return
        try:
            self._write_snapshot()
        except LogError as error:
            self.failed(error, [])

    def _write_snapshot(self) -> None:
        batch = list(snapshot(self._state(), self._subject))
        first = self._append(batch)
        self.snapshot_due = False
        self.most_growth = self._growth_after(sum(len(message.payload) for message in batch))
        self.grown = 0
        log = self.log
        assert log is not None
        self._turns.commit(log, lambda error: self._replaced(log, first, error))

    def _replaced(self, log: MessageLog, first: int, error: StorageError | None) -> None:
        self._note_sync(error)
        if error is not None:
            return
        try:
            if not self._syncs_at_once:
                log.sync()  # rare; else a power failure could find neither the old state nor the new
            log.purge(up_to=first)
        except LogError as purge_error:
            self._note.error("old state could not be purged: %s", purge_error)


def _tell(waiters: Sequence[Waiter], error: LogError | None) -> None:
    for waiter in waiters:
        waiter(error)


def twice(records: Iterable[NewMessage]) -> list[NewMessage]:
    """Records as they are written: each with its copy behind it."""
    written: list[NewMessage] = []
    for record in records:
        subject, payload = record[:2]
        written += (NewMessage(subject, TWICE + payload), NewMessage(subject, COPY + payload))
    return written


def snapshot(entries: Iterable[bytes], subject: bytes) -> Iterator[NewMessage]:
    """The records of a whole state, between its marks."""
    gathered: list[bytes] = []
    size = 0
    for one in chain([entry(BEGIN)], entries, [entry(END)]):
        gathered.append(one)
        size += len(one)
        if size >= _RECORD_BYTES:
            yield NewMessage(subject, b"".join(gathered))
            gathered, size = [], 0
    if gathered:
        yield NewMessage(subject, b"".join(gathered))


class Changed(Protocol):
    """A reader of changes. `apply` raises ValueError, ProtocolError or struct.error for an invalid entry."""

    def apply(self, kind: bytes, body: bytes) -> None:
        """One change."""

    def begin(self) -> None:
        """A snapshot begins: what follows replaces everything, once it is whole."""

    def end(self) -> None:
        """The snapshot that was begun last is whole; also called for one that a loss has a hole in."""

    def lost(self) -> None:
        """A record is missing at this place."""


def read_changes(log: MessageLog, changed: Changed, report: Callable[[int, str], object]) -> bool:
    """Read a log of changes from its beginning; what cannot be read is reported and told as lost.

    Returns whether anything was: the next thing to be written must then be a snapshot.
    Raises: StorageError.
    """
    reader = _Reader(changed, report)
    last = log.state().last_sequence
    sequence = 1
    while sequence <= last:
        page = log.read_from(sequence)
        for damaged in page.damaged:
            reader.damage(damaged)
        for message in page.messages:
            reader.read(message)
        sequence = max(page.next_sequence, sequence + 1)
    reader.finish(last + 1)
    return reader.damaged


class _Reader:
    def __init__(self, changed: Changed, report: Callable[[int, str], object]) -> None:
        self._changed = changed
        self._report = report
        self._expected = 0
        self._unread: list[int] = []
        """Records that are unreadable, up to the one that is read."""
        self._has_copy = False
        """True if the last record that was read has a copy."""
        self.inside = False
        """True if a snapshot was begun and has not ended."""
        self.damaged = False

    def damage(self, sequence: int) -> None:
        self.damaged = True
        self._unread.append(sequence)

    def read(self, message: StoredMessage) -> None:
        mark, payload = _marked(message.payload)
        expected, self._expected = self._expected or message.sequence, message.sequence + 1
        is_copy = mark == COPY
        missing = message.sequence - expected
        if is_copy and not missing and self._has_copy:
            self._has_copy = False
            return
        # Of a record and its copy one is enough: the last one before the gap, or the first one behind it.
        lost = missing - self._has_copy - is_copy
        self._tell_unread(message.sequence, lost > 0)
        if lost > 0:
            self.lose()
        self._has_copy = mark == TWICE
        try:
            self._read_record(payload)
        except (ProtocolError, ValueError, struct.error) as error:
            self._report(message.sequence, str(error))
            self.lose()

    def _tell_unread(self, before: int, is_lost: bool) -> None:
        for sequence in self._unread:
            if sequence < before:
                self._report(sequence, "unreadable" if is_lost else "unreadable, but there twice")
        self._unread = [sequence for sequence in self._unread if sequence >= before]

    def finish(self, end: int) -> None:
        """Note that there is nothing more before `end`."""
        self._tell_unread(end, len(self._unread) > self._has_copy)
        if self.inside:
            self.lose()

    def lose(self) -> None:
        self.damaged = True
        self._changed.lost()

    def _read_record(self, payload: bytes) -> None:
        position = 0
        while position < len(payload):
            kind, length = _ENTRY.unpack_from(payload, position)
            position += _ENTRY.size
            body = payload[position : position + length]
            if len(body) != length:
                raise ValueError("an entry is cut off")
            position += length
            if kind == BEGIN:
                self.inside = True
                self._changed.begin()
            elif kind == END:
                self.inside = False
                self._changed.end()
            else:
                self._changed.apply(kind, body)


def _marked(payload: bytes) -> tuple[bytes, bytes]:
    """Split a record into the mark that tells it from its copy, and the rest."""
    mark = payload[: len(COPY)]
    return (mark, payload[len(mark) :]) if mark in (TWICE, COPY) else (b"", payload)
