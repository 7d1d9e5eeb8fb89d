"""Requests, blocks and ends of replays, and the documents and times in them."""

from __future__ import annotations

import pytest

from headrace.errors import ProtocolError
from headrace.protocol.admin import ChannelPurgeRequest, ListRequest, read_answer
from headrace.protocol.durations import parse_duration
from headrace.protocol.replay import (
    BlockReader,
    Cursor,
    End,
    ReplayRequest,
    add_damage,
    is_end,
    merge_damage,
)
from headrace.protocol.rfc3339 import format_time, parse_time


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "1970-01-01T00:00:00.000000000Z"),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (1_795_251_129_435_179_395, "2026-11-21T08:52:09.435179395Z"),
        ((1 << 63) - 1, "2262-04-11T23:47:16.854775807Z"),
    ],
)
def test_time_goes_both_ways(ns: int, text: str) -> None:
    assert format_time(ns) == text
    assert parse_time(text) == ns


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2026-11-21T08:00:00Z", "2026-11-21T08:00:00.000000000Z"),
        ("2026-11-21t08:00:00.5z", "2026-11-21T08:00:00.500000000Z"),
        ("2026-11-21 08:00:00.123456Z", "2026-11-21T08:00:00.123456000Z"),
        ("2026-11-21T08:00:00+02:30", "2026-11-21T05:30:00.000000000Z"),
        ("2026-11-21T08:00:00-00:30", "2026-11-21T08:30:00.000000000Z"),
    ],
)
def test_time_is_read_in_every_form(text: str, same: str) -> None:
    assert format_time(parse_time(text)) == same


@pytest.mark.parametrize(
    "text",
    ["", "now", "2026-11-21", "2026-11-21T08:00:00", "2026-13-01T00:00:00Z", "2026-11-21T24:00:00Z",
     "2026-11-21T08:00:00.1234567890Z", "2026-11-21T08:00:00+25:00", "2262-04-11T23:47:17Z",
     "0001-01-01T00:00:00Z", "\u0662026-11-21T08:00:00Z"],
)  # fmt: skip
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="time"):
        parse_time(text)


@pytest.mark.parametrize(
    "request_",
    [
        ReplayRequest(b"a"),
        ReplayRequest(b"a.>", 7, end_sequence=9, max_messages=3, max_bytes=4, order="time", last_only=True),
        ReplayRequest(b"a", start_time_ns=0, end_time_ns=1),
        ReplayRequest(b"bad\xff", start_delta_ns=5_400_000_000_123),
        ReplayRequest(b"a.*", after=Cursor(3, 2, 1, b"a.b.c\xff")),
    ],
)
def test_request_goes_both_ways(request_: ReplayRequest) -> None:
    assert ReplayRequest.decode(request_.encode(), parse_duration) == request_


@pytest.mark.parametrize(
    "end",
    [
        End(204, "EOB"),
        End(204, "EOB", 3, 4, 5, "1.2.3.a\xe9", ((b"a", ((1, 1), (3, 9))), (b"b", ((2, 2),)))),
        End(404, "No Channels"),
        End(500, "disk: \\ full"),
    ],
)
def test_end_goes_both_ways(end: End) -> None:
    assert End.read(end.block()) == end
    assert is_end(end.block())


def test_list_of_damage_is_bounded() -> None:
    ranges = tuple((n, n) for n in range(1, 4000, 2))
    block = End(204, "EOB", damaged=((b"a", ranges), (b"b", ((1, 1),)))).block()

    assert len(block) < 10_000
    assert End.read(block).damaged == ((b"a", ranges[:1000]), (b"b", ()))
    assert block.endswith(b",1999,... b ...\r\n\r\n")


def test_damage_of_parts_is_joined() -> None:
    found: dict[bytes, list[tuple[int, int]]] = {}
    for part in (((3, 3), (7, 9)), ((3, 3),), ((8, 12), (20, 20)), ((1, 2),)):
        merge_damage(((b"a", part),), found)
    assert found == {b"a": [(1, 3), (7, 12), (20, 20)]}

    ranges: list[tuple[int, int]] = []
    add_damage(ranges, [1, 2, 3, 7, 9, 10])
    assert ranges == [(1, 3), (7, 7), (9, 10)]


BLOCK = (
    b"NATS/1.0\r\nNats-Stream: a\r\nNats-Subject: a\r\nNats-Sequence: 1\r\n"
    b"Nats-Time-Stamp: 2026-11-21T08:00:00.000000001Z\r\n\r\n"
)


def test_block_is_read() -> None:
    assert BlockReader().read(BLOCK) == (b"a", b"a", 1, parse_time("2026-11-21T08:00:00Z") + 1, None, None)
    assert not is_end(BLOCK)


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"NATS/1.0\r\n\r\n",
        BLOCK[:-2],
        BLOCK.replace(b"Nats-Sequence: 1", b"Nats-Sequence: -1"),
        BLOCK.replace(b"Nats-Sequence: 1", b"Nats-Sequence: " + b"1" * 20),
        BLOCK.replace(b"2026-11", b"2026-13"),
        BLOCK.replace(b"2026-11", b"\xff026-11"),
        BLOCK.replace(b"000000001Z", b"1Z"),
        BLOCK.replace(b"Nats-Stream", b"Nats-Dream"),
    ],
)
def test_block_that_no_replay_makes_is_refused(block: bytes) -> None:
    with pytest.raises(ProtocolError):
        BlockReader().read(block)


@pytest.mark.parametrize(
    "block", [b"", b"NATS/1.0\r\n\r\n", b"NATS/1.0 2x4 EOB\r\n\r\n", b"HTTP 204\r\n\r\n"]
)
def test_end_that_is_none_is_refused(block: bytes) -> None:
    with pytest.raises(ProtocolError):
        End.read(block)


def test_admin_requests_go_both_ways() -> None:
    for request in (
        ChannelPurgeRequest(b"a"),
        ChannelPurgeRequest(b"a\xff", 0, -5, 2),
        ChannelPurgeRequest(b"a", 7),
    ):
        assert ChannelPurgeRequest.decode(request.encode()) == request
    assert ListRequest.decode(ListRequest(b"a.>", 3).encode()) == ListRequest(b"a.>", 3)
    assert ListRequest.decode(b"") == ListRequest()


@pytest.mark.parametrize("payload", [b"", b"[]", b"\xff", b"[" * 100_000])
def test_answer_that_is_no_object_is_refused(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_answer(payload)
