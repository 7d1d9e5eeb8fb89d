"""Delivery by push: messages go to one subject as they come, in the window of flow control, with heartbeats.

Here lives what a deliver subject may be given now. Never here: which messages, or their acknowledgement.
Source: JetStream specification, 4; nats-server 2.15 (consumer.go: needFlowControl, processFlowControl).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.engine.pulls import SinglePulls
from headrace.jetstream.alarm import Alarm
from headrace.jetstream.consumer.inactivity import PushInactivity
from headrace.jetstream.consumer.port import ANY_NUMBER, DeliveryInfo
from headrace.protocol.jetstream.headers import idle_heartbeat
from headrace.protocol.nuid import random_name

if TYPE_CHECKING:
    from headrace.engine.messages import Messages
    from headrace.jetstream.consumer.inactivity import Inactivity
    from headrace.jetstream.consumer.port import ConsumerPort
    from headrace.log.port import StoredMessage
    from headrace.protocol.jetstream.configs import ConsumerConfig

LARGEST_WINDOW: Final = 32 << 20
"""Bytes that may be under way to a client that confirms them; the window begins at a sixteenth of it."""
BACKLOG_MARK: Final = 4 << 20
"""Bytes waiting for a receiver past which nothing is added; it goes on when they were taken."""
_LOOK_NS: Final = 250_000_000
"""Nanoseconds between checks whether somebody listens (again) or has caught up, after a while."""
_FIRST_LOOK_NS: Final = 1_000_000
"""The threshold of a consumer that is new or was just left: clients subscribe after they have made it."""
_BACKLOG_NS: Final = 5_000_000
_TOKEN_LENGTH: Final = 4  # of what a flow control reply ends with


class _DeliverSubject(NamedTuple):
    """The receiver of everything: the deliver subject."""

    inbox: bytes
    missing: int = ANY_NUMBER
    no_wait: bool = False
    headers: bytes = b""


class PushDelivery:
    """The `DeliveryStrategy` of a push consumer."""

    is_asked: Final = True

    def __init__(self, consumer: ConsumerPort) -> None:
        config = consumer.config
        self._consumer = consumer
        self._turns = turns = consumer.account.turns
        self._host = consumer.host
        self._flow_prefix = f"$JS.FC.{consumer.stream.name}.{consumer.name}."
        self._look = Alarm(turns, consumer.wake)
        self._patience_ns = _FIRST_LOOK_NS
        self._idle = Alarm(turns, self._idled)
        self._last_ns = turns.now_ns()
        """The time at which something was last sent, for heartbeats."""
        self._window = LARGEST_WINDOW // 16 if config.flow_control else 0
        self._under_way = 0
        self._asked = 0
        """Bytes under way that the client confirms with its answer."""
        self._flow_reply = b""
        """The subject at which the answer to flow control is awaited; empty: none is."""
        self._group: Final = config.deliver_group.encode()
        """The deliver group that the consumer started with: an update counts from the next start on."""
        self._address(config)

    def _address(self, config: ConsumerConfig) -> None:
        self._receiver = _DeliverSubject(config.deliver_subject.encode())
        self._interval = config.idle_heartbeat
        if self._interval > 0:
            self._idle.by(self._turns.now_ns() + self._interval)

    def configure(self, config: ConsumerConfig) -> None:
        """Take over a changed configuration. A new deliver subject gets every pending message again."""
        if config.deliver_subject.encode() != self._receiver.inbox:
            self._consumer.redelivery.expire_all()
            self._address(config)

    def start(self) -> None:
        self._consumer.wake()

    def stop(self, _reason: str) -> None:
        self._look.cancel()
        self._idle.cancel()

    def inactivity(self) -> Inactivity:
        return PushInactivity(self._consumer, self._listens)

    def info(self) -> DeliveryInfo:
        return DeliveryInfo(is_bound=self._listens())

    # -- what only pull consumers have -----------------------------------------------------------------

    @cached_property
    def single_pulls(self) -> SinglePulls:
        """Return a part that grants no request: a push consumer has none."""
        consumer = self._consumer
        return SinglePulls(
            consumer, consumer.tracker, consumer.ack_prefix, (), is_plain=False, max_expires=0, first_wait=0
        )

    def pull(self, reply: bytes, _body: bytes) -> None:
        self._host.publish(reply, b"", headers=b"NATS/1.0 409 Consumer is push based\r\n\r\n")

    def unpin(self) -> None:
        """Do nothing: only the requests of pull consumers have priority groups."""

    # -- who listens -----------------------------------------------------------------------------------

    def _listens(self) -> bool:
        """True if anybody has subscribed to the deliver subject itself, in the deliver group if there is one.

        Who watches a wider subject gets what is sent, but is not who the consumer is for.
        """
        return self._host.listens(self._receiver.inbox, self._group)

    def _look_again(self) -> None:
        """Look again later: there is something to send that cannot be sent now."""
        self._look.by(self._turns.now_ns() + self._patience_ns)
        self._patience_ns = min(2 * self._patience_ns, _LOOK_NS)

    # -- what may be sent ------------------------------------------------------------------------------

    def only(self) -> _DeliverSubject:
        return self._receiver

    def next(
        self, _messages: Messages[StoredMessage], _place: int, _deliveries: int, _outstanding: int
    ) -> _DeliverSubject:
        return self._receiver

    def room(self) -> int:
        """Bytes that may be sent now; 0: it has been seen to that it goes on when there is room again."""
        backlog = self._host.backlog(self._receiver.inbox)
        if backlog is None or not self._listens():
            self._look_again()
            return 0
        self._patience_ns = _FIRST_LOOK_NS
        if self._window:
            if self._under_way > self._window:
                return 0  # the answer to what was asked opens it
            mark = self._window // 2 if not self._flow_reply else self._window
            return max(mark - self._under_way, 0) + 1
        if backlog > BACKLOG_MARK:
            self._look.by(self._turns.now_ns() + _BACKLOG_NS)
            return 0
        return BACKLOG_MARK

    def rest(self, *, end: bool) -> None:
        """Do nothing: no client has asked, so none is told that there is no more."""

    # -- flow control ----------------------------------------------------------------------------------

    def sent(self, _receiver: _DeliverSubject, _count: int, size: int, _now_ns: int) -> None:
        self._last_ns = self._turns.now_ns()
        if not self._window:
            return
        self._under_way += size
        if self._flow_reply:
            if self._under_way - self._asked >= self._window:
                self._asked += size
        elif self._under_way > self._window // 2:
            self._ask()

    def _ask(self) -> None:
        """Ask the client to confirm what it has been sent."""
        reply = self._flow_prefix + random_name(_TOKEN_LENGTH)
        self._flow_reply = reply.encode()
        self._asked = self._under_way
        self._host.publish(
            self._receiver.inbox,
            b"",
            reply=self._flow_reply,
            headers=b"NATS/1.0 100 FlowControl Request\r\n\r\n",
        )

    def full(self) -> None:
        """Ask the client for missing acknowledgements, if it acknowledges by flow control."""
        consumer = self._consumer
        if consumer.tracker.by_flow and consumer.tracker.pending and not self._flow_reply:
            self._ask()

    def answered(self, subject: bytes) -> bool:
        if not self._flow_reply or subject != self._flow_reply:
            return False
        self._window = min(2 * self._window, LARGEST_WINDOW)
        self._under_way = max(self._under_way - self._asked, 0)
        self._asked = 0
        self._flow_reply = b""
        self._consumer.wake()
        return True

    # -- heartbeats ------------------------------------------------------------------------------------

    def _idled(self) -> None:
        now = self._turns.now_ns()
        due = self._last_ns + self._interval
        if now < due:
            self._idle.by(due)
            return
        if self._listens():
            self._heartbeat()
        self._last_ns = now
        self._idle.by(now + self._interval)

    def _heartbeat(self) -> None:
        tracker = self._consumer.tracker
        stalled = b"Nats-Consumer-Stalled: %s\r\n" % self._flow_reply if self._flow_reply else b""
        headers = idle_heartbeat(tracker.next_number - 1, tracker.next_sequence - 1, stalled)
        self._host.publish(self._receiver.inbox, b"", headers=headers)
        self.full()
