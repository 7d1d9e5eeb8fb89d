"""Bounds from the conditions of a query: narrower ranges and subjects of messages that can match.

Never exact and never too narrow: Spark applies every condition again to what is read. Only conditions that
must all hold come here (Spark keeps an OR to itself). No server is asked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from headrace.subjects.grammar import is_subset, is_valid_literal, is_valid_subject, matches

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql.datasource import Filter

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND_NS: Final = 1000
_MOST_SUBJECTS: Final = 64
"""More subjects than this are not worth a filter of the server's."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of messages that can match: sequences from `low` to `high`, stored in [since_ns, until_ns),
    of some subjects and streams (None: of all).
    """

    low: int = 1
    high: int | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    subjects: tuple[str, ...] | None = None
    streams: tuple[str, ...] | None = None

    def may_hold_stream(self, name: str) -> bool:
        return self.streams is None or name in self.streams

    def filters(self, own: tuple[str, ...]) -> tuple[str, ...] | None:
        """The filters to read with where `own` are those of the options; None: nothing can match."""
        if self.subjects is None:
            return own
        kept = []
        for subject in self.subjects:
            raw = subject.encode()
            if not own or any(is_subset(raw, wide.encode()) for wide in own):
                kept.append(subject)
            elif not is_valid_literal(raw):  # a pattern that only overlaps: leave it to the wider filters
                return own
        return tuple(kept) or None


def bounds_of(filters: Iterable[Filter]) -> Bounds:
    """Combine conditions that must all hold into bounds; conditions of other kinds are ignored."""
    bounds = Bounds()
    for one in filters:
        attribute = getattr(one, "attribute", None)
        if attribute == ("sequence",):
            bounds = _by_sequence(bounds, one)
        elif attribute == ("timestamp",):
            bounds = _by_time(bounds, one)
        elif attribute == ("subject",):
            bounds = _by_subject(bounds, one)
        elif attribute == ("stream",):
            bounds = _by_stream(bounds, one)
    return bounds


def _by_sequence(bounds: Bounds, one: Filter) -> Bounds:
    low: int | None = None
    high: int | None = None
    match one:
        case EqualTo(_, int(value)) | EqualNullSafe(_, int(value)):
            low = high = value
        case GreaterThan(_, int(value)):
            low = value + 1
        case GreaterThanOrEqual(_, int(value)):
            low = value
        case LessThan(_, int(value)):
            high = value - 1
        case LessThanOrEqual(_, int(value)):
            high = value
        case In(_, values) if values and all(isinstance(value, int) for value in values):
            low, high = min(values), max(values)
    lowest = bounds.low if low is None else max(bounds.low, low)
    highs = [value for value in (bounds.high, high) if value is not None]
    return replace(bounds, low=lowest, high=min(highs, default=None))


def _by_time(bounds: Bounds, one: Filter) -> Bounds:
    """The column has microseconds, cut; the stream has nanoseconds: its last microsecond belongs to it."""
    match one:
        case EqualTo(_, datetime() as value) | EqualNullSafe(_, datetime() as value):
            return _between(bounds, _ns(value), _ns(value) + _MICROSECOND_NS)
        case GreaterThan(_, datetime() as value) | GreaterThanOrEqual(_, datetime() as value):
            return _between(bounds, _ns(value), None)
        case LessThan(_, datetime() as value):
            return _between(bounds, None, _ns(value))
        case LessThanOrEqual(_, datetime() as value):
            return _between(bounds, None, _ns(value) + _MICROSECOND_NS)
    return bounds


def _between(bounds: Bounds, since: int | None, until: int | None) -> Bounds:
    sinces = [value for value in (bounds.since_ns, since) if value is not None]
    untils = [value for value in (bounds.until_ns, until) if value is not None]
    return replace(bounds, since_ns=max(sinces, default=None), until_ns=min(untils, default=None))


def _ns(value: datetime) -> int:
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    since = aware - _EPOCH
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * _MICROSECOND_NS


def _by_subject(bounds: Bounds, one: Filter) -> Bounds:
    match one:
        case EqualTo(_, str(value)) | EqualNullSafe(_, str(value)):
            wanted: tuple[str, ...] = (value,)
        case In(_, values) if 0 < len(values) <= _MOST_SUBJECTS and all(isinstance(v, str) for v in values):
            wanted = tuple(dict.fromkeys(values))
        case StringStartsWith(_, str(value)) if "." in value:
            wanted = (value[: value.rindex(".") + 1] + ">",)
        case _:
            return bounds
    if not all(is_valid_subject(subject.encode()) for subject in wanted):
        return bounds
    if any("\\" in subject for subject in wanted):  # perhaps the escaped form of what is not UTF-8
        return bounds
    if any(not is_valid_literal(subject.encode()) for subject in wanted) and not isinstance(
        one, StringStartsWith
    ):
        return bounds  # an asterisk in a comparison is an asterisk
    if bounds.subjects is None:
        return replace(bounds, subjects=wanted)
    both = [subject for subject in wanted if _matches_any(bounds.subjects, subject)]
    both += [subject for subject in bounds.subjects if subject not in both and _matches_any(wanted, subject)]
    return replace(bounds, subjects=tuple(both))


def _matches_any(patterns: tuple[str, ...], subject: str) -> bool:
    raw = subject.encode()
    if is_valid_literal(raw):
        return any(matches(pattern.encode(), raw) for pattern in patterns)
    return any(is_subset(raw, pattern.encode()) for pattern in patterns)


def _by_stream(bounds: Bounds, one: Filter) -> Bounds:
    values: list[Any]
    match one:
        case EqualTo(_, str(value)) | EqualNullSafe(_, str(value)):
            values = [value]
        case In(_, given):
            values = list(given)
        case _:
            return bounds
    kept = tuple(value for value in values if bounds.streams is None or value in bounds.streams)
    return replace(bounds, streams=kept)
