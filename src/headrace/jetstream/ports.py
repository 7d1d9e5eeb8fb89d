"""Ports between the parts of JetStream: a stream, an account, and the effects of parts.

A part takes one of these types and never the class that fulfils it, so no part knows its whole: `Stream` and
the account fulfil them as they are. What the parts of a consumer see of it is `consumer.port`'s. Never here:
code that does anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from logging import Logger
    from typing import Any

    from headrace.core.service import Host, Timer
    from headrace.engine.direct_gets import DirectGets
    from headrace.engine.jetstream import Publications
    from headrace.engine.lanes import StreamCounts
    from headrace.errors import StorageError
    from headrace.jetstream.consumer.ack_state import AckState
    from headrace.jetstream.limits import Inflight, Quota, ServerSettings
    from headrace.jetstream.state.journal import JetStreamJournal
    from headrace.jetstream.stream.acceptance import Acceptance
    from headrace.jetstream.stream.dedupe import Dedupe
    from headrace.jetstream.stream.features import Feature
    from headrace.jetstream.stream.publication import Publication
    from headrace.jetstream.stream.republish import Republisher
    from headrace.log.port import MessageLog
    from headrace.protocol.jetstream.configs import ConsumerConfig, StreamConfig
    from headrace.protocol.jetstream.errors import ApiError
    from headrace.subjects.transform import SubjectTransform
    from headrace.turns import Turns


class Served(Protocol):
    """A part with something to send: a consumer, or a reader of another stream."""

    def serve(self) -> bool:
        """Do a bounded part of the work; return True if there is more."""


class Effects(Protocol):
    """The effects of a part outside of itself: appends, commits, publications, alarms, notes.

    An account has them. What is appended is asked for by `touch`.
    """

    @property
    def host(self) -> Host: ...
    @property
    def turns(self) -> Turns:
        """The turns of the account, for an `Alarm`."""

    @property
    def now_ns(self) -> Callable[[], int]:
        """The clock: `Turns.now_ns`, in ns since 1970."""

    @property
    def later(self) -> Callable[[float, Callable[[], object]], Timer]:
        """The function that sets a timer: `Turns.later`."""

    @property
    def commit(self) -> Callable[[MessageLog, Callable[[StorageError | None], None]], None]:
        """The function that asks for a sync of a log: `Turns.commit`."""

    @property
    def finish_commits(self) -> Callable[[], None]:
        """The function that does all commits at once: `Turns.finish_commits`."""

    @property
    def note(self) -> Logger: ...
    @property
    def publish(self) -> Callable[..., object]:
        """The function that publishes: `Host.publish`."""

    @property
    def advise(self) -> Callable[..., object]:
        """The function that publishes an advisory: `Advisories.advise`."""

    @property
    def metric(self) -> Callable[..., object]:
        """The function that publishes a metric: `Advisories.metric`."""

    def subscribe(
        self, subject: bytes, route: Callable[[Any], object], *, gathered: bool = False, queue: bytes = b""
    ) -> int:
        """Subscribe to a subject.

        `route` gets every `Delivery`, or with `gathered` every run of them. Raises: ValueError.
        """

    def unsubscribe(self, sid: int) -> None: ...
    def has_interest(self, subject: bytes) -> bool:
        """True if a subject has a subscription."""

    def mistaken(self, error: Exception, subject: bytes = b"") -> None:
        """Log in one line a failure: of a disk, or a mistake of ours with a message."""

    def touch(self, stream: StreamPort) -> None:
        """A stream has publications to append, or messages of it went: it is looked at in this turn."""

    def wake(self, served: Served) -> None:
        """Serve a consumer or a source reader at the end of this turn."""

    @property
    def has_due(self) -> bool:
        """True if there is something to do in this turn."""


class AccountPort(Effects, Protocol):
    """An account as the parts of its streams and consumers see it: its effects, and what they share."""

    @property
    def name(self) -> str: ...
    @property
    def domain(self) -> str:
        """Empty: there is none."""

    @property
    def settings(self) -> ServerSettings: ...
    @property
    def quota(self) -> Quota: ...
    @property
    def journal(self) -> JetStreamJournal: ...
    @property
    def batches(self) -> Inflight:
        """Batches under way in all streams of the server."""

    @property
    def streams(self) -> Mapping[str, StreamView]: ...
    def remove_consumer(self, consumer: ConsumerView, reason: str = "deleted") -> None:
        """A consumer is done: it goes as if it had been deleted."""


class ConsumerView(Protocol):
    """A consumer as a stream sees it."""

    @property
    def name(self) -> str: ...
    @property
    def stream(self) -> StreamView: ...
    @property
    def config(self) -> ConsumerConfig: ...
    @property
    def filters(self) -> Sequence[bytes]:
        """The subjects that it gets; empty: all."""

    @property
    def tracker(self) -> AckState: ...
    def needs(self, sequence: int) -> bool:
        """True if a message that matches has still to be delivered to the consumer or acknowledged."""

    def matches(self, subject: bytes) -> bool:
        """True if the consumer gets messages of a subject."""

    def removed(self, sequence: int) -> None:
        """Note that one message was deleted."""

    def purged(self, first: int, last: int, subject: bytes | None = None, count: int = 0) -> None:
        """Note a purge.

        `count` messages were purged; `first` and `last` are sequences of what the stream has now.
        """

    def trimmed(self) -> None:
        """Messages may have gone by the stream's limits or their age."""


