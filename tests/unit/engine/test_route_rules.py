"""Where messages go in a cluster, what is told of it, and what a slow server costs: the rules, one by one."""

from __future__ import annotations

import gc
import re
from typing import TYPE_CHECKING

import pytest
from account_spaces import Space
from engine_peers import NO_RESPONDERS, QUIET, QUIET_WITH_HEADERS
from route_peers import Server, exchange

from headrace.core.service import Delivery
from headrace.engine.reasons import CloseReason
from headrace.engine.service import ServiceLink

if TYPE_CHECKING:
    from collections.abc import Iterator

MADE = re.compile(rb"_R_\.[0-9a-f]{8}\.[0-9a-f]{18}")
ACK = b"$JS.ACK.S.c.1.1.1.1700000000000000000.0"


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def spaces(server: Server) -> Iterator[tuple[Space, Space]]:
    """Accounts A and B of the server."""
    pair = Space(server, "A"), Space(server, "B")
    for space in pair:
        space.interest.account = space.name.encode()
        server.accounts[space.interest.account] = space.interest
    yield pair
    server.end_routes()
    for space in pair:
        for peer in space.peers:
            peer.link.detach()
        space.end()
        vars(space).clear()


# ---- queue groups -------------------------------------------------------------------------------


def test_members_elsewhere_count_by_weight(server: Server) -> None:
    light, heavy = server.route().say(b"RS+ $G w q 1\r\n"), server.route().say(b"RS+ $G w q 6\r\n")
    member = server.peer().send(b"SUB w q 1\r\n")
    light.heard()
    heavy.heard()
    server.peer().send(b"PUB w 1\r\nx\r\n" * 8000)
    counts = [text.count(b"\r\nx\r\n") for text in (member.received(), light.heard(), heavy.heard())]
    assert sum(counts) == 8000
    for count, share in zip(counts, (1, 1, 6), strict=True):
        assert abs(count - share * 1000) < 250, counts  # eight standard deviations


def test_a_new_weight_holds_at_once(server: Server) -> None:
    one, two = server.route().say(b"RS+ $G w q 1\r\n"), server.route().say(b"RS+ $G w q 100000000\r\n")
    publisher = server.peer().send(b"PUB w 1\r\nx\r\n" * 20)
    assert (one.heard(), two.heard().count(b"RMSG")) == (b"", 20)
    two.say(b"RS+ $G w q 0\r\n")
    publisher.send(b"PUB w 1\r\nx\r\n" * 20)
    assert (one.heard().count(b"RMSG"), two.heard()) == (20, b"")
    one.say(b"RS- $G w q\r\n")
    assert b"503" in server.peer(NO_RESPONDERS).send(b"SUB in 1\r\nPUB w in 1\r\nx\r\n").received()


def test_members_for_leafs_are_a_last_resort(server: Server) -> None:
    remote = server.route().say(b"LS+ leafs $G w q 50\r\n")
    member = server.peer().send(b"SUB w q 1\r\n")
    remote.heard()
    publisher = server.peer().send(b"PUB w 1\r\nx\r\n" * 50)
    assert member.received().count(b"MSG") == 50
    direct = server.route().say(b"RS+ $G w q 1\r\n")
    direct.heard()
    member.send(b"UNSUB 1\r\n")
    publisher.send(b"PUB w 1\r\nx\r\n" * 50)
    assert direct.heard().count(b"RMSG") == 50
    direct.say(b"RS- $G w q\r\n")
    remote.heard()
    publisher.send(b"PUB w 1\r\nx\r\n")
    assert remote.heard() == b"RMSG $G w | q 1\r\nx\r\n"


def test_what_came_over_a_route_is_for_members_here(server: Server) -> None:
    one, two = server.route(), server.route().say(b"RS+ $G w q 1000\r\n")
    members = [server.peer().send(b"SUB w q 1\r\n") for _ in range(2)]
    two.heard()
    one.say(b"RMSG $G w | q 1\r\nx\r\n" * 40)
    received = [member.received().count(b"MSG") for member in members]
    assert sum(received) == 40
    assert min(received) > 0
    assert two.heard() == b""


