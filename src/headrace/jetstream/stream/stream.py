"""One stream: its log, its configuration and what happens to its messages.

Here a stream is put together: `ingest` takes messages in, `gets` reads them, `removal`, `interest_retention`
and `expiry` remove them. Never here: what may be configured (`rules`), consumers' own
state, the API's JSON. Source: JetStream specification, 1 to 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.engine.direct_gets import DirectGets
from headrace.engine.lanes import StreamCounts
from headrace.errors import LogError
from headrace.jetstream.batch.atomic import AtomicBatches
from headrace.jetstream.batch.fast import FastBatches
from headrace.jetstream.batch.recovery import remove_incomplete_batch
from headrace.jetstream.schedule.scheduler import Scheduler
from headrace.jetstream.sourcing.manager import SourceManager
from headrace.jetstream.stream import gets
from headrace.jetstream.stream.acceptance import Acceptance, Stored
from headrace.jetstream.stream.checks import CHECKS
from headrace.jetstream.stream.dedupe import Dedupe
from headrace.jetstream.stream.expiry import Expiry
from headrace.jetstream.stream.id_filling import IdFilling
from headrace.jetstream.stream.ingest import Ingest
from headrace.jetstream.stream.interest_retention import InterestRetention
from headrace.jetstream.stream.removal import Removal
from headrace.jetstream.stream.republish import Republisher
from headrace.jetstream.stream.retries import LogRetries
from headrace.log.port import Limits, LogDiscard, Weights
from headrace.protocol.jetstream.configs import Compression, DiscardPolicy, RetentionPolicy, Storage
from headrace.protocol.jetstream.times import ZERO
from headrace.protocol.rfc3339 import short_time
from headrace.subjects.transform import SubjectTransform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.core.service import Delivery
    from headrace.engine.jetstream import Publications
    from headrace.jetstream.consumer.consumer import Consumer
    from headrace.jetstream.ports import AccountPort, ConsumerView, Follower, StreamPort
    from headrace.jetstream.stream.features import Feature
    from headrace.log.port import MessageLog
    from headrace.protocol.jetstream.configs import StreamConfig

MOST_GONE: Final = 100_000
"""Removed sequences that one answer names: where a mirror's origin was purged there may be any number."""

_ON_DISK: Final = Weights(besides=30, headed=4)
"""The bytes that the Go server counts for a stored message; statistics and limits are compared with it."""
_IN_MEMORY: Final = Weights(besides=16)


def log_limits(config: StreamConfig) -> Limits:
    """Return the limits of a stream's log. The size of one message is judged before (`checks`)."""
    can_refuse = config.max_msgs > 0 or config.max_bytes > 0 or config.discard_new_per_subject
    return Limits(
        compresses=config.compression is Compression.S2,
        max_messages=max(config.max_msgs, 0),
        max_bytes=max(config.max_bytes, 0),
        max_age_ns=max(config.max_age, 0),
        max_messages_per_subject=max(config.max_msgs_per_subject, 0),
        discard=LogDiscard.NEW if config.discard is DiscardPolicy.NEW and can_refuse else LogDiscard.OLD,
        discard_new_per_subject=config.discard_new_per_subject,
        waits_for_expire=config.subject_delete_marker_ttl > 0,  # there are markers to be left first
        weights=_IN_MEMORY if config.storage is Storage.MEMORY else _ON_DISK,
    )


