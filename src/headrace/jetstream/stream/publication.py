"""One message on its way into a stream, and what its headers ask for: conditions, rollups, how long it lives.

Here is judged whether it may be stored, in the order of the Go server 2.15.1; features of streams
(`features`) have their places in that order. Never here: the append itself.
Source: JetStream specification, 3 and 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.jetstream.schedule.schedules import purged_by
from headrace.jetstream.stream.dedupe import MSG_ID
from headrace.jetstream.stream.ttl import NEVER, parse_ttl
from headrace.log.port import FOREVER
from headrace.protocol.durations import SECOND
from headrace.protocol.jetstream import headers as hdr
from headrace.protocol.jetstream.errors import ApiError
from headrace.protocol.jetstream.numbers import UINT64_MAX, whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.service import Delivery
    from headrace.core.tracing import StreamTrace
    from headrace.jetstream.stream.stream import Stream

LARGEST_HEADERS: Final = 65_535
_REQUEST_INFO: Final = b"Nats-Request-Info"
_ASKING: Final = (b"\nNats-Expected-", b"\nNats-Rollup:", b"\nNats-Incr:", b"\nNats-Schedul")
TRACED_DUPLICATE: Final = "msgid is duplicate"
_TRACED_TOO_LARGE: Final = "maximum payload exceeded"


class Publication(Struct, eq=False):
    """`subject` after the stream's transform. `sourced`: from another stream, which has judged it already.

    `done` is called in a turn when it is durable, or with why it is not stored; a publication with a `reply`
    is answered there besides.
    """

    subject: bytes
    payload: bytes = b""
    headers: bytes = b""
    reply: bytes = b""
    sourced: bool = False
    is_plain: bool = False
    """It asks for nothing but to be stored once."""
    is_final: bool = False
    """As it is to be stored: its subject is not changed any more."""
    time_ns: int = 0
    ttl_ns: int = 0
    msg_id: bytes = b""
    rollup: bytes = b""
    """`sub` or `all`; empty: it rolls up nothing."""
    ack_fields: bytes = b""
    """What its PubAck has after the sequence: `,"val":"5"`."""
    done: Callable[[Exception | None], object] | None = None
    sequence: int = 0
    """Where it is, once it was appended."""
    trace: StreamTrace | None = None
    """What is told of it, when it is traced."""

    def end(self, error: ApiError | None) -> None:
        """It is durable, or refused."""
        if self.trace is not None:
            self.trace.done(traced_error(self, error) if error is not None else "")
        if self.done:
            self.done(error)

    @classmethod
    def of(cls, delivery: Delivery) -> Publication:
        return cls(delivery.subject, delivery.payload, hdr.without_status(delivery.headers), delivery.reply)

    @property
    def size(self) -> int:
        """Bytes, as limits of accounts and of batches count them."""
        return len(self.subject) + len(self.headers) + len(self.payload)

    @property
    def asks_the_log(self) -> bool:
        """Whether judging it needs everything before it to be in the log."""
        return any(name in self.headers for name in _ASKING)

    @property
    def purged_subject(self) -> bytes:
        """The schedule that it ends; empty: none."""
        return purged_by(self.headers) if self.headers else b""


class Duplicate(Exception):
    """It was stored before, as `sequence`: no error, but not stored again."""

    def __init__(self, sequence: int) -> None:
        super().__init__(sequence)
        self.sequence = sequence


def judge(stream: Stream, p: Publication) -> None:
    """Says what is to be stored and how, in `p`. Raises: ApiError, Duplicate, StorageError."""
    if stream.config.sealed:
        raise ApiError(10109)
    if p.headers:
        p.headers = hdr.without(p.headers, _REQUEST_INFO)
    check_size(stream, p)
    if p.headers:
        _judge_headers(stream, p)
    for feature in stream.features:
        feature.change(stream, p)
    check_size(stream, p)  # once more: a feature may have made it larger
    if p.trace is not None:
        p.trace.judged(p.subject, wanted=stream.wants(p.subject))
        if p.trace.is_only:
            return
    set_ttl(stream, p)


def _judge_headers(stream: Stream, p: Publication) -> None:
    for feature in stream.features:
        feature.judge(stream, p)
    check_expected_stream(stream, p)
    if not p.sourced and not stream.config.allow_msg_ttl and _has_ttl(p):
        raise ApiError(10166)
    check_expected_sequences(stream, p)
    for feature in stream.features:
        feature.admit(stream, p)
    if not p.sourced and hdr.value(p.headers, hdr.STREAM_SOURCE):
        raise ApiError(10227)
    check_duplicate(stream, p)
    check_expected_id(stream, p)
    set_rollup(stream, p)


def check_expected_stream(stream: Stream, p: Publication) -> None:
    wanted = hdr.value(p.headers, hdr.EXPECTED_STREAM)
    if wanted and wanted != stream.name.encode():
        raise ApiError(10060)


def check_expected_sequences(stream: Stream, p: Publication) -> None:
    """The last sequence of a subject, and of the stream."""
    subject = hdr.value(p.headers, hdr.SUBJECT_OF_SEQUENCE)
    wanted = hdr.value(p.headers, hdr.EXPECTED_SUBJECT_SEQUENCE)
    if wanted:
        last = stream.log.last_of(subject or p.subject)
        if last != whole(wanted):
            raise ApiError(10071, seq=last)
    elif subject:
        raise ApiError(10193)
    wanted = hdr.value(p.headers, hdr.EXPECTED_LAST_SEQUENCE)
    if wanted and whole(wanted) != stream.last_sequence:
        raise ApiError(10071, seq=stream.last_sequence)


def check_duplicate(stream: Stream, p: Publication) -> None:
    p.msg_id = hdr.value(p.headers, MSG_ID)
    if p.msg_id and stream.config.mirror is None:
        sequence = stream.dedupe.find(p.msg_id, stream.account.turns.now_ns())
        if sequence:
            raise Duplicate(sequence)


def check_expected_id(stream: Stream, p: Publication) -> None:
    wanted = hdr.value(p.headers, hdr.EXPECTED_LAST_ID)
    if wanted and wanted != stream.dedupe.last_id:
        raise ApiError(10070, id=stream.dedupe.last_id.decode("utf-8", "replace"))


def set_rollup(stream: Stream, p: Publication) -> None:
    rollup = hdr.value(p.headers, hdr.ROLLUP).lower()
    if not rollup:
        return
    if not p.sourced and not may_roll_up(stream):
        raise ApiError(10111, err="rollup not permitted")
    if rollup not in (b"sub", b"all"):
        raise ApiError(10111, err=f'rollup value invalid: "{rollup.decode("utf-8", "replace")}"')
    p.rollup = rollup


def may_roll_up(stream: Stream) -> bool:
    return stream.config.allow_rollup_hdrs and not stream.config.deny_purge


def check_size(stream: Stream, p: Publication) -> None:
    size = len(p.headers) + len(p.payload)
    if 0 <= stream.config.max_msg_size < size:
        raise ApiError(10054)
    if len(p.headers) > LARGEST_HEADERS:
        raise ApiError(10097)


def set_ttl(stream: Stream, p: Publication) -> None:
    """Reads `Nats-TTL`; one below that of the stream's markers is made as long."""
    if not p.headers:
        return
    seconds = parse_ttl(hdr.value(p.headers, hdr.TTL))
    config = stream.config
    least = config.subject_delete_marker_ttl // SECOND
    if 0 < seconds < least and config.max_msgs_per_subject != 1:
        seconds = least
        p.headers = hdr.added(hdr.without(p.headers, hdr.TTL), (hdr.TTL, b"%d" % seconds))
    if seconds > 0:
        p.ttl_ns = min(seconds * SECOND, FOREVER)
    elif seconds == NEVER:
        p.ttl_ns = FOREVER


