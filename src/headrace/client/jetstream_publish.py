"""Publishing into a JetStream stream over the blocking client: facts, message ids, acknowledgements.

Here live what a writer asks JetStream's API, the acknowledgements of published messages, and the search of a
stream's tail for ids that are stored already, which works where the duplicate window is over. Nothing of
Spark here, and nothing is retried: `pipeline` does that.
Source: JetStream's wire API and its ADRs 1, 7 and 8, checked against nats-server 2.15.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from headrace.client.errors import JetStreamError, NoRespondersError
from headrace.client.headers import parse_headers
from headrace.client.inbox import opened_inbox
from headrace.client.pipeline import Ack, Answer
from headrace.errors import ProtocolError
from headrace.protocol.rfc3339 import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from headrace.client.blocking import Connection, Message
    from headrace.client.codec import MessageBatch
    from headrace.client.pipeline import Columns, Sent

DEFAULT_PREFIX: Final = "$JS.API"
MSG_ID: Final = "Nats-Msg-Id"

STREAM_NOT_FOUND: Final = 10059
STREAM_EXISTS: Final = 10058
MESSAGE_NOT_FOUND: Final = 10037
WRONG_LAST_SEQUENCE: Final = (10071, 10164)
_BUSY: Final = (10008, 10023, 10167, 10168)
"""Unavailable for now, out of resources for now, and two names of 'too many requests'."""

_PAGE: Final = 4096  # ids asked for at once; without payloads they are some 200 bytes each
_INACTIVE_NS: Final = 30_000_000_000
_ACK: Final = re.compile(rb'\{"stream": ?"([^"\\]+)", ?"seq": ?([0-9]+)(, ?"duplicate": ?true)?\}')
_UNANSWERED: Final = (b"503",)


class StreamFacts(Struct, frozen=True):
    """The settings of a stream that a writer needs.

    Sizes are bytes, times ns since 1970 UTC; -1: no limit.
    """

    name: str
    subjects: tuple[str, ...]
    created_ns: int
    first_sequence: int
    last_sequence: int
    now_ns: int
    """The server's clock when it answered."""
    duplicate_window_ns: int
    max_message: int
    keeps_until_limits: bool
    """False for work queues and interest streams: they remove what was consumed."""
    acknowledges: bool
    replicas: int


