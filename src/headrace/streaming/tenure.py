"""A tenure: the time in which this server has the channels, from reading their store to giving it up.

Here lives what is made of a store: the parts of the service, the subjects they listen on, and how that ends.
It ends with the server (`close`), for another server that takes over in order (`retire`), or at once, when
another one has taken over already (`abandon`). A server may have any number of tenures, one after another;
nothing of one is used in the next. Never lives here: who may have the store, what monitoring shows
(`service`).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from headrace.errors import LogError
from headrace.protocol.stan import ADMINISTRATION_PREFIX, REPLAY_PREFIX, ConnectRequest
from headrace.streaming import error_responses, error_texts
from headrace.streaming.channels import Channels
from headrace.streaming.clients import ClientRegistry
from headrace.streaming.delivery import Deliverer
from headrace.streaming.journal import StreamingJournal
from headrace.streaming.limits import limit_lines
from headrace.streaming.naming import new_inbox
from headrace.streaming.publishing import Publisher
from headrace.streaming.recovery import StreamingRecovery, server_info
from headrace.streaming.redelivery import SubscriptionRedelivery
from headrace.streaming.requests import Requests
from headrace.streaming.state import STATE_LOG, ServiceState, StateRecovery
from headrace.streaming.subscribing import Subscriptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.core.service import Delivery
    from headrace.engine.batches import Gathered
    from headrace.log.store import LogStore
    from headrace.streaming.administration import Administration
    from headrace.streaming.channels import Channel
    from headrace.streaming.context import Context, Counters, Routes
    from headrace.streaming.partitions import Partitions
    from headrace.streaming.replaying import Replays

_PROBE_S: Final = 2.0
"""Seconds that another server with the same cluster ID has to answer.

