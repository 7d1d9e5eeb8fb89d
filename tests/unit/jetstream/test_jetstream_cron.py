"""Cron patterns: what is one, and when it is next due, with clocks that jump."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.jetstream.schedule.cron import Cron

NEW_YORK = ZoneInfo("America/New_York")
START = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("pattern", "after", "due"),
    [
        ("* * * * * *", "2026-11-21T08:00:00.9", "2026-11-21T08:00:01"),
        ("0 0 * * * *", "2026-11-21T08:00:00", "2026-11-21T09:00:00"),
        ("@hourly", "2026-12-31T23:00:01", "2027-01-01T00:00:00"),
        ("@daily", "2026-02-28T00:00:00", "2026-03-01T00:00:00"),
        ("@midnight", "2028-02-28T00:00:00", "2028-02-29T00:00:00"),
        ("@weekly", "2026-11-21T08:00:00", "2026-11-22T00:00:00"),
        ("@monthly", "2026-11-21T08:00:00", "2026-12-01T00:00:00"),
        ("@yearly", "2026-11-21T08:00:00", "2027-01-01T00:00:00"),
        ("@annually", "2026-11-21T08:00:00", "2027-01-01T00:00:00"),
        ("15/20 30 10-12/2 * * *", "2026-11-21T10:30:16", "2026-11-21T10:30:35"),
        ("0 0 12 ? Feb,DEC MON-fri", "2026-11-21T10:30:16", "2026-12-01T12:00:00"),
        ("0 0 0 13 * 5", "2026-11-21T00:00:00", "2026-11-27T00:00:00"),  # of two closed fields one is enough
        ("0 0 0 13 * */2", "2026-11-21T00:00:00", "2026-11-22T00:00:00"),  # a star with a step is closed
        ("0 0 0 13 * *", "2026-11-21T00:00:00", "2026-12-13T00:00:00"),
        ("0 0 0 29 2 *", "2026-11-21T00:00:00", "2028-02-29T00:00:00"),
        ("1,,2 0 0 +1 1 *", "2026-11-21T00:00:00", "2027-01-01T00:00:01"),
    ],
)
def test_when_it_is_due(pattern: str, after: str, due: str) -> None:
    found = Cron(pattern).next(datetime.fromisoformat(after).replace(tzinfo=UTC), UTC)
    assert found == datetime.fromisoformat(due).replace(tzinfo=UTC)


@pytest.mark.parametrize("pattern", ["0 0 0 30 2 *", ", * * * * *", "* * , * * *"])
def test_what_is_never_due(pattern: str) -> None:
    assert Cron(pattern).next(START, UTC) is None


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "* * * * *",
        "* * * * * * *",
        "60 * * * * *",
        "* * 24 * * *",
        "* * * 0 * *",
        "* * * 32 * *",
        "* * * * 13 *",
        "* * * * * 7",
        "* * * * * L",
        "5-3 * * * * *",
        "*/0 * * * * *",
        "1/2/3 * * * * *",
        "1-2-3 * * * * *",
        "-1 * * * * *",
        "1_0 * * * * *",
        "٣ * * * * *",
        "@never",
        "@HOURLY",
        "1/ * * * * *",
        "1- * * * * *",
        "9" * 400 + " * * * * *",
    ],
)
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(ValueError):
        Cron(pattern)


def test_an_hour_that_is_skipped_is_not_made_up_for() -> None:
    before = datetime(2026, 3, 8, 0, 0, tzinfo=NEW_YORK)
    found = Cron("0 30 2 * * *").next(before, NEW_YORK)
    assert found is not None
    assert found.astimezone(NEW_YORK).isoformat() == "2026-03-09T02:30:00-04:00"


def test_an_hour_that_comes_twice_counts_twice() -> None:
    cron = Cron("0 30 1 1 11 *")
    first = cron.next(datetime(2026, 11, 1, 0, 0, tzinfo=NEW_YORK), NEW_YORK)
    assert first is not None
    assert first.astimezone(NEW_YORK).isoformat() == "2026-11-01T01:30:00-04:00"
    second = cron.next(first, NEW_YORK)
    assert second is not None
    assert second.astimezone(NEW_YORK).isoformat() == "2026-11-01T01:30:00-05:00"


def test_a_midnight_that_is_skipped() -> None:
    zone = ZoneInfo("America/Sao_Paulo")  # 2018-11-04 began at 01:00
    found = Cron("0 0 * 4 11 *").next(datetime(2018, 11, 3, 12, 0, tzinfo=zone), zone)
    assert found is not None
    assert found.astimezone(zone).isoformat() == "2018-11-04T01:00:00-02:00"


_field = st.sampled_from(["*", "*/7", "3", "10-20", "5/15", "1,2,30", "0"])


@settings(max_examples=50, deadline=None)
@given(
    second=_field,
    minute=_field,
    hour=st.sampled_from(["*", "2", "1-3", "0/5"]),
    hours=st.integers(0, 24 * 400),
    zone=st.sampled_from(["UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]),
)
def test_it_is_the_first_second_that_fits(second: str, minute: str, hour: str, hours: int, zone: str) -> None:
    """Beside the definition: second by second, of which those that are skipped are looked at coarsely."""
    cron = Cron(f"{second} {minute} {hour} * * *")
    after = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hours, minutes=17, seconds=3)
    found = cron.next(after, ZoneInfo(zone))
    assert found is not None
    assert found > after

    def fits(moment: datetime) -> bool:
        local = moment.astimezone(ZoneInfo(zone))
        fields = (cron._second, cron._minute, cron._hour)
        return all(
            now in field.values
            for now, field in zip((local.second, local.minute, local.hour), fields, strict=True)
        )

    assert fits(found)
    step = timedelta(seconds=1 if (found - after) < timedelta(hours=1) else 61)
    moment = after + timedelta(seconds=1)
    while moment < found:
        assert not fits(moment)
        moment += step
