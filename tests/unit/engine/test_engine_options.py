"""CONNECT's options, authentication that is due, holding and releasing, tracing.

Source: client protocol specification, sections 2 and 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from engine_peers import QUIET

from headrace.engine.interest import Interest
from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from engine_peers import Broker, Peer

OK = b"+OK\r\n"
VERBOSE = b'CONNECT {"verbose":true,"pedantic":false}\r\n'


def test_ops_before_connect_are_verbose_and_pedantic(broker: Broker) -> None:
    peer = broker.peer(b"SUB > 1\r\nPUB a.* 1\r\nx\r\n")
    assert peer.received() == OK + b"-ERR 'Invalid Publish Subject'\r\n" + OK + b"MSG a.* 1 1\r\nx\r\n"


def test_verbose_acknowledges_everything_but_ping_and_pong(broker: Broker) -> None:
    peer = broker.peer(VERBOSE)
    peer.send(b"SUB a 1\r\nPUB b 0\r\n\r\nUNSUB 1\r\nPING\r\nPONG\r\n+OK\r\n")
    assert peer.received() == OK * 4 + b"PONG\r\n"


def test_verbose_acknowledgement_comes_before_what_it_causes(broker: Broker) -> None:
    peer = broker.peer(VERBOSE)
    peer.send(b"SUB a 1\r\nPUB a 1\r\nx\r\nHPUB")
    assert peer.received() == OK * 3 + b"MSG a 1 1\r\nx\r\n"


PEDANTIC = [
    (b"a", True),
    (b"a.b.c", True),
    (b"foo*", True),
    (b"f>", True),
    (b"a.*b", True),
    (b"a..b", False),
    (b".a", False),
    (b"a.", False),
    (b".", False),
    (b"*", False),
    (b">", False),
    (b"a.*", False),
    (b"a.>", False),
    (b"*.a", False),
    (b">.a", False),
]


@pytest.mark.parametrize(("subject", "is_valid"), PEDANTIC)
@pytest.mark.parametrize("line", [b"PUB %b 1\r\n", b"PUB  %b  1\r\n"])
def test_pedantic_judges_the_subject_once_and_routes_all_the_same(
    broker: Broker, line: bytes, subject: bytes, is_valid: bool
) -> None:
    peer = broker.peer(b'CONNECT {"verbose":false}\r\n')
    peer.send(line % subject + b"x\r\n")
    assert peer.received() == (b"" if is_valid else b"-ERR 'Invalid Publish Subject'\r\n")
    assert peer.link.counters[0] == 1


def test_no_echo_keeps_own_messages_from_own_subscriptions(broker: Broker) -> None:
    peer = broker.peer(b'CONNECT {"verbose":false,"pedantic":false,"echo":false}\r\nSUB a 1\r\n')
    other = broker.peer(QUIET + b"SUB a 1\r\nPUB a 1\r\ny\r\n")
    peer.send(b"PUB a 1\r\nx\r\n")
    assert peer.received() == b"MSG a 1 1\r\ny\r\n"
    assert other.received() == b"MSG a 1 1\r\ny\r\nMSG a 1 1\r\nx\r\n"
    assert not peer.link.echo


def test_second_connect_drops_subscriptions_and_changes_options(broker: Broker) -> None:
    peer = broker.peer(
        QUIET + b"SUB a 1\r\nSUB a q 2\r\nSUB a.> 3\r\n" + VERBOSE + b"PUB a 1\r\nx\r\nSUB a 1\r\n"
    )
    assert peer.received() == OK * 3
    assert peer.link.subscriptions_count == 1


def test_first_ping_after_a_connect_that_asks_for_info_gets_one(broker: Broker) -> None:
    peer = broker.peer(b'CONNECT {"verbose":false,"pedantic":false,"protocol":1}\r\nPING\r\nPING\r\n')
    assert peer.received() == b'PONG\r\nINFO {"connect_info":true} \r\nPONG\r\n'


def test_pong_is_reported_and_is_no_activity(broker: Broker) -> None:
    peer = broker.peer()
    broker.router.now = 5
    peer.send(b"PONG\r\n")
    assert peer.session.called("pong") == [()]
    assert peer.link.last_activity == 0
    peer.send(b"PING\r\n")
    assert peer.link.last_activity == 5
    broker.router.now = 6
    peer.send(b"PUB a 0\r\n\r\n")
    assert peer.link.last_activity == 6


# ---- authentication is due ----------------------------------------------------------------------


@pytest.mark.parametrize("op", [b"PING\r\n", b"SUB a 1\r\n", b"P", b"\r\n", b"PUB a 5\r\n", b"junk"])
def test_op_where_connect_was_due_is_a_violation(broker: Broker, op: bytes) -> None:
    peer = broker.peer(op, must_connect=True)
    assert peer.received() == b"-ERR 'Authorization Violation'\r\n"
    assert peer.reason is CloseReason.AUTHENTICATION_VIOLATION


@pytest.mark.parametrize("connect", [QUIET, QUIET.lower()])
def test_connect_where_it_was_due_opens_the_link(broker: Broker, connect: bytes) -> None:
    peer = broker.peer(connect + b"PING\r\n", must_connect=True)
    assert peer.received() == b"PONG\r\n"
    assert peer.session.called("op_before_connect") == []


def test_session_may_adopt_an_identity_where_connect_was_due(broker: Broker) -> None:
    peer = broker.peer(b"", must_connect=True)
    peer.session.hooks["op_before_connect"] = peer.link.adopt
    peer.session.hooks["first_ping"] = lambda: None
    peer.send(b"SUB a 1\r\nPING\r\n")
    assert peer.received() == OK + b"PONG\r\n"
    assert peer.session.called("op_before_connect") == [()]
    assert peer.session.called("first_ping") == [()]


# ---- hold and release ---------------------------------------------------------------------------


def held_at_connect(broker: Broker) -> Peer:
    peer = broker.peer(b"", must_connect=True)
    peer.session.hooks["connect"] = lambda _text: peer.link.hold()
    return peer


def let_go(peer: Peer) -> None:
    peer.link.configure(
        verbose=False, pedantic=False, echo=True, headers=False, no_responders=False, info_on_ping=False
    )
    peer.link.release()


def test_held_link_parses_nothing_until_it_is_released(broker: Broker) -> None:
    peer = held_at_connect(broker)
    peer.send(QUIET + b"SUB a 1\r\nPUB a 2\r\nhi\r\nPING\r\nPI")
    assert peer.link.is_held
    assert peer.received() == b""
    let_go(peer)
    assert not peer.link.is_held
    assert peer.received() == b"MSG a 1 2\r\nhi\r\nPONG\r\n"
    peer.send(b"NG\r\n")
    assert peer.received() == b"PONG\r\n"


def test_held_link_keeps_any_amount_that_comes_meanwhile(broker: Broker) -> None:
    peer = held_at_connect(broker)
    peer.send(QUIET + b"SUB a 1\r\n")
    published = b"".join(b"PUB a %d\r\n%b\r\n" % (n, b"x" * n) for n in range(0, 20_000, 997))
    peer.send(published)
    assert peer.received() == b""
    let_go(peer)
    assert peer.received() == published.replace(b"PUB a ", b"MSG a 1 ")


def test_held_link_released_with_a_large_frame_incomplete_takes_the_rest(broker: Broker) -> None:
    peer = held_at_connect(broker)
    body = bytes(n % 253 for n in range(150_000))
    peer.send(QUIET + b"SUB a 1\r\nPUB a 150000\r\n" + body[:70_000])
    let_go(peer)
    assert peer.received() == b""
    peer.send(body[70_000:] + b"\r\nPING\r\n")
    assert peer.received() == b"MSG a 1 150000\r\n" + body + b"\r\nPONG\r\n"


def test_held_link_that_has_nothing_more_is_released(broker: Broker) -> None:
    peer = held_at_connect(broker)
    peer.send(QUIET)
    let_go(peer)
    peer.send(b"PING\r\n")
    assert peer.received() == b"PONG\r\n"


def test_held_link_that_is_doomed_parses_nothing_when_released(broker: Broker) -> None:
    peer = held_at_connect(broker)
    peer.send(QUIET + b"PING\r\n")
    peer.link.doom(CloseReason.AUTHENTICATION_VIOLATION)
    peer.link.release()
    assert peer.received() == b""


def test_link_held_with_part_of_an_op_kept_goes_on_where_it_was(broker: Broker) -> None:
    peer = broker.peer(QUIET + b"PUB a 1")
    peer.link.hold()
    peer.send(b"\r\nx\r\nPING")
    peer.link.release()
    peer.send(b"\r\n")
    assert peer.received() == b"PONG\r\n"
    assert peer.link.counters[0] == 1


def test_link_released_within_the_call_that_held_it_parses_on(broker: Broker) -> None:
    peer = broker.peer(b"")

    def connect(_text: bytes) -> None:
        peer.link.hold()
        let_go(peer)

    peer.session.hooks["connect"] = connect
    peer.send(QUIET + b"SUB a 1\r\nPUB a 2\r\nhi\r\n")
    assert peer.received() == b"MSG a 1 2\r\nhi\r\n"


# ---- tracing ------------------------------------------------------------------------------------


def test_traced_link_reports_ops_and_deliveries(broker: Broker) -> None:
    peer = broker.peer(b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n')
    peer.link.traced = True
    peer.send(
        b"SUB\ta.b  q 1\r\nPUB a.b r.1 2\r\nhi\r\nHPUB a.b 2 3\r\nhhx\r\nPING hello\r\nUNSUB 1 \r\n" + QUIET
    )
    assert peer.session.called("trace") == [
        ("SUB", b"a.b  q 1", None),
        ("PUB", b" a.b r.1 2", b"hi"),
        ("HPUB", b" a.b 2 3", b"hhx"),
        ("PING", b"hello", None),
        ("UNSUB", b"1", None),
    ]
    assert peer.session.called("trace_delivery") == [
        (b"a.b", b"1", b"r.1", 0, 2),
        (b"a.b", b"1", b"", 2, 3),
    ]
    assert peer.received() == b"MSG a.b 1 r.1 2\r\nhi\r\nHMSG a.b 1 2 3\r\nhhx\r\nPONG\r\n"


def test_traced_publish_in_canonical_form_is_traced_too(broker: Broker) -> None:
    peer = broker.peer()
    assert not peer.link.traced
    peer.link.traced = True
    assert peer.link.traced
    peer.send(b"PUB a 2\r\nhi\r\n")
    assert peer.session.called("trace") == [("PUB", b" a 2", b"hi")]


# ---- the account --------------------------------------------------------------------------------


def test_link_without_subscriptions_may_change_its_account(plain_broker: Broker) -> None:
    peer = plain_broker.peer(QUIET + b"SUB a 1\r\nUNSUB 1\r\n")
    peer.link.interest = Interest()
    peer.send(b"SUB a 1\r\n")
    plain_broker.peer().send(b"PUB a 0\r\n\r\n")
    assert peer.received() == b""
    with pytest.raises(ValueError, match="cannot change its account"):
        peer.link.interest = plain_broker.interest