class Follower(Protocol):
    """A follower of a stream: another stream, or a channel of the streaming service."""

    def fresh(self) -> None:
        """Note that there are more durable messages, up to `visible`."""

    def lost(self) -> None:
        """The stream was deleted."""


class IngestPort(Protocol):
    """The way of publications into the log."""

    def publish(self, p: Publication) -> None:
        """One message, after all before it."""

    def stage(self, p: Publication) -> None:
        """Gather a message that was judged."""

    def append_all(self, publications: Sequence[Publication]) -> None:
        """Judged messages, all or none of them, after all before them."""

    def append_at(self, first_sequence: int, publications: Sequence[Publication]) -> ApiError | None:
        """Append messages of a mirror, with their sequences and times; all or none.

        Returns why the log has none of them.
        """

    def interest_changed(self) -> None:
        """Consumers have come or gone, or one wants messages of other subjects."""


class RetentionPort(Protocol):
    """The part that removes messages that no consumer needs."""

    def unwanted(self, sequences: Iterable[int]) -> None:
        """Messages that were stored only because others of their batch were; 0 for one that was not."""


class RemovalPort(Protocol):
    """The part that removes messages, and is told of those that are gone."""

    def roll_up(self, subject: bytes | None, below: int) -> None:
        """Remove what a message stands for: everything below a sequence, or that of a subject."""

    def notice(self) -> None:
        """Notice whether messages went, by whatever way."""


class StreamView(Protocol):
    """A stream as its consumers, the streams that read it, and requests see it."""

    @property
    def account(self) -> AccountPort: ...
    @property
    def name(self) -> str: ...
    @property
    def created_ns(self) -> int: ...
    @property
    def config(self) -> StreamConfig: ...
    @property
    def log(self) -> MessageLog: ...
    @property
    def direct_gets(self) -> DirectGets:
        """The part that answers direct gets of single messages in compiled code."""

    @property
    def consumers(self) -> Mapping[str, ConsumerView]: ...
    @property
    def followers(self) -> dict[Follower, None]:
        """The followers of this stream, which are told of new messages."""

    @property
    def epoch(self) -> int:
        """A number that changes whenever messages were removed."""

    @property
    def is_closed(self) -> bool: ...
    @property
    def last_sequence(self) -> int: ...
    @property
    def last_time_ns(self) -> int: ...
    @property
    def visible(self) -> int:
        """The last sequence that is durable: consumers get messages up to it."""

    @property
    def ingest(self) -> IngestPort: ...
    def pending_count(self, sequence: int, filters: Sequence[bytes] = ()) -> int:
        """Count the messages at or after `sequence` that match one of the filters (none: all)."""

    def acked(self, consumer: ConsumerView, sequences: Sequence[int]) -> None:
        """A consumer needs these no more."""


class StreamPort(StreamView, Protocol):
    """A stream as its parts see it."""

    @property
    def counts(self) -> StreamCounts:
        """The counts of the stream, as compiled code sees them."""

    @property
    def may_trim(self) -> bool:
        """True if a limit may remove messages when others are stored."""

    @property
    def positions(self) -> Mapping[str, bytes]:
        """The journaled positions of sources, from recovery."""

    @property
    def acceptance(self) -> Acceptance: ...
    @property
    def features(self) -> Sequence[Feature]: ...
    @property
    def retention(self) -> RetentionPort: ...
    @property
    def removal(self) -> RemovalPort: ...
    @property
    def dedupe(self) -> Dedupe: ...
    @property
    def transform(self) -> SubjectTransform | None: ...
    @property
    def republisher(self) -> Republisher | None: ...
    @property
    def is_full(self) -> bool:
        """True if the log takes no message at all any more, whatever its subject and size."""

    def wants(self, subject: bytes) -> bool:
        """True if a message must be kept: under retention by interest a consumer must want it."""

    def flush(self) -> bool:
        """Append what was received, and do what acknowledgements left to do; False: there was nothing."""

    def set_limits(self) -> None:
        """Give the log the limits of the configuration; what a disk refuses of that is tried again."""

    def answer(self, reply: bytes, body: bytes) -> None:
        """Answer a publisher, if it wants an answer and the stream gives any."""

    def appended(self, last: int, time_ns: int, stored: int) -> None:
        """The log has `stored` messages more, up to `last`."""

    def committed(self, first: int, batch: Publications, *, wanted: bool) -> None:
        """Messages from `first` on are durable."""

    def passed(self, sequence: int) -> None:
        """Sequences up to this one are durable, or not there."""
