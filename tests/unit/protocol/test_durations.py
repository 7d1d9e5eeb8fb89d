"""Durations as Go reads and writes them, in ns."""

from __future__ import annotations

import pytest

from headrace.protocol.durations import format_ns, parse_ns


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (300_000_000, "300ms"),
        (1_000_000_001, "1.000000001s"),
        (120_000_000_000, "2m0s"),
        (5_400_000_000_000, "1h30m0s"),
        (3_600_000_000_000, "1h0m0s"),
        (-90_000_000_000, "-1m30s"),
        ((1 << 63) - 1, "2562047h47m16.854775807s"),
    ],
)
def test_written_and_read_again(ns: int, text: str) -> None:
    assert format_ns(ns) == text
    assert parse_ns(text) == ns


def test_what_is_smaller_than_a_nanosecond_is_cut_off() -> None:
    assert parse_ns("0.9ns") == 0
    assert parse_ns(".5us") == 500


@pytest.mark.parametrize("text", ["", "5", "s", "1x", "1s2", "1 s", "9999999h", "1" * 70 + "s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_ns(text)
