"""What a bridge carries between peers of 1.x and of 2.x, line by line: once to each, never back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from engine_peers import WAYS
from route_peers import GLOBAL, Server

from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from route_peers import Remote

OLD_SIDE, NEW_SIDE = 1, 2


@pytest.fixture(params=WAYS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    server = Server(request.param)
    yield server
    server.stop()


def old(server: Server) -> Remote:
    remote = server.legacy_route()
    remote.link.take_side(OLD_SIDE)
    remote.heard()
    return remote


def new(server: Server) -> Remote:
    remote = server.route()
    remote.link.take_side(NEW_SIDE)
    remote.heard()
    return remote


# ---- interest -----------------------------------------------------------------------------------


def test_each_side_is_told_what_the_other_wants(server: Server) -> None:
    one, other = old(server), new(server)
    one.say(b"SUB a  RSID:7:1\r\nSUB a  RSID:7:2\r\nSUB w q QRSID:7:3\r\nSUB w q QRSID:7:4\r\n")
    assert other.heard() == b"RS+ $G a\r\nRS+ $G w q 1\r\nRS+ $G w q 2\r\n"
    one.say(b"UNSUB RSID:7:1\r\nUNSUB QRSID:7:3\r\nUNSUB RSID:7:2\r\nUNSUB QRSID:7:4\r\n")
    assert other.heard() == b"RS+ $G w q 1\r\nRS- $G a\r\nRS- $G w q\r\n"
    other.say(b"RS+ $G b\r\nRS+ $G v q 5\r\nRS+ $G v q 6\r\n")
    assert one.heard() == b"SUB b  RSID:0:1\r\nSUB v  RSID:0:2\r\n"
    other.say(b"RS+ $G v q 0\r\nRS- $G v q\r\nRS- $G b\r\n")
    assert one.heard() == b"UNSUB RSID:0:2\r\nUNSUB RSID:0:1\r\n"


def test_what_is_wanted_here_too_counts_once(server: Server) -> None:
    one, other = old(server), new(server)
    client = server.peer().send(b"SUB a 1\r\nSUB w q 2\r\n")
    other.heard()
    one.say(b"SUB a  RSID:7:1\r\nSUB w q QRSID:7:2\r\n")
    assert other.heard() == b"RS+ $G w q 2\r\n"
    client.send(b"UNSUB 1\r\nUNSUB 2\r\n")
    assert other.heard() == b"RS+ $G w q 1\r\n"
    one.say(b"UNSUB RSID:7:1\r\n")
    assert other.heard() == b"RS- $G a\r\n"


def test_nobody_is_told_of_its_own_side_nor_of_who_is_on_none(server: Server) -> None:
    ones, others, neither = [old(server), old(server)], [new(server), new(server)], server.route()
    ones[0].say(b"SUB old  RSID:7:1\r\n")
    others[0].say(b"RS+ $G new\r\n")
    neither.say(b"RS+ $G both\r\n")
    assert [remote.heard() for remote in ones] == [b"SUB new  RSID:0:1\r\n"] * 2
    assert [remote.heard() for remote in others] == [b"RS+ $G old\r\n"] * 2
    assert neither.heard() == b""


def test_a_side_is_taken_and_left_with_all_that_was_told(server: Server) -> None:
    one, other = server.legacy_route(), server.route()
    one.say(b"SUB a  RSID:7:1\r\nSUB b  RSID:7:2\r\nSUB w q QRSID:7:3\r\n")
    other.say(b"RS+ $G b\r\nRS+ $G c\r\nRS+ $G w q 2\r\n")
    server.peer().send(b"SUB b 1\r\nSUB w q 2\r\n")
    one.heard()
    other.heard()
    for _ in range(2):
        one.link.take_side(OLD_SIDE)
        assert (one.heard(), other.heard()) == (b"", b"")
        other.link.take_side(NEW_SIDE)
        other.link.take_side(NEW_SIDE)
        told = sorted(re.sub(rb"\d+$", b"N", line) for line in one.heard().splitlines())
        assert told == [b"SUB b  RSID:0:N", b"SUB c  RSID:0:N", b"SUB w  RSID:0:N"]
        # What is told again says nothing new.
        assert set(other.heard().splitlines()) == {b"RS+ $G a", b"RS+ $G b", b"RS+ $G w q 2"}
        one.link.take_side(0)
        assert one.heard().count(b"UNSUB RSID:0:") == 3
        assert set(other.heard().splitlines()) == {b"RS- $G a", b"RS+ $G b", b"RS+ $G w q 1"}
        other.link.take_side(0)
        assert (one.heard(), other.heard()) == (b"", b"")


def test_the_end_of_a_peer_is_told_across(server: Server) -> None:
    one, other = old(server), new(server)
    one.say(b"SUB a  RSID:7:1\r\n")
    other.say(b"RS+ $G b\r\n")
    one.heard()
    other.heard()
    other.link.detach()
    server.end_tick()
    assert one.heard() == b"UNSUB RSID:0:1\r\n"
    another = new(server)
    another.link.take_side(0)
    another.link.take_side(NEW_SIDE)
    another.heard()
    one.link.detach()
    server.end_tick()
    assert another.heard() == b"RS- $G a\r\n"


def test_only_what_may_be_imported_is_told(server: Server) -> None:
    one, other = old(server), new(server)
    for remote in (one, other):
        remote.link.restrict(lambda subject: not subject.startswith(b"secret"), None)
    one.say(b"SUB secret.a  RSID:7:1\r\nSUB open  RSID:7:2\r\n")
    other.say(b"RS+ $G secret.b\r\nRS+ $G free\r\n")
    assert (one.heard(), other.heard()) == (b"SUB free  RSID:0:1\r\n", b"RS+ $G open\r\n")


# ---- messages -----------------------------------------------------------------------------------


def test_messages_cross_once_and_stay_on_their_side_else(server: Server) -> None:
    ones, others, neither = [old(server), old(server)], [new(server), new(server)], server.route()
    for remote in ones:
        remote.say(b"SUB a  RSID:7:1\r\nSUB *  RSID:7:2\r\n")
    for remote in (*others, neither):
        remote.say(b"RS+ $G a\r\nRS+ $G *\r\n")
    client = server.peer().send(b"SUB a 1\r\n")
    for remote in (*ones, *others, neither):
        remote.heard()
    ones[0].say(b"MSG a RSID:9:9 reply 2\r\nhi\r\n")
    assert [remote.heard() for remote in ones] == [b"", b""]
    assert [remote.heard() for remote in others] == [b"RMSG $G a reply 2\r\nhi\r\n"] * 2
    assert neither.heard() == b""
    others[1].say(b"HMSG $G a reply 12 14\r\nNATS/1.0\r\n\r\nhi\r\n")
    assert [re.sub(rb":[12] ", b":N ", remote.heard()) for remote in ones] == [
        b"MSG a RSID:7:N reply 2\r\nhi\r\n"
    ] * 2
    assert [remote.heard() for remote in others] == [b"", b""]
    neither.say(b"RMSG $G a 2\r\nhi\r\n")
    assert [remote.heard() for remote in (*ones, *others)] == [b""] * 4
    assert client.received().count(b"hi") == 3


def test_other_accounts_stay_on_their_side(server: Server) -> None:
    server.account(b"A")
    one = old(server)
    other = server.route(GLOBAL, b"A")
    other.link.take_side(NEW_SIDE)
    other.say(b"RS+ A a\r\n")
    assert one.heard() == b""
    one.say(b"SUB a  RSID:7:1\r\n")
    assert other.heard() == b"RS+ $G a\r\n"
    other.say(b"RMSG A a 1\r\nx\r\n")
    assert one.heard() == b""


def test_a_group_gets_a_message_of_2x_by_weight(server: Server) -> None:
    one, other = old(server), new(server)
    one.say(b"SUB w q QRSID:7:1\r\nSUB w q QRSID:7:2\r\nSUB w  RSID:7:3\r\n")
    member = server.peer().send(b"SUB w q 1\r\n")
    one.heard()
    assert other.heard().endswith(b"RS+ $G w q 3\r\n")
    other.say(b"RMSG $G w | q 1\r\nx\r\n" * 300)
    across = one.heard()
    assert across.count(b"MSG w RSID:7:3 ") == 300
    shares = [across.count(b"QRSID:7:1 "), across.count(b"QRSID:7:2 "), member.received().count(b"MSG w 1 ")]
    assert sum(shares) == 300
    assert all(50 < share < 150 for share in shares), shares
    other.say(b"RMSG $G w 1\r\nx\r\n")
    assert b"QRSID" not in one.heard()  # it asks for no group


def test_a_group_of_2x_gets_a_message_of_1x_where_its_sender_knows_nobody_of_it(server: Server) -> None:
    one, others = old(server), [new(server), new(server)]
    others[0].say(b"RS+ $G w q 1\r\nRS+ $G w\r\n")
    others[1].say(b"RS+ $G * q 3\r\n")
    one.say(b"MSG w RSID:0:1 1\r\nx\r\n" * 400)
    heard = [remote.heard() for remote in others]
    assert heard[0].count(b"RMSG $G w ") == 400
    shares = [remote.count(b"RMSG $G w | q ") for remote in heard]
    assert sum(shares) == 400
    assert 50 < shares[0] < 150, shares


def test_a_member_of_2x_that_is_being_closed_is_no_hindrance_to_another(server: Server) -> None:
    one, closing, other = old(server), new(server), new(server)
    closing.say(b"RS+ $G w q 1\r\n")
    other.say(b"RS+ $G w q 1\r\n")
    closing.link.doom(CloseReason.CLIENT_CLOSED)
    one.say(b"MSG w RSID:0:1 1\r\nx\r\n")
    assert other.heard() == b"RMSG $G w | q 1\r\nx\r\n"


@pytest.mark.parametrize("where", ["here", "at the sender", "at a third", "at one that speaks both"])
def test_a_group_that_the_sender_knows_is_left_to_it(server: Server, where: str) -> None:
    one, third, both, other = old(server), old(server), server.route(), new(server)
    other.say(b"RS+ $G w q 1\r\nRS+ $G w\r\n")
    if where == "here":
        server.peer().send(b"SUB w q 1\r\n")
    elif where == "at one that speaks both":
        both.say(b"RS+ $G w q 1\r\n")
    else:
        (one if where == "at the sender" else third).say(b"SUB w q QRSID:7:1\r\n")
    other.heard()
    one.say(b"MSG w RSID:0:1 1\r\nx\r\n" * 10)
    assert other.heard() == b"RMSG $G w 1\r\nx\r\n" * 10
    assert b"MSG" not in third.heard()


def test_members_that_weigh_nothing_or_are_gone_are_nobody(server: Server) -> None:
    one, both, other = old(server), server.route(), new(server)
    other.say(b"RS+ $G w q 1\r\n")
    both.say(b"RS+ $G w q 1\r\nRS+ $G w q 0\r\n")
    one.say(b"MSG w RSID:0:1 1\r\nx\r\n")
    assert other.heard() == b"RMSG $G w | q 1\r\nx\r\n"
    other.say(b"RS+ $G w q 0\r\n")
    one.say(b"MSG w RSID:0:1 1\r\nx\r\n")
    assert other.heard() == b""


def test_who_was_asked_for_and_left_is_replaced_on_its_own_side_first(server: Server) -> None:
    one, other, third = old(server), new(server), old(server)
    member = server.peer().send(b"SUB w q 5\r\n")
    (rsid,) = re.findall(rb"QRSID:\S+", one.heard())
    other.say(b"RS+ $G w q 1\r\n")
    third.say(b"SUB w q QRSID:7:1\r\n")
    member.send(b"UNSUB 5\r\n")
    for remote in (one, other, third):
        remote.heard()
    one.say(b"MSG w %b 1\r\nx\r\n" % rsid)
    assert (other.heard(), third.heard()) == (b"", b"MSG w QRSID:7:1 1\r\nx\r\n")
    third.say(b"UNSUB QRSID:7:1\r\n")
    one.say(b"MSG w %b 1\r\nx\r\n" % rsid)
    assert b"RMSG $G w | q 1\r\nx\r\n" in other.heard()  # rather than to nobody


def test_a_limit_of_a_peer_counts_what_came_across(server: Server) -> None:
    one, other = old(server), new(server)
    one.say(b"SUB a  RSID:7:1\r\nUNSUB RSID:7:1 2\r\n")
    other.say(b"RMSG $G a 1\r\nx\r\n" * 3)
    assert one.heard().count(b"MSG a ") == 2
    assert other.heard() == b"RS+ $G a\r\nRS- $G a\r\n"


def test_what_is_not_to_be_exported_does_not_cross(server: Server) -> None:
    one, other = old(server), new(server)
    one.say(b"SUB >  RSID:7:1\r\n")
    other.say(b"RS+ $G >\r\n")
    for remote in (one, other):
        remote.link.restrict(None, lambda subject: not subject.startswith(b"secret"))
        remote.heard()
    one.say(b"MSG secret.a RSID:0:1 1\r\nx\r\nMSG open RSID:0:1 1\r\nx\r\n")
    assert other.heard() == b"RMSG $G open 1\r\nx\r\n"
    other.say(b"RMSG $G secret.a 1\r\nx\r\nRMSG $G open 1\r\nx\r\n")
    assert one.heard() == b"MSG open RSID:7:1 1\r\nx\r\n"
