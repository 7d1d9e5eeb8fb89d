"""Networks, times of the day and zones as tokens write them."""

from __future__ import annotations

from datetime import UTC, datetime
from ipaddress import ip_network

import pytest

from headrace.protocol.jwt.claims import TimeRange
from headrace.protocol.jwt.limits import is_source_allowed, location, network, seconds_left, time_of_day


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("192.0.2.7/24", "192.0.2.0/24"),
        ("192.0.2.7/032", "192.0.2.7/32"),
        ("2001:db8::1/64", "2001:db8::/64"),
        ("::ffff:192.0.2.7/120", "192.0.2.0/24"),
        ("::/0", "::/0"),
    ],
)
def test_network_of_an_address_with_a_prefix(text: str, expected: str) -> None:
    assert network(text) == ip_network(expected)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "192.0.2.7",
            "192.0.2.7/",
            "192.0.2.7/33",
            "192.0.2.7/-1",
            "192.0.2.7/255.255.255.0",
            "192.0.2/24",
        ),
        *(
            "192.0.02.7/24",
            " 192.0.2.7/24",
            "fe80::1%eth0/64",
            "::/129",
            "x/8",
            "192.0.2.7/٢٤",
            "192.0.2.7/1e1",
        ),
    ],
)
def test_network_that_is_none_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        network(text)


@pytest.mark.parametrize(
    ("networks", "host", "allowed"),
    [
        ([], "anything", True),
        (["192.0.2.0/24"], "192.0.2.255", True),
        (["192.0.2.0/24"], "192.0.3.0", False),
        (["192.0.2.0/24"], "::ffff:192.0.2.1", True),
        (["::ffff:192.0.2.0/120"], "192.0.2.1", True),
        (["::/0"], "192.0.2.1", False),
        (["0.0.0.0/0"], "2001:db8::1", False),
        (["2001:db8::/32"], "2001:db8::1", True),
        (["2001:db8::/32"], "2001:db8::1%eth0", False),
        (["10.0.0.0/8", "192.0.2.0/24"], "192.0.2.1", True),
        (["nonsense", "192.0.2.0/24"], "192.0.2.1", False),
        (["192.0.2.0/24", "nonsense"], "192.0.2.1", True),
        (["192.0.2.0/24"], "", False),
        (["192.0.2.0/24"], "localhost", False),
    ],
)
def test_is_source_allowed(networks: list[str], host: str, allowed: bool) -> None:
    assert is_source_allowed(networks, host) is allowed


@pytest.mark.parametrize("text", ["00:00:00", "9:05:07", "23:59:59", "12:00:00.5", "12:00:00,123456789012"])
def test_time_of_day_is_read(text: str) -> None:
    assert time_of_day(text).second == int(text[6:8] if len(text) > 7 else text[5:7])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "24:00:00",
        "12:60:00",
        "12:00:60",
        "12:0:00",
        "12:00",
        "012:00:00",
        "12:00:00.",
        "12:00:00Z",
        "１2:00:00",
    ],
)
def test_time_of_day_that_is_none_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        time_of_day(text)


@pytest.mark.parametrize(
    "name", ["Nowhere/City", "../etc/passwd", "/etc/localtime", "America", "\0", "x" * 5000]
)
def test_location_that_is_none_is_an_error(name: str) -> None:
    with pytest.raises(ValueError):
        location(name)


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("times", "now", "left"),
    [
        (["08:00:00-17:00:00"], "2026-06-01 12:00:00", 5 * 3600),
        (["08:00:00-17:00:00"], "2026-06-01 08:00:00", None),
        (["08:00:00-17:00:00"], "2026-06-01 08:00:00.5", 9 * 3600 - 0.5),
        (["08:00:00-17:00:00"], "2026-06-01 17:00:00", None),
        (["22:00:00-06:00:00"], "2026-06-01 05:00:00", 3600),
        (["22:00:00-06:00:00"], "2026-06-01 23:30:00", 6.5 * 3600),
        (["22:00:00-06:00:00"], "2026-06-01 12:00:00", None),
        (["08:00:00-13:00:00", "11:00:00-14:00:00"], "2026-06-01 12:00:00", 2 * 3600),
        (["08:00:00-08:00:00"], "2026-06-01 08:00:00", None),
    ],
)
def test_seconds_left_in_ranges(times: list[str], now: str, left: float | None) -> None:
    ranges = [TimeRange(*entry.split("-")) for entry in times]
    assert seconds_left(ranges, "UTC", at(now)) == left


def test_seconds_left_counts_the_hour_that_a_clock_is_set_forward() -> None:
    # In New York 2026-03-08 has no hour from 2 to 3.
    found = seconds_left([TimeRange("00:00:00", "04:00:00")], "America/New_York", at("2026-03-08 06:00:00"))
    assert found == 2 * 3600


def test_seconds_left_without_a_location_is_the_servers_time() -> None:
    midday = datetime(2026, 6, 1, 12).timestamp()
    assert seconds_left([TimeRange("11:00:00", "13:00:00")], "", midday) == 3600
    assert seconds_left([TimeRange("11:00:00", "13:00:00")], "Local", midday) == 3600
