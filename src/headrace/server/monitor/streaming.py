"""`/streaming/…`: the streaming service, its store, clients and channels, as nats-streaming-server has them.

Here live the documents and the port to the service that runs (`StreamingSource`). Field names, order, options
and error texts are nats-streaming-server's; an option's number that it cannot read counts as not given. Our
own are `sync` and `damaged` in storez. Never lives here: what the service counts, or how.
Source: streaming specification, 9.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, runtime_checkable

from headrace.errors import HeadraceError
from headrace.protocol.rfc3339 import short_time
from headrace.protocol.stan import COMPATIBLE_VERSION
from headrace.server.info import LANGUAGE
from headrace.server.monitor import query as options
from headrace.server.monitor.archive import archive_field
from headrace.server.monitor.bucket import BucketSource, bucket_field
from headrace.server.monitor.query import QueryError
from headrace.server.monitor.text import uptime

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.server.monitor.archive import ArchiveStats

T = TypeVar("T")

DEFAULT_LIMIT: Final = 1024
"""Clients or channels in one answer when the request names no limit."""

PATH: Final = "/streaming"

_NS: Final = 1_000_000_000
_CALLBACK: Final = re.compile(r"[A-Za-z_$][\w$.]{0,127}\Z", re.ASCII)


class NotFoundError(HeadraceError):
    """The server has no such client or channel; the text is the body of the 404 answer."""


# ---- the port -----------------------------------------------------------------------------------


class StreamingStats(Protocol):
    """The service now; times in ns since 1970 UTC. `role` and `node_id` are empty outside of a cluster.

    `sync` says when an acknowledged message is on disk: group, interval, never, or "bucket": it is there.
    """

    @property
    def cluster_id(self) -> str: ...
    @property
    def server_id(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def node_id(self) -> str: ...
    @property
    def now_ns(self) -> int: ...
    @property
    def start_time_ns(self) -> int: ...
    @property
    def clients(self) -> int: ...
    @property
    def subscriptions(self) -> int: ...
    @property
    def channels(self) -> int: ...
    @property
    def total_msgs(self) -> int: ...
    @property
    def total_bytes(self) -> int: ...
    @property
    def in_msgs(self) -> int: ...
    @property
    def in_bytes(self) -> int: ...
    @property
    def out_msgs(self) -> int: ...
    @property
    def out_bytes(self) -> int: ...
    @property
    def sync(self) -> str: ...
    @property
    def damaged(self) -> int: ...
    @property
    def archive(self) -> ArchiveStats | None: ...


class ShownChannelLimits(Protocol):
    """The limits of a channel as configured: 0 is no limit (in `channels`: inherited), nor is a negative
    number.

    Ages in seconds.
    """

    @property
    def max_msgs(self) -> int: ...
    @property
    def max_bytes(self) -> int: ...
    @property
    def max_age(self) -> float: ...
    @property
    def max_subscriptions(self) -> int: ...
    @property
    def max_inactivity(self) -> float: ...


class ShownStoreLimits(ShownChannelLimits, Protocol):
    """The limits of the store: those of all channels, and of single ones."""

    @property
    def max_channels(self) -> int: ...
    @property
    def channels(self) -> Mapping[str, ShownChannelLimits]: ...


class StoreStats(Protocol):
    """The statistics of the store. `type` is MEMORY or FILE."""

    @property
    def type(self) -> str: ...
    @property
    def limits(self) -> ShownStoreLimits: ...
    @property
    def total_msgs(self) -> int: ...
    @property
    def total_bytes(self) -> int: ...


class SubscriptionStats(Protocol):
    """The statistics of a subscription.

    `client_id` of an offline durable is its last client's; `ack_wait` is in seconds.
    """

    @property
    def client_id(self) -> str: ...
    @property
    def inbox(self) -> str: ...
    @property
    def ack_inbox(self) -> str: ...
    @property
    def durable_name(self) -> str: ...
    @property
    def queue_name(self) -> str: ...
    @property
    def is_durable(self) -> bool: ...
    @property
    def is_offline(self) -> bool: ...
    @property
    def max_inflight(self) -> int: ...
    @property
    def ack_wait(self) -> int: ...
    @property
    def last_sent(self) -> int: ...
    @property
    def pending_count(self) -> int: ...
    @property
    def is_stalled(self) -> bool: ...


class ClientStats(Protocol):
    """The statistics of a client. `subscriptions` are by channel."""

    @property
    def id(self) -> str: ...
    @property
    def hb_inbox(self) -> str: ...
    @property
    def subs_count(self) -> int: ...
    @property
    def subscriptions(self) -> Mapping[str, Sequence[SubscriptionStats]]: ...


class ChannelStats(Protocol):
    """The statistics of a channel.

    `first_seq` and `last_seq` are 0 while it is empty. Offline durables are subscriptions too.
    """

    @property
    def name(self) -> str: ...
    @property
    def msgs(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def first_seq(self) -> int: ...
    @property
    def last_seq(self) -> int: ...
    @property
    def subs_count(self) -> int: ...
    @property
    def subscriptions(self) -> Sequence[SubscriptionStats]: ...


@runtime_checkable
class StreamingSource(Protocol):
    """The streaming service as the monitor sees it. Called on the event loop; must not block.

    `subscriptions` of a client or channel may be empty when they were not asked for.
    """

    def snapshot_server(self) -> StreamingStats: ...

    def snapshot_store(self) -> StoreStats: ...

    def snapshot_clients(self) -> Sequence[ClientStats]:
        """Return the statistics of all clients, by ID."""

    def snapshot_client(self, client_id: str, *, subscriptions: bool = ...) -> ClientStats | None:
        """Return the statistics of one client; None when there is no such client."""

    def channel_names(self) -> Sequence[str]:
        """Return the names of all channels, sorted."""

    def snapshot_channel(self, name: str, *, subscriptions: bool = ...) -> ChannelStats | None:
        """Return the statistics of one channel; None when there is no such channel."""


def source_among(services: Sequence[object]) -> StreamingSource | None:
    """The streaming service among the server's, if it runs one."""
    return next((service for service in services if isinstance(service, StreamingSource)), None)


