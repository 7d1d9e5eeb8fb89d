"""The NATS Streaming service: composes the parts, dispatches deliveries, starts and stops.

Sans-I/O: what comes in are batches of deliveries, timers and commits; what goes out are publications through
the host and appends to the store. Every rule lives in a part (`clients`, `publishing`, `subscribing`,
`delivery`, `redelivery`, `channels`); durable state is `state` and `journal`.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headrace.errors import LogClosed, LogError, StartError
from headrace.protocol.nuid import new_nuid
from headrace.protocol.stan import ADMINISTRATION_PREFIX, COMPATIBLE_VERSION, REPLAY_PREFIX, ConnectRequest
from headrace.streaming import error_responses, error_texts
from headrace.streaming.channels import Channels
from headrace.streaming.clients import ClientRegistry
from headrace.streaming.context import Context, Counters, Notes
from headrace.streaming.delivery import Deliverer
from headrace.streaming.journal import StreamingJournal
from headrace.streaming.limits import limit_lines
from headrace.streaming.naming import is_client_id, is_publishable, new_inbox, shown
from headrace.streaming.publishing import Publisher
from headrace.streaming.recovery import StreamingRecovery, server_info
from headrace.streaming.redelivery import SubscriptionRedelivery
from headrace.streaming.requests import Requests
from headrace.streaming.snapshot import (
    ChannelSnapshot,
    ClientSnapshot,
    StoreSnapshot,
    StreamingSnapshot,
    channel_snapshot,
    client_snapshot,
)
from headrace.streaming.state import STATE_LOG, ServiceState, StateRecovery
from headrace.streaming.subscribing import Subscriptions

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping, Sequence

    from headrace.conf.streaming_options import StreamingOptions
    from headrace.copying import ArchiveSnapshot
    from headrace.core.service import Delivery, Host
    from headrace.engine.batches import Gathered
    from headrace.log.committer import Committer
    from headrace.log.store import LogStore
    from headrace.streaming.administration import Administration
    from headrace.streaming.channels import Channel
    from headrace.streaming.clients import RegisteredClient
    from headrace.streaming.context import Routes
    from headrace.streaming.partitions import Partitions
    from headrace.streaming.replaying import Replays
    from headrace.streaming.stored import StoredChannels

_PROBE_S = 2.0
"""Seconds that another server with the same cluster ID has to answer.

