"""PUB and HPUB in all forms, and what each kind of subscriber is written.

Source: client protocol specification, sections 1, 4 and 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from engine_peers import NO_RESPONDERS, QUIET, QUIET_WITH_HEADERS

if TYPE_CHECKING:
    from engine_peers import Broker

HEADER = b"NATS/1.0\r\nA: b\r\n\r\n"


@pytest.mark.parametrize("size", [b"0", b"000", b"000000000"])
def test_pub_of_nothing_is_delivered_with_its_size_as_written(broker: Broker, size: bytes) -> None:
    peer = broker.peer()
    peer.send(b"SUB a 1\r\nPUB a " + size + b"\r\n\r\n")
    assert peer.received() == b"MSG a 1 " + size + b"\r\n\r\n"


@pytest.mark.parametrize("line", [b"PUB a r.x 003\r\n", b"PUB  a\tr.x  003 \n"])
def test_pub_with_reply_and_leading_zeros_is_forwarded_as_written(broker: Broker, line: bytes) -> None:
    peer = broker.peer()
    peer.send(b"SUB a 1\r\n" + line + b"abc\r\n")
    assert peer.received() == b"MSG a 1 r.x 003\r\nabc\r\n"


@pytest.mark.parametrize("size", [1, 15, 16, 17, 127, 128, 129, 1023, 4096, 65535, 65536, 65537])
def test_pub_of_any_size_arrives_whole(broker: Broker, size: int) -> None:
    publisher, subscriber = broker.peer(), broker.peer(b"SUB b.> 1\r\n" + QUIET + b"SUB a.> 1\r\n")
    subscriber.received()
    payload = bytes(n % 251 for n in range(size))
    publisher.send(b"PUB a.b %d\r\n" % size + payload + b"\r\nPING\r\n")
    assert subscriber.received() == b"MSG a.b 1 %d\r\n" % size + payload + b"\r\n"
    assert publisher.received() == b"PONG\r\n"


HPUBS = {
    "as clients write it": (b"HPUB a 18 20\r\n", b"18 20", b"2"),
    "with a reply": (b"HPUB a r 18 20\r\n", b"r 18 20", b"r 2"),
    "with tabs, runs and bare LF": (b"hpub\ta\t r \t 18\t20 \n", b"r 18 20", b"r 2"),
    "with leading zeros": (b"HPUB a 0018 0020\r\n", b"0018 0020", b"2"),
}


@pytest.mark.parametrize("case", HPUBS)
def test_hpub_reaches_each_subscriber_in_its_form(broker: Broker, case: str) -> None:
    line, with_headers, without = HPUBS[case]
    publisher = broker.peer(QUIET_WITH_HEADERS)
    modern, plain = broker.peer(QUIET_WITH_HEADERS), broker.peer(QUIET)
    modern.send(b"SUB a 1\r\n")
    plain.send(b"SUB a 22\r\nSUB > 3\r\n")
    publisher.send(line + HEADER + b"hi\r\nPING\r\n")
    assert publisher.received() == b"PONG\r\n"
    assert modern.received() == b"HMSG a 1 " + with_headers + b"\r\n" + HEADER + b"hi\r\n"
    stripped = sorted(plain.received().split(b"MSG ")[1:])
    assert stripped == [b"a 22 " + without + b"\r\nhi\r\n", b"a 3 " + without + b"\r\nhi\r\n"]


@pytest.mark.parametrize("line", [b"HPUB a r 0 2\r\n", b"HPUB a  r  00 2\n"])
def test_hpub_with_no_header_bytes_is_a_pub(broker: Broker, line: bytes) -> None:
    peer = broker.peer(QUIET_WITH_HEADERS)
    peer.send(b"SUB a 1\r\n" + line + b"hi\r\n")
    assert peer.received() == b"MSG a 1 r 2\r\nhi\r\n"


def test_hpub_without_payload_strips_to_an_empty_message(broker: Broker) -> None:
    publisher, plain = broker.peer(QUIET_WITH_HEADERS), broker.peer()
    plain.send(b"SUB a 1\r\n")
    publisher.send(b"HPUB a 18 18\r\n" + HEADER + b"\r\n")
    assert plain.received() == b"MSG a 1 0\r\n\r\n"


def test_hpub_header_bytes_are_neither_read_nor_changed(broker: Broker) -> None:
    peer = broker.peer(QUIET_WITH_HEADERS)
    peer.send(b"SUB a 1\r\nHPUB a 4 5\r\n\r\n\0\xffx\r\n")
    assert peer.received() == b"HMSG a 1 4 5\r\n\r\n\0\xffx\r\n"


def test_hpub_from_a_client_that_did_not_announce_headers_closes(broker: Broker) -> None:
    peer = broker.peer()
    peer.send(b"HPUB a 18 20\r\n" + HEADER + b"hi\r\n")
    assert peer.link.is_closing
    assert peer.received() == b""


def test_pub_to_a_subscriber_with_headers_is_a_msg(broker: Broker) -> None:
    peer = broker.peer(QUIET_WITH_HEADERS)
    peer.send(b"SUB a 1\r\nPUB a 2\r\nhi\r\n")
    assert peer.received() == b"MSG a 1 2\r\nhi\r\n"


@pytest.mark.parametrize("subject", [b"_GR_.x", b"$NRG.x", b"$NRG."])
def test_publish_to_a_reserved_subject_is_refused(broker: Broker, subject: bytes) -> None:
    peer = broker.peer(b'CONNECT {"pedantic":false}\r\nSUB > 1\r\n')
    peer.received()
    peer.send(b"PUB " + subject + b" 1\r\nx\r\n")
    assert peer.received() == b"-ERR 'Permissions Violation for Publish to \"" + subject + b"\"'\r\n"


@pytest.mark.parametrize("reply", [b"_R_.x", b"_R_.", b"_GR_.x", b"$JS.ACK.x"])
def test_publish_with_a_reserved_reply_is_refused(broker: Broker, reply: bytes) -> None:
    peer = broker.peer(QUIET + b"SUB > 1\r\n")
    peer.send(b"PUB a " + reply + b" 1\r\nx\r\n")
    assert peer.received() == b"-ERR 'Permissions Violation for Publish with Reply of \"" + reply + b"\"'\r\n"


@pytest.mark.parametrize("subject", [b"_GR", b"_GR_", b"$NR", b"$NRG", b"_R_.x", b"_", b"$JS.ACK.x", b"$JS"])
def test_publish_to_a_subject_that_only_begins_alike_is_delivered(broker: Broker, subject: bytes) -> None:
    peer = broker.peer(QUIET + b"SUB > 1\r\n")
    peer.send(b"PUB " + subject + b" 1\r\nx\r\n")
    assert peer.received() == b"MSG " + subject + b" 1 1\r\nx\r\n"


@pytest.mark.parametrize("reply", [b"_GR_.", b"$JS.ACK.", b"_R_", b"$JS.API"])
def test_publish_with_a_reply_that_only_begins_alike_is_delivered(broker: Broker, reply: bytes) -> None:
    peer = broker.peer(QUIET + b"SUB > 1\r\n")
    peer.send(b"PUB a " + reply + b" 1\r\nx\r\nPUB _GR_. 1\r\nx\r\n")
    assert peer.received() == b"MSG a 1 " + reply + b" 1\r\nx\r\n"


def nobody(reply: bytes, sid: bytes, subject: bytes) -> bytes:
    status = b"NATS/1.0 503\r\nNats-Subject: " + subject + b"\r\n\r\n"
    return b"HMSG %b %b %d %d\r\n%b\r\n" % (reply, sid, len(status), len(status), status)


@pytest.mark.parametrize("request_line", [b"PUB a r.1 2\r\nhi\r\n", b"HPUB a r.1 2 2\r\nhi\r\n"])
def test_request_that_reaches_nobody_is_answered_503(broker: Broker, request_line: bytes) -> None:
    peer = broker.peer(NO_RESPONDERS)
    peer.send(b"SUB r.* 77\r\n" + request_line)
    assert peer.received() == nobody(b"r.1", b"77", b"a")


@pytest.mark.parametrize(
    "subscriptions",
    [b"", b"SUB other 1\r\n", b"SUB r.1 queue 1\r\n"],
    ids=["none", "another subject", "a queue subscription"],
)
def test_503_needs_an_own_plain_subscription_to_the_reply(broker: Broker, subscriptions: bytes) -> None:
    peer = broker.peer(NO_RESPONDERS)
    broker.peer().send(b"SUB r.1 1\r\n")
    peer.send(subscriptions + b"PUB a r.1 0\r\n\r\n")
    assert peer.received() == b""


def test_503_is_not_sent_when_somebody_got_the_request(broker: Broker) -> None:
    peer = broker.peer(NO_RESPONDERS)
    broker.peer().send(b"SUB a q 1\r\n")
    peer.send(b"SUB r.1 1\r\nPUB a r.1 0\r\n\r\n")
    assert peer.received() == b""


def test_503_is_sent_when_only_an_own_subscription_without_echo_matched(broker: Broker) -> None:
    peer = broker.peer(NO_RESPONDERS[:-3] + b',"echo":false}\r\n')
    peer.send(b"SUB a 1\r\nSUB r.1 2\r\nPUB a r.1 0\r\n\r\n")
    assert peer.received() == nobody(b"r.1", b"2", b"a")


def test_503_does_not_count_towards_the_limit_of_unsub(broker: Broker) -> None:
    peer = broker.peer(NO_RESPONDERS)
    peer.send(b"SUB r.1 1\r\nUNSUB 1 1\r\n" + b"PUB a r.1 0\r\n\r\n" * 2 + b"PUB r.1 0\r\n\r\n" * 2)
    assert peer.received() == nobody(b"r.1", b"1", b"a") * 2 + b"MSG r.1 1 0\r\n\r\n"
    assert peer.link.counters[2] == 1


@pytest.mark.parametrize("reply", [b"r..1", b".", b"r."])
def test_request_with_a_reply_nobody_can_have_is_not_answered(broker: Broker, reply: bytes) -> None:
    peer = broker.peer(NO_RESPONDERS)
    peer.send(b"SUB > 1\r\nUNSUB 1\r\nPUB a " + reply + b" 0\r\n\r\nPING\r\n")
    assert peer.received() == b"PONG\r\n"


def test_statistics_count_payload_and_headers(broker: Broker) -> None:
    publisher, plain = broker.peer(QUIET_WITH_HEADERS), broker.peer()
    plain.send(b"SUB a 1\r\nSUB a 2\r\n")
    publisher.send(b"PUB a 3\r\nabc\r\nHPUB a 18 20\r\n" + HEADER + b"hi\r\nPUB nobody 1\r\nx\r\n")
    assert publisher.link.counters == (3, 24, 0, 0, 0)
    assert plain.link.counters == (0, 0, 4, 2 * 3 + 2 * 2, 0)
    statistics = broker.router.statistics()
    assert (statistics["in_msgs"], statistics["in_bytes"]) == (3, 24)
    assert (statistics["out_msgs"], statistics["out_bytes"]) == (4, 10)
