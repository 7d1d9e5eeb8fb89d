"""Snapshots of the streaming service for monitoring: plain values, taken at one moment.

Field names follow the documents under /streaming; formatting them is the monitor's. Source: streaming
specification, 9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from headrace.streaming.naming import shown

if TYPE_CHECKING:
    from headrace.conf.streaming_options import StoreLimits
    from headrace.copying import ArchiveSnapshot
    from headrace.streaming.channels import Channel
    from headrace.streaming.clients import RegisteredClient
    from headrace.streaming.subscription import ChannelSubscription


class StreamingSnapshot(Struct, frozen=True):
    """The values of /streaming/serverz; times in ns since 1970 UTC."""

    cluster_id: str
    server_id: str
    state: str
    """STANDALONE, FAILED or SHUTDOWN."""
    role: str
    node_id: str
    now_ns: int
    start_time_ns: int
    clients: int
    subscriptions: int
    channels: int
    total_msgs: int
    total_bytes: int
    in_msgs: int
    in_bytes: int
    out_msgs: int
    out_bytes: int
    sync: str
    """The store's sync policy: what an acknowledgement promises."""
    damaged: int
    """Messages found unreadable since the start."""
    archive: ArchiveSnapshot | None = None
    """The archiving of the channels; None if they are not archived."""


class StoreSnapshot(Struct, frozen=True):
    """The values of /streaming/storez; limits as configured: 0 is unlimited, durations in seconds."""

    cluster_id: str
    server_id: str
    now_ns: int
    type: str
    limits: StoreLimits
    total_msgs: int
    total_bytes: int


class ChannelSubscriptionSnapshot(Struct, frozen=True):
    """One subscription; `ack_wait` in seconds, names empty where there is none."""

    client_id: str
    inbox: str
    ack_inbox: str
    durable_name: str
    queue_name: str
    is_durable: bool
    is_offline: bool
    max_inflight: int
    ack_wait: int
    last_sent: int
    pending_count: int
    is_stalled: bool


class ClientSnapshot(Struct, frozen=True):
    """One client; `subscriptions` by channel, filled only when asked for."""

    id: str
    hb_inbox: str
    subs_count: int
    subscriptions: dict[str, list[ChannelSubscriptionSnapshot]] = field(default_factory=dict)


class ChannelSnapshot(Struct, frozen=True):
    """One channel; `subscriptions` filled only when asked for."""

    name: str
    msgs: int
    bytes: int
    first_seq: int
    last_seq: int
    subs_count: int
    subscriptions: list[ChannelSubscriptionSnapshot] = field(default_factory=list)


def subscription_snapshot(subscription: ChannelSubscription) -> ChannelSubscriptionSnapshot:
    group = subscription.group
    return ChannelSubscriptionSnapshot(
        client_id=shown(subscription.client_id),
        inbox=shown(subscription.inbox),
        ack_inbox=shown(subscription.ack_inbox),
        durable_name=shown(subscription.durable_name),
        queue_name=shown(group.name) if group is not None else "",
        is_durable=subscription.is_durable,
        is_offline=subscription.client is None,
        max_inflight=subscription.max_in_flight,
        ack_wait=subscription.ack_wait,
        last_sent=subscription.last_sent,
        pending_count=len(subscription.pending),
        is_stalled=subscription.stalled,
    )


def client_snapshot(client: RegisteredClient, *, subscriptions: bool) -> ClientSnapshot:
    by_channel: dict[str, list[ChannelSubscriptionSnapshot]] = {}
    if subscriptions:
        for subscription in client.subscriptions.values():
            by_channel.setdefault(shown(subscription.channel.name), []).append(
                subscription_snapshot(subscription)
            )
    return ClientSnapshot(
        shown(client.id), shown(client.info.hb_inbox), len(client.subscriptions), by_channel
    )


def channel_snapshot(channel: Channel, *, subscriptions: bool) -> ChannelSnapshot:
    state = channel.log.state()
    return ChannelSnapshot(
        name=shown(channel.name),
        msgs=state.messages,
        bytes=state.bytes,
        first_seq=state.first_sequence if state.messages else 0,
        last_seq=state.last_sequence if state.messages else 0,
        subs_count=channel.subscriptions,
        subscriptions=[subscription_snapshot(one) for one in channel.everyone()] if subscriptions else [],
    )
