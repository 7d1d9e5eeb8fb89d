"""One subscription, and the group of those that share their messages: what they are and what is pending.

Pure state with the bookkeeping that must never come apart (pending, redelivery counts, unsaved changes).
Deciding what to send and when is `delivery` and `redelivery`; requests are `subscribing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.engine.stan import settle
from headrace.protocol.stan import SubState
from headrace.streaming.shared_stream import DurablePosition
from headrace.streaming.state import SubscriptionRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.core.service import Delivery, Timer
    from headrace.engine.batches import Gathered
    from headrace.streaming.channels import Channel
    from headrace.streaming.clients import RegisteredClient
    from headrace.streaming.journal import StreamingJournal

_NS: Final = 1_000_000_000
GroupKey = tuple[bool, bytes]
"""True if the group is durable, and its stored name.

A plain and a durable group of one name are two groups.
"""
DurableKey = tuple[bytes, bytes]
"""Client and durable name, within a channel."""


class ChannelSubscription:
    """A member of a channel, alone or in a group. Memory is bounded by its own maxInFlight."""

    __slots__ = (
        "ack_inbox", "ack_sid", "ack_wait", "channel", "client", "client_id", "durable_name", "group",
        "hold_new", "id", "inbox", "is_durable", "journal", "last_sent", "max_in_flight", "pending", "ready",
        "redeliveries", "removed", "timer", "timer_due", "unsaved_acked", "unsaved_sent",
    )  # fmt: skip

    def __init__(self, identity: int, channel: Channel, journal: StreamingJournal) -> None:
        self.id = identity
        self.channel = channel
        self.journal = journal
        self.client: RegisteredClient | None = None
        """The client; None while a durable is offline."""
        self.client_id = b""
        self.inbox = b""
        self.ack_inbox = b""
        self.ack_sid = 0
        self.max_in_flight = 1
        self.ack_wait = 1
        """The wait for an acknowledgement in seconds, as the client asked."""
        self.durable_name = b""
        self.is_durable = False
        self.group: QueueGroup | None = None
        self.last_sent = 0
        self.pending: dict[int, int] = {}
        """Sequences sent and not acknowledged, each with the time (ns) when it is sent again; 0 after a
        restart: the message's own time counts then."""
        self.redeliveries: dict[int, int] = {}
        """The number of times a pending message was sent again; a restart begins at 0."""
        self.ready = False
        """True once the client has been told of the subscription, so that messages may be sent."""
        self.hold_new = False
        """True while pending messages must be sent again before any new one."""
        self.removed = False
        self.timer: Timer | None = None
        self.timer_due = 0
        self.unsaved_sent: list[int] = []
        self.unsaved_acked: list[int] = []

    @property
    def key(self) -> DurableKey:
        return self.client_id, self.durable_name

    @property
    def stalled(self) -> bool:
        return len(self.pending) >= self.max_in_flight

    @property
    def failing(self) -> bool:
        """True while the client misses heartbeats."""
        return self.client is not None and self.client.failed > 0

    @property
    def room(self) -> int:
        """The number of new messages that may be sent now."""
        if self.client is None or not self.ready or self.hold_new or self.removed:
            return 0
        return max(self.max_in_flight - len(self.pending), 0)

    @property
    def ack_wait_ns(self) -> int:
        return self.ack_wait * _NS

    def sent(self, sequences: Sequence[int], expiry_ns: int) -> None:
        """New messages went out: they are pending now."""
        self.pending.update(dict.fromkeys(sequences, expiry_ns))
        self.last_sent = sequences[-1]
        self.unsaved_sent += sequences
        self.journal.touched[self.id] = self

    def forget(self, sequence: int) -> bool:
        """Acknowledged, moved away or gone from the store; False when it was not pending."""
        if self.pending.pop(sequence, None) is None:
            return False
        if self.redeliveries:
            self.redeliveries.pop(sequence, None)
        self.unsaved_acked.append(sequence)
        self.journal.touched[self.id] = self
        return True

    def acknowledged(self, run: Gathered[Delivery]) -> list[int | None]:
        """Forget the messages that a run of Acks names; return those that were not pending here, None for
        what is no Ack.
        """
        before = len(self.unsaved_acked)
        strays = settle(run, self.pending, self.unsaved_acked)
        if self.redeliveries:
            for sequence in self.unsaved_acked[before:]:
                self.redeliveries.pop(sequence, None)
        self.journal.touched[self.id] = self
        return strays

    def adopt(self, sequence: int, expiry_ns: int, redeliveries: int = 0) -> None:
        """A message that was pending elsewhere in the group is pending here now."""
        self.pending[sequence] = expiry_ns
        if redeliveries:
            self.redeliveries[sequence] = redeliveries
        if self.unsaved_acked and sequence in self.unsaved_acked:  # written after what is sent: it would win
            self.unsaved_acked.remove(sequence)
        self.unsaved_sent.append(sequence)
        self.journal.touched[self.id] = self

    def cancel_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def record(self) -> SubscriptionRecord:
        state = SubState(
            id=self.id,
            client_id=self.client_id,
            q_group=self.group.name if self.group is not None else b"",
            inbox=self.inbox,
            ack_inbox=self.ack_inbox,
            max_in_flight=self.max_in_flight,
            ack_wait_in_secs=self.ack_wait,
            durable_name=self.durable_name,
            last_sent=self.last_sent,
            is_durable=self.is_durable,
            is_closed=self.client is None,
        )
        return SubscriptionRecord(self.channel.name, state, set(self.pending))