class JetStreamApi:
    """JetStream's API over a connection of the caller's.

    Raises, from every method: JetStreamError; NoRespondersError where there is no JetStream;
    ClientTimeoutError; what ends the connection; ProtocolError for a bad answer.
    """

    def __init__(
        self, connection: Connection, prefix: str = DEFAULT_PREFIX, *, timeout: float = 10.0
    ) -> None:
        """`timeout` in seconds, for one answer."""
        self.connection = connection
        self.prefix = prefix
        self._timeout = timeout

    def ask(self, verb: str, request: Mapping[str, object] | None = None) -> dict[str, Any]:
        """One request, such as `STREAM.INFO.ORDERS`, and its answer."""
        payload = b"" if request is None else json.dumps(request).encode()
        try:
            answer = self.connection.request(f"{self.prefix}.{verb}", payload, timeout=self._timeout)
        except NoRespondersError as error:
            raise NoRespondersError(f"no JetStream answers under {self.prefix}") from error
        try:
            return _document(answer)
        except JetStreamError as error:
            if error.err_code in _BUSY:
                raise NoRespondersError(f"JetStream says: {error}") from error
            raise

    def stream(self, name: str) -> StreamFacts:
        """Facts of a stream as they are now."""
        answer = self.ask(f"STREAM.INFO.{name}")
        try:
            config, state = answer["config"], answer["state"]
            return StreamFacts(
                name=str(config["name"]),
                subjects=tuple(config.get("subjects") or ()),
                created_ns=parse_time(answer["created"]),
                first_sequence=int(state["first_seq"]),
                last_sequence=int(state["last_seq"]),
                now_ns=parse_time(answer["ts"]) if "ts" in answer else 0,
                duplicate_window_ns=int(config.get("duplicate_window", 0)),
                max_message=int(config.get("max_msg_size", -1)),
                keeps_until_limits=config.get("retention", "limits") == "limits",
                acknowledges=not config.get("no_ack", False),
                replicas=int(config.get("num_replicas", 1)),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"not JetStream's answer about a stream: {error!r}") from error

    def last_of(self, stream: str, subject: str) -> tuple[int, bytes, int] | None:
        """Sequence, payload and time (ns) of the last message of a subject; None if there is none."""
        try:
            message = self.ask(f"STREAM.MSG.GET.{stream}", {"last_by_subj": subject})["message"]
            body = base64.b64decode(message.get("data", ""))
            return int(message["seq"]), body, parse_time(message["time"])
        except JetStreamError as error:
            if error.err_code == MESSAGE_NOT_FOUND:
                return None
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"not JetStream's answer about a message: {error!r}") from error

    def put(self, subject: str, data: bytes, *, after: int | None = None) -> int:
        """Store one message, with `after` only if that is the sequence of the subject's last one (0: none).

        Raises: JetStreamError with one of `WRONG_LAST_SEQUENCE` if it is not.
        """
        headers = None if after is None else {"Nats-Expected-Last-Subject-Sequence": str(after)}
        answer = self.connection.request(subject, data, headers=headers, timeout=self._timeout)
        return int(_document(answer)["seq"])

    def stored_ids(
        self, facts: StreamFacts, first: int, wanted: Callable[[bytes], bool] | None = None
    ) -> tuple[set[bytes], int]:
        """The ids of the messages [first, last] of a stream, and how many messages there are in it.

        `wanted` chooses among the ids. Reads headers only, through a consumer that is removed again; it asks
        for the next page when the last one is read.
        """
        if first > facts.last_sequence:
            return set(), 0
        config = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": max(first, 1),
            "ack_policy": "none",
            "replay_policy": "instant",
            "headers_only": True,
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": _INACTIVE_NS,
        }
        made = self.ask(f"CONSUMER.CREATE.{facts.name}", {"stream_name": facts.name, "config": config})
        name = str(made.get("name"))
        found = self._read_ids(f"{self.prefix}.CONSUMER.MSG.NEXT.{facts.name}.{name}", facts, wanted)
        self.ask(f"CONSUMER.DELETE.{facts.name}.{name}")  # after a failure the server does it by itself
        return found

    def _read_ids(
        self, subject: str, facts: StreamFacts, wanted: Callable[[bytes], bool] | None
    ) -> tuple[set[bytes], int]:
        request = json.dumps({"batch": _PAGE, "no_wait": True}).encode()
        found: set[bytes] = set()
        count = 0
        with opened_inbox(self.connection, self._timeout) as inbox:
            while True:
                got, at_end = self._read_page(inbox.ask(subject, request), facts.last_sequence, found, wanted)
                count += got
                if at_end:
                    return found, count

    def _read_page(
        self,
        page: Iterator[MessageBatch],
        last: int,
        found: set[bytes],
        wanted: Callable[[bytes], bool] | None,
    ) -> tuple[int, bool]:
        """Messages up to `last` in one page, and whether nothing can follow."""
        arrived = count = 0
        for batch in page:
            for head, block in zip(batch.heads, batch.header_blocks(), strict=True):
                if head[2] is None or not head[2].startswith(b"$JS.ACK."):
                    return count, _is_end(block)
                arrived += 1
                sequence, pending = _delivery(head[2])
                if sequence > last:
                    return count, True
                count += 1
                message_id = _id_of(block)
                if message_id is not None and (wanted is None or wanted(message_id)):
                    found.add(message_id)
                if sequence == last or not pending:
                    return count, True
            if arrived >= _PAGE:
                break
        return count, False


