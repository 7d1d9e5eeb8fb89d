"""A lost server with much interest: it goes over several ticks, and nothing is sent there meanwhile."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Final

import pytest
from engine_peers import NO_RESPONDERS
from route_peers import GLOBAL, Remote, Server

if TYPE_CHECKING:
    from collections.abc import Iterator

AT_ONCE: Final = 10
SUBSCRIPTIONS: Final = 3 * AT_ONCE + 5


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(unsubscribes=AT_ONCE)
    yield server
    server.stop()


def wanting(server: Server, prefix: str = "much") -> Remote:
    """A server that wants more than one tick removes, some of it as a member of a queue group."""
    lines = [f"RS+ $G {prefix}.{n}" for n in range(SUBSCRIPTIONS - 1)] + [f"RS+ $G {prefix}.0 q 5"]
    return server.route().say("\r\n".join([*lines, ""]).encode())


def held(server: Server) -> int:
    return int(server.interest.statistics()["subscriptions"])


def test_a_tick_removes_so_many_and_no_more(server: Server) -> None:
    remote = wanting(server)
    remote.link.detach()
    assert (remote.link.is_detached, held(server)) == (True, SUBSCRIPTIONS)
    left = []
    while server.router.is_unsubscribing:
        assert server.router.has_due, "else nobody would end the next tick"
        server.end_tick()
        left.append(held(server))
    assert left == [SUBSCRIPTIONS - AT_ONCE, SUBSCRIPTIONS - 2 * AT_ONCE, SUBSCRIPTIONS - 3 * AT_ONCE, 0]
    assert not server.router.has_due


def test_two_lost_servers_share_what_a_tick_removes(server: Server) -> None:
    for remote in (wanting(server), wanting(server, "more")):
        remote.link.detach()
    ticks = 0
    while server.router.is_unsubscribing:
        server.end_tick()
        ticks += 1
    assert ticks == -(-2 * SUBSCRIPTIONS // AT_ONCE)


def test_few_go_at_once(server: Server) -> None:
    remote = server.route().say(b"RS+ $G a\r\n" * AT_ONCE)
    remote.link.detach()
    assert (held(server), server.router.is_unsubscribing) == (0, False)


def test_nothing_is_sent_to_who_is_lost(server: Server) -> None:
    remote = wanting(server)
    asker = server.peer(NO_RESPONDERS).send(b"SUB answer 1\r\n")
    remote.heard()
    remote.link.detach()
    asker.send(b"PUB much.0 answer 1\r\nx\r\nPUB much.1 answer 1\r\nx\r\n")
    assert asker.received().count(b"NATS/1.0 503\r\n") == 2
    assert remote.link.pending == 0
    assert server.router.statistics()["remote_out_msgs"] == 0


def test_a_response_that_only_the_lost_one_awaited_reaches_nobody(server: Server) -> None:
    remote = server.route().say(b"".join(b"RS+ $G _R_.%d\r\n" % n for n in range(SUBSCRIPTIONS)))
    asker = server.peer(NO_RESPONDERS).send(b"SUB answer 1\r\n")
    remote.link.detach()
    asker.send(b"PUB _R_.1 answer 1\r\nx\r\n")
    assert b"NATS/1.0 503\r\n" in asker.received()


def test_other_members_of_a_group_get_its_messages(server: Server) -> None:
    remote = wanting(server)
    member = server.peer().send(b"SUB much.0 q 1\r\n")
    remote.link.detach()
    server.peer().send(b"PUB much.0 1\r\nx\r\n" * 20)
    assert member.received() == b"MSG much.0 1 1\r\nx\r\n" * 20


def test_who_comes_back_meanwhile_is_served(server: Server) -> None:
    wanting(server).link.detach()
    again = wanting(server)
    server.end_tick()
    server.peer().send(b"PUB much.1 1\r\nx\r\n")
    assert again.heard() == b"RMSG $G much.1 1\r\nx\r\n"
    while server.router.is_unsubscribing:
        server.end_tick()
    assert len(again.link.interest_rows()) == held(server) == SUBSCRIPTIONS


def test_it_is_told_nothing_and_may_be_told_to_go_twice(server: Server) -> None:
    remote = wanting(server)
    remote.link.detach()
    server.peer().send(b"SUB new 1\r\n")
    remote.link.detach()
    remote.link.withdraw(GLOBAL, tell=True)
    assert (remote.link.pending, held(server)) == (0, SUBSCRIPTIONS + 1)


def test_one_that_ends_while_it_is_read_goes_at_the_end_of_the_tick(server: Server) -> None:
    remote = wanting(server)
    remote.session.peer_info = lambda _: remote.link.detach()  # type: ignore[method-assign]
    remote.link.feed(b"INFO {}\r\n")
    assert held(server) == SUBSCRIPTIONS
    while server.router.is_unsubscribing:
        server.end_tick()
    assert held(server) == 0


def test_a_router_that_goes_takes_along_what_is_left() -> None:
    server = Server(unsubscribes=AT_ONCE)
    wanting(server).link.detach()
    assert server.router.is_unsubscribing
    server.others.clear()
    vars(server).clear()
    gc.collect()  # a router and what leaves it refer to each other


def test_at_least_one_is_removed_in_a_tick() -> None:
    server = Server(unsubscribes=0)
    server.route().say(b"RS+ $G a\r\nRS+ $G b\r\n").link.detach()
    for left in (1, 0):
        server.end_tick()
        assert held(server) == left
    server.stop()