def position_of(members: Sequence[ChannelSubscription]) -> DurablePosition:
    """Return the position of a durable subscription, or of the members of a durable queue group together."""
    pending: set[int] = set()
    for member in members:
        pending |= member.pending.keys()
    return DurablePosition(
        last_sent=max(
            max(member.last_sent, member.group.last_sent if member.group else 0) for member in members
        ),
        pending=sorted(pending),
        max_in_flight=sum(member.max_in_flight for member in members),
        ack_wait_ns=max(member.ack_wait_ns for member in members),
    )


class QueueGroup:
    """Members that get each message once between them. A durable group without members keeps a shadow."""

    __slots__ = ("channel", "durable", "last_sent", "members", "name", "shadow")

    def __init__(self, channel: Channel, name: bytes, *, durable: bool) -> None:
        self.channel = channel
        self.name = name
        """The name as stored: `durable:group` for a durable one."""
        self.durable = durable
        self.last_sent = 0
        self.members: list[ChannelSubscription] = []
        self.shadow: ChannelSubscription | None = None
        """The last member that closed: what it had pending waits in it for the next to join."""

    @property
    def key(self) -> GroupKey:
        return self.durable, self.name

    @property
    def room(self) -> int:
        """The number of new messages that may be sent now; 0 while a member's pending ones must go first."""
        if any(member.hold_new for member in self.members):
            return 0
        return sum(member.room for member in self.members)

    def best(self, *, force: bool = False) -> ChannelSubscription | None:
        """The member with the least pending among those neither stalled nor failing.

        When there is none: the first member if it has room, or in any case when forced. The head of the list
        goes to its end when it was chosen, so that equals take turns.
        """
        chosen: ChannelSubscription | None = None
        least = 0
        for member in self.members:
            if member.client is None or not member.ready or member.failing:
                continue
            count = len(member.pending)
            if count < member.max_in_flight and (chosen is None or count < least):
                chosen, least = member, count
        if chosen is None:
            chosen = self._first(force=force)
        if chosen is not None and chosen is self.members[0]:
            self.members.append(self.members.pop(0))
        return chosen

    def _first(self, *, force: bool) -> ChannelSubscription | None:
        candidates: Iterable[ChannelSubscription] = (member for member in self.members if member.ready)
        if not force:
            candidates = (member for member in candidates if member.room > 0)
        return next(iter(candidates), None)

    def holder(self, sequence: int) -> ChannelSubscription | None:
        """The member in which the message is pending."""
        return next((member for member in self.members if sequence in member.pending), None)
