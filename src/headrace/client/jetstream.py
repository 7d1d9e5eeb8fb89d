"""JetStream streams over the blocking client: how far a stream has come, and ranges of it as columns.

    with connect("nats://127.0.0.1:4222") as nc:
        streams = JetStream(nc)
        state = streams.state("ORDERS")
        for batch in streams.read("ORDERS", 1, state.last_sequence + 1):
            batch.sequences, batch.timestamps, batch.subjects, batch.payloads ...

For Spark workers and scripts. Messages are asked for in windows of bounded size and nothing is under way
while the caller works on one: a caller may take its time, no server cuts it off. Nothing is retried here,
nothing is acknowledged, and nothing stays behind: the consumer is removed at the end, or by the server soon
after.
Sources of the shapes: ADR-1 (API), ADR-15 (ack subjects), ADR-31 (direct get), the real nats-server.
"""

from __future__ import annotations

import json
import secrets
from time import sleep
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from headrace.client.errors import (
    JetStreamError,
    ReadInterruptedError,
    ServerError,
)
from headrace.client.headers import parse_status
from headrace.client.jetstream_api import DEFAULT_PREFIX, DEFAULT_TIMEOUT, STREAM_NOT_FOUND, JetStreamApi
from headrace.errors import ProtocolError
from headrace.protocol.rfc3339 import format_time, parse_time
from headrace.subjects.grammar import matches

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from headrace.client.blocking import Connection
    from headrace.client.codec import Head, MessageBatch
    from headrace.client.inbox import Inbox

WINDOW_BYTES: Final = 4 << 20
"""About as many bytes of messages are asked for at once. A server cuts clients off that let 64 MiB wait."""
WINDOW_MESSAGES: Final = 50_000

INACTIVE_SECONDS: Final = 60
"""The time without a question after which the server removes a consumer whose reader has died."""

UNDER_WAY_NS: Final = 2_000_000_000
"""The time for which the end of a range is waited for: a state may count messages that the server is still
writing, and consumers get them only when they are on disk. What went meanwhile is waited for once, too."""

_CONSUMER_REFUSALS: Final = (10026, 10084, 10098, 10099, 10100, 10101, 10136)
"""API errors of a stream that has no room for consumers or does not allow ours.

Direct gets may still work.
"""

_LOOKS: Final = 40
"""Looks at the end of a range within `UNDER_WAY_NS`, where it is read with direct gets."""
_MOST_LIKE: Final = 3
_EXHAUSTED: Final = (b"404", b"408")
_WINDOW_FULL: Final = (b"Message Size Exceeds MaxBytes", b"Batch Completed")
_DIRECT_HEADER: Final = b"\r\nNats-Stream: "


class StreamState(Struct, frozen=True):
    """The first and last sequence of a stream.

    `created_ns` differs for a stream that was deleted and made again under the same name. An empty stream's
    first sequence is one above its last.

    `keeps_order`: its first messages go by age or limits only, so that a first sequence that rises means
    removed messages; where the newest of each subject are kept, or messages go once they are consumed, it
    says nothing. `consumable`: reading through a consumer takes nothing away. `lost`: sequences that the
    server has and cannot read; reading passes over them.
    """

    first_sequence: int
    last_sequence: int
    messages: int
    bytes: int
    created_ns: int
    keeps_order: bool = True
    consumable: bool = True
    metadata: dict[str, str] = {}
    lost: tuple[int, ...] = ()


class StreamBatch(Struct):
    """Messages in order, as columns of equal length. Times are ns since 1970 UTC; headers are blocks."""

    subjects: list[bytes] = field(default_factory=list)
    sequences: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    headers: list[bytes | None] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.payloads)

    @property
    def replies(self) -> list[None]:
        """No reply subjects: a stream stores none."""
        return [None] * len(self)

    def cut(self, end: int) -> None:
        """Drop the messages with sequences from `end` on."""
        if not self.sequences or self.sequences[-1] < end:
            return
        keep = next(row for row, sequence in enumerate(self.sequences) if sequence >= end)
        for column in (self.subjects, self.sequences, self.timestamps, self.headers, self.payloads):
            del column[keep:]


