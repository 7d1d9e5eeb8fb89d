"""JetStream of one account: composes its streams, consumers, API and durable state, and works in turns.

Sans-I/O: what comes in are batches of deliveries, timers and commits; what goes out are publications through
the host and appends to logs. What a request means is `api`'s, what a stream or a consumer does is theirs,
what is remembered is `journal` and `recovery`; here is who is there, and the order of things in a turn:
publications are appended, then consumers are served, then the state is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from headrace.core.service import Taking
from headrace.engine.jetstream import Acks, sort_acks
from headrace.errors import LogError, StartError
from headrace.jetstream.advisories import Advisories
from headrace.jetstream.api.dispatch import Api, no_responders
from headrace.jetstream.assets import Assets
from headrace.jetstream.limits import ApiCounters, Tiers, Usage
from headrace.jetstream.state.journal import Journal
from headrace.jetstream.state.recovery import Recovery
from headrace.jetstream.stream_configs import StreamConfigs
from headrace.log.port import SyncPolicy
from headrace.protocol.jetstream.acks import parse_ack
from headrace.protocol.jetstream.configs import Storage
from headrace.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.core.service import Delivery, Host
    from headrace.core.tracing import MessageTrace
    from headrace.engine.batches import Gathered
    from headrace.jetstream.consumer.consumer import Consumer
    from headrace.jetstream.limits import AccountLimits, ServerSettings
    from headrace.jetstream.stream.stream import Stream
    from headrace.jetstream.system import JetStreamSystem
    from headrace.protocol.jetstream.configs import StreamConfig

_T = TypeVar("_T")
_AT_ONCE: Final = 0.0
_FLOW_TOKENS: Final = 4
_ANSWERED_HERE: Final = (b"$JS.API.CONSUMER.MSG.NEXT.", b"$JS.API.DIRECT.GET.")


class Served(Protocol):
    """Who has something to send: a consumer, or what follows another stream."""

    def serve(self) -> bool:
        """Does a bounded part of it; whether there is more."""


class AccountJetStream:
    """Implements `core.service.Service`. The stores stay their owner's to close."""

    def __init__(self, name: str, system: JetStreamSystem, tiers: dict[str, AccountLimits]) -> None:
        self.name = name
        self.system = system
        self.settings: ServerSettings = system.settings
        self.domain = system.settings.domain
        self.note = system.note
        self.tiers = Tiers(tiers)
        self.usage = Usage(system.held)
        self.api_counters = ApiCounters()
        self.streams: dict[str, Stream] = {}
        self.configs = StreamConfigs()
        """Of the streams, for whoever compares a new one with all of them."""
        self.broken: dict[str, str] = {}
        """Streams that are stored and not served, and why."""
        self._routes: dict[int, Callable[[Any], object]] = {}
        self._touched: dict[Stream, None] = {}
        self._woken: dict[Served, None] = {}
        self._again: dict[Served, None] = {}
        """Those that have more to do than fits into one turn."""
        self._unowned = Acks()
        """Acknowledgements for consumers that are not there."""
        self._elsewhere = Acks()
        """Those that others hear too: the consumer may be another server's, in another domain."""
        self._is_running = False

    # -- life ------------------------------------------------------------------------------------------

    def start(self, host: Host) -> None:
        """Recovers, then subscribes. Raises: StartError."""
        self.host = host
        self.turns = Turns(host, self.system.committer)
        self._advisories = Advisories(host, self.domain)
        self.advise = self._advisories.advise
        self.metric = self._advisories.metric
        self.publish = host.publish
        recovery = Recovery(self)
        try:
            state = recovery.read()
            self.assets = Assets(self)
            self.journal = Journal(
                recovery.open_log,
                self.turns,
                self.note,
                self.assets.gather,
                syncs_at_once=self.system.sync is SyncPolicy.GROUP,
            )
            self.journal.snapshot_due = recovery.damaged
            recovery.run(state)
        except LogError as error:
            raise StartError(f"JetStream of account {self.name}: {error}") from error
        self._is_running = True
        self._api = Api(self)
        self._listen()
        self.turns.on_settle(self._round)
        for stream in self.streams.values():
            for consumer in list(stream.consumers.values()):
                consumer.start()
        self.turns.settle()

    def hear(self, *, on: bool) -> None:
        """Begins or ends the subscription to requests that name no domain."""
        if on:
            self._heard = self.subscribe(b"$JS.API.>", self._api.receive)
        else:
            self.unsubscribe(self._heard)

    def _listen(self) -> None:
        self.hear(on=True)
        if self.domain:
            # Clients of this server have mappings for it; those of others get here by interest.
            self.subscribe(f"$JS.{self.domain}.API.>".encode(), self._api.receive_by_domain)
        self.subscribe(b"$JS.ACK.>", self._acknowledge, gathered=True)
        self.subscribe(b"$JS.FC.>", self._flow_response)
        for stream in self.streams.values():
            stream.start()

    def stop(self) -> None:
        """Makes durable what was received and answers who waits for it; streams and consumers stay."""
        if not self._is_running:
            return
        self.turns.settle()
        self.turns.finish_commits()
        for stream in self.streams.values():
            for consumer in stream.consumers.values():
                consumer.stop("shutdown")
            stream.close()
        self.journal.hurry()
        self.turns.settle()
        self.turns.finish_commits()
        self.turns.stop()
        self._is_running = False
        for sid in list(self._routes):
            self.unsubscribe(sid)
        self.usage.end()

    # -- turns -----------------------------------------------------------------------------------------

    def deliver(self, batch: Sequence[Delivery | Gathered[Delivery]]) -> None:
        """All messages of one tick, in order; publications are appended together at its end."""
        routes = self._routes
        for received in batch:
            route = routes.get(received.sid)
            if route is not None:  # else the subscription ended while this was under way
                self._guarded(route, received)
        self.turns.settle()

    def begin_turn(self) -> None:
        self.system.committer.begin_turn()

    def end_turn(self, *, is_last: bool) -> None:
        """Answers what one quick sync makes durable at once (`log.committer`)."""
        self.system.committer.end_turn(is_last=is_last)

    def _guarded(self, work: Callable[..., _T], *arguments: object) -> _T | None:
        """What fails with one message, stream or consumer ends nothing else: it is said, others go on."""
        try:
            return work(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is: it is logged
            self.mistaken(error)
            return None

    def mistaken(self, error: Exception, subject: bytes = b"") -> None:
        """Says in one line what went wrong: a disk that fails, or a mistake of ours with a message."""
        if isinstance(error, LogError):
            self.note.error("JetStream of account %s: %s", self.name, error)
        else:
            self.host.failed(error, f"account {self.name} {subject.decode('utf-8', 'replace')}".rstrip())

    def touch(self, stream: Stream) -> None:
        """A stream has publications to append, or messages of it went: it is looked at in this turn."""
        self._touched[stream] = None

    def wake(self, served: Served) -> None:
        """It is served at the end of this turn."""
        self._woken[served] = None

    def flush(self) -> None:
        """Appends what was published so far: whoever asks now, asks after it."""
        while self._touched:
            stream, _ = self._touched.popitem()
            if self.streams.get(stream.name) is stream:
                self._guarded(stream.flush)
                self._guarded(self.usage.measure, stream)

    def _round(self) -> bool:
        """What is due now; whether that left something to do in this turn."""
        self.flush()
        self._serve()
        self.journal.flush()
        return bool(self._touched or self._woken) or not self.journal.idle

    def _serve(self) -> None:
        while self._woken:
            served = next(iter(self._woken))
            del self._woken[served]
            if self._guarded(served.serve):
                if not self._again:
                    self.turns.later(_AT_ONCE, self._continue)
                self._again[served] = None

    def _continue(self) -> None:
        again, self._again = self._again, {}
        self._woken.update(again)

    # -- messages --------------------------------------------------------------------------------------

    def take_trace(self, trace: MessageTrace, sid: int, subject: bytes) -> Taking:
        """A message that is traced has come: streams go on with its trace, where requests end.

        As on the Go server the requests that an account answers by itself are answered all the same: they are
        no imported service there.
        """
        from headrace.jetstream.stream.ingest import Ingest

        asked = getattr(self._routes.get(sid), "__self__", None)
        if isinstance(asked, Ingest):
            trace.meet(asked.stream_name)
            return Taking.TRACED
        if asked is not self._api or subject.startswith(_ANSWERED_HERE):
            return Taking.SILENT
        trace.service_import(trace.system, subject, subject)
        return Taking.REFUSED if trace.is_only else Taking.SILENT

    def subscribe(
        self,
        subject: bytes,
        route: Callable[[Any], object],
        *,
        gathered: bool = False,
        queue: bytes = b"",
    ) -> int:
        """`route` gets every `Delivery`, or with `gathered` every run of them. Raises: ValueError."""
        sid = self.host.subscribe(subject, queue, gathered=gathered)
        self._routes[sid] = route
        return sid

    def unsubscribe(self, sid: int) -> None:
        if self._routes.pop(sid, None) is not None:
            self.host.unsubscribe(sid)

    def has_interest(self, subject: bytes) -> bool:
        return self.host.backlog(subject) is not None

    def advised(self, suffix: str) -> bool:
        """Whether somebody listens to an advisory."""
        return self._advisories.heard(suffix)

    def consumer(self, stream: bytes, name: bytes) -> Consumer | None:
        """By the names that subjects have."""
        found = self.streams.get(_text(stream))
        return None if found is None else found.consumers.get(_text(name))

    def _acknowledge(self, run: Gathered[Delivery]) -> None:
        """Acknowledgements of one run, each consumer's together and in order with what is no plain one."""
        for acks in sort_acks(run, self._acks_of, self._special_ack):
            if acks.owner is not None:
                acks.owner.acknowledged(acks)
                continue
            if acks is self._unowned:
                for reply in acks.replies():
                    self.answer_nobody(reply)
            acks.clear()

    def _acks_of(self, stream: bytes, name: bytes) -> Acks:
        consumer = self.consumer(stream, name)
        if consumer is not None:
            return consumer.acks
        is_ours = self.host.is_alone(b"$JS.ACK.%b.%b.1.1.1.1.0" % (stream, name))
        return self._unowned if is_ours else self._elsewhere

    def _special_ack(self, delivery: Delivery) -> None:
        subject = parse_ack(delivery.subject)
        consumer = None if subject is None else self.consumer(subject.stream, subject.consumer)
        if consumer is not None:
            consumer.special(delivery)
        elif delivery.reply and self.host.is_alone(delivery.subject):
            self.answer_nobody(delivery.reply, delivery.subject)

    def answer_nobody(self, reply: bytes, subject: bytes = b"") -> None:
        """What a client sees of a consumer or a stream that is not there.

        `subject`: what it asked; that of an acknowledgement is not named.
        """
        self.publish(reply, b"", headers=no_responders(subject))

    def _flow_response(self, delivery: Delivery) -> None:
        tokens = delivery.subject.split(b".")
        consumer = self.consumer(tokens[2], tokens[3]) if len(tokens) > _FLOW_TOKENS else None
        if consumer is not None:
            consumer.flow_response(delivery)

    def remove_consumer(self, consumer: Consumer, reason: str = "deleted") -> None:
        """A consumer is done: it goes as if it had been deleted."""
        self.assets.remove_consumer(consumer, reason)

    # -- limits ----------------------------------------------------------------------------------------

    def refused(self, stream: Stream, size: int) -> int:
        """The error that `size` more bytes in a stream are refused with, 0 when there is room."""
        return self.room_for(stream.config, size)

    def room_for(self, config: StreamConfig, size: int) -> int:
        """The same for a stream that may not be there yet."""
        storage = config.storage
        tier = self.tiers.select(config.num_replicas)
        if tier is None:
            return 10120
        _, limits = tier
        most = limits.max_memory if storage is Storage.MEMORY else limits.max_storage
        if 0 <= most < self.usage.held.of(storage) + size:
            return 10002
        of_server = self.settings.max_memory if storage is Storage.MEMORY else self.settings.max_storage
        if 0 < of_server < self.system.held.of(storage):
            return 10023
        return 0

    def purge(self, done: Callable[[LogError | None], None]) -> None:
        """Removes every stream; `done` is called when they are gone."""
        streams = list(self.streams.values())
        left = len(streams)
        failed: LogError | None = None

        def removed(error: LogError | None) -> None:
            nonlocal left, failed
            left -= 1
            failed = failed or error
            if left <= 0:
                done(failed)

        if not streams:
            done(None)
        self.flush()
        for stream in streams:
            self.assets.remove_stream(stream, removed)
        self.turns.settle()

    def set_limits(self, tiers: dict[str, AccountLimits]) -> None:
        """From now on; what is there already stays."""
        self.tiers = Tiers(tiers)

    def reserved_of(self, storage: Storage) -> int:
        """Bytes that the streams of a storage may grow to, as far as they are bounded."""
        return sum(self.configs.reserved(storage).values())

    def get_directly(self, name: bytes, subject: bytes, delivery: Delivery) -> bool:
        """Answers a direct get; False when there is no stream of that name that allows it."""
        stream = self.streams.get(_text(name))
        if stream is None or not stream.config.allow_direct:
            return False
        stream.direct(delivery, subject)
        return True


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")