def test_it_is_sent_on_but_not_to_the_cluster_it_was_published_in(server: Server) -> None:
    one, two = server.route(), server.route().say(b"RS+ $G w q 1\r\n")
    one.say(b"LMSG leafs $G w | q 0 1\r\nx\r\n")
    assert two.heard() == b"RMSG $G w | q 1\r\nx\r\n"
    one.say(b"RS+ $G w q 1\r\n")
    two.say(b"RS- $G w q\r\n")
    one.say(b"RMSG $G w | q 1\r\nx\r\n")
    assert one.heard() == b""


def test_members_on_several_subjects_are_one_group(server: Server) -> None:
    remote = server.route().say(b"RS+ $G w.* q 1\r\nRS+ $G w.> q 1\r\n")
    server.peer().send(b"PUB w.a 1\r\nx\r\n")
    assert remote.heard() == b"RMSG $G w.a | q 1\r\nx\r\n"


def test_a_removed_member_is_not_chosen(server: Server) -> None:
    remote = server.route().say(b"RS+ $G w q 1\r\n")
    peer = server.peer(NO_RESPONDERS).send(b"SUB in 1\r\nPUB w in 1\r\nx\r\n")
    remote.heard()
    remote.say(b"RS- $G w q\r\n")
    peer.send(b"PUB w in 1\r\nx\r\n")
    assert remote.heard() == b""
    assert b"503" in peer.received()


# ---- interest -----------------------------------------------------------------------------------


def test_an_exhausted_subscription_is_told(server: Server) -> None:
    remote = server.route()
    server.peer().send(b"SUB a 1\r\nUNSUB 1 1\r\nPUB a 1\r\nx\r\n")
    assert remote.heard() == b"RS+ $G a\r\nRS- $G a\r\n"


def test_several_routes_are_told_the_same(server: Server) -> None:
    routes = [server.route() for _ in range(5)]
    server.peer().send(b"SUB a 1\r\nSUB b q 2\r\nUNSUB 1\r\n")
    assert {remote.heard() for remote in routes} == {b"RS+ $G a\r\nRS+ $G b q 1\r\nRS- $G a\r\n"}


def test_what_other_routes_want_is_not_told(server: Server) -> None:
    remote = server.route()
    server.route().say(b"RS+ $G a\r\nRS+ $G b q 2\r\nRS- $G a\r\n")
    server.route().say(b"RS+ $G c\r\n")
    late = server.route()
    assert (remote.heard(), late.heard()) == (b"", b"")


def test_interest_elsewhere_does_not_hide_the_first_here(server: Server) -> None:
    remote, other = server.route().say(b"RS+ $G a\r\nRS+ $G a q 3\r\n"), server.route().say(b"RS+ $G a\r\n")
    peer = server.peer().send(b"SUB a 1\r\nSUB a q 2\r\nSUB a 3\r\nUNSUB 1\r\nUNSUB 3\r\nUNSUB 2\r\n")
    told = b"RS+ $G a\r\nRS+ $G a q 1\r\nRS- $G a\r\nRS- $G a q\r\n"
    assert (remote.heard(), other.heard()) == (told, told)
    assert peer.reason is CloseReason.NONE


def test_withdrawing_an_account(server: Server) -> None:
    server.account(b"A")
    remote = server.route(b"$G", b"A").say(b"RS+ $G a\r\nRS+ A b\r\n")
    peer = server.peer().send(b"SUB x 1\r\n")
    assert remote.heard() == b"RS+ $G x\r\n"
    remote.link.withdraw(b"$G", tell=True)
    assert remote.heard() == b"RS- $G x\r\n"
    assert (remote.link.served, remote.link.interest_rows()) == ((b"A",), [(b"A", b"b", None, 1)])
    peer.send(b"SUB y 2\r\nPUB a 1\r\nx\r\n")
    assert remote.heard() == b""
    remote.link.withdraw(b"A")
    remote.link.withdraw(b"unheard of")
    assert (remote.link.served, remote.link.subscriptions_count) == ((), 0)


def test_an_account_may_be_told_again(server: Server) -> None:
    remote = server.route()
    server.peer().send(b"SUB x 1\r\nSUB y q 2\r\n")
    remote.heard()
    remote.link.serve(b"$G", server.interest)
    assert sorted(remote.heard().splitlines()) == [b"RS+ $G x", b"RS+ $G y q 1"]
    assert remote.link.served == (b"$G",)


