"""Sends again what was not acknowledged in time: timers, order, the choice of a group's member.

Also the three other occasions on which pending messages go out again: a durable that comes back, a restart,
and a member that left its group. New messages are `delivery`'s. Source: streaming specification, 5, 6.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.errors import LogError
from headrace.streaming.channels import redelivered
from headrace.streaming.context import NS
from headrace.streaming.naming import shown

if TYPE_CHECKING:
    from headrace.streaming.context import Context, Counters
    from headrace.streaming.delivery import Deliverer
    from headrace.streaming.subscription import ChannelSubscription

TOLERANCE_NS: Final = 15_000_000
"""A message that expires within this time is sent again together with those that have expired."""
MOVED_DELAY_NS: Final = 100_000_000
"""The time from a member's leaving to the redelivery of what it had pending."""
_RETRY_NS: Final = NS
_TURN: Final = 256
"""Messages sent again before others have their turn; each is read by itself."""


class SubscriptionRedelivery:
    """The redeliveries of all subscriptions."""

    def __init__(self, context: Context, counters: Counters, deliverer: Deliverer) -> None:
        self._context = context
        self._counters = counters
        self._deliverer = deliverer

    # -- timers ----------------------------------------------------------------------------------------

    def arm(self, subscription: ChannelSubscription, due_ns: int) -> None:
        """Set the timer at which pending messages of a subscription are looked at: `due_ns`, or earlier."""
        if subscription.timer is not None:
            if subscription.timer_due <= due_ns:
                return
            subscription.timer.cancel()
        subscription.timer_due = due_ns
        seconds = max(due_ns - self._context.now_ns(), 0) / NS
        subscription.timer = self._context.later(seconds, lambda: self._fired(subscription))

    def _fired(self, subscription: ChannelSubscription) -> None:
        subscription.timer = None
        if subscription.client is None or subscription.hold_new or not subscription.pending:
            return
        now = self._context.now_ns()
        if subscription.failing and subscription.group is None:
            self.arm(subscription, now + subscription.ack_wait_ns)
            return
        limit = now + TOLERANCE_NS
        expired = sorted(sequence for sequence, expiry in subscription.pending.items() if expiry <= limit)
        for sequence in expired[:_TURN]:
            if not self._again(subscription, sequence):
                self.arm(subscription, now + _RETRY_NS)
                return
        if subscription.pending:
            self.arm(subscription, min(subscription.pending.values()))

    def _again(self, subscription: ChannelSubscription, sequence: int) -> bool:
        """Send one expired message again, in a group to its best member; False when it cannot be read."""
        target = subscription
        if subscription.group is not None:
            target = subscription.group.best(force=True) or subscription
        count = subscription.redeliveries.get(sequence, 0)
        body = self._read(subscription, sequence, count + 1)
        if body is None:
            return sequence not in subscription.pending
        expiry = subscription.pending[sequence]
        if target is not subscription:
            subscription.forget(sequence)
            target.adopt(sequence, expiry, count)
            self._deliverer.wake(subscription)
        now = self._context.now_ns()
        expiry += target.ack_wait_ns
        if expiry <= now:  # the timer was long paused: do not make up for every missed round
            expiry = now + target.ack_wait_ns
        self._send(target, sequence, body, expiry)
        self.arm(target, expiry)
        return True

    # -- all that is pending, in order -----------------------------------------------------------------

    def resume(self, subscription: ChannelSubscription) -> None:
        """A durable came back: all it had pending goes out, and only then anything new."""
        self._replay(subscription, sorted(subscription.pending), subscription.ack_inbox, all_due=True)

    def restart(self, subscription: ChannelSubscription) -> None:
        """Redeliver, after a restart, each pending message whose time (its own, plus ackWait) is over."""
        self._replay(subscription, sorted(subscription.pending), subscription.ack_inbox, all_due=False)

    def _replay(
        self, subscription: ChannelSubscription, sequences: list[int], session: bytes, *, all_due: bool
    ) -> None:
        if subscription.client is None or subscription.ack_inbox != session:
            return  # closed since; whoever comes back starts anew
        subscription.hold_new = True
        for position, sequence in enumerate(sequences):
            if position == _TURN:
                self._later(0, subscription, sequences[position:], session, all_due)
                return
            if sequence in subscription.pending and not self._replay_one(subscription, sequence, all_due):
                self._later(1.0, subscription, sequences[position:], session, all_due)
                return
        subscription.hold_new = False
        if subscription.pending:
            self.arm(subscription, min(subscription.pending.values()))
        self._deliverer.wake(subscription)

    def _later(
        self,
        seconds: float,
        subscription: ChannelSubscription,
        sequences: list[int],
        session: bytes,
        all_due: bool,
    ) -> None:
        go_on = partial(self._replay, subscription, sequences, session, all_due=all_due)
        self._context.later(seconds, go_on)

    def _replay_one(self, subscription: ChannelSubscription, sequence: int, all_due: bool) -> bool:
        now = self._context.now_ns()
        body = self._read(
            subscription, sequence, subscription.redeliveries.get(sequence, 0) + 1,
            unless_after=None if all_due else now + TOLERANCE_NS,
        )  # fmt: skip
        if body is None:
            return sequence not in subscription.pending
        if body:
            self._send(subscription, sequence, body, now + subscription.ack_wait_ns)
        return True

    # -- a member left ---------------------------------------------------------------------------------

    def spread(
        self, pending: dict[int, int], counts: dict[int, int], members: list[ChannelSubscription]
    ) -> None:
        """Give a leaving member's pending messages to the others in turn, to be sent again soon."""
        due = self._context.now_ns() + MOVED_DELAY_NS
        for position, sequence in enumerate(sorted(pending)):
            members[position % len(members)].adopt(sequence, due, counts.get(sequence, 0))
        for member in members[: len(pending)]:
            self.arm(member, due)

    # -- one message -----------------------------------------------------------------------------------

    def _read(
        self, subscription: ChannelSubscription, sequence: int, count: int, *, unless_after: int | None = None
    ) -> bytes | None:
        """The message encoded for its `count`-th redelivery.

        None: it is gone, and then pending no more, or it cannot be read now, and then it still is. Empty: its
        own time plus ackWait is after `unless_after`; that is its expiry now.
        """
        channel = subscription.channel
        try:
            stored = channel.stored(sequence)
        except LogError as error:
            self._context.note.error("channel %s could not be read: %s", shown(channel.name), error)
            return None
        if stored is None:
            subscription.forget(sequence)
            self._deliverer.wake(subscription)
            return None
        if unless_after is not None and not subscription.pending[sequence]:
            expiry = stored.time_ns + subscription.ack_wait_ns
            if expiry > unless_after:
                subscription.pending[sequence] = expiry
                return b""
        return redelivered(channel.name, stored, count)

    def _send(self, subscription: ChannelSubscription, sequence: int, body: bytes, expiry_ns: int) -> None:
        self._context.host.publish(subscription.inbox, body)
        self._counters.sent(1, len(body))
        subscription.redeliveries[sequence] = subscription.redeliveries.get(sequence, 0) + 1
        subscription.pending[sequence] = expiry_ns
        if self._context.note.tracing:
            self._context.note.trace(
                "[Client:%s] Redelivering msg to subid=%d, subject=%s, seq=%d",
                shown(subscription.client_id), subscription.id, shown(subscription.channel.name), sequence,
            )  # fmt: skip
