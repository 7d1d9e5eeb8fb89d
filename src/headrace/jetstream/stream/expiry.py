"""Messages that have lived long enough, and the markers that say so where a subject has none left.

Here lives when a stream looks for them; which they are is the log's. A marker is stored before what it stands
for is removed, so that no crash lets both be missing. Source: JetStream specification, 8.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from headrace.errors import LogError, MessageDamaged
from headrace.jetstream.stream.publication import Publication, PublicationKind
from headrace.protocol.durations import format_ns
from headrace.protocol.jetstream import headers as hdr

if TYPE_CHECKING:
    from headrace.core.service import Timer
    from headrace.jetstream.ports import Effects, StreamPort

REASON: Final = b"Nats-Marker-Reason"
_OPERATION: Final = b"KV-Operation"
_PURGE: Final = b"PURGE"
_NS: Final = 1_000_000_000
_SOONEST_S: Final = 0.05
"""Messages expire together when they do so within this time: a timer for each would be most of the work."""
_AGAIN_NS: Final = 2 * _NS
"""Nanoseconds until the next try after the log could not be changed."""
_AT_ONCE: Final = 10_000


class Expiry:
    """The expiry of one stream's messages: by the stream's limit on age, and by their own TTL."""

    def __init__(self, stream: StreamPort, effects: Effects) -> None:
        self._stream = stream
        self._effects = effects
        self._timer: Timer | None = None
        self._due_ns = 0

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def run(self) -> None:
        """Remove what is over its age."""
        now = self._effects.now_ns()
        try:
            is_done = self._remove(now)
        except LogError as error:
            self._failed("old messages could not be removed", error)
            return
        if is_done:
            self.watch()
        else:
            self._set(now + _AGAIN_NS)

    def _remove(self, now_ns: int) -> bool:
        """Remove what is over its age; return False if some stays until its marker can be stored."""
        stream = self._stream
        removed, waiting = self._replace(now_ns) if stream.config.subject_delete_marker_ttl > 0 else (0, 0)
        if not waiting:
            removed += stream.log.expire(now_ns)
        if removed:
            stream.removal.notice()
            for consumer in list(stream.consumers.values()):
                consumer.trimmed()
        return not waiting

    def _failed(self, what: str, error: LogError) -> None:
        """Say what failed in the log; it is tried again after a while."""
        self._effects.note.error("stream %s: %s: %s", self._stream.name, what, error)
        self._set(self._effects.now_ns() + _AGAIN_NS)

    def watch(self) -> None:
        """Set the timer: the log has more messages, or less."""
        stream = self._stream
        try:
            due = None if stream.is_closed else stream.log.next_expiry()
        except LogError as error:
            self._failed("the next expiry is not known", error)
            return
        if due is not None and (self._timer is None or due < self._due_ns):
            self._set(due)

    def _set(self, due_ns: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due_ns = due_ns
        effects = self._effects
        self._timer = effects.later(max((due_ns - effects.now_ns()) / _NS, _SOONEST_S), self._fire)

    def _fire(self) -> None:
        self._timer = None
        self.run()

    def _replace(self, now_ns: int) -> tuple[int, int]:
        """Put markers where the last message of a subject goes.

        Returns how many messages went, and how many stay because their marker is not stored: it was refused.
        """
        stream = self._stream
        removed = waiting = 0
        expired = stream.log.expired(now_ns)
        while over := list(islice(expired, _AT_ONCE)):
            newest = {subject: sequence for sequence, subject in over}
            markers: dict[int, Publication] = {}
            for subject, sequence in newest.items():
                if sequence == stream.log.last_of(subject) and not self._is_marker(sequence):
                    marker = markers[sequence] = self._marker(subject)
                    stream.ingest.publish(marker)
            stream.flush()
            stay = {sequence for sequence, marker in markers.items() if not marker.sequence}
            removed += stream.log.remove(sequence for sequence, _ in over if sequence not in stay)
            waiting += len(stay)
        return removed, waiting

    def _is_marker(self, sequence: int) -> bool:
        """True if a message itself says that its subject is empty, like a key-value store's purge marker.

        One that is damaged says nothing.
        """
        try:
            message = self._stream.log.read(sequence)
        except MessageDamaged:
            return False
        if message is None or hdr.value(message.headers, REASON):
            return True
        return hdr.value(message.headers, _OPERATION) == _PURGE

    def _marker(self, subject: bytes) -> Publication:
        lifetime = format_ns(self._stream.config.subject_delete_marker_ttl // _NS * _NS).encode()
        lines = (REASON, b"MaxAge"), (hdr.TTL, lifetime), (hdr.ROLLUP, b"sub")
        return Publication(subject, headers=hdr.added(b"", *lines), kind=PublicationKind.MARKER)
