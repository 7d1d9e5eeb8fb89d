"""Unquoted words: numbers, sizes, times, truth values, strings."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headrace.conf.literals import LiteralError, meaning


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("0", 0),
        ("007", 7),
        ("-12", -12),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("0" * 5000 + "1", 1),
        ("1k", 1000),
        ("1K", 1000),
        ("1kb", 1024),
        ("1KB", 1024),
        ("1ki", 1024),
        ("1KiB", 1024),
        ("1m", 10**6),
        ("1mb", 2**20),
        ("2g", 2 * 10**9),
        ("2gib", 2**31),
        ("1t", 10**12),
        ("1ti", 2**40),
        ("1p", 10**15),
        ("1pb", 2**50),
        ("9e", 9 * 10**18),
        ("7eb", 7 * 2**60),
        ("-5k", -5000),
        ("1.5", 1.5),
        ("-0.25", -0.25),
        ("1e5", 1e5),
        ("-1.5E-3", -1.5e-3),
        ("1e+2", 100.0),
        ("true", True),
        ("YES", True),
        ("On", True),
        ("False", False),
        ("no", False),
        ("OFF", False),
        ("2006-01-02T15:04:05Z", datetime(2006, 1, 2, 15, 4, 5, tzinfo=UTC)),
    ],
)
def test_meaning_of_number_or_truth_or_time(word: str, expected: object) -> None:
    value = meaning(word)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    "word",
    [
        *("abc", "null", "truex", "5s", "300ms", "2h", "1kx", "2k5", "12abc", "0x10", "1_000", "+5", "80%"),
        *("127.0.0.1", "127.0.0.1:4222", "0.0.0.0:-1", "1.2.3", "-1.2.3", "1e999", "-5kx", "1e5k"),
        *("é", "*", "a=b", "٣"),
    ],
)
def test_meaning_of_other_words_is_themselves(word: str) -> None:
    assert meaning(word) == word


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        (".5", "start with a digit"),
        (".", "start with a digit"),
        ("-", "a digit must follow"),
        ("-x", "a digit must follow"),
        ("-.5", "a digit must follow"),
        ("5.", "neither"),
        ("1.5s", "neither"),
        ("1.2.3x", "neither"),
        ("12-3", "form 2006-01-02T15:04:05Z"),
        ("2006-01-02", "form 2006-01-02T15:04:05Z"),
        ("2006-13-02T15:04:05Z", "no such time"),
        ("-5x", "is none"),
        ("-5-", "is none"),
        ("9223372036854775808", "64 bits"),
        ("1" * 100_000, "64 bits"),
        ("10e", "64 bits"),
        ("1kbb", "unknown size suffix"),
        ("1kbib", "unknown size suffix"),
    ],
)
def test_meaning_of_malformed_number_is_refused(word: str, reason: str) -> None:
    with pytest.raises(LiteralError, match=reason):
        meaning(word)
