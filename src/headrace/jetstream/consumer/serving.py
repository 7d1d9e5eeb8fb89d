"""Sends a consumer's messages: what goes again first, then new ones, a page at a time, to whoever takes them.

Here lives the order of things in one service. Never here: to whom and how much (`DeliveryStrategy`), what
comes again (`redelivery`), what an acknowledgement does (`acknowledger`). Source: nats-server 2.15
(consumer.go: loopAndGatherMsgs, getNextMsg, deliverMsg).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.engine.jetstream import deliver
from headrace.errors import LogError
from headrace.jetstream.alarm import Alarm
from headrace.jetstream.consumer.port import Outcome
from headrace.log.blocking import NotHere, without_waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from headrace.engine.jetstream import Publications
    from headrace.engine.messages import Messages
    from headrace.jetstream.consumer.port import ConsumerPort, Receiver
    from headrace.log.port import Page, StoredMessage

PAGE_MESSAGES: Final = 1024
PAGE_BYTES: Final = 4 << 20
"""Bytes that one consumer gets before others have their turn."""
_RETRY_NS: Final = 1_000_000_000
"""The time until a stream that could not be read is tried again."""


class Serving:
    """The sending of one consumer's messages, a page at a time."""

    def __init__(self, consumer: ConsumerPort) -> None:
        self._consumer = consumer
        self._alarm = Alarm(consumer.account.turns, consumer.wake)
        self._prefix = consumer.ack_prefix
        self.skips: list[int] = []
        """Newest first: what is left of the last messages of the subjects that it begins with."""
        self._awaited: Future[None] | None = None
        """The arrival of bytes that wakes this consumer."""
        self.resume_at = 0
        """The sequence that follows on the skips."""

    def stop(self) -> None:
        self._alarm.cancel()

    def skip_no_more(self, gone: Callable[[int], bool]) -> None:
        """Drop the skips for which `gone` is true: their messages have left the stream."""
        if self.skips:
            self.skips = [sequence for sequence in self.skips if not gone(sequence)]
            if not self.skips:
                tracker = self._consumer.tracker
                tracker.next_sequence = max(tracker.next_sequence, self.resume_at)

    # -- one service -----------------------------------------------------------------------------------

    def serve(self) -> bool:
        """Send a page; return True if there is more to send at once."""
        consumer = self._consumer
        if consumer.stopped:
            return False
        now = consumer.now_ns()
        outcome = Outcome.END
        if not consumer.is_paused(now):
            if not consumer.delivery.is_asked:
                return False
            try:
                outcome = self._send_some(now)
            except LogError as error:
                outcome = self._unreadable(error)
            if outcome is Outcome.MORE:
                return consumer.delivery.is_asked
        if outcome is not Outcome.LATER:
            is_full = outcome is Outcome.FULL or (consumer.tracker.is_full and not consumer.redelivery.queue)
            consumer.delivery.rest(end=not is_full)
        return False

    def _send_some(self, now: int) -> Outcome:
        consumer = self._consumer
        if not consumer.delivery.room():
            return Outcome.LATER
        for _ in range(PAGE_MESSAGES):
            if not consumer.redelivery.queue:
                return self._send_new(now)
            outcome = self._send_again(now)
            if outcome is not Outcome.MORE:
                return outcome
        return Outcome.MORE

    def _send_new(self, now: int) -> Outcome:
        consumer = self._consumer
        if consumer.tracker.is_full:
            consumer.delivery.full()
            return Outcome.FULL
        if consumer.order is not None:
            return consumer.order.send(now)
        if self.skips:
            return self._send_skips(now)
        return self._send_page(now)

    def _unreadable(self, error: LogError) -> Outcome:
        consumer = self._consumer
        if isinstance(error, NotHere):
            if error.arrival is not self._awaited:
                self._awaited = error.arrival
                consumer.account.turns.when_here(error, consumer.wake)
            return Outcome.LATER
        consumer.account.note.error(
            "JetStream stream '%s > %s' could not be read: %s",
            consumer.account.name, consumer.stream.name, error,
        )  # fmt: skip
        self._alarm.by(consumer.now_ns() + _RETRY_NS)
        return Outcome.LATER

    # -- what goes out again ---------------------------------------------------------------------------

    def _send_again(self, now: int) -> Outcome:
        consumer = self._consumer
        if not consumer.delivery.is_asked:
            return Outcome.END
        found = consumer.redelivery.take()
        if found is None:
            return Outcome.MORE
        sequence, deliveries = found
        try:
            page = self.read_one(sequence)
            outstanding = self.outstanding()
        except LogError as error:
            consumer.redelivery.put_back(sequence)
            return self._unreadable(error)
        if page is None:
            consumer.gone(sequence, deliveries - 1)
            return Outcome.MORE
        outcome = self.send_one(page.messages, 0, deliveries, outstanding, now)
        if outcome is Outcome.MORE:
            consumer.tracker.count(sequence, deliveries - 1)
            consumer.tracker.sent_again(sequence, now)
            consumer.redelivery.sent(sequence, now)
        else:
            consumer.redelivery.put_back(sequence)
        return outcome

    def read_one(self, sequence: int) -> Page | None:
        """The page of one message; None when it is not there or cannot be read. Raises: LogError."""
        consumer = self._consumer
        with without_waiting():
            page = consumer.stream.log.read_from(sequence, max_messages=1, up_to=sequence + 1)
        if page.damaged:
            consumer.account.note.error("message %d cannot be read", sequence)
        return page if page.messages else None

    def outstanding(self) -> int:
        """Count what is still to be delivered for the first time. Raises: LogError."""
        with without_waiting():
            return self._consumer.num_pending()

    # -- new messages ----------------------------------------------------------------------------------

    def _send_skips(self, now: int) -> Outcome:
        """The newest of each subject, then everything that came after them."""
        consumer = self._consumer
        for _ in range(PAGE_MESSAGES):
            if not self.skips or consumer.tracker.is_full:
                break
            sequence = self.skips[-1]
            page = self.read_one(sequence)
            if page is not None:
                outcome = self.send_one(page.messages, 0, 1, self.outstanding() - 1, now)
                if outcome is not Outcome.MORE:
                    return outcome
                self.sent_new_one(sequence, now)
            self.skips.pop()
        if not self.skips:
            consumer.tracker.next_sequence = max(consumer.tracker.next_sequence, self.resume_at)
        return Outcome.MORE

    def _send_page(self, now: int) -> Outcome:
        consumer = self._consumer
        stream, tracker = consumer.stream, consumer.tracker
        start = tracker.position
        if start > stream.visible:
            return Outcome.END
        receiver = consumer.delivery.only()
        room = consumer.tracker.room(PAGE_MESSAGES)
        if receiver is not None:
            room = min(room, max(receiver.missing, 1))
        if not consumer.pace.is_free:
            room = 1
        with without_waiting():
            page = stream.log.read_from(
                start,
                filters=consumer.filters,
                max_messages=room,
                max_bytes=consumer.delivery.room(),
                up_to=stream.visible + 1,
            )
        count = len(page.messages)
        if not count:
            tracker.next_sequence = max(page.next_sequence, start)
            return Outcome.MORE if tracker.next_sequence <= stream.visible else Outcome.END
        whole = page.next_sequence > stream.last_sequence
        with without_waiting():
            outstanding = count if whole else consumer.pending_counter.count(start)
        if receiver is None:
            outcome, sent = self._share(page.messages, outstanding, now)
        else:
            outcome = self._may_go(page.messages, 0, now)
            sent = count if outcome is Outcome.MORE else 0
            if sent:
                self._send_run(receiver, page.messages, page.messages.sequences(), outstanding, now)
        if sent == count:
            tracker.next_sequence = page.next_sequence
        consumer.pending_counter.passed(tracker.next_sequence, sent)
        if outcome is not Outcome.MORE:
            return outcome
        return Outcome.MORE if tracker.next_sequence <= stream.visible else Outcome.END

    def fresh(self, batch: Publications, first: int) -> bool:
        """New messages go out as they come, without being read back; False when they must be."""
        consumer = self._consumer
        tracker = consumer.tracker
        if (
            consumer.redelivery.queue or consumer.filters or self.skips or consumer.order is not None
            or tracker.position != first or not consumer.pace.is_free
        ):  # fmt: skip
            return False
        now = consumer.now_ns()
        count = len(batch)
        if consumer.is_paused(now) or consumer.tracker.room(count) < count:
            return False
        receiver = consumer.delivery.only()
        if receiver is None or receiver.missing < count or receiver.no_wait:
            return False
        if batch.size >= consumer.delivery.room():
            return False
        sequences = range(first, first + count)
        self._send_run(receiver, batch, sequences, consumer.stream.last_sequence - first + 1, now)
        return True

    # -- sending ---------------------------------------------------------------------------------------

    def _send_run(
        self,
        receiver: Receiver,
        messages: Messages[Any],
        sequences: Sequence[int],
        outstanding: int,
        now: int,
    ) -> None:
        """New messages, all to one; `outstanding`: how many there are still to get with these."""
        consumer = self._consumer
        tracker = consumer.tracker
        size = deliver(
            consumer.host.outgoing, receiver.inbox, self._prefix, messages, 0, len(sequences),
            tracker.next_number, max(outstanding - 1, 0), tracker.pending if tracker.tracks else None, now,
            headers_only=consumer.config.headers_only,
        )  # fmt: skip
        consumer.host.announce()
        tracker.sent(sequences, now)
        if tracker.tracks:
            consumer.redelivery.sent(sequences[-1], now)
        elif consumer.removes_acknowledged:
            consumer.stream.acked(consumer, sequences)
        self._after(receiver, messages, len(sequences), size, now)

    def _share(self, messages: Messages[StoredMessage], outstanding: int, now: int) -> tuple[Outcome, int]:
        """Send new messages, each to the request whose turn it is; return the outcome and the number sent."""
        for place in range(len(messages)):
            if self._consumer.tracker.is_full:
                return Outcome.FULL, place
            outcome = self.send_one(messages, place, 1, outstanding - place - 1, now)
            if outcome is not Outcome.MORE:
                return outcome, place
            self.sent_new_one(messages[place].sequence, now)
        return Outcome.MORE, len(messages)

    def sent_new_one(self, sequence: int, now: int) -> None:
        """A message went out for the first time."""
        consumer = self._consumer
        consumer.tracker.sent_one(sequence, now)
        if consumer.tracker.tracks:
            consumer.redelivery.sent(sequence, now)
        elif consumer.removes_acknowledged:
            consumer.stream.acked(consumer, [sequence])

    def send_one(
        self, messages: Messages[StoredMessage], place: int, deliveries: int, outstanding: int, now: int
    ) -> Outcome:
        """One message, new or again, to whoever's turn it is. What it is counted as is the caller's to say.

        `outstanding`: messages to come after it.
        """
        consumer = self._consumer
        outcome = self._may_go(messages, place, now)
        if outcome is not Outcome.MORE:
            return outcome
        receiver = consumer.delivery.next(messages, place, deliveries, outstanding)
        if receiver is None:
            return Outcome.END
        size = deliver(
            consumer.host.outgoing, receiver.inbox, self._prefix, messages, place, 1,
            consumer.tracker.next_number, max(outstanding, 0), None, now,
            deliveries=deliveries, headers_only=consumer.config.headers_only, extra=receiver.headers,
        )  # fmt: skip
        consumer.host.announce()
        self._after(receiver, messages, 1, size, now)
        return Outcome.MORE

    def _after(
        self, receiver: Receiver, messages: Messages[StoredMessage], count: int, size: int, now: int
    ) -> None:
        consumer = self._consumer
        if not consumer.pace.is_free:
            consumer.pace.sent(messages[0].time_ns, size, now)
        consumer.delivery.sent(receiver, count, size, now)

    def _may_go(self, messages: Messages[StoredMessage], place: int, now: int) -> Outcome:
        """True if the pace lets a message go now; if not, it is arranged to go later."""
        pace = self._consumer.pace
        if pace.is_free:
            return Outcome.MORE
        message = messages[place]
        size = len(message.subject) + len(message.headers) + len(message.payload)
        wait = pace.wait_ns(message.sequence, message.time_ns, size, now)
        if not wait:
            return Outcome.MORE
        self._alarm.at(now + wait)
        return Outcome.LATER
