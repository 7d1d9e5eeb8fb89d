"""Fills a new log store with what a store of nats-server holds.

Messages keep their sequences and times, what is gone stays gone, consumers are where they were. The streams
are written first, then what their account remembers of them; who calls makes the result visible when all is
durable. What a server without replicas cannot have is changed: every stream and consumer has one replica.

    NEW/jetstream.importing/   while it goes on; a server does not start beside it
    NEW/jetstream/             the whole of it, from one moment to the next

A run that was cut off leaves the first; the next one empties it and begins again.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from headrace.change_log import snapshot
from headrace.importing.findings import Finding, ImportOutcome, Severity
from headrace.importing.progress import ImportMeter
from headrace.jetstream.assets import state_log, stream_log
from headrace.jetstream.importing.detecting import HOME, UNFINISHED
from headrace.jetstream.importing.raft_consumers import RaftRecovery
from headrace.jetstream.importing.source_positions import SourcePosition
from headrace.jetstream.sourcing.origin import index_name, noted
from headrace.jetstream.sourcing.reader import position_record
from headrace.jetstream.state import records as entries
from headrace.jetstream.state.records import AccountState, consumer_record, stream_record
from headrace.jetstream.stream.stream import log_limits
from headrace.jetstream.stream.ttl import message_ttl
from headrace.log.port import Limits, NewMessage
from headrace.log.staging import Staging
from headrace.log.store import FileStore
from headrace.protocol.jetstream.configs import RetentionPolicy
from headrace.protocol.jetstream.errors import ApiError
from headrace.subjects.grammar import is_sendable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headrace.importing.progress import ImportProgress
    from headrace.jetstream.importing.model import SourceStreamMessage
    from headrace.jetstream.importing.reader import SourceStream, SourceStreamStore
    from headrace.log.encryption import Cipher
    from headrace.log.port import MessageLog
    from headrace.log.store import LogStore

_BATCH_MESSAGES: Final = 512
_BATCH_BYTES: Final = 1 << 20
_SHOWN: Final = 40
"""Bytes of an impossible subject."""


class Target:
    """The store that an import fills. `store` is empty at first."""

    def __init__(self, staging: Staging, store: FileStore) -> None:
        self.store: Final = store
        self._staging = staging

    def publish(self) -> None:
        """Publish the written store, which must be durable. Raises: LogError."""
        self.store.close()
        self._staging.publish()


@contextmanager
def opened_target(directory: Path, cipher: Cipher | None = None) -> Iterator[Target]:
    """Open the store that an import fills, for a block.

    `directory`: the `store_dir` of the new server. Raises: StoreTaken, StoreLocked, StorageError.
    """
    with Staging(directory / HOME, directory / UNFINISHED) as staging:
        store = FileStore(staging.directory, cipher=cipher)
        try:
            for name in store.names():
                store.remove(name)
            yield Target(staging, store)
        finally:
            store.close()


class StreamReport(Struct):
    """The outcome for one stream; `lost`: messages that are known to be lost."""

    account: str
    name: str
    messages: int = 0
    payload_bytes: int = 0
    first_sequence: int = 0
    last_sequence: int = 0
    lost: int = 0
    consumers: int = 0
    pending: int = 0
    findings: list[Finding] = field(default_factory=list)


class JetStreamImportReport(ImportOutcome):
    """The outcome for a whole store."""

    streams: list[StreamReport]
    findings: list[Finding]
    """Findings about the store, and about streams that were left out."""

    @property
    def all_findings(self) -> list[Finding]:
        return [*self.findings, *(finding for stream in self.streams for finding in stream.findings)]


def import_store(
    source: SourceStreamStore, target: LogStore, progress: Callable[[ImportProgress], None] = lambda _: None
) -> JetStreamImportReport:
    """Bring everything of `source` into `target`, which is empty; durable when it returns.

    Raises: ImportFailed, LogError; what was written until then is of no use.
    """
    report = JetStreamImportReport([], list(source.findings))
    meter = ImportMeter(progress)
    states: dict[str, AccountState] = {}
    for stream in source.streams:
        state = states.setdefault(stream.account, AccountState())
        reader = _Stream(stream, meter)
        reader.write(target)
        reader.remember(state)
        report.streams.append(reader.report)
    for account, state in states.items():
        log = target.open(state_log(account))
        log.append(list(snapshot(state.entries(), entries.SUBJECT)))
        log.sync()
        log.close()
    return report


class _Stream:
    """Writes one stream into its log, then notes the stream and its consumers in the account's state."""

    def __init__(self, source: SourceStream, meter: ImportMeter) -> None:
        self._source = source
        self._config = replace(source.config, num_replicas=1)
        self._meter = meter
        self._reading = source.messages()
        self._positions = {place.name: place for place in source.positions}
        if source.config.sources:
            self._reading.passed_over = self._note_source
        self._last_time = 0
        self._turned_back = 0
        self._measured = 0
        self.report = StreamReport(
            source.account,
            source.config.name,
            consumers=len(source.consumers),
            findings=list(source.findings),
        )

    def write(self, target: LogStore) -> None:
        """The messages, durable. Raises: ImportFailed, LogError."""
        weights = log_limits(self._config).weights
        limits = Limits(weights=weights)
        log = target.open(stream_log(self._source.account, self._config.name), limits)
        for first, batch in self._batches():
            log.append(batch, first_sequence=first)
        self._finish(log)
        self._settle(log)
        log.sync()
        state = log.state()
        self.report.first_sequence, self.report.last_sequence = state.first_sequence, state.last_sequence
        log.close()
        self._note_repairs()

    def _finish(self, log: MessageLog) -> None:
        """The log ends where the stream did: with its last sequence, and the time of that."""
        extent = self._reading.extent
        log.remove(self._reading.deleted)
        last = log.state().last_sequence
        if extent.last_sequence > last:
            time_ns = max(extent.last_time_ns, self._last_time)
            log.append([NewMessage(b"gone", b"", time_ns=time_ns)], first_sequence=extent.last_sequence)
            log.remove([extent.last_sequence])

    def _settle(self, log: MessageLog) -> None:
        """Acknowledge in the consumers' states each message that a work queue has removed.

        The consumers may have been stored before it was removed.
        """
        for consumer in self._source.consumers:
            if consumer.state is None:
                continue
            recovery = RaftRecovery(consumer.config, consumer.state)
            for sequence, (number, _) in list(consumer.state.pending.items()):
                if self._config.retention is not RetentionPolicy.LIMITS and log.read(sequence) is None:
                    recovery.acknowledge(number, sequence)
            self.report.pending += len(consumer.state.pending)

    def _note_source(self, message: SourceStreamMessage) -> None:
        """Note how far a source was, by the header of a message that came from it, also a deleted one."""
        said = noted(message.headers) if message.headers else None
        known = self._positions.get(said.index_name) if said else None
        if said is not None and (known is None or known.here < message.sequence):
            place = SourcePosition(said.index_name, said.sequence, message.sequence, said.identity)
            self._positions[said.index_name] = place

    def _batches(self) -> Iterator[tuple[int, list[NewMessage]]]:
        """Messages without a gap between them, and the sequence of the first."""
        batch: list[NewMessage] = []
        first = size = 0
        for message in self._messages():
            is_full = len(batch) == _BATCH_MESSAGES or size > _BATCH_BYTES
            if batch and (is_full or message.sequence != first + len(batch)):
                yield first, batch
                batch, size = [], 0
            if not batch:
                first = message.sequence
            batch.append(self._new(message))
            size += len(message.payload) + len(message.headers)
        if batch:
            yield first, batch

    def _messages(self) -> Iterator[SourceStreamMessage]:
        """The source's messages; findings go to the report."""
        for item in self._reading.items():
            if isinstance(item, Finding):
                self.report.findings.append(item)
                continue
            if not is_sendable(item.subject):
                self._lose(item)
                continue
            self.report.messages += 1
            self.report.payload_bytes += len(item.payload)
            if self._config.sources:
                self._note_source(item)
            self._measure(1)
            yield item
        self._measure(0)
        self._meter.tell(self._source.shown)
        self.report.lost += self._reading.lost

    def _lose(self, message: SourceStreamMessage) -> None:
        """Its subject would end the line that delivers it: clients would take the rest for another line."""
        self.report.lost += 1
        self.report.findings.append(
            Finding(
                Severity.DAMAGED, self._source.shown, f"impossible subject {message.subject[:_SHOWN]!r}",
                first_sequence=message.sequence, last_sequence=message.sequence,
            )
        )  # fmt: skip

    def _new(self, message: SourceStreamMessage) -> NewMessage:
        """A message that is older than the one before gets its time: times in a log do not go back."""
        time_ns = max(message.time_ns, self._last_time, 1)
        self._turned_back += time_ns != message.time_ns
        self._last_time = time_ns
        ttl_ns = 0
        if message.headers and self._config.allow_msg_ttl:
            try:
                ttl_ns = message_ttl(message.headers)
            except ApiError as error:
                text = f"its TTL cannot be read ({error}): it stays as long as the stream lets it"
                self._note(text, message.sequence)
        return NewMessage(message.subject, message.payload, b"", message.headers, time_ns, ttl_ns)

    def _measure(self, messages: int) -> None:
        position = self._reading.position
        self._meter.moved(self._source.shown, position - self._measured, messages)
        self._measured = position

    def _note(self, text: str, sequence: int = 0) -> None:
        self.report.findings.append(
            Finding(Severity.NOTE, self._source.shown, text, first_sequence=sequence, last_sequence=sequence)
        )

    def _note_repairs(self) -> None:
        for name in map(index_name, self._config.sources):
            if name not in self._positions and self.report.last_sequence:
                self._note(
                    f"source {name.split()[0]}: how far it was is not known; its messages may come again"
                )
        if self._turned_back:
            self._note(f"{self._turned_back:,} messages were older than the one before; they got its time")
        if self._source.config.num_replicas > 1:
            self._note(f"{self._source.config.num_replicas} replicas became one")

    def remember(self, state: AccountState) -> None:
        """The stream and its consumers among what its account remembers."""
        name = self._config.name
        state.streams[name] = stream_record(self._config, self._source.created_ns)
        for place in self._positions.values():
            record = position_record(place.sequence, place.here, place.identity)
            state.positions.setdefault(name, {})[place.name] = record
        for consumer in self._source.consumers:
            identity = len(state.consumers) + 1
            config = replace(consumer.config, num_replicas=min(consumer.config.num_replicas, 1))
            made = consumer_record(identity, name, consumer.name, config, consumer.created_ns)
            made.state = consumer.state
            state.consumers[identity] = made
