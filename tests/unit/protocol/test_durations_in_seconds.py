"""Durations in Go's notation."""

from __future__ import annotations

import pytest

from headrace.protocol.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("-0", 0.0),
        ("2m", 120.0),
        ("1h30m", 5400.0),
        ("1h1m1s1ms", 3661.001),
        ("300ms", 0.3),
        ("1.5s", 1.5),
        (".5s", 0.5),
        ("1.s", 1.0),
        ("-1s", -1.0),
        ("+1s", 1.0),
        ("10us", 1e-5),
        ("10µs", 1e-5),
        ("10μs", 1e-5),
        ("5ns", 5e-9),
        ("100000h", 3.6e8),
    ],
)
def test_parse_of_duration_gives_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("5", "unit is missing"),
        ("5 s", "unknown unit"),
        ("5d", "unknown unit"),
        ("s", "not a number"),
        ("-", "not a number"),
        ("1s-1s", "unknown unit"),
        ("1..5s", "unit is missing"),
        ("1h ", "unknown unit"),
        ("5S", "unknown unit"),
        ("9999999999h", "too long"),
        ("1s" * 100, "too long"),
        ("٣s", "not a number"),
    ],
)
def test_parse_of_anything_else_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.3, "300ms"), (30, "30s"), (90.5, "1m30.5s"), (180, "3m0s"), (3600, "1h0m0s"), (-5, "-5s")],
)
def test_format_of_duration_is_that_of_go(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
