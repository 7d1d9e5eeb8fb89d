"""Requests about single messages of a stream: read, removed.

Direct gets are the stream's own. Source: JetStream specification, 1 (MSG.GET, MSG.DELETE).
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

from headrace.jetstream.api.request import Endpoint
from headrace.jetstream.stream import gets
from headrace.log.blocking import NotHere, without_waiting
from headrace.protocol.jetstream.errors import ApiError
from headrace.protocol.jetstream.requests import MessageDeleteRequest, MessageGetRequest, is_empty
from headrace.protocol.jetstream.times import to_ns
from headrace.protocol.rfc3339 import short_time

if TYPE_CHECKING:
    from headrace.jetstream.api.request import Request
    from headrace.log.port import StoredMessage


def get(request: Request) -> None:
    if is_empty(request.payload):
        raise ApiError(10003)
    asked = request.decode(MessageGetRequest)
    if not _is_one_question(asked):
        raise ApiError(10003)
    stream = request.stream()
    try:
        with without_waiting():
            message = gets.find(
                stream,
                sequence=asked.seq,
                last_for=asked.last_by_subj.encode(),
                next_for=asked.next_by_subj.encode(),
                start_ns=None if asked.start_time is None else to_ns(asked.start_time),
            )
    except NotHere as absent:
        stream.account.turns.when_here(absent, request.handle)
        return

    def answer() -> None:
        if message is None:
            raise ApiError(10037)
        request.answer({"message": _fields(message, headers=not asked.no_hdr)})

    if gets.told_by(stream, message) <= stream.visible:
        answer()
    else:
        request.after_commit(stream.log, answer, 10051)


def _is_one_question(asked: MessageGetRequest) -> bool:
    """True if a request names one message, in one way; `next_by_subj` may go with a sequence or time to
    begin.
    """
    if asked.batch > 0 or asked.max_bytes > 0:
        return False
    ways = (asked.seq > 0) + bool(asked.last_by_subj) + (asked.start_time is not None)
    if asked.last_by_subj and asked.next_by_subj:
        return False
    return ways == 1 or (ways == 0 and bool(asked.next_by_subj))


def _fields(message: StoredMessage, *, headers: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {"subject": message.subject.decode("utf-8", "replace"), "seq": message.sequence}
    if headers and message.headers:
        fields["hdrs"] = b64encode(message.headers).decode()
    if message.payload:
        fields["data"] = b64encode(message.payload).decode()
    fields["time"] = short_time(message.time_ns)
    return fields


def delete(request: Request) -> None:
    if is_empty(request.payload):
        raise ApiError(10003)
    asked = request.decode(MessageDeleteRequest)
    stream = request.stream()
    try:
        stream.removal.delete(asked.seq, erase=not asked.no_erase)
    except ApiError as error:
        # One that is not there counts as no error of the API, as with the Go server.
        request.refuse(error, is_error=stream.config.sealed or stream.config.deny_delete)
        return
    request.account.touch(stream)
    request.after_commit(stream.log, lambda: request.answer({"success": True}), 10057)


ENDPOINTS: Final = {
    b"STREAM.MSG.GET": Endpoint("stream_msg_get", get, 1, 1, is_audited=False),
    b"STREAM.MSG.DELETE": Endpoint("stream_msg_delete", delete, 1, 1),
}