def test_accounts_do_not_mix(server: Server) -> None:
    server.account(b"A")
    remote = server.route(b"$G", b"A")
    with pytest.raises(ValueError, match="not that of"):
        remote.link.serve(b"B", server.interest)
    with pytest.raises(ValueError, match="cannot serve"):
        remote.link.serve(b"A", server.accounts[b"A"], dedicated=True)
    with pytest.raises(ValueError, match="cannot change"):
        server.interest.account = b"X"
    dedicated = server.route(b"A", dedicated=True)
    with pytest.raises(ValueError, match="cannot serve"):
        dedicated.link.serve(b"$G", server.interest)


def test_permissions(server: Server) -> None:
    remote = server.route()
    remote.link.restrict(
        lambda subject: not subject.startswith(b"in"), lambda subject: not subject.startswith(b"out")
    )
    remote.say(b"RS+ $G out.x\r\nRS+ $G a\r\nRS+ $G *.secret\r\n")
    assert sorted(row[1] for row in remote.link.interest_rows()) == [b"*.secret", b"a"]
    peer = server.peer().send(b"SUB in.x 1\r\nSUB b 2\r\nSUB in.x q 3\r\nUNSUB 1\r\nUNSUB 2\r\n")
    assert remote.heard() == b"RS+ $G b\r\nRS- $G b\r\n"
    peer.send(b"PUB out.secret 1\r\nx\r\nPUB some.secret 1\r\nx\r\n")
    assert remote.heard() == b"RMSG $G some.secret 1\r\nx\r\n"
    remote.say(b"RMSG $G in.x | q 1\r\nx\r\n")  # what the other server sends is its own business
    assert peer.received() == b"MSG in.x 3 1\r\nx\r\n"
    remote.link.restrict(None, None)
    remote.say(b"RS+ $G out.x\r\n")
    assert (b"$G", b"out.x", None, 1) in remote.link.interest_rows()


def test_permissions_that_fail_are_our_mistake(server: Server) -> None:
    remote = server.route()

    def broken(subject: bytes) -> bool:
        raise LookupError(subject)

    failures: list[Exception] = []
    vars(remote.session)["failed"] = failures.append
    remote.link.restrict(broken, None)
    server.peer().send(b"SUB a 1\r\n")
    assert (remote.heard(), [str(failure) for failure in failures]) == (b"", ["b'a'"])


# ---- leaf clusters behind other servers ---------------------------------------------------------


def test_leaf_interest_is_apart_from_its_servers(server: Server) -> None:
    remote = server.route().say(b"RS+ $G a\r\nLS+ x $G a\r\nLS+ y $G a\r\nLS+ x $G a q 2\r\n")
    assert remote.link.subscriptions_count == 4
    server.peer().send(b"PUB a 1\r\nx\r\n")
    assert remote.heard() == b"RMSG $G a | q 1\r\nx\r\n"
    remote.say(b"LS- x $G a\r\nRS- $G a\r\nLS- x $G a q\r\n")
    assert remote.link.interest_rows() == [(b"$G", b"a", None, 1)]
    remote.say(b"LS- y $G a\r\n")
    assert remote.link.interest_rows() == []


def test_leaf_interest_of_a_server_that_does_not_say_whose(server: Server) -> None:
    remote = server.route(origin_unsub=False).say(
        b"RS+ $G a\r\nLS+ x $G a\r\nLS+ x $G b q 2\r\nLS+ x $G b q 3\r\n"
    )
    assert sorted(remote.link.interest_rows(), key=repr) == [
        (b"$G", b"a", None, 1),
        (b"$G", b"a", None, 1),
        (b"$G", b"b", b"q", 3),
    ]
    remote.say(b"LS- $G a\r\nLS- $G b q\r\n")
    assert remote.link.interest_rows() == [(b"$G", b"a", None, 1)]


def test_keys_do_not_collide(server: Server) -> None:
    server.account(b"bar")
    server.account(b"foo")
    remote = server.route(b"foo", b"bar").say(b"RS+ foo bar baz 1\r\nLS+ foo bar baz\r\n")
    assert sorted(remote.link.interest_rows(), key=repr) == [
        (b"bar", b"baz", None, 1),
        (b"foo", b"bar", b"baz", 1),
    ]


# ---- subjects -----------------------------------------------------------------------------------