# ---- the documents ------------------------------------------------------------------------------


def serverz(source: StreamingSource, query: Mapping[str, str]) -> dict[str, object]:
    """The service: state and counters."""
    server = source.snapshot_server()
    open_files, most_files = _descriptors()
    return {
        "cluster_id": server.cluster_id,
        "server_id": server.server_id,
        "version": COMPATIBLE_VERSION,
        "go": LANGUAGE,
        "state": server.state,
        **_given("role", server.role),
        **_given("node_id", server.node_id),
        "now": short_time(server.now_ns),
        "start_time": short_time(server.start_time_ns),
        "uptime": uptime(server.now_ns - server.start_time_ns),
        "clients": server.clients,
        "subscriptions": server.subscriptions,
        "channels": server.channels,
        "total_msgs": server.total_msgs,
        "total_bytes": server.total_bytes,
        "in_msgs": server.in_msgs,
        "in_bytes": server.in_bytes,
        "out_msgs": server.out_msgs,
        "out_bytes": server.out_bytes,
        **_given("open_fds", open_files),
        **_given("max_fds", most_files),
        **archive_field(server.archive),
        **bucket_field(source.bucket_status() if isinstance(source, BucketSource) else None),
    }


def storez(source: StreamingSource, query: Mapping[str, str]) -> dict[str, object]:
    """The store: its type, its limits, what it holds."""
    server, store = source.snapshot_server(), source.snapshot_store()
    limits = store.limits
    exceptions = {name: _limits(each) for name, each in sorted(limits.channels.items())}
    return {
        **_identity(server),
        "type": store.type,
        "limits": {
            "max_channels": limits.max_channels,
            **_limits(limits),
            **_given("channels", exceptions),
        },
        "total_msgs": store.total_msgs,
        "total_bytes": store.total_bytes,
        "sync": server.sync,
        "damaged": server.damaged,
    }


def clientsz(source: StreamingSource, query: Mapping[str, str]) -> dict[str, object]:
    """A page of the clients in the order of their IDs, or with `client=` that one.

    Raises: NotFoundError.
    """
    with_subscriptions = _wants_subscriptions(query)
    wanted = query.get("client", "")
    if wanted:
        client = source.snapshot_client(wanted, subscriptions=with_subscriptions)
        if client is None:
            raise NotFoundError(f"Client {wanted} not found")
        return _client(client, with_subscriptions)
    every = source.snapshot_clients()
    offset, limit, page = _page(query, every)
    if with_subscriptions:  # of this page's clients only: there may be many others
        detailed = (source.snapshot_client(client.id, subscriptions=True) for client in page)
        page = [client for client in detailed if client is not None]
    clients = [_client(client, with_subscriptions) for client in page]
    return {**_listing(source, offset, limit, len(clients), len(every)), "clients": clients}


def channelsz(source: StreamingSource, query: Mapping[str, str]) -> dict[str, object]:
    """A page of the channels' names, with `subs=1` of the channels, or with `channel=` that one.

    Raises: NotFoundError.
    """
    with_subscriptions = _wants_subscriptions(query)
    wanted = query.get("channel", "")
    if wanted:
        channel = source.snapshot_channel(wanted, subscriptions=with_subscriptions)
        if channel is None:
            raise NotFoundError(f"Channel {wanted} not found")
        return _channel(channel, with_subscriptions)
    names = source.channel_names()
    offset, limit, page = _page(query, names)
    if not with_subscriptions:
        return {**_listing(source, offset, limit, len(page), len(names)), **_given("names", page)}
    found = [source.snapshot_channel(name, subscriptions=True) for name in page]
    channels = [_channel(channel, True) for channel in found if channel is not None]
    return {**_listing(source, offset, limit, len(channels), len(names)), **_given("channels", channels)}


