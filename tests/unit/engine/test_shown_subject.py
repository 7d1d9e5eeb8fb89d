"""Messages that are routed by one subject and shown with another: what every kind of receiver gets."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from account_spaces import Spaces
from engine_peers import FILTERED, NO_RESPONDERS, QUIET, QUIET_WITH_HEADERS, Broker

from headrace.core.service import Delivery
from headrace.engine.batches import Outgoing
from headrace.engine.permission_cache import PermissionCache
from headrace.engine.service import ServiceLink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.engine.interest import Interest

HEADERS = b"NATS/1.0\r\nA: 1\r\n\r\n"
ACK = b"$JS.ACK.S.c.1.1.1.1700000000000000000.0"


class Store:
    """A service that passes messages on, and keeps what it gets."""

    def __init__(self, broker: Broker, interest: Interest) -> None:
        self.got: list[Delivery] = []
        self.errors: list[Exception] = []
        self.link = ServiceLink(broker.router, self, Delivery)
        self.link.interest = interest
        self._broker = broker

    def deliver(self, batch: list[Delivery]) -> None:
        self.got += batch

    def failed(self, error: Exception) -> None:
        self.errors.append(error)

    def wake(self) -> None:
        """A tick always comes."""

    def request_info(self, _shares: bool, _account: str | None, _names_server: bool) -> bytes | None:
        return None

    def pass_on(
        self, inbox: bytes, shown: bytes, payload: bytes = b"x", reply: bytes = b"", headers: bytes = b""
    ) -> None:
        assert self.link.outgoing.pass_on(inbox, shown, payload, reply=reply, headers=headers)
        self.link.announce()
        self._broker.end_tick()
        assert self.errors == []

    def stop(self) -> None:
        """Detaches the link and lets go of everything."""
        self.link.detach()
        vars(self).clear()


@pytest.fixture
def store(plain_broker: Broker) -> Iterator[Store]:
    store = Store(plain_broker, plain_broker.interest)
    yield store
    store.stop()


@pytest.fixture
def spaces(plain_broker: Broker) -> Iterator[Spaces]:
    spaces = Spaces(plain_broker)
    yield spaces
    spaces.stop()


@pytest.fixture
def exporting(plain_broker: Broker, spaces: Spaces) -> Iterator[Store]:
    """The store in account A."""
    store = Store(plain_broker, spaces.a.interest)
    yield store
    store.stop()


def test_interest_is_the_inboxs_and_the_subject_the_messages(plain_broker: Broker, store: Store) -> None:
    inbox = plain_broker.peer().send(b"SUB in.* 1\r\n")
    other = plain_broker.peer().send(b"SUB orders.> 2\r\n")
    store.pass_on(b"in.box", b"orders.1", b"one", ACK)
    store.pass_on(b"in.box", b"o", b"")
    assert inbox.received() == b"MSG orders.1 1 %b 3\r\none\r\nMSG o 1 0\r\n\r\n" % ACK
    assert other.received() == b""
    assert store.link.counters[:2] == (2, 3)


def test_headers_go_to_those_who_read_them(plain_broker: Broker, store: Store) -> None:
    with_headers = plain_broker.peer(QUIET_WITH_HEADERS).send(b"SUB i 1\r\n")
    without = plain_broker.peer(QUIET).send(b"SUB i 2\r\n")
    store.pass_on(b"i", b"orders.1", b"one", ACK, HEADERS)
    assert with_headers.received() == b"HMSG orders.1 1 %b 18 21\r\n%bone\r\n" % (ACK, HEADERS)
    assert without.received() == b"MSG orders.1 2 %b 3\r\none\r\n" % ACK


def test_one_member_of_each_group_and_the_others_all(plain_broker: Broker, store: Store) -> None:
    members = [plain_broker.peer().send(b"SUB i g %d\r\n" % n) for n in range(3)]
    plain = plain_broker.peer().send(b"SUB > 9\r\n")
    for _ in range(60):
        store.pass_on(b"i", b"orders.1")
    got = [member.received() for member in members]
    counts = Counter(frame for text in got for frame in text.split(b"x\r\n") if frame)
    assert set(counts) == {b"MSG orders.1 %d 1\r\n" % n for n in range(3)}
    assert counts.total() == 60
    assert plain.received() == b"MSG orders.1 9 1\r\nx\r\n" * 60


def test_limit_of_a_subscription_counts(plain_broker: Broker, store: Store) -> None:
    peer = plain_broker.peer().send(b"SUB i 1\r\nUNSUB 1 2\r\n")
    for n in range(3):
        store.pass_on(b"i", b"o.%d" % n)
    assert peer.received() == b"MSG o.0 1 1\r\nx\r\nMSG o.1 1 1\r\nx\r\n"


def test_mapping_is_of_the_inbox(plain_broker: Broker, store: Store) -> None:
    plain_broker.interest.mapper = lambda subject: (b"to", True) if subject == b"i" else None
    peer = plain_broker.peer().send(b"SUB to 1\r\nSUB i 2\r\n")
    store.pass_on(b"i", b"orders.1")
    assert peer.received() == b"MSG orders.1 1 1\r\nx\r\n"


@pytest.mark.parametrize(
    ("denied", "gets"), [(b"other", True), (b"i", False), (b"orders.1", False), (b"orders.1 g", True)]
)
def test_a_denied_subject_is_denied_by_either_name(
    plain_broker: Broker, store: Store, denied: bytes, gets: bool
) -> None:
    peer = plain_broker.peer()
    peer.session.hooks["subscribe_permission"] = lambda *_: FILTERED
    peer.link.restrict(None, PermissionCache(lambda key: key != denied), True, False)
    peer.send(b"SUB * 1\r\n")
    store.pass_on(b"i", b"orders.1")
    assert peer.received() == (b"MSG orders.1 1 1\r\nx\r\n" if gets else b"")


def test_denied_member_of_a_group_is_passed_over(plain_broker: Broker, store: Store) -> None:
    first, second = plain_broker.peer(), plain_broker.peer().send(b"SUB i g 2\r\n")
    first.session.hooks["subscribe_permission"] = lambda *_: FILTERED
    first.link.restrict(None, PermissionCache(lambda key: key != b"orders.1 g"), True, False)
    first.send(b"SUB i g 1\r\n")
    for _ in range(20):
        store.pass_on(b"i", b"orders.1")
    assert (first.received(), second.received()) == (b"", b"MSG orders.1 2 1\r\nx\r\n" * 20)


def test_reply_is_noted_and_what_is_seen_is_traced(plain_broker: Broker, store: Store) -> None:
    peer = plain_broker.peer()
    peer.link.restrict(None, None, False, True)
    peer.link.traced = True
    peer.send(b"SUB i 1\r\n")
    store.pass_on(b"i", b"orders.1", b"one", ACK)
    assert peer.session.called("note_reply") == [(ACK,)]
    assert peer.session.called("trace_delivery") == [(b"orders.1", b"1", ACK, 0, 3)]


def test_a_service_sees_what_a_client_sees(plain_broker: Broker, store: Store) -> None:
    sid = store.link.subscribe(b"i")
    store.pass_on(b"i", b"orders.1", b"one", ACK, HEADERS)
    store.pass_on(b"i", b"o")
    plain_broker.end_tick()
    assert store.got == [
        Delivery(sid, b"orders.1", ACK, HEADERS, b"one"),
        Delivery(sid, b"o", b"", b"", b"x"),
    ]


def test_over_an_imported_stream_the_subject_stays(spaces: Spaces, exporting: Store) -> None:
    spaces.b.import_stream(spaces.a, b"deliver.>", b"from.a.>")
    peer = spaces.b.peer(QUIET_WITH_HEADERS).send(b"SUB from.a.> 1\r\n")
    exporting.pass_on(b"deliver.b", b"orders.1", b"one", ACK, HEADERS)
    spaces.a.peer().send(b"PUB deliver.b 1\r\ny\r\n")
    assert peer.received() == (
        b"HMSG orders.1 1 %b 18 21\r\n%bone\r\nMSG from.a.b 1 1\r\ny\r\n" % (ACK, HEADERS)
    )


def test_an_importer_that_names_the_subject_listens(spaces: Spaces, exporting: Store) -> None:
    spaces.b.import_stream(spaces.a, b"deliver.>", b"from.a.>")
    peer = spaces.b.peer().send(b"SUB from.a.> 1\r\n")
    assert not exporting.link.listens(b"deliver.b")
    peer.send(b"SUB from.a.b 2\r\n")
    assert exporting.link.listens(b"deliver.b")


@pytest.mark.parametrize(("denied", "gets"), [(b"i", True), (b"from.i", False), (b"orders.1", False)])
def test_over_an_imported_stream_what_is_denied_is_what_the_importer_sees(
    spaces: Spaces, exporting: Store, denied: bytes, gets: bool
) -> None:
    spaces.b.import_stream(spaces.a, b"i", b"from.i")
    peer = spaces.b.peer()
    peer.session.hooks["subscribe_permission"] = lambda *_: FILTERED
    peer.link.restrict(None, PermissionCache(lambda key: key != denied), True, False)
    peer.send(b"SUB from.* 1\r\n")
    exporting.pass_on(b"i", b"orders.1")
    assert peer.received() == (b"MSG orders.1 1 1\r\nx\r\n" if gets else b"")


def test_a_pull_from_another_account(spaces: Spaces, exporting: Store) -> None:
    """Messages come back under their subjects, and their acknowledgement subjects are what they were."""
    service = spaces.b.import_service(spaces.a, b"next", is_single=False)
    acks = spaces.b.import_service(spaces.a, b"$JS.ACK.>")
    exporting.link.subscribe(b"next")
    sid = exporting.link.subscribe(b"$JS.ACK.>")
    peer = spaces.b.peer(NO_RESPONDERS).send(b"SUB inbox 1\r\nPUB next inbox 1\r\n2\r\n")
    spaces.broker.end_tick()
    for n in range(2):
        exporting.pass_on(exporting.got[0].reply, b"orders.%d" % n, b"one", ACK, HEADERS if n else b"")
    assert peer.received() == (
        b"MSG orders.0 1 %b 3\r\none\r\nHMSG orders.1 1 %b 18 21\r\n%bone\r\n" % (ACK, ACK, HEADERS)
    )
    assert spaces.a.link.awaited == 1
    assert spaces.b.link.awaited == 0
    peer.send(b"PUB %b 4\r\n+ACK\r\n" % ACK)
    spaces.broker.end_tick()
    assert exporting.got[1:] == [Delivery(sid, ACK, b"", b"", b"+ACK")]
    assert (service.awaited, acks.awaited) == (1, 0)


def test_a_message_with_an_acknowledgement_subject_to_a_service_of_another_account(
    spaces: Spaces, exporting: Store
) -> None:
    spaces.a.import_service(spaces.b, b"svc", b"deliver")
    peer = spaces.b.peer().send(b"SUB svc 1\r\n")
    exporting.pass_on(b"deliver", b"orders.1", b"one", ACK)
    exporting.pass_on(b"deliver", b"orders.2", b"two")
    assert peer.received() == b"MSG orders.1 1 %b 3\r\none\r\nMSG orders.2 1 3\r\ntwo\r\n" % ACK
    assert spaces.b.link.awaited == 0


def test_what_breaks_a_wire_is_refused() -> None:
    out = Outgoing()
    for inbox, shown, reply in (
        (b"", b"a", b""),
        (b"a", b"", b""),
        (b"a b", b"c", b""),
        (b"a", b"b\r\nc", b""),
        (b"a", b"b\t", b""),
        (b"a", b"b", b"c d"),
    ):
        assert not out.pass_on(inbox, shown, b"x", reply=reply)
    assert out.size == 0
    assert out.pass_on(b"a", b"b", b"pay", reply=b"c", headers=HEADERS)
    assert out.add(b"d", b"")
    assert out.take_shown() == [(b"a", b"b", b"c", HEADERS, b"pay"), (b"d", b"d", b"", b"", b"")]


@pytest.mark.parametrize("around", [b"a", b"!", b"\x7f", b"\x80", b"\xff"])
def test_every_byte_at_every_place_is_looked_at(around: bytes) -> None:
    out = Outgoing()
    for length in range(1, 20):
        assert out.add(around * length, b"")
        for place in range(length):
            for byte in (0, 9, 10, 13, 31, 32):
                word = bytearray(around * length)
                word[place] = byte
                assert not out.add(bytes(word), b""), word
    assert len(out.take()) == 19


def test_hosts_that_cannot_show_a_subject() -> None:
    out = Outgoing()
    out.pass_on(b"a", b"shown", b"pay", reply=b"c")
    assert out.take() == [(b"a", b"c", b"", b"pay")]
    out.pass_on(b"a", b"shown", b"pay", reply=b"c", headers=HEADERS)
    out.add(b"d", b"")
    assert out.frames(99) == (b"HPUB a c 18 21\r\n" + HEADERS + b"pay\r\nPUB d 0\r\n\r\n", [])