class Store:
    """A service that passes messages on as another subject."""

    def __init__(self, server: Server) -> None:
        self.link = ServiceLink(server.router, self, Delivery)
        self.link.interest = server.interest
        self._server = server

    def deliver(self, _batch: list[Delivery]) -> None:
        raise AssertionError("nobody sends to the store")

    def failed(self, error: Exception) -> None:
        raise error

    def wake(self) -> None:
        """A tick always comes."""

    def pass_on(self, inbox: bytes, shown: bytes, reply: bytes = b"") -> None:
        assert self.link.outgoing.pass_on(inbox, shown, b"x", reply=reply, headers=b"")
        self.link.announce()
        self._server.end_tick()

    def stop(self) -> None:
        self.link.detach()
        vars(self).clear()


def test_a_shown_subject_travels_in_the_reply(server: Server) -> None:
    store, other = Store(server), Server()
    here, there = server.route(), other.route()
    peer = other.peer().send(b"SUB inbox 1\r\nSUB inbox q 2\r\n")
    exchange((here, there))
    store.pass_on(b"inbox", b"orders.new", ACK)
    text = here.heard()
    assert text == b"RMSG $G inbox + %b@orders.new q 1\r\nx\r\n" % ACK
    there.say(text)
    assert peer.received() == b"".join(b"MSG orders.new %d %b 1\r\nx\r\n" % (sid, ACK) for sid in (1, 2))
    store.pass_on(b"inbox", b"orders.new", b"other.reply")  # nowhere to put it
    assert here.heard() == b"RMSG $G inbox + other.reply q 1\r\nx\r\n"
    store.pass_on(b"inbox", b"orders.new")
    assert here.heard() == b"RMSG $G inbox | q 1\r\nx\r\n"
    store.stop()
    other.stop()


@pytest.mark.parametrize(
    ("reply", "shown", "told"),
    [
        (b"$JS.ACK.a@b.c.1.1.1.1.0@shown", b"shown", b"$JS.ACK.a@b.c.1.1.1.1.0"),
        (b"$JS.ACK.S.c.1.1.1.1.0@a@b", b"a@b", b"$JS.ACK.S.c.1.1.1.1.0"),
        (b"$JS.ACK.S.c.1.1.1.1.0@", b"in", b"$JS.ACK.S.c.1.1.1.1.0@"),
        (b"$JS.ACK.S.c.1@x", b"in", b"$JS.ACK.S.c.1@x"),
        (b"a.b.c.d.e.f.g.h.i.j@x", b"in", b"a.b.c.d.e.f.g.h.i.j@x"),
    ],
)
def test_only_acknowledgements_say_a_subject(server: Server, reply: bytes, shown: bytes, told: bytes) -> None:
    remote = server.route()
    peer = server.peer(QUIET_WITH_HEADERS).send(b"SUB in 1\r\n")
    remote.heard()
    remote.say(b"RMSG $G in %b 1\r\nx\r\nHMSG $G in %b 12 13\r\nNATS/1.0\r\n\r\nx\r\n" % (reply, reply))
    assert peer.received() == (
        b"MSG %b 1 %b 1\r\nx\r\nHMSG %b 1 %b 12 13\r\nNATS/1.0\r\n\r\nx\r\n" % (shown, told, shown, told)
    )


def test_subjects_are_mapped_where_they_are_published(server: Server) -> None:
    server.interest.mapper = lambda subject: (b"new" + subject[3:], True) if subject[:3] == b"old" else None
    remote = server.route().say(b"RS+ $G >\r\n")
    peer = server.peer().send(b"SUB *.* 1\r\n")
    remote.heard()
    for _ in range(3):  # the plans of both are kept apart
        peer.send(b"PUB old.x 1\r\na\r\n")
        remote.say(b"RMSG $G old.x 1\r\nb\r\n")
    assert remote.heard() == b"RMSG $G new.x 1\r\na\r\n" * 3
    assert peer.received() == b"MSG new.x 1 1\r\na\r\nMSG old.x 1 1\r\nb\r\n" * 3


# ---- other accounts -----------------------------------------------------------------------------