def is_ft_active(source: StreamingSource) -> bool:
    """True if this is the active server of a fault-tolerance group."""
    return source.snapshot_server().state == "FT_ACTIVE"


DOCUMENTS: Final[Mapping[str, Callable[[StreamingSource, Mapping[str, str]], dict[str, object]]]] = {
    "/serverz": serverz,
    "/storez": storez,
    "/clientsz": clientsz,
    "/channelsz": channelsz,
}
"""The endpoints below PATH that answer with JSON."""

FT_ACTIVE: Final = "/isFTActive"


def index(base_path: str) -> str:
    """The page for people at PATH, as HTML; `base_path` is "" or starts with a slash."""
    links = "\n".join(f'<li><a href="{base_path}{PATH}{path}">{path[1:-1]}</a></li>' for path in DOCUMENTS)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<title>NATS Streaming</title>\n<ul>\n{links}\n</ul>\n</html>\n'
    )


def callback(query: Mapping[str, str]) -> str:
    """The function that a JSONP request wants called, "" for none.

    Raises: QueryError when it is no name: the answer would run whatever it says.
    """
    name = query.get("callback", "")
    if name and not _CALLBACK.match(name):
        raise QueryError("callback must be the name of a function")
    return name


def _identity(server: StreamingStats) -> dict[str, object]:
    return {"cluster_id": server.cluster_id, "server_id": server.server_id, "now": short_time(server.now_ns)}


def _listing(source: StreamingSource, offset: int, limit: int, count: int, total: int) -> dict[str, object]:
    page = {"offset": offset, "limit": limit, "count": count, "total": total}
    return {**_identity(source.snapshot_server()), **page}


def _page(query: Mapping[str, str], every: Sequence[T]) -> tuple[int, int, Sequence[T]]:
    """Offset, limit, and what is between them."""
    offset = max(_integer(query, "offset"), 0)
    limit = _integer(query, "limit")
    if limit <= 0:
        limit = DEFAULT_LIMIT
    return offset, limit, every[offset : offset + limit]


def _integer(query: Mapping[str, str], name: str) -> int:
    """0 when not given, or not a number: nats-streaming-server ignores what it cannot read."""
    try:
        return options.integer(query, name)
    except QueryError:
        return 0


def _wants_subscriptions(query: Mapping[str, str]) -> bool:
    return _integer(query, "subs") == 1


def _client(client: ClientStats, with_subscriptions: bool) -> dict[str, object]:
    document: dict[str, object] = {
        "id": client.id,
        "hb_inbox": client.hb_inbox,
        "subs_count": client.subs_count,
    }
    if with_subscriptions and client.subscriptions:
        document["subscriptions"] = {
            channel: [_subscription(each) for each in subscriptions]
            for channel, subscriptions in sorted(client.subscriptions.items())
        }
    return document


def _channel(channel: ChannelStats, with_subscriptions: bool) -> dict[str, object]:
    document: dict[str, object] = {
        "name": channel.name,
        "msgs": channel.msgs,
        "bytes": channel.bytes,
        "first_seq": channel.first_seq,
        "last_seq": channel.last_seq,
        "subs_count": channel.subs_count,
    }
    if with_subscriptions and channel.subscriptions:
        document["subscriptions"] = [_subscription(each) for each in channel.subscriptions]
    return document


def _subscription(subscription: SubscriptionStats) -> dict[str, object]:
    return {
        "client_id": subscription.client_id,
        "inbox": subscription.inbox,
        "ack_inbox": subscription.ack_inbox,
        **_given("durable_name", subscription.durable_name),
        **_given("queue_name", subscription.queue_name),
        "is_durable": subscription.is_durable,
        "is_offline": subscription.is_offline,
        "max_inflight": subscription.max_inflight,
        "ack_wait": subscription.ack_wait,
        "last_sent": subscription.last_sent,
        "pending_count": subscription.pending_count,
        "is_stalled": subscription.is_stalled,
    }


def _limits(limits: ShownChannelLimits) -> dict[str, object]:
    return {
        "max_msgs": limits.max_msgs,
        "max_bytes": limits.max_bytes,
        "max_age": round(limits.max_age * _NS),
        "max_subscriptions": limits.max_subscriptions,
        "max_inactivity": round(limits.max_inactivity * _NS),
    }


def _given(name: str, value: object) -> dict[str, object]:
    """The field, unless it says nothing."""
    return {name: value} if value else {}


def _descriptors() -> tuple[int, int]:
    """Open files and how many there may be; zeros where the system does not tell."""
    try:
        import resource

        return len(os.listdir("/proc/self/fd")), resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    except (ImportError, OSError):
        return 0, 0
