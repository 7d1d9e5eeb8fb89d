"""Routes of before 2.0, line by line: what is told and taken in, what crosses from protocol to protocol."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from account_spaces import Space
from engine_peers import NO_RESPONDERS, QUIET, QUIET_WITH_HEADERS, WAYS, Peer
from route_peers import GLOBAL, Remote, Server, exchange

from headrace.core.service import Delivery
from headrace.engine.legacy_route import LegacyRouteLink
from headrace.engine.link import Router
from headrace.engine.reasons import CloseReason
from headrace.engine.service import ServiceLink

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=WAYS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    server = Server(request.param)
    yield server
    server.stop()


@pytest.fixture
def pair() -> Iterator[tuple[Server, Server]]:
    servers = Server(), Server()
    yield servers
    for server in servers:
        server.stop()


def client(server: Server, cid: int = 1, hello: bytes = QUIET) -> Peer:
    """A client with a number, as servers give them."""
    peer = server.peer(hello)
    peer.session.__dict__["cid"] = cid
    return peer


# ---- what is told -------------------------------------------------------------------------------


def test_each_subscription_is_told_by_the_number_of_its_client_and_its_sid(server: Server) -> None:
    remote = server.legacy_route()
    client(server, 7).send(b"SUB a 1\r\nSUB a 2\r\nSUB a q x:y\r\nUNSUB 1\r\nUNSUB x:y\r\n")
    assert remote.heard() == (
        b"SUB a  RSID:7:1\r\nSUB a  RSID:7:2\r\nSUB a q QRSID:7:x:y\r\n"
        b"UNSUB RSID:7:1\r\nUNSUB QRSID:7:x:y\r\n"
    )


def test_a_limit_is_told_when_it_is_set_and_when_it_is_reached(server: Server) -> None:
    remote = server.legacy_route()
    client(server).send(b"SUB a 1\r\nUNSUB 1 2\r\nPUB a 0\r\n\r\nPUB a 0\r\n\r\n")
    assert remote.heard() == b"SUB a  RSID:1:1\r\nUNSUB RSID:1:1 2\r\nUNSUB RSID:1:1\r\n"


def test_a_limit_is_not_told_of_one_that_does_not_get_all_it_matches(server: Server) -> None:
    remote = server.legacy_route()
    peer = client(server)
    peer.session.hooks["subscribe_permission"] = lambda _subject, _queue: 2
    peer.link.restrict(None, None, True, False)
    peer.send(b"SUB a 1\r\nUNSUB 1 2\r\nUNSUB 1\r\n")
    assert remote.heard() == b"SUB a  RSID:1:1\r\nUNSUB RSID:1:1\r\n"


def test_what_is_wanted_already_is_told_at_once_and_again_when_asked(server: Server) -> None:
    client(server).send(b"SUB a 1\r\nSUB a.b 2\r\nSUB b g 3\r\nSUB b h 4\r\nSUB b h 5\r\n")
    remote = server.legacy_route()
    told = [
        b"SUB a  RSID:1:1",
        b"SUB a.b  RSID:1:2",
        b"SUB b g QRSID:1:3",
        b"SUB b h QRSID:1:4",
        b"SUB b h QRSID:1:5",
    ]
    assert sorted(remote.heard().splitlines()) == told
    remote.link.serve(GLOBAL, server.interest, dedicated=True)
    assert sorted(remote.heard().splitlines()) == told


def test_who_has_no_number_is_told_by_numbers_of_ours() -> None:
    server = Server()

    class Service:
        def failed(self, error: Exception) -> None:
            raise error

    remote = server.legacy_route()
    link = ServiceLink(server.router, Service(), Delivery)
    link.interest = server.interest
    link.subscribe(b"svc", b"workers")
    link.subscribe(b"svc")
    peer = server.peer().send(b"SUB a 1\r\n")
    assert remote.heard() == b"SUB svc workers QRSID:0:1\r\nSUB svc  RSID:0:2\r\nSUB a  RSID:0:3\r\n"
    link.detach()
    peer.link.detach()
    assert sorted(remote.heard().splitlines()) == [b"UNSUB QRSID:0:1", b"UNSUB RSID:0:2", b"UNSUB RSID:0:3"]
    server.stop()


def test_imports_say_what_is_told(server: Server) -> None:
    remote = server.legacy_route()
    remote.link.restrict(lambda subject: subject.startswith(b"a"), None)
    client(server).send(b"SUB b 1\r\nSUB b q 2\r\nSUB a 3\r\nUNSUB 1\r\nUNSUB 2 4\r\nUNSUB 2\r\nUNSUB 3\r\n")
    assert remote.heard() == b"SUB a  RSID:1:3\r\nUNSUB RSID:1:3\r\n"


def test_routes_tell_a_legacy_peer_nothing_of_others(server: Server) -> None:
    remote, other = server.legacy_route(), server.legacy_route()
    modern = server.route()
    other.say(b"SUB a  RSID:1:1\r\nSUB a q QRSID:1:2\r\n")
    modern.say(b"RS+ $G a\r\nRS+ $G a q 2\r\n")
    assert (remote.heard(), other.heard(), modern.heard()) == (b"", b"", b"")


def test_withdrawing_ends_everything_that_was_told(server: Server) -> None:
    remote = server.legacy_route().say(b"SUB x  RSID:1:1\r\n")
    peer = client(server).send(b"SUB a 1\r\nSUB b q 2\r\n")
    remote.heard()
    remote.link.withdraw(GLOBAL, tell=True)
    assert sorted(remote.heard().splitlines()) == [b"UNSUB QRSID:1:2", b"UNSUB RSID:1:1"]
    peer.send(b"SUB c 3\r\nPUB x 0\r\n\r\n")
    assert remote.heard() == b""
    assert remote.link.interest_rows() == []


# ---- what is taken in ---------------------------------------------------------------------------


def test_rows_of_what_the_peer_wants(server: Server) -> None:
    remote = server.legacy_route().say(
        b"SUB a  RSID:1:1\r\nSUB a  RSID:1:2\r\nSUB b q QRSID:1:3\r\nUNSUB RSID:1:1\r\n"
    )
    assert sorted(remote.link.interest_rows(), key=repr) == [(GLOBAL, b"a", None, 1), (GLOBAL, b"b", b"q", 1)]


def test_exports_say_what_is_taken_and_sent(server: Server) -> None:
    remote = server.legacy_route()
    remote.link.restrict(None, lambda subject: subject != b"secret.x")
    remote.say(b"SUB secret.x  RSID:1:1\r\nSUB secret.>  RSID:1:2\r\n")
    server.peer().send(b"PUB secret.x 1\r\nn\r\nPUB secret.y 1\r\ny\r\n")
    assert remote.heard() == b"MSG secret.y RSID:1:2 1\r\ny\r\n"


def test_members_of_a_limit_count_what_they_were_sent_only(server: Server) -> None:
    remote = server.legacy_route()
    remote.say(b"SUB a q QRSID:1:1\r\nSUB a q QRSID:1:2\r\nSUB a  RSID:1:3\r\nUNSUB QRSID:1:1 3\r\n")
    server.peer().send(b"PUB a 0\r\n\r\n" * 40)
    heard = Counter(re.findall(rb"MSG a (\S+) 0", remote.heard()))
    assert heard == {b"QRSID:1:1": 3, b"QRSID:1:2": 37, b"RSID:1:3": 40}


def test_members_elsewhere_count_one_each() -> None:
    server = Server(seed=5)
    remote = server.legacy_route().say(b"".join(b"SUB w q QRSID:1:%d\r\n" % n for n in range(3)))
    member = server.peer().send(b"SUB w q 1\r\n")
    remote.heard()
    server.peer().send(b"PUB w 1\r\nx\r\n" * 4000)
    assert abs(member.received().count(b"\r\nx\r\n") - 1000) < 220  # eight standard deviations
    server.stop()


def test_a_peer_that_ends_leaves_nothing(server: Server) -> None:
    remote = server.legacy_route().say(b"SUB a  RSID:1:1\r\nSUB a q QRSID:1:2\r\nUNSUB QRSID:1:2 9\r\n")
    remote.link.detach()
    asking = server.peer(NO_RESPONDERS).send(b"SUB in 1\r\nPUB a in 0\r\n\r\n")
    assert b"503" in asking.received()


# ---- messages that come -------------------------------------------------------------------------


def test_a_message_for_a_member_is_its_alone_and_no_other_subject(server: Server) -> None:
    remote = server.legacy_route()
    peer = client(server).send(b"SUB a q 1\r\nSUB a q 2\r\nSUB a 3\r\nSUB b q 4\r\n")
    remote.say(
        b"MSG a QRSID:1:2 1\r\nx\r\n" * 3 + b"MSG c QRSID:1:2 1\r\nn\r\n" + b"MSG b QRSID:1:2 1\r\ny\r\n"
    )
    assert peer.received() == b"MSG a 2 1\r\nx\r\n" * 3
    assert remote.session.called("parse_failed") == []


def test_a_member_that_is_being_closed_is_replaced(server: Server) -> None:
    remote = server.legacy_route()
    leaving, staying = client(server, 1).send(b"SUB a q 1\r\n"), client(server, 2).send(b"SUB a q 1\r\n")
    leaving.link.doom(CloseReason.STALE_CONNECTION)
    remote.say(b"MSG a QRSID:1:1 1\r\nx\r\n")
    assert staying.received() == b"MSG a 1 1\r\nx\r\n"


def test_groups_of_members_that_left_are_forgotten_in_time() -> None:
    server = Server()
    remote = server.legacy_route()
    client(server, 1).send(b"SUB a q 1\r\nUNSUB 1\r\n")
    other = client(server, 2).send(b"SUB a q 1\r\n")

    def is_served() -> bool:
        remote.say(b"MSG a QRSID:1:1 1\r\nx\r\n")
        return bool(other.received())

    assert is_served()
    for _ in range(2):
        assert is_served()
        server.router.now += 31_000_000_000
        other.send(b"SUB z q 9\r\nUNSUB 9\r\n")  # what leaves next makes room
    assert not is_served()
    server.stop()


def test_a_message_over_the_route_is_mapped_where_it_was_published_only(server: Server) -> None:
    server.interest.mapper = lambda subject: (b"mapped", True) if subject == b"a" else None
    remote = server.legacy_route()
    peer = client(server).send(b"SUB a 1\r\nSUB mapped 2\r\n")
    remote.say(b"MSG a RSID:1:1 1\r\nx\r\nSUB mapped  RSID:5:5\r\n")
    assert peer.received() == b"MSG a 1 1\r\nx\r\n"
    remote.heard()
    server.peer().send(b"PUB a 1\r\ny\r\n")
    assert remote.heard() == b"MSG mapped RSID:5:5 1\r\ny\r\n"


def test_counters(server: Server) -> None:
    remote = server.legacy_route().say(b"SUB a  RSID:1:1\r\nSUB a q QRSID:1:2\r\n")
    server.peer(QUIET_WITH_HEADERS).send(b"HPUB a 12 17\r\nNATS/1.0\r\n\r\nhello\r\n").send(
        b"SUB b 1\r\nSUB b q 2\r\n"
    )
    remote.say(b"MSG b RSID:0:1 3\r\nabc\r\nMSG b QRSID:0:2 3\r\nabc\r\n")
    assert remote.link.counters[:4] == (2, 6, 2, 10)
    totals = server.router.statistics()
    assert (totals["remote_in_msgs"], totals["remote_out_msgs"]) == (2, 2)
    assert (totals["in_msgs"], totals["out_msgs"]) == (3, 4)


# ---- both protocols -----------------------------------------------------------------------------


def test_the_protocol_changes_between_two_lines_of_one_read(server: Server) -> None:
    remote = Remote(server, LegacyRouteLink, must_connect=True)
    link = remote.link
    assert isinstance(link, LegacyRouteLink)

    def introduced(_text: bytes) -> None:
        link.configure(headers=False, has_origin=False, origin_unsub=False)
        link.serve(GLOBAL, server.interest, dedicated=True)

    remote.session.__dict__["connect"] = lambda _text: link.speak_legacy()
    remote.session.__dict__["peer_info"] = introduced
    remote.say(b"CONNECT {}\r\nINFO {}\r\nSUB a  RSID:1:1\r\nPING\r\n")
    assert remote.heard() == b"PONG\r\n"
    assert link.is_legacy
    server.peer().send(b"PUB a 1\r\nx\r\n")
    assert remote.heard() == b"MSG a RSID:1:1 1\r\nx\r\n"
    with pytest.raises(ValueError, match="after the handshake"):
        link.speak_legacy()


def test_a_link_that_stays_modern_is_as_any_other(server: Server) -> None:
    remote = Remote(server, LegacyRouteLink)
    remote.link.configure(headers=True, has_origin=True, origin_unsub=True)
    remote.link.serve(GLOBAL, server.interest)
    client(server).send(b"SUB a 1\r\nUNSUB 1 5\r\n")
    assert remote.heard() == b"RS+ $G a\r\n"
    remote.say(b"RS+ $G b\r\n")
    server.peer().send(b"PUB b 1\r\nx\r\n")
    assert remote.heard() == b"RMSG $G b 1\r\nx\r\n"
    assert remote.say(b"SUB a  RSID:1:1\r\n").heard() == b"-ERR 'Unknown Protocol Operation'\r\n"


def test_a_request_crosses_from_one_protocol_to_the_other_and_back(pair: tuple[Server, Server]) -> None:
    one, other = pair
    ends = one.legacy_route(), other.legacy_route()
    service = client(other).send(b"SUB svc workers 1\r\n")
    exchange(ends)
    asking = client(one, hello=QUIET_WITH_HEADERS).send(
        b"SUB in.* 1\r\nHPUB svc in.1 12 13\r\nNATS/1.0\r\n\r\nq\r\n"
    )
    exchange(ends)
    assert service.received() == b"MSG svc 1 in.1 1\r\nq\r\n"
    service.send(b"PUB in.1 1\r\na\r\n")
    exchange(ends)
    assert asking.received() == b"MSG in.1 1 1\r\na\r\n"


def test_a_message_is_served_once_to_each_of_both_kinds(server: Server) -> None:
    old, new = server.legacy_route(), server.route()
    old.say(b"SUB a  RSID:1:1\r\nSUB *  RSID:1:2\r\nSUB a q QRSID:1:3\r\n")
    new.say(b"RS+ $G a\r\nRS+ $G a q 1\r\n")
    member = server.peer().send(b"SUB a q 1\r\nSUB a 2\r\n")
    old.heard()
    new.heard()
    server.peer().send(b"PUB a 1\r\nx\r\n" * 90)
    local, remote, modern = member.received(), old.heard(), new.heard()
    assert local.count(b"MSG a 2 1") == 90
    assert len(re.findall(rb"MSG a RSID:1:[12] 1\r\nx", remote)) == 90
    assert modern.count(b"RMSG $G a ") == 90
    served = local.count(b"MSG a 1 1"), remote.count(b"QRSID"), modern.count(b"| q")
    assert sum(served) == 90
    assert all(served), served


def test_a_subscription_to_imported_streams_is_told_for_each_of_them() -> None:
    server = Server()
    exporting, importing = Space(server, "$G"), Space(server, "B")
    exporting.interest.account = GLOBAL
    server.accounts[GLOBAL] = exporting.interest
    importing.import_stream(exporting, b"s.>", b"here.>")
    importing.import_stream(exporting, b"t", b"here.t")
    remote = server.legacy_route()
    peer = importing.peer()
    peer.session.__dict__["cid"] = 4
    peer.send(b"SUB > 1\r\nSUB here.s q 2\r\n")
    told = remote.heard()
    assert sorted(told.splitlines()) == [b"SUB s.>  RSID:0:1", b"SUB s.s q QRSID:0:3", b"SUB t  RSID:0:2"]
    remote.say(b"MSG t RSID:0:2 1\r\nx\r\nMSG s.s QRSID:0:3 1\r\ny\r\n")
    assert peer.received() == b"MSG here.t 1 1\r\nx\r\nMSG here.s 2 1\r\ny\r\n"
    peer.link.detach()
    assert remote.heard().count(b"UNSUB") == 3
    server.end_routes()
    for space in (exporting, importing):
        space.end()
        vars(space).clear()
    server.stop()


def test_what_is_sent_on_to_a_slow_peer_dooms_it_at_the_limit() -> None:
    server = Server(max_pending=5_000, congestion_mark=2_000)
    remote = server.legacy_route().say(b"SUB a  RSID:1:1\r\nSUB a q QRSID:1:2\r\n")
    server.peer().send(b"PUB a 1000\r\n%b\r\n" % (b"x" * 1000) * 9)
    assert remote.reason is CloseReason.SLOW_CONSUMER_PENDING_BYTES
    server.stop()


def test_a_failing_rule_ends_the_route() -> None:
    server = Server()
    remote = server.legacy_route()

    def fails(_subject: bytes) -> bool:
        raise LookupError("no rule")

    failures: list[Exception] = []
    remote.session.__dict__["failed"] = failures.append
    remote.link.restrict(fails, None)
    client(server).send(b"SUB a 1\r\n")
    assert [type(error) for error in failures] == [LookupError]
    assert remote.heard() == b""
    server.stop()


def test_a_link_that_was_never_used_gives_everything_back() -> None:
    link = LegacyRouteLink(Router(), None)
    link.speak_legacy()
    link.detach()