def test_a_stream_is_wanted_where_it_is_exported(server: Server, spaces: tuple[Space, Space]) -> None:
    a, b = spaces
    b.import_stream(a, b"st.>", b"from.>")
    remote = server.route(b"A", b"B")
    peer = b.peer(QUIET).send(b"SUB from.x 1\r\nSUB from.x q 2\r\n")
    assert remote.heard() == b"RS+ B from.x\r\nRS+ A st.x\r\nRS+ B from.x q 1\r\nRS+ A st.x q 1\r\n"
    remote.say(b"RMSG A st.x | q 1\r\nx\r\nRMSG A st.x 1\r\ny\r\n")
    assert peer.received() == b"MSG from.x 1 1\r\nx\r\nMSG from.x 2 1\r\nx\r\nMSG from.x 1 1\r\ny\r\n"
    peer.send(b"UNSUB 1\r\nUNSUB 2\r\n")
    assert remote.heard() == b"RS- A st.x\r\nRS- B from.x\r\nRS- A st.x q\r\nRS- B from.x q\r\n"


def test_interest_elsewhere_imports_nothing(server: Server, spaces: tuple[Space, Space]) -> None:
    a, b = spaces
    remote = server.route(b"A", b"B").say(b"RS+ B from.x\r\n")
    b.import_stream(a, b"st.>", b"from.>")
    a.peer(QUIET).send(b"PUB st.x 1\r\nx\r\n")
    assert remote.heard() == b""


def test_a_request_is_passed_on_where_it_is_published(server: Server, spaces: tuple[Space, Space]) -> None:
    a, b = spaces
    b.import_service(a, b"svc", b"my")
    remote = server.route(b"A", b"B").say(b"RS+ A svc\r\n")
    assert remote.heard() == b""  # the local subject is of no interest elsewhere
    requestor = b.peer(NO_RESPONDERS).send(b"SUB in 1\r\nPUB my in 1\r\nq\r\n")
    heard = remote.heard()
    reply = MADE.findall(heard)[0]
    assert heard == b"RS+ B in\r\nRS+ A %b.>\r\nRMSG A svc %b 1\r\nq\r\n" % (reply[:12], reply)
    remote.say(b"RMSG A %b 2\r\nok\r\nRMSG A %b 2\r\nno\r\n" % (reply, reply))
    assert requestor.received() == b"MSG in 1 2\r\nok\r\n"
    remote.say(b"RMSG B my in 1\r\nq\r\n")
    assert remote.heard() == b""


def test_a_request_finds_a_queue_group_elsewhere(server: Server, spaces: tuple[Space, Space]) -> None:
    a, b = spaces
    b.import_service(a, b"svc", b"my")
    remote = server.route(b"A", b"B").say(b"RS+ A svc q 1\r\n")
    b.peer(NO_RESPONDERS).send(b"PUB my 1\r\nq\r\n")
    assert remote.heard() == b"RMSG A svc | q 1\r\nq\r\n"


def test_a_response_may_go_on_to_another_route(server: Server, spaces: tuple[Space, Space]) -> None:
    a, b = spaces
    b.import_service(a, b"svc", b"my")
    one, two = (
        server.route(b"A", b"B").say(b"RS+ A svc\r\n"),
        server.route(b"A", b"B").say(b"RS+ B elsewhere q 1\r\n"),
    )
    b.peer(QUIET).send(b"PUB my elsewhere 1\r\nq\r\n")
    reply = MADE.findall(one.heard())[0]
    two.heard()
    one.say(b"RMSG A %b 2\r\nok\r\n" % reply)
    assert two.heard() == b"RMSG B elsewhere | q 2\r\nok\r\n"


# ---- slow servers -------------------------------------------------------------------------------

KB = b"PUB a 1000\r\n" + b"x" * 1000 + b"\r\n"


def test_a_publisher_waits_for_a_slow_server() -> None:
    server = Server(max_pending=40_000, congestion_mark=10_000)
    remote = server.route().say(b"RS+ $G a\r\n")
    peer = server.peer()
    for _ in range(20):
        peer.link.feed(KB)
        remote.link.report_blocked()
    assert peer.link.is_stalled
    remote.heard()
    assert peer.link.release_if_drained()
    server.stop()


def test_a_server_that_takes_nothing_is_given_up() -> None:
    server = Server(max_pending=40_000, congestion_mark=10_000)
    remote = server.route().say(b"RS+ $G a\r\n")
    peer = server.peer()
    for _ in range(50):
        peer.link.feed(KB)
    assert remote.reason is CloseReason.SLOW_CONSUMER_PENDING_BYTES
    assert server.router.statistics()["slow_consumers"] == 1
    server.stop()


