"""JetStream's API over the blocking client: one question and its answer, and the ids of stored messages.

Nothing is retried here: a refusal that passes by itself is an outage, and who has the patience asks again.
Source: JetStream's wire API and its ADRs 1, 7 and 8, checked against nats-server 2.15.
"""

from __future__ import annotations

import base64
import json
import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.client.errors import (
    JetStreamError,
    JetStreamExistsError,
    JetStreamMissingError,
    NoRespondersError,
)
from headrace.client.headers import parse_headers
from headrace.client.inbox import opened_inbox
from headrace.errors import ProtocolError
from headrace.protocol.rfc3339 import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from headrace.client.blocking import Connection, ReceivedMessage
    from headrace.client.codec import MessageBatch
    from headrace.client.inbox import Inbox

DEFAULT_PREFIX: Final = "$JS.API"
DEFAULT_TIMEOUT: Final = 10.0
"""Seconds the server may be silent, while it is asked something."""

STREAM_NOT_FOUND: Final = 10059
STREAM_EXISTS: Final = 10058
MESSAGE_NOT_FOUND: Final = 10037
WRONG_LAST_SEQUENCE: Final = (10071, 10164)
BUSY: Final = (10008, 10023, 10167)
"""Unavailable for now, out of resources for now, too many requests."""

EXISTS: Final = (STREAM_EXISTS, 10130, 10013, 10105, 10148, *WRONG_LAST_SEQUENCE)
"""A stream with other settings, one that a restore would be over, a consumer with the same name (in three
ways), a wrong last sequence."""

_PAGE: Final = 4096  # ids asked for at once; without payloads they are some 200 bytes each
_INACTIVE_NS: Final = 30_000_000_000


class StreamFacts(NamedTuple):
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


class OutgoingMessage(NamedTuple):
    """A message that is to be stored."""

    subject: str
    data: bytes
    headers: Mapping[str, Sequence[str]]


class JetStreamApi:
    """JetStream's API over a connection of the caller's.

    Raises, from every method: JetStreamError; NoRespondersError where there is no JetStream;
    ClientTimeoutError; what ends the connection; ProtocolError for a bad answer.
    """

    def __init__(
        self, connection: Connection, prefix: str = DEFAULT_PREFIX, *, timeout: float = DEFAULT_TIMEOUT
    ) -> None:
        """Ask the JetStream API over a connection.

        `prefix` is where the subjects of the API begin; another domain's is `$JS.<domain>.API`.

        `timeout` in seconds, for one answer.
        """
        self.connection = connection
        self.prefix = prefix
        self.timeout = timeout

    def subject(self, verb: str) -> str:
        """Return the subject of a request, such as `STREAM.INFO.ORDERS`."""
        return f"{self.prefix}.{verb}"

    def inbox(self) -> AbstractContextManager[Inbox]:
        """An inbox for answers of several messages, for a block."""
        return opened_inbox(self.connection, self.timeout)

    def ask(self, verb: str, request: Mapping[str, object] | None = None) -> dict[str, Any]:
        """One request, such as `STREAM.INFO.ORDERS`, and its answer."""
        payload = b"" if request is None else json.dumps(request).encode()
        answer = self.send(self.subject(verb), payload)
        try:
            return document_of(answer.data)
        except JetStreamError as error:
            if error.err_code in BUSY:
                raise NoRespondersError(f"JetStream says: {error}") from error
            raise

    def send(self, subject: str, payload: bytes) -> ReceivedMessage:
        """One request on a subject of the API, and its answer as it came."""
        try:
            return self.connection.request(subject, payload, timeout=self.timeout)
        except NoRespondersError as error:
            raise NoRespondersError(f"no JetStream answers under {self.prefix}") from error

    def publish(
        self,
        subject: str,
        data: bytes,
        *,
        headers: Mapping[str, str | Iterable[str]] | None = None,
    ) -> dict[str, Any]:
        """Store a message; return the acknowledgement: `stream`, `seq`, `duplicate` and what else there is.

        Raises: NoRespondersError if no stream takes the subject.
        """
        try:
            answer = self.connection.request(subject, data, headers=headers, timeout=self.timeout)
        except NoRespondersError as error:
            raise NoRespondersError(f"no stream takes {subject!r}") from error
        return document_of(answer.data)

    def publish_atomic(self, messages: Iterable[OutgoingMessage]) -> dict[str, Any]:
        """Store messages as one batch: all of them or none; return the acknowledgement of the last one.

        Its `seq` is the sequence of the last message, `count` how many there are. Nothing is stored for no
        messages: the answer is {}. Raises: JetStreamError if the stream allows no such batches, or for what
        is wrong with one of them.
        """
        batch_id = os.urandom(12).hex()
        waiting: OutgoingMessage | None = None
        number = 0
        for message in messages:
            if waiting is not None:
                self._add_to_batch(waiting, batch_id, number)
            waiting = message
            number += 1
        if waiting is None:
            return {}
        headers = {**_of_batch(waiting.headers, batch_id, number), "Nats-Batch-Commit": ["1"]}
        return self.publish(waiting.subject, waiting.data, headers=headers)

    def _add_to_batch(self, message: OutgoingMessage, batch_id: str, number: int) -> None:
        """Send a message that is not the last; the first one's answer says whether there may be a batch."""
        headers = _of_batch(message.headers, batch_id, number)
        if number > 1:
            self.connection.publish(message.subject, message.data, headers=headers)
            return
        try:
            answer = self.connection.request(
                message.subject, message.data, headers=headers, timeout=self.timeout
            )
        except NoRespondersError as error:
            raise NoRespondersError(f"no stream takes {message.subject!r}") from error
        if answer.data:
            document_of(answer.data)

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
        return int(self.publish(subject, data, headers=headers)["seq"])

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
        found = self._read_ids(self.subject(f"CONSUMER.MSG.NEXT.{facts.name}.{name}"), facts, wanted)
        self.ask(f"CONSUMER.DELETE.{facts.name}.{name}")  # after a failure the server does it by itself
        return found

    def _read_ids(
        self, subject: str, facts: StreamFacts, wanted: Callable[[bytes], bool] | None
    ) -> tuple[set[bytes], int]:
        request = json.dumps({"batch": _PAGE, "no_wait": True}).encode()
        found: set[bytes] = set()
        count = 0
        with self.inbox() as inbox:
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


def _of_batch(headers: Mapping[str, Sequence[str]], batch_id: str, number: int) -> dict[str, Sequence[str]]:
    return {**headers, "Nats-Batch-Id": [batch_id], "Nats-Batch-Sequence": [str(number)]}


def refusal(code: int, err_code: int, text: str) -> JetStreamError:
    """Return the exception for an error of JetStream: a subclass where its kind is known."""
    if code == 404:
        return JetStreamMissingError(code, err_code, text)
    if err_code in EXISTS:
        return JetStreamExistsError(code, err_code, text)
    return JetStreamError(code, err_code, text)


def document_of(data: bytes) -> dict[str, Any]:
    """Return the JSON of an answer. Raises: JetStreamError, ProtocolError."""
    try:
        document = json.loads(data)
        error = document.get("error")
        if error is None:
            return dict(document)
        raise refusal(int(error["code"]), int(error.get("err_code", 0)), str(error.get("description", "")))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"not an answer of JetStream: {data[:80]!r}") from error


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