It may need half a second itself to learn whether an earlier one that asked is still there.
"""


class Tenure:
    """The service over one store. It reads the store at once, and serves nobody before `begin`.

    `context` is its own: when the tenure ends, so do the turns. `on_failure` is called with a text when it
    cannot go on. The store stays its owner's to close.
    Raises: LogError; StartError for the store of another cluster ID.
    """

    def __init__(
        self,
        context: Context,
        store: LogStore,
        server_id: str,
        counters: Counters,
        on_failure: Callable[[str], object],
    ) -> None:
        self.routes: Final[Routes] = {}
        self.serves = False
        """True while it answers clients."""
        self._listening: list[int] = []
        """The subscriptions to requests of clients."""
        self._on_end: Callable[[], object] | None = None
        self._context = context
        self._counters = counters
        self._on_failure = on_failure
        context.note.info("Recovering the state...")
        self._log = store.open(STATE_LOG)
        recovery = StateRecovery(self._log, self._report_state)
        self._recovered = state = recovery.run()
        info = server_info(context.options, state.server)
        self._info = info
        self._journal = StreamingJournal(self._log, context, self._gather)
        self._journal.snapshot_due = recovery.damaged
        if state.server is None:
            self._journal.server(info)
        self._requests = Requests(context)
        self.channels: Final = Channels(context, store, self._journal)
        self.channels.recover(state.channels)
        self.clients: Final = ClientRegistry(context, self._journal, self._requests, info)
        self._deliverer = Deliverer(context, counters)
        redelivery = SubscriptionRedelivery(context, counters, self._deliverer)
        self._deliverer.connect(redelivery)
        self._publisher = Publisher(context, self.channels, self.clients, self._deliverer, counters)
        self._subscriptions = Subscriptions(
            context,
            channels=self.channels,
            clients=self.clients,
            journal=self._journal,
            deliverer=self._deliverer,
            redelivery=redelivery,
            routes=self.routes,
        )
        self._partitions: Partitions | None = None
        if context.options.partitioning:
            from headrace.streaming.partitions import Partitions

            self._partitions = Partitions(context, server_id, on_failure)
            self._publisher.owns = self._subscriptions.owns = self._partitions.owns
        self.clients.connect_to(self._subscriptions.release, self._subscriptions.recovered)
        self._recovery = StreamingRecovery(
            context,
            channels=self.channels,
            clients=self.clients,
            journal=self._journal,
            subscriptions=self._subscriptions,
            redelivery=redelivery,
        )
        self._note_recovered()
        self._note_store()

    def begin(self, *, alone: bool) -> None:
        """Serve clients, with partitions once the other servers had the time to object.

        `alone`: nobody else can have the store, so another server that answers for the cluster ID has one of
        its own, and this one ends.
        """
        if self._partitions is None:
            self._serve()
            self._context.host.when_heard(lambda: self._ready(looks_for_others=alone))
            return
        partitions = self._partitions
        self._route(partitions.routes())
        self._context.host.when_heard(lambda: partitions.check(self._serve_late))

    def _serve_late(self) -> None:
        """Serve after the check of the partitions; an error ends the service."""
        try:
            self._serve()
        except LogError as error:
            self._on_failure(str(error))
            return
        self._context.host.when_heard(lambda: self._ready(looks_for_others=False))

    def _serve(self) -> None:
        """Subscribe to the requests of clients, recover, and answer them from here on."""
        self._listen()
        self._recovery.run(self._recovered)
        self._recovered = ServiceState()
        self.serves = True
        self._context.on_settle(self._round)
        self._context.settle()

    # -- ends ------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End with the server: what was received is made durable and answered; clients stay registered."""
        if self.serves:
            self._context.settle()
            self._context.finish_commits()
            self._stop_replays()
        self.abandon()

    def retire(self, done: Callable[[], object]) -> None:
        """End in order: take no more requests.

        `done` is called when all that was taken is durable and answered, which the committer says, or when
        the tenure ends otherwise meanwhile.
        """
        self._on_end = done
        if not self.serves:
            self.abandon()
            return
        self._unsubscribe(self._listening)
        self._context.settle()
        self._stop_replays()
        self._context.when_idle(self.abandon)

    def abandon(self) -> None:
        """End at once: nothing is answered, acknowledged, delivered or written from now on."""
        self.serves = False
        self._context.stop()
        self._unsubscribe(list(self.routes))
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()

    def _unsubscribe(self, sids: list[int]) -> None:
        for sid in sids:
            if self.routes.pop(sid, None) is not None:
                self._context.host.unsubscribe(sid)

    def _stop_replays(self) -> None:
        if "replays" in vars(self):
            self.replays.stop()

    # -- turns -----------------------------------------------------------------------------------------

    def settle(self) -> None:
        """End a turn: publications are appended together, state is written, subscriptions are served."""
        self._context.settle()

    def _round(self) -> bool:
        """Do what is due now. True if that left something to do in this turn."""
        self._publisher.flush()
        self._deliverer.run()
        self._journal.flush()
        return not (self._publisher.is_idle and self._deliverer.is_idle and self._journal.idle)

    # -- start, in parts -------------------------------------------------------------------------------

    def _report_state(self, sequence: int, reason: str) -> None:
        self._context.note.error("state record %d skipped: %s", sequence, reason)

    def _listen(self) -> None:
        info, subscriptions = self._info, self._subscriptions
        self._route({self._requests.subject: self._requests.answered})
        requests: dict[
            bytes, tuple[Callable[[Delivery], None], Callable[[], error_responses.ErrorResponse]]
        ] = {
            info.discovery: (self.clients.connect, error_responses.to_connect),
            info.discovery + b".pings": (self.clients.ping, error_responses.to_ping),
            info.subscribe: (self._subscribe, error_responses.to_subscription),
            info.unsubscribe: (subscriptions.unsubscribe, error_responses.to_subscription),
            info.sub_close: (subscriptions.close, error_responses.to_subscription),
            info.close: (self.clients.close_request, error_responses.to_close),
            REPLAY_PREFIX.encode() + info.cluster_id: (self._replay, error_responses.to_replay),
            ADMINISTRATION_PREFIX.encode() + info.cluster_id + b".*": (
                self._administrate,
                error_responses.to_administration,
            ),
        }
        host = self._context.host
        for subject, (route, error_response) in requests.items():
            sid = host.subscribe(subject, named=True)
            self.routes[sid] = error_responses.answered(host, route, error_response)
            self._listening.append(sid)
        publications: dict[bytes, Callable[[Gathered[Delivery]], None]]
        publications = {info.publish + b".>": self._publisher.receive}
        if self._partitions is not None:
            publications = dict(self._partitions.publications(info.publish, self._publisher.receive))
        self._listening += self._route(publications, gathered=True)

    def _route(self, routes: Mapping[bytes, Callable[[Any], None]], *, gathered: bool = False) -> list[int]:
        """Subscribe to each subject; return the subscriptions."""
        added = {self._context.host.subscribe(one, gathered=gathered): route for one, route in routes.items()}
        self.routes.update(added)
        return list(added)

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

        return Replays(self._context, self.channels, self._counters)

    @cached_property
    def _administration(self) -> Administration:
        """The administration, made when it is first needed."""
        from headrace.streaming.administration import Administration

        return Administration(
            self._context,
            channels=self.channels,
            subscriptions=self._subscriptions,
            journal=self._journal,
            flush=self._publisher.flush,
        )

    def _gather(self) -> ServiceState:
        state = ServiceState(server=self._info)
        for client in self.clients.all():
            state.clients[client.id] = client.info
        for channel in self.channels.all():
            if not channel.deleting:
                state.channels[channel.name] = channel.created_ns
            for subscription in channel.everyone():
                state.subscriptions[subscription.id] = subscription.record()
        return state

    def _ready(self, *, looks_for_others: bool) -> None:
        if not self.serves:
            return
        if looks_for_others:
            self._look_for_others()
        self._context.note.info("Streaming Server is ready")

    def _look_for_others(self) -> None:
        request = ConnectRequest(client_id=self._info.cluster_id, heartbeat_inbox=new_inbox())
        self._requests.ask(self._info.discovery, _PROBE_S, self._other_answered, request.encode())

    def _other_answered(self, answered: bool) -> None:
        if answered:
            self._on_failure(error_texts.other_server(self._context.options.cluster_id))

    def _note_recovered(self) -> None:
        note, clients = self._context.note, self._recovered.clients
        if not len(self.channels) and not clients:
            note.info("No recovered state")
            return
        note.info("Recovered %d channel(s)", len(self.channels))
        note.info("Recovered %d client(s)", len(clients))

    def _note_store(self) -> None:
        options, note = self._context.options, self._context.note
        note.info("Message store is %s", options.store_type)
        if options.store_type == "FILE":
            note.info("Store location: %s", options.directory)
        for line in limit_lines(options.limits):
            note.info("%s", line)

    # -- messages that came by another way ---------------------------------------------------------------

    def grown(self, channel: Channel, last: int) -> None:
        """Messages up to `last` are in the channel's log, durably, that came by another way."""
        if not self.serves or not self.channels.is_open(channel):
            return
        channel.visible = max(channel.visible, last)
        channel.last_time_ns = max(channel.last_time_ns, channel.log.state().last_time_ns)
        self.channels.touch(channel)
        self.channels.watch_expiry(channel)
        self._deliverer.serve_channel(channel)
        self._context.settle()
