"""Direct get of many messages with one request: a batch from a sequence on, and the last of many subjects.

What one message's answer looks like is here too (`answered`), since a batch adds to it. Which requests are
well formed, and the single message, are the stream's. Source: JetStream specification, 7; compared with the
Go server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.errors import MessageDamaged
from headrace.protocol.jetstream import headers as block
from headrace.protocol.rfc3339 import short_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.jetstream.ports import StreamView
    from headrace.log.port import MessageLog, StoredMessage

MOST_SUBJECTS: Final = 1024
"""Subjects that one request may ask the last message of; more are answered with 413."""
MOST_BYTES: Final = 64 << 20
"""Bytes of one answer where the request does not say less; the message that reaches it is the last."""
_PAGE: Final = 256
_NARROWEST: Final = 256
"""Sequences that are first looked through for a subject's last message below a bound."""

_NOT_FOUND: Final = b"NATS/1.0 404 Message Not Found\r\n\r\n"
_NO_RESULTS: Final = b"NATS/1.0 404 No Results\r\n\r\n"
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


def send_batch(
    stream: StreamView,
    reply: bytes,
    *,
    sequence: int,
    next_for: bytes = b"",
    batch: int,
    max_bytes: int = 0,
    with_headers: bool = True,
) -> None:
    """The next `batch` messages at or after `sequence`, then what is left; `next_for` may have wildcards.

    A negative number asks for none, and messages without headers are not taken from what is left: so it is in
    the Go server.
    """
    publish, name = stream.account.publish, stream.name.encode()
    filters = (next_for,) if next_for else ()
    pending = stream.pending_count(sequence, filters)
    room = max_bytes or MOST_BYTES
    last, count = 0, 0
    for message in _messages(stream.log, sequence, filters, batch, stream.visible):
        headers = b""
        if with_headers:
            pending = max(pending - 1, 0)
            headers = answered(name, message, _IN_BATCH % (pending, last))
        publish(reply, message.payload, headers=headers)
        last, count = message.sequence, count + 1
        room -= len(message.subject) + len(message.headers) + len(message.payload)
        if room <= 0:
            break
    if count or batch < 0:
        publish(reply, b"", headers=_END % (pending, last) + b"\r\n")
    else:
        publish(reply, b"", headers=_NOT_FOUND)


def _messages(
    log: MessageLog, sequence: int, filters: Sequence[bytes], count: int, visible: int
) -> Iterator[StoredMessage]:
    end = visible + 1
    while count > 0 and sequence < end:
        page = log.read_from(sequence, filters=filters, max_messages=min(count, _PAGE), up_to=end)
        yield from page.messages
        count -= len(page.messages)
        sequence = page.next_sequence


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
    """
    publish, name = stream.account.publish, stream.name.encode()
    highest = up_to or stream.visible
    if up_to_time_ns is not None:
        highest = stream.log.sequence_at(up_to_time_ns) - 1
        if highest < stream.log.state().first_sequence:
            publish(reply, b"", headers=_NO_RESULTS)
            return
    found = _last_sequences(stream.log, subjects, min(highest, stream.visible))
    if found is None:
        publish(reply, b"", headers=_TOO_MANY)
        return
    if not found:
        publish(reply, b"", headers=_NO_RESULTS)
        return
    room = max_bytes or MOST_BYTES
    last, count, pending = 0, 0, len(found)
    for place in found:
        pending -= 1
        if place < sequence:
            continue
        message = _read(stream, place)
        if message is None:  # it expired while this was read, or is damaged
            publish(reply, b"", headers=_NOT_FOUND)
            return
        publish(reply, message.payload, headers=answered(name, message, _IN_BATCH % (pending, last)))
        last, count = place, count + 1
        room -= len(message.subject) + len(message.headers) + len(message.payload)
        if room <= 0 or 0 < batch <= count:
            break
    publish(reply, b"", headers=_END % (pending, last) + _UP_TO % highest + b"\r\n")


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
