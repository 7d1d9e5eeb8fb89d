"""The acknowledger of a consumer: single, all up to one, negative, in progress, terminated, next.

Never here: reading them off the wire (`engine.jetstream`, `protocol.jetstream.acks`), or sending again
(`redelivery`). Source: JetStream specification, 4; nats-server 2.15 (consumer.go: processAck).
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from headrace.engine.jetstream import settle
from headrace.jetstream.consumer.rules import sample_percentage
from headrace.protocol.jetstream.acks import AckKind, nak_delay, parse_ack, parse_body
from headrace.protocol.jetstream.configs import AckPolicy
from headrace.protocol.jetstream.headers import value
from headrace.protocol.jetstream.numbers import whole

if TYPE_CHECKING:
    from headrace.core.service import Delivery
    from headrace.engine.jetstream import Acks
    from headrace.jetstream.consumer.port import ConsumerPort
    from headrace.protocol.jetstream.configs import ConsumerConfig

_ALL_SAMPLES: Final = 100
_NOT_ACKNOWLEDGED: Final = (AckPolicy.NONE, AckPolicy.FLOW_CONTROL)
_NO_RESPONDERS: Final = b"NATS/1.0 503\r\n\r\n"


class Acknowledger:
    """The acknowledgements of one consumer, and what each kind does."""

    def __init__(self, consumer: ConsumerPort) -> None:
        self._consumer = consumer
        self.configure(consumer.config)

    def configure(self, config: ConsumerConfig) -> None:
        self._samples = sample_percentage(config.sample_freq)

    # -- plain ones ------------------------------------------------------------------------------------

    def acknowledged(self, acks: Acks) -> None:
        """Take all of `acks`, in order, and empty it."""
        consumer = self._consumer
        state = consumer.tracker
        if not len(acks):
            return
        if consumer.stopped or consumer.config.ack_policy in _NOT_ACKNOWLEDGED:
            for reply in acks.replies():
                self._refuse(reply)
            acks.clear()
            return
        consumer.tracker.active_ns = consumer.now_ns()
        if state.all or self._samples or state.redelivered:
            each = list(acks)
            acks.clear()
            for sequence, number, deliveries, reply in each:
                self._one(sequence, number, deliveries, reply)
            return
        was_full = consumer.tracker.is_full
        replies = [reply for sequence, _, _, reply in acks if reply and sequence < state.next_sequence] if (
            acks.replies()
        ) else []  # fmt: skip
        done: list[int] = []
        settle(acks, state.pending, done)
        state.settled(done, consumer.now_ns())
        consumer.redelivery.forget_all(done)
        self._after(done, replies, was_full=was_full)

    def _after(self, done: list[int], replies: list[bytes], *, was_full: bool) -> None:
        consumer = self._consumer
        if done and consumer.removes_acknowledged:
            consumer.stream.acked(consumer, done)
        if replies:
            # Those of this turn alone: what comes while it is made durable waits for the next commit.
            consumer.account.journal.confirm(replies)
        if consumer.order is not None or (was_full and not consumer.tracker.is_full):
            consumer.wake()

    def _refuse(self, reply: bytes) -> None:
        """Answer an acknowledgement with no responders: the Go server has no subscription for it then."""
        self._consumer.host.publish(reply, b"", headers=_NO_RESPONDERS)

    def _one(
        self, sequence: int, number: int, deliveries: int, reply: bytes, *, sampled: bool = True
    ) -> bool:
        """Apply one acknowledgement; return True if it was for a message that this consumer has delivered."""
        consumer = self._consumer
        state = consumer.tracker
        if sequence >= state.next_sequence and not consumer.config.flow_control:
            return False
        was_full = consumer.tracker.is_full
        if state.all:
            done = self._all(sequence, number)
        else:
            done = self._explicit(sequence, number, deliveries, sampled=sampled)
        self._after(done, [reply] if reply else [], was_full=was_full)
        return True

    def _explicit(self, sequence: int, number: int, deliveries: int, *, sampled: bool) -> list[int]:
        consumer = self._consumer
        state = consumer.tracker
        state.uncount(sequence)
        consumer.redelivery.forget(sequence)
        if sequence not in state.pending:
            state.settled([], consumer.now_ns())
            return [sequence] if consumer.removes_acknowledged else []
        if sampled and self._samples and secrets.randbelow(_ALL_SAMPLES) <= self._samples:
            consumer.advisories.sampled(
                sequence, number, deliveries, consumer.now_ns() - state.pending[sequence][1]
            )
        del state.pending[sequence]
        state.settled([sequence], consumer.now_ns())
        return [sequence]

    def _all(self, sequence: int, number: int) -> list[int]:
        """Acknowledge every message up to this one; return their sequences, none if this one is acknowledged
        already.
        """
        consumer = self._consumer
        state = consumer.tracker
        if number <= state.floor_consumer or sequence <= state.floor_stream:
            return []
        number = min(number, state.next_number - 1)
        gone = state.settle_up_to(number, sequence, consumer.now_ns())
        consumer.redelivery.forget_all(gone)
        if sequence not in gone:
            gone.append(sequence)
        return gone

    def flow_response(self, delivery: Delivery) -> None:
        """A client answers flow control; it may have processed everything up to what it says."""
        consumer = self._consumer
        if not consumer.delivery.answered(delivery.subject) or not consumer.tracker.by_flow:
            return
        sequence = whole(value(delivery.headers, b"Nats-Last-Stream"))
        if sequence:
            number = whole(value(delivery.headers, b"Nats-Last-Consumer")) or 0
            self._one(sequence, number, 1, b"", sampled=False)

    def drop(self, sequence: int, number: int, deliveries: int, reason: str) -> None:
        """A message that was pending is gone: as if it had been terminated, it alone."""
        consumer = self._consumer
        if consumer.tracker.all:  # the Go server takes it for an acknowledgement of everything before it
            consumer.redelivery.forget(sequence)
            consumer.tracker.forget(sequence)
            consumer.tracker.uncount(sequence)
            consumer.tracker.acknowledged_ns = consumer.now_ns()
            consumer.wake()
        else:
            self._one(sequence, number, deliveries, b"", sampled=False)
        self._consumer.advisories.terminated(sequence, number, deliveries, reason)

    # -- those that say more ---------------------------------------------------------------------------

    def special(self, delivery: Delivery) -> None:
        """An acknowledgement that is more than one."""
        consumer = self._consumer
        self.acknowledged(consumer.acks)
        subject = parse_ack(delivery.subject)
        if subject is None:
            return
        if consumer.stopped or consumer.config.ack_policy in _NOT_ACKNOWLEDGED:
            if delivery.reply:
                self._refuse(delivery.reply)
            return
        consumer.tracker.active_ns = consumer.now_ns()
        sequence, number = subject.stream_sequence, subject.consumer_sequence
        deliveries, reply = subject.deliveries, delivery.reply
        body = parse_body(delivery.payload)
        match body.kind:
            case AckKind.ACK:
                self._one(sequence, number, deliveries, reply)
                return
            case AckKind.NEXT:
                self._one(sequence, number, deliveries, b"")
                consumer.delivery.pull(reply, body.argument)
                return
            case AckKind.TERMINATE:
                self.terminate(sequence, number, deliveries, body.argument.decode("utf-8", "replace"), reply)
                return
            case AckKind.NEGATIVE:
                self._negative(sequence, number, deliveries, body.argument)
            case AckKind.PROGRESS:
                self._progress(sequence)
        if reply:
            consumer.host.publish(reply, b"")

    def _progress(self, sequence: int) -> None:
        consumer = self._consumer
        if sequence in consumer.tracker.pending:
            now = consumer.now_ns()
            consumer.redelivery.progress(sequence, now)
            consumer.tracker.delivered_ns = now

    def _negative(self, sequence: int, number: int, deliveries: int, argument: bytes) -> None:
        consumer = self._consumer
        state = consumer.tracker
        if not state.floor_consumer < number <= state.next_number or sequence not in state.pending:
            return
        consumer.advisories.negative(sequence, number, deliveries)
        if argument:
            try:
                delay = nak_delay(argument)
            except ValueError:
                consumer.account.note.warning(
                    "JetStream consumer '%s > %s > %s' bad NAK delay value: %r",
                    consumer.account.name, consumer.stream.name, consumer.name, argument,
                )  # fmt: skip
            else:
                consumer.redelivery.delay(sequence, max(delay, 0), consumer.now_ns())
                state.delivered_ns = consumer.now_ns()
                return
        consumer.redelivery.again(sequence)

    def terminate(self, sequence: int, number: int, deliveries: int, reason: str, reply: bytes) -> None:
        """Take a message out of delivery for good: an acknowledgement, but for its advisory."""
        consumer = self._consumer

        def done() -> None:
            self._one(sequence, number, deliveries, reply, sampled=False)

        if sequence in consumer.tracker.pending:
            consumer.dead_letters.bury(sequence, deliveries, reason or "terminated", done)
        else:
            done()
        consumer.advisories.terminated(sequence, number, deliveries, reason)
