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
_AGAIN_S: Final = 2.0
"""Seconds until the next try after the log could not be changed."""
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
        try:
            self._remove(self._effects.now_ns())
        except LogError as error:
            self._again("old messages could not be removed", error)
        else:
            self.watch()

    def _remove(self, now_ns: int) -> None:
        stream = self._stream
        removed = self._replace(now_ns) if stream.config.subject_delete_marker_ttl > 0 else 0
        removed += stream.log.expire(now_ns)
        if removed:
            stream.removal.notice()
            for consumer in list(stream.consumers.values()):
                consumer.trimmed()

    def _again(self, what: str, error: LogError) -> None:
        """Try again after a while what failed in the log."""
        self._effects.note.error("stream %s: %s: %s", self._stream.name, what, error)
        self._set(self._effects.now_ns() + int(_AGAIN_S * _NS))

    def watch(self) -> None:
        """Set the timer: the log has more messages, or less."""
        stream = self._stream
        try:
            due = None if stream.is_closed else stream.log.next_expiry()
        except LogError as error:
            self._again("the next expiry is not known", error)
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

    def _replace(self, now_ns: int) -> int:
        """Put markers where the last message of a subject goes; return how many messages went."""
        stream = self._stream
        removed = 0
        expired = stream.log.expired(now_ns)
        while over := list(islice(expired, _AT_ONCE)):
            newest = {subject: sequence for sequence, subject in over}
            for subject, sequence in newest.items():
                if sequence == stream.log.last_of(subject) and not self._is_marker(sequence):
                    stream.ingest.publish(self._marker(subject))
            stream.flush()
            removed += stream.log.remove(sequence for sequence, _ in over)
        return removed

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
