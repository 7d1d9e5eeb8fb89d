"""Keyed order: at most so many messages of one subject, or of one token of it, are unacknowledged at a time.

A message whose key has its share under way is passed over, and goes out when that was acknowledged; what is
passed over is part of the consumer's state. Messages of one key so keep their order with a share of one,
while other keys go on. Never here: acknowledgements, or what comes again. An extension
(`extensions`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from headrace.errors import MessageDamaged
from headrace.jetstream.consumer.port import Outcome
from headrace.jetstream.consumer.serving import PAGE_BYTES, PAGE_MESSAGES
from headrace.log.blocking import without_waiting
from headrace.subjects.grammar import tokens

if TYPE_CHECKING:
    from headrace.jetstream.consumer.port import ConsumerPort
    from headrace.jetstream.consumer.serving import Serving
    from headrace.log.port import StoredMessage

MOST_PASSED_OVER: Final = 8192
"""Messages that may be passed over; then nothing new goes out until some of them could."""


class KeyedOrder:
    """The order of one consumer's messages by their keys."""

    def __init__(self, consumer: ConsumerPort, serving: Serving, share: int, token: int) -> None:
        self._consumer = consumer
        self._stream = consumer.stream
        self._serving = serving
        self._share = share
        self._token = token
        self._keys: dict[int, bytes] = {}
        """The keys of messages that are pending or passed over, by stream sequence."""
        self._sent: set[int] = set()
        """The sequences that were sent and are counted."""
        self._under_way: Counter[bytes] = Counter()
        self._is_read = False

    def _key(self, subject: bytes) -> bytes:
        if not self._token:
            return subject
        parts = tokens(subject)
        return parts[self._token - 1] if self._token <= len(parts) else b""

    def send(self, now: int) -> Outcome:
        """Send the messages of a page that may go out. Raises: LogError."""
        self._look()
        outcome = self._send_passed_over(now)
        if outcome is not Outcome.MORE:
            return outcome
        consumer = self._consumer
        tracker, stream = consumer.tracker, self._stream
        if tracker.position > stream.visible:
            return Outcome.END
        if len(consumer.tracker.state.held) >= MOST_PASSED_OVER:
            return Outcome.FULL
        with without_waiting():
            page = stream.log.read_from(
                tracker.position, filters=consumer.filters, max_messages=PAGE_MESSAGES, max_bytes=PAGE_BYTES,
                up_to=stream.visible + 1,
            )  # fmt: skip
        blocked = {self._keys[sequence] for sequence in consumer.tracker.state.held}
        for place, message in enumerate(page.messages):
            if consumer.tracker.is_full or len(consumer.tracker.state.held) >= MOST_PASSED_OVER:
                return Outcome.FULL
            key = self._key(message.subject)
            if key in blocked or self._under_way[key] >= self._share:
                blocked.add(key)
                self._keys[message.sequence] = key
                tracker.hold(message.sequence)
                continue
            outstanding = self._serving.outstanding()
            outcome = self._serving.send_one(page.messages, place, 1, outstanding - 1, now)
            if outcome is not Outcome.MORE:
                return outcome
            self._note(message.sequence, key, now)
        tracker.next_sequence = max(page.next_sequence, tracker.next_sequence)
        return Outcome.MORE if tracker.next_sequence <= stream.visible else Outcome.END

    def _send_passed_over(self, now: int) -> Outcome:
        consumer = self._consumer
        blocked: set[bytes] = set()
        for sequence in sorted(consumer.tracker.state.held):
            key = self._keys[sequence]
            if key in blocked or self._under_way[key] >= self._share:
                blocked.add(key)
                continue
            if consumer.tracker.is_full:
                return Outcome.FULL
            page = self._serving.read_one(sequence)
            if page is not None:
                outcome = self._serving.send_one(page.messages, 0, 1, self._serving.outstanding() - 1, now)
                if outcome is not Outcome.MORE:
                    return outcome
                self._note(sequence, key, now)
            consumer.tracker.free(sequence)
        return Outcome.MORE

    def _note(self, sequence: int, key: bytes, now: int) -> None:
        self._count(sequence, key)
        self._serving.sent_new_one(sequence, now)

    def _count(self, sequence: int, key: bytes) -> None:
        self._keys[sequence] = key
        self._sent.add(sequence)
        self._under_way[key] += 1

    def _read(self, sequence: int) -> StoredMessage | None:
        """Return a message of the stream; None if it is gone, or damaged: it holds up no other."""
        try:
            return self._stream.log.read(sequence)
        except MessageDamaged:
            return None

    def _look(self) -> None:
        """Forget what is pending no more; after a restart, read what the subjects of the others are."""
        consumer = self._consumer
        pending, held = consumer.tracker.pending, consumer.tracker.state.held
        if not self._is_read:
            self._is_read = True
            for sequence in [*pending, *held]:
                message = self._read(sequence)
                if message is not None and sequence in pending:
                    self._count(sequence, self._key(message.subject))
                elif message is not None:
                    self._keys[sequence] = self._key(message.subject)
        for sequence in [one for one in held if one not in self._keys]:
            consumer.tracker.free(sequence)
        for sequence in [one for one in self._keys if one not in pending and one not in held]:
            key = self._keys.pop(sequence)
            if sequence in self._sent:
                self._sent.remove(sequence)
                self._under_way[key] -= 1
            if not self._under_way[key]:
                del self._under_way[key]
