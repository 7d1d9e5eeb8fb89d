"""Sources of a table's rows: the port, a log that is read directly, a stream or channel of a running server.

A source answers how far its stream is and gives messages by sequence; a stored message never changes, it can
only go. Here lives the reading; never what becomes of it, and no opening of stores or connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from headrace.client.jetstream import JetStream
from headrace.client.jetstream_api import DEFAULT_PREFIX
from headrace.client.replay import channel_state, replay_columns
from headrace.engine.columns import ColumnsBuilder
from headrace.protocol.columns import Columns, pack

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from headrace.client.blocking import Connection
    from headrace.client.jetstream import StreamBatch, StreamState
    from headrace.client.replay import ReplayBatch
    from headrace.engine.messages import Messages
    from headrace.log.port import MessageLog, Page, StoredMessage

PAGE_MESSAGES: Final = 16_384
PAGE_BYTES: Final = 8 << 20
"""About how many messages and bytes a batch of a log holds."""
_WHOLE: Final = 1 << 30


class SourceBatch(Struct, frozen=True):
    """Messages in ascending sequence, as columns or as lists, None: there are none.

    `damaged`: ranges of sequences, both ends included, that are in the stream and cannot be read.
    """

    messages: Columns | ReplayBatch | StreamBatch | None
    damaged: Sequence[tuple[int, int]] = ()

    @property
    def sequences(self) -> Sequence[int]:
        return () if self.messages is None else self.messages.sequences


class SourceState(Struct, frozen=True):
    """The first and last sequence of a stream. The first sequence of an empty one is one above its last.

    `created_ns` tells a stream from one of the same name made after it; 0 where that is not known.
    `keeps_order`: messages at the front go by age, limits or a purge only. Else (the newest of each subject
    are kept, or messages go once they are consumed) a message that is gone is no loss.
    """

    first_sequence: int
    last_sequence: int
    messages: int
    created_ns: int
    keeps_order: bool = True
    metadata: Mapping[str, str] = {}
    """The metadata of the stream, which may say what its payloads are."""


class SegmentSource(Protocol):
    """A stream that can be archived. Methods raise HeadraceError of the server or log behind it."""

    @property
    def stream(self) -> str:
        """Its name; bytes that are not UTF-8 are lone surrogates."""

    def state(self) -> SourceState | None:
        """Return the state of the stream; None: there is no such stream."""

    def batches(self, first: int, end: int) -> Iterator[SourceBatch]:
        """The messages with sequences [first, end) that are there, ascending; no batch is empty of news."""

    def present(self, first: int, end: int) -> Iterator[SourceBatch]:
        """The same, where only the sequences are wanted: payloads may be missing."""


class LogSource:
    """A log that this process has open. `created_ns`: what the store says of the stream, 0 for nothing.

    `keeps_order`: see `SourceState`. `begins_at`: the first sequence of a stream that never had a message.
    """

    def __init__(
        self,
        log: MessageLog,
        stream: str,
        created_ns: int = 0,
        *,
        keeps_order: bool = True,
        begins_at: int = 1,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        self._log = log
        self._stream = stream
        self._created_ns = created_ns
        self._keeps_order = keeps_order
        self._begins_at = begins_at
        self._metadata = metadata or {}

    @property
    def stream(self) -> str:
        return self._stream

    def state(self) -> SourceState | None:
        state = self._log.state()
        first, last = state.first_sequence, state.last_sequence
        if not last:
            first, last = self._begins_at, self._begins_at - 1
        return SourceState(first, last, state.messages, self._created_ns, self._keeps_order, self._metadata)

    def batches(self, first: int, end: int) -> Iterator[SourceBatch]:
        at, name = first, self._stream.encode("utf-8", "surrogateescape")
        while at < end:
            page = self._log.read_from(at, max_messages=PAGE_MESSAGES, max_bytes=PAGE_BYTES, up_to=end)
            yield from packed(page, name)
            if page.next_sequence <= at:
                return
            at = page.next_sequence

    present = batches


def packed(page: Page, name: bytes) -> Iterator[SourceBatch]:
    """A page of a log as batches: one, unless there is more in it than an Arrow column holds."""
    messages, damaged = page.messages, [(one, one) for one in page.damaged]
    if damaged:
        yield SourceBatch(None, damaged)
    for columns in columns_of(messages, name):
        yield SourceBatch(columns)


def columns_of(messages: Messages[StoredMessage], name: bytes) -> Iterator[Columns]:
    """Messages of a log as columns: one batch, unless there is more in them than an Arrow column holds."""
    builder, done = ColumnsBuilder(), 0
    while done < len(messages):
        builder.clear()
        done += builder.add(messages, done, len(messages) - done, name, _WHOLE)
        yield Columns.read(pack(builder))


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
        for part in replay_columns(self._connection, self._cluster_id, self._channel, first, end - 1):
            damaged = [one for _, ranges in part.damaged for one in ranges]
            yield SourceBatch(part if len(part) else None, damaged)

    present = batches


class ServerStreamSource:
    """A stream of a server with JetStream that runs. `api`: where the subjects of its API begin."""

    def __init__(self, connection: Connection, stream: str, api: str = DEFAULT_PREFIX) -> None:
        self._streams = JetStream(connection, api)
        self._stream = stream

    @property
    def stream(self) -> str:
        return self._stream

    def state(self) -> SourceState | None:
        state = self._state()
        if state is None:
            return None
        return SourceState(
            state.first_sequence,
            state.last_sequence,
            state.messages,
            state.created_ns,
            state.keeps_order,
            state.metadata,
        )

    def batches(self, first: int, end: int) -> Iterator[SourceBatch]:
        yield from self._read(first, end, headers_only=False)

    def present(self, first: int, end: int) -> Iterator[SourceBatch]:
        yield from self._read(first, end, headers_only=True)

    def _read(self, first: int, end: int, *, headers_only: bool) -> Iterator[SourceBatch]:
        state = self._state()
        if state is None or first >= end:
            return
        direct = not state.consumable
        for batch in self._streams.read(self._stream, first, end, direct=direct, headers_only=headers_only):
            yield SourceBatch(batch)
        state = self._state()  # with what was found damaged by this reading
        lost = () if state is None else state.lost
        damaged = [(one, one) for one in lost if first <= one < end]
        if damaged:
            yield SourceBatch(None, damaged)

    def _state(self) -> StreamState | None:
        return self._streams.state(self._stream)