class Stream(StreamCounts):
    """A stream of an account.

    `log` has `log_limits` of the configuration, and stays its owner's to close and to remove.
    """

    def __init__(self, account: AccountPort, config: StreamConfig, log: MessageLog, created_ns: int) -> None:
        self.account: Final = account
        self.name: Final = config.name
        self.created_ns: Final = created_ns
        self.log: Final = log
        self.consumers: dict[str, Consumer] = {}
        self.is_closed = False
        self._sids: dict[str, int] = {}
        removed = remove_incomplete_batch(log) if log.may_end_torn else 0
        if removed:
            account.note.info(
                "stream %s: %d messages of a batch that was cut off are removed", self.name, removed
            )
        if config.first_seq > 1 and log.state().last_sequence == 0:
            log.append([], config.first_seq)
        state = log.state()
        self.last_sequence = self.visible = state.last_sequence
        self.last_time_ns = state.last_time_ns
        self.held = state.messages
        self.dedupe: Final = Dedupe(
            config.duplicate_window,
            log,
            account.now_ns,
            is_shared=account.settings.leadership is not None,
        )
        self.config = config
        log.when_opened(IdFilling(self, account).begin)
        self.direct_gets: Final = DirectGets(config.name.encode(), self)
        log.when_opened(self._read_directly)
        self.acceptance: Final = Acceptance(CHECKS, Stored(self, account))
        self._retries: Final = LogRetries(self, account)
        self.removal: Final = Removal(self, self._retries)
        self.retention: Final = InterestRetention(self, account)
        self.expiry: Final = Expiry(self, account)
        self._apply(config)
        self.followers: dict[Follower, None] = {}
        """The followers of this stream, which are told of new messages."""
        self.positions: dict[str, bytes] = {}
        """The journaled positions of sources, from recovery."""
        self.features: Final = features_of(self, account)
        self.sourcing: Final = SourceManager(self, account)
        self.ingest: Final = Ingest(self, account)
        self.ingest.configured()

    def _apply(self, config: StreamConfig) -> None:
        self.config = config
        self.acceptance.configure(config)
        change = config.subject_transform
        self.transform = (
            SubjectTransform((change.src or ">").encode(), change.dest.encode())
            if change and change.dest
            else None
        )
        again = config.republish
        self.republisher = Republisher(self.name, again) if again and again.dest else None
        self.direct_gets.is_allowed = config.allow_direct
        self.dedupe.window_ns = config.duplicate_window
        self.may_trim = config.max_msgs > 0 or config.max_bytes > 0 or config.max_msgs_per_subject > 0

    @property
    def counts(self) -> StreamCounts:
        return self

    # -- life ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Subscribe; after everything was recovered."""
        for feature in self.features:
            feature.configured()
        self._subscribe()
        self.expiry.run()
        self.retention.recover()
        self.sourcing.start()

    def _subscribe(self) -> None:
        wanted = set() if self.config.mirror else set(self.config.subjects)
        for subject in set(self._sids) - wanted:
            self.account.unsubscribe(self._sids.pop(subject))
        for subject in sorted(wanted - set(self._sids)):
            self._sids[subject] = self.ingest.subscribe(subject.encode())

    def update(self, config: StreamConfig) -> None:
        """Take over another configuration, which was found good; limits hold at once.

        Raises: StorageError; then the configuration is what it was.
        """
        self.flush()
        self.dedupe.fill()  # before other limits let anything go
        retention = self.config.retention
        self.log.limits = log_limits(config)
        self._apply(config)
        self.ingest.configured()
        self._trim()
        self._subscribe()
        if config.retention is not retention:
            self._retries.do("removal by interest", self.retention.changed)
            for consumer in self.consumers.values():
                consumer.stream_changed()
        for feature in self.features:
            self._retries.do("update", feature.configured)
        self._retries.do("update of sources", self.sourcing.configured)
        self.expiry.run()

    def close(self) -> None:
        """The server ends; what was received has been appended and answered."""
        self.is_closed = True
        self.direct_gets.reads = None
        self.ingest.close()
        self.sourcing.stop()
        for feature in self.features:
            feature.stop()
        self.expiry.stop()

    def remove(self) -> None:
        """The stream is deleted: it takes nothing any more."""
        self.close()
        for sid in self._sids.values():
            self.account.unsubscribe(sid)
        self._sids.clear()
        for follower in list(self.followers):
            follower.lost()

    def add(self, consumer: Consumer) -> None:
        self.consumers[consumer.name] = consumer
        self.ingest.interest_changed()

    def drop(self, consumer: Consumer) -> None:
        """A consumer is gone, and with it its interest."""
        if self.consumers.pop(consumer.name, None) is not None and not self.is_closed:
            self.ingest.interest_changed()
            self._retries.do("removal by interest", self.retention.dropped)

    # -- messages in -----------------------------------------------------------------------------------

    def wants(self, subject: bytes) -> bool:
        """True if a message must be kept: under retention by interest a consumer must want it."""
        if self.config.retention is not RetentionPolicy.INTEREST:
            return True
        return any(consumer.matches(subject) for consumer in self.consumers.values())

    @property
    def is_full(self) -> bool:
        """True if the log takes no message at all any more, whatever its subject and size."""
        config = self.config
        return config.max_msgs_per_subject <= 0 < config.max_msgs <= self.log.state().messages

    def flush(self) -> bool:
        """Append what was received, and do what acknowledgements left to do; False: there was nothing."""
        appended = self.ingest.append()
        return self.retention.flush() or appended

    def answer(self, reply: bytes, body: bytes) -> None:
        """Answer a publisher, if it wants an answer and the stream gives any."""
        if reply and not self.config.no_ack:
            self.account.publish(reply, body)

    def appended(self, last: int, time_ns: int, stored: int) -> None:
        """The log has `stored` messages more, up to `last`. From `ingest`."""
        self.held += stored
        self.last_sequence = last
        self.last_time_ns = max(self.last_time_ns, time_ns)
        if self.may_trim:
            self._trim()
        self.expiry.watch()

    def set_limits(self) -> None:
        """Give the log the limits of the configuration, which are in effect already but for one append."""
        self._retries.do("update of limits", self._set_limits)

    def _set_limits(self) -> None:
        self.log.limits = log_limits(self.config)

    def _trim(self) -> None:
        """Remove what is over the limits; an error is only noted: the next append removes it."""
        try:
            self.removal.trim()
        except LogError as error:
            self.account.note.error("stream %s: limits could not be applied: %s", self.name, error)

    def committed(self, first: int, batch: Publications, *, wanted: bool) -> None:
        """Messages from `first` on are durable. From `ingest`."""
        if self.is_closed:
            return
        self.visible = max(self.visible, first + len(batch) - 1)
        if wanted:
            for consumer in list(self.consumers.values()):
                consumer.fresh(first, batch)
        for follower in list(self.followers):
            follower.fresh()

    def passed(self, sequence: int) -> None:
        """Sequences up to this one are durable, or not there. From `ingest`."""
        if self.is_closed or sequence <= self.visible:
            return
        self.visible = sequence
        for consumer in list(self.consumers.values()):
            consumer.wake()
        for follower in list(self.followers):
            follower.fresh()

    # -- messages out ----------------------------------------------------------------------------------

    def _read_directly(self) -> None:
        """Direct gets of single messages are answered in compiled code as long as the log is open."""
        self.direct_gets.reads = self.log.reads

    def direct(self, delivery: Delivery, subject: bytes = b"") -> None:
        """Answer a direct get; `subject` is what follows the stream's name in the request's subject."""
        gets.direct_get(self, delivery, subject)

    def pending_count(self, sequence: int, filters: Sequence[bytes] = ()) -> int:
        """Count the messages at or after `sequence` that match one of the filters (none: all)."""
        return self.log.count_from(sequence, filters)

    def acked(self, consumer: ConsumerView, sequences: Sequence[int]) -> None:
        """A consumer needs these no more: retention by interest or as a work queue may let them go."""
        if self.config.retention is not RetentionPolicy.LIMITS:
            self.retention.acked(consumer, sequences)

    # -- what it holds ---------------------------------------------------------------------------------

    def subject_totals(self, pattern: str) -> dict[str, int]:
        """Messages of each subject that matches, by name."""
        found = self.log.totals(pattern.encode())
        return dict(sorted((subject.decode("utf-8", "replace"), count) for subject, count in found))

    def state(self, *, deleted_details: bool = False) -> dict[str, object]:
        """StreamInfo's `state`, without the subjects of a filter."""
        held = self.log.state()
        is_placed = held.last_sequence > 0 or self.removal.was_purged
        first = held.first_sequence if is_placed else self.config.first_seq
        state: dict[str, object] = {
            "messages": held.messages,
            "bytes": held.bytes,
            "first_seq": first,
            "first_ts": short_time(held.first_time_ns) if held.messages else ZERO,
            "last_seq": held.last_sequence,
            "last_ts": short_time(self.last_time_ns) if self.last_time_ns else ZERO,
        }
        if held.subjects:
            state["num_subjects"] = held.subjects
        if held.deleted:
            state["num_deleted"] = held.deleted
            if deleted_details:
                state["deleted"] = self.log.gone(0, MOST_GONE)[0]
        if held.damaged:
            state["lost"] = {"msgs": list(held.damaged), "bytes": 0}
        return state | {"consumer_count": len(self.consumers)}


def features_of(stream: StreamPort, effects: AccountPort) -> list[Feature]:
    """Return all features of a stream, in the order in which they are asked."""
    return [
        FastBatches(stream, effects),
        AtomicBatches(stream, effects),
        Scheduler(stream, effects),
    ]
