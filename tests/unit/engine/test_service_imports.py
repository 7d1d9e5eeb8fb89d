"""Imported services in the engine: requests pass, responses come back, and everything awaited is bounded."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

import pytest
from account_spaces import Spaces
from engine_peers import NO_RESPONDERS, QUIET, QUIET_WITH_HEADERS, Broker

from headrace.core.service import Delivery
from headrace.engine.service import ServiceLink
from headrace.limits import SERVICE_CHAIN, SERVICE_RESPONSES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_peers import Peer

SECOND = 1_000_000_000
MADE = re.compile(rb"_R_\.[0-9a-f]{8}\.[0-9a-f]{18}")


@pytest.fixture
def spaces(broker: Broker) -> Iterator[Spaces]:
    spaces = Spaces(broker)
    yield spaces
    spaces.stop()


def made(peer: Peer) -> bytes:
    """The reply subject of the one request that has come."""
    found = MADE.findall(peer.received())
    assert len(found) == 1
    return bytes(found[0])


def test_request_and_response(spaces: Spaces) -> None:
    service = spaces.b.import_service(spaces.a, b"svc", b"my")
    a = spaces.a.peer().send(b"SUB svc 7\r\n")
    b = spaces.b.peer().send(b"SUB inbox 1\r\nPUB my inbox 2\r\nhi\r\n")

    request = a.received()
    reply = MADE.findall(request)[0]
    assert request == b"MSG svc 7 %b 2\r\nhi\r\n" % reply
    assert service.awaited == 1

    a.send(b"PUB %b 3\r\nyes\r\nPUB %b 2\r\nno\r\n" % (reply, reply))
    assert b.received() == b"MSG inbox 1 3\r\nyes\r\n"
    assert service.awaited == spaces.a.link.awaited == 0


def test_request_without_reply_awaits_nothing(spaces: Spaces) -> None:
    service = spaces.b.import_service(spaces.a, b"svc")
    a = spaces.a.peer().send(b"SUB svc 1\r\n")

    spaces.b.peer().send(b"PUB svc 2\r\nhi\r\n")

    assert a.received() == b"MSG svc 1 2\r\nhi\r\n"
    assert service.awaited == 0


def test_nobody_there_is_said_at_once_and_not_awaited(spaces: Spaces) -> None:
    service = spaces.b.import_service(spaces.a, b"svc", b"my")
    b = spaces.b.peer(NO_RESPONDERS).send(b"SUB r 1\r\nPUB my r 0\r\n\r\n")

    assert b.received() == b"HMSG r 1 38 38\r\nNATS/1.0 503\r\nNats-Subject: my\r\n\r\n\r\n".replace(
        b"38", b"34"
    )
    assert service.awaited == 0


def test_local_subscriber_is_somebody_where_the_service_has_nobody(spaces: Spaces) -> None:
    spaces.b.import_service(spaces.a, b"svc")
    local = spaces.b.peer().send(b"SUB svc 5\r\n")
    b = spaces.b.peer(NO_RESPONDERS).send(b"SUB r 1\r\nPUB svc r 1\r\nx\r\n")

    assert local.received() == b"MSG svc 5 r 1\r\nx\r\n"
    assert b.received() == b""


def test_streamed_responses_end_with_an_empty_one(spaces: Spaces) -> None:
    service = spaces.b.import_service(spaces.a, b"svc", is_single=False)
    a = spaces.a.peer().send(b"SUB svc 1\r\n")
    b = spaces.b.peer().send(b"SUB r 1\r\nPUB svc r 0\r\n\r\n")
    reply = made(a)

    a.send(b"".join(b"PUB %b %d\r\n%b\r\n" % (reply, len(text), text) for text in (b"1", b"22", b"", b"3")))

    assert b.received() == b"MSG r 1 1\r\n1\r\nMSG r 1 2\r\n22\r\nMSG r 1 0\r\n\r\n"
    assert service.awaited == 0


def test_streamed_responses_end_when_the_requester_is_gone(spaces: Spaces) -> None:
    service = spaces.b.import_service(spaces.a, b"svc", is_single=False)
    a = spaces.a.peer(NO_RESPONDERS).send(b"SUB svc 1\r\nSUB i 2\r\n")
    b = spaces.b.peer().send(b"SUB r 1\r\nPUB svc r 0\r\n\r\nUNSUB 1\r\n")
    reply = made(a)

    a.send(b"PUB %b i 1\r\n1\r\n" % reply)

    assert b.received() == b""
    assert b"503" not in a.received()  # a responder is no requester, though its response has a reply subject
    assert service.awaited == spaces.b.link.awaited == 0


def test_made_up_reply_subject_has_no_responders(spaces: Spaces) -> None:
    a = spaces.a.peer(NO_RESPONDERS).send(b"SUB i 1\r\nPUB _R_.zzz i 0\r\n\r\n")

    assert b"503" in a.received()


def test_response_after_the_threshold_reaches_nobody(spaces: Spaces) -> None:
    service = spaces.b.import_service(spaces.a, b"svc", threshold_ns=5 * SECOND)
    router = spaces.broker.router
    router.now = 100 * SECOND
    a = spaces.a.peer().send(b"SUB svc 1\r\n")
    b = spaces.b.peer().send(b"SUB r 1\r\nPUB svc r 0\r\n\r\n")
    first = made(a)
    router.now = 104 * SECOND
    b.send(b"PUB svc r 0\r\n\r\n")
    second = made(a)

    router.now = 105 * SECOND
    a.send(b"PUB %b 1\r\n1\r\nPUB %b 1\r\n2\r\n" % (first, second))

    assert b.received() == b"MSG r 1 1\r\n2\r\n"
    assert service.awaited == 0


def test_expiry_gives_up_what_is_late_and_a_response_counts_as_being_heard_of(spaces: Spaces) -> None:
    service = spaces.b.import_service(spaces.a, b"svc", is_single=False, threshold_ns=5 * SECOND)
    router = spaces.broker.router
    router.now = 100 * SECOND
    a = spaces.a.peer().send(b"SUB svc 1\r\n")
    b = spaces.b.peer().send(b"SUB r 1\r\nPUB svc r 0\r\n\r\n")
    lively = made(a)
    b.send(b"PUB svc r 0\r\n\r\n")
    made(a)
    router.now = 103 * SECOND
    a.send(b"PUB %b 1\r\n1\r\n" % lively)

    spaces.b.link.expire(106 * SECOND)
    assert service.awaited == 1
    spaces.b.link.expire(108 * SECOND)
    assert service.awaited == 0


def test_awaited_responses_are_bounded_and_the_oldest_goes(plain_broker: Broker) -> None:
    spaces = Spaces(plain_broker)
    service = spaces.b.import_service(spaces.a, b"svc")
    a = spaces.a.peer().send(b"SUB svc 1\r\n")
    b = spaces.b.peer().send(b"SUB r 1\r\n")
    b.send(b"PUB svc r 0\r\n\r\n")
    oldest = made(a)

    b.send(b"PUB svc r 0\r\n\r\n" * SERVICE_RESPONSES)

    assert service.awaited == spaces.a.link.awaited == SERVICE_RESPONSES
    a.send(b"PUB %b 1\r\n1\r\n" % oldest)
    assert b.received() == b""
    spaces.stop()


def test_response_with_a_reply_can_be_answered(spaces: Spaces) -> None:
    spaces.b.import_service(spaces.a, b"svc")
    a = spaces.a.peer().send(b"SUB svc 1\r\nSUB more 2\r\n")
    b = spaces.b.peer().send(b"SUB r 1\r\nPUB svc r 1\r\nq\r\n")

    a.send(b"PUB %b more 1\r\n1\r\n" % made(a))
    b.send(b"PUB %b 1\r\n2\r\n" % made(b))

    assert a.received() == b"MSG more 2 1\r\n2\r\n"


def test_wildcards_are_translated(spaces: Spaces) -> None:
    spaces.b.import_service(spaces.a, b"svc.*.*", b"my.$2.$1")
    a = spaces.a.peer().send(b"SUB svc.> 1\r\n")

    spaces.b.peer().send(b"PUB my.x.y 0\r\n\r\nPUB my.x 0\r\n\r\n")

    assert a.received() == b"MSG svc.y.x 1 0\r\n\r\n"


def test_chain_of_services(spaces: Spaces) -> None:
    spaces.b.import_service(spaces.a, b"svc")
    spaces.c.import_service(spaces.b, b"svc")
    a = spaces.a.peer().send(b"SUB svc 1\r\n")
    c = spaces.c.peer().send(b"SUB r 1\r\nPUB svc r 1\r\nq\r\n")

    a.send(b"PUB %b 1\r\n1\r\n" % made(a))

    assert c.received() == b"MSG r 1 1\r\n1\r\n"
    assert spaces.a.link.awaited == spaces.b.link.awaited == 0


def test_request_that_goes_round_in_circles_ends(spaces: Spaces) -> None:
    """No configuration has these; the engine does not rely on it."""
    spaces.b.import_service(spaces.a, b"svc")
    spaces.a.import_service(spaces.b, b"svc")
    b = spaces.b.peer(NO_RESPONDERS).send(b"SUB r 1\r\nPUB svc r 0\r\n\r\n")

    assert b"503" in b.received()
    assert spaces.a.link.awaited == spaces.b.link.awaited == 0


def test_chain_has_an_end(plain_broker: Broker) -> None:
    from account_spaces import Space

    row = [Space(plain_broker, str(number)) for number in range(SERVICE_CHAIN + 1)]
    for importer, exporter in itertools.pairwise(row):
        importer.import_service(exporter, b"svc")
    last = [space.peer(b"").send(QUIET + b"SUB svc 1\r\n") for space in row[-2:]]

    row[0].peer().send(b"PUB svc 1\r\nx\r\n")
    assert [peer.received() for peer in last] == [b"MSG svc 1 1\r\nx\r\n", b""]

    row[1].peer().send(b"PUB svc 1\r\ny\r\n")
    assert last[1].received() == b"MSG svc 1 1\r\ny\r\n"
    for space in row:
        for peer in space.peers:
            peer.link.detach()
        space.end()
        space.peers.clear()


def test_request_is_no_part_of_an_exported_stream(spaces: Spaces) -> None:
    spaces.b.import_service(spaces.a, b"st.svc", b"my")
    spaces.c.import_stream(spaces.a, b"st.>")
    c = spaces.c.peer().send(b"SUB st.> 1\r\n")
    a = spaces.a.peer().send(b"SUB st.> 1\r\n")

    spaces.b.peer().send(b"PUB my 1\r\nx\r\n")

    assert a.received() == b"MSG st.svc 1 1\r\nx\r\n"
    assert c.received() == b""


def test_guessed_reply_reaches_nobody(spaces: Spaces) -> None:
    service = spaces.b.import_service(spaces.a, b"svc")
    a = spaces.a.peer().send(b"SUB svc 1\r\n")
    b = spaces.b.peer().send(b"SUB r 1\r\nPUB svc r 1\r\nq\r\n")
    reply = made(a)
    near = reply[:-1] + (b"0" if reply[-1:] != b"0" else b"1")

    a.send(b"PUB %b 1\r\nx\r\nPUB %b.x 1\r\nx\r\nPUB %b 1\r\nx\r\n" % (near, reply, reply[:-1]))
    for space in (spaces.b, spaces.c):
        space.peer().send(b"PUB %b 1\r\nx\r\n" % reply)

    assert b.received() == b""
    assert service.awaited == 1


def test_requester_is_named_in_a_header_it_cannot_write(spaces: Spaces) -> None:
    spaces.b.import_service(spaces.a, b"svc")
    a = spaces.a.peer(QUIET_WITH_HEADERS).send(b"SUB svc 1\r\n")
    b = spaces.b.peer(QUIET_WITH_HEADERS)
    b.session.hooks["request_info"] = lambda shares, service, names_server: b'{"acc":"B"}'
    block = b"NATS/1.0\r\nnats-request-info: lies\r\nA: b\r\nNATS-REQUEST-INFO: lies\r\n\r\n"

    b.send(b"HPUB svc %d %d\r\n%bx\r\n" % (len(block), len(block) + 1, block))

    expected = b'NATS/1.0\r\nA: b\r\nNats-Request-Info: {"acc":"B"}\r\n\r\n'
    assert a.received() == b"HMSG svc 1 %d %d\r\n%bx\r\n" % (len(expected), len(expected) + 1, expected)
    assert b.session.called("request_info") == [(False, None, False)]


def test_requester_of_a_chain_shares_what_the_first_import_says(spaces: Spaces) -> None:
    spaces.b.import_service(spaces.a, b"svc")
    spaces.c.import_service(spaces.b, b"svc", shares=True)
    spaces.a.peer().send(b"SUB svc 1\r\n")
    c = spaces.c.peer()

    c.send(b"PUB svc 1\r\nx\r\n")

    assert c.session.called("request_info") == [(True, None, True), (True, "B", True)]


def test_server_of_a_requester_is_named_from_the_first_import_on_that_shares(spaces: Spaces) -> None:
    spaces.b.import_service(spaces.a, b"svc", shares=True)
    spaces.c.import_service(spaces.b, b"svc")
    spaces.a.peer().send(b"SUB svc 1\r\n")
    c = spaces.c.peer()

    c.send(b"PUB svc 1\r\nx\r\n")

    assert c.session.called("request_info") == [(False, None, False), (False, "B", True)]


def test_mapping_of_the_exporter_applies(spaces: Spaces) -> None:
    spaces.b.import_service(spaces.a, b"old")
    spaces.a.interest.mapper = lambda subject: (b"new" if subject == b"old" else subject, True)
    a = spaces.a.peer().send(b"SUB new 1\r\nSUB old 2\r\n")

    spaces.b.peer().send(b"PUB old 1\r\nx\r\n")

    assert a.received() == b"MSG new 1 1\r\nx\r\n"


def test_publication_to_many_goes_on_after_passing_through(spaces: Spaces) -> None:
    """Other receivers of the same publication, with and without headers, before and after the import."""
    before = [spaces.b.peer(hello).send(b"SUB svc 1\r\n") for hello in (QUIET, QUIET_WITH_HEADERS)]
    spaces.b.import_service(spaces.a, b"svc")
    after = [spaces.b.peer(hello).send(b"SUB svc 1\r\n") for hello in (QUIET, QUIET_WITH_HEADERS)]
    a = [spaces.a.peer(hello).send(b"SUB svc 1\r\n") for hello in (QUIET, QUIET_WITH_HEADERS)]

    spaces.b.peer(QUIET_WITH_HEADERS).send(b"HPUB svc 12 15\r\nNATS/1.0\r\n\r\nxyz\r\n")

    for plain, with_headers in (before, after, a):
        assert plain.received() == b"MSG svc 1 3\r\nxyz\r\n"
        assert with_headers.received() == b"HMSG svc 1 12 15\r\nNATS/1.0\r\n\r\nxyz\r\n"


def test_counts_are_of_what_clients_sent_and_got(spaces: Spaces) -> None:
    spaces.b.import_service(spaces.a, b"svc")
    spaces.a.peer().send(b"SUB svc 1\r\n")

    spaces.b.peer().send(b"PUB svc 3\r\nxyz\r\n")

    totals = spaces.broker.router.statistics()
    assert [totals[name] for name in ("in_msgs", "in_bytes", "out_msgs", "out_bytes")] == [1, 3, 1, 3]


def test_service_inside_the_server_answers(spaces: Spaces) -> None:
    class Session:
        link: ServiceLink

        def deliver(self, batch: list[Delivery]) -> None:
            for delivery in batch:
                self.link.publish(delivery.reply, b"done " + delivery.payload)

        def request_info(self, shares: bool, service: str | None, names_server: bool) -> None:
            raise AssertionError("it asks nobody")

    spaces.b.import_service(spaces.a, b"svc")
    session = Session()
    session.link = ServiceLink(spaces.broker.router, session, Delivery)
    session.link.interest = spaces.a.interest
    session.link.subscribe(b"svc")
    b = spaces.b.peer().send(b"SUB r 1\r\nPUB svc r 1\r\nx\r\n")

    for _ in range(3):
        spaces.broker.end_tick()

    assert b.received() == b"MSG r 1 6\r\ndone x\r\n"
    session.link.detach()
    vars(session).clear()


def test_requester_that_wants_one_response_only(spaces: Spaces) -> None:
    """The response takes the requester's subscription away, while the responder's bytes are parsed."""
    service = spaces.b.import_service(spaces.a, b"svc", is_single=False)
    a = spaces.a.peer().send(b"SUB svc 1\r\n")
    b = spaces.b.peer().send(b"SUB r 1\r\nUNSUB 1 1\r\nPUB svc r 1\r\nx\r\n")
    reply = made(a)

    a.send(b"PUB %b 1\r\n1\r\nPUB %b 1\r\n2\r\n" % (reply, reply))

    assert b.received() == b"MSG r 1 1\r\n1\r\n"
    assert service.awaited == 0


def test_failure_to_translate_ends_the_requester_only(spaces: Spaces) -> None:
    class Broken:
        def to_exported(self, subject: bytes, /) -> bytes:
            raise RuntimeError("broken")

    from headrace.engine.service_imports import ServiceImport

    spaces.b.link.add(b"svc", ServiceImport(spaces.a.link, Broken(), "export"))
    b = spaces.b.peer()
    other: Any = spaces.b.peer().send(b"SUB x 1\r\n")

    with pytest.raises(RuntimeError, match="broken"):
        b.send(b"PUB svc r 1\r\nx\r\n")

    spaces.b.peer().send(b"PUB x 1\r\ny\r\n")
    assert other.received() == b"MSG x 1 1\r\ny\r\n"
    assert spaces.a.link.awaited == 0
