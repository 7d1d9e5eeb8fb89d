"""Messages that a consumer gives up, published elsewhere before they count as done. An extension.

A copy goes to the dead-letter subject with headers that say where it is from and why; it is done when a
stream has acknowledged the copy, and tried again until then. Its `Nats-Msg-Id` keeps a stream from storing
it twice. Never here: which messages are given up (`redelivery`, `acknowledger`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.errors import LogError
from headrace.jetstream.alarm import Alarm
from headrace.protocol.jetstream.foreign import read
from headrace.protocol.jetstream.headers import added, without_prefix
from headrace.protocol.jetstream.numbers import whole
from headrace.protocol.nuid import new_nuid

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.service import Delivery
    from headrace.jetstream.consumer.port import ConsumerPort

_RETRY_NS: Final = 5_000_000_000
"""The time until a copy that was not acknowledged is published again."""


class Letter(Struct, frozen=True):
    """A message that is given up; `done` is called when its copy is safe."""

    deliveries: int
    reason: str
    done: Callable[[], object]


class NoDeadLetters:
    """The place of dead letters where a consumer has no subject for them: they are forgotten."""

    def __contains__(self, sequence: int) -> bool:
        return False

    def stop(self) -> dict[int, Letter]:
        return {}

    def bury(self, _sequence: int, _deliveries: int, _reason: str, done: Callable[[], object]) -> None:
        """Call `done` at once."""
        done()


FORGOTTEN: Final = NoDeadLetters()


class DeadLetters:
    """The dead letters of one consumer: copies of messages that it gives up, until they are acknowledged."""

    def __init__(self, consumer: ConsumerPort, subject: str) -> None:
        self._consumer = consumer
        self._subject = subject.encode()
        self._inbox = f"_INBOX.{new_nuid()}.".encode()
        self._sid = consumer.account.subscribe(self._inbox + b"*", self._answered)
        self._letters: dict[int, Letter] = {}
        self._alarm = Alarm(consumer.account.turns, self._again)
        self._is_told = False

    def __contains__(self, sequence: int) -> bool:
        """True if a message is being published as a dead letter."""
        return sequence in self._letters

    def stop(self) -> dict[int, Letter]:
        """Publish no more dead letters; return those that are not acknowledged yet, by sequence."""
        self._alarm.cancel()
        self._consumer.account.unsubscribe(self._sid)
        letters, self._letters = self._letters, {}
        return letters

    def bury(self, sequence: int, deliveries: int, reason: str, done: Callable[[], object]) -> None:
        """Publish a copy of a message; `done` is called, once, when it is safe."""
        if sequence in self._letters:
            return
        self._letters[sequence] = Letter(deliveries, reason, done)
        self._consumer.redelivery.leave(sequence)
        self._publish(sequence)
        if self._letters:
            self._alarm.by(self._consumer.now_ns() + _RETRY_NS)

    def _publish(self, sequence: int) -> None:
        consumer, letter = self._consumer, self._letters[sequence]
        try:
            message = consumer.stream.log.read(sequence)
        except LogError as error:
            consumer.account.note.error("message %d for the dead letters: %s", sequence, error)
            return
        if message is None:
            self._finish(sequence)
            return
        if consumer.host.backlog(self._subject) is None:
            self._tell("nobody takes them")
            return
        stream, name = consumer.stream.name, consumer.name
        headers = added(
            without_prefix(message.headers, b"Nats-"),
            (b"Nats-Msg-Id", f"headrace.dead.{stream}.{name}.{consumer.created_ns}.{sequence}".encode()),
            (b"Headrace-Stream", stream.encode()),
            (b"Headrace-Consumer", name.encode()),
            (b"Headrace-Subject", message.subject),
            (b"Headrace-Sequence", b"%d" % sequence),
            (b"Headrace-Deliveries", b"%d" % letter.deliveries),
            (b"Headrace-Reason", " ".join(letter.reason.split()).encode()),
        )
        consumer.host.publish(
            self._subject, message.payload, reply=self._inbox + b"%d" % sequence, headers=headers
        )

    def _answered(self, delivery: Delivery) -> None:
        sequence = whole(delivery.subject.removeprefix(self._inbox))
        if sequence is None or sequence not in self._letters:
            return
        try:
            answer = read(dict[str, object], delivery.payload)
        except ValueError:
            answer = {}
        if not answer.get("seq") or "error" in answer:
            self._tell(str(answer.get("error") or "no PubAck"))
            return
        self._finish(sequence)

    def _finish(self, sequence: int) -> None:
        letter = self._letters.pop(sequence)
        self._is_told = False
        if not self._letters:
            self._alarm.cancel()
        letter.done()
        self._consumer.wake()

    def _again(self) -> None:
        for sequence in list(self._letters):
            self._publish(sequence)
        if self._letters:
            self._alarm.by(self._consumer.now_ns() + _RETRY_NS)

    def _tell(self, reason: str) -> None:
        if self._is_told:
            return
        self._is_told = True
        consumer = self._consumer
        consumer.account.note.warning(
            "JetStream consumer '%s > %s > %s': dead letters to %s wait: %s",
            consumer.account.name, consumer.stream.name, consumer.name, self._subject.decode(), reason,
        )  # fmt: skip
