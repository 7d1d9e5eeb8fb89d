"""Fills a log store with what a foreign store holds, and can do so again.

The target's own messages say how far an earlier run came: what is there has to be what the source has, from
the beginning, message by message; the rest is appended. That is checked for all channels before anything is
written. Clients and subscriptions come last, when all messages are durable. Sequences and times stay as they
were; a channel whose last messages are lost goes on after them all the same, so that no number is given
twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from headrace.importing.findings import Finding, ImportOutcome, Severity, TargetDiverged
from headrace.importing.progress import ImportMeter
from headrace.log.port import NewMessage
from headrace.streaming.importing.state_conversion import convert_state
from headrace.streaming.state import STATE_LOG, ServiceState, load_state, write_imported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.importing.progress import ImportProgress
    from headrace.log.port import MessageLog, StoredMessage
    from headrace.log.store import LogStore
    from headrace.streaming.importing.model import SourceChannelMessage
    from headrace.streaming.importing.reader import SourceChannel, SourceChannelStore

_BATCH_MESSAGES: Final = 512
_BATCH_BYTES: Final = 1 << 20
_CIPHERS: Final = (1, 2)
"""First byte of a payload that the server encrypted: AES or ChaCha20."""
_LEAST_SEALED: Final = 1 + 12 + 16
"""Cipher, nonce and tag."""


class ChannelReport(Struct):
    """The outcome for one channel. `present` came over in an earlier run, `lost` is known to be lost."""

    name: str
    imported: int = 0
    present: int = 0
    payload_bytes: int = 0
    lost: int = 0
    first_sequence: int = 0
    last_sequence: int = 0
    durables: int = 0
    subscriptions: int = 0
    pending: int = 0
    findings: list[Finding] = field(default_factory=list)


class StreamingImportReport(ImportOutcome):
    """The outcome of an import.

    `state_written` is False when clients and subscriptions were there already.
    """

    cluster_id: str
    channels: list[ChannelReport]
    clients: int
    state_written: bool = False
    findings: list[Finding] = field(default_factory=list)
    """Findings that are about no channel's messages or subscriptions."""

    @property
    def all_findings(self) -> list[Finding]:
        return [*self.findings, *(finding for channel in self.channels for finding in channel.findings)]


def import_store(
    source: SourceChannelStore,
    target: LogStore,
    *,
    cluster_id: bytes = b"",
    progress: Callable[[ImportProgress], None] = lambda _: None,
    before_state: Callable[[], None] = lambda: None,
    release: Callable[[MessageLog], None] = lambda _: None,
) -> StreamingImportReport:
    """Bring everything of `source` into `target`; durable when it returns.

    `before_state` is called when all messages are durable and nothing else is written; it may raise to stop
    there. `release` gets every log when its channel is done for now: a store whose logs can be opened again
    may close it, so that channels do not add up to open files.

    Raises: ImportFailed (TargetDiverged: nothing was changed), LogError. After any error the same call goes
    on where this one stopped.
    """
    state, notes = convert_state(source, cluster_id)
    existing = load_state(target)
    state.channels = existing.channels  # the target's own: when a server that ran on it first saw each
    state_missing = _compare_state(existing, state)
    present = _present(source, target)
    meter = ImportMeter(progress)
    channels = [_Channel(channel, target, state, meter) for channel in source.channels]
    report = StreamingImportReport(
        cluster_id=_text(state.server.cluster_id if state.server else b""),
        channels=[channel.report for channel in channels],
        clients=len(state.clients),
        findings=[*source.findings, *notes],
    )
    for channel in channels:
        if channel.name in present:
            release(channel.compare())
    for channel in channels:
        if state_missing or not channel.is_complete:
            release(channel.append())
    before_state()
    if state_missing:
        write_imported(target, state)
        report.state_written = True
    return report


def _compare_state(existing: ServiceState, wanted: ServiceState) -> bool:
    """True if the state must still be written. Raises: TargetDiverged."""
    if existing == wanted:
        return False
    if existing.clients or existing.subscriptions:
        raise TargetDiverged("the target has clients or subscriptions of its own: a server has run on it")
    if existing.server is not None and wanted.server is not None:
        found, expected = existing.server.cluster_id, wanted.server.cluster_id
        if found != expected:
            raise TargetDiverged(f"the target has cluster ID {_text(found)}, the source {_text(expected)}")
    return True


def _present(source: SourceChannelStore, target: LogStore) -> set[bytes]:
    """The channels that the target has. Raises: TargetDiverged."""
    present = set(target.names()) - {STATE_LOG}
    strangers = present - {channel.name for channel in source.channels}
    if strangers:
        raise TargetDiverged(f"the target has a channel that the source has not: {_text(min(strangers))}")
    return present


