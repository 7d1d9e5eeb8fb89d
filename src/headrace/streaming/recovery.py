"""Recovery after a restart: makes clients, subscriptions and groups out of what the state log said.

What no longer fits (a subscription of a channel that is gone, a non-durable one whose client is gone, a
sequence the channel never stored) is dropped and said. Source: streaming specification, 6, 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import StartError
from headrace.protocol.stan import ServerInfo
from headrace.streaming import error_texts
from headrace.streaming.naming import is_publishable, shown
from headrace.streaming.subscription import ChannelSubscription, QueueGroup

if TYPE_CHECKING:
    from headrace.conf.streaming_options import StreamingOptions
    from headrace.streaming.channels import Channel, Channels
    from headrace.streaming.clients import ClientRegistry
    from headrace.streaming.context import Context
    from headrace.streaming.journal import StreamingJournal
    from headrace.streaming.redelivery import SubscriptionRedelivery
    from headrace.streaming.state import ServiceState, SubscriptionRecord
    from headrace.streaming.subscribing import Subscriptions


def server_info(options: StreamingOptions, recovered: ServerInfo | None) -> ServerInfo:
    """The subjects of this server: those it had before, since clients go on using them.

    Raises: StartError when the store belongs to another cluster ID.
    """
    cluster = options.cluster_id.encode()
    if recovered is not None:
        if recovered.cluster_id != cluster:
            raise StartError(error_texts.other_cluster(options.cluster_id, shown(recovered.cluster_id)))
        return recovered
    return ServerInfo(
        cluster_id=cluster,
        discovery=f"{options.discover_prefix}.{options.cluster_id}".encode(),
        publish=b"_STAN.pub." + cluster,
        subscribe=b"_STAN.sub." + cluster,
        unsubscribe=b"_STAN.unsub." + cluster,
        close=b"_STAN.close." + cluster,
        sub_close=b"_STAN.subclose." + cluster,
    )


class StreamingRecovery:
    """The recovery of the service after a start."""

    def __init__(
        self,
        context: Context,
        *,
        channels: Channels,
        clients: ClientRegistry,
        journal: StreamingJournal,
        subscriptions: Subscriptions,
        redelivery: SubscriptionRedelivery,
    ) -> None:
        self._context = context
        self._channels = channels
        self._clients = clients
        self._journal = journal
        self._subscriptions = subscriptions
        self._redelivery = redelivery
        self._reached: dict[QueueGroup, list[tuple[bool, int]]] = {}
        """The last sequence that each member of a group was sent, and whether that is certain."""

    def run(self, state: ServiceState) -> None:
        """Bring everything back; then what is past due is sent again, and only after that anything new."""
        for info in state.clients.values():
            if is_publishable(info.hb_inbox):
                self._clients.add(info)
            else:
                self._journal.client_gone(info.id)
        for identity in sorted(state.subscriptions):
            self._recover(state.subscriptions[identity])
            self._subscriptions.next_id = identity + 1
        for group, reached in self._reached.items():
            certain = [sequence for is_certain, sequence in reached if is_certain]
            group.last_sent = max(certain or [sequence for _, sequence in reached])
            self._settle_group(group)
        for channel in self._channels.all():
            for subscription in list(channel.by_ack_inbox.values()):
                subscription.ready = True
                self._redelivery.restart(subscription)

    def _recover(self, record: SubscriptionRecord) -> None:
        state = record.state
        channel = self._channels.get(record.channel)
        is_online = not state.is_closed and is_publishable(state.inbox) and is_publishable(state.ack_inbox)
        client = self._clients.get(state.client_id) if is_online else None
        is_durable = state.is_durable or bool(state.durable_name)
        if channel is None or (client is None and not is_durable):
            self._drop(record, "its channel is gone" if channel is None else "its client is gone")
            return
        if not state.q_group and channel.durables.get((state.client_id, state.durable_name)) is not None:
            self._drop(record, "another durable has its name")
            return
        subscription = self._build(record, channel, is_durable)
        if subscription.group is not None:
            self._join(subscription, subscription.group, online=client is not None)
        self._subscriptions.enter(subscription)
        if client is not None:
            self._subscriptions.attach(subscription, client, state.ack_inbox, fresh=False)

    def _build(self, record: SubscriptionRecord, channel: Channel, is_durable: bool) -> ChannelSubscription:
        state = record.state
        subscription = ChannelSubscription(state.id, channel, self._journal)
        subscription.client_id = state.client_id
        subscription.inbox = state.inbox
        subscription.max_in_flight = max(state.max_in_flight, 1)
        subscription.ack_wait = max(state.ack_wait_in_secs, 1)
        subscription.durable_name = state.durable_name
        subscription.is_durable = is_durable
        last = channel.visible
        subscription.last_sent = min(record.last_sent, last)
        subscription.pending = {sequence: 0 for sequence in sorted(record.pending) if 0 < sequence <= last}
        if state.q_group:
            key = is_durable, state.q_group
            group = channel.groups.get(key)
            if group is None:
                group = channel.groups[key] = QueueGroup(channel, state.q_group, durable=is_durable)
            subscription.group = group
            self._reached.setdefault(group, []).append((record.is_certain, subscription.last_sent))
        return subscription

    def _join(self, subscription: ChannelSubscription, group: QueueGroup, *, online: bool) -> None:
        """An offline member is the shadow; the pending messages of a second one go to the first."""
        if online:
            return
        if group.shadow is None:
            group.shadow = subscription
            return
        for sequence in subscription.pending:
            group.shadow.adopt(sequence, 0)
        self._drop_live(subscription)

    def _settle_group(self, group: QueueGroup) -> None:
        shadow = group.shadow
        if shadow is None or not group.members:
            return
        group.shadow = None
        for sequence in shadow.pending:
            group.members[0].adopt(sequence, 0)
        self._drop_live(shadow)

    def _drop_live(self, subscription: ChannelSubscription) -> None:
        subscription.removed = True
        subscription.channel.subscriptions -= 1
        self._journal.unsubscribed(subscription.id)

    def _drop(self, record: SubscriptionRecord, reason: str) -> None:
        self._journal.unsubscribed(record.state.id)
        self._context.note.info(
            "subscription %d of client %s on %s was not recovered: %s",
            record.state.id, shown(record.state.client_id), shown(record.channel), reason,
        )  # fmt: skip
