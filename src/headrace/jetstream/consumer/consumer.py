"""A consumer: a view of a stream that knows how far its clients are.

Composes an acknowledgement machine (what is outstanding, acknowledged, sent again: `ack_state`,
`acknowledger`, `redelivery`) with a strategy of delivery (`pull_delivery` or `push_delivery`) and the sending
(`serving`). Callers hold the parts that they need. Here live its life, its configuration and what becomes of
the messages of its stream. Never here: a subscription, the journal, or the rules that a configuration was
checked by. Source: JetStream specification, 4 and 5; nats-server 2.15.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from headrace.engine.jetstream import Acks
from headrace.jetstream.alarm import Alarm
from headrace.jetstream.consumer.ack_state import AckState, ConsumerState
from headrace.jetstream.consumer.acknowledger import Acknowledger
from headrace.jetstream.consumer.advisories import ConsumerAdvisories
from headrace.jetstream.consumer.dead_letters import FORGOTTEN, DeadLetters, NoDeadLetters
from headrace.jetstream.consumer.deliver_policy import last_per_subject, starting_sequence
from headrace.jetstream.consumer.extensions import extensions_of
from headrace.jetstream.consumer.inactivity import Inactivity
from headrace.jetstream.consumer.info import consumer_info
from headrace.jetstream.consumer.keyed_order import KeyedOrder
from headrace.jetstream.consumer.pace import Pace
from headrace.jetstream.consumer.pending_counter import PendingCounter
from headrace.jetstream.consumer.pull_delivery import PullDelivery
from headrace.jetstream.consumer.push_delivery import PushDelivery
from headrace.jetstream.consumer.redelivery import Redelivery
from headrace.jetstream.consumer.rules import filters
from headrace.jetstream.consumer.serving import Serving
from headrace.protocol.jetstream.configs import (
    AckPolicy,
    DeliverPolicy,
    ReplayPolicy,
    RetentionPolicy,
    Storage,
)
from headrace.protocol.jetstream.errors import ApiError
from headrace.protocol.jetstream.levels import asks_too_much
from headrace.protocol.jetstream.times import to_ns
from headrace.subjects.grammar import is_subset, matches, overlaps

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.service import Delivery
    from headrace.engine.jetstream import Publications
    from headrace.jetstream.consumer.port import DeliveryStrategy, Watch
    from headrace.jetstream.ports import StreamView
    from headrace.protocol.jetstream.configs import ConsumerConfig

_EVERYTHING: Final = b">"


def filters_of(config: ConsumerConfig) -> tuple[bytes, ...]:
    """The subjects that a consumer gets; empty: all."""
    subjects = tuple(subject.encode() for subject in filters(config))
    return () if _EVERYTHING in subjects else subjects


P = TypeVar("P")


class _Part(Generic[P]):
    """A part that only a consumer in use needs.

    It is made at its first use, since most consumers have no client.
    """

    def __init__(self, make: Callable[[Consumer], P]) -> None:
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, consumer: Consumer, owner: type) -> P:
        part = vars(consumer)[self._name] = self._make(consumer)
        return part


def _redelivery_of(consumer: Consumer) -> Redelivery:
    return Redelivery(consumer.turns, consumer.tracker, consumer.config, consumer.wake, consumer._exhausted)


def _inactivity_of(consumer: Consumer) -> Watch:
    return consumer.delivery.inactivity()


def _pause_of(consumer: Consumer) -> Alarm:
    return Alarm(consumer.turns, consumer._unpaused)


class Consumer:
    """A consumer of a stream: an acknowledgement machine with a strategy of delivery.

    `tracker.identity` is its account's number for it, by which the journal knows it.
    """

    redelivery = _Part(_redelivery_of)
    serving = _Part(Serving)
    acknowledger = _Part(Acknowledger)
    _inactivity = _Part(_inactivity_of)
    _pause = _Part(_pause_of)
    pace: Pace
    """The pace of its messages, from the start on."""

    def __init__(
        self,
        stream: StreamView,
        config: ConsumerConfig,
        name: str,
        created_ns: int,
        state: ConsumerState | None = None,
    ) -> None:
        self.stream = stream
        self.account = stream.account
        self.host = self.account.host
        self.config = config
        self.name = name
        self.created_ns = created_ns
        self.stopped = False
        self._is_new = state is None
        self._is_started = False
        self.state: Final = state or ConsumerState()
        self.acks: Final = Acks(self)
        """The list into which `sort_acks` puts acknowledgements for this consumer."""
        turns = self.turns = self.account.turns
        self.now_ns: Final = turns.now_ns
        self.filters = filters_of(config)
        self.advisories = ConsumerAdvisories(self.account, stream.name, name)
        self.tracker = AckState(config.ack_policy, self.state, self.account.journal.deltas)
        self.tracker.epoch = stream.epoch
        self.pending_counter = PendingCounter(stream, self.filters)
        self.delivery: Final[DeliveryStrategy[Any]] = (
            PushDelivery(self) if config.deliver_subject else PullDelivery(self)
        )
        self.order: KeyedOrder | None = None
        self.dead_letters: DeadLetters | NoDeadLetters = FORGOTTEN
        self._read_config()

    def _read_config(self) -> None:
        config = self.config
        tracks = config.ack_policy is not AckPolicy.NONE
        self.tracker.most_pending = max(config.max_ack_pending, 0) if tracks else 0
        self.tracker.is_stored = (
            self.stream.config.storage is Storage.FILE and not config.mem_storage and not config.direct
        )
        self.paused_until_ns = to_ns(config.pause_until) if config.pause_until else 0
        self.stream_changed()

    def stream_changed(self) -> None:
        """The configuration of the stream, or its own, is another one."""
        self.removes_acknowledged = self.stream.config.retention is not RetentionPolicy.LIMITS
        """True if the stream must know which messages were acknowledged."""
        self.tracker.settles_alone = (
            not self.stopped
            and self.order is None
            and self.config.ack_policy is AckPolicy.EXPLICIT
            and not self.config.sample_freq
        )
        self.tracker.acked = partial(self.stream.acked, self) if self.removes_acknowledged else None

    # -- life ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin where its deliver policy says, or go on from its state. Raises: LogError."""
        stream = self.stream
        if self._is_new:
            self._begin()
        else:
            self.redelivery.restored()
            if self.config.sourcing:
                self.reset()
        burst = stream.config.max_msg_size if stream.config.max_msg_size > 0 else self.host.max_payload
        replay = self.config.replay_policy is ReplayPolicy.ORIGINAL
        self.pace = Pace(self.config.rate_limit_bps, burst, stream.last_sequence if replay else 0)
        self.tracker.active_ns = self.now_ns()
        if Inactivity.is_watched(self.config):
            self._inactivity.start()
        self._extend()
        self._arm_pause()
        self._is_started = True
        self.delivery.start()

    def _extend(self) -> None:
        """Set up the extensions that the metadata asks for."""
        wanted = extensions_of(self.config)
        waiting = self.dead_letters.stop()
        self.dead_letters = DeadLetters(self, wanted.dead_letters) if wanted.dead_letters else FORGOTTEN
        self.order = (
            KeyedOrder(self, self.serving, wanted.per_subject, wanted.token) if wanted.per_subject else None
        )
        self.stream_changed()
        for sequence, letter in waiting.items():
            self.dead_letters.bury(sequence, letter.deliveries, letter.reason, letter.done)

    def _begin(self) -> None:
        log = self.stream.log
        policy = self.config.deliver_policy
        if policy is DeliverPolicy.LAST_PER_SUBJECT and self.stream.config.max_msgs_per_subject != 1:
            newest = last_per_subject(log, self.filters)
            last = log.state().last_sequence
            self.serving.skips = newest[::-1]
            self.serving.resume_at = last + 1
            self.tracker.begin_at(newest[0] if newest else max(last, log.state().first_sequence, 1))
        else:
            self.tracker.begin_at(max(starting_sequence(self.config, log, self.filters), 1))
        self._is_new = False

    def stop(self, reason: str = "") -> None:
        """Stop the delivery.

        Clients that wait are told the reason: the server ends ("shutdown"), another one goes on
        ("leadership"), or the consumer is deleted.
        """
        if self.stopped:
            return
        self.stopped = True
        self.tracker.settles_alone = False
        self.tracker.acked = None
        self.delivery.stop(reason)
        self.dead_letters.stop()
        made = vars(self)
        for name in ("redelivery", "serving", "_inactivity"):
            if name in made:
                made[name].stop()
        if "_pause" in made:
            self._pause.cancel()

    def update(self, config: ConsumerConfig) -> None:
        """Take over a configuration that may be taken over. Raises: LogError."""
        old, self.config = self.config, config
        self._read_config()
        self.acknowledger.configure(config)
        self.redelivery.configure(config)
        self.delivery.configure(config)
        if (config.ack_wait, config.backoff) != (old.ack_wait, old.backoff):
            self.redelivery.rearm()
        self.pace.limit(config.rate_limit_bps)
        if config.inactive_threshold != old.inactive_threshold:
            self._inactivity.start()
        if config.pause_until != old.pause_until:
            self._arm_pause()
            self.advisories.paused(self.paused_until_ns, is_paused=self.is_paused(self.now_ns()))
        if config.metadata != old.metadata:
            self._extend()
        subjects = filters_of(config)
        if subjects != self.filters:
            self.filters = subjects
            self.pending_counter.filter(subjects)
            self.stream.ingest.interest_changed()
        if config.sourcing:  # whoever reads through it begins anew where it is safe
            self.reset()
        self.wake()

    def reset(self, sequence: int = 0) -> int:
        """Go back to the first unacknowledged message, or to a sequence; return where it reads on.

        Raises: ApiError where its deliver policy does not allow that.
        """
        config = self.config
        if not sequence:
            sequence = self.tracker.floor_stream + 1
        elif config.deliver_policy is DeliverPolicy.BY_START_SEQUENCE:
            if sequence < config.opt_start_seq:
                raise ApiError(10204, err="below start seq")
        elif config.deliver_policy is DeliverPolicy.BY_START_TIME and config.opt_start_time:
            if sequence < self.stream.log.sequence_at(to_ns(config.opt_start_time)):
                raise ApiError(10204, err="below start time")
        elif config.deliver_policy is not DeliverPolicy.ALL:
            raise ApiError(10204, err="not allowed")
        sequence = max(sequence, 1)
        self.redelivery.clear()
        self.serving.skips.clear()
        self.tracker.begin_at(sequence)
        self.wake()
        return sequence

    # -- what the account passes on --------------------------------------------------------------------

    def wake(self) -> None:
        if not self.stopped:
            self.account.wake(self)

    def serve(self) -> bool:
        """Send one page; return True if there is more to send at once."""
        if not self.is_current and not self.stopped:
            self.trimmed()
        return self.delivery.is_asked and self.serving.serve()

    def request(self, delivery: Delivery) -> None:
        """A client asks for messages."""
        if not delivery.reply:
            return
        if asks_too_much(delivery.headers):
            self.host.publish(delivery.reply, b"", headers=b"NATS/1.0 412 Required Api Level\r\n\r\n")
        else:
            self.delivery.pull(delivery.reply, delivery.payload)

    def fresh(self, first: int, batch: Publications) -> None:
        """Take note of new messages in the stream, durable, from sequence `first` on."""
        if self.stopped or not self._is_started:  # streams start before, and may leave markers
            return
        if not self.is_current:
            self.trimmed()
        if not self.delivery.is_asked:
            return  # of many consumers most have nobody who waits
        if not self.serving.fresh(batch, first) and not self._passes(first, batch):
            self.wake()

    def _passes(self, first: int, batch: Publications) -> bool:
        """True if a consumer that has everything wants none of these messages; it has passed them then."""
        tracker = self.tracker
        if not self.filters or tracker.position != first or self.serving.skips:
            return False
        if any(matches(wanted, subject) for subject in batch.subjects() for wanted in self.filters):
            return False
        tracker.passed_to = first + len(batch)
        return True

    # -- what happens to the stream --------------------------------------------------------------------

    def removed(self, sequence: int) -> None:
        """Forget a message that was deleted."""
        self.redelivery.forget(sequence)
        self.tracker.free(sequence)
        self.serving.skip_no_more(lambda one: one == sequence)
        if sequence in self.tracker.pending:
            self.gone(sequence, max(self.tracker.redelivered.get(sequence, 0), 1))
        else:
            self.tracker.uncount(sequence)

    def gone(self, sequence: int, deliveries: int) -> None:
        """A message that awaits its acknowledgement is not there any more."""
        pending = self.tracker.pending.get(sequence)
        if pending is not None:
            self.acknowledger.drop(sequence, pending[0], deliveries, "Unacknowledged message was deleted")

    def trimmed(self) -> None:
        """Messages may have gone by the stream's limits or their age."""
        stream, tracker = self.stream, self.tracker
        tracker.epoch = stream.epoch
        first = stream.log.state().first_sequence
        if 0 < tracker.lowest() < first:
            for sequence in sorted(sequence for sequence in tracker.pending if sequence < first):
                self.removed(sequence)
        for sequence in [sequence for sequence in tracker.redelivered if sequence < first]:
            tracker.uncount(sequence)
        self.serving.skip_no_more(lambda sequence: sequence < first)
        if stream.config.max_msgs_per_subject <= 0 and not stream.config.allow_msg_ttl:
            return
        if self.serving.skips:
            self.serving.skip_no_more(set(stream.log.absent(self.serving.skips)).__contains__)
        for sequence in stream.log.absent(tracker.pending):
            self.removed(sequence)

    def purged(self, first: int, last: int, subject: bytes | None = None, count: int = 0) -> None:
        """Note a purge of `count` messages: what is left of the subject begins at `first`; 0: no message is.

        `last` is the stream's. A purge of one message is as if it had been deleted, as on the Go server.
        """
        wider = False
        if subject is not None and not (
            self.filters and all(is_subset(mine, subject) for mine in self.filters)
        ):
            if not self.matches(subject):
                if count == 1 and any(overlaps(subject, mine) for mine in self.filters):
                    self._drop_missing()
                return
            wider = True
        elif subject is not None:
            left = self.stream.log.subjects(subject)
            first = min((state.first_sequence for _, state in left), default=0)
        if not first and not wider:
            first = last + 1
        tracker, absent = self.tracker, self.stream.log.absent
        if count == 1:
            self._drop_missing()
        tracker.purged(max(first, 1), lambda sequence: wider and bool(absent((sequence,))), self.now_ns())
        for sequence in [one for one in self.redelivery.queue if one not in tracker.pending]:
            self.redelivery.forget(sequence)
        lost = {*absent(self.serving.skips)}
        self.serving.skip_no_more(lambda sequence: sequence < first or sequence in lost)
        tracker.epoch = self.stream.epoch
        self.wake()

    def _drop_missing(self) -> None:
        """Drop pending messages that have left the stream."""
        for sequence in self.stream.log.absent(self.tracker.pending):
            self.removed(sequence)

    def matches(self, subject: bytes) -> bool:
        """True if this consumer gets messages of a subject."""
        return not self.filters or any(is_subset(subject, mine) for mine in self.filters)

    def needs(self, sequence: int) -> bool:
        """True if a message that matches has still to be delivered to this consumer or acknowledged."""
        tracker = self.tracker
        if sequence > tracker.floor_stream and (
            sequence >= tracker.next_sequence or sequence in tracker.pending or tracker.all
            or sequence in self.state.held
        ):  # fmt: skip
            return True
        return sequence in tracker.redelivered or sequence in self.serving.skips

    @property
    def is_current(self) -> bool:
        """State: it knows of all messages that went from the stream."""
        return self.tracker.epoch == self.stream.epoch

    @property
    def ack_prefix(self) -> bytes:
        """Beginning of the subjects of its acknowledgements."""
        return f"$JS.ACK.{self.stream.name}.{self.name}.".encode()

    # -- for its parts ---------------------------------------------------------------------------------

    def is_paused(self, now_ns: int) -> bool:
        return now_ns < self.paused_until_ns

    def num_pending(self) -> int:
        """Messages that are still to be delivered for the first time. Raises: LogError."""
        held = len(self.state.held)
        if "serving" in vars(self) and self.serving.skips:
            return held + len(self.serving.skips) + self.pending_counter.count(self.serving.resume_at)
        return held + self.pending_counter.count(self.tracker.position)

    def _exhausted(self, sequence: int, deliveries: int, done: Callable[[], object]) -> None:
        """A message was delivered as often as it may be (`redelivery`)."""
        if deliveries and sequence not in self.dead_letters:
            self.advisories.exhausted(sequence, deliveries)
        self.dead_letters.bury(sequence, self.tracker.redelivered[sequence], "max_deliver", done)

    def _arm_pause(self) -> None:
        if self.is_paused(self.now_ns()):
            self._pause.at(self.paused_until_ns)
        elif "_pause" in vars(self):
            self._pause.cancel()

    def _unpaused(self) -> None:
        """The time has come that it was paused until."""
        self.advisories.paused(self.paused_until_ns, is_paused=False)
        self.wake()

    def info(self) -> dict[str, object]:
        """ConsumerInfo without its `type`. Raises: LogError."""
        if not self.is_current:
            self.trimmed()
        return consumer_info(self)