class JetStream:
    """The streams of the account that a connection belongs to."""

    def __init__(
        self, connection: Connection, api: str = DEFAULT_PREFIX, *, timeout: float = DEFAULT_TIMEOUT
    ) -> None:
        """Read streams over a connection.

        `api` is where the subjects of the API begin; another domain's is `$JS.<domain>.API`.
        """
        self.api: Final = JetStreamApi(connection, api, timeout=timeout)

    def state(self, stream: str) -> StreamState | None:
        """Ask for the state of a stream; None if there is no stream of this name.

        Raises: JetStreamError, NoRespondersError (no JetStream here), ClientTimeoutError, ServerError (not
        allowed), and what ends the connection.
        """
        try:
            return _state(self.api.ask(f"STREAM.INFO.{stream}"))
        except JetStreamError as error:
            if error.err_code == STREAM_NOT_FOUND:
                return None
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"not the description of a stream: {error!r}") from error

    def names(self, subject: str | None = None) -> list[str]:
        """The names of all streams, or of those that take subjects of a pattern, in pages as the server gives
        them. Raises: as `state`.
        """
        found: list[str] = []
        chosen = {} if subject is None else {"subject": subject}
        while True:
            answer = self.api.ask("STREAM.NAMES", {"offset": len(found), **chosen})
            try:
                page, total = [str(name) for name in answer["streams"] or ()], int(answer["total"])
            except (KeyError, TypeError, ValueError) as error:
                raise ProtocolError(f"not a list of streams: {error!r}") from error
            found += page
            if not page or len(found) >= total:
                return found

    def like(self, channel: str) -> list[str]:
        """The streams that may be meant by a channel's name: those of that name in whatever case, or else
        some that take its subject. Raises: as `state`.
        """
        same = [name for name in self.names() if name.lower() == channel.lower()]
        return (same or self.names(channel))[:_MOST_LIKE]

    def sequence_at(self, stream: str, time_ns: int, *, direct: bool = False) -> int:
        """The first sequence stored at that time or later; one above the last if there is none.

        Asks by way of a consumer, or, if told `direct` or not allowed consumers, with a direct get.

        Raises: as `state`, and JetStreamError 404 if there is no such stream.
        """
        if direct:
            return self._direct_sequence_at(stream, time_ns, None)
        start = {"deliver_policy": "by_start_time", "opt_start_time": format_time(time_ns)}
        try:
            consumer = _Consumer.create(self, stream, start, ())
        except (JetStreamError, ServerError) as error:
            if not _allows_direct(error):
                raise
            return self._direct_sequence_at(stream, time_ns, error)
        consumer.remove()
        return consumer.first

    def read(
        self,
        stream: str,
        first: int,
        end: int,
        filters: Sequence[str] = (),
        *,
        direct: bool = False,
        headers_only: bool = False,
        window: int = WINDOW_MESSAGES,
    ) -> Generator[StreamBatch]:
        """The stored messages with sequences [first, end), those of some subjects if there are `filters`.

        Reads through a consumer that acknowledges nothing, or, if told `direct` or not allowed consumers,
        with direct gets. Ends early at the end of the stream. `headers_only`: payloads stay on the server,
        which a direct get cannot do. `window`: the most messages that are asked for at once.

        Raises: JetStreamError (404: no such stream); ReadInterruptedError if the consumer is removed or
        messages are missing on the way: reading may begin again behind the last batch; as `state`.
        """
        if first >= end:
            return
        refused: JetStreamError | ServerError | None = None
        if not direct:
            start: dict[str, Any] = {"deliver_policy": "by_start_sequence", "opt_start_seq": first}
            if headers_only:
                start["headers_only"] = True
            try:
                consumer = _Consumer.create(self, stream, start, filters)
            except (JetStreamError, ServerError) as error:
                if not _allows_direct(error):
                    raise
                refused = error
            else:
                yield from consumer.read(first, end, window)
                return
        yield from _DirectReader(self, stream, filters, refused).read(first, end, window)

    def _direct_sequence_at(
        self, stream: str, time_ns: int, refused: JetStreamError | ServerError | None
    ) -> int:
        reader = _DirectReader(self, stream, (), refused)
        batch, _ = reader.ask({"start_time": format_time(time_ns), "batch": 1})
        if batch:
            return batch.sequences[0]
        state = self.state(stream)
        return 1 if state is None else state.last_sequence + 1


