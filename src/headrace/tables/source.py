"""Where the rows of a table come from: the port, a log read directly and a channel of a running server.

A source answers how far its stream is and gives messages by sequence; a stored message never changes, it can
only go. Here lives the reading; never what becomes of it, and no opening of stores or connections.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from headrace.client.replay import channel_state, replay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.client.blocking import Connection
    from headrace.log.port import MessageLog

PAGE_MESSAGES: Final = 16_384
PAGE_BYTES: Final = 8 << 20
"""About how many messages and bytes a batch of a log holds."""


@dataclass(slots=True)
class SourceBatch:
    """Messages in ascending sequence as columns of equal length. Times are ns since 1970 UTC.

    `headers` are blocks of the wire. `damaged`: ranges of sequences, both ends included, that are in the
    stream and cannot be read.
    """

    subjects: list[bytes] = field(default_factory=list)
    sequences: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    replies: list[bytes | None] = field(default_factory=list)
    headers: list[bytes | None] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)
    damaged: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SourceState:
    """How far a stream is. An empty one's first sequence is one above its last.

    `created_ns` tells a stream from one of the same name made after it; 0 where that is not known.
    """

    first_sequence: int
    last_sequence: int
    messages: int
    created_ns: int


class SegmentSource(Protocol):
    """A stream that can be archived. Methods raise HeadraceError of the server or log behind it."""

    @property
    def stream(self) -> str:
        """Its name; bytes that are not UTF-8 are lone surrogates."""

    def state(self) -> SourceState | None:
        """None: there is no such stream."""

    def batches(self, first: int, end: int) -> Iterator[SourceBatch]:
        """The messages with sequences [first, end) that are there, ascending; no batch is empty of news."""


class LogSource:
    """A log that this process has open. `created_ns`: what the store says of the stream, 0 for nothing."""

    def __init__(self, log: MessageLog, stream: str, created_ns: int = 0) -> None:
        self._log = log
        self._stream = stream
        self._created_ns = created_ns

    @property
    def stream(self) -> str:
        return self._stream

    def state(self) -> SourceState | None:
        state = self._log.state()
        return SourceState(state.first_sequence, state.last_sequence, state.messages, self._created_ns)

    def batches(self, first: int, end: int) -> Iterator[SourceBatch]:
        at = first
        while at < end:
            page = self._log.read_from(at, max_messages=PAGE_MESSAGES, max_bytes=PAGE_BYTES, up_to=end)
            batch = SourceBatch(damaged=[(one, one) for one in page.damaged])
            for message in page.messages:
                batch.subjects.append(message.subject)
                batch.sequences.append(message.sequence)
                batch.timestamps.append(message.time_ns)
                batch.replies.append(message.reply or None)
                batch.headers.append(message.headers or None)
                batch.payloads.append(message.payload)
            if batch.sequences or batch.damaged:
                yield batch
            if page.next_sequence <= at:
                return
            at = page.next_sequence


class ReplaySource:
    """A channel of a streaming server that runs, through its replay (ADR 0011)."""

    def __init__(self, connection: Connection, cluster_id: str, channel: str) -> None:
        self._connection = connection
        self._cluster_id = cluster_id
        self._channel = channel

    @property
    def stream(self) -> str:
        return self._channel

    def state(self) -> SourceState | None:
        state = channel_state(self._connection, self._cluster_id, self._channel)
        if state is None:
            return None
        return SourceState(state.first_sequence, state.last_sequence, state.messages, state.created_ns)

    def batches(self, first: int, end: int) -> Iterator[SourceBatch]:
        if first >= end:
            return
        for part in replay(self._connection, self._cluster_id, self._channel, first, end - 1):
            yield SourceBatch(
                part.subjects,
                part.sequences,
                part.timestamps,
                part.replies,
                part.headers,
                part.payloads,
                [one for _, ranges in part.damaged for one in ranges],
            )
