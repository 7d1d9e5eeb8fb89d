"""Sends new messages to whoever has room, a page at a time, and takes acknowledgements.

Redelivery is `redelivery`; who subscribes is `subscribing`. A subscription is served as far as its room goes
once a turn; with more to come it goes on in the next tick, so that no replay holds up the others.
Source: streaming specification, 6, 14.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.engine.stan import acknowledged, send
from headrace.errors import LogError
from headrace.streaming.naming import shown
from headrace.streaming.subscription import ChannelSubscription, QueueGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.core.service import Delivery
    from headrace.engine.batches import Gathered
    from headrace.streaming.channels import Channel, ChannelPage
    from headrace.streaming.context import Context, Counters
    from headrace.streaming.redelivery import SubscriptionRedelivery

    Runner = ChannelSubscription | QueueGroup

_RETRY_S: Final = 1.0
"""The time until a channel that could not be read is tried again."""


class Deliverer:
    """The delivery of messages to subscriptions, one turn at a time."""

    def __init__(self, context: Context, counters: Counters) -> None:
        self._context = context
        self._counters = counters
        self._redelivery: SubscriptionRedelivery | None = None
        self._runnable: dict[Runner, None] = {}
        self._next_tick: dict[Runner, None] = {}

    def connect(self, redelivery: SubscriptionRedelivery) -> None:
        self._redelivery = redelivery

    # -- who is to be served ---------------------------------------------------------------------------

    def wake(self, subscription: ChannelSubscription) -> None:
        """Serve a subscription, or its group, at the end of this turn: it may have room."""
        self._runnable[subscription.group or subscription] = None

    def wake_group(self, group: QueueGroup) -> None:
        self._runnable[group] = None

    def serve_channel(self, channel: Channel) -> None:
        """Deliver what is new in the channel: plain subscriptions first, then groups."""
        for subscription in list(channel.plain.values()):
            self._serve(subscription)
        for group in list(channel.groups.values()):
            self._serve(group)

    @property
    def is_idle(self) -> bool:
        """True if no subscription that was woken waits to be served."""
        return not self._runnable

    def run(self) -> None:
        """Serve everyone who was woken, once."""
        if not self._runnable:
            return
        runnable, self._runnable = self._runnable, {}
        for runner in runnable:
            self._serve(runner)

    # -- new messages ----------------------------------------------------------------------------------

    def _serve(self, runner: Runner) -> None:
        channel = runner.channel
        room = runner.room
        if not room or runner.last_sent >= channel.visible:
            return
        try:
            page = channel.page(runner.last_sent + 1, room)
        except LogError as error:
            self._unreadable(runner, error)
            return
        if not page.sequences:
            runner.last_sent = max(page.following - 1, runner.last_sent + 1)  # a gap: removed, or damaged
        elif isinstance(runner, QueueGroup):
            self._send_to_group(runner, page)
        else:
            self._send(runner, page)
        if runner.last_sent < channel.visible and runner.room:
            self._continue(runner)

    def _send(self, subscription: ChannelSubscription, page: ChannelPage) -> None:
        host, sequences = self._context.host, page.sequences
        name = subscription.channel.name
        size = send(host.outgoing, subscription.inbox, name, page.batch, page.start, len(sequences))
        host.announce()
        self._counters.sent(len(sequences), size)
        if self._context.note.tracing:
            self._trace(subscription, sequences)
        expiry = self._context.now_ns() + subscription.ack_wait_ns
        subscription.sent(sequences, expiry)
        if subscription.timer is None:
            self._arm(subscription, expiry)

    def _send_to_group(self, group: QueueGroup, page: ChannelPage) -> None:
        now = self._context.now_ns()
        host, name = self._context.host, group.channel.name
        for place, sequence in enumerate(page.sequences, page.start):
            member = group.best()
            if member is None:
                break
            size = send(host.outgoing, member.inbox, name, page.batch, place, 1)
            self._counters.sent(1, size)
            if self._context.note.tracing:
                self._trace(member, [sequence])
            expiry = now + member.ack_wait_ns
            member.sent([sequence], expiry)
            group.last_sent = sequence
            if member.timer is None:
                self._arm(member, expiry)
        host.announce()

    def _arm(self, subscription: ChannelSubscription, due_ns: int) -> None:
        if self._redelivery is not None:
            self._redelivery.arm(subscription, due_ns)

    def _trace(self, subscription: ChannelSubscription, sequences: Sequence[int]) -> None:
        for sequence in sequences:
            self._context.note.trace(
                "[Client:%s] Delivering msg to subid=%d, subject=%s, seq=%d",
                shown(subscription.client_id), subscription.id, shown(subscription.channel.name), sequence,
            )  # fmt: skip

    def _continue(self, runner: Runner) -> None:
        if not self._next_tick:
            self._context.later(0, self._resume)
        self._next_tick[runner] = None

    def _resume(self) -> None:
        self._runnable.update(self._next_tick)
        self._next_tick = {}

    def _unreadable(self, runner: Runner, error: LogError) -> None:
        self._context.note.error("channel %s could not be read: %s", shown(runner.channel.name), error)
        self._context.later(_RETRY_S, lambda: self._runnable.update({runner: None}))

    # -- acknowledgements ------------------------------------------------------------------------------

    def acknowledged(self, subscription: ChannelSubscription, run: Gathered[Delivery]) -> None:
        """An ack for a message that is not pending is ignored, as is what is no ack."""
        if self._context.note.tracing:
            self._trace_acknowledged(subscription, run)
        for sequence in subscription.acknowledged(run):
            if sequence is None:
                self._context.note.error(
                    "[Client:%s] Invalid ack for subid=%d", shown(subscription.client_id), subscription.id
                )
            elif subscription.group is not None:
                holder = subscription.group.holder(sequence)
                if holder is not None:
                    holder.forget(sequence)
        self.wake(subscription)

    def _trace_acknowledged(self, subscription: ChannelSubscription, run: Gathered[Delivery]) -> None:
        for sequence in acknowledged(run):
            if sequence is not None:
                self._context.note.trace(
                    "[Client:%s] Received ack for subid=%d, subject=%s, seq=%d",
                    shown(subscription.client_id), subscription.id,
                    shown(subscription.channel.name), sequence,
                )  # fmt: skip