def test_messages_may_be_dropped_instead() -> None:
    server = Server(max_pending=40_000, drops_when_congested=True)
    remote = server.route().say(b"RS+ $G a\r\n")
    peer = server.peer()
    for _ in range(100):
        peer.link.feed(KB)
    assert (remote.reason, peer.link.is_stalled) == (CloseReason.NONE, False)
    assert 20_000 < remote.link.pending < 40_000
    server.stop()


def test_servers_wait_for_nobody() -> None:
    server = Server(max_pending=40_000, congestion_mark=10_000)
    remote = server.route()
    slow, quick = server.peer().send(b"SUB a 1\r\n"), server.peer().send(b"SUB a 1\r\n")
    for _ in range(60):
        remote.say(b"RMSG $G a 1000\r\n" + b"x" * 1000 + b"\r\n")
        quick.received()
    assert slow.reason is CloseReason.SLOW_CONSUMER_PENDING_BYTES
    assert (remote.link.is_stalled, quick.reason) == (False, CloseReason.NONE)
    server.stop()


def test_interest_is_told_however_much_it_is() -> None:
    server = Server(max_pending=40_000, congestion_mark=10_000)
    peer = server.peer()
    for n in range(5000):
        peer.link.feed(b"SUB some.subject.%d %d\r\n" % (n, n))
    remote = server.route().say(b"RS+ $G a\r\n")
    assert remote.link.pending > 100_000
    peer.link.feed(KB)
    assert remote.reason is CloseReason.NONE
    assert remote.heard().endswith(KB.replace(b"PUB", b"RMSG $G"))
    for _ in range(50):  # from then on its bound holds
        peer.link.feed(KB)
    assert remote.reason is CloseReason.SLOW_CONSUMER_PENDING_BYTES
    server.stop()


# ---- counters and traces ------------------------------------------------------------------------


def test_counters(server: Server) -> None:
    remote = server.route().say(b"RS+ $G a\r\n")
    server.peer().send(b"SUB b 1\r\nPUB a 3\r\nabc\r\nPUB b 1\r\nx\r\n")
    remote.say(b"RMSG $G b 2\r\nhi\r\nRMSG $G nobody 1\r\nx\r\n")
    assert remote.link.counters == (2, 3, 1, 3, 0)
    assert server.router.statistics() == {
        "in_msgs": 4,
        "in_bytes": 7,
        "out_msgs": 3,
        "out_bytes": 6,
        "remote_in_msgs": 2,
        "remote_in_bytes": 3,
        "remote_out_msgs": 1,
        "remote_out_bytes": 3,
        "slow_consumers": 0,
        "stalls": 0,
    }


def test_traces(server: Server) -> None:
    remote = server.route()
    remote.link.traced = True
    remote.say(b"RS+ $G a\r\nRMSG $G b 1\r\nx\r\nCONNECT {}\r\n")
    server.peer().send(b"PUB a r 1\r\nx\r\n")
    assert remote.session.called("trace") == [("RS+", b"$G a", None), ("RMSG", b"$G b 1", b"x")]
    assert remote.session.called("trace_delivery") == [(b"a", b"R $G a", b"r", 0, 1)]


# ---- ends ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_reachable", [True, False])
def test_a_route_that_is_let_go_leaves_nothing(is_reachable: bool) -> None:
    server = Server()
    interest = server.interest
    peer = server.peer().send(b"SUB b 1\r\n")
    remote = server.route().say(b"RS+ $G a\r\nRS+ $G a q 2\r\n")
    server.others.clear()
    remote.session.calls.append((remote,))  # a cycle that only the collector can end
    if not is_reachable:
        vars(server)["accounts"] = {}
        peer.link.detach()
        server.stop()
        del server, interest, peer, remote
        gc.collect()
        return
    remote.session.accounts = {}
    del remote
    gc.collect()
    assert interest.statistics()["subscriptions"] == 1
    peer.send(b"PUB a 1\r\nx\r\nSUB c 2\r\n")
    server.stop()


def test_a_route_may_end_while_it_is_read(server: Server) -> None:
    remote = server.route().say(b"RS+ $G a\r\n")
    vars(remote.session)["pong"] = remote.link.detach
    remote.say(b"PONG\r\nRS+ $G b\r\nRMSG $G a 1\r\nx\r\n")
    server.peer().send(b"SUB c 1\r\nPUB a 1\r\nx\r\n")
    server.end_tick()
    assert server.interest.statistics()["subscriptions"] == 1