class _Channel:
    """One channel on its way: `compare`, then `append`. Its source is read once, over both."""

    def __init__(
        self, channel: SourceChannel, target: LogStore, state: ServiceState, meter: ImportMeter
    ) -> None:
        self.name = channel.name
        self._target = target
        self._meter = meter
        self._reading = channel.messages()
        self._items = self._messages()
        self._next: SourceChannelMessage | None = None
        self._last_time = 0
        self._turned_back = 0
        self._sealed = self._open = 0
        self.is_complete = False
        """The target has all of it; durable if the state, which comes last, is there."""
        self._measured = 0
        records = [record for record in state.subscriptions.values() if record.channel == channel.name]
        self._highest_sent = max((record.last_sent for record in records), default=0)
        self.report = ChannelReport(
            name=channel.shown,
            durables=sum(record.state.is_durable for record in records),
            subscriptions=len(records),
            pending=sum(len(record.pending) for record in records),
            findings=list(channel.findings),
        )

    def compare(self) -> MessageLog:
        """Read what the target has already, and the source beside it. Raises: TargetDiverged, LogError."""
        log = self._target.open(self.name)
        last = log.state().last_sequence
        if not last:
            return log
        self._next = next(self._items, None)
        for stored in _stored(log, self._diverged):
            message = self._next
            if message is None or stored.sequence < message.sequence:
                raise self._diverged(f"message {stored.sequence:,} is not in the source")
            if stored.sequence > message.sequence:
                raise self._diverged(f"message {message.sequence:,} is gone")
            if (stored.subject, *_kept(stored)) != (self.name, *_kept(message)) or stored.headers:
                raise self._diverged(f"message {stored.sequence:,} is another one")
            self.report.present += 1
            self._next = next(self._items, None)
        if self._next is not None and self._next.sequence <= last:
            raise self._diverged(f"message {self._next.sequence:,} is gone")
        if self._next is None and last not in (self._end(), self._reading.last_sequence):
            raise self._diverged(f"its last sequence is {last:,}, the source's {self._end():,}")
        if self._next is None and last == self._end():
            self.is_complete = True
            self._finish(log)
        return log

    def append(self) -> MessageLog:
        """Write what is missing, and make it durable. Raises: LogError, SourceUnusable."""
        log = self._target.open(self.name)
        batch: list[NewMessage] = []
        first = size = 0
        for message in self._missing():
            if batch and (
                message.sequence != first + len(batch) or len(batch) == _BATCH_MESSAGES or size > _BATCH_BYTES
            ):
                log.append(batch, first_sequence=first)
                batch, size = [], 0
            if not batch:
                first = message.sequence
            new = NewMessage(self.name, message.payload, message.reply, time_ns=message.time_ns)
            batch.append(new)
            size += len(message.payload)
            self.report.imported += 1
        if batch:
            log.append(batch, first_sequence=first)
        if log.state().last_sequence < self._end():
            log.append([], first_sequence=self._end() + 1)
        log.sync()
        if not self.is_complete:
            self._finish(log)
        return log

    def _missing(self) -> Iterator[SourceChannelMessage]:
        if self._next is not None:
            yield self._next
        yield from self._items

    def _messages(self) -> Iterator[SourceChannelMessage]:
        """The source's messages; findings go to the report, times that go back are held."""
        for item in self._reading.items():
            if isinstance(item, Finding):
                self.report.findings.append(item)
                continue
            self.report.first_sequence = self.report.first_sequence or item.sequence
            self.report.payload_bytes += len(item.payload)
            self._measure(1)
            if item.payload:
                is_sealed = item.payload[0] in _CIPHERS and len(item.payload) >= _LEAST_SEALED
                self._sealed += is_sealed
                self._open += not is_sealed
            message = item
            if item.time_ns < max(self._last_time, 1):
                message = item._replace(time_ns=max(self._last_time, 1))
                self._turned_back += 1
            self._last_time = message.time_ns
            yield message
        self._measure(0)

    def _measure(self, messages: int) -> None:
        position = self._reading.position
        self._meter.moved(self.report.name, position - self._measured, messages)
        self._measured = position

    def _end(self) -> int:
        """The last sequence the channel has ever had, as far as the source tells. After reading it all."""
        return max(self._reading.last_sequence, self._reading.listed_sequence, self._highest_sent)

    def _finish(self, log: MessageLog) -> None:
        self.report.lost = self._reading.lost
        self.report.last_sequence = log.state().last_sequence
        if self._turned_back:
            text = f"{self._turned_back:,} messages older than the one before them; they have its time now"
            self.report.findings.append(Finding(Severity.NOTE, self.report.name, text))
        if self._sealed and not self._open:
            text = "every payload looks encrypted by the server; it is as it was, and nobody here can open it"
            self.report.findings.append(Finding(Severity.NOTE, self.report.name, text))
        self._meter.tell(self.report.name)

    def _diverged(self, why: str) -> TargetDiverged:
        return TargetDiverged(f"channel {self.report.name} of the target is not what was imported: {why}")


def _stored(log: MessageLog, diverged: Callable[[str], TargetDiverged]) -> Iterator[StoredMessage]:
    sequence, last = 1, log.state().last_sequence
    while sequence <= last:
        page = log.read_from(sequence)
        if page.damaged:
            raise diverged(f"message {page.damaged[0]:,} is damaged")
        yield from page.messages
        sequence = max(page.next_sequence, sequence + 1)


def _kept(message: SourceChannelMessage | StoredMessage) -> tuple[int, bytes, bytes]:
    return message.time_ns, message.reply, message.payload


def _text(name: bytes) -> str:
    return repr(name.decode("utf-8", "backslashreplace"))
