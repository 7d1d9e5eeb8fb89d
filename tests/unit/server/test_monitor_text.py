"""Text forms of the monitoring JSON and the reading of query options."""

from __future__ import annotations

import pytest

from headrace.server.monitor import query, text
from headrace.server.monitor.query import QueryError

NS = 1_000_000_000


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0s"),
        (59, "59s"),
        (60, "1m0s"),
        (192, "3m12s"),
        (3_605, "1h0m5s"),
        (93_784, "1d2h3m4s"),
        (365 * 86_400, "1y0d0h0m0s"),
        (400 * 86_400 + 3_600, "1y35d1h0m0s"),
        (-5, "0s"),
    ],
)
def test_uptime(seconds: int, expected: str) -> None:
    assert text.uptime(seconds * NS + (NS - 1 if seconds >= 0 else 0)) == expected


@pytest.mark.parametrize(
    ("duration_ns", "expected"),
    [
        (0, "0s"),
        (999, "999ns"),
        (1_000, "1µs"),
        (501_999, "501µs"),
        (1_000_000, "1ms"),
        (4_478_361, "4.478361ms"),
        (1_500_000_000, "1.5s"),
        (62_500_000_000, "1m2.5s"),
        (3_600_000_000_000, "1h0m0s"),
    ],
)
def test_round_trip(duration_ns: int, expected: str) -> None:
    assert text.round_trip(duration_ns) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(0.0, "0"), (2.0, "2"), (0.6, "0.6"), (1 / 6, "0.16666666666666666")]
)
def test_number_shows_a_fraction_only_where_there_is_one(value: float, expected: str) -> None:
    assert text.encode(text.number(value)) == expected.encode()


def test_encode_escapes_what_html_could_read() -> None:
    assert text.encode({"s": "<a>&é\u2028\n"}) == b'{\n  "s": "\\u003ca\\u003e\\u0026\xc3\xa9\\u2028\\n"\n}'
    assert text.encode({"a": [], "b": {}}, indent=False) == b'{"a":[],"b":{}}'


def test_encode_lone_surrogate_does_not_fail() -> None:
    assert text.encode("\ud800") == b'"?"'


@pytest.mark.parametrize("given", ["1", "t", "T", "TRUE", "true", "True"])
def test_boolean_true(given: str) -> None:
    assert query.boolean({"subs": given}, "subs")


@pytest.mark.parametrize("given", [None, "", "0", "f", "F", "FALSE", "false", "False"])
def test_boolean_false(given: str | None) -> None:
    assert not query.boolean({} if given is None else {"subs": given}, "subs")


@pytest.mark.parametrize("given", ["x", "2", "tRue", "detail", " 1"])
def test_boolean_else_is_an_error(given: str) -> None:
    with pytest.raises(QueryError) as raised:
        query.boolean({"subs": given}, "subs")
    expected = f"Error decoding boolean for 'subs': strconv.ParseBool: parsing \"{given}\": invalid syntax"
    assert str(raised.value) == expected


@pytest.mark.parametrize(("given", "expected"), [("", 0), ("7", 7), ("+2", 2), ("-3", -3), ("007", 7)])
def test_integer(given: str, expected: int) -> None:
    assert query.integer({"limit": given}, "limit") == expected


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("x", "invalid syntax"),
        ("1.5", "invalid syntax"),
        ("1_0", "invalid syntax"),
        (" 2", "invalid syntax"),
        ("٣", "invalid syntax"),
        ("99999999999999999999", "value out of range"),
        ("9" * 5000, "value out of range"),
        ("0" * 5000, "value out of range"),
    ],
)
def test_integer_else_is_an_error(given: str, problem: str) -> None:
    with pytest.raises(QueryError) as raised:
        query.integer({"limit": given}, "limit")
    assert (
        str(raised.value) == f"Error decoding int for 'limit': strconv.Atoi: parsing \"{given}\": {problem}"
    )


@pytest.mark.parametrize(
    ("given", "problem"),
    [("x", "invalid syntax"), ("-1", "invalid syntax"), ("9" * 21, "value out of range")],
)
def test_unsigned_else_is_an_error(given: str, problem: str) -> None:
    assert query.unsigned({"cid": "18446744073709551615"}, "cid") == 2**64 - 1
    with pytest.raises(QueryError) as raised:
        query.unsigned({"cid": given}, "cid")
    expected = f"Error decoding uint64 for 'cid': strconv.ParseUint: parsing \"{given}\": {problem}"
    assert str(raised.value) == expected


def test_page_defaults_and_negative_values() -> None:
    assert query.page({}, 1024) == (0, 1024)
    assert query.page({"offset": "-3", "limit": "-1"}, 1024) == (0, 1024)
    assert query.page({"offset": "5", "limit": "7"}, 1024) == (5, 7)
