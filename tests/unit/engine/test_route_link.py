"""Routes, line by line: interest that is told and taken in, messages that go and come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from engine_peers import NO_RESPONDERS, QUIET_WITH_HEADERS, WAYS
from route_peers import Remote, Server, exchange

from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=WAYS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    server = Server(request.param)
    yield server
    server.stop()


def test_first_and_last_plain_subscription_are_told(server: Server) -> None:
    remote = server.route()
    peer = server.peer()
    peer.send(b"SUB foo.* 1\r\nSUB foo.* 2\r\n")
    assert remote.heard() == b"RS+ $G foo.*\r\n"
    peer.send(b"UNSUB 1\r\n")
    assert remote.heard() == b""
    peer.send(b"UNSUB 2\r\n")
    assert remote.heard() == b"RS- $G foo.*\r\n"


def test_every_change_of_a_queue_group_is_told(server: Server) -> None:
    remote = server.route()
    peer = server.peer().send(b"SUB w g 1\r\nSUB w g 2\r\nUNSUB 1\r\nUNSUB 2\r\n")
    assert remote.heard() == b"RS+ $G w g 1\r\nRS+ $G w g 2\r\nRS+ $G w g 1\r\nRS- $G w g\r\n"
    assert peer.reason is CloseReason.NONE


def test_what_is_wanted_already_is_told_at_once(server: Server) -> None:
    server.peer().send(b"SUB a 1\r\nSUB a 2\r\nSUB b g 3\r\nSUB b g 4\r\nSUB b h 5\r\nSUB x.> 6\r\n")
    remote = server.route()
    assert sorted(remote.heard().splitlines()) == [
        b"RS+ $G a",
        b"RS+ $G b g 2",
        b"RS+ $G b h 1",
        b"RS+ $G x.>",
    ]


def test_a_closed_client_wants_nothing(server: Server) -> None:
    remote = server.route()
    peer = server.peer().send(b"SUB gone 1\r\n")
    remote.heard()
    peer.link.detach()
    assert remote.heard() == b"RS- $G gone\r\n"


def test_interest_stands_before_the_message_it_is_for(server: Server) -> None:
    remote = server.route().say(b"RS+ $G svc\r\n")
    server.peer().send(b"SUB in 1\r\nPUB svc in 1\r\nq\r\n")
    assert remote.heard() == b"RS+ $G in\r\nRMSG $G svc in 1\r\nq\r\n"


def test_messages_go_where_they_are_wanted(server: Server) -> None:
    remote = server.route().say(b"RS+ $G py.>\r\n")
    server.peer(QUIET_WITH_HEADERS).send(
        b"PUB py.a 2\r\nhi\r\nPUB py.b rep 3\r\nabc\r\nPUB other 1\r\nx\r\n"
        b"HPUB py.h rep 12 15\r\nNATS/1.0\r\n\r\nabc\r\n"
        b"HPUB py.i 12 15\r\nNATS/1.0\r\n\r\nabc\r\nPUB py 0\r\n\r\n"
    )
    assert remote.heard() == (
        b"RMSG $G py.a 2\r\nhi\r\nRMSG $G py.b rep 3\r\nabc\r\n"
        b"HMSG $G py.h rep 12 15\r\nNATS/1.0\r\n\r\nabc\r\nHMSG $G py.i 12 15\r\nNATS/1.0\r\n\r\nabc\r\n"
    )


def test_one_frame_has_everything_that_a_server_gets_it_for(server: Server) -> None:
    remote = server.route().say(b"RS+ $G pq\r\nRS+ $G * g 1\r\nRS+ $G pq h 3\r\nRS+ $G >\r\n")
    server.peer().send(b"PUB pq 1\r\nx\r\n").send(b"PUB pq r 1\r\ny\r\n")
    heard = remote.heard()
    assert heard.replace(b"h g", b"g h") == b"RMSG $G pq | g h 1\r\nx\r\nRMSG $G pq + r g h 1\r\ny\r\n"


def test_headers_are_stripped_for_a_server_without(server: Server) -> None:
    remote = server.route(headers=False).say(b"RS+ $G a\r\nRS+ $G a q 1\r\n")
    peer = server.peer(QUIET_WITH_HEADERS)
    peer.send(b"HPUB a 12 15\r\nNATS/1.0\r\n\r\nabc\r\nHPUB a r 12 15\r\nNATS/1.0\r\n\r\nabc\r\n")
    assert remote.heard() == b"RMSG $G a | q 3\r\nabc\r\nRMSG $G a + r q 3\r\nabc\r\n"


HEADERS = b"NATS/1.0\r\n\r\n"
TAKEN_IN = {
    b"": [b"RMSG $G q.x 2", b"RMSG $G q.x | gg 2", b"RMSG OTHER foo.x 2"],
    b"MSG foo.x 1 2": [b"RMSG $G foo.x 2", b"HMSG $G foo.x 0 2", b"LMSG leafs $G foo.x 0 2"],
    b"MSG foo.x 1 rep 2": [
        *(b"RMSG $G foo.x rep 2", b"rmsg\t$G \t foo.x  rep\t2 ", b"RMSG $G foo.x + rep 2"),
        *(b"HMSG $G foo.x rep 0 2", b"LMSG leafs $G foo.x rep 0 2"),
    ],
    b"HMSG foo.x 1 12 14": [b"HMSG $G foo.x 12 14", b"LMSG leafs $G foo.x 12 14"],
    b"HMSG foo.x 1 rep 12 14": [b"HMSG $G foo.x rep 12 14"],
    b"MSG q.x 2 2": [b"RMSG $G q.x | g 2", b"RMSG $G q.x | other g more 2"],
    b"MSG q.x 2 rep 2": [b"RMSG $G q.x + rep g 2", b"LMSG leafs $G q.x + rep g 0 2"],
    b"HMSG q.x 2 rep 12 14": [b"HMSG $G q.x + rep o g p 12 14"],
    b"HMSG q.x 2 12 14": [b"HMSG $G q.x | g 12 14"],
}
"""By the line that a client gets, those of a route that it comes from."""


@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
@pytest.mark.parametrize(
    ("line", "delivered"), [(line, delivered) for delivered, lines in TAKEN_IN.items() for line in lines]
)
def test_messages_are_taken_in(server: Server, line: bytes, delivered: bytes, end: bytes) -> None:
    remote = server.route()
    peer = server.peer(QUIET_WITH_HEADERS).send(b"SUB foo.* 1\r\nSUB q.* g 2\r\n")
    remote.heard()
    payload = (HEADERS if b" 12 14" in line else b"") + b"hi\r\n"
    remote.say(line + end + payload)
    assert peer.received() == (delivered + b"\r\n" + payload if delivered else b"")
    assert (remote.heard(), remote.reason) == (b"", CloseReason.NONE)


@pytest.mark.parametrize(
    "line",
    [
        *(b"RS+ $G", b"RS+ $G a q", b"RS+ $G a q 1 2", b"RS- $G a q 1", b"LS+ leafs $G"),
        *(b"RMSG $G a", b"RMSG $G a x", b"RMSG $G a -1", b"RMSG $G a ? q 1", b"RMSG $G a || q 1"),
        *(b"HMSG $G a 5 3", b"HMSG $G a x 3", b"HMSG $G a 1", b"LMSG leafs $G a 1"),
    ],
)
def test_words_that_make_no_sense_close_it_in_silence(server: Server, line: bytes) -> None:
    remote = server.route().say(line + b"\r\n")
    assert (remote.reason, remote.heard()) == (CloseReason.PROTOCOL_VIOLATION, b"")


@pytest.mark.parametrize(
    "line", [b"BOGUS", b"RX+ $G a", b"RS* $G a", b"SUB a 1", b"RS+", b"RMSG $G a 1\r\nxx"]
)
def test_what_is_no_op_closes_it(server: Server, line: bytes) -> None:
    remote = server.route().say(line + b"\r\n")
    answer = b"-ERR 'Unknown Protocol Operation'\r\n"
    assert (remote.reason, remote.heard()) == (CloseReason.PROTOCOL_VIOLATION, answer)


@pytest.mark.parametrize(
    ("line", "reason", "answer"),
    [
        (b"RMSG $G a 1048577", CloseReason.MAX_PAYLOAD_EXCEEDED, b"-ERR 'Maximum Payload Violation'\r\n"),
        (
            b"RS+ $G " + 70_000 * b"a",
            CloseReason.MAX_CONTROL_LINE_EXCEEDED,
            b"-ERR 'maximum control line exceeded'\r\n",
        ),
        (b"-ERR 'whatever'", CloseReason.PARSE_ERROR, b""),
    ],
)
def test_what_else_closes_it(server: Server, line: bytes, reason: CloseReason, answer: bytes) -> None:
    remote = server.route().say(line + b"\r\n")
    assert (remote.reason, remote.heard()) == (reason, answer)


def test_invalid_subjects_are_answered(server: Server) -> None:
    remote = server.route().say(b"RS+ $G a..b\r\nRS+ $G a.>.b\r\nPING\r\n")
    assert remote.heard() == b"-ERR 'Invalid Subscription'\r\n" * 2 + b"PONG\r\n"
    assert remote.link.subscriptions_count == 0


def test_unknown_accounts_are_asked_about_once(server: Server) -> None:
    remote = server.route().say(b"RS+ X a\r\nRS+ X b\r\nRMSG X a 1\r\nx\r\nRS- X a\r\nRS+ $G a\r\n")
    assert remote.session.called("account_interest") == [(b"X",)]
    assert remote.link.interest_rows() == [(b"$G", b"a", None, 1)]


def test_an_account_that_is_served_later_is_known(server: Server) -> None:
    remote = server.route().say(b"RS+ X a\r\n")
    remote.link.serve(b"X", server.account(b"X"))
    remote.say(b"RS+ X a\r\n")
    assert remote.link.interest_rows() == [(b"X", b"a", None, 1)]


def test_interest_is_taken_in_and_out(server: Server) -> None:
    remote = server.route()
    remote.say(
        b"RS+ $G a\r\nRS+ $G a\r\nRS+ $G b q 3\r\nRS+ $G b q 5\r\nrs+ $G c\r\nRS- $G c\r\nRS- $G d\r\n"
    )
    assert sorted(remote.link.interest_rows(), key=repr) == [(b"$G", b"a", None, 1), (b"$G", b"b", b"q", 5)]
    remote.say(b"RS- $G b q\r\nRS- $G a\r\n")
    assert remote.link.interest_rows() == []


def test_nothing_before_the_handshake(server: Server) -> None:
    remote = Remote(server).say(b"PING\r\nINFO {}\r\nRS+ $G a\r\n")
    assert remote.session.called("peer_info") == [(b"{}",)]
    assert (remote.heard(), remote.reason) == (b"PONG\r\n", CloseReason.PROTOCOL_VIOLATION)


def test_connect_may_be_due(server: Server) -> None:
    remote = Remote(server, must_connect=True).say(b"CONNECT {}\r\nPING\r\n")
    assert (remote.heard(), remote.session.called("connect")) == (b"PONG\r\n", [(b"{}",)])
    early = Remote(server, must_connect=True).say(b"INFO {}\r\n")
    assert (early.heard(), early.reason) == (
        b"-ERR 'Authorization Violation'\r\n",
        CloseReason.AUTHENTICATION_VIOLATION,
    )


def test_a_dedicated_route_names_no_account(server: Server) -> None:
    server.account(b"A")
    remote = server.route(b"A", dedicated=True).say(b"RS+ x\r\nRS+ y q 2\r\nLS+ leafs z\r\n")
    peer = server.peer(b"")
    peer.link.interest = server.accounts[b"A"]
    peer.send(QUIET_WITH_HEADERS + b"SUB mine 1\r\nSUB mine q 2\r\n")
    peer.send(b"PUB x 1\r\nx\r\nPUB y r 1\r\ny\r\nHPUB x 12 12\r\nNATS/1.0\r\n\r\n\r\n")
    assert remote.heard() == (
        b"RS+ mine\r\nRS+ mine q 1\r\nRMSG x 1\r\nx\r\nRMSG y + r q 1\r\ny\r\n"
        b"HMSG x 12 12\r\nNATS/1.0\r\n\r\n\r\n"
    )
    remote.say(b"RMSG mine 1\r\nx\r\nRMSG mine r 1\r\ny\r\n")
    remote.say(b"RMSG mine | q 1\r\nz\r\nLMSG leafs mine 0 0\r\n\r\nRS- x\r\n")
    assert peer.received() == (
        b"MSG mine 1 1\r\nx\r\nMSG mine 1 r 1\r\ny\r\n"
        b"MSG mine 1 1\r\nz\r\nMSG mine 2 1\r\nz\r\nMSG mine 1 0\r\n\r\n"
    )
    assert sorted(row[1] for row in remote.link.interest_rows()) == [b"y", b"z"]


def test_two_servers_are_one(server: Server) -> None:
    other = Server()
    here, there = server.route(), other.route()
    requestor = server.peer(NO_RESPONDERS).send(b"SUB in.* 5\r\n")
    responder = other.peer().send(b"SUB svc g 1\r\n")
    exchange((here, there))
    requestor.send(b"PUB svc in.1 1\r\nq\r\nPUB nobody in.2 0\r\n\r\n")
    exchange((here, there))
    assert responder.received() == b"MSG svc 1 in.1 1\r\nq\r\n"
    responder.send(b"PUB in.1 2\r\nok\r\n")
    exchange((here, there))
    nobody, answer = requestor.received().split(b"\r\n\r\n\r\n")
    assert nobody.startswith(b"HMSG in.2 5 ")
    assert answer == b"MSG in.1 5 2\r\nok\r\n"
    assert server.router.statistics()["remote_out_msgs"] == other.router.statistics()["remote_in_msgs"] == 1
    other.stop()


def test_a_route_that_ends_takes_its_interest_along(server: Server) -> None:
    remote = server.route().say(b"RS+ $G a\r\nRS+ $G b q 2\r\n")
    peer = server.peer(NO_RESPONDERS).send(b"SUB in 1\r\n")
    remote.link.detach()
    peer.send(b"PUB a in 0\r\n\r\nSUB more 2\r\n")
    assert b"503" in peer.received()
    assert server.interest.receivers(b"a") == (0, 0)


def test_routes_do_not_send_to_routes(server: Server) -> None:
    one, two = server.route(), server.route().say(b"RS+ $G a\r\n")
    one.say(b"RMSG $G a 1\r\nx\r\n")
    assert two.heard() == b""


def test_a_queue_that_is_gone_here_is_served_elsewhere(server: Server) -> None:
    one, two = server.route().say(b"RS+ $G a q 1\r\n"), server.route().say(b"RS+ $G a q 1\r\nRS+ $G a\r\n")
    one.say(b"RMSG $G a | q 1\r\nx\r\n")
    assert (one.heard(), two.heard()) == (b"", b"RMSG $G a | q 1\r\nx\r\n")
