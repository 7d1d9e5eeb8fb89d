"""Delivery by pull: messages go to the requests of clients, which wait until there are some for them.

Here lives what a request is refused for, and which of those that wait is served. Never here: their queue
(`pulls`), or which of them may be served at all (`priority_groups`). Source: JetStream specification, 5;
nats-server 2.15 (consumer.go: processNextMsgRequest).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from headrace.engine.pulls import SinglePulls
from headrace.errors import LogError
from headrace.jetstream.consumer.inactivity import PullInactivity
from headrace.jetstream.consumer.port import DeliveryInfo
from headrace.jetstream.consumer.priority_groups import PriorityGroups
from headrace.jetstream.consumer.pulls import Pulls, Waiting
from headrace.jetstream.consumer.redelivery import SLACK_NS
from headrace.jetstream.consumer.serving import PAGE_BYTES
from headrace.protocol.durations import format_ns
from headrace.protocol.jetstream.configs import PriorityPolicy
from headrace.protocol.jetstream.headers import idle_heartbeat
from headrace.protocol.jetstream.pulls import decode_pull
from headrace.protocol.nuid import new_nuid

if TYPE_CHECKING:
    from headrace.engine.messages import Messages
    from headrace.jetstream.consumer.inactivity import Inactivity
    from headrace.jetstream.consumer.port import ConsumerPort
    from headrace.log.port import StoredMessage
    from headrace.protocol.jetstream.configs import ConsumerConfig
    from headrace.protocol.jetstream.pulls import PullRequest


class PullDelivery:
    """The `DeliveryStrategy` of a pull consumer.

    The queue and the priority groups are made with the first request, since most consumers have no client.
    """

    def __init__(self, consumer: ConsumerPort) -> None:
        self._consumer = consumer

    @cached_property
    def groups(self) -> PriorityGroups:
        consumer = self._consumer
        return PriorityGroups(
            consumer.account.turns, consumer.config, new_nuid, consumer.advisories.pinned, self._unpinned
        )

    @cached_property
    def _pulls(self) -> Pulls:
        consumer = self._consumer
        return Pulls(
            consumer.account.turns,
            consumer.host,
            consumer.config,
            self.groups,
            heartbeat=self._heartbeat,
            due=consumer.wake,
        )

    def configure(self, config: ConsumerConfig) -> None:
        made = vars(self)
        for name in ("groups", "_pulls"):
            if name in made:
                made[name].configure(config)
        made.pop("single_pulls", None)

    def start(self) -> None:
        """Do nothing: no client can have asked by now."""

    def stop(self, reason: str) -> None:
        if "_pulls" not in vars(self):
            return
        if reason == "shutdown":
            self._pulls.release("409 Server Shutdown", told=True)
        elif reason == "leadership":
            self._pulls.release("409 Leadership Change")
        else:
            self._pulls.release("409 Consumer Deleted")
        self.groups.stop()

    def inactivity(self) -> Inactivity:
        return PullInactivity(self._consumer, self._pulls)

    def info(self) -> DeliveryInfo:
        waiting = 0
        if self.is_asked:
            self._pulls.process(end=False)
            waiting = len(self._pulls)
        has_groups = bool(self._consumer.config.priority_groups)
        return DeliveryInfo(waiting, groups=self.groups.info() if has_groups else ())

    # -- requests --------------------------------------------------------------------------------------

    @property
    def is_asked(self) -> bool:
        return "_pulls" in vars(self) and len(self._pulls) > 0

    @cached_property
    def single_pulls(self) -> SinglePulls:
        consumer = self._consumer
        config = consumer.config
        return SinglePulls(
            consumer,
            consumer.tracker,
            consumer.ack_prefix,
            self._pulls.queue,
            is_plain=not consumer.filters
            and not consumer.paused_until_ns
            and not config.headers_only
            and consumer.order is None
            and consumer.tracker.tracks
            and config.priority_policy is PriorityPolicy.NONE,
            max_expires=max(config.max_expires, 0),
            first_wait=consumer.redelivery.wait_for(0, 0) + SLACK_NS,
        )

    def pull(self, reply: bytes, body: bytes) -> None:
        consumer, pulls = self._consumer, self._pulls
        now = consumer.now_ns()
        try:
            request = decode_pull(body)
        except ValueError as error:
            pulls.status(reply, f"400 Bad Request - {error}")
            return
        refusal = self._limits_refusal(request) or self.groups.refusal(request)
        if refusal:
            pulls.status(reply, refusal)
            return
        consumer.tracker.active_ns = now
        refusal = self._impatient_refusal(request) if request.no_wait else ""
        if refusal:
            pulls.status(reply, refusal)
            return
        pulls.add(Waiting(reply, request, now))
        consumer.wake()

    def _limits_refusal(self, request: PullRequest) -> str:
        config = self._consumer.config
        if 0 < config.max_batch < request.batch:
            return f"409 Exceeded MaxRequestBatch of {config.max_batch}"
        if 0 < config.max_expires < request.expires:
            return f"409 Exceeded MaxRequestExpires of {format_ns(config.max_expires)}"
        if 0 < config.max_bytes < request.max_bytes:
            return f"409 Exceeded MaxRequestMaxBytes of {config.max_bytes}"
        return ""

    def _impatient_refusal(self, request: PullRequest) -> str:
        """The status of a request that does not wait, when there is nothing for it."""
        consumer = self._consumer
        try:
            pending = consumer.num_pending() + len(consumer.redelivery.queue)
        except LogError:
            return ""  # serving it will say so, and try again
        if not pending:
            return "" if request.expires else "404 No Messages"
        return "408 Requests Pending" if pending < self._pulls.process(end=False) else ""

    def _heartbeat(self, inbox: bytes) -> None:
        tracker = self._consumer.tracker
        headers = idle_heartbeat(tracker.next_number - 1, tracker.next_sequence - 1)
        self._consumer.host.publish(inbox, b"", headers=headers)

    def unpin(self) -> None:
        if self.groups.pin:
            self.groups.unpin()
            self._unpinned(self._consumer.config.priority_groups[0], "admin")

    def _unpinned(self, group: str, reason: str) -> None:
        self._consumer.advisories.unpinned(group, reason)
        self._consumer.wake()

    # -- who is served ---------------------------------------------------------------------------------

    def room(self) -> int:
        return PAGE_BYTES

    def only(self) -> Waiting | None:
        return self._pulls.only()

    def next(
        self, messages: Messages[StoredMessage], place: int, deliveries: int, outstanding: int
    ) -> Waiting | None:
        size = 0 if self._pulls.plain else self._size(messages[place], deliveries, outstanding)
        is_new = deliveries == 1
        return self._pulls.next(size, outstanding + is_new, len(self._consumer.tracker.pending))

    def _size(self, message: StoredMessage, deliveries: int, outstanding: int) -> int:
        """Bytes as a request's limit counts them: subject, acknowledgement subject, headers, payload."""
        consumer = self._consumer
        number = consumer.tracker.next_number
        numbers = (deliveries, message.sequence, number, message.time_ns, max(outstanding, 0))
        size = len(message.subject) + len(consumer.ack_prefix) + len(".".join(map(str, numbers)))
        if not consumer.config.headers_only:
            return size + len(message.headers) + len(message.payload)
        added = len(f"Nats-Msg-Size: {len(message.payload)}\r\n")
        return size + added + (len(message.headers) or len(b"NATS/1.0\r\n\r\n"))

    def sent(self, receiver: Waiting, count: int, _size: int, now_ns: int) -> None:
        self._pulls.took(receiver, count, now_ns)
        if receiver.missing <= 0 and receiver.room > 0:
            self._pulls.status(receiver.inbox, "409 Batch Completed", receiver.left())
        self._consumer.tracker.active_ns = now_ns

    def rest(self, *, end: bool) -> None:
        self._pulls.process(end=end)

    # -- what only push consumers have -----------------------------------------------------------------

    def full(self) -> None:
        """Do nothing: requests wait for acknowledgements as they do for messages."""

    def answered(self, _subject: bytes) -> bool:
        """Return False: a pull consumer asks no client by flow control."""
        return False
