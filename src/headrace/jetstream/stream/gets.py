"""Reading stored messages one by one: what MSG.GET and a direct get of one find, and the latter's answer.

Most direct gets of one message are answered in compiled code (`headrace.engine.direct_gets`). Here is what
all of them mean, and the answer to those that it leaves. Many messages with one request are `direct_gets`'.
An answer waits until what it tells is durable: else a crash could take back what somebody has seen.
Source: JetStream specification, 1 and 7; order of checks and texts compared with the Go server 2.15.1.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.errors import MessageDamaged
from headrace.jetstream.stream.direct_gets import (
    NOT_FOUND,
    answered,
    resume,
    send_batch,
    send_durable,
    send_last,
)
from headrace.log.blocking import NotHere, without_waiting
from headrace.protocol.jetstream.errors import ApiError
from headrace.protocol.jetstream.levels import asks_too_much
from headrace.protocol.jetstream.requests import MessageGetRequest, decode
from headrace.protocol.jetstream.times import to_ns

if TYPE_CHECKING:
    from headrace.core.service import Delivery
    from headrace.jetstream.ports import StreamView
    from headrace.log.port import StoredMessage

_EMPTY: Final = b"NATS/1.0 408 Empty Request\r\n\r\n"
_BAD: Final = b"NATS/1.0 408 Bad Request\r\n\r\n"
_MALFORMED: Final = b"NATS/1.0 408 Malformed Request\r\n\r\n"
_LEVEL: Final = b"NATS/1.0 412 Required Api Level\r\n\r\n"


def find(
    stream: StreamView,
    *,
    sequence: int = 0,
    last_for: bytes = b"",
    next_for: bytes = b"",
    start_ns: int | None = None,
) -> StoredMessage | None:
    """The message that a request for one names. Raises: StorageError."""
    log = stream.log
    if start_ns is not None:
        sequence = log.sequence_at(max(start_ns, 0))
    try:
        if next_for:
            return _next(stream, sequence, next_for)
        if sequence:
            return log.read(sequence)
        return log.last(last_for)
    except MessageDamaged as damage:
        stream.account.note.error("stream %s: %s", stream.name, damage)
        return None


def told_by(stream: StreamView, message: StoredMessage | None) -> int:
    """Return the sequence up to which all is to be durable before a get is answered with what it found."""
    return stream.last_sequence if message is None else message.sequence


def _next(stream: StreamView, sequence: int, subject: bytes) -> StoredMessage | None:
    while sequence <= stream.last_sequence:
        page = stream.log.read_from(sequence, filters=(subject,), max_messages=1)
        if page.messages:
            return page.messages[0]
        sequence = page.next_sequence
    return None


class _Refused(Exception):
    """The request is answered with a status."""

    def __init__(self, status: bytes) -> None:
        super().__init__(status)
        self.status = status


def direct_get(stream: StreamView, delivery: Delivery, subject: bytes = b"") -> None:
    """Answer a direct get; `subject`: the part of its subject that names the message's, if there is one."""
    if not delivery.reply:
        return
    host = stream.account.host
    if not delivery.headers and stream.direct_gets.try_answer(
        host.outgoing, subject, delivery.payload, delivery.reply
    ):
        host.announce()
        return
    try:
        _answer(stream, delivery, subject)
    except _Refused as refused:
        stream.account.publish(delivery.reply, b"", headers=refused.status)
    except NotHere as absent:
        resume(stream, absent, partial(direct_get, stream, delivery, subject))


def _answer(stream: StreamView, delivery: Delivery, subject: bytes) -> None:
    """Send what was asked for. Raises: _Refused, NotHere before anything is sent, LogError."""
    if asks_too_much(delivery.headers):
        raise _Refused(_LEVEL)
    if subject and not delivery.payload:
        _send_one(stream, delivery.reply, last_for=subject)
        return
    request = _decoded(delivery.payload, subject)
    start_ns = None if request.start_time is None else to_ns(request.start_time)
    if request.multi_last:
        send_last(
            stream,
            delivery.reply,
            subjects=[text.encode() for text in request.multi_last],
            up_to=request.up_to_seq,
            up_to_time_ns=None if request.up_to_time is None else to_ns(request.up_to_time),
            sequence=request.seq,
            batch=max(request.batch, 0),
            max_bytes=max(request.max_bytes, 0),
        )
    elif request.batch:
        send_batch(
            stream,
            delivery.reply,
            sequence=request.seq,
            start_ns=start_ns,
            next_for=request.next_by_subj.encode(),
            batch=request.batch,
            max_bytes=max(request.max_bytes, 0),
            with_headers=not request.no_hdr,
        )
    else:
        _send_one(
            stream,
            delivery.reply,
            sequence=request.seq,
            last_for=subject or request.last_by_subj.encode(),
            next_for=request.next_by_subj.encode(),
            start_ns=start_ns,
            with_headers=not request.no_hdr,
        )


def _decoded(body: bytes, subject: bytes) -> MessageGetRequest:
    """Read the body of a get. Raises: _Refused."""
    if not body:
        raise _Refused(_EMPTY)
    try:
        request = decode(MessageGetRequest, body, strict=False)
    except ApiError:
        raise _Refused(_MALFORMED) from None
    is_empty = request == MessageGetRequest(
        batch=request.batch,
        max_bytes=request.max_bytes,
        up_to_seq=request.up_to_seq,
        up_to_time=request.up_to_time,
        no_hdr=request.no_hdr,
    )
    if subject:
        if not is_empty or request.batch or request.up_to_seq or request.up_to_time is not None:
            raise _Refused(_BAD)
    elif is_empty:
        raise _Refused(_EMPTY)
    elif _contradicts_itself(request):
        raise _Refused(_BAD)
    return request


def _contradicts_itself(request: MessageGetRequest) -> bool:
    last, following, timed = request.last_by_subj, request.next_by_subj, request.start_time is not None
    return (
        (request.seq > 0 and (bool(last) or timed))
        or (bool(last) and (timed or bool(following) or request.batch > 0 or bool(request.multi_last)))
        or (bool(following) and bool(request.multi_last))
        or (request.up_to_seq > 0 and request.up_to_time is not None)
    )


def _send_one(
    stream: StreamView,
    reply: bytes,
    *,
    sequence: int = 0,
    last_for: bytes = b"",
    next_for: bytes = b"",
    start_ns: int | None = None,
    with_headers: bool = True,
) -> None:
    with without_waiting():
        message = find(stream, sequence=sequence, last_for=last_for, next_for=next_for, start_ns=start_ns)
    if message is None:
        answer = b"", NOT_FOUND
    else:
        answer = message.payload, answered(stream.name.encode(), message) if with_headers else b""
    send_durable(stream, reply, [answer], told_by(stream, message))
