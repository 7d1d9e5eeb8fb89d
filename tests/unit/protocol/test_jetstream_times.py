"""Times in JetStream's JSON, as the Go server 2.15.1 reads and writes them."""

from __future__ import annotations

import pytest

from headrace.protocol.jetstream.times import ZERO, canonical, to_ns
from headrace.protocol.rfc3339 import short_time

_AS = 'as "2006-01-02T15:04:05Z07:00": cannot parse'


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
        ("2020-01-01T00:00:00,5Z", "2020-01-01T00:00:00.5Z"),
        ("2020-01-01T00:00:00.1234567891Z", "2020-01-01T00:00:00.123456789Z"),
        ("2020-01-01T00:00:00.000Z", "2020-01-01T00:00:00Z"),
        ("2020-01-01T0:00:00Z", "2020-01-01T00:00:00Z"),
        ("2020-01-01T00:00:00.500+01:30", "2020-01-01T00:00:00.5+01:30"),
        ("2020-01-01T00:00:00-00:00", "2020-01-01T00:00:00Z"),
        ("0000-02-29T00:00:00Z", "0000-02-29T00:00:00Z"),
        ("2024-02-29T23:59:59Z", "2024-02-29T23:59:59Z"),
    ],
)
def test_time_is_written_in_one_way(text: str, written: str) -> None:
    assert canonical(text) == written


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", f'parsing time "" {_AS} "" as "2006"'),
        ("2020-01-01", f'parsing time "2020-01-01" {_AS} "" as "T"'),
        ("2020-1-01T00:00:00Z", f'parsing time "2020-1-01T00:00:00Z" {_AS} "1-01T00:00:00Z" as "01"'),
        ("2020-01-01T00:00:00", f'parsing time "2020-01-01T00:00:00" {_AS} "" as "Z07:00"'),
        ("2020-01-01T00:00:00z", f'parsing time "2020-01-01T00:00:00z" {_AS} "z" as "Z07:00"'),
        ("2020-01-01T00:00:00.Z", f'parsing time "2020-01-01T00:00:00.Z" {_AS} ".Z" as "Z07:00"'),
        ("é", f'parsing time "\\xc3\\xa9" {_AS} "\\xc3\\xa9" as "2006"'),
        ('"\\', f'parsing time "\\"\\\\" {_AS} "\\"\\\\" as "2006"'),
        ("2020-00-01T00:00:00Z", 'parsing time "2020-00-01T00:00:00Z": month out of range'),
        ("2020-02-30T00:00:00Z", 'parsing time "2020-02-30T00:00:00Z": day out of range'),
        ("2020-01-01T24:00:00Z", 'parsing time "2020-01-01T24:00:00Z": hour out of range'),
        ("2020-01-01T00:60:00Z", 'parsing time "2020-01-01T00:60:00Z": minute out of range'),
        ("2020-01-01T00:00:60Z", 'parsing time "2020-01-01T00:00:60Z": second out of range'),
        (
            "2020-01-01T00:00:00+24:00",
            'parsing time "2020-01-01T00:00:00+24:00": time zone offset hour out of range',
        ),
        ("2020-01-01T00:00:00Zx", 'parsing time "2020-01-01T00:00:00Zx": extra text: "x"'),
    ],
)
def test_what_is_no_time_is_refused_in_gos_words(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        canonical(text)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1970-01-01T01:00:00+01:00", 0),
        (ZERO, -((1 << 63) - 1)),
        ("0000-01-01T00:00:00Z", -((1 << 63) - 1)),
        ("9999-12-31T23:59:59Z", (1 << 63) - 1),
        ("2020-01-01T00:00:00+23:59", 1577750460 * 10**9),
    ],
)
def test_time_as_a_number(text: str, ns: int) -> None:
    assert to_ns(text) == ns


@pytest.mark.parametrize(
    ("time_ns", "expected"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_795_228_781_081_736_130, "2026-11-21T02:39:41.08173613Z"),
        (1_795_228_781_000_000_001, "2026-11-21T02:39:41.000000001Z"),
        (1_795_228_781_500_000_000, "2026-11-21T02:39:41.5Z"),
    ],
)
def test_time_has_as_many_digits_as_needed(time_ns: int, expected: str) -> None:
    assert short_time(time_ns) == expected
    assert to_ns(expected) == time_ns
