"""Subscribe, unsubscribe and close requests, and what leaves behind whoever goes.

The tables of checks are in their order. A subscription is answered when its record is durable, and only then
do messages flow. Source: streaming specification, 5.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.errors import ProtocolError
from headrace.protocol.stan import (
    StartPosition,
    SubscriptionRequest,
    SubscriptionResponse,
    UnsubscribeRequest,
)
from headrace.streaming import error_texts
from headrace.streaming.channels import ChannelRefused
from headrace.streaming.naming import is_channel_name, is_publishable, new_inbox, shown
from headrace.streaming.subscription import ChannelSubscription, QueueGroup

if TYPE_CHECKING:
    from headrace.core.service import Delivery
    from headrace.errors import LogError
    from headrace.streaming.channels import Channel, Channels
    from headrace.streaming.clients import ClientRegistry, RegisteredClient
    from headrace.streaming.context import Context, Routes
    from headrace.streaming.delivery import Deliverer
    from headrace.streaming.journal import StreamingJournal
    from headrace.streaming.partitions import Owns
    from headrace.streaming.redelivery import SubscriptionRedelivery
    from headrace.streaming.subscription import GroupKey


_LAST_TIME = (1 << 63) - 1


class SubscriptionRefused(Exception):
    """The request to subscribe is refused; the text is the answer's."""

    def __init__(self, text: bytes) -> None:
        super().__init__(text.decode())
        self.text = text


class Foreign(Exception):
    """The channel is another server's, which answers."""