class JetStreamWire:
    """Messages for one stream, with or without ids, acknowledged on an inbox of the writer's own."""

    def __init__(
        self,
        facts: StreamFacts,
        *,
        prefix: str = DEFAULT_PREFIX,
        with_ids: bool,
        window: int,
        clock: Callable[[], float],
    ) -> None:
        """`facts` as they were before the first message; `window` is the pipeline's, `clock` in seconds."""
        self._facts = facts
        self._prefix = prefix
        self._with_ids = with_ids
        self._clock = clock
        self._stream = facts.name.encode()
        self._inbox = b""
        """The beginning of all reply subjects: always as long, on each connection another one."""
        # Numbers of messages by slot. Slots come again and again, so that the parser knows their subjects.
        self._numbers = [0] * window
        self._floor = facts.last_sequence
        """All that is unacknowledged has a higher sequence, if it is stored."""
        self._floor_rises = True
        self._quiet_since = clock()
        self._sid = b""

    def open(self, connection: Connection) -> None:
        # What the server still says to an earlier inbox must not be taken for an answer to what is sent now.
        self._inbox = connection.new_inbox() + b"."
        self._sid = connection.subscribe(self._inbox + b"*")

    def encode(self, first: int, columns: Columns, start: int, stop: int) -> list[bytes]:
        payloads, subjects = columns.payloads[start:stop], columns.subjects[start:stop]
        inbox, window = self._inbox, len(self._numbers)
        for number in range(first, first + stop - start):
            self._numbers[number % window] = number
        if columns.ids is None and columns.headers is None:
            return [
                b"PUB %b %b%d %d\r\n%b\r\n" % (subject, inbox, number % window, len(payload), payload)
                for number, (subject, payload) in enumerate(zip(subjects, payloads, strict=True), first)
            ]
        blocks = _blocks(columns, start, stop)
        return [
            b"HPUB %b %b%d %d %d\r\n%b%b\r\n"
            % (subject, inbox, number % window, len(block), len(block) + len(payload), block, payload)
            for number, (subject, block, payload) in enumerate(
                zip(subjects, blocks, payloads, strict=True), first
            )
        ]

    def again(self, frame: bytes) -> bytes:
        operation, subject, reply, rest = frame.split(b" ", 3)
        return b"%b %b %b%b %b" % (operation, subject, self._inbox, reply[len(self._inbox) :], rest)

    def settle(self, connection: Connection, on_their_way: Mapping[int, Sent], timeout: float) -> list[Ack]:
        oldest = next(iter(on_their_way), 0)
        acks = self._read(connection.receive_of(self._sid, timeout), oldest)
        if acks:
            self._quiet_since = self._clock()
        return acks

    def stored(self, connection: Connection, on_their_way: Mapping[int, Sent]) -> list[int]:
        """By their ids in the tail of the stream; without ids nothing is known, and all are sent again."""
        if not self._with_ids:
            return []
        api = JetStreamApi(connection, self._prefix)
        facts = api.stream(self._facts.name)
        if not facts.keeps_until_limits:
            silent = self._clock() - self._quiet_since
            if silent * 1e9 >= facts.duplicate_window_ns:
                raise JetStreamError(
                    409,
                    0,
                    f"the server was away for {silent:.0f} s, longer than the stream's duplicate window, and "
                    "the stream removes what is consumed: what was stored cannot be told",
                )
            return []
        ours = {sent.id for sent in on_their_way.values()}
        found, _ = api.stored_ids(facts, self._floor + 1, ours.__contains__)
        return [number for number, sent in on_their_way.items() if sent.id in found]

    def close(self, connection: Connection) -> None:
        connection.unsubscribe(self._sid)

    def _read(self, batch: MessageBatch, oldest: int) -> list[Ack]:
        skip, match, stream, numbers = len(self._inbox), _ACK.fullmatch, self._stream, self._numbers
        acks = []
        blocks = batch.header_blocks() if batch.has_headers else None
        for row, (head, payload) in enumerate(zip(batch.heads, batch.payloads, strict=True)):
            number = numbers[int(head[0][skip:])]
            plain = match(payload)
            if plain is None or plain[1] != stream:
                ack = self._read_other(number, None if blocks is None else blocks[row], payload)
            elif plain[3]:
                ack = Ack(number, Answer.DUPLICATE)
            else:
                ack = Ack(number, Answer.STORED)
                if number == oldest and self._floor_rises:
                    self._floor = max(self._floor, int(plain[2]))
            if ack.answer is Answer.AGAIN:
                self._floor_rises = False  # it may be stored behind messages that were sent after it
            acks.append(ack)
        return acks

    def _read_other(self, number: int, block: bytes | None, payload: bytes) -> Ack:
        """An acknowledgement that is not the plain one: an error, a domain, or no responders."""
        if block is not None and block.split(b"\r\n", 1)[0].endswith(_UNANSWERED):
            return Ack(number, Answer.AGAIN, f"nobody takes messages for stream {self._facts.name}")
        try:
            answer = json.loads(payload)
            error = answer.get("error")
            if error is not None:
                code, text = int(error.get("err_code", 0)), str(error.get("description", ""))
                return Ack(number, Answer.AGAIN if code in _BUSY else Answer.REFUSED, text)
            stream, duplicate = answer["stream"], bool(answer.get("duplicate"))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"not an acknowledgement of JetStream: {payload[:80]!r}") from error
        if stream != self._facts.name:
            return Ack(number, Answer.REFUSED, f"its subject belongs to stream {stream}, which has stored it")
        return Ack(number, Answer.DUPLICATE if duplicate else Answer.STORED)


