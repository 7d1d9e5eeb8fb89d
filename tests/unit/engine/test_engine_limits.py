"""max_control_line, max_payload, max_subscriptions and max_sub_tokens: the edge and one past it.

The same answer must be given wherever a line is split.
Source: client protocol specification, sections 1 and 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from engine_peers import Broker

TOO_LONG = b"-ERR 'maximum control line exceeded'\r\n"
TOO_LARGE = b"-ERR 'Maximum Payload Violation'\r\n"
LIMIT = 64


@pytest.mark.parametrize("line_end", [b"\r\n", b"\n"])
@pytest.mark.parametrize("before", [b" ", b"\t  "])
def test_control_line_of_just_the_limit_is_taken(broker: Broker, before: bytes, line_end: bytes) -> None:
    peer = broker.peer(max_control_line=LIMIT)
    peer.send(b"SUB" + before + b"a" * (LIMIT - 2) + b" 1" + line_end)
    assert peer.received() == b""
    assert peer.link.subscriptions_count == 1


@pytest.mark.parametrize(
    "op", [b"SUB ", b"UNSUB ", b"PUB ", b"pub ", b"HPUB ", b"CONNECT ", b"INFO ", b"-ERR "]
)
@pytest.mark.parametrize("line_end", [b"\r\n", b"\n", b""])
def test_control_line_one_byte_over_the_limit_closes(broker: Broker, op: bytes, line_end: bytes) -> None:
    peer = broker.peer(max_control_line=LIMIT)
    peer.send(op + b"a" * (LIMIT - 1) + b" 1" + line_end)
    assert peer.received() == TOO_LONG
    assert peer.reason is CloseReason.MAX_CONTROL_LINE_EXCEEDED


@pytest.mark.parametrize(
    "line", [b"PUB %b 0\r\n\r\n", b"PUB %b  0\r\n\r\n", b"PUB %b 0\n\r\n", b"pub %b 0\r\n\r\n"]
)
@pytest.mark.parametrize("over", [0, 1])
def test_publish_line_limit_is_the_same_in_every_form(broker: Broker, line: bytes, over: int) -> None:
    peer = broker.peer(max_control_line=LIMIT)
    fixed = len((line % b"").partition(b" ")[2].partition(b"\n")[0].rstrip(b"\r"))
    peer.send(line % (b"a" * (LIMIT - fixed + over)))
    assert peer.received() == (TOO_LONG if over else b"")


@pytest.mark.parametrize("hello", [b"", b"SUB "])
def test_blanks_without_end_are_not_kept(broker: Broker, hello: bytes) -> None:
    peer = broker.peer(max_control_line=LIMIT)
    peer.send(b"SUB " + b" " * 2 * LIMIT)
    assert peer.received() == TOO_LONG


def test_ping_without_end_takes_no_memory(broker: Broker) -> None:
    peer = broker.peer(max_control_line=LIMIT)
    peer.send(b"PING " + b"x" * 300_000)
    assert not peer.link.is_closing
    peer.send(b"PING\r\nPING\r\n")
    assert peer.received() == b"PONG\r\nPONG\r\n"


def test_control_line_longer_than_the_read_buffer_is_taken_when_permitted(broker: Broker) -> None:
    peer = broker.peer(max_control_line=1 << 20)
    subject = b"s" * 100_000
    peer.send(b"SUB " + subject + b" 1\r\nPUB " + subject + b" 2\r\nhi\r\nPING\r\n")
    assert peer.received() == b"MSG " + subject + b" 1 2\r\nhi\r\nPONG\r\n"


@pytest.mark.parametrize("op", [b"PUB a %d\r\n", b"pub a r %d\r\n", b"PUB a\t%d\n"])
def test_payload_of_just_the_limit_is_taken(broker: Broker, op: bytes) -> None:
    peer = broker.peer(max_payload=100)
    peer.send(b"SUB a 1\r\n" + op % 100 + b"x" * 100 + b"\r\nPING\r\n")
    assert peer.received().endswith(b" 100\r\n" + b"x" * 100 + b"\r\nPONG\r\n")


@pytest.mark.parametrize("op", [b"PUB a %d\r\n", b"pub a r %d\r\n", b"PUB a\t%d\n", b"HPUB a 1 %d\r\n"])
@pytest.mark.parametrize("size", [101, 999_999_999])
def test_payload_over_the_limit_closes_without_waiting_for_it(broker: Broker, op: bytes, size: int) -> None:
    peer = broker.peer(b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n', max_payload=100)
    peer.send(op % size)
    assert peer.received() == TOO_LARGE
    assert peer.reason is CloseReason.MAX_PAYLOAD_EXCEEDED


def test_payload_limit_counts_headers(broker: Broker) -> None:
    peer = broker.peer(b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n', max_payload=20)
    peer.send(b"SUB a 1\r\nHPUB a 12 20\r\nNATS/1.0\r\n\r\n12345678\r\n")
    assert peer.received() == b"HMSG a 1 12 20\r\nNATS/1.0\r\n\r\n12345678\r\n"
    peer.send(b"HPUB a 12 21\r\n")
    assert peer.received() == TOO_LARGE


def test_subscription_over_the_limit_is_refused_and_the_link_stays(broker: Broker) -> None:
    peer = broker.peer(max_subscriptions=2)
    peer.send(b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nUNSUB 1\r\nSUB c 3\r\nPUB c 0\r\n\r\n")
    assert peer.received() == b"-ERR 'maximum subscriptions exceeded'\r\nMSG c 3 0\r\n\r\n"
    assert peer.session.called("subscriptions_exceeded") == [()]


def test_subscription_with_too_many_tokens_is_refused(broker: Broker) -> None:
    peer = broker.peer(b'CONNECT {"verbose":true}\r\n', max_subscription_tokens=3)
    peer.send(b"SUB a.b.c 1\r\nSUB a.b.c.d 2\r\nSUB a.b.> q 3\r\n")
    refused = b"-ERR 'Permissions Violation for Subscription to \"a.b.c.d\", too many tokens'\r\n"
    assert peer.received() == b"+OK\r\n+OK\r\n" + refused + b"+OK\r\n"
    assert peer.link.subscriptions_count == 2
