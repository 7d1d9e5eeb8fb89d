"""Stored channels over the blocking client: replay as columns, and how far a channel has come.

    with connect("nats://127.0.0.1:4222") as nc:
        for batch in replay(nc, "test-cluster", "orders.>"):
            batch.sequences, batch.timestamps, batch.payloads ...

For Spark workers and scripts. A replay is asked for in parts of bounded size, and nothing is under way while
the caller works on one: a caller may take its time, no server cuts it off. Nothing is retried here.
Messages come as Arrow columns, many in one NATS message; from a server that does not know that, one by one.
`replay_columns` gives them as they come, `replay` as lists.
Source of the shapes: `headrace.protocol.replay`, `headrace.protocol.admin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from headrace.client.errors import NoRespondersError, StreamingRefusedError
from headrace.client.inbox import opened_inbox
from headrace.client.streaming_admin import StreamingAdmin
from headrace.errors import ProtocolError
from headrace.protocol.columns import BLOCK, Columns
from headrace.protocol.replay import (
    ARROW,
    EOB,
    BlockReader,
    Cursor,
    End,
    ReplayRequest,
    is_end,
)
from headrace.protocol.stan import REPLAY_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.client.blocking import Connection
    from headrace.client.codec import MessageBatch
    from headrace.protocol.replay import Damage, ReplayedMessage

PART_BYTES: Final = 4 << 20
"""About as many bytes of messages are asked for at once; a batch holds no more than that and one page."""
COLUMNS_PART_BYTES: Final = 8 << 20
"""The same of a replay in columns, which are held as they came."""
DEFAULT_TIMEOUT: Final = 30.0
_NO_RESPONDERS: Final = 503
_BAD_REQUEST: Final = 400


class ReplayBatch(Struct):
    """Messages in order, as columns of equal length. Times are ns since 1970 UTC.

    `headers` are the stored ones, as a block of the wire. `damaged` names what the server could not read in
    this part: channels with ranges of sequences, both ends included.
    """

    channels: list[bytes] = field(default_factory=list)
    subjects: list[bytes] = field(default_factory=list)
    sequences: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    replies: list[bytes | None] = field(default_factory=list)
    headers: list[bytes | None] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)
    damaged: Damage = ()

    def __len__(self) -> int:
        return len(self.payloads)

    def append(self, message: ReplayedMessage, payload: bytes) -> None:
        self.channels.append(message.channel)
        self.subjects.append(message.subject)
        self.sequences.append(message.sequence)
        self.timestamps.append(message.time_ns)
        self.replies.append(message.reply)
        self.headers.append(message.headers)
        self.payloads.append(payload)


class ChannelState(Struct, frozen=True):
    """The first and last sequence of a channel.

    `created_ns` differs for a channel that was deleted and made again under the same name. An empty channel's
    first sequence is one above its last.
    """

    first_sequence: int
    last_sequence: int
    messages: int
    created_ns: int
    bytes: int = 0


def replay(
    connection: Connection,
    cluster_id: str,
    channel: str,
    start_sequence: int = 1,
    end_sequence: int | None = None,
    *,
    start_time_ns: int | None = None,
    end_time_ns: int | None = None,
    order: str = "",
    max_messages: int | None = None,
    part_bytes: int = PART_BYTES,
    timeout: float = DEFAULT_TIMEOUT,
) -> Iterator[ReplayBatch]:
    """The stored messages of a channel, or of all that a wildcard matches, up to what is there now.

    Both ends belong to the span; `start_time_ns` stands for `start_sequence`. `order` is "time" (what
    wildcards have by default) or "channel". `timeout` in seconds is how long the server may be silent.

    Raises: StreamingRefusedError with the server's text (404: no such channel); NoRespondersError,
    ClientTimeoutError, and what ends the connection; ValueError for a request that makes no sense.
    """
    found = replay_columns(
        connection,
        cluster_id,
        channel,
        start_sequence,
        end_sequence,
        start_time_ns=start_time_ns,
        end_time_ns=end_time_ns,
        order=order,
        max_messages=max_messages,
        part_bytes=part_bytes,
        timeout=timeout,
    )
    for batch in found:
        yield batch if isinstance(batch, ReplayBatch) else _listed(batch)


def replay_columns(
    connection: Connection,
    cluster_id: str,
    channel: str,
    start_sequence: int = 1,
    end_sequence: int | None = None,
    *,
    start_time_ns: int | None = None,
    end_time_ns: int | None = None,
    order: str = "",
    max_messages: int | None = None,
    part_bytes: int = COLUMNS_PART_BYTES,
    timeout: float = DEFAULT_TIMEOUT,
) -> Iterator[Columns | ReplayBatch]:
    """Replay messages as they come: in columns of about a MiB, or as lists from an older server.

    Raises: as `replay`.
    """
    if start_time_ns is not None and start_sequence != 1:
        raise ValueError("give one of start_sequence and start_time_ns")
    if (end_sequence is not None and end_sequence < start_sequence) or max_messages == 0:
        return
    request = ReplayRequest(
        channel.encode("utf-8", "surrogateescape"),
        start_sequence if start_time_ns is None else 0,
        start_time_ns,
        end_sequence=end_sequence or 0,
        end_time_ns=end_time_ns,
        max_messages=max_messages or 0,
        max_bytes=part_bytes,
        order=order,
        format=ARROW,
    )
    yield from _parts(connection, f"{REPLAY_PREFIX}{cluster_id}", request, timeout)


def channel_state(connection: Connection, cluster_id: str, channel: str) -> ChannelState | None:
    """Ask for the state of a channel; None if there is no channel of this name.

    Raises: StreamingRefusedError, NoRespondersError, ClientTimeoutError, and what ends the connection.
    """
    found = StreamingAdmin(connection, cluster_id).channels(channel)
    if not found:
        return None
    one = found[0]
    return ChannelState(one.first_seq, one.last_seq, one.msgs, one.created_ns, one.bytes)


def _parts(
    connection: Connection, subject: str, request: ReplayRequest, timeout: float
) -> Iterator[Columns | ReplayBatch]:
    reader = BlockReader()
    after: str | None = None
    with opened_inbox(connection, timeout) as inbox:
        while True:
            try:
                part, end = _part(inbox.ask(subject, _with_cursor(request, after)), reader)
            except StreamingRefusedError as error:
                if error.code != _BAD_REQUEST or not request.format:
                    raise
                # A server that does not know the format; if it is anything else, it will say it again.
                request = replace(request, format="", max_bytes=min(request.max_bytes, PART_BYTES))
                continue
            after = end.after or after
            yield from part
            count = sum(map(len, part))
            if not end.pending or (not count and end.after is None):
                return
            if request.max_messages:
                if request.max_messages <= count:
                    return
                request = replace(request, max_messages=request.max_messages - count)


def _with_cursor(request: ReplayRequest, after: str | None) -> bytes:
    if after is None:
        return request.encode()
    try:
        return replace(request, after=Cursor.read(after)).encode()
    except ValueError as error:
        raise ProtocolError(f"Nats-Replay-After: {error}") from error


def _part(answers: Iterator[MessageBatch], reader: BlockReader) -> tuple[list[Columns | ReplayBatch], End]:
    """The messages of one request, the first of them with what is damaged, and its end."""
    part: list[Columns | ReplayBatch] = []
    for arrived in answers:
        end = _take(arrived, reader, part)
        if end is None:
            continue
        if end.code == EOB:
            if end.damaged and not part:
                part.append(ReplayBatch())
            if part:
                part[0].damaged = end.damaged
            return part, end
        if end.code == _NO_RESPONDERS:
            raise NoRespondersError("no streaming server of this cluster ID answers")
        raise StreamingRefusedError(end.code, end.text)
    raise AssertionError("a part ends with its end or an error")


def _take(arrived: MessageBatch, reader: BlockReader, part: list[Columns | ReplayBatch]) -> End | None:
    """Add what arrived to a part: columns, or one batch of single messages."""
    for block, payload in zip(arrived.header_blocks(), arrived.payloads, strict=True):
        if block is None:
            raise ProtocolError("an answer to a replay has no headers: does the server speak them?")
        if is_end(block):
            return End.read(block)
        if block == BLOCK:
            part.append(Columns.read(payload))
            continue
        if not part:
            part.append(ReplayBatch())
        batch = part[-1]
        if not isinstance(batch, ReplayBatch):
            raise ProtocolError("a replay in columns has a message between them")
        batch.append(reader.read(block), payload)
    return None


def _listed(found: Columns) -> ReplayBatch:
    return ReplayBatch(
        found.streams.texts(),
        found.subjects.texts(),
        list(found.sequences),
        list(found.times),
        found.replies.values(),
        found.headers.values(),
        found.payloads.texts(),
        found.damaged,
    )