def _has_ttl(p: Publication) -> bool:
    try:
        return parse_ttl(hdr.value(p.headers, hdr.TTL)) != 0
    except ApiError:  # is told later, when nothing else is wrong with the message
        return False


# -- what a trace says of an error --------------------------------------------------------------------


def traced_error(p: Publication, error: ApiError) -> str:
    """The text that a trace has for an error. The Go server 2.15.1 has other words there than in a PubAck."""
    words = _WORDS.get(error.err_code)
    return words(p, error) if words is not None else f"{error.description} ({error.err_code})"


def _wrong_sequence(p: Publication, error: ApiError) -> str:
    actual = error.description.rpartition(" ")[2]
    of_subject = hdr.value(p.headers, hdr.EXPECTED_SUBJECT_SEQUENCE)
    of_stream = hdr.value(p.headers, hdr.EXPECTED_LAST_SEQUENCE)
    if of_subject and not (of_stream and _number(of_subject) == actual):
        return f"last sequence by subject mismatch: {_number(of_subject)} vs {actual}"
    return f"last sequence mismatch: {_number(of_stream)} vs {actual}"


def _number(text: bytes) -> str:
    """What is no number is the largest one."""
    number = whole(text)
    return str(UINT64_MAX if number is None else number)


def _wrong_id(p: Publication, error: ApiError) -> str:
    wanted = hdr.value(p.headers, hdr.EXPECTED_LAST_ID).decode("utf-8", "replace")
    last = error.description.rpartition(": ")[2]
    return f'last msgid mismatch: "{wanted}" vs "{last}"'


_WORDS: Final[dict[int, Callable[[Publication, ApiError], str]]] = {
    10054: lambda _p, _error: _TRACED_TOO_LARGE,
    10060: lambda _p, _error: "expected stream does not match",
    10070: _wrong_id,
    10071: _wrong_sequence,
    10077: lambda _p, error: error.description,
    10097: lambda _p, _error: _TRACED_TOO_LARGE,
    10111: lambda _p, error: error.description,
    10166: lambda _p, _error: "message TTL disabled",
}
