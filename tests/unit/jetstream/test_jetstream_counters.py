"""Counters: what an increment becomes, whoever it comes from and however large it is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.jetstream.stream import counters
from headrace.log.port import StoredMessage
from headrace.protocol.jetstream import headers as block
from headrace.protocol.jetstream.errors import ApiError


def header(**lines: str) -> bytes:
    made = b""
    for name, text in lines.items():
        made = block.added(made, (name.replace("_", "-").encode(), text.encode()))
    return made


def stored(value: str, headers: bytes = b"") -> StoredMessage:
    return StoredMessage(1, 0, b"c", b"", headers, json.dumps({"val": value}).encode())


def add(text: str, last: StoredMessage | None = None) -> counters.Counted:
    headers = header(Nats_Incr=text)
    increment = counters.increment_of(headers)
    assert increment is not None
    return counters.applied(increment, last, b"c", headers, b"")


def code(raised: pytest.ExceptionInfo[ApiError]) -> int:
    return raised.value.err_code


@pytest.mark.parametrize(
    ("text", "value"), [("1", "1"), ("+7", "7"), ("-0", "0"), ("-12", "-12"), ("007", "7")]
)
def test_the_first_increment(text: str, value: str) -> None:
    counted = add(text)
    assert counted == (header(Nats_Incr=text), b'{"val":"%s"}' % value.encode(), value)


@given(st.integers(), st.integers())
def test_sums_are_exact(total: int, increment: int) -> None:
    assert add(str(increment), stored(str(total))).value == str(total + increment)


def test_sums_of_any_length_are_exact_and_quick() -> None:
    digits = "9" * 60_000
    assert add("1", stored(digits)).value == "1" + "0" * 60_000
    assert add("-1", stored("1" + "0" * 60_000)).value == digits
    assert add(f"-{digits}", stored(digits)).payload == b'{"val":"0"}'


def test_no_increment_is_none() -> None:
    assert counters.increment_of(b"") is None
    assert counters.increment_of(header(Other="1")) is None
    assert counters.increment_of(b"NATS/1.0\r\nNats-Incr: \r\n\r\n") is None


@pytest.mark.parametrize("text", ["x", "1.5", "1e5", "++1", "1_000", "0x1", "- 1", "٣", "+"])
def test_what_is_no_increment(text: str) -> None:
    with pytest.raises(ApiError) as raised:
        counters.increment_of(header(Nats_Incr=text))
    assert code(raised) == 10171


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Nats_Rollup", "sub"),
        ("Nats_Expected_Stream", "S"),
        ("Nats_Expected_Last_Msg_Id", "a"),
        ("Nats_Expected_Last_Sequence", "0"),
        ("Nats_Expected_Last_Subject_Sequence", "0"),
        ("Nats_Expected_Last_Subject_Sequence_Subject", "c"),
    ],
)
def test_conditions_do_not_go_with_increments(name: str, text: str) -> None:
    with pytest.raises(ApiError) as raised:
        counters.check(header(Nats_Incr="1", **{name: text}), b"")
    assert code(raised) == 10171


def test_what_clients_may_publish() -> None:
    counters.check(header(Nats_Incr="1", Nats_Msg_Id="a"), b"")
    with pytest.raises(ApiError) as raised:
        counters.check(header(Nats_Incr="1"), b"x")
    assert code(raised) == 10170


@pytest.mark.parametrize("payload", [b"", b"5", b"[]", b'{"val":5}', b'{"val":"5"', b"\xff", b"null"])
def test_a_broken_counter_is_said(payload: bytes) -> None:
    with pytest.raises(ApiError) as raised:
        add("1", StoredMessage(1, 0, b"c", b"", b"", payload))
    assert code(raised) == 10172


def test_broken_sources_are_said() -> None:
    with pytest.raises(ApiError) as raised:
        add("1", stored("5", header(Nats_Counter_Sources='{"A":5}')))
    assert code(raised) == 10172


def sourced(value: str, origin: str, last: StoredMessage | None) -> StoredMessage:
    """As a source stores what another counter came to."""
    headers = header(Nats_Incr="999", Nats_Stream_Source=origin)
    increment = counters.increment_of(headers)
    assert increment is not None
    counted = counters.applied(increment, last, b"total", headers, json.dumps({"val": value}).encode())
    return StoredMessage(1, 0, b"total", b"", counted.headers, counted.payload)


def test_origins_are_merged_by_what_is_new_of_them() -> None:
    total = None
    for value, origin, increment, expected in [
        ("5", "A 1 > > east.c", b"5", "5"),
        ("7", "A 2 > > east.c", b"2", "7"),
        ("10", "B 1 > > west.c", b"10", "17"),
        ("1", "A 3 > > east.c", b"-6", "11"),
        ("1", "A 3 > > east.c", b"0", "11"),
        ("3", "OLD 9", b"3", "14"),  # a header of two fields does not say what the subject was called
    ]:
        total = sourced(value, origin, total)
        assert block.value(total.headers, block.INCREMENT) == increment
        assert json.loads(total.payload) == {"val": expected}
    assert total is not None
    seen = json.loads(block.value(total.headers, counters.SOURCES))
    assert seen == {"A": {"east.c": "1"}, "B": {"west.c": "10"}, "OLD": {"total": "3"}}
    own = counters.applied(counters.Decimal(1), total, b"total", header(Nats_Incr="1"), b"")
    assert own.value == "15"
    assert json.loads(block.value(own.headers, counters.SOURCES)) == seen
