"""Publishing into a JetStream stream over the blocking client: message ids and acknowledgements.

Here live the frames of published messages and what is said of them; what is stored already after an outage
is asked of the API (`jetstream_api`), which works where the duplicate window is over, too. Nothing of Spark
here, and nothing is retried: `pipeline` does that.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from headrace.client.errors import JetStreamError
from headrace.client.jetstream_api import BUSY, DEFAULT_PREFIX, JetStreamApi
from headrace.client.pipeline import NumberedAnswer, PublishAnswer
from headrace.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.client.blocking import Connection
    from headrace.client.codec import MessageBatch
    from headrace.client.jetstream_api import StreamFacts
    from headrace.client.pipeline import MessageColumns, Sent

_ACK: Final = re.compile(rb'\{"stream": ?"([^"\\]+)", ?"seq": ?([0-9]+)(, ?"duplicate": ?true)?\}')
_UNANSWERED: Final = (b"503",)


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
        """Publish to the stream of these facts.

        `facts` as they were before the first message; `window` is the pipeline's, `clock` in seconds.
        """
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

    def encode(self, first: int, columns: MessageColumns, start: int, stop: int) -> list[bytes]:
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

    def settle(
        self, connection: Connection, on_their_way: Mapping[int, Sent], timeout: float
    ) -> list[NumberedAnswer]:
        oldest = next(iter(on_their_way), 0)
        acks = self._read(connection.receive_of(self._sid, timeout), oldest)
        if acks:
            self._quiet_since = self._clock()
        return acks

    def stored(self, connection: Connection, on_their_way: Mapping[int, Sent]) -> list[int]:
        """Return which messages are stored, found by their ids in the stream's tail; those without ids are
        sent again.
        """
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

    def _read(self, batch: MessageBatch, oldest: int) -> list[NumberedAnswer]:
        skip, match, stream, numbers = len(self._inbox), _ACK.fullmatch, self._stream, self._numbers
        acks = []
        blocks = batch.header_blocks() if batch.has_headers else None
        for row, (head, payload) in enumerate(zip(batch.heads, batch.payloads, strict=True)):
            number = numbers[int(head[0][skip:])]
            plain = match(payload)
            if plain is None or plain[1] != stream:
                ack = self._read_other(number, None if blocks is None else blocks[row], payload)
            elif plain[3]:
                ack = NumberedAnswer(number, PublishAnswer.DUPLICATE)
            else:
                ack = NumberedAnswer(number, PublishAnswer.STORED)
                if number == oldest and self._floor_rises:
                    self._floor = max(self._floor, int(plain[2]))
            if ack.answer is PublishAnswer.AGAIN:
                self._floor_rises = False  # it may be stored behind messages that were sent after it
            acks.append(ack)
        return acks

    def _read_other(self, number: int, block: bytes | None, payload: bytes) -> NumberedAnswer:
        """An acknowledgement that is not the plain one: an error, a domain, or no responders."""
        if block is not None and block.split(b"\r\n", 1)[0].endswith(_UNANSWERED):
            return NumberedAnswer(
                number, PublishAnswer.AGAIN, f"nobody takes messages for stream {self._facts.name}"
            )
        try:
            answer = json.loads(payload)
            error = answer.get("error")
            if error is not None:
                code, text = int(error.get("err_code", 0)), str(error.get("description", ""))
                return NumberedAnswer(
                    number, PublishAnswer.AGAIN if code in BUSY else PublishAnswer.REFUSED, text
                )
            stream, duplicate = answer["stream"], bool(answer.get("duplicate"))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"not an acknowledgement of JetStream: {payload[:80]!r}") from error
        if stream != self._facts.name:
            return NumberedAnswer(
                number, PublishAnswer.REFUSED, f"its subject belongs to stream {stream}, which has stored it"
            )
        return NumberedAnswer(number, PublishAnswer.DUPLICATE if duplicate else PublishAnswer.STORED)


def _blocks(columns: MessageColumns, start: int, stop: int) -> list[bytes]:
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
