"""The checks of publications, as a table: its order is that of nats-server 2.15.1.

A check that has another place in batches than in single messages is there twice. What is found goes into the
publication: its time to live, what it rolls up, its id. A new check is a function and a row; until the row
says that compiled code does the same, the publish lane leaves the streams that it concerns to Python.
Source: JetStream specification, 3 and 8; `tests/conformance/test_jetstream_checks.py` compares the order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.jetstream.batch.headers import ID as BATCH_ID
from headrace.jetstream.batch.headers import LONGEST_ID
from headrace.jetstream.schedule import schedules
from headrace.jetstream.stream import counters
from headrace.jetstream.stream.acceptance import Check, CheckTable
from headrace.jetstream.stream.dedupe import MSG_ID
from headrace.jetstream.stream.extensions import (
    CHECK_PAYLOADS,
    REQUIRE_ID,
    checks_payloads,
    requires_id,
)
from headrace.jetstream.stream.publication import PublicationKind
from headrace.jetstream.stream.ttl import NEVER, message_ttl, parse_ttl
from headrace.log.port import FOREVER
from headrace.protocol.durations import SECOND
from headrace.protocol.jetstream import headers as hdr
from headrace.protocol.jetstream.errors import ApiError
from headrace.protocol.jetstream.numbers import whole

if TYPE_CHECKING:
    from headrace.jetstream.stream.acceptance import Before
    from headrace.jetstream.stream.publication import Publication
    from headrace.protocol.jetstream.configs import StreamConfig

LARGEST_HEADERS: Final = 65_535
LARGEST_CHECKED: Final = 1 << 20
"""Bytes of a payload that a schema is asked about; a larger one is refused, since all clients would wait."""
LONGEST_REASON: Final = 200
"""Characters of the reason why a payload does not fit; the rest is cut off."""
_OF_DELETIONS: Final = (b"KV-Operation", b"Nats-Marker-Reason")
"""Headers that say what an empty payload means."""
_REQUEST_INFO: Final = b"Nats-Request-Info"


# -- streams -------------------------------------------------------------------------------------------


def is_sealed(config: StreamConfig) -> bool:
    return config.sealed


def has_transform(config: StreamConfig) -> bool:
    change = config.subject_transform
    return change is not None and bool(change.dest)


def has_counters(config: StreamConfig) -> bool:
    return config.allow_msg_counter


def has_no_counters(config: StreamConfig) -> bool:
    return not config.allow_msg_counter


def has_no_atomic(config: StreamConfig) -> bool:
    return not config.allow_atomic


def has_no_fast(config: StreamConfig) -> bool:
    return not config.allow_batched


def has_ttls(config: StreamConfig) -> bool:
    return config.allow_msg_ttl


def has_no_ttls(config: StreamConfig) -> bool:
    return not config.allow_msg_ttl


def changes_messages(config: StreamConfig) -> bool:
    """True if a message may become larger while it is judged."""
    return config.allow_msg_counter or config.allow_msg_schedules


def bounds_sizes(config: StreamConfig) -> bool:
    return config.max_msg_size >= 0


def may_roll_up(config: StreamConfig) -> bool:
    return config.allow_rollup_hdrs and not config.deny_purge


def may_not_roll_up(config: StreamConfig) -> bool:
    return not may_roll_up(config)


# -- every message -------------------------------------------------------------------------------------


def transform_subject(before: Before, p: Publication) -> None:
    p.subject = before.transformed(p.subject)


def refuse_sealed(_before: Before, _p: Publication) -> None:
    raise ApiError(10109)


def drop_request_info(_before: Before, p: Publication) -> None:
    p.headers = hdr.without(p.headers, _REQUEST_INFO)


def check_room(before: Before, p: Publication) -> None:
    refused = before.refused(p.size)
    if refused:
        raise ApiError(refused)


def check_size(before: Before, p: Publication) -> None:
    if 0 <= before.config.max_msg_size < len(p.headers) + len(p.payload):
        raise ApiError(10054)


def check_header_size(_before: Before, p: Publication) -> None:
    if len(p.headers) > LARGEST_HEADERS:
        raise ApiError(10097)


def trace(before: Before, p: Publication) -> None:
    if p.trace is not None:
        p.trace.judged(p.subject, wanted=before.wants(p.subject))


# -- batches -------------------------------------------------------------------------------------------


def refuse_atomic(_before: Before, _p: Publication) -> None:
    raise ApiError(10174)


def check_batch_id(_before: Before, p: Publication) -> None:
    if len(hdr.value(p.headers, BATCH_ID)) > LONGEST_ID:
        raise ApiError(10179)


def refuse_fast(_before: Before, _p: Publication) -> None:
    raise ApiError(10205)


# -- counters ------------------------------------------------------------------------------------------


def check_increment(_before: Before, p: Publication) -> None:
    counters.increment_of(p.headers)


def refuse_increment(_before: Before, p: Publication) -> None:
    if counters.increment_of(p.headers) is not None:
        raise ApiError(10168)


def check_counting(_before: Before, p: Publication) -> None:
    if counters.increment_of(p.headers) is not None:
        counters.check(p.headers, p.payload)


def count(before: Before, p: Publication) -> None:
    increment = counters.increment_of(p.headers) if p.headers else None
    if increment is None:
        raise ApiError(10169)
    counted = counters.applied(increment, before.last(p.subject), p.subject, p.headers, p.payload)
    p.headers, p.payload, p.ack_fields = counted.headers, counted.payload, counted.ack_fields


# -- what is expected ----------------------------------------------------------------------------------


def check_stream(before: Before, p: Publication) -> None:
    wanted = hdr.value(p.headers, hdr.EXPECTED_STREAM)
    if wanted and wanted != before.config.name.encode():
        raise ApiError(10060)


def check_subject_sequence(before: Before, p: Publication) -> None:
    subject = hdr.value(p.headers, hdr.SUBJECT_OF_SEQUENCE)
    wanted = hdr.value(p.headers, hdr.EXPECTED_SUBJECT_SEQUENCE)
    if wanted:
        last = before.last_of(subject or p.subject)
        if last != whole(wanted):
            raise ApiError(10071, seq=last)
    elif subject:
        raise ApiError(10193)


def check_last_sequence(before: Before, p: Publication) -> None:
    wanted = hdr.value(p.headers, hdr.EXPECTED_LAST_SEQUENCE)
    if not wanted:
        return
    if whole(wanted) != before.last_sequence:
        raise ApiError(10071, seq=before.last_sequence)
    if before.count:  # of a batch the first alone may know what comes before it
        raise ApiError(10164)


def check_last_id(before: Before, p: Publication) -> None:
    wanted = hdr.value(p.headers, hdr.EXPECTED_LAST_ID)
    if wanted and wanted != before.last_id:
        raise ApiError(10070, id=before.last_id.decode("utf-8", "replace"))


def refuse_last_id(_before: Before, p: Publication) -> None:
    if hdr.value(p.headers, hdr.EXPECTED_LAST_ID):
        raise ApiError(10177, header=hdr.EXPECTED_LAST_ID.decode())


# -- one message for another ---------------------------------------------------------------------------


def refuse_source(_before: Before, p: Publication) -> None:
    if hdr.value(p.headers, hdr.STREAM_SOURCE):
        raise ApiError(10227)


def require_id(_before: Before, p: Publication) -> None:
    if not hdr.value(p.headers, MSG_ID):
        raise ApiError(10077, err=f"a {MSG_ID.decode()} is needed ({REQUIRE_ID})")


def check_payload(before: Before, p: Publication) -> None:
    """Refuse a payload that does not fit the schema of its subject; a key may be deleted."""
    if not p.payload and any(hdr.has(p.headers, name) for name in _OF_DELETIONS):
        return
    # Loaded for streams that ask.
    from headrace.schemas.errors import Misfit, SchemaError

    try:
        if len(p.payload) > LARGEST_CHECKED:
            raise Misfit(f"larger than {LARGEST_CHECKED} bytes, which is the most that is checked")
        before.judge_of_payloads.check(p.subject, p.payload)
    except (Misfit, SchemaError) as error:
        reason = str(error)
        if len(reason) > LONGEST_REASON:
            reason = f"{reason[:LONGEST_REASON]}..."
        raise ApiError(10077, err=f"the payload does not fit ({CHECK_PAYLOADS}): {reason}") from error


def check_id(before: Before, p: Publication) -> None:
    p.msg_id = hdr.value(p.headers, MSG_ID)
    if p.msg_id:
        before.find(p.msg_id)


def check_schedule(before: Before, p: Publication) -> None:
    p.headers = schedules.check(p.headers, p.subject, before.config, before.now_ns(), before.last)


def refuse_rollup(_before: Before, p: Publication) -> None:
    if hdr.value(p.headers, hdr.ROLLUP):
        raise ApiError(10111, err="rollup not permitted")


def check_rollup_in_batch(before: Before, p: Publication) -> None:
    rollup = hdr.value(p.headers, hdr.ROLLUP).lower()
    if rollup == b"sub" and before.is_of_batch(p.subject):
        raise ApiError(10111, err="batch rollup sub invalid")
    if rollup == b"all" and before.count:
        raise ApiError(10111, err="batch rollup all invalid")


def set_rollup(_before: Before, p: Publication) -> None:
    rollup = hdr.value(p.headers, hdr.ROLLUP).lower()
    if rollup not in (b"", b"sub", b"all"):
        raise ApiError(10111, err=f'rollup value invalid: "{rollup.decode("utf-8", "replace")}"')
    p.rollup = rollup


# -- lifetimes -----------------------------------------------------------------------------------------


def refuse_ttl(_before: Before, p: Publication) -> None:
    """One that is invalid is told later, when nothing else is wrong with the message."""
    try:
        seconds = parse_ttl(hdr.value(p.headers, hdr.TTL))
    except ApiError:
        return
    if seconds:
        raise ApiError(10166)


def refuse_ttl_in_batch(_before: Before, p: Publication) -> None:
    if hdr.value(p.headers, hdr.TTL).strip(b"0"):
        raise ApiError(10166)


def check_ttl(_before: Before, p: Publication) -> None:
    parse_ttl(hdr.value(p.headers, hdr.TTL))


def set_ttl(before: Before, p: Publication) -> None:
    """Read `Nats-TTL`; one below that of the stream's markers is made as long.

    Messages of another stream keep theirs, which means nothing where lifetimes are not allowed.
    """
    seconds = parse_ttl(hdr.value(p.headers, hdr.TTL))
    config = before.config
    least = config.subject_delete_marker_ttl // SECOND
    if 0 < seconds < least and config.max_msgs_per_subject != 1:
        seconds = least
        p.headers = hdr.added(hdr.without(p.headers, hdr.TTL), (hdr.TTL, b"%d" % seconds))
    if not config.allow_msg_ttl:
        return
    if seconds > 0:
        p.ttl_ns = min(seconds * SECOND, FOREVER)
    elif seconds == NEVER:
        p.ttl_ns = FOREVER


def keep_ttl(_before: Before, p: Publication) -> None:
    p.ttl_ns = message_ttl(p.headers)


# -- the table -----------------------------------------------------------------------------------------

_ALONE: Final = PublicationKind.SINGLE | PublicationKind.TRACED
_BATCHED: Final = PublicationKind.ATOMIC | PublicationKind.FAST
_PUBLISHED: Final = _ALONE | _BATCHED
_ARRIVING: Final = PublicationKind.OF_ATOMIC | PublicationKind.OF_FAST
_TAKEN_OVER: Final = PublicationKind.SOURCED | PublicationKind.MARKER
_FOLLOWED: Final = PublicationKind.SOURCED | PublicationKind.MIRRORED
_WHOLE: Final = _ALONE | _TAKEN_OVER
_SUBJECT_SEQUENCE: Final = (hdr.EXPECTED_SUBJECT_SEQUENCE, hdr.SUBJECT_OF_SEQUENCE)
_SCHEDULE: Final = (schedules.PATTERN, schedules.TIME_ZONE, schedules.NEXT, schedules.SCHEDULER)
_OF_SCHEDULES: Final = (10166, 10188, 10189, 10190, 10191, 10192, 10203, 10212, 10223)
_ROLLUP: Final = (hdr.ROLLUP, schedules.PATTERN)  # of a schedule only the last message stays

# fmt: off
CHECKS: Final = CheckTable(
    Check("transform", _ALONE | _FOLLOWED | _ARRIVING, transform_subject, streams=has_transform),
    Check("sealed", _WHOLE | _ARRIVING, refuse_sealed, (10109,), streams=is_sealed),
    Check("request info", _WHOLE, drop_request_info, headers=(_REQUEST_INFO,)),
    Check("room", _ARRIVING, check_room, (10002, 10023, 10120)),
    Check("size", _WHOLE | _ARRIVING | PublicationKind.RESTORED, check_size, (10054,), is_compiled=True),
    Check("mirrored size", PublicationKind.MIRRORED, check_size, (10054,), (), bounds_sizes),
    Check("header size", _WHOLE | _ARRIVING, check_header_size, (10097,), is_compiled=True),
    Check("no atomic batches", PublicationKind.OF_ATOMIC, refuse_atomic, (10174,), streams=has_no_atomic),
    Check("batch id", PublicationKind.OF_ATOMIC, check_batch_id, (10179,), (BATCH_ID,)),
    Check("no fast ingest", PublicationKind.OF_FAST, refuse_fast, (10205,), streams=has_no_fast),
    Check("last id in a batch", PublicationKind.ATOMIC, refuse_last_id, (10177,), (hdr.EXPECTED_LAST_ID,)),
    Check("increment", _PUBLISHED | _TAKEN_OVER, check_increment, (10171,), (hdr.INCREMENT,)),
    Check("no counter", _PUBLISHED, refuse_increment, (10168,), (hdr.INCREMENT,), has_no_counters),
    Check("counting", _PUBLISHED, check_counting, (10170, 10171), (hdr.INCREMENT,), has_counters),
    Check("expected stream", _PUBLISHED, check_stream, (10060,), (hdr.EXPECTED_STREAM,),
          reads_log=True),  # not it, but its publisher hears in the order of its messages
    Check("required id", _PUBLISHED, require_id, (10077,), streams=requires_id),
    Check("payload", _PUBLISHED, check_payload, (10077,), streams=checks_payloads),
    Check("no TTL", _ALONE, refuse_ttl, (10166,), (hdr.TTL,), has_no_ttls),
    Check("no TTL in a batch", _BATCHED, refuse_ttl_in_batch, (10166,), (hdr.TTL,), has_no_ttls),
    Check("TTL in a batch", _BATCHED, check_ttl, (10165,), (hdr.TTL,)),
    Check("subject's last sequence", _ALONE, check_subject_sequence, (10071, 10193), _SUBJECT_SEQUENCE,
          reads_log=True),
    Check("last sequence", _ALONE, check_last_sequence, (10071,), (hdr.EXPECTED_LAST_SEQUENCE,),
          reads_log=True),
    Check("schedule", _ALONE, check_schedule, _OF_SCHEDULES, _SCHEDULE, reads_log=True),
    Check("id in a batch", _BATCHED, check_id, (10201,), (MSG_ID,)),
    Check("source", _PUBLISHED, refuse_source, (10227,), (hdr.STREAM_SOURCE,)),
    Check("id", _WHOLE, check_id, (), (MSG_ID,), is_compiled=True),
    Check("last id", _ALONE, check_last_id, (10070,), (hdr.EXPECTED_LAST_ID,), reads_log=True),
    Check("no roll-up", _ALONE, refuse_rollup, (10111,), _ROLLUP, may_not_roll_up),
    Check("roll-up", _WHOLE | PublicationKind.MIRRORED, set_rollup, (10111,), _ROLLUP, reads_log=True),
    Check("counter", _PUBLISHED | _TAKEN_OVER, count, (10169, 10172), (), has_counters, reads_log=True),
    Check("last sequence in a batch", _BATCHED, check_last_sequence, (10071, 10164),
          (hdr.EXPECTED_LAST_SEQUENCE,), reads_log=True),
    Check("subject's last sequence in a batch", _BATCHED, check_subject_sequence, (10071, 10164, 10193),
          _SUBJECT_SEQUENCE, reads_log=True),
    Check("schedule in a batch", _BATCHED, check_schedule, _OF_SCHEDULES, _SCHEDULE, reads_log=True),
    Check("no roll-up in a batch", _BATCHED, refuse_rollup, (10111,), _ROLLUP, may_not_roll_up),
    Check("second roll-up in a batch", _BATCHED, check_rollup_in_batch, (10111,), _ROLLUP),
    Check("roll-up in a batch", _BATCHED, set_rollup, (10111,), _ROLLUP, reads_log=True),
    Check("last id in fast ingest", PublicationKind.FAST, check_last_id, (10070,), (hdr.EXPECTED_LAST_ID,),
          reads_log=True),
    Check("stored size", _WHOLE, check_size, (10054,), (), changes_messages, is_compiled=True),
    Check("stored header size", _WHOLE, check_header_size, (10097,), (), changes_messages, is_compiled=True),
    Check("size in a batch", _BATCHED, check_size, (10054,)),
    Check("header size in a batch", _BATCHED, check_header_size, (10097,)),
    Check("trace", _WHOLE, trace, is_compiled=True),
    Check(
        "TTL",
        PublicationKind.SINGLE | _BATCHED | _TAKEN_OVER | PublicationKind.MIRRORED,
        set_ttl,
        (10165,),
        (hdr.TTL,),
    ),
    Check("restored TTL", PublicationKind.RESTORED, keep_ttl, (10165,), (hdr.TTL,), has_ttls),
)
# fmt: on
