"""Scheduled messages: what their headers must be, when they are due, and what is published then.

Pure: headers and moments in, headers and moments out; `scheduler` has the timer. A schedule is the last
message of its subject; another message on that subject ends it. Source: JetStream specification, 8; refusals
and produced headers compared with the Go server 2.15.1.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.jetstream.batch.headers import OF_BATCHES
from headrace.jetstream.stream.ttl import parse_ttl
from headrace.protocol.durations import SECOND, parse_ns
from headrace.protocol.jetstream import headers as block
from headrace.protocol.jetstream.errors import ApiError
from headrace.protocol.rfc3339 import parse_time
from headrace.subjects import grammar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.jetstream.schedule.cron import Cron
    from headrace.log.port import StoredMessage
    from headrace.protocol.jetstream.configs import StreamConfig

PATTERN: Final = b"Nats-Schedule"
TARGET: Final = b"Nats-Schedule-Target"
TTL: Final = b"Nats-Schedule-TTL"
SOURCE: Final = b"Nats-Schedule-Source"
TIME_ZONE: Final = b"Nats-Schedule-Time-Zone"
ROLLUP: Final = b"Nats-Schedule-Rollup"
NEXT: Final = b"Nats-Schedule-Next"
SCHEDULER: Final = b"Nats-Scheduler"
PURGE: Final = b"purge"
_OF_SCHEDULES: Final = b"Nats-Schedule"
_OF_SUBJECT: Final = b"sub"

_ZONE_NAME: Final = re.compile(rb"[A-Za-z0-9_+\-]+(?:/[A-Za-z0-9_+\-]+)*")


class Due(Struct, frozen=True):
    """The time at which a schedule is due, ns since 1970 UTC; `zone` is used to write it."""

    time_ns: int
    repeats: bool
    zone: tzinfo = UTC

    def written(self) -> bytes:
        """Return the time as RFC 3339, with the offset of the zone and without zeros at the end of the
        fraction.
        """
        seconds, rest = divmod(self.time_ns, SECOND)
        moment = datetime.fromtimestamp(seconds, self.zone)
        fraction = f".{rest:09d}".rstrip("0") if rest else ""
        offset = moment.strftime("%z")
        ending = "Z" if not moment.utcoffset() else f"{offset[:3]}:{offset[3:5]}"
        return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}{ending}".encode()


class Firing(Struct, frozen=True):
    """A message that a schedule produces."""

    subject: bytes
    headers: bytes
    payload: bytes


def due_after(headers: bytes, from_ns: int, now_ns: int) -> Due | None:
    """Find when the schedule of these headers is due after `from_ns`; None if they make no schedule.

    Missed times are skipped: a repeating schedule is due after `now_ns`. Raises: ApiError 10189 for the
    pattern, 10223 for the time zone.
    """
    zone = _zone(headers)
    pattern = block.value(headers, PATTERN)
    if not pattern:
        return None
    text = pattern.decode("utf-8", "replace")
    if text.startswith("@at ") or text.startswith("@every "):
        if zone is not None:
            raise ApiError(10189)
        return _at(text[4:]) if text.startswith("@at ") else _every(text[7:], from_ns, now_ns)
    from headrace.jetstream.schedule.cron import Cron  # few messages have such a schedule

    try:
        cron = Cron(text)
    except ValueError:
        raise ApiError(10189) from None
    due = _cron(cron, zone or UTC, from_ns)
    return _cron(cron, zone or UTC, _rounded(now_ns)) if due.time_ns < now_ns else due


def check(
    headers: bytes,
    subject: bytes,
    config: StreamConfig,
    now_ns: int,
    last: Callable[[bytes], StoredMessage | None],
) -> bytes:
    """The headers a client's message is stored with, perhaps with a rollup added.

    `last`: the newest message of a subject. Raises: ApiError 10166, 10188 to 10192, 10203, 10212, 10223.
    """
    allowed = config.allow_msg_schedules
    try:
        due = due_after(headers, now_ns, now_ns)
    except ApiError:
        if not allowed:
            raise ApiError(10188) from None
        raise
    if due is not None:
        if not allowed:
            raise ApiError(10188)
        _check_production(headers, subject, config)
        headers = _with_rollup(headers)
    _check_scheduler(headers, subject, last, allowed=allowed)
    return headers


def _check_production(headers: bytes, subject: bytes, config: StreamConfig) -> None:
    ttl = block.value(headers, TTL)
    try:
        parse_ttl(ttl)
    except ApiError:
        raise ApiError(10191) from None
    if block.value(headers, ROLLUP) not in (b"", _OF_SUBJECT):
        raise ApiError(10192)
    if ttl and not config.allow_msg_ttl:
        raise ApiError(10166)
    taken = [pattern.encode() for pattern in config.subjects]
    target = block.value(headers, TARGET)
    if target == subject or not _is_taken(target, taken):
        raise ApiError(10190)
    source = block.value(headers, SOURCE)
    if source and (source in (target, subject) or not _is_taken(source, taken)):
        raise ApiError(10203)


def _is_taken(subject: bytes, patterns: Sequence[bytes]) -> bool:
    return _is_publishable(subject) and any(grammar.matches(pattern, subject) for pattern in patterns)


def _is_publishable(subject: bytes) -> bool:
    return grammar.is_valid_subject(subject) and grammar.is_literal(subject)


def _with_rollup(headers: bytes) -> bytes:
    """Return the headers with a rollup: of a schedule only the last message stays."""
    rollup = block.value(headers, block.ROLLUP)
    if not rollup:
        return block.added(headers, (block.ROLLUP, _OF_SUBJECT))
    if rollup.lower() != _OF_SUBJECT:
        raise ApiError(10192)
    return headers


def _check_scheduler(
    headers: bytes, subject: bytes, last: Callable[[bytes], StoredMessage | None], *, allowed: bool
) -> None:
    """A client may end a schedule together with what it publishes, and say no more than that."""
    following = block.value(headers, NEXT)
    scheduler = block.value(headers, SCHEDULER)
    if not following:
        if scheduler:
            raise ApiError(10212)
        return
    if following != PURGE or not scheduler or scheduler == subject or not _is_publishable(scheduler):
        raise ApiError(10212)
    if not allowed:
        raise ApiError(10188)
    message = last(scheduler)
    if message is not None and not block.value(message.headers, PATTERN):
        raise ApiError(10212)


def purged_by(headers: bytes) -> bytes:
    """The subject of the schedule that a stored message ends; b"" for none."""
    return block.value(headers, SCHEDULER) if block.value(headers, NEXT) == PURGE else b""


def moved_by(headers: bytes) -> tuple[bytes, int] | None:
    """The subject of the schedule that produced a stored message, and when it is due again in ns."""
    following, scheduler = block.value(headers, NEXT), block.value(headers, SCHEDULER)
    if not following or not scheduler or following == PURGE:
        return None
    try:
        return scheduler, parse_time(following.decode("ascii"))
    except ValueError:
        return None


def produced(schedule: StoredMessage, content: StoredMessage | None, following: Due) -> Firing | None:
    """Make the message that a due schedule publishes; `content` is the last message of its source, if there
    is one.

    None when it does not say where to. `following` is when it is due again.
    """
    target = block.value(schedule.headers, TARGET)
    if not target:
        return None
    ttl, rollup = block.value(schedule.headers, TTL), block.value(schedule.headers, ROLLUP)
    origin = content or schedule
    made = origin.headers
    for prefix in (_OF_SCHEDULES, block.EXPECTED, OF_BATCHES):
        made = block.without_prefix(made, prefix)
    for name in (b"Nats-Msg-Id", block.TTL, block.ROLLUP):
        made = block.without(made, name)
    lines = [(SCHEDULER, schedule.subject), (NEXT, following.written() if following.repeats else PURGE)]
    lines += [(name, text) for name, text in ((block.TTL, ttl), (block.ROLLUP, rollup)) if text]
    return Firing(target, block.added(made, *lines), origin.payload)


def _zone(headers: bytes) -> tzinfo | None:
    if not block.has(headers, TIME_ZONE):
        return None
    name = block.value(headers, TIME_ZONE)
    if not _ZONE_NAME.fullmatch(name):
        raise ApiError(10223)
    from zoneinfo import ZoneInfo  # nor a zone

    try:
        return ZoneInfo(name.decode("ascii"))
    except (ValueError, OSError, KeyError):  # unknown names are KeyErrors, those of directories the others
        raise ApiError(10223) from None


def _at(text: str) -> Due:
    try:
        return Due(parse_time(text), repeats=False)
    except ValueError:
        raise ApiError(10189) from None


def _every(text: str, from_ns: int, now_ns: int) -> Due:
    try:
        interval = parse_ns(text)
    except ValueError:
        raise ApiError(10189) from None
    if interval < SECOND:
        raise ApiError(10189)
    due = _rounded(from_ns) + interval
    return Due(_rounded(now_ns) + interval if due < now_ns else due, repeats=True)


def _cron(cron: Cron, zone: tzinfo, from_ns: int) -> Due:
    found = cron.next(datetime.fromtimestamp(from_ns // SECOND, UTC), zone)
    if found is None:
        raise ApiError(10189)
    return Due(int(found.timestamp()) * SECOND, repeats=True, zone=zone)


def _rounded(time_ns: int) -> int:
    """The nearest whole second."""
    return (time_ns + SECOND // 2) // SECOND * SECOND