class _Consumer:
    """An ephemeral pull consumer that reads once from its start on; `first` is the sequence it stands at."""

    def __init__(self, streams: JetStream, stream: str, name: str, first: int, pending: int) -> None:
        self._streams = streams
        self._stream = stream
        self._name = name
        self._delivered = 0
        self._pending = pending
        self.first = first

    @classmethod
    def create(
        cls, streams: JetStream, stream: str, start: dict[str, Any], filters: Sequence[str]
    ) -> _Consumer:
        """Create the consumer that reads a span of a stream.

        Raises: JetStreamError, ServerError (not allowed), as `JetStream.state`.
        """
        name = f"headrace-{secrets.token_hex(8)}"
        config: dict[str, Any] = {
            "name": name,
            "description": "Headrace reads a range",
            **start,
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": INACTIVE_SECONDS * 1_000_000_000,
            "mem_storage": True,
            "num_replicas": 1,
        }
        if len(filters) == 1:
            config["filter_subject"] = filters[0]
        elif filters:
            config["filter_subjects"] = list(filters)
        verb = f"CONSUMER.CREATE.{stream}.{name}"
        if len(filters) == 1:  # so that permissions can be given for a filter
            verb = f"{verb}.{filters[0]}"
        answer = streams.api.ask(verb, {"stream_name": stream, "config": config})
        try:
            first = int(answer["delivered"]["stream_seq"]) + 1
            return cls(streams, stream, name, first, int(answer["num_pending"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"not the description of a consumer: {error!r}") from error

    def remove(self) -> None:
        """Ask the server to remove it, without waiting for that."""
        api = self._streams.api
        if api.connection.is_open:
            api.connection.publish(api.subject(f"CONSUMER.DELETE.{self._stream}.{self._name}"))

    def read(self, first: int, end: int, window: int) -> Iterator[StreamBatch]:
        """Yield the messages up to `end`.

        Raises: ReadInterruptedError, ClientTimeoutError, what ends the connection.
        """
        at = first
        try:
            with self._streams.api.inbox() as inbox:
                alone = waits = False
                while at < end and self._pending:
                    count = 1 if alone else min(end - at, self._pending, window)
                    batch, alone, is_dry = self._window(inbox, count, alone=alone, waits=waits)
                    if is_dry and waits and not batch:
                        self._pending = 0
                    waits = is_dry
                    if batch:
                        at = batch.sequences[-1] + 1
                        batch.cut(end)
                    if batch:
                        yield batch
        finally:
            self.remove()

    def _window(
        self, inbox: Inbox, count: int, *, alone: bool, waits: bool
    ) -> tuple[StreamBatch, bool, bool]:
        """Return up to `count` messages; True if the next is larger than a window, to be asked for alone;
        True if the server has no more at the moment. `waits`: it may take `UNDER_WAY_NS`.
        """
        body: dict[str, Any] = {"batch": count, **({"expires": UNDER_WAY_NS} if waits else {"no_wait": True})}
        if not alone:
            body["max_bytes"] = WINDOW_BYTES
        batch = StreamBatch()
        size = 0
        subject = self._streams.api.subject(f"CONSUMER.MSG.NEXT.{self._stream}.{self._name}")
        for arrived in inbox.ask(subject, json.dumps(body).encode()):
            status = self._take(arrived, batch)
            size += arrived.byte_count()  # as the server counts
            if len(batch) == count:
                break
            if status is None:
                if size >= WINDOW_BYTES and not alone:
                    break  # full to the byte: the server says nothing then
                continue
            code, text = status
            if code in _EXHAUSTED:
                return batch, False, True
            if code == b"409" and text in _WINDOW_FULL:
                return batch, not batch, False
            if code != b"100":
                raise ReadInterruptedError(_interruption(self._stream, code, text))
        return batch, False, False

    def _take(self, arrived: MessageBatch, batch: StreamBatch) -> tuple[bytes, bytes] | None:
        """Add the messages to the batch; the status that ended them, if there is one."""
        status = None
        heads, payloads, blocks = arrived.heads, arrived.payloads, arrived.header_blocks()
        if heads[-1][2] is None:
            status = parse_status(blocks[-1] or b"")
            if status is None:
                raise ProtocolError(f"a message without an ack subject among those of stream {self._stream}")
            heads, payloads, blocks = heads[:-1], payloads[:-1], blocks[:-1]
        if not heads:
            return status
        sequences, numbers, stamps, pending = _read_replies(heads)
        expected = self._delivered + 1
        if numbers[0] != expected or numbers[-1] - numbers[0] + 1 != len(numbers):
            raise ReadInterruptedError(
                f"messages of stream {self._stream} were lost on the way from the server (expected number "
                f"{expected} of the consumer, got {numbers[0]} to {numbers[-1]})"
            )
        self._delivered = numbers[-1]
        self._pending = pending
        batch.subjects += [head[0] for head in heads]
        batch.sequences += sequences
        batch.timestamps += stamps
        batch.headers += blocks
        batch.payloads += payloads
        return status


class _DirectReader:
    """Batches of direct gets, for whoever may not create consumers and for streams that consumers empty."""

    def __init__(
        self,
        streams: JetStream,
        stream: str,
        filters: Sequence[str],
        refused: JetStreamError | ServerError | None,
    ) -> None:
        self._streams = streams
        self._stream = stream
        self._subject = streams.api.subject(f"DIRECT.GET.{stream}")
        self._patterns = [one.encode() for one in filters]
        self._refused = refused

    def read(self, first: int, end: int, window: int) -> Iterator[StreamBatch]:
        """Yield the messages up to `end`. Raises: JetStreamError if the stream does not allow it."""
        at = first
        if len(self._patterns) > 1:  # which are looked for here: most of a window may be none of them
            window = WINDOW_MESSAGES
        body: dict[str, Any] = {"max_bytes": WINDOW_BYTES}
        if len(self._patterns) == 1:
            body["next_by_subj"] = self._patterns[0].decode()
        more, looks = True, 0
        while more and at < end:
            batch, more = self.ask({**body, "seq": at, "batch": min(end - at, window)})
            if batch:
                at = batch.sequences[-1] + 1
                batch.cut(end)
                batch = self._filtered(batch)
            if batch:
                yield batch
            if not more and at < end and looks < _LOOKS and self._is_under_way(at, end):
                more, looks = True, looks + 1
                sleep(UNDER_WAY_NS / _LOOKS / 1e9)

    def _is_under_way(self, first: int, end: int) -> bool:
        """True if there is a message in [first, end): a get of one finds also what is not on disk yet."""
        pattern = self._patterns[0].decode() if len(self._patterns) == 1 else ">"
        body, batch = {"seq": first, "next_by_subj": pattern}, StreamBatch()
        with self._streams.api.inbox() as inbox:
            self._take(next(inbox.ask(self._subject, json.dumps(body).encode())), batch)
        return bool(batch) and batch.sequences[0] < end

    def ask(self, body: dict[str, Any]) -> tuple[StreamBatch, bool]:
        """The messages of one question, and whether there are more. Raises: JetStreamError."""
        batch = StreamBatch()
        with self._streams.api.inbox() as inbox:
            for arrived in inbox.ask(self._subject, json.dumps(body).encode()):
                more = self._take(arrived, batch)
                if more is not None:
                    return batch, more and bool(batch)
        raise AssertionError("a window ends with a status or an error")

    def _take(self, arrived: MessageBatch, batch: StreamBatch) -> bool | None:
        """Add the messages to the batch; return True or False at the end of an answer (there are more, or
        not), else None.
        """
        for block, payload in zip(arrived.header_blocks(), arrived.payloads, strict=True):
            if block is None:
                raise ProtocolError("an answer to a direct get has no headers")
            status = parse_status(block)
            if status is None:
                _add_direct(batch, block, payload)
            elif status[0] == b"204":
                return b"\r\nNats-Num-Pending: 0\r\n" not in block
            elif status[0] == b"404":
                return False
            elif status[0] == b"503":
                raise self._not_allowed()
            else:
                raise JetStreamError(int(status[0]), 0, status[1].decode("utf-8", "backslashreplace"))
        return None

    def _not_allowed(self) -> JetStreamError:
        why = "it does not allow direct gets (allow_direct), and "
        if self._refused is None:
            return JetStreamError(
                400,
                0,
                f"{why}reading through a consumer would remove messages from a stream of its retention",
            )
        return JetStreamError(400, 0, f"{why}creating a consumer was refused: {self._refused}")

    def _filtered(self, batch: StreamBatch) -> StreamBatch:
        if len(self._patterns) < 2:  # the server has done it
            return batch
        rows = [
            row
            for row, subject in enumerate(batch.subjects)
            if any(matches(pattern, subject) for pattern in self._patterns)
        ]
        return StreamBatch(
            [batch.subjects[row] for row in rows],
            [batch.sequences[row] for row in rows],
            [batch.timestamps[row] for row in rows],
            [batch.headers[row] for row in rows],
            [batch.payloads[row] for row in rows],
        )


def _state(answer: dict[str, Any]) -> StreamState:
    state, config = answer["state"], answer["config"]
    messages, last = int(state["messages"]), int(state["last_seq"])
    limits_only = config.get("retention", "limits") == "limits"
    return StreamState(
        first_sequence=int(state["first_seq"]) if messages else last + 1,
        last_sequence=last,
        messages=messages,
        bytes=int(state["bytes"]),
        created_ns=parse_time(answer["created"]),
        keeps_order=limits_only and int(config.get("max_msgs_per_subject", -1)) <= 0,
        consumable=limits_only,
        metadata={str(key): str(value) for key, value in (config.get("metadata") or {}).items()},
        lost=tuple(int(one) for one in (state.get("lost") or {}).get("msgs") or ()),
    )


def _allows_direct(error: JetStreamError | ServerError) -> bool:
    """True if direct gets may work although creating a consumer failed with this error."""
    if isinstance(error, JetStreamError):
        return error.err_code in _CONSUMER_REFUSALS
    return not error.fatal and error.text.startswith("Permissions Violation")


def _interruption(stream: str, code: bytes, text: bytes) -> str:
    if code == b"503":
        return f"the consumer that reads stream {stream} is gone"
    told = f"{code.decode('ascii', 'replace')} {text.decode('utf-8', 'backslashreplace')}"
    return f"reading stream {stream} ended: {told}"


def _read_replies(heads: Sequence[Head]) -> tuple[list[int], list[int], list[int], int]:
    """Stream sequences, consumer sequences, times in ns, and how many were pending after the last.

    An ack subject is `$JS.ACK.<stream>.<consumer>.<deliveries>.<sequence>.<number>.<time>.<pending>`, with
    domain and account before the stream, and perhaps something behind, where there are domains.
    """
    try:
        words = b".".join([head[2] or b"" for head in heads]).split(b".")
        width = heads[0][2].count(b".") + 1  # type: ignore[union-attr]
        if words[:2] != [b"$JS", b"ACK"] or width not in (9, 11, 12) or len(words) != width * len(heads):
            raise ValueError(repr(heads[0][2])[1:])
        place = 5 if width == 9 else 7
        sequences = list(map(int, words[place::width]))
        numbers = list(map(int, words[place + 1 :: width]))
        stamps = list(map(int, words[place + 2 :: width]))
        return sequences, numbers, stamps, int(words[place + 3 - width])
    except ValueError as error:
        raise ProtocolError(f"an ack subject that cannot be understood: {error}") from error


def _add_direct(batch: StreamBatch, block: bytes, payload: bytes) -> None:
    """The server writes its own headers behind those that are stored."""
    cut = block.rfind(_DIRECT_HEADER)
    fields = dict(line.partition(b": ")[::2] for line in block[cut + 2 :].split(b"\r\n"))
    try:
        subject, sequence = fields[b"Nats-Subject"], int(fields[b"Nats-Sequence"])
        stamp = parse_time(fields[b"Nats-Time-Stamp"].decode("ascii", "replace"))
    except (KeyError, ValueError) as error:
        raise ProtocolError(f"an answer to a direct get that cannot be understood: {error!r}") from error
    own = block[:cut]
    batch.subjects.append(subject)
    batch.sequences.append(sequence)
    batch.timestamps.append(stamp)
    batch.headers.append(own + b"\r\n\r\n" if b"\r\n" in own else None)
    batch.payloads.append(payload)
