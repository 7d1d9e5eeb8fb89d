"""The index of an account's retained messages, which follows the stream `$MQTT_rmsgs`.

Every server follows it for itself. Payloads are kept in memory up to a bound; others are read when needed.
A record without payload says that the message is gone; the server that stored it removes it from the stream.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.engine.mqtt_topics import topic_of_subject
from headrace.engine.subject_index import SubjectIndex
from headrace.mqtt.message_headers import block, expires_at, hex_digit, qos_of
from headrace.mqtt.names import (
    DELIVER_SUBJECT,
    RETAINED,
    RETAINED_FLAGS,
    RETAINED_ORIGIN,
    RETAINED_SOURCE,
    RETAINED_SUBJECT,
    RETAINED_TOPIC,
    retained_consumer,
)
from headrace.mqtt.steps import Awaited, begin, watch
from headrace.protocol.jetstream.acks import parse_ack
from headrace.protocol.jetstream.headers import value
from headrace.protocol.nuid import new_nuid
from headrace.subjects.grammar import has_wildcard

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.core.service import Delivery
    from headrace.mqtt.ports import HubPort

MOST_INDEXED: Final = 1_000_000
"""Retained messages of one account in the index; a new subject beyond is not retained for subscribers."""
MOST_BYTES: Final = 64 << 20
"""Bytes of payloads and headers that the index keeps; those used longest ago are read again."""

_INACTIVE_NS: Final = 300_000_000_000
_MS: Final = 1_000_000


class RetainedMessage(Struct):
    """A retained message.

    `body`: headers and payload; None: they are in the stream only. `sequence` 0: not known yet.
    """

    sequence: int
    topic: bytes
    qos: int
    expires_at: int = 0
    body: tuple[bytes, bytes] | None = None


class RetainedMessages:
    """The retained messages of one account."""

    def __init__(self, account: HubPort) -> None:
        self._account = account
        self._messages: dict[bytes, RetainedMessage] = {}
        self._subjects = SubjectIndex()
        self._bodies: OrderedDict[bytes, int] = OrderedDict()
        self._bytes = 0
        self._is_full = False
        self._awaited = 0
        self._loaded: Awaited[None] | None = None
        self.sid = 0

    def __len__(self) -> int:
        return len(self._messages)

    # -- following the stream --------------------------------------------------------------------------

    async def follow(self) -> None:
        """Follow the stream from its first message on; return when all that is in it has come.

        Raises: RequestFailed.
        """
        account = self._account
        self._begin_anew()
        deliver = DELIVER_SUBJECT + new_nuid().encode()
        self.sid = account.host.subscribe(deliver)
        self._loaded = Awaited()
        config = {
            "name": retained_consumer(),
            "deliver_subject": deliver.decode(),
            "filter_subject": RETAINED_SUBJECT.decode() + ">",
            "deliver_policy": "all",
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": _INACTIVE_NS,
        }
        try:
            made = await account.requests.create_consumer(RETAINED, config)
        except Exception:
            account.host.unsubscribe(self.sid)
            self.sid = 0
            raise
        self._awaited += made.num_pending
        if self._awaited <= 0:
            self._loaded.give(None)
            return
        account.after(account.requests.timeout, self._loading_ends)
        await self._loaded

    def _begin_anew(self) -> None:
        """Forget everything: the stream is another one, or not known yet."""
        if self.sid:
            self._account.host.unsubscribe(self.sid)
            self.sid = 0
        self._messages.clear()
        self._subjects.clear()
        self._bodies.clear()
        self._bytes = self._awaited = 0

    def _loading_ends(self) -> None:
        """Go on with what has come, late as the rest may be."""
        assert self._loaded is not None
        if not self._loaded.is_done:
            self._account.log.warning(
                "MQTT: not all retained messages have come in time: %d left", self._awaited
            )
            self._loaded.give(None)

    def heard(self, delivery: Delivery) -> None:
        """Take a record that the stream delivers."""
        ack = parse_ack(delivery.reply)
        subject = delivery.subject.removeprefix(RETAINED_SUBJECT)
        if ack is not None and subject:
            if delivery.payload:
                self._put(subject, ack.stream_sequence, delivery.headers, delivery.payload)
            else:
                self._remove(subject)
                if value(delivery.headers, RETAINED_ORIGIN) == self._account.server_hash.encode():
                    self.delete_record(ack.stream_sequence)
        self._awaited -= 1
        if self._awaited <= 0 and self._loaded is not None and ack is not None and not ack.pending:
            self._loaded.give(None)

    def delete_record(self, sequence: int) -> None:
        """Remove a record from the stream; nobody waits for it."""
        watch(begin(self._account.requests.remove(RETAINED, sequence)), self._account.failed)

    # -- storing ---------------------------------------------------------------------------------------

    async def store(
        self, subject: bytes, topic: bytes, flags: int, payload: bytes, *, user: str, more: bytes
    ) -> None:
        """Keep a message, or forget the one that is kept if there is no payload.

        Subscribers see the change from this call on. `more`: whole header lines. Raises: RequestFailed.
        """
        headers = record_headers(topic, flags, self._account.server_hash, user, more)
        if payload:
            self._put(subject, 0, headers, payload)
        else:
            self._remove(subject)
        await self._account.requests.store(RETAINED_SUBJECT + subject, headers, payload)

    # -- reading ---------------------------------------------------------------------------------------

    def matching(self, pattern: bytes) -> list[tuple[bytes, RetainedMessage]]:
        """Return the messages on subjects that match, with their subjects, but for expired ones."""
        now = self._account.host.now_ns() // _MS
        found = []
        for subject in self._matching_subjects(pattern):
            message = self._messages[subject]
            if message.expires_at and message.expires_at <= now:
                self._expire(subject, message)
            else:
                found.append((subject, message))
        return found

    async def body(self, subject: bytes, message: RetainedMessage) -> tuple[bytes, bytes] | None:
        """Return headers and payload; None if the message is gone meanwhile. Raises: RequestFailed."""
        if message.body is not None:
            self._bodies.move_to_end(subject, last=True)
            return message.body
        found = await self._account.requests.load(RETAINED, message.sequence)
        return None if found is None or not found.payload else (found.headers, found.payload)

    def _matching_subjects(self, pattern: bytes) -> list[bytes]:
        if has_wildcard(pattern):
            return list(self._pages(pattern))
        return [pattern] if pattern in self._messages else []

    def _pages(self, pattern: bytes) -> Iterator[bytes]:
        start = 0
        while True:
            page, total = self._subjects.matching(pattern, start, 1000)
            yield from page
            start += len(page)
            if not page or start >= total:
                return

    # -- the index -------------------------------------------------------------------------------------

    def _put(self, subject: bytes, sequence: int, headers: bytes, payload: bytes) -> None:
        message = self._messages.get(subject)
        if message is None:
            if len(self._messages) >= MOST_INDEXED:
                self._tell_full()
                return
            message = self._messages[subject] = RetainedMessage(0, b"", 0)
            self._subjects.add(subject, 1)
        self._forget_body(subject, message)
        message.sequence = sequence
        message.topic = value(headers, RETAINED_TOPIC) or topic_of_subject(subject)
        message.qos = min(qos_of(hex_digit(value(headers, RETAINED_FLAGS))), 2)
        message.expires_at = expires_at(headers)
        message.body = (headers, payload)
        self._bodies[subject] = len(headers) + len(payload)
        self._bytes += len(headers) + len(payload)
        self._shrink()

    def _shrink(self) -> None:
        """Keep fewer payloads; one whose sequence is not known yet stays, since nobody could read it."""
        tries = len(self._bodies)
        while self._bytes > MOST_BYTES and tries:
            tries -= 1
            subject = next(iter(self._bodies))
            message = self._messages[subject]
            if message.sequence:
                self._forget_body(subject, message)
            else:
                self._bodies.move_to_end(subject)

    def _forget_body(self, subject: bytes, message: RetainedMessage) -> None:
        self._bytes -= self._bodies.pop(subject, 0)
        message.body = None

    def _remove(self, subject: bytes) -> None:
        message = self._messages.pop(subject, None)
        if message is not None:
            self._forget_body(subject, message)
            self._subjects.remove(subject, 1, 0)

    def _expire(self, subject: bytes, message: RetainedMessage) -> None:
        self._remove(subject)
        if message.sequence:
            self.delete_record(message.sequence)

    def _tell_full(self) -> None:
        if not self._is_full:
            self._is_full = True
            self._account.log.warning(
                "MQTT: more than %d retained messages: others are stored, but not sent to new subscribers",
                MOST_INDEXED,
            )


def record_headers(topic: bytes, flags: int, origin: str, user: str, more: bytes = b"") -> bytes:
    """Return the header block of the record of a retained message."""
    lines = [
        (RETAINED_TOPIC, topic),
        (RETAINED_FLAGS, b"%x" % (flags & 0xF)),
        (RETAINED_ORIGIN, origin.encode()),
    ]
    if user:
        lines.append((RETAINED_SOURCE, user.encode()))
    return block(*lines, more=more)
