"""Cron patterns of six fields (second, minute, hour, day of month, month, day of week): when one is next due.

Pure: a pattern, a time zone and a moment in, a moment out. What is done then is `schedules`'. Source:
JetStream specification, 8; results compared with the Go server 2.15.1. The moment found is the first whose
wall clock in the zone fits, so an hour that a zone skips is not made up for, and one that comes twice counts
twice.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from datetime import tzinfo

_FURTHEST_YEARS: Final = 5
"""A pattern that is not due within these years is never due: 30 February."""

_INTEGER: Final = re.compile(r"\+?[0-9]{1,18}", re.ASCII)
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class _Bounds(NamedTuple):
    lowest: int
    highest: int
    names: tuple[str, ...] = ()
    """Names that may stand for the values, from the lowest on."""


_FIELDS: Final = (
    _Bounds(0, 59),
    _Bounds(0, 59),
    _Bounds(0, 23),
    _Bounds(1, 31),
    _Bounds(1, 12, _MONTHS),
    _Bounds(0, 6, _DAYS),
)

_PREDEFINED: Final = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}


class _Field(NamedTuple):
    values: frozenset[int]
    is_open: bool
    """Written with a star and no step: says nothing about the day."""


class Cron:
    """One pattern. Raises: ValueError for what is none."""

    def __init__(self, pattern: str) -> None:
        fields = _PREDEFINED.get(pattern, pattern).split()
        if len(fields) != len(_FIELDS):
            raise ValueError(f"six fields are needed, not {len(fields)}")
        parsed = [_field(text, bounds) for text, bounds in zip(fields, _FIELDS, strict=True)]
        self._second, self._minute, self._hour, self._day, self._month, self._weekday = parsed
        self._is_never = not all(field.values for field in parsed)

    def next(self, after: datetime, zone: tzinfo) -> datetime | None:
        """The first whole second after `after` (with a zone) that fits; None: there is none for years."""
        if self._is_never:
            return None
        moment = after.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=1)
        last_year = moment.astimezone(zone).year + _FURTHEST_YEARS
        while True:
            local = moment.astimezone(zone)
            if local.year > last_year:
                return None
            later = self._skipped(local, zone)
            if later is None:
                return moment
            moment = later

    def _skipped(self, local: datetime, zone: tzinfo) -> datetime | None:
        """The next moment worth a look, in UTC, when this one does not fit."""
        if local.month not in self._month.values:
            year, month = (local.year, local.month + 1) if local.month < 12 else (local.year + 1, 1)
            return datetime(year, month, 1, tzinfo=zone).astimezone(UTC)
        if not self._fits_day(local):
            tomorrow = local.date() + timedelta(days=1)
            return datetime(tomorrow.year, tomorrow.month, tomorrow.day, tzinfo=zone).astimezone(UTC)
        if local.hour not in self._hour.values:
            ahead = timedelta(seconds=3600 - 60 * local.minute - local.second)
        elif local.minute not in self._minute.values:
            ahead = timedelta(seconds=60 - local.second)
        elif local.second not in self._second.values:
            ahead = timedelta(seconds=1)
        else:
            return None
        return local.astimezone(UTC) + ahead

    def _fits_day(self, local: datetime) -> bool:
        """True if a day fits: of two restricted fields (day of month, weekday) one is enough, else the
        restricted one decides.
        """
        in_month = local.day in self._day.values
        in_week = local.isoweekday() % 7 in self._weekday.values
        if self._day.is_open or self._weekday.is_open:
            return in_month and in_week
        return in_month or in_week


def _field(text: str, bounds: _Bounds) -> _Field:
    values: set[int] = set()
    is_open = False
    for part in filter(None, text.split(",")):
        span, star = _range(part, bounds)
        values.update(span)
        is_open = is_open or star
    return _Field(frozenset(values), is_open)


def _range(text: str, bounds: _Bounds) -> tuple[range, bool]:
    """Read one range of a cron field; True if it is open: all values.

    `*`, `n`, `n-m`, each perhaps with `/step`; a single number with a step goes up to the highest.
    """
    span, *steps = text.split("/")
    first, *lasts = span.split("-")
    if len(steps) > 1 or len(lasts) > 1:
        raise ValueError(f"too many signs in {text!r}")
    star = first in ("*", "?")
    if star:
        lowest, highest = bounds.lowest, bounds.highest
    else:
        lowest = _value(first, bounds.names, bounds.lowest)
        highest = _value(lasts[0], bounds.names, bounds.lowest) if lasts else lowest
    step = 1
    if steps:
        step = _number(steps[0])
        if not lasts:
            highest = bounds.highest
    if not (bounds.lowest <= lowest <= highest <= bounds.highest) or step == 0:
        raise ValueError(f"{text!r} is not within {bounds.lowest} and {bounds.highest}")
    return range(lowest, highest + 1, step), star and step == 1


def _value(text: str, names: tuple[str, ...], lowest: int) -> int:
    name = text.lower()
    return names.index(name) + lowest if name in names else _number(text)


def _number(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"not a number: {text!r}")
    return int(text)
