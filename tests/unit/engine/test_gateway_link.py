"""Gateways, line by line: what is believed to be wanted there, what is told, how answers find back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from engine_peers import NO_RESPONDERS, QUIET_WITH_HEADERS, WAYS
from gateway_peers import A_HASH, B_HASH, COMPLETE, OTHER_HASH, OWN_HASH, PREFIX, START, GatewayServer
from route_peers import GLOBAL

from headrace.engine.gateway import GatewayLink, join_gateways, mapped_replies_count
from headrace.engine.interest import Interest
from headrace.engine.link import Router
from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from collections.abc import Iterator

SECOND = 1_000_000_000


@pytest.fixture(params=WAYS)
def server(request: pytest.FixtureRequest) -> Iterator[GatewayServer]:
    server = GatewayServer(request.param)
    yield server
    server.stop()


# ---- outbound: what is sent ---------------------------------------------------------------------


def test_before_interest_is_told_everything_is_sent(server: GatewayServer) -> None:
    gateway = server.gateway()
    server.peer().send(b"PUB a.b 1\r\nx\r\n")
    assert gateway.heard() == b"RMSG $G a.b 1\r\nx\r\n"


def test_a_peer_that_tells_everything_is_sent_nothing_before_it_has(server: GatewayServer) -> None:
    gateway = server.gateway(interest_only=True)
    peer = server.peer().send(b"PUB a 1\r\nx\r\n")
    assert gateway.heard() == b""
    gateway.link.switch(GLOBAL, complete=False)
    gateway.say(b"RS+ $G a\r\n")
    peer.send(b"PUB a 1\r\nx\r\nPUB b 1\r\nx\r\n")
    assert gateway.heard() == b"RMSG $G a 1\r\nx\r\n"


def test_a_refused_subject_is_not_sent_until_it_is_taken_back(server: GatewayServer) -> None:
    gateway = server.gateway().say(b"RS- $G a.b\r\nRS- $G a.b\r\n")
    peer = server.peer().send(b"PUB a.b 1\r\nx\r\nPUB a.c 1\r\ny\r\n")
    assert gateway.heard() == b"RMSG $G a.c 1\r\ny\r\n"
    assert gateway.link.views() == [(GLOBAL, 0, 1, 0, 0)]
    gateway.say(b"RS+ $G a.*\r\n")
    peer.send(b"PUB a.b 1\r\nx\r\n")
    assert gateway.heard() == b"RMSG $G a.b 1\r\nx\r\n"
    assert gateway.link.views() == [(GLOBAL, 0, 0, 0, 0)]


@pytest.mark.parametrize(
    ("pattern", "takes_back"),
    [
        (b"a.b.c", True),
        (b"a.>", True),
        (b">", True),
        (b"a.*.c", True),
        (b"*.*.*", True),
        (b"a.*", False),
        (b"a.b", False),
        (b"a.b.c.>", False),
        (b"a.b.c.d", False),
        (b"*.b", False),
        (b"a.b*.c", False),
        (b"a.b.", False),
    ],
)
def test_a_pattern_takes_back_what_it_covers(pattern: bytes, takes_back: bool) -> None:
    server = GatewayServer()
    gateway = server.gateway().say(b"RS- $G a.b.c\r\nRS+ $G " + pattern + b"\r\n")
    assert gateway.link.views()[0][2] == (0 if takes_back else 1)
    server.stop()


def test_after_an_account_is_off_nothing_is_sent(server: GatewayServer) -> None:
    server.account(b"ACC")
    gateway = server.gateway(GLOBAL, b"ACC").say(b"A- $G\r\n")
    here, there = server.peer(), server.client_of(b"ACC")
    here.send(b"PUB a 1\r\nx\r\n")
    there.send(b"PUB a 1\r\ny\r\n")
    assert gateway.heard() == b"RMSG ACC a 1\r\ny\r\n"
    gateway.say(b"A+ $G\r\n")
    here.send(b"PUB a 1\r\nx\r\n")
    assert gateway.heard() == b"RMSG $G a 1\r\nx\r\n"


def test_queue_interest_brings_an_account_back(server: GatewayServer) -> None:
    gateway = server.gateway().say(b"A- $G\r\nRS+ $G a1\r\n")
    peer = server.peer().send(b"PUB a1 1\r\nx\r\n")
    assert gateway.heard() == b""  # as the reference server has it: only A+ and queue groups count
    gateway.say(b"RS+ $G q grp 1\r\n")
    peer.send(b"PUB q 1\r\nx\r\n")
    assert gateway.heard() == b"RMSG $G q | grp 1\r\nx\r\n"


def test_only_what_is_wanted_is_sent_once_everything_is_told(server: GatewayServer) -> None:
    gateway = server.gateway().say(b"RS- $G gone\r\n").switched().say(b"RS+ $G a.*\r\nRS+ $G gone\r\n")
    peer = server.peer().send(b"PUB a.b 1\r\nx\r\nPUB b 1\r\ny\r\nPUB gone 1\r\nz\r\n")
    assert gateway.heard() == b"RMSG $G a.b 1\r\nx\r\nRMSG $G gone 1\r\nz\r\n"
    gateway.say(b"RS- $G a.*\r\n")
    peer.send(b"PUB a.b 1\r\nx\r\n")
    assert gateway.heard() == b""
    assert gateway.link.views() == [(GLOBAL, 2, 0, 1, 0)]
    assert gateway.link.interest_rows() == [(GLOBAL, b"gone", None)]


def test_interest_told_again_counts_once(server: GatewayServer) -> None:
    gateway = server.gateway().switched().say(b"RS+ $G a\r\nRS+ $G a\r\nRS+ $G a g 1\r\nRS+ $G a g 1\r\n")
    assert gateway.link.views() == [(GLOBAL, 2, 0, 1, 1)]
    gateway.say(b"RS- $G a\r\nRS- $G a\r\nRS- $G a g\r\nRS- $G a g\r\n")
    assert gateway.link.views() == [(GLOBAL, 2, 0, 0, 0)]


def test_groups_served_here_are_not_named(server: GatewayServer) -> None:
    gateway = server.gateway().switched().say(b"RS+ $G w one 1\r\nRS+ $G w two 1\r\n")
    peer = server.peer().send(b"SUB w one 1\r\nPUB w 1\r\nx\r\nPUB w re 1\r\ny\r\n")
    server.router.now += 3 * SECOND
    assert gateway.heard().replace(PREFIX, b"") == b"RMSG $G w | two 1\r\nx\r\nRMSG $G w + re two 1\r\ny\r\n"
    assert peer.received() == b"MSG w 1 1\r\nx\r\nMSG w 1 re 1\r\ny\r\n"


def test_each_group_is_served_by_one_cluster(server: GatewayServer) -> None:
    first = server.gateway().switched().say(b"RS+ $G w one 1\r\nRS+ $G w two 1\r\n")
    second = server.gateway(cluster=b"CCCCCC").switched().say(b"RS+ $G w two 1\r\nRS+ $G w three 1\r\n")
    peer = server.peer().send(b"PUB w 1\r\nx\r\n")
    assert sorted(first.heard().split()[4:6]) == [b"one", b"two"]
    assert second.heard() == b"RMSG $G w | three 1\r\nx\r\n"
    for gateway in (second, first):
        gateway.link.stand_behind([GLOBAL])
    peer.send(b"PUB w 1\r\nx\r\n")
    assert sorted(second.heard().split()[4:6]) == [b"three", b"two"]
    assert first.heard() == b"RMSG $G w | one 1\r\nx\r\n"


def test_nobody_there_is_known_only_when_everything_is_told(server: GatewayServer) -> None:
    gateway = server.gateway()
    peer = server.peer(NO_RESPONDERS).send(b"SUB in 1\r\nPUB svc in 1\r\nx\r\n")
    assert peer.received() == b""
    gateway.switched()
    peer.send(b"PUB svc in 1\r\nx\r\n")
    assert peer.received().startswith(b"HMSG in 1 ")


def test_headers_are_taken_off_for_a_peer_without(server: GatewayServer) -> None:
    gateway = server.gateway(headers=False)
    server.peer(QUIET_WITH_HEADERS).send(b"HPUB a 12 13\r\nNATS/1.0\r\n\r\nx\r\n")
    assert gateway.heard() == b"RMSG $G a 1\r\nx\r\n"


def test_an_account_that_is_not_here_is_asked_for_once(server: GatewayServer) -> None:
    gateway = server.gateway().say(b"RS+ NO a\r\nRS- NO a\r\nA- NO\r\nA+ NO\r\n")
    assert gateway.session.called("account_interest").count((b"NO",)) == 1
    assert gateway.reason is CloseReason.NONE


def test_an_account_that_ends_is_forgotten(server: GatewayServer) -> None:
    gateway = server.gateway().switched().say(b"RS+ $G a\r\nRS+ $G b g 1\r\n")
    gateway.link.withdraw(GLOBAL)
    server.peer().send(b"PUB a 1\r\nx\r\n")
    assert gateway.heard() == b""
    assert gateway.link.interest_rows() == gateway.link.views() == []


def test_many_accounts_come_and_go(server: GatewayServer) -> None:
    names = [b"ACC%d" % number for number in range(40)]
    for name in names:
        server.account(name)
    gateway = server.gateway(*names)
    for name in names[::2]:
        gateway.link.withdraw(name)
    assert sorted(row[0] for row in gateway.link.views()) == sorted(names[1::2])
    for name in names[1::2]:
        server.client_of(name).send(b"PUB a 1\r\nx\r\n")
        assert gateway.heard() == b"RMSG " + name + b" a 1\r\nx\r\n"


# ---- inbound: what is told ----------------------------------------------------------------------


def test_all_that_is_wanted_is_told_between_the_commands(server: GatewayServer) -> None:
    server.peer().send(b"SUB a 1\r\nSUB a 2\r\nSUB b g 3\r\nSUB b g 4\r\nSUB x.> 6\r\n")
    gateway = server.gateway(outbound=False)
    told = gateway.heard()
    assert told.startswith(START)
    assert told.endswith(COMPLETE)
    lines = told.removeprefix(START).removesuffix(COMPLETE).splitlines()
    assert sorted(lines) == [b"RS+ $G a", b"RS+ $G b g 1", b"RS+ $G x.>"]


def test_first_and_last_are_told(server: GatewayServer) -> None:
    gateway = server.gateway(outbound=False)
    gateway.heard()
    peer = server.peer().send(b"SUB a 1\r\nSUB a 2\r\nSUB w g 3\r\nSUB w g 4\r\n")
    assert gateway.heard() == b"RS+ $G a\r\nRS+ $G w g 1\r\n"
    peer.send(b"UNSUB 1\r\nUNSUB 3\r\n")
    assert gateway.heard() == b""
    peer.send(b"UNSUB 2\r\nUNSUB 4\r\n")
    assert gateway.heard() == b"RS- $G a\r\nRS- $G w g\r\n"


def test_the_whole_cluster_counts(server: GatewayServer) -> None:
    gateway, route = server.gateway(outbound=False), server.route()
    gateway.heard()
    peer = server.peer().send(b"SUB a 1\r\n")
    route.say(b"RS+ $G a\r\nRS+ $G w g 2\r\n")
    assert gateway.heard() == b"RS+ $G a\r\nRS+ $G w g 1\r\n"
    peer.send(b"UNSUB 1\r\nSUB w g 2\r\n")
    route.say(b"RS+ $G w g 5\r\n")
    assert gateway.heard() == b""
    route.say(b"RS- $G a\r\nRS- $G w g\r\n")
    assert gateway.heard() == b"RS- $G a\r\n"
    peer.send(b"UNSUB 2\r\n")
    assert gateway.heard() == b"RS- $G w g\r\n"


def test_what_another_cluster_wants_is_told_to_nobody(server: GatewayServer) -> None:
    inbound, route = server.gateway(outbound=False), server.route()
    inbound.heard()
    server.gateway().switched().say(b"RS+ $G a\r\nRS+ $G w g 1\r\n")
    assert inbound.heard() == route.heard() == b""


def test_interest_stands_before_the_message_it_is_for(server: GatewayServer) -> None:
    inbound = server.gateway(outbound=False)
    inbound.heard()
    server.peer().send(b"SUB in 1\r\n")
    assert inbound.heard() == b"RS+ $G in\r\n"


def test_an_account_that_ends_wants_nothing(server: GatewayServer) -> None:
    server.peer().send(b"SUB a 1\r\nSUB w g 2\r\n")
    gateway = server.gateway(outbound=False)
    gateway.heard()
    gateway.link.withdraw(GLOBAL)
    assert sorted(gateway.heard().splitlines()) == [b"RS- $G a", b"RS- $G w g"]


# ---- inbound: messages --------------------------------------------------------------------------


def test_messages_reach_clients_and_routes_and_no_gateway(server: GatewayServer) -> None:
    inbound, outbound, route = server.gateway(outbound=False), server.gateway(), server.route()
    route.say(b"RS+ $G a\r\n").heard()
    peer = server.peer().send(b"SUB a 1\r\n")
    route.heard()
    inbound.say(b"RMSG $G a 2\r\nhi\r\n")
    assert peer.received() == b"MSG a 1 2\r\nhi\r\n"
    assert route.heard() == b"RMSG $G a 2\r\nhi\r\n"
    assert outbound.heard() == b""


def test_queue_groups_get_what_names_them(server: GatewayServer) -> None:
    inbound = server.gateway(outbound=False)
    peer = server.peer().send(b"SUB q g 2\r\n")
    inbound.say(b"RMSG $G q | g 2\r\nhi\r\nRMSG $G q + rr g 2\r\nhi\r\nRMSG $G q 2\r\nno\r\n")
    assert peer.received() == b"MSG q 2 2\r\nhi\r\nMSG q 2 rr 2\r\nhi\r\n"


# ---- answers ------------------------------------------------------------------------------------


def test_a_reply_subject_is_mapped_for_who_has_just_subscribed(server: GatewayServer) -> None:
    gateway = server.gateway(cluster=B_HASH)
    peer = server.peer().send(b"SUB in 1\r\nPUB svc in 1\r\nx\r\n")
    assert gateway.heard() == b"RMSG $G svc " + PREFIX + b"in 1\r\nx\r\n"
    server.router.now += 3 * SECOND
    peer.send(b"PUB svc in 1\r\nx\r\n")
    assert gateway.heard() == b"RMSG $G svc in 1\r\nx\r\n"


def test_an_answer_goes_back_whence_the_question_came(server: GatewayServer) -> None:
    inbound, outbound = server.gateway(outbound=False), server.gateway().switched()
    other = server.gateway(cluster=b"CCCCCC")
    peer = server.peer().send(b"SUB svc 1\r\n")
    asked = b"_GR_.BBBBBB.SRVxyz.in"
    inbound.say(b"RMSG $G svc " + asked + b" 1\r\nq\r\n")
    assert peer.received() == b"MSG svc 1 in 1\r\nq\r\n"
    assert mapped_replies_count(server.router) == 1
    peer.send(b"PUB in 1\r\na\r\n")
    assert outbound.heard() == b"RMSG $G " + asked + b" 1\r\na\r\n"
    assert other.heard() == b""


def test_only_who_was_asked_answers(server: GatewayServer) -> None:
    inbound, outbound = server.gateway(outbound=False), server.gateway().switched()
    server.peer().send(b"SUB svc 1\r\n")
    stranger = server.peer()
    inbound.say(b"RMSG $G svc _GR_.BBBBBB.SRVxyz.in 1\r\nq\r\n")
    stranger.send(b"PUB in 1\r\na\r\n")
    assert outbound.heard() == b""


def test_a_late_answer_goes_where_it_is_wanted(server: GatewayServer) -> None:
    inbound, outbound = server.gateway(outbound=False), server.gateway().switched()
    outbound.say(b"RS+ $G in\r\n")
    peer = server.peer().send(b"SUB svc 1\r\n")
    inbound.say(b"RMSG $G svc _GR_.BBBBBB.SRVxyz.in 1\r\nq\r\n")
    server.router.now += 6 * SECOND
    peer.send(b"PUB in 1\r\na\r\n")
    assert mapped_replies_count(server.router) == 0
    assert outbound.heard() == b"RMSG $G in 1\r\na\r\n"


def test_questions_that_are_remembered_have_a_bound(server: GatewayServer) -> None:
    inbound = server.gateway(outbound=False)
    server.peer().send(b"SUB svc 1\r\n")
    lines = b"".join(b"RMSG $G svc _GR_.BBBBBB.SRVxyz.in%d 0\r\n\r\n" % number for number in range(70_000))
    inbound.link.feed(lines)
    server.end_tick()
    assert mapped_replies_count(server.router) == 1 << 16


def test_other_servers_get_the_whole_reply_subject(server: GatewayServer) -> None:
    inbound, route = server.gateway(outbound=False), server.route()
    route.say(b"RS+ $G svc\r\nRS+ $G w g 1\r\n").heard()
    inbound.say(
        b"RMSG $G svc _GR_.BBBBBB.SRVxyz.in 1\r\nq\r\nRMSG $G w + _GR_.BBBBBB.SRVxyz.in g 1\r\nq\r\n"
        b"HMSG $G svc _GR_.BBBBBB.SRVxyz.in 12 13\r\nNATS/1.0\r\n\r\nq\r\n"
    )
    assert route.heard() == (
        b"RMSG $G svc _GR_.BBBBBB.SRVxyz.in 1\r\nq\r\nRMSG $G w + _GR_.BBBBBB.SRVxyz.in g 1\r\nq\r\n"
        b"HMSG $G svc _GR_.BBBBBB.SRVxyz.in 12 13\r\nNATS/1.0\r\n\r\nq\r\n"
    )


def test_a_question_over_a_route_is_answered_over_the_gateway(server: GatewayServer) -> None:
    route, outbound = server.route(), server.gateway().switched()
    peer = server.peer().send(b"SUB svc 1\r\nSUB w g 2\r\n")
    route.say(b"RMSG $G svc _GR_.BBBBBB.SRVxyz.in 1\r\nq\r\nRMSG $G w + _GR_.BBBBBB.SRVxyz.w g 1\r\nq\r\n")
    assert peer.received() == b"MSG svc 1 in 1\r\nq\r\nMSG w 2 w 1\r\nq\r\n"
    peer.send(b"PUB in 1\r\na\r\nPUB w 1\r\na\r\n")
    assert outbound.heard() == (
        b"RMSG $G _GR_.BBBBBB.SRVxyz.in 1\r\na\r\nRMSG $G _GR_.BBBBBB.SRVxyz.w 1\r\na\r\n"
    )


def test_an_answer_is_delivered_here(server: GatewayServer) -> None:
    inbound = server.gateway(outbound=False)
    peer = server.peer().send(b"SUB in 1\r\nSUB in g 2\r\n")
    inbound.say(b"RMSG $G " + PREFIX + b"in 1\r\na\r\n")
    assert sorted(peer.received().splitlines()[::2]) == [b"MSG in 1 1", b"MSG in 2 1"]


def test_an_answer_is_passed_on_to_the_server_that_asked(server: GatewayServer) -> None:
    inbound, route = server.gateway(outbound=False), server.route()
    route.link.configure(headers=True, has_origin=True, origin_unsub=True, server_hash=OTHER_HASH)
    peer = server.peer().send(b"SUB in 1\r\n")
    route.heard()
    inbound.say(b"RMSG $G _GR_." + A_HASH + b"." + OTHER_HASH + b".in 1\r\na\r\n")
    assert route.heard() == b"RMSG $G _GR_." + A_HASH + b"." + OTHER_HASH + b".in 1\r\na\r\n"
    assert peer.received() == b""
    inbound.say(b"RMSG $G _GR_." + A_HASH + b".nobody.in 1\r\na\r\n")
    assert (route.heard(), peer.received()) == (b"", b"MSG in 1 1\r\na\r\n")


def test_an_answer_over_a_route_is_delivered_and_offered(server: GatewayServer) -> None:
    route, outbound = server.route(), server.gateway().switched().say(b"RS+ $G in\r\n")
    peer = server.peer().send(b"SUB in 1\r\n")
    route.heard()
    route.say(b"RMSG $G " + PREFIX + b"in 1\r\na\r\n")
    assert peer.received() == b"MSG in 1 1\r\na\r\n"
    assert outbound.heard() == b"RMSG $G in 1\r\na\r\n"


def test_an_answer_for_another_cluster_goes_no_further(server: GatewayServer) -> None:
    inbound, route = server.gateway(outbound=False), server.route()
    peer = server.peer().send(b"SUB in 1\r\nSUB > 2\r\n")
    inbound.say(b"RMSG $G _GR_.BBBBBB.SRVone.in 1\r\na\r\n")
    route.say(b"RMSG $G _GR_.BBBBBB.SRVone.in 1\r\na\r\n")
    assert peer.received() == b""


@pytest.mark.parametrize("subject", [b"_GR_.in", b"_GR_.NUmM6c.SRVone.", b"_GR_.NUmM6c-SRVone.in"])
def test_what_only_looks_like_such_a_subject_is_one_of_many(server: GatewayServer, subject: bytes) -> None:
    inbound = server.gateway(outbound=False)
    peer = server.peer().send(b"SUB _GR_.> 1\r\n")
    inbound.say(b"RMSG $G " + subject + b" 1\r\na\r\n")
    assert peer.received() == (b"" if subject.endswith(b".") else b"MSG " + subject + b" 1 1\r\na\r\n")


def test_a_shown_subject_survives_the_way_back(server: GatewayServer) -> None:
    inbound, route = server.gateway(outbound=False), server.route()
    route.say(b"RS+ $G inbox\r\n").heard()
    peer = server.peer().send(b"SUB inbox 1\r\n")
    route.heard()
    ack = b"_GR_.BBBBBB.SRVxyz.$JS.ACK.d.a.S.C.1.1.1.1.0@orders.new"
    inbound.say(b"RMSG $G inbox " + ack + b" 1\r\nx\r\n")
    assert peer.received() == b"MSG orders.new 1 $JS.ACK.d.a.S.C.1.1.1.1.0 1\r\nx\r\n"
    assert route.heard() == b"RMSG $G inbox " + ack + b" 1\r\nx\r\n"


# ---- what is wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [b"RS+ $G a\r\n", b"RS- $G a\r\n", b"A+ $G\r\n", b"A- $G\r\n"])
def test_interest_from_who_sends_is_refused(server: GatewayServer, line: bytes) -> None:
    gateway = server.gateway(outbound=False).say(line)
    assert gateway.reason is CloseReason.PROTOCOL_VIOLATION
    assert gateway.session.called("wrong_side") == [(line.split()[0].decode(),)]


def test_messages_from_who_is_sent_are_refused(server: GatewayServer) -> None:
    gateway = server.gateway().say(b"RMSG $G a 1\r\nx\r\n")
    assert gateway.reason is CloseReason.PROTOCOL_VIOLATION
    assert gateway.session.called("wrong_side") == [("RMSG",)]


@pytest.mark.parametrize(
    "line",
    [
        b"RS+\r\n",
        b"RS+ \r\n",
        b"RS+ $G a g\r\n",
        b"RS+ $G a g 1 2\r\n",
        b"RS- $G\r\n",
        b"RS- $G a g 1\r\n",
        b"A- \r\n",
        b"A+ $G x\r\n",
        b"A* $G\r\n",
        b"LS+ $G a\r\n",
        b"RS* $G a\r\n",
        b"SUB a 1\r\n",
    ],
)
def test_bad_interest_closes(server: GatewayServer, line: bytes) -> None:
    gateway = server.gateway().say(line)
    assert gateway.reason in (CloseReason.PARSE_ERROR, CloseReason.PROTOCOL_VIOLATION)


@pytest.mark.parametrize("subject", [b"a..b", b".", b"a.", b"a.>.b"])
def test_subjects_that_are_none_are_not_taken(server: GatewayServer, subject: bytes) -> None:
    gateway = server.gateway().switched().say(b"RS+ $G " + subject + b"\r\n")
    assert gateway.heard() == b"-ERR 'Invalid Subscription'\r\n"
    assert gateway.link.interest_rows() == []


@pytest.mark.parametrize(
    "data",
    [
        b"RMSG $G a x\r\n",
        b"RMSG $G\r\n",
        b"RMSG $G a -1\r\n",
        b"RMSG $G a r r 1\r\n",
        b"HMSG $G a 5 3\r\nabc\r\n",
        b"RMSG $G a 1\r\nxyz\r\n",
        b"RMSG $G a 2000000\r\n",
        b"RMSG " + b"a" * 70_000 + b"\r\n",
    ],
)
def test_bad_messages_close(server: GatewayServer, data: bytes) -> None:
    gateway = server.gateway(outbound=False).say(data)
    assert gateway.reason is not CloseReason.NONE


def test_nothing_but_connect_comes_first(server: GatewayServer) -> None:
    from gateway_peers import Gateway

    gateway = Gateway(server, outbound=False, must_connect=True).say(b"PING\r\n")
    assert gateway.reason is CloseReason.AUTHENTICATION_VIOLATION
    early = Gateway(server, outbound=True).say(b"RS+ $G a\r\n")
    assert early.reason is CloseReason.PROTOCOL_VIOLATION


def test_so_many_refusals_and_no_more_are_kept() -> None:
    server = GatewayServer()
    gateway = server.gateway()
    gateway.link.feed(b"".join(b"RS- $G s.%d\r\n" % number for number in range(20_000)))
    assert gateway.link.views()[0][2] == 1 << 14
    assert gateway.reason is CloseReason.NONE
    server.stop()


def test_a_connection_that_ends_gives_everything_back(engine_balance: None) -> None:
    server = GatewayServer()
    gateway = server.gateway().say(b"RS- $G a\r\nRS+ $G q g 1\r\n").switched().say(b"RS+ $G b.>\r\n")
    server.peer().send(b"SUB in 1\r\nPUB b.c in 1\r\nx\r\n")
    gateway.link.detach()
    server.peer().send(b"PUB b.c 1\r\nx\r\n")
    server.stop()


def test_arguments_are_checked() -> None:
    router = Router()
    with pytest.raises(ValueError, match="six characters"):
        join_gateways(router, b"x", OWN_HASH)
    link = GatewayLink(router, None, is_outbound=True)
    with pytest.raises(ValueError, match="six characters"):
        link.configure(headers=True)
    interest = Interest()
    interest.account = b"A"
    with pytest.raises(ValueError, match="not that of"):
        link.serve(b"B", interest)
