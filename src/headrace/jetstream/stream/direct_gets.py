"""Direct get of many messages with one request: a batch from a sequence on, and the last of many subjects.

What one message's answer looks like is here too (`answered`), since a batch adds to it. Which requests are
well formed, and the single message, are the stream's. Source: JetStream specification, 7; compared with the
Go server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.errors import LogError, MessageDamaged
from headrace.log.blocking import NotHere, without_waiting
from headrace.protocol.jetstream import headers as block
from headrace.protocol.rfc3339 import short_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.errors import StorageError
    from headrace.jetstream.ports import StreamView
    from headrace.log.port import MessageLog, Page, StoredMessage

MOST_SUBJECTS: Final = 1024
"""Subjects that one request may ask the last message of; more are answered with 413."""
MOST_BYTES: Final = 64 << 20
"""Bytes of one answer where the request does not say less; the message that reaches it is the last."""
_PAGE: Final = 256
_MOST_LACKING: Final = 32
"""Messages whose bytes one request asks for at once."""
_NARROWEST: Final = 256
"""Sequences that are first looked through for a subject's last message below a bound."""

NOT_FOUND: Final = b"NATS/1.0 404 Message Not Found\r\n\r\n"
_NO_RESULTS: Final = b"NATS/1.0 404 No Results\r\n\r\n"
_UNAVAILABLE: Final = b"NATS/1.0 503\r\n\r\n"
_TOO_MANY: Final = b"NATS/1.0 413 Too Many Results\r\n\r\n"
_END: Final = b"NATS/1.0 204 EOB\r\nNats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n"
_UP_TO: Final = b"Nats-UpTo-Sequence: %d\r\n"
_LINES: Final = b"Nats-Stream: %s\r\nNats-Subject: %s\r\nNats-Sequence: %d\r\nNats-Time-Stamp: %s\r\n"
_IN_BATCH: Final = b"Nats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n"


def answered(stream: bytes, message: StoredMessage, more: bytes = b"") -> bytes:
    """The headers of an answer: the message's own, then what it is; `more` are further lines."""
    own = message.headers[:-2] if message.headers else block.FIRST_LINE
    lines = _LINES % (stream, message.subject, message.sequence, short_time(message.time_ns).encode())
    return b"%s%s%s\r\n" % (own, lines, more)


def send_durable(
    stream: StreamView, reply: bytes, answers: Sequence[tuple[bytes, bytes]], sequence: int
) -> None:
    """Send answers, each a payload and headers, once everything up to a sequence is durable.

    If it cannot be made so, "no responders" is sent in their place.
    """

    def send(error: StorageError | None) -> None:
        for payload, headers in answers if error is None else [(b"", _UNAVAILABLE)]:
            stream.account.publish(reply, payload, headers=headers)

    if sequence <= stream.visible:
        send(None)
    else:
        stream.account.commit(stream.log, send)


def resume(stream: StreamView, absent: NotHere, function: Callable[[], object]) -> None:
    """Call `function` when bytes that it lacked have come; log a LogError that it raises."""

    def again() -> None:
        try:
            function()
        except LogError as error:
            stream.account.mistaken(error)

    stream.account.turns.when_here(absent, again)


def send_batch(
    stream: StreamView,
    reply: bytes,
    *,
    sequence: int,
    start_ns: int | None = None,
    next_for: bytes = b"",
    batch: int,
    max_bytes: int = 0,
    with_headers: bool = True,
) -> None:
    """The next `batch` messages at or after `sequence` or a time, then what is left.

    `next_for` may have wildcards. A negative number asks for none, and messages without headers are not taken
    from what is left: so it is in the Go server. Raises: LogError; NotHere before anything is sent.
    """
    filters = (next_for,) if next_for else ()
    with without_waiting():
        if start_ns is not None:
            sequence = stream.log.sequence_at(max(start_ns, 0))
        pending = stream.pending_count(sequence, filters)
    answer = _Batch(
        stream,
        reply,
        filters=filters,
        sequence=sequence,
        batch=batch,
        pending=pending,
        room=max_bytes or MOST_BYTES,
        with_headers=with_headers,
    )
    answer.send()


