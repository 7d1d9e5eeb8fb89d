"""The NATS Streaming service: it has channels for a time, or stands by; dispatches deliveries, starts, stops.

Sans-I/O: what comes in are batches of deliveries, timers and commits; what goes out are publications through
the host and appends to the store. What is made of a store is a `tenure`; every rule lives in a part of it
(`clients`, `publishing`, `subscribing`, `delivery`, `redelivery`, `channels`); durable state is `state` and
`journal`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.errors import LogClosed, LogError, StartError
from headrace.protocol.nuid import new_nuid
from headrace.protocol.stan import COMPATIBLE_VERSION
from headrace.streaming import error_texts
from headrace.streaming.context import Context, Counters, Notes
from headrace.streaming.modes import mode_of
from headrace.streaming.naming import is_client_id, is_publishable, shown
from headrace.streaming.snapshot import (
    ChannelSnapshot,
    ClientSnapshot,
    StoreSnapshot,
    StreamingSnapshot,
    channel_snapshot,
    client_snapshot,
)
from headrace.streaming.tenure import Tenure

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Sequence

    from headrace.bucket.status import ShardStatus
    from headrace.conf.streaming_options import StreamingOptions
    from headrace.copying import ArchiveSnapshot, TableState
    from headrace.core.service import Delivery, Host, Membership
    from headrace.engine.batches import Gathered
    from headrace.log.committer import Committer
    from headrace.log.store import LogStore
    from headrace.streaming.beats import StreamingBeats
    from headrace.streaming.channels import Channel
    from headrace.streaming.clients import RegisteredClient
    from headrace.streaming.context import Routes
    from headrace.streaming.standby import Standby
    from headrace.streaming.stored import StoredChannels


class OpenStore(NamedTuple):
    """A store of channels that this server has, and what makes its logs durable."""

    store: LogStore
    committer: Committer


class StreamingService:
    """Implements `core.service.Service`. Stores stay their owner's to close.

    `take` opens the store: None as long as another server has it, which is for a fault-tolerance group. It
    is called at the start, and the store is not touched before. Without it the service stands by until
    `promote`, and `beats` are its signs of life to the other servers.
    `on_conflict` is called with a text when another streaming server answers for the cluster ID after the
    start; the service has failed by then and serves no more.
    """

    def __init__(
        self,
        options: StreamingOptions,
        take: Callable[[], OpenStore | None] | None,
        log: logging.Logger,
        *,
        on_conflict: Callable[[str], object] = lambda _text: None,
    ) -> None:
        self.options = options
        self.server_id = new_nuid()
        self._take = take
        self._note = Notes(log, options)
        self._on_conflict = on_conflict
        self._tenure: Tenure | None = None
        self._committer: Committer | None = None
        """The committer of the tenure."""
        self.beats: StreamingBeats | None = None
        self.membership: Membership | None = None
        """The part that gives it channels and takes them, where other servers may have them, too."""
        self._standby: Standby | None = None
        self._routes: Final[Routes] = {}
        """The functions for what a server listens to that stands by."""
        self._mode = mode_of(options)
        self._state = "SHUTDOWN"
        """The state while it does not serve."""
        self._counters = Counters()
        self._start_ns = 0
        self._now_ns: Callable[[], int] = time.time_ns
        self.archive: Callable[[], ArchiveSnapshot] | None = None
        """The statistics of the archive of its channels, where there is one."""
        self.tables: Callable[[], Sequence[TableState]] | None = None
        """The state of each table of the archive, where there is one."""
        self.bucket: Callable[[], ShardStatus] | None = None
        """The status of the bucket that the channels are in, where there is one."""

    # -- life ------------------------------------------------------------------------------------------

    def start(self, host: Host) -> None:
        """Recover, subscribe, and say so. Raises: StartError, in the reference's words."""
        try:
            self._start(host)
        except LogError as error:
            self._start_ns = 0
            raise StartError(error_texts.failed_to_start(f"streaming store: {error}")) from error
        except StartError as error:
            self._start_ns = 0
            raise StartError(error_texts.failed_to_start(str(error))) from error

    def _start(self, host: Host) -> None:
        options, note = self.options, self._note
        if not is_client_id(options.cluster_id.encode()):
            raise StartError(f"invalid cluster ID {options.cluster_id!r}: only letters, digits, `-` and `_`")
        if not is_publishable(options.discover_prefix.encode()):
            raise StartError(f"invalid discover prefix {options.discover_prefix!r}")
        note.info("Starting nats-streaming-server[%s] version %s", options.cluster_id, COMPATIBLE_VERSION)
        note.info("ServerID: %s", self.server_id)
        self._host = host
        self._now_ns = host.now_ns
        self._start_ns = self._now_ns()
        if options.partitioning and not options.limits.channels:
            raise StartError(error_texts.NO_CHANNELS)
        if options.clustered:
            note.info("Cluster Node ID : %s", self.node_id)
        if self._take is None:
            self._stand_by()
        elif options.ft_group:
            self._join_group(self._take)
        else:
            opened = self._take()
            assert opened is not None, "no other server has the store"
            self.promote(*opened)

    def _stand_by(self) -> None:
        if self.beats is not None:
            self.beats.begin(self._host, self._note)
            for subject, route in self.beats.routes():
                self._routes[self._host.subscribe(subject)] = route
        self._state = self._mode.inactive
        self._say(self._mode.stands_by)

    def _say(self, line: str) -> None:
        """Log a line of the mode, where several servers take turns; a group with a lock has its own."""
        if line and self._standby is None:
            self._note.info("%s", line)

    def _join_group(self, take: Callable[[], OpenStore | None]) -> None:
        """Take the store if it is free, else wait for it. Raises: StartError, LogError."""
        from headrace.streaming.standby import Standby

        def take_over() -> Callable[[], object] | None:
            opened = take()
            return None if opened is None else lambda: self.promote(*opened)

        standby = self._standby = Standby(
            self._host,
            self.options,
            self._note,
            self.server_id,
            take=take_over,
            on_failure=self._fail,
        )
        self._routes[self._host.subscribe(standby.subject)] = standby.heard
        if not standby.begin():
            self._state = self._mode.inactive
            self._note.info("%s", self._mode.stands_by)

    def promote(self, store: LogStore, committer: Committer) -> None:
        """Have the channels of a store from now on: recover, and answer clients.

        Raises: StartError for the store of another cluster ID, LogError; then it has none.
        """
        assert self._tenure is None, "a tenure ends before the next"
        self._say(self._mode.gaining)
        context = Context(self.options, self._host, committer, self._note)
        try:
            tenure = Tenure(context, store, self.server_id, self._counters, self._fail)
            self._tenure, self._committer = tenure, committer
            tenure.begin(alone=self._take is not None)
        except (LogError, StartError):
            context.stop()
            self._end_tenure(Tenure.abandon)
            raise
        self._say(self._mode.gained)

    def abandon(self) -> None:
        """Stop having the channels at once: another server has them. Nothing is answered from the call on."""
        if self._tenure is None:
            return
        self._say(self._mode.losing)
        self._end_tenure(Tenure.abandon)
        self._host.outgoing.clear()  # what is not sent yet may be of the past
        self._say(self._mode.lost)

    def retire(self, done: Callable[[], object]) -> None:
        """Stop having the channels in order: take no more requests.

        `done` is called when all that was taken is durable and answered; nothing writes to the store then.
        """
        tenure = self._tenure
        if tenure is None:
            done()
            return

        def ended() -> None:
            if self._tenure is tenure:
                self._tenure = self._committer = None
                self._say(self._mode.lost)
            done()

        self._say(self._mode.losing)
        tenure.retire(ended)

    def _end_tenure(self, end: Callable[[Tenure], None]) -> None:
        tenure, self._tenure, self._committer = self._tenure, None, None
        if tenure is not None:
            end(tenure)

    def stop(self) -> None:
        """Make durable what was received and answer who waits for it; clients stay registered."""
        if not self._start_ns:
            return
        self._start_ns = 0
        self._end_tenure(Tenure.close)
        if self._standby is not None:
            self._standby.stop()
        if self.beats is not None:
            self.beats.end()
        for sid in self._routes:
            self._host.unsubscribe(sid)
        self._routes.clear()
        self._state = "SHUTDOWN"
        self._note.info("Shutting down.")

    def _fail(self, text: str) -> None:
        """Cannot go on, beside another server or with its store."""
        self._note.error("%s", text)
        self.stop()
        self._state = "FAILED"
        self._on_conflict(text)

    def deliver(self, batch: Sequence[Delivery | Gathered[Delivery]]) -> None:
        """Take all messages of one tick, in order; publications are appended together at its end.

        A mistake of ours with one client's message costs no other's answer.
        """
        tenure = self._tenure
        routes = self._routes if tenure is None else tenure.routes
        for received in batch:
            route = routes.get(received.sid) or self._routes.get(received.sid)
            if route is None:  # the subscription ended while this was under way
                continue
            try:
                route(received)
            except Exception as error:  # noqa: BLE001 - whatever it is: it is logged
                self._host.failed(error)
        if tenure is not None:
            tenure.settle()

    def begin_turn(self) -> None:
        if self._committer is not None:
            self._committer.begin_turn()

    def end_turn(self, *, is_last: bool) -> None:
        """Answer what one quick sync makes durable at once (`log.committer`)."""
        if self._committer is not None:
            self._committer.end_turn(is_last=is_last)

    # -- channels for other parts ----------------------------------------------------------------------

    def channel(self, name: bytes) -> Channel:
        """Return a channel, and make it if it is not there.

        Raises: ChannelRefused, LogClosed while it serves none.
        """
        serving = self._serving
        if serving is None:
            raise LogClosed("the streaming service does not serve")
        return serving.channels.get_or_create(name)

    def grown(self, channel: Channel, last: int) -> None:
        """Messages up to `last` are in the channel's log, durably, that came by another way."""
        if self._tenure is not None:
            self._tenure.grown(channel, last)

    def stored(self) -> StoredChannels | None:
        """The channels for whoever copies them elsewhere; None while it does not serve."""
        serving = self._serving
        if serving is None:
            return None
        from headrace.streaming.stored import StoredChannels

        return StoredChannels(serving.channels)

    @property
    def node_id(self) -> str:
        """The name of this server among those of its cluster."""
        return self.options.node_id or self.server_id

    @property
    def _sync(self) -> str:
        bucket = self.options.bucket
        if bucket is None:
            return self.options.sync
        return "bucket" if bucket.commit == "bucket" else "group"  # the backlog's, whatever is configured

    @property
    def _role(self) -> str:
        if not self._start_ns:
            return ""
        return self._mode.follows if self._serving is None else self._mode.leads

    @property
    def _serving(self) -> Tenure | None:
        """The tenure, if it answers clients."""
        return self._tenure if self._tenure is not None and self._tenure.serves else None

    # -- monitoring ------------------------------------------------------------------------------------

    def snapshot_server(self) -> StreamingSnapshot:
        messages, size, damaged = self._totals()
        counters = self._counters
        return StreamingSnapshot(
            cluster_id=self.options.cluster_id,
            server_id=self.server_id,
            state=self._state if self._serving is None else self._mode.active,
            role=self._role,
            node_id=self.node_id if self.options.clustered else "",
            now_ns=self._now_ns(),
            start_time_ns=self._start_ns,
            clients=len(self._all_clients()),
            subscriptions=sum(channel.subscriptions for channel in self._all_channels()),
            channels=len(self._all_channels()),
            total_msgs=messages,
            total_bytes=size,
            in_msgs=counters.in_msgs,
            in_bytes=counters.in_bytes,
            out_msgs=counters.out_msgs,
            out_bytes=counters.out_bytes,
            sync=self._sync,
            damaged=damaged,
            archive=self.archive() if self.archive is not None else None,
        )

    def bucket_status(self) -> ShardStatus | None:
        """Return the status of the bucket (`server.monitor.bucket.BucketSource`), also while standing by."""
        return self.bucket() if self.bucket is not None else None

    def snapshot_store(self) -> StoreSnapshot:
        messages, size, _ = self._totals()
        return StoreSnapshot(
            cluster_id=self.options.cluster_id,
            server_id=self.server_id,
            now_ns=self._now_ns(),
            type=self.options.store_type,
            limits=self.options.limits,
            total_msgs=messages,
            total_bytes=size,
        )

    def snapshot_clients(self, *, subscriptions: bool = False) -> list[ClientSnapshot]:
        """Return the snapshots of all clients, by ID."""
        clients = sorted(self._all_clients(), key=lambda client: client.id)
        return [client_snapshot(client, subscriptions=subscriptions) for client in clients]

    def snapshot_client(self, client_id: str, *, subscriptions: bool = False) -> ClientSnapshot | None:
        tenure = self._tenure
        client = tenure.clients.get(client_id.encode()) if tenure is not None else None
        return client_snapshot(client, subscriptions=subscriptions) if client is not None else None

    def channel_names(self) -> list[str]:
        return sorted(shown(channel.name) for channel in self._all_channels())

    def snapshot_channel(self, name: str, *, subscriptions: bool = False) -> ChannelSnapshot | None:
        """The channel that `channel_names` shows as `name`."""
        tenure = self._tenure
        channel = tenure.channels.get(name.encode()) if tenure is not None else None
        if channel is None and "\\" in name:  # bytes that are no UTF-8 are shown as escapes
            channel = next((one for one in self._all_channels() if shown(one.name) == name), None)
        return channel_snapshot(channel, subscriptions=subscriptions) if channel is not None else None

    def _all_channels(self) -> list[Channel]:
        return self._tenure.channels.all() if self._tenure is not None else []

    def _all_clients(self) -> list[RegisteredClient]:
        return self._tenure.clients.all() if self._tenure is not None else []

    def _totals(self) -> tuple[int, int, int]:
        states = [channel.log.state() for channel in self._all_channels()]
        return (
            sum(state.messages for state in states),
            sum(state.bytes for state in states),
            sum(len(state.damaged) for state in states),
        )
