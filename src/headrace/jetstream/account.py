"""JetStream of one account: who is there, its effects, and the order of things in a turn.

Its streams and consumers, their configurations and the quota are here, and what the parts of all of them set
going (`ports`): publications are appended, then consumers are served. `service` makes a service of it. What a
request means is `api`'s, what a stream or a consumer does is theirs, what is remembered is `state`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from headrace.engine.consumer import ConsumerTable, DueWork
from headrace.errors import LogError
from headrace.jetstream.advisories import Advisories
from headrace.jetstream.limits import ApiCounters, Quota, Tiers
from headrace.jetstream.stream_configs import StreamConfigs
from headrace.protocol.jetstream.headers import no_responders
from headrace.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable
    from logging import Logger

    from headrace.core.service import Delivery, Host
    from headrace.jetstream.assets import Assets
    from headrace.jetstream.consumer.consumer import Consumer
    from headrace.jetstream.limits import AccountLimits, Held, Inflight, ServerSettings
    from headrace.jetstream.ports import ConsumerView, Served, StreamPort
    from headrace.jetstream.state.journal import JetStreamJournal
    from headrace.jetstream.stream.stream import Stream
    from headrace.log.committer import Committer
    from headrace.log.port import SyncPolicy
    from headrace.log.store import LogStore
    from headrace.protocol.jetstream.configs import Storage

_T = TypeVar("_T")
_AT_ONCE: Final = 0.0


class Shared(Protocol):
    """The part that the accounts of a server share: `JetStreamSystem`."""

    @property
    def settings(self) -> ServerSettings: ...
    @property
    def file(self) -> LogStore: ...
    @property
    def memory(self) -> LogStore: ...
    @property
    def committer(self) -> Committer: ...
    @property
    def sync(self) -> SyncPolicy: ...
    @property
    def note(self) -> Logger: ...
    @property
    def adopted(self) -> frozenset[bytes]:
        """Names of logs that are there before their streams: those will be made after the start."""

    @property
    def api(self) -> ApiCounters: ...
    @property
    def held(self) -> Held: ...
    @property
    def batches(self) -> Inflight: ...
    @property
    def advise(self) -> Callable[..., object]:
        """The function that publishes an advisory in the system account."""

    def reserved(self, storage: Storage) -> int:
        """Bytes that the streams of all accounts may grow to, as far as they are bounded."""


class AccountJetStream(DueWork):
    """Fulfils `ports.AccountPort`. The stores stay their owner's to close."""

    touched: dict[StreamPort, None]
    woken: dict[Served, None]
    assets: Assets
    journal: JetStreamJournal
    host: Host
    turns: Turns

    def __init__(self, name: str, system: Shared, tiers: dict[str, AccountLimits]) -> None:
        self.name = name
        self.system = system
        self.settings: ServerSettings = system.settings
        self.domain = system.settings.domain
        self.note = system.note
        self.quota: Final = Quota(system.settings, system.held, tiers)
        self.batches = system.batches
        self.api_counters = ApiCounters()
        self.streams: dict[str, Stream] = {}
        self.configs = StreamConfigs()
        """The configurations of the streams, for whoever compares a new one with all of them."""
        self.cores: Final = ConsumerTable()
        """The compiled parts of all consumers, by `<stream>.<consumer>`."""
        self.broken: dict[str, str] = {}
        """Streams that are stored and not served, and why."""
        self._routes: dict[int, Callable[[Any], object]] = {}
        self._again: dict[Served, None] = {}
        """Consumers and readers that have more to do than fits into one turn."""

    def begin(self, host: Host) -> None:
        """Its effects are there from now on."""
        self.host = host
        self.turns = turns = Turns(host, self.system.committer)
        self.now_ns = turns.now_ns
        self.later = turns.later
        self.commit = turns.commit
        self.finish_commits = turns.finish_commits
        self._advisories = Advisories(host, self.domain)
        self.advise = self._advisories.advise
        self.metric = self._advisories.metric
        self.publish = host.publish

    # -- turns -----------------------------------------------------------------------------------------

    def _guarded(self, work: Callable[..., _T], *arguments: object) -> _T | None:
        """Call `work`; log an exception and go on, so that one message or stream ends nothing else."""
        try:
            return work(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is: it is logged
            self.mistaken(error)
            return None

    def mistaken(self, error: Exception, subject: bytes = b"") -> None:
        """Log in one line a failure: of a disk, or a mistake of ours with a message."""
        if isinstance(error, LogError):
            self.note.error("JetStream of account %s: %s", self.name, error)
        else:
            self.host.failed(error, f"account {self.name} {subject.decode('utf-8', 'replace')}".rstrip())

    def touch(self, stream: StreamPort) -> None:
        """A stream has publications to append, or messages of it went: it is looked at in this turn."""
        self.touched[stream] = None

    def wake(self, served: Served) -> None:
        """Serve a consumer or a source reader at the end of this turn."""
        self.woken[served] = None

    def flush(self) -> None:
        """Appends what was published so far: whoever asks now, asks after it."""
        while self.touched:
            stream, _ = self.touched.popitem()
            known = self.streams.get(stream.name)
            if known is not None and known is stream:
                self._guarded(stream.flush)
                self._guarded(self.quota.usage.measure, stream)

    def _serve(self) -> None:
        while self.woken:
            served = next(iter(self.woken))
            del self.woken[served]
            if self._guarded(served.serve):
                if not self._again:
                    self.turns.later(_AT_ONCE, self._continue)
                self._again[served] = None

    def _continue(self) -> None:
        again, self._again = self._again, {}
        self.woken.update(again)

    # -- messages --------------------------------------------------------------------------------------

    def subscribe(
        self,
        subject: bytes,
        route: Callable[[Any], object],
        *,
        gathered: bool = False,
        queue: bytes = b"",
    ) -> int:
        """Subscribe to a subject.

        `route` gets every `Delivery`, or with `gathered` every run of them. Raises: ValueError.
        """
        sid = self.host.subscribe(subject, queue, gathered=gathered)
        self._routes[sid] = route
        return sid

    def unsubscribe(self, sid: int) -> None:
        if self._routes.pop(sid, None) is not None:
            self.host.unsubscribe(sid)

    def has_interest(self, subject: bytes) -> bool:
        return self.host.backlog(subject) is not None

    def advised(self, suffix: str) -> bool:
        """True if an advisory has a listener."""
        return self._advisories.heard(suffix)

    def consumer(self, stream: bytes, name: bytes) -> Consumer | None:
        """Return the consumer that a subject names by its stream and its name."""
        found = self.streams.get(_text(stream))
        return None if found is None else found.consumers.get(_text(name))

    def answer_nobody(self, reply: bytes, subject: bytes = b"") -> None:
        """Answer "no responders", as for a consumer or a stream that is not there.

        `subject`: that of the request; an acknowledgement's is not named.
        """
        self.publish(reply, b"", headers=no_responders(subject))

    def remove_consumer(self, consumer: ConsumerView, reason: str = "deleted") -> None:
        """A consumer is done: it goes as if it had been deleted."""
        stream = self.streams.get(consumer.stream.name)
        found = None if stream is None else stream.consumers.get(consumer.name)
        if found is not None and found is consumer:
            self.assets.remove_consumer(found, reason)

    # -- the whole -------------------------------------------------------------------------------------

    def purge(self, done: Callable[[LogError | None], None]) -> None:
        """Remove every stream; `done` is called when they are gone."""
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
        """Use these limits from now on; streams and consumers that are there stay."""
        self.quota.tiers = Tiers(tiers)
        for stream in self.streams.values():
            stream.ingest.configured()

    def reserved_of(self, storage: Storage) -> int:
        """Bytes that the streams of a storage may grow to, as far as they are bounded."""
        return sum(self.configs.reserved(storage).values())

    def get_directly(self, name: bytes, subject: bytes, delivery: Delivery) -> bool:
        """Answer a direct get; False when there is no stream of that name that allows it."""
        stream = self.streams.get(_text(name))
        if stream is None or not stream.config.allow_direct:
            return False
        stream.direct(delivery, subject)
        return True


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")
