"""The schedules of one stream: kept by their subject, with one timer for the next that is due.

What a schedule is and produces is `schedules`'. Nothing is written here: a schedule is the last message of
its subject, and the stream's messages are read again at a start. Source: JetStream specification, 8.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.errors import LogError
from headrace.jetstream.schedule import schedules
from headrace.jetstream.stream.features import Feature
from headrace.jetstream.stream.publication import Publication, PublicationKind
from headrace.protocol.jetstream import headers as block
from headrace.protocol.jetstream.errors import ApiError

if TYPE_CHECKING:
    from headrace.core.service import Timer
    from headrace.jetstream.ports import Effects, StreamPort
    from headrace.log.port import StoredMessage

_AGAIN_NS: Final = 10_000_000_000
"""Nanoseconds until a message that could not be published is tried again."""
_MOST_AT_ONCE: Final = 256
"""Schedules of one turn; what is due besides comes with the next tick."""
_SLACK: Final = 64
_SECOND_NS: Final = 1_000_000_000


class _Entry(NamedTuple):
    sequence: int
    due_ns: int


class Scheduler(Feature):
    """Idle until the configuration allows schedules."""

    def __init__(self, stream: StreamPort, effects: Effects) -> None:
        self._stream = stream
        self._effects = effects
        self._is_on = False
        self._entries: dict[bytes, _Entry] = {}
        self._queue: list[tuple[int, bytes]] = []
        """A heap of (due, subject), with some that were moved or are gone."""
        self._timer: Timer | None = None
        self._armed_ns = 0

    # -- as messages come ------------------------------------------------------------------------------

    def stored(self, publication: Publication, sequence: int, time_ns: int) -> None:
        if self._is_on:
            self._note(publication.subject, publication.headers, sequence, time_ns)
            self._arm()

    def _note(self, subject: bytes, headers: bytes, sequence: int, time_ns: int) -> None:
        due = _due(headers, time_ns, self._effects.now_ns())
        if due is not None:
            self._put(subject, _Entry(sequence, due.time_ns))
        elif not block.value(headers, schedules.SCHEDULER):
            self._entries.pop(subject, None)
        ended = schedules.purged_by(headers)
        if ended:
            self._entries.pop(ended, None)
        moved = schedules.moved_by(headers)
        if moved is not None and (entry := self._entries.get(moved[0])):
            self._put(moved[0], _Entry(entry.sequence, moved[1]))

    def _put(self, subject: bytes, entry: _Entry) -> None:
        self._entries[subject] = entry
        heapq.heappush(self._queue, (entry.due_ns, subject))
        if len(self._queue) > 2 * len(self._entries) + _SLACK:
            self._queue = [(entry.due_ns, subject) for subject, entry in self._entries.items()]
            heapq.heapify(self._queue)

    # -- life ------------------------------------------------------------------------------------------

    def configured(self) -> None:
        allows = self._stream.config.allow_msg_schedules
        if allows and not self._is_on:
            self._recover()
            self._is_on = True
            self._arm()
        elif not allows:
            self.stop()

    def stop(self) -> None:
        self._is_on = False
        self._entries.clear()
        self._queue.clear()
        self._disarm()

    def _recover(self) -> None:
        """Read the stream. What a repeating schedule missed is skipped; what was due once is made up for."""
        log = self._stream.log
        sequence = log.state().first_sequence
        while sequence <= log.state().last_sequence:
            page = log.read_from(sequence)
            for message in page.messages:
                if message.headers or message.subject in self._entries:
                    self._note(message.subject, message.headers, message.sequence, message.time_ns)
            sequence = page.next_sequence

    # -- when one is due -------------------------------------------------------------------------------

    def _arm(self) -> None:
        while self._queue and not self._is_current(*self._queue[0]):
            heapq.heappop(self._queue)
        if not self._queue:
            self._disarm()
            return
        due_ns = self._queue[0][0]
        if self._timer is not None and self._armed_ns <= due_ns:
            return
        self._disarm()
        effects = self._effects
        self._armed_ns = due_ns
        self._timer = effects.later(max(due_ns - effects.now_ns(), 0) / _SECOND_NS, self._run)

    def _is_current(self, due_ns: int, subject: bytes) -> bool:
        entry = self._entries.get(subject)
        return entry is not None and entry.due_ns == due_ns

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run(self) -> None:
        """Publish what is due, in the order of the schedules' messages."""
        self._timer = None
        now_ns = self._effects.now_ns()
        due: dict[bytes, _Entry] = {}
        while self._queue and self._queue[0][0] <= now_ns and len(due) < _MOST_AT_ONCE:
            due_ns, subject = heapq.heappop(self._queue)
            if self._is_current(due_ns, subject):
                due[subject] = self._entries[subject]
        for subject, entry in sorted(due.items(), key=lambda item: item[1].sequence):
            self._fire(subject, entry, now_ns)
        self._stream.flush()
        self._arm()

    def _fire(self, subject: bytes, entry: _Entry, now_ns: int) -> None:
        firing = self._firing(subject, entry, now_ns)
        if firing is None:  # it is gone, or says nothing
            self._entries.pop(subject, None)
            return
        # Until what it produces is stored, which moves or ends it, it is tried again only after a while.
        self._put(subject, _Entry(entry.sequence, now_ns + _AGAIN_NS))
        made = Publication(firing.subject, firing.payload, firing.headers, kind=PublicationKind.SOURCED)
        self._stream.ingest.publish(made)

    def _firing(self, subject: bytes, entry: _Entry, now_ns: int) -> schedules.Firing | None:
        log = self._stream.log
        try:
            message = log.read(entry.sequence) if log.last_of(subject) == entry.sequence else None
            if message is None:
                return None
            due = _due(message.headers, entry.due_ns, now_ns)
            if due is None:
                return None
            return schedules.produced(message, self._content(message), due)
        except LogError as error:
            self._effects.note.error("stream %s: a schedule cannot be read: %s", self._stream.name, error)
            return None

    def _content(self, message: StoredMessage) -> StoredMessage | None:
        source = block.value(message.headers, schedules.SOURCE)
        return self._stream.log.last(source) if source else None


def _due(headers: bytes, from_ns: int, now_ns: int) -> schedules.Due | None:
    """Return when a message's schedule is due; None also for a schedule that cannot be read, which a mirror
    may hold.
    """
    if not headers:
        return None
    try:
        return schedules.due_after(headers, from_ns, now_ns)
    except ApiError:
        return None