It may need half a second itself to learn whether an earlier one that asked is still there.
"""


class StreamingService:
    """Implements `core.service.Service`. The store stays its owner's to close.

    `on_conflict` is called with a text when another streaming server answers for the cluster ID after the
    start; the service has failed by then and serves no more. `acquire` takes the store for a server of a
    fault-tolerance group: False as long as another one has it; the store is not touched before.
    """

    def __init__(
        self,
        options: StreamingOptions,
        store: LogStore,
        committer: Committer,
        log: logging.Logger,
        *,
        on_conflict: Callable[[str], object] = lambda _text: None,
        acquire: Callable[[], bool] = lambda: True,
    ) -> None:
        self.options = options
        self.server_id = new_nuid()
        self._store = store
        self._committer = committer
        self._note = Notes(log, options)
        self._on_conflict = on_conflict
        self._acquire = acquire
        self._is_open = False
        """True once the store has been read; a server that stands by has none."""
        self._active = "FT_ACTIVE" if options.ft_group else "STANDALONE"
        self._counters = Counters()
        self._routes: Routes = {}
        self._state = "SHUTDOWN"
        self._start_ns = 0
        self._now_ns: Callable[[], int] = time.time_ns
        self.archive: Callable[[], ArchiveSnapshot] | None = None
        """The statistics of the archive of its channels, where there is one."""

    # -- life ------------------------------------------------------------------------------------------

    def start(self, host: Host) -> None:
        """Recover, subscribe, and say so. Raises: StartError, in the reference's words."""
        try:
            self._start(host)
        except LogError as error:
            raise StartError(error_texts.failed_to_start(f"streaming store: {error}")) from error
        except StartError as error:
            raise StartError(error_texts.failed_to_start(str(error))) from error

    def _start(self, host: Host) -> None:
        if not is_client_id(self.options.cluster_id.encode()):
            raise StartError(
                f"invalid cluster ID {self.options.cluster_id!r}: only letters, digits, `-` and `_`"
            )
        if not is_publishable(self.options.discover_prefix.encode()):
            raise StartError(f"invalid discover prefix {self.options.discover_prefix!r}")
        self._note.info(
            "Starting nats-streaming-server[%s] version %s", self.options.cluster_id, COMPATIBLE_VERSION
        )
        self._note.info("ServerID: %s", self.server_id)
        self._context = Context(self.options, host, self._committer, self._note)
        self._now_ns = self._context.now_ns
        self._start_ns = self._now_ns()
        if self.options.partitioning and not self.options.limits.channels:
            raise StartError(error_texts.NO_CHANNELS)
        if self.options.ft_group:
            from headrace.streaming.standby import Standby

            standby = Standby(self._context, self.server_id, self._acquire, lambda: self._late(self._open))
            self._route({standby.subject: standby.heard})
            if not standby.begin():
                self._state = "FT_STANDBY"
                self._note.info("Starting in standby mode")
                return
        self._open()

    def _open(self) -> None:
        """Read the store, and serve. Raises: StartError, LogError."""
        self._note.info("Recovering the state...")
        state = self._load()
        self._compose(state)
        self._note_recovered(state)
        self._note_store()
        if self._partitions is None:
            self._serve(state)
            return
        partitions = self._partitions
        self._route(partitions.routes())
        self._context.host.when_heard(
            lambda: partitions.check(lambda: self._late(lambda: self._serve(state)))
        )

    def _late(self, work: Callable[[], object]) -> None:
        """Do work of the start that waits for other servers: an error in it ends the service."""
        try:
            work()
        except (LogError, StartError) as error:
            self._fail(str(error))

    def _serve(self, state: ServiceState) -> None:
        """Subscribe to the requests of clients, recover, and answer them from here on."""
        self._listen()
        self._recovery.run(state)
        self._state = self._active
        self._context.on_settle(self._round)
        self._context.settle()
        self._context.host.when_heard(self._note_ready)

    def stop(self) -> None:
        """Make durable what was received and answer who waits for it; clients stay registered."""
        if not self._routes:
            return
        if self._state == self._active:  # else it was still finding out whether it may serve
            self._context.settle()
            self._context.finish_commits()
            if "replays" in vars(self):
                self.replays.stop()
        self._context.stop()
        self._state = "SHUTDOWN"
        self._start_ns = 0
        for sid in self._routes:
            self._context.host.unsubscribe(sid)
        self._routes.clear()
        self._note.info("Shutting down.")

    def deliver(self, batch: Sequence[Delivery | Gathered[Delivery]]) -> None:
        """Take all messages of one tick, in order; publications are appended together at its end.

        A mistake of ours with one client's message costs no other's answer.
        """
        routes = self._routes
        for received in batch:
            route = routes.get(received.sid)
            if route is None:  # the subscription ended while this was under way
                continue
            try:
                route(received)
            except Exception as error:  # noqa: BLE001 - whatever it is: it is logged
                self._context.host.failed(error)
        self._context.settle()

    def begin_turn(self) -> None:
        self._committer.begin_turn()

    def end_turn(self, *, is_last: bool) -> None:
        """Answer what one quick sync makes durable at once (`log.committer`)."""
        self._committer.end_turn(is_last=is_last)

    def _round(self) -> bool:
        """Do what is due now. True if that left something to do in this turn."""
        self._publisher.flush()
        self._deliverer.run()
        self._journal.flush()
        return not (self._publisher.is_idle and self._deliverer.is_idle and self._journal.idle)

    # -- start, in parts -------------------------------------------------------------------------------

    def _load(self) -> ServiceState:
        self._log = self._store.open(STATE_LOG)
        recovery = StateRecovery(self._log, self._report_state)
        state = recovery.run()
        self._snapshot_due = recovery.damaged
        return state

    def _report_state(self, sequence: int, reason: str) -> None:
        self._note.error("state record %d skipped: %s", sequence, reason)

    def _compose(self, state: ServiceState) -> None:
        context = self._context
        info = server_info(self.options, state.server)
        self._info = info
        self._journal = StreamingJournal(self._log, context, self._gather)
        self._journal.snapshot_due = self._snapshot_due
        if state.server is None:
            self._journal.server(info)
        self._requests = Requests(context)
        self._channels = Channels(context, self._store, self._journal)
        self._channels.recover(state.channels)
        self._clients = ClientRegistry(context, self._journal, self._requests, info)
        self._deliverer = Deliverer(context, self._counters)
        redelivery = SubscriptionRedelivery(context, self._counters, self._deliverer)
        self._deliverer.connect(redelivery)
        self._publisher = Publisher(context, self._channels, self._clients, self._deliverer, self._counters)
        self._subscriptions = Subscriptions(
            context,
            channels=self._channels,
            clients=self._clients,
            journal=self._journal,
            deliverer=self._deliverer,
            redelivery=redelivery,
            routes=self._routes,
        )
        self._partitions: Partitions | None = None
        if self.options.partitioning:
            from headrace.streaming.partitions import Partitions

            self._partitions = Partitions(context, self.server_id, self._fail)
            self._publisher.owns = self._subscriptions.owns = self._partitions.owns
        self._clients.connect_to(self._subscriptions.release, self._subscriptions.recovered)
        self._is_open = True
        self._recovery = StreamingRecovery(
            context,
            channels=self._channels,
            clients=self._clients,
            journal=self._journal,
            subscriptions=self._subscriptions,
            redelivery=redelivery,
        )

    def _listen(self) -> None:
        info, subscriptions = self._info, self._subscriptions
        self._route({self._requests.subject: self._requests.answered})
        requests: dict[
            bytes, tuple[Callable[[Delivery], None], Callable[[], error_responses.ErrorResponse]]
        ] = {
            info.discovery: (self._clients.connect, error_responses.to_connect),
            info.discovery + b".pings": (self._clients.ping, error_responses.to_ping),
            info.subscribe: (self._subscribe, error_responses.to_subscription),
            info.unsubscribe: (subscriptions.unsubscribe, error_responses.to_subscription),
            info.sub_close: (subscriptions.close, error_responses.to_subscription),
            info.close: (self._clients.close_request, error_responses.to_close),
            REPLAY_PREFIX.encode() + info.cluster_id: (self._replay, error_responses.to_replay),
            ADMINISTRATION_PREFIX.encode() + info.cluster_id + b".*": (
                self._administrate,
                error_responses.to_administration,
            ),
        }
        host = self._context.host
        for subject, (route, error_response) in requests.items():
            self._routes[host.subscribe(subject, named=True)] = error_responses.answered(
                host, route, error_response
            )
        publications: dict[bytes, Callable[[Gathered[Delivery]], None]]
        publications = {info.publish + b".>": self._publisher.receive}
        if self._partitions is not None:
            publications = dict(self._partitions.publications(info.publish, self._publisher.receive))
        self._route(publications, gathered=True)

    def _route(self, routes: Mapping[bytes, Callable[[Any], None]], *, gathered: bool = False) -> None:
        for subject, route in routes.items():
            self._routes[self._context.host.subscribe(subject, gathered=gathered)] = route

    def _subscribe(self, delivery: Delivery) -> None:
        self._publisher.flush()  # what came before is stored before: it decides where a start position is
        self._subscriptions.subscribe(delivery)

    def _replay(self, delivery: Delivery) -> None:
        self._publisher.flush()  # what came before is part of it, if it is durable at once
        self.replays.receive(delivery)

    def _administrate(self, delivery: Delivery) -> None:
        self._administration.receive(delivery)

    @cached_property
    def replays(self) -> Replays:
        """Imported with the first request: a start does not wait for it."""
        from headrace.streaming.replaying import Replays

        return Replays(self._context, self._channels, self._counters)

    @cached_property
    def _administration(self) -> Administration:
        """The administration, made when it is first needed."""
        from headrace.streaming.administration import Administration

        return Administration(
            self._context,
            channels=self._channels,
            subscriptions=self._subscriptions,
            journal=self._journal,
            flush=self._publisher.flush,
        )

    def _gather(self) -> ServiceState:
        state = ServiceState(server=self._info)
        for client in self._clients.all():
            state.clients[client.id] = client.info
        for channel in self._channels.all():
            if not channel.deleting:
                state.channels[channel.name] = channel.created_ns
            for subscription in channel.everyone():
                state.subscriptions[subscription.id] = subscription.record()
        return state

    def _note_ready(self) -> None:
        if self._state != self._active:
            return
        if self._partitions is None:  # else others with the cluster ID are as it should be
            self._look_for_others()
        self._note.info("Streaming Server is ready")

    def _look_for_others(self) -> None:
        request = ConnectRequest(client_id=self._info.cluster_id, heartbeat_inbox=new_inbox())
        self._requests.ask(self._info.discovery, _PROBE_S, self._other_answered, request.encode())

    def _other_answered(self, answered: bool) -> None:
        if answered:
            self._fail(error_texts.other_server(self.options.cluster_id))

    def _fail(self, text: str) -> None:
        """Cannot go on beside another server."""
        self._note.error("%s", text)
        self.stop()
        self._state = "FAILED"
        self._on_conflict(text)

    def _note_recovered(self, state: ServiceState) -> None:
        if not len(self._channels) and not state.clients:
            self._note.info("No recovered state")
            return
        self._note.info("Recovered %d channel(s)", len(self._channels))
        self._note.info("Recovered %d client(s)", len(state.clients))

    def _note_store(self) -> None:
        self._note.info("Message store is %s", self.options.store_type)
        if self.options.store_type == "FILE":
            self._note.info("Store location: %s", self.options.directory)
        for line in limit_lines(self.options.limits):
            self._note.info("%s", line)

    def channel(self, name: bytes) -> Channel:
        """Return a channel, and make it if it is not there.

        Raises: ChannelRefused, LogClosed while it serves none.
        """
        if not self._is_open or self._state != self._active:
            raise LogClosed("the streaming service does not serve")
        return self._channels.get_or_create(name)

    def grown(self, channel: Channel, last: int) -> None:
        """Messages up to `last` are in the channel's log, durably, that came by another way."""
        if self._state != self._active or not self._channels.is_open(channel):
            return
        channel.visible = max(channel.visible, last)
        channel.last_time_ns = max(channel.last_time_ns, channel.log.state().last_time_ns)
        self._channels.touch(channel)
        self._channels.watch_expiry(channel)
        self._deliverer.serve_channel(channel)
        self._context.settle()

    def stored(self) -> StoredChannels | None:
        """The channels for whoever copies them elsewhere; None while it does not serve."""
        if not self._is_open or self._state != self._active:
            return None
        from headrace.streaming.stored import StoredChannels

        return StoredChannels(self._channels)

    # -- monitoring ------------------------------------------------------------------------------------

    def snapshot_server(self) -> StreamingSnapshot:
        messages, size, damaged = self._totals()
        counters = self._counters
        return StreamingSnapshot(
            cluster_id=self.options.cluster_id,
            server_id=self.server_id,
            state=self._state,
            role="",
            node_id="",
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
            sync=self.options.sync,
            damaged=damaged,
            archive=self.archive() if self.archive is not None else None,
        )

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
        client = self._clients.get(client_id.encode()) if self._is_open else None
        return client_snapshot(client, subscriptions=subscriptions) if client is not None else None

    def channel_names(self) -> list[str]:
        return sorted(shown(channel.name) for channel in self._all_channels())

    def snapshot_channel(self, name: str, *, subscriptions: bool = False) -> ChannelSnapshot | None:
        """The channel that `channel_names` shows as `name`."""
        channel = self._channels.get(name.encode()) if self._is_open else None
        if channel is None and "\\" in name:  # bytes that are no UTF-8 are shown as escapes
            channel = next((one for one in self._all_channels() if shown(one.name) == name), None)
        return channel_snapshot(channel, subscriptions=subscriptions) if channel is not None else None

    def _all_channels(self) -> list[Channel]:
        return self._channels.all() if self._is_open else []

    def _all_clients(self) -> list[RegisteredClient]:
        return self._clients.all() if self._is_open else []

    def _totals(self) -> tuple[int, int, int]:
        states = [channel.log.state() for channel in self._all_channels()]
        return (
            sum(state.messages for state in states),
            sum(state.bytes for state in states),
            sum(len(state.damaged) for state in states),
        )
