"""Properties of MQTT 5 as header lines, and header lines as properties."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mqtt_peers import text

from headrace.engine.mqtt_headers import header_lines, properties_of

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=12)


def user(name: bytes, value: bytes) -> bytes:
    return b"&" + text(name) + text(value)


def block(lines: bytes, first: bytes = b"Nmqtt-Pub:0\r\n") -> bytes:
    return b"NATS/1.0\r\n" + first + lines + b"\r\n"


@pytest.mark.parametrize(
    ("properties", "lines"),
    [
        (b"", b""),
        (b"\x01\x00", b"Nmqtt-Format: 0\r\n"),
        (b"\x01\x01", b"Nmqtt-Format: 1\r\n"),
        (b"\x03" + text(b"text/plain"), b"Content-Type: text/plain\r\n"),
        (b"\x03" + text(b"50% \r\n"), b"Content-Type: 50%25 %0D%0A\r\n"),
        (b"\x09" + text(b"\xff\x10"), b"Nmqtt-Correlation: /xA=\r\n"),
        (b"\x09" + text(b""), b"Nmqtt-Correlation: \r\n"),
        (user(b"a", b"1") + user(b"b", b"2") + user(b"a", b"3"), b"a: 1\r\nb: 2\r\na: 3\r\n"),
        (user(b"", b""), b"Nmqtt-User: =\r\n"),
        (user(b"a b", b"c d"), b"Nmqtt-User: a%20b=c%20d\r\n"),
        (user(b"a:", b"="), b"Nmqtt-User: a%3A=%3D\r\n"),
        (user(b"nats-TTL", b"1s"), b"Nmqtt-User: nats-TTL=1s\r\n"),
        (user(b"NMQTT-Pub", b"2"), b"Nmqtt-User: NMQTT-Pub=2\r\n"),
        (user(b"content-type", b"x"), b"Nmqtt-User: content-type=x\r\n"),
        (user(b"x\r\ny", b"\r\n\r\n"), b"Nmqtt-User: x%0D%0Ay=%0D%0A%0D%0A\r\n"),
    ],
)
def test_properties_become_header_lines_and_come_back(properties: bytes, lines: bytes) -> None:
    assert header_lines(properties) == (lines, b"", 0)
    assert properties_of(block(lines))[0] == properties


def test_a_response_topic_and_an_alias_are_no_header_lines() -> None:
    assert header_lines(b"\x08" + text(b"re/x") + b"\x23\x01\x02") == (b"", b"re/x", 0x102)


def test_an_expiry_is_seconds_and_a_moment() -> None:
    before = time.time_ns() // 1_000_000
    lines, _, _ = header_lines(b"\x02\x00\x00\x00\x0a")
    expiry, at = lines.splitlines()
    assert expiry == b"Nmqtt-Expiry: 10"
    moment = int(at.removeprefix(b"Nmqtt-Expires-At: "))
    assert before + 10_000 <= moment <= time.time_ns() // 1_000_000 + 10_000
    _, quality, _, expires_at, lifetime, _, _ = properties_of(block(lines, b"Nmqtt-Pub:2\r\n"))
    assert (quality, expires_at, lifetime) == (2, moment, 10)


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        (b"\x01\x02", 0x82),
        (b"\x01", 0x81),
        (b"\x01\x00\x01\x00", 0x82),
        (b"\x02\x00\x00\x00", 0x81),
        (b"\x03\x00\x02a", 0x81),
        (b"\x03\x00", 0x81),
        (b"\x03" + text(b"\xff"), 0x81),
        (b"\x03" + text(b"a") * 1 + b"\x03" + text(b"a"), 0x82),
        (b"\x08" + text(b""), 0x82),
        (b"\x08" + text(b"\0"), 0x81),
        (b"\x0b\x01", 0x82),  # a subscription identifier
        (b"\x11\x00\x00\x00\x00", 0x82),  # of a CONNECT
        (b"\x23\x00\x00", 0x94),
        (b"\x23\x00\x01\x23\x00\x01", 0x82),
        (b"\x23\x00", 0x81),
        (b"\x26" + text(b"a"), 0x81),
        (b"\x26" + text(b"a") + b"\x00\x05b", 0x81),
        (b"\x26" + text(b"\xff") + text(b""), 0x81),
        (b"\x00", 0x81),
        (b"\x7f\x00", 0x81),
        (b"\xff", 0x81),
    ],
)
def test_properties_that_are_wrong_have_a_reason_code(properties: bytes, code: int) -> None:
    with pytest.raises(ValueError, match=rf"^{code}$"):
        header_lines(properties)


@pytest.mark.parametrize(
    ("lines", "properties"),
    [
        (b"A: 1\r\nB:  2 \r\n", user(b"A", b"1") + user(b"B", b"2")),
        (b"Percent: %41%25\r\n", user(b"Percent", b"%41%25")),
        (b"Nats-Msg-Id: 7\r\nNats-Expected-Stream: s\r\n", b""),
        (b"content-type: x/y\r\n", b"\x03" + text(b"x/y")),
        (b"no colon\r\n", b""),
        (b"bad: \xff\r\n", b""),
        (b": empty\r\n", b""),
        (b"a: " + b"x" * 65536 + b"\r\n", b""),
        (b"a: " + b"x" * 65535 + b"\r\n", user(b"a", b"x" * 65535)),
    ],
)
def test_headers_of_nats_clients_are_user_properties(lines: bytes, properties: bytes) -> None:
    found = properties_of(block(lines, b""))
    assert found == (properties, -1, False, 0, 0, b"", b"")


@pytest.mark.parametrize(
    ("ttl", "seconds"),
    [
        (b"10s", 10),
        (b"10", 10),
        (b"2m", 120),
        (b"1h", 3600),
        (b"never", 0),
        (b"1.5s", 0),
        (b"", 0),
        (b"s", 0),
        (b"9" * 40, 0),
    ],
)
def test_a_ttl_is_a_lifetime(ttl: bytes, seconds: int) -> None:
    assert properties_of(block(b"Nats-TTL: " + ttl + b"\r\n", b""))[4] == seconds


def test_what_a_block_says_of_its_message() -> None:
    lines = b"Nmqtt-Retain: 1\r\nNmqtt-Client: ABCDEFGH\r\nNmqtt-Reply: re.x\r\n"
    assert properties_of(block(lines, b"Nmqtt-Pub:1\r\n")) == (b"", 1, True, 0, 0, b"re.x", b"ABCDEFGH")


@pytest.mark.parametrize(
    ("head", "quality"),
    [
        (b"NATS/1.0\r\nNmqtt-Pub:2\r\n\r\n", 2),
        (b"NATS/1.0\r\nNmqtt-Pub: 1\r\n\r\n", 1),
        (b"NATS/1.0\r\nA: 1\r\nNmqtt-Pub:1\r\n\r\n", 1),
        (b"NATS/1.0\r\nNmqtt-Pub:3\r\n\r\n", -1),
        (b"NATS/1.0\r\nNmqtt-Pub:\r\n\r\n", -1),
        (b"NATS/1.0\r\nX-Nmqtt-Pub:1\r\n\r\n", -1),
        (b"NATS/1.0 503\r\n\r\n", -1),
        (b"", -1),
    ],
)
def test_how_a_message_was_published(head: bytes, quality: int) -> None:
    assert properties_of(head)[1] == quality


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=5), st.none() | TEXTS, st.none() | st.binary(max_size=30))
def test_any_properties_come_back(pairs: list[tuple[str, str]], kind: str | None, data: bytes | None) -> None:
    properties = b"".join(user(name.encode(), value.encode()) for name, value in pairs)
    if kind is not None:
        properties += b"\x03" + text(kind.encode())
    if data is not None:
        properties += b"\x09" + text(data)
    lines, _, _ = header_lines(properties)
    assert properties_of(block(lines))[0] == properties
    assert all(b":" in line for line in lines.split(b"\r\n")[:-1])


@given(st.binary(max_size=80))
def test_any_bytes_are_properties_or_refused(data: bytes) -> None:
    try:
        lines, _, _ = header_lines(data)
    except ValueError as error:
        code, lines = error.args[0], b""
    else:
        code = 0x81
    assert code in (0x81, 0x82, 0x94)
    assert not lines or lines.endswith(b"\r\n")


@given(st.binary(max_size=120))
def test_any_bytes_may_be_a_block(data: bytes) -> None:
    properties, quality, *_ = properties_of(b"NATS/1.0\r\n" + data)
    assert -1 <= quality <= 2
    assert isinstance(properties, bytes)
