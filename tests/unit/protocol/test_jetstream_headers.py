"""Headers in their block: one by its name as it stands, added, taken out, replaced; and what answers say."""

from __future__ import annotations

import pytest

from headrace.protocol.jetstream import headers as hdr
from headrace.protocol.jetstream import pubacks
from headrace.protocol.jetstream.errors import ApiError

BLOCK = b"NATS/1.0\r\nNats-Msg-Id: 1\r\nA:b\r\nNats-Msg-Id: 2\r\nX-A: c\r\n\r\n"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"Nats-Msg-Id", b"1"),
        (b"A", b"b"),
        (b"X-A", b"c"),
        (b"nats-msg-id", b""),
        (b"Msg-Id", b""),
        (b"Nats-Msg", b""),
        (b"", b""),
    ],
)
def test_the_first_value_of_a_name(name: bytes, value: bytes) -> None:
    assert hdr.value(BLOCK, name) == value
    assert hdr.has(BLOCK, name) is bool(value)


@pytest.mark.parametrize(
    "block", [b"", b"x", b"\r\n", b"NATS/1.0", b"NATS/1.0\r\n", b"NATS/1.0\r\n\r\n", b"A: b"]
)
def test_blocks_without_headers(block: bytes) -> None:
    assert hdr.value(block, b"A") == b""
    assert hdr.without(block, b"A") == block
    assert hdr.without_prefix(block, b"Q") == block


def test_a_value_that_is_cut_off_or_empty() -> None:
    assert hdr.value(b"NATS/1.0\r\nA:  b", b"A") == b"b"
    assert hdr.value(b"NATS/1.0\r\nA:\r\n\r\n", b"A") == b""
    assert hdr.has(b"NATS/1.0\r\nA:\r\n\r\n", b"A")
    assert hdr.without(b"NATS/1.0\r\nA: b", b"A") == b"NATS/1.0\r\nA: b"
    assert hdr.replaced(b"NATS/1.0\r\nA: b", b"A", b"c") == b"NATS/1.0\r\nA: b"


def test_changes() -> None:
    assert hdr.added(b"", (b"A", b"b")) == b"NATS/1.0\r\nA: b\r\n\r\n"
    assert hdr.added(b"NATS/1.0\r\nA: b\r\n\r\n", (b"C", b"d")) == b"NATS/1.0\r\nA: b\r\nC: d\r\n\r\n"
    assert hdr.without(BLOCK, b"Nats-Msg-Id") == b"NATS/1.0\r\nA:b\r\nX-A: c\r\n\r\n"
    assert hdr.without(b"NATS/1.0\r\nA: b\r\n\r\n", b"A") == b""
    assert hdr.without_prefix(BLOCK, b"Nats-") == b"NATS/1.0\r\nA:b\r\nX-A: c\r\n\r\n"
    assert hdr.without_prefix(b"NATS/1.0\r\nA: b\r\n\r\n", b"A") == b""
    assert hdr.replaced(BLOCK, b"A", b"new") == BLOCK.replace(b"A:b\r", b"A:new\r", 1)
    assert hdr.replaced(BLOCK, b"X-A", b"new") == BLOCK.replace(b": c\r", b": new\r")
    assert hdr.replaced(b"", b"A", b"b") == b"NATS/1.0\r\nA: b\r\n\r\n"


@pytest.mark.parametrize(
    ("block", "without"),
    [
        (b"NATS/1.0 503\r\n\r\n", b""),
        (b"NATS/1.0 100 Idle\r\nA: b\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n"),
        (b"NATS/1.0\r\nA: b\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n"),
        (b"x", b"x"),
        (b"", b""),
    ],
)
def test_a_status(block: bytes, without: bytes) -> None:
    assert hdr.without_status(block) == without


def test_answers() -> None:
    assert pubacks.head("S") + b"1" + pubacks.TAIL == b'{"stream":"S","seq":1}'
    assert pubacks.head("S", "hub") == b'{"stream":"S","domain":"hub","seq":'
    assert pubacks.refusal(ApiError(10070, id="<é\u2028\x01"), "S").decode() == (
        '{"error":{"code":400,"err_code":10070,'
        '"description":"wrong last msg ID: \\u003cé\\u2028\\u0001"},"stream":"S","seq":0}'
    )