def _blocks(columns: Columns, start: int, stop: int) -> list[bytes]:
    ids, headers = columns.ids, columns.headers
    if ids is None:
        assert headers is not None
        return [b"NATS/1.0\r\n%b\r\n" % lines for lines in headers[start:stop]]
    if headers is None:
        return [b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n" % one for one in ids[start:stop]]
    return [
        b"NATS/1.0\r\nNats-Msg-Id: %b\r\n%b\r\n" % pair
        for pair in zip(ids[start:stop], headers[start:stop], strict=True)
    ]


def _document(answer: Message) -> dict[str, Any]:
    """The JSON of an answer. Raises: JetStreamError, ProtocolError."""
    try:
        document = json.loads(answer.data)
        error = document.get("error")
        if error is None:
            return dict(document)
        raise JetStreamError(
            int(error["code"]), int(error.get("err_code", 0)), str(error.get("description", ""))
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"not an answer of JetStream: {answer.data[:80]!r}") from error


def _is_end(block: bytes | None) -> bool:
    """True if a status says that no message follows. Raises: NoRespondersError, ProtocolError."""
    headers = parse_headers(block) if block is not None else {}
    status = headers.get("Status", [""])[0]
    if status == "404":  # no messages
        return True
    if status == "408":  # the page ended before it was full
        return False
    if not status:
        raise ProtocolError("a consumer sent something that is neither a message nor a status")
    text = " ".join(headers.get("Description", [status]))
    raise NoRespondersError(
        f"a consumer ended: {text}"
    )  # 409: its server or its leader goes; another follows


def _delivery(reply: bytes) -> tuple[int, int]:
    """Stream sequence and messages pending, out of `$JS.ACK...`. Raises: ProtocolError."""
    words = reply.split(b".")
    try:
        # With domain and account hash before the stream's name the rest is two further on (ADR 15).
        return (int(words[5]), int(words[8])) if len(words) == 9 else (int(words[7]), int(words[10]))
    except (IndexError, ValueError) as error:
        raise ProtocolError(f"not the reply subject of a consumer: {reply!r}") from error


_ID_LINE: Final = b"\r\nNats-Msg-Id:"


def _id_of(block: bytes | None) -> bytes | None:
    if block is None:
        return None
    start = block.find(_ID_LINE)
    if start < 0:
        return None
    start += len(_ID_LINE)
    return block[start : block.index(b"\r\n", start)].strip()
