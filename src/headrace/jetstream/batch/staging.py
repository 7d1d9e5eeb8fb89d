"""Messages of a batch judged before any of them is stored: each against the log and those before it.

The order of the checks is the Go server's for batches, which is not that of single messages. What is right is
left in the publications; the append is somebody else's. Source: JetStream specification, 3 and 8; compared
with the Go server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.jetstream.schedule import schedules
from headrace.jetstream.stream import counters
from headrace.jetstream.stream.acceptance import (
    LARGEST_HEADERS,
    check_expected_stream,
    check_size,
    may_roll_up,
    set_ttl,
)
from headrace.jetstream.stream.dedupe import MSG_ID
from headrace.jetstream.stream.publication import Duplicate
from headrace.jetstream.stream.ttl import parse_ttl
from headrace.log.port import StoredMessage
from headrace.protocol.jetstream import headers as block
from headrace.protocol.jetstream.errors import ApiError
from headrace.protocol.jetstream.numbers import whole

if TYPE_CHECKING:
    from headrace.jetstream.ports import Effects, StreamPort
    from headrace.jetstream.stream.publication import Publication


def check_alone(stream: StreamPort, p: Publication) -> None:
    """Check a message of a batch before its batch is known. Raises: ApiError."""
    if stream.config.sealed:
        raise ApiError(10109)
    refused = stream.account.quota.refusal(stream.config, p.size)
    if refused:
        raise ApiError(refused)
    check_size(stream, p)


class Staged:
    """The changes that the messages judged so far will make once they are stored."""

    def __init__(self, stream: StreamPort, effects: Effects) -> None:
        self._stream = stream
        self._effects = effects
        self._first = stream.log.state().last_sequence
        self._count = 0
        self._subjects: dict[bytes, bool] = {}
        """Written to, and whether the last message there makes a schedule."""
        self._counters: dict[bytes, StoredMessage] = {}
        self._ids: set[bytes] = set()
        self._expected: dict[bytes, int] = {}

    def judge(self, p: Publication) -> None:
        """The log holds everything that was received before. Raises: ApiError, Duplicate, StorageError."""
        if p.headers:
            self._judge_headers(p)
        self._count_up(p)
        makes_schedule = False
        if p.headers:
            self._check_sequences(p)
            makes_schedule = self._schedule(p)
            self._set_rollup(p)
        check_size(self._stream, p)
        set_ttl(self._stream, p)
        self._subjects[p.subject] = makes_schedule
        self._count += 1

    def _judge_headers(self, p: Publication) -> None:
        config = self._stream.config
        if len(p.headers) > LARGEST_HEADERS:
            raise ApiError(10097)
        if counters.increment_of(p.headers) is not None:
            counters.check(p.headers, p.payload, allowed=config.allow_msg_counter)
        check_expected_stream(self._stream, p)
        ttl = block.value(p.headers, block.TTL)
        if ttl and ttl.strip(b"0") and not config.allow_msg_ttl:
            raise ApiError(10166)
        parse_ttl(ttl)
        self._check_id(p)
        if block.value(p.headers, block.STREAM_SOURCE):
            raise ApiError(10227)

    def _check_id(self, p: Publication) -> None:
        p.msg_id = block.value(p.headers, MSG_ID)
        if not p.msg_id:
            return
        if p.msg_id in self._ids:
            raise ApiError(10201)
        sequence = self._stream.dedupe.find(p.msg_id, self._effects.now_ns())
        if sequence:
            raise Duplicate(sequence)
        self._ids.add(p.msg_id)

    def _count_up(self, p: Publication) -> None:
        if not self._stream.config.allow_msg_counter:
            return
        increment = counters.increment_of(p.headers)
        if increment is None:
            raise ApiError(10169)
        last = self._counters.get(p.subject) or self._stream.log.last(p.subject)
        counted = counters.applied(increment, last, p.subject, p.headers, p.payload)
        p.headers, p.payload = counted.headers, counted.payload
        p.ack_fields = counted.ack_fields
        self._counters[p.subject] = StoredMessage(0, 0, p.subject, b"", p.headers, p.payload)

    def _check_sequences(self, p: Publication) -> None:
        wanted = block.value(p.headers, block.EXPECTED_LAST_SEQUENCE)
        if wanted:
            last = self._first + self._count
            if whole(wanted) != last:
                raise ApiError(10071, seq=last)
            if self._count:  # of a batch the first alone may know what comes before it
                raise ApiError(10164)
        subject = block.value(p.headers, block.SUBJECT_OF_SEQUENCE)
        wanted = block.value(p.headers, block.EXPECTED_SUBJECT_SEQUENCE)
        if wanted:
            self._check_subject(subject or p.subject, wanted)
        elif subject:
            raise ApiError(10193)

    def _check_subject(self, subject: bytes, wanted: bytes) -> None:
        if subject in self._subjects:
            raise ApiError(10164)
        if subject not in self._expected:
            self._expected[subject] = self._stream.log.last_of(subject)
        last = self._expected[subject]
        if whole(wanted) != last:
            raise ApiError(10071, seq=last)

    def _schedule(self, p: Publication) -> bool:
        def last(subject: bytes) -> StoredMessage | None:
            if subject not in self._subjects:
                return self._stream.log.last(subject)
            headers = block.added(b"", (schedules.PATTERN, b"@hourly")) if self._subjects[subject] else b""
            return StoredMessage(0, 0, subject, b"", headers, b"")

        now_ns = self._effects.now_ns()
        p.headers = schedules.check(p.headers, p.subject, self._stream.config, now_ns, last)
        return bool(block.value(p.headers, schedules.PATTERN))

    def _set_rollup(self, p: Publication) -> None:
        rollup = block.value(p.headers, block.ROLLUP).lower()
        if not rollup:
            return
        if not may_roll_up(self._stream):
            raise ApiError(10111, err="rollup not permitted")
        if rollup == b"sub":
            if p.subject in self._subjects:
                raise ApiError(10111, err="batch rollup sub invalid")
        elif rollup == b"all":
            if self._count:
                raise ApiError(10111, err="batch rollup all invalid")
        else:
            raise ApiError(10111, err=f'rollup value invalid: "{rollup.decode("utf-8", "replace")}"')
        p.rollup = rollup
