"""JetStream of one account as a service: composes its parts, and passes on what comes in.

Sans-I/O: what comes in are batches of deliveries, timers and commits; what goes out are publications through
the host and appends to logs. The order of things in a turn: publications are appended, then consumers are
served, then the state is written.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.core.service import Taking
from headrace.engine.ack_lane import AckLane
from headrace.engine.api_lane import ApiLane
from headrace.engine.jetstream import Acks, sort_acks
from headrace.errors import LogError, StartError
from headrace.jetstream.account import AccountJetStream
from headrace.jetstream.api.dispatch import START, Api
from headrace.jetstream.assets import Assets
from headrace.jetstream.state.journal import JetStreamJournal
from headrace.jetstream.state.recovery import JetStreamRecovery
from headrace.log.port import SyncPolicy
from headrace.protocol.jetstream.acks import parse_ack

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.core.service import Delivery, Host
    from headrace.core.tracing import MessageTrace
    from headrace.engine.batches import Gathered
    from headrace.jetstream.account import Shared
    from headrace.jetstream.limits import AccountLimits

_FLOW_TOKENS: Final = 4
_ANSWERED_HERE: Final = (b"$JS.API.CONSUMER.MSG.NEXT.", b"$JS.API.DIRECT.GET.")


class AccountService(AccountJetStream):
    """Implements `core.service.Service`."""

    def __init__(self, name: str, system: Shared, tiers: dict[str, AccountLimits]) -> None:
        super().__init__(name, system, tiers)
        self._unowned = Acks()
        """Acknowledgements for consumers that are not there."""
        self._elsewhere = Acks()
        """Acknowledgements that others hear too: the consumer may be another server's, in another domain."""
        self._is_running = False
        self._deletions: list[tuple[str, list[tuple[int, bytes]]]] = []
        """Messages to be deleted first in the next turn: by stream, their sequences and who is answered."""

    # -- life ------------------------------------------------------------------------------------------

    def start(self, host: Host) -> None:
        """Recover, then subscribe. Raises: StartError."""
        self.begin(host)
        recovery = JetStreamRecovery(self)
        try:
            state = recovery.read()
            self.assets = Assets(self)
            self.journal = JetStreamJournal(
                recovery.open_log,
                self.turns,
                self.note,
                self.assets.gather,
                syncs_at_once=self.system.sync is SyncPolicy.GROUP,
            )
            self.writer = self.journal.writer
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
            self.assets.tell_of_leader(stream)
            for consumer in stream.consumers.values():
                self.assets.tell_of_leader(stream, consumer)
        self.turns.settle()

    def hear(self, *, on: bool) -> None:
        """Begin or end the subscription to requests that name no domain."""
        if on:
            self._heard = self.subscribe(b"$JS.API.>", self._api.receive)
            self._open_lane(self._heard, b"$JS")
        else:
            self.unsubscribe(self._heard)

    def _open_lane(self, sid: int, prefix: bytes) -> None:
        """Have requests answered in compiled code, as far as that can."""
        prefix += START
        if prefix.index(START) + len(START) == len(prefix):  # else it is part of what is asked
            self.host.open_lane(sid, ApiLane(self.host.outgoing, prefix, self))

    def _listen(self) -> None:
        self.hear(on=True)
        if self.domain:
            # Clients of this server have mappings for it; those of others get here by interest.
            prefix = f"$JS.{self.domain}".encode()
            sid = self.subscribe(prefix + START + b">", self._api.receive_by_domain)
            self._open_lane(sid, prefix)
        acks = self.subscribe(b"$JS.ACK.>", self._acknowledge, gathered=True)
        self.host.open_lane(acks, AckLane(self.cores, self.host.outgoing, self.journal, self.now_ns))
        self.subscribe(b"$JS.FC.>", self._flow_response)
        for stream in self.streams.values():
            stream.start()

    def stop(self) -> None:
        """Make durable what was received and answer who waits for it; streams and consumers stay."""
        if not self._is_running:
            return
        self.turns.settle()
        self.turns.finish_commits()
        self._stop_consumers("shutdown")
        self._close_streams()
        self.turns.finish_commits()
        self._end()

    def retire(self, done: Callable[[], object]) -> None:
        """Take nothing more, and call `done` when what was taken is committed and answered."""
        self._end_subscriptions()
        self.turns.settle()
        self._stop_consumers("leadership")
        self.turns.when_idle(partial(self._close_and_end, done))

    def abandon(self) -> None:
        """End at once: nothing is written, nobody is answered; pulls that wait are told to ask again."""
        if not self._is_running:
            return
        self._end()
        self._stop_consumers("leadership")
        for stream in self.streams.values():
            stream.close()

    def _close_and_end(self, done: Callable[[], object]) -> None:
        self._close_streams()
        self.turns.when_idle(partial(self._ended, done))

    def _ended(self, done: Callable[[], object]) -> None:
        self._end()
        done()

    def _stop_consumers(self, reason: str) -> None:
        for stream in self.streams.values():
            for consumer in stream.consumers.values():
                consumer.stop(reason)

    def _close_streams(self) -> None:
        for stream in self.streams.values():
            stream.close()
        self.journal.hurry()
        self.turns.settle()

    def _end(self) -> None:
        self.turns.stop()
        self._is_running = False
        self._end_subscriptions()
        self.quota.usage.end()

    def _end_subscriptions(self) -> None:
        for sid in list(self._routes):
            self.unsubscribe(sid)

    # -- turns -----------------------------------------------------------------------------------------

    def deliver(self, batch: Sequence[Delivery | Gathered[Delivery]]) -> None:
        """Take all messages of one tick, in order; publications are appended together at its end."""
        routes = self._routes
        if self._deletions:
            self._guarded(self._delete_all)
        for received in batch:
            route = routes.get(received.sid)
            if route is not None:  # else the subscription ended while this was under way
                self._guarded(route, received)
        self.turns.settle()

    def delete_together(self, stream: str, requests: list[tuple[int, bytes]]) -> None:
        """Delete messages first in the next turn: compiled code has taken these requests for it."""
        self._deletions.append((stream, requests))

    def _delete_all(self) -> None:
        from headrace.jetstream.api.deletions import delete_together

        deletions, self._deletions = self._deletions, []
        for name, requests in deletions:
            delete_together(self, self._api, name, requests)

    def begin_turn(self) -> None:
        self.system.committer.begin_turn()

    def end_turn(self, *, is_last: bool) -> None:
        """Answer what one quick sync makes durable at once (`log.committer`)."""
        self.system.committer.end_turn(is_last=is_last)

    def _round(self) -> bool:
        """Do what is due now; True if there is more to do in this turn."""
        self.flush()
        self._serve()
        self.journal.flush()
        return self.has_due

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

    def _acknowledge(self, run: Gathered[Delivery]) -> None:
        """Acknowledgements of one run, each consumer's together and in order with what is no plain one."""
        for acks in sort_acks(run, self._acks_of, self._special_ack):
            if acks.owner is not None:
                acks.owner.acknowledger.acknowledged(acks)
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
            consumer.acknowledger.special(delivery)
        elif delivery.reply and self.host.is_alone(delivery.subject):
            self.answer_nobody(delivery.reply, delivery.subject)

    def _flow_response(self, delivery: Delivery) -> None:
        tokens = delivery.subject.split(b".")
        consumer = self.consumer(tokens[2], tokens[3]) if len(tokens) > _FLOW_TOKENS else None
        if consumer is not None:
            consumer.acknowledger.flow_response(delivery)
