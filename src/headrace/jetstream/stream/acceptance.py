"""Acceptance of publications: the checks before one is stored, in the order of the Go server 2.15.1.

Features of streams (`features`) have their places in that order. What is found goes into the publication: its
time to live, what it rolls up, its id. Never here: the append itself, or what messages of a batch mean to
each other (`batch.staging`). Source: JetStream specification, 3 and 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.jetstream.stream.dedupe import MSG_ID
from headrace.jetstream.stream.publication import Duplicate
from headrace.jetstream.stream.ttl import NEVER, parse_ttl
from headrace.log.port import FOREVER
from headrace.protocol.durations import SECOND
from headrace.protocol.jetstream import headers as hdr
from headrace.protocol.jetstream.errors import ApiError
from headrace.protocol.jetstream.numbers import whole

if TYPE_CHECKING:
    from headrace.jetstream.ports import StreamPort
    from headrace.jetstream.stream.publication import Publication

LARGEST_HEADERS: Final = 65_535
_REQUEST_INFO: Final = b"Nats-Request-Info"


def judge(stream: StreamPort, p: Publication) -> None:
    """Says what is to be stored and how, in `p`. Raises: ApiError, Duplicate, StorageError."""
    if stream.config.sealed:
        raise ApiError(10109)
    if p.headers:
        p.headers = hdr.without(p.headers, _REQUEST_INFO)
    check_size(stream, p)
    if p.headers:
        _judge_headers(stream, p)
    for feature in stream.features:
        feature.change(p)
    check_size(stream, p)  # once more: a feature may have made it larger
    if p.trace is not None:
        p.trace.judged(p.subject, wanted=stream.wants(p.subject))
        if p.trace.is_only:
            return
    set_ttl(stream, p)


def _judge_headers(stream: StreamPort, p: Publication) -> None:
    for feature in stream.features:
        feature.judge(p)
    check_expected_stream(stream, p)
    if not p.sourced and not stream.config.allow_msg_ttl and _has_ttl(p):
        raise ApiError(10166)
    check_expected_sequences(stream, p)
    for feature in stream.features:
        feature.admit(p)
    if not p.sourced and hdr.value(p.headers, hdr.STREAM_SOURCE):
        raise ApiError(10227)
    check_duplicate(stream, p)
    check_expected_id(stream, p)
    set_rollup(stream, p)


def check_expected_stream(stream: StreamPort, p: Publication) -> None:
    wanted = hdr.value(p.headers, hdr.EXPECTED_STREAM)
    if wanted and wanted != stream.name.encode():
        raise ApiError(10060)


def check_expected_sequences(stream: StreamPort, p: Publication) -> None:
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


def check_duplicate(stream: StreamPort, p: Publication) -> None:
    p.msg_id = hdr.value(p.headers, MSG_ID)
    if p.msg_id and stream.config.mirror is None:
        sequence = stream.dedupe.find(p.msg_id, stream.account.now_ns())
        if sequence:
            raise Duplicate(sequence)


def check_expected_id(stream: StreamPort, p: Publication) -> None:
    wanted = hdr.value(p.headers, hdr.EXPECTED_LAST_ID)
    if wanted and wanted != stream.dedupe.last_id:
        raise ApiError(10070, id=stream.dedupe.last_id.decode("utf-8", "replace"))


def set_rollup(stream: StreamPort, p: Publication) -> None:
    rollup = hdr.value(p.headers, hdr.ROLLUP).lower()
    if not rollup:
        return
    if not p.sourced and not may_roll_up(stream):
        raise ApiError(10111, err="rollup not permitted")
    if rollup not in (b"sub", b"all"):
        raise ApiError(10111, err=f'rollup value invalid: "{rollup.decode("utf-8", "replace")}"')
    p.rollup = rollup


def may_roll_up(stream: StreamPort) -> bool:
    return stream.config.allow_rollup_hdrs and not stream.config.deny_purge


def check_size(stream: StreamPort, p: Publication) -> None:
    size = len(p.headers) + len(p.payload)
    if 0 <= stream.config.max_msg_size < size:
        raise ApiError(10054)
    if len(p.headers) > LARGEST_HEADERS:
        raise ApiError(10097)


def set_ttl(stream: StreamPort, p: Publication) -> None:
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