class _Batch:
    """The answer to one request for many messages, sent as far as they are here, and then on."""

    def __init__(
        self,
        stream: StreamView,
        reply: bytes,
        *,
        filters: Sequence[bytes],
        sequence: int,
        batch: int,
        pending: int,
        room: int,
        with_headers: bool,
    ) -> None:
        self._stream = stream
        self._reply = reply
        self._filters = filters
        self._sequence = sequence
        self._batch = batch
        self._pending = pending
        self._end = stream.visible + 1
        self._last = self._count = 0
        self._room = room
        self._with_headers = with_headers

    def send(self) -> None:
        """Send what is here, and at the end what is left. Raises: LogError."""
        log = self._stream.log
        while self._count < self._batch and self._sequence < self._end and self._room > 0:
            most = min(self._batch - self._count, _PAGE)
            try:
                with without_waiting():
                    page = log.read_from(
                        self._sequence, filters=self._filters, max_messages=most, up_to=self._end
                    )
            except NotHere as absent:
                resume(self._stream, absent, self.send)
                return
            self._send_page(page)
        publish = self._stream.account.publish
        if self._count or self._batch < 0:
            publish(self._reply, b"", headers=_END % (self._pending, self._last) + b"\r\n")
        else:
            publish(self._reply, b"", headers=NOT_FOUND)

    def _send_page(self, page: Page) -> None:
        publish, name = self._stream.account.publish, self._stream.name.encode()
        for message in page.messages:
            headers = b""
            if self._with_headers:
                self._pending = max(self._pending - 1, 0)
                headers = answered(name, message, _IN_BATCH % (self._pending, self._last))
            publish(self._reply, message.payload, headers=headers)
            self._last = message.sequence
            self._count += 1
            self._room -= len(message.subject) + len(message.headers) + len(message.payload)
            if self._room <= 0:
                return
        self._sequence = page.next_sequence


def send_last(
    stream: StreamView,
    reply: bytes,
    *,
    subjects: Sequence[bytes],
    up_to: int = 0,
    up_to_time_ns: int | None = None,
    sequence: int = 0,
    batch: int = 0,
    max_bytes: int = 0,
) -> None:
    """The last messages of all subjects that match, by sequence.

    `sequence` is where to go on in a later request; `up_to` and `up_to_time_ns` ask for how it was then.
    Raises: LogError; NotHere before anything is sent.
    """
    publish = stream.account.publish
    highest = up_to or stream.last_sequence
    if up_to_time_ns is not None:
        with without_waiting():
            highest = stream.log.sequence_at(up_to_time_ns) - 1
        if highest < stream.log.state().first_sequence:
            publish(reply, b"", headers=_NO_RESULTS)
            return
    with without_waiting():
        found = _last_sequences(stream.log, subjects, min(highest, stream.last_sequence))
    if found is None:
        publish(reply, b"", headers=_TOO_MANY)
        return
    if not found:
        send_durable(stream, reply, [(b"", _NO_RESULTS)], stream.last_sequence)
        return
    end = _UP_TO % highest + b"\r\n"
    answers = _each_last(
        stream, [place for place in found if place >= sequence], batch, max_bytes or MOST_BYTES, end
    )
    send_durable(stream, reply, answers, found[-1])


def _each_last(
    stream: StreamView, found: list[int], batch: int, room: int, end: bytes
) -> list[tuple[bytes, bytes]]:
    """The answers with the messages of sequences, and the one behind them, which ends with `end`."""
    name = stream.name.encode()
    last, pending = 0, len(found)
    answers: list[tuple[bytes, bytes]] = []
    lacking: list[NotHere] = []
    for place in found:
        pending -= 1
        try:
            with without_waiting():
                message = _read(stream, place)
        except NotHere as absent:  # those behind it are asked for, too, so that they come together
            lacking.append(absent)
            if len(lacking) < _MOST_LACKING:
                continue
            break
        if message is None:  # it expired while this was read, or is damaged
            return [*answers, (b"", NOT_FOUND)]
        answers.append((message.payload, answered(name, message, _IN_BATCH % (pending, last))))
        last = place
        room -= len(message.subject) + len(message.headers) + len(message.payload)
        if room <= 0 or 0 < batch <= len(answers):
            break
    if lacking:
        raise lacking[-1]
    return [*answers, (b"", _END % (pending, last) + end)]


def _read(stream: StreamView, sequence: int) -> StoredMessage | None:
    try:
        return stream.log.read(sequence)
    except MessageDamaged as damage:
        stream.account.note.error("stream %s: %s", stream.name, damage)
        return None


def _last_sequences(log: MessageLog, filters: Sequence[bytes], highest: int) -> list[int] | None:
    """Sequences of the last messages up to `highest`, ascending; None: of too many subjects."""
    found: set[int] = set()
    for pattern in filters:
        for subject, state in log.subjects(pattern):
            if state.last_sequence <= highest:
                found.add(state.last_sequence)
            elif state.first_sequence <= highest:
                place = _last_below(log, subject, state.first_sequence, highest)
                if place is not None:
                    found.add(place)
            if len(found) > MOST_SUBJECTS:
                return None
    return sorted(found)


def _last_below(log: MessageLog, subject: bytes, lowest: int, highest: int) -> int | None:
    """Look through spans that double, from the end."""
    end, width = highest + 1, _NARROWEST
    while end > lowest:
        start = max(lowest, end - width)
        newest = None
        place = start
        while place < end:
            page = log.read_from(place, filters=(subject,), up_to=end)
            if page.messages:
                newest = page.messages[-1].sequence
            place = page.next_sequence
        if newest is not None:
            return newest
        end, width = start, 2 * width
    return None