class Subscriptions:
    """All subscriptions of a service."""

    def __init__(
        self,
        context: Context,
        *,
        channels: Channels,
        clients: ClientRegistry,
        journal: StreamingJournal,
        deliverer: Deliverer,
        redelivery: SubscriptionRedelivery,
        routes: Routes,
    ) -> None:
        self._context = context
        self._channels = channels
        self._clients = clients
        self._journal = journal
        self._deliverer = deliverer
        self._redelivery = redelivery
        self._routes = routes
        self.next_id = 1
        self.owns: Owns | None = None
        """Tells whether a channel is this server's, if there are partitions; other servers answer for the
        rest.
        """

    # -- subscribe -------------------------------------------------------------------------------------

    def subscribe(self, delivery: Delivery) -> None:
        try:
            request = SubscriptionRequest.decode(delivery.payload)
        except ProtocolError:
            self._respond(delivery.reply, error=error_texts.INVALID_SUBSCRIPTION_REQUEST)
            return
        try:
            client = self._check(request, delivery)
            channel = self._channels.get_or_create(request.subject)
            subscription, fresh = self._admit(request, client, channel)
        except Foreign:
            return
        except (SubscriptionRefused, ChannelRefused) as refusal:
            self._context.note.error(
                "[Client:%s] Subscription on %s refused: %s",
                shown(request.client_id), shown(request.subject), shown(refusal.text),
            )  # fmt: skip
            self._respond(delivery.reply, error=refusal.text)
            return
        session = subscription.ack_inbox
        self._journal.subscribed(subscription.record())
        self._journal.after_commit(
            lambda error: self._activate(subscription, session, fresh, delivery.reply, error)
        )

    def _check(self, request: SubscriptionRequest, delivery: Delivery) -> RegisteredClient:
        if not request.client_id:
            raise SubscriptionRefused(error_texts.CLIENT_ID_MISSING)
        if request.ack_wait_in_secs <= 0:
            raise SubscriptionRefused(error_texts.INVALID_ACK_WAIT)
        if request.max_in_flight <= 0:
            raise SubscriptionRefused(error_texts.INVALID_MAX_IN_FLIGHT)
        if not 0 <= request.start_position <= StartPosition.FIRST:
            raise SubscriptionRefused(error_texts.INVALID_START)
        if not is_channel_name(request.subject):
            raise SubscriptionRefused(error_texts.INVALID_SUBJECT)
        if self.owns and not self.owns(request.subject):
            raise Foreign
        client = self._clients.get(request.client_id)
        if client is None:
            raise SubscriptionRefused(error_texts.UNKNOWN_CLIENT)
        if not self._clients.may_act(client, delivery, "subscribe"):
            raise SubscriptionRefused(error_texts.CLIENT_OF_ANOTHER)
        if not is_publishable(request.inbox):
            raise SubscriptionRefused(error_texts.INVALID_SUBSCRIPTION_REQUEST)
        return client

    def _admit(
        self, request: SubscriptionRequest, client: RegisteredClient, channel: Channel
    ) -> tuple[ChannelSubscription, bool]:
        """The subscription that the request makes or brings back, and whether it is new; not active yet."""
        known = None
        group = None
        if request.q_group:
            group = channel.groups.get(_group_key(request))
            shadow = group.shadow if group is not None else None
        else:
            shadow = None
            known = channel.durables.get((request.client_id, request.durable_name))
        most = channel.limits.max_subscriptions
        if known is None and shadow is None and 0 < most <= channel.subscriptions:
            raise SubscriptionRefused(error_texts.TOO_MANY_SUBSCRIPTIONS)
        if request.q_group and b":" in request.durable_name:
            raise SubscriptionRefused(error_texts.INVALID_DURABLE_NAME)
        if known is not None and known.client is not None:
            if not self._context.options.replace_durable:
                raise SubscriptionRefused(error_texts.DUPLICATE_DURABLE)
            self._leave(known, forget=False)
        subscription = known or shadow or ChannelSubscription(self._take_id(), channel, self._journal)
        fresh = known is None and shadow is None
        subscription.client_id = client.id
        subscription.inbox = request.inbox
        subscription.max_in_flight = request.max_in_flight
        subscription.ack_wait = request.ack_wait_in_secs
        subscription.durable_name = request.durable_name
        subscription.is_durable = bool(request.durable_name)
        if request.q_group:
            group = group or self._new_group(request, channel)
            subscription.group = group
            subscription.last_sent = group.last_sent
        elif fresh:
            subscription.last_sent = self._start(request, channel)
        subscription.hold_new = bool(subscription.pending)
        self.attach(subscription, client, new_inbox(), fresh=fresh)
        self._note_start(subscription, resumed=not fresh)
        return subscription, fresh

    def _new_group(self, request: SubscriptionRequest, channel: Channel) -> QueueGroup:
        durable, name = key = _group_key(request)
        group = channel.groups[key] = QueueGroup(channel, name, durable=durable)
        group.last_sent = self._start(request, channel)
        return group

    def _take_id(self) -> int:
        self.next_id += 1
        return self.next_id - 1

    def _start(self, request: SubscriptionRequest, channel: Channel) -> int:
        """The sequence before the first to be delivered."""
        state = channel.log.state()
        first, last = state.first_sequence, state.last_sequence
        match request.start_position:
            case StartPosition.LAST_RECEIVED:
                return max(last - 1, 0)
            case StartPosition.TIME_DELTA_START:
                since = self._context.now_ns() - request.start_time_delta
                return channel.log.sequence_at(min(max(since, 0), _LAST_TIME)) - 1
            case StartPosition.SEQUENCE_START:
                return min(max(request.start_sequence, first) - 1, last)
            case StartPosition.FIRST:
                return first - 1
        return last

    def attach(
        self, subscription: ChannelSubscription, client: RegisteredClient, ack_inbox: bytes, *, fresh: bool
    ) -> None:
        """Enter a subscription of a connected client everywhere it is looked up."""
        channel, group = subscription.channel, subscription.group
        subscription.client = client
        subscription.ack_inbox = ack_inbox
        subscription.ack_sid = self._context.host.subscribe(ack_inbox, gathered=True)
        self._routes[subscription.ack_sid] = partial(self._deliverer.acknowledged, subscription)
        client.subscriptions[subscription.id] = subscription
        channel.by_ack_inbox[ack_inbox] = subscription
        channel.by_inbox.setdefault(subscription.inbox, []).append(subscription)
        if group is not None:
            group.members.append(subscription)
            group.shadow = None
        if fresh:
            self.enter(subscription)

    def enter(self, subscription: ChannelSubscription) -> None:
        """Count a subscription, online or not, among its channel's."""
        channel = subscription.channel
        channel.subscriptions += 1
        if subscription.group is None:
            channel.plain[subscription.id] = subscription
            if subscription.is_durable:
                channel.durables[subscription.key] = subscription

    def _activate(
        self,
        subscription: ChannelSubscription,
        session: bytes,
        fresh: bool,
        reply: bytes,
        error: LogError | None,
    ) -> None:
        current = subscription.client is not None and subscription.ack_inbox == session
        if error is not None:
            if current:
                self._leave(subscription, forget=fresh)
            self._respond(reply, error=str(error).encode())
            return
        self._respond(reply, ack_inbox=session)
        if not current:
            return  # closed in the meantime
        subscription.ready = True
        if subscription.pending:
            self._redelivery.resume(subscription)
        else:
            subscription.hold_new = False
            self._deliverer.wake(subscription)

    # -- what a channel's keeper asks for ----------------------------------------------------------------

    def end_all(self, channel: Channel) -> int:
        """End every subscription of a channel that goes, durable or not, for good; return their number."""
        ended = list(channel.everyone())
        for subscription in ended:
            if subscription.client is not None:
                self._detach(subscription)
            self._drop(subscription)
        channel.groups.clear()
        return len(ended)

    def durable(self, channel: Channel, client_id: bytes, name: bytes) -> list[ChannelSubscription]:
        """A durable of a client, or without a client the members of a durable queue group, the shadow too."""
        if client_id:
            found = channel.durables.get((client_id, name))
            return [] if found is None else [found]
        group = channel.groups.get((True, name))
        if group is None:
            return []
        return [*group.members, *([group.shadow] if group.shadow is not None else [])]

    def drop(self, subscription: ChannelSubscription) -> None:
        """End a subscription without clients for good."""
        self._drop(subscription)
        if subscription.group is not None:
            subscription.channel.groups.pop(subscription.group.key, None)

    def forget_below(self, channel: Channel, sequence: int) -> None:
        """Messages below a sequence are gone from the store: they are pending no more, and make room."""
        for subscription in list(channel.everyone()):
            for gone in [one for one in subscription.pending if one < sequence]:
                subscription.forget(gone)
            self._deliverer.wake(subscription)

    # -- unsubscribe and close -------------------------------------------------------------------------

    def unsubscribe(self, delivery: Delivery) -> None:
        self._end(delivery, forget=True)

    def close(self, delivery: Delivery) -> None:
        self._end(delivery, forget=False)

    def _end(self, delivery: Delivery, *, forget: bool) -> None:
        try:
            request = UnsubscribeRequest.decode(delivery.payload)
        except ProtocolError:
            self._respond(delivery.reply, error=error_texts.INVALID_UNSUBSCRIBE)
            return
        if self.owns and not self.owns(request.subject):
            return
        try:
            subscription = self._find(request)
            if subscription.client is not None and not self._clients.may_act(
                subscription.client, delivery, "unsubscribe"
            ):
                raise SubscriptionRefused(error_texts.CLIENT_OF_ANOTHER)
        except SubscriptionRefused as refusal:
            self._context.note.error(
                "[Client:%s] Unsubscribe of %s refused: %s",
                shown(request.client_id), shown(request.subject), shown(refusal.text),
            )  # fmt: skip
            self._respond(delivery.reply, error=refusal.text)
            return
        self._context.note.debug(
            "[Client:%s] %s subscription, subject=%s, inbox=%s, subid=%d",
            shown(request.client_id), "Unsubscribing" if forget else "Closing", shown(request.subject),
            shown(subscription.inbox), subscription.id,
        )  # fmt: skip
        self._leave(subscription, forget=forget)
        self._journal.after_commit(
            lambda error: self._respond(
                delivery.reply, error=str(error).encode() if error is not None else b""
            )
        )

    def _find(self, request: UnsubscribeRequest) -> ChannelSubscription:
        channel = self._channels.get(request.subject)
        if channel is None:
            raise SubscriptionRefused(error_texts.UNKNOWN_CHANNEL)
        found = channel.by_ack_inbox.get(request.inbox)
        candidates = [found] if found is not None else channel.by_inbox.get(request.inbox, [])
        if not candidates:
            raise SubscriptionRefused(error_texts.INVALID_SUBSCRIPTION)
        for subscription in candidates:
            if subscription.client_id == request.client_id:
                return subscription
        raise SubscriptionRefused(error_texts.UNKNOWN_CLIENT)  # not registered, or not its own subscription

    def release(self, client: RegisteredClient) -> None:
        """The client is gone: its durables go offline, all else ends."""
        for subscription in list(client.subscriptions.values()):
            self._leave(subscription, forget=False)

    def recovered(self, client: RegisteredClient) -> None:
        """The client answers heartbeats again."""
        for subscription in client.subscriptions.values():
            self._deliverer.wake(subscription)

    def _leave(self, subscription: ChannelSubscription, *, forget: bool) -> None:
        """Take a subscription offline if it is durable and not to be forgotten, and else end it."""
        self._detach(subscription)
        if subscription.group is not None:
            self._leave_group(subscription, subscription.group, forget=forget)
        elif subscription.is_durable and not forget:
            self._journal.subscribed(subscription.record())
            self._note("Suspended durable subscription", subscription)
        else:
            self._drop(subscription)

    def _detach(self, subscription: ChannelSubscription) -> None:
        channel = subscription.channel
        subscription.cancel_timer()
        if subscription.client is not None:
            subscription.client.subscriptions.pop(subscription.id, None)
        subscription.client = None
        subscription.ready = False
        self._context.host.unsubscribe(subscription.ack_sid)
        self._routes.pop(subscription.ack_sid, None)
        channel.by_ack_inbox.pop(subscription.ack_inbox, None)
        sharing = channel.by_inbox[subscription.inbox]
        sharing.remove(subscription)
        if not sharing:
            del channel.by_inbox[subscription.inbox]

    def _leave_group(self, subscription: ChannelSubscription, group: QueueGroup, *, forget: bool) -> None:
        group.members.remove(subscription)
        if group.members:
            heir = group.members[0]
            heir.last_sent = group.last_sent
            self._journal.last_sent(heir.id, group.last_sent)
            self._redelivery.spread(subscription.pending, subscription.redeliveries, group.members)
            self._drop(subscription)
            self._deliverer.wake_group(group)
        elif group.durable and not forget:
            group.shadow = subscription
            subscription.last_sent = group.last_sent
            self._journal.subscribed(subscription.record())
            self._note("Suspended durable queue subscription", subscription)
        else:
            del group.channel.groups[group.key]
            self._drop(subscription)

    def _drop(self, subscription: ChannelSubscription) -> None:
        channel = subscription.channel
        subscription.removed = True
        subscription.pending = {}
        subscription.redeliveries = {}
        channel.subscriptions -= 1
        channel.plain.pop(subscription.id, None)
        if channel.durables.get(subscription.key) is subscription:
            del channel.durables[subscription.key]
        self._journal.unsubscribed(subscription.id)
        if not channel.subscriptions:
            self._channels.touch(channel)
        self._note("Removed subscription", subscription)

    # -- words -----------------------------------------------------------------------------------------

    def _note(self, what: str, subscription: ChannelSubscription) -> None:
        if self._context.note.debugging:
            self._context.note.debug(
                "[Client:%s] %s, subject=%s, inbox=%s%s%s, subid=%d",
                shown(subscription.client_id), what, shown(subscription.channel.name),
                shown(subscription.inbox),
                f", group={shown(subscription.group.name)}" if subscription.group else "",
                f", durable={shown(subscription.durable_name)}" if subscription.is_durable else "",
                subscription.id,
            )  # fmt: skip

    def _note_start(self, subscription: ChannelSubscription, *, resumed: bool) -> None:
        kind = "durable " if subscription.is_durable else ""
        kind += "queue " if subscription.group is not None else ""
        verb = "Resumed" if resumed else "Started new"
        self._note(f"{verb} {kind}subscription", subscription)

    def _respond(self, reply: bytes, *, ack_inbox: bytes = b"", error: bytes = b"") -> None:
        if reply:
            self._context.host.publish(reply, SubscriptionResponse(ack_inbox, error).encode())


def _group_key(request: SubscriptionRequest) -> GroupKey:
    if request.durable_name:
        return True, request.durable_name + b":" + request.q_group
    return False, request.q_group
