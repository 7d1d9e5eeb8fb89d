"""Services inside the server, as the engine sees them: batches in, publications out, nothing lost."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from engine_peers import QUIET, QUIET_WITH_HEADERS, Broker

from headrace.core.service import Delivery
from headrace.engine.interest import Interest
from headrace.engine.link import Router
from headrace.engine.reasons import CloseReason
from headrace.engine.service import ServiceLink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BATCH_MARK = 1 << 20
KB = b"PUB a 1000\r\n" + b"x" * 1000 + b"\r\n"
HEADERS = b"NATS/1.0\r\nA: 1\r\n\r\n"


class Service:
    """A service's session that keeps its batches; `act` is called with each one."""

    def __init__(self, broker: Broker) -> None:
        self.batches: list[list[Delivery]] = []
        self.errors: list[Exception] = []
        self.refused: list[bytes] = []
        self.wakes = 0
        self.act: Callable[[list[Delivery]], Any] | None = None
        self.link = ServiceLink(broker.router, self, Delivery)
        self.link.interest = broker.interest

    def deliver(self, batch: list[Delivery]) -> None:
        self.batches.append(batch)
        if self.act is not None:
            self.act(batch)

    def failed(self, error: Exception) -> None:
        self.errors.append(error)

    def wake(self) -> None:
        self.wakes += 1

    def unpublishable(self, subject: bytes) -> None:
        self.refused.append(subject)

    @property
    def messages(self) -> list[Delivery]:
        return [message for batch in self.batches for message in batch]

    @property
    def payloads(self) -> list[bytes]:
        return [message.payload for message in self.messages]


@pytest.fixture
def services(broker: Broker) -> Iterator[Callable[[], Service]]:
    yield from makes_services(broker)


@pytest.fixture
def new_service(plain_broker: Broker) -> Iterator[Callable[[], Service]]:
    yield from makes_services(plain_broker)


def makes_services(broker: Broker) -> Iterator[Callable[[], Service]]:
    made: list[Service] = []

    def make() -> Service:
        made.append(Service(broker))
        return made[-1]

    yield make
    for service in made:
        service.link.detach()
        vars(service).clear()


# ---- to the service -----------------------------------------------------------------------------


def test_message_reaches_the_service_with_all_its_parts(
    broker: Broker, services: Callable[[], Service]
) -> None:
    service = services()
    assert service.link.subscribe(b"other") == 1
    sid = service.link.subscribe(b"a.*")
    publisher = broker.peer(QUIET_WITH_HEADERS)
    publisher.send(b"PUB a.1 2\r\nhi\r\nPUB  a.2  re.ply  0\n\r\nHPUB a.3 r 18 20\r\n" + HEADERS + b"ho\r\n")
    broker.end_tick()
    assert service.messages == [
        Delivery(sid, b"a.1", b"", b"", b"hi"),
        Delivery(sid, b"a.2", b"re.ply", b"", b""),
        Delivery(sid, b"a.3", b"r", HEADERS, b"ho"),
    ]
    assert all(type(message) is Delivery for message in service.messages)
    assert service.link.counters[2:4] == (3, 22)


def test_one_tick_is_one_batch_in_the_order_of_arrival(
    plain_broker: Broker, new_service: Callable[[], Service]
) -> None:
    service = new_service()
    service.link.subscribe(b">")
    one, two = plain_broker.peer(), plain_broker.peer()
    for n in range(100):
        (one, two)[n % 2].send(b"PUB a.%d 3\r\n%03d\r\n" % (n % 3, n))
    assert service.batches == []
    plain_broker.end_tick()
    assert len(service.batches) == 1
    assert service.payloads == [b"%03d" % n for n in range(100)]
    assert [m.subject for m in service.messages] == [b"a.%d" % (n % 3) for n in range(100)]
    plain_broker.end_tick()
    assert len(service.batches) == 1


def test_what_has_come_and_what_was_said_is_forgotten_and_what_follows_is_not(
    plain_broker: Broker, new_service: Callable[[], Service]
) -> None:
    service = new_service()
    service.link.subscribe(b"ask")
    peer = plain_broker.peer(QUIET)
    peer.send(b"SUB answer 1\r\nPUB ask 5\r\nfirst\r\n")
    service.link.publish(b"answer", b"never sent")
    service.link.forget()
    plain_broker.end_tick()
    assert (service.messages, peer.received()) == ([], b"")

    peer.send(b"PUB ask 6\r\nsecond\r\n")
    service.link.publish(b"answer", b"sent")
    plain_broker.end_tick()
    assert service.payloads == [b"second"]
    assert peer.received() == b"MSG answer 1 4\r\nsent\r\n"


def test_request_to_a_service_has_a_responder(
    plain_broker: Broker, new_service: Callable[[], Service]
) -> None:
    service = new_service()
    service.link.subscribe(b"ask")
    peer = plain_broker.peer(
        b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB r 1\r\nPUB ask r 0\r\n\r\n'
    )
    plain_broker.end_tick()
    assert peer.received() == b""
    assert len(service.messages) == 1


def test_queue_group_gives_each_message_to_one_member(
    plain_broker: Broker, new_service: Callable[[], Service]
) -> None:
    one, two = new_service(), new_service()
    for service in (one, two):
        service.link.subscribe(b"a", b"group")
    plain_broker.peer().send(b"PUB a 1\r\nx\r\n" * 200)
    plain_broker.end_tick()
    assert len(one.messages) + len(two.messages) == 200
    assert one.messages
    assert two.messages


def test_subject_is_the_one_a_mapping_delivers_as(
    plain_broker: Broker, new_service: Callable[[], Service]
) -> None:
    service = new_service()
    service.link.subscribe(b"to.*")
    plain_broker.interest.mapper = lambda subject: (b"to." + subject, True)
    plain_broker.peer().send(b"PUB a 1\r\nx\r\n" * 3)
    plain_broker.end_tick()
    assert [m.subject for m in service.messages] == [b"to.a"] * 3


def test_two_subscriptions_that_match_are_two_deliveries(
    plain_broker: Broker, new_service: Callable[[], Service]
) -> None:
    service = new_service()
    sids = {service.link.subscribe(b"a.b"), service.link.subscribe(b"a.>")}
    plain_broker.peer().send(b"PUB a.b 1\r\nx\r\n")
    plain_broker.end_tick()
    assert {m.sid for m in service.messages} == sids


def test_unsubscribed_service_gets_nothing_more(
    plain_broker: Broker, new_service: Callable[[], Service]
) -> None:
    service = new_service()
    sid, other = service.link.subscribe(b"a"), service.link.subscribe(b"b")
    assert service.link.subscriptions_count == 2
    service.link.unsubscribe(sid)
    service.link.unsubscribe(sid)
    service.link.unsubscribe(999)
    plain_broker.peer().send(b"PUB a 1\r\nx\r\nPUB b 1\r\ny\r\n")
    plain_broker.end_tick()
    assert [(m.sid, m.payload) for m in service.messages] == [(other, b"y")]
    assert service.link.subscriptions() == [(b"b", None, b"2", 1, 0)]


@pytest.mark.parametrize("subject", [b"", b".", b"a..b", b"a.>.b", b"a b", b"a\r\n", b"\ta", b"a\0"])
def test_subject_that_is_none_is_refused(new_service: Callable[[], Service], subject: bytes) -> None:
    service = new_service()
    with pytest.raises(ValueError, match="not a subject"):
        service.link.subscribe(subject)
    assert service.link.subscriptions_count == 0


def test_queue_group_with_white_space_is_refused(new_service: Callable[[], Service]) -> None:
    with pytest.raises(ValueError, match="not a queue group"):
        new_service().link.subscribe(b"a", b"q q")


def test_thousands_of_subscriptions_come_and_go(
    plain_broker: Broker, new_service: Callable[[], Service]
) -> None:
    service = new_service()
    sids = [service.link.subscribe(b"s.%d" % n) for n in range(3000)]
    for sid in sids[::2]:
        service.link.unsubscribe(sid)
    plain_broker.peer().send(b"".join(b"PUB s.%d 0\r\n\r\n" % n for n in range(3000)))
    plain_broker.end_tick()
    assert [m.sid for m in service.messages] == sids[1::2]
    assert plain_broker.interest.statistics()["subscriptions"] == 1500


# ---- from the service ---------------------------------------------------------------------------


def test_publication_reaches_everyone_as_a_clients_would(
    plain_broker: Broker, new_service: Callable[[], Service]
) -> None:
    service = new_service()
    plain = plain_broker.peer(QUIET + b"SUB a.* 1\r\n")
    headed = plain_broker.peer(QUIET_WITH_HEADERS + b"SUB a.> 22\r\n")
    service.link.publish(b"a.b", b"hi")
    service.link.publish(b"a.b", b"", reply=b"r")
    service.link.publish(b"a.b", b"ho", reply=b"r", headers=HEADERS)
    service.link.publish(b"nobody", b"x")
    assert plain.received() == b""
    plain_broker.end_tick()
    assert plain.received() == b"MSG a.b 1 2\r\nhi\r\nMSG a.b 1 r 0\r\n\r\nMSG a.b 1 r 2\r\nho\r\n"
    assert headed.received() == (
        b"MSG a.b 22 2\r\nhi\r\nMSG a.b 22 r 0\r\n\r\nHMSG a.b 22 r 18 20\r\n" + HEADERS + b"ho\r\n"
    )
    statistics = plain_broker.router.statistics()
    assert (statistics["in_msgs"], statistics["out_msgs"]) == (4, 6)
    assert service.link.counters[:2] == (4, 2 + 0 + 20 + 1)


def test_publication_is_mapped_as_a_clients_is(
    plain_broker: Broker, new_service: Callable[[], Service]
) -> None:
    service = new_service()
    peer = plain_broker.peer(QUIET + b"SUB to.* 1\r\n")
    plain_broker.interest.mapper = lambda subject: (b"to." + subject, False)
    service.link.publish(b"a", b"x")
    plain_broker.end_tick()
    assert peer.received() == b"MSG to.a 1 1\r\nx\r\n"


def test_first_publication_outside_of_a_tick_asks_for_one(
    plain_broker: Broker, new_service: Callable[[], Service]
) -> None:
    service = new_service()
    assert not plain_broker.router.has_due
    service.link.publish(b"a", b"1")
    service.link.publish(b"a", b"2")
    assert service.wakes == 1
    assert plain_broker.router.has_due
    plain_broker.end_tick()
    assert not plain_broker.router.has_due
    service.link.publish(b"a", b"3")
    assert service.wakes == 2


def test_answers_leave_in_the_tick_that_brought_the_questions(
    plain_broker: Broker, new_service: Callable[[], Service]
) -> None:
    service = new_service()
    service.link.subscribe(b"ask")
    service.act = lambda batch: [service.link.publish(m.reply, b"to " + m.payload) for m in batch]
    peer = plain_broker.peer(QUIET + b"SUB r.* 1\r\n")
    peer.send(b"PUB ask r.1 1\r\nx\r\nPUB ask r.2 1\r\ny\r\n")
    plain_broker.end_tick()
    assert peer.received() == b"MSG r.1 1 4\r\nto x\r\nMSG r.2 1 4\r\nto y\r\n"
    assert service.wakes == 0


def test_publication_within_a_parse_is_delivered_at_the_end_of_the_tick(
    broker: Broker, services: Callable[[], Service]
) -> None:
    """A session may publish through a service while the bytes of its connection are being parsed."""
    service = services()
    peer = broker.peer(QUIET + b"SUB a 1\r\n")
    peer.session.hooks["pong"] = lambda: service.link.publish(b"a", b"x" * 100_000)
    peer.send(b"PONG\r\nPING\r\n")
    broker.end_tick()
    assert peer.received() in (
        b"PONG\r\nMSG a 1 100000\r\n" + b"x" * 100_000 + b"\r\n",
        b"MSG a 1 100000\r\n" + b"x" * 100_000 + b"\r\nPONG\r\n",  # a tick ended in between
    )


def test_publication_while_a_plan_is_followed_waits(
    plain_broker: Broker, new_service: Callable[[], Service]
) -> None:
    service = new_service()
    peer = plain_broker.peer(QUIET + b"SUB > 1\r\n")
    peer.link.traced = True
    peer.session.hooks["trace_delivery"] = lambda *_: (
        service.link.publish(b"b", b"y" * 70_000) if service.link.counters[0] < 3 else None
    )
    plain_broker.peer().send(b"PUB a 1\r\nx\r\n")
    for _ in range(4):
        plain_broker.end_tick()
    received = peer.received()
    assert received.startswith(b"MSG a 1 1\r\nx\r\nMSG b 1 70000\r\n")
    assert received.count(b"MSG b ") == 3
    assert service.errors == []


@pytest.mark.parametrize(
    ("subject", "reply"),
    [
        (b"", b""),
        (b"a b", b""),
        (b"a\r\nPUB x 0", b""),
        (b"a\tb", b""),
        (b"a\0", b""),
        (b"a", b"r r"),
        (b"a", b"r\n"),
    ],
)
def test_subject_that_would_break_the_wire_is_not_published(
    plain_broker: Broker, new_service: Callable[[], Service], subject: bytes, reply: bytes
) -> None:
    """A peer names subjects to services: what it names must not become ops of others' connections."""
    service = new_service()
    peer = plain_broker.peer(QUIET + b"SUB > 1\r\n")
    service.link.publish(subject, b"x", reply=reply)
    plain_broker.end_tick()
    assert service.refused == [subject]
    assert peer.received() == b""


def test_many_publications_are_routed_before_the_tick_ends(
    plain_broker: Broker, new_service: Callable[[], Service]
) -> None:
    """The queue is bounded; order holds across what went early and what waited."""
    service = new_service()
    peer = plain_broker.peer(QUIET + b"SUB a 1\r\n")
    for n in range(300):
        service.link.publish(b"a", b"%06d" % n + b"x" * 1000)
    early = peer.received()
    assert early.count(b"MSG") > 200
    plain_broker.end_tick()
    frames = (early + peer.received()).split(b"MSG a 1 1006\r\n")[1:]
    assert [int(frame[:6]) for frame in frames] == list(range(300))


def test_receiver_that_does_not_drain_is_cut_off_and_the_service_is_not_stalled(
    new_service: Callable[[], Service],
) -> None:
    broker = Broker(max_pending=40_000, congestion_mark=10_000)
    service = Service(broker)
    slow = broker.peer(QUIET + b"SUB a 1\r\n")
    for _ in range(60):
        service.link.publish(b"a", b"x" * 1000)
    broker.end_tick()
    assert slow.reason is CloseReason.SLOW_CONSUMER_PENDING_BYTES
    assert broker.router.stalled == 0
    service.link.detach()
    broker.stop()


def test_only_bytes_are_published(new_service: Callable[[], Service]) -> None:
    service = new_service()
    with pytest.raises(TypeError):
        service.link.publish(b"a", bytearray(b"x"))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        service.link.publish("a", b"x")  # type: ignore[arg-type]
    assert service.wakes == 0


# ---- to itself and to each other ----------------------------------------------------------------


def test_what_a_service_publishes_to_itself_comes_in_the_next_batch(
    plain_broker: Broker, new_service: Callable[[], Service]
) -> None:
    service = new_service()
    service.link.subscribe(b"loop")
    service.act = lambda batch: service.link.publish(b"loop", b"%d" % (int(batch[0].payload) + 1))
    service.link.publish(b"loop", b"0")
    plain_broker.end_tick()
    for n in range(50):
        assert plain_broker.router.has_due
        plain_broker.end_tick()
        assert service.payloads == [b"%d" % k for k in range(n + 1)]
    service.act = None
    plain_broker.end_tick()
    assert not plain_broker.router.has_due
    assert len(service.payloads) == 51


def test_two_services_that_answer_each_other_leave_the_tick_to_end(
    plain_broker: Broker, new_service: Callable[[], Service]
) -> None:
    one, two = new_service(), new_service()
    one.link.subscribe(b"one")
    two.link.subscribe(b"two")
    one.act = lambda _batch: one.link.publish(b"two", b"x")
    two.act = lambda _batch: two.link.publish(b"one", b"x")
    plain_broker.peer().send(b"PUB one 0\r\n\r\n")
    for _ in range(20):
        plain_broker.end_tick()
    assert 10 <= len(one.batches) + len(two.batches) <= 40
    assert abs(len(one.batches) - len(two.batches)) <= 1
    assert one.wakes == two.wakes == 0


# ---- bounds -------------------------------------------------------------------------------------


def test_batch_past_its_mark_is_handed_over_before_the_next_read(
    plain_broker: Broker, new_service: Callable[[], Service]
) -> None:
    service = new_service()
    service.link.subscribe(b"a")
    publisher = plain_broker.peer()
    most = 0
    for _ in range(5000):
        publisher.link.feed(KB)
        most = max(most, service.link.pending)
    assert most <= BATCH_MARK + 2000
    assert len(service.batches) == 4
    assert not publisher.link.is_stalled
    plain_broker.end_tick()
    assert service.payloads == [b"x" * 1000] * 5000


def test_service_is_served_in_the_midst_of_a_tick_and_may_do_everything_there(
    plain_broker: Broker, new_service: Callable[[], Service]
) -> None:
    """An urgent batch comes after the parse of a read: nothing that is in use goes."""
    service = new_service()
    service.link.subscribe(b"a")
    peer = plain_broker.peer(QUIET + b"SUB got 1\r\nSUB a 2\r\n")

    def act(batch: list[Delivery]) -> None:
        service.link.unsubscribe(service.link.subscribe(b"a"))
        service.link.publish(b"got", b"%d" % len(batch))
        plain_broker.interest.receivers(b"a")

    service.act = act
    peer.link.feed(KB * 2500)
    plain_broker.end_tick()
    sizes = [len(batch) for batch in service.batches]
    assert sum(sizes) == 2500
    assert peer.received().count(b"MSG got 1 ") == len(sizes) >= 3


def test_message_larger_than_the_mark_is_one_batch(
    plain_broker: Broker, new_service: Callable[[], Service]
) -> None:
    service = new_service()
    service.link.subscribe(b"a")
    size = 3 << 20
    peer = plain_broker.peer(max_payload=size)
    peer.link.feed(b"PUB a %d\r\n" % size + b"y" * size + b"\r\n")
    assert service.payloads == [b"y" * size]


def test_service_is_never_dropped_for_being_slow() -> None:
    broker = Broker(max_pending=40_000, drops_when_congested=True)
    service = Service(broker)
    service.link.subscribe(b"a")
    broker.peer().link.feed(KB * 60)
    broker.end_tick()
    assert len(service.messages) == 60
    assert broker.router.statistics()["slow_consumers"] == 0
    service.link.detach()
    broker.stop()


# ---- failures and ends --------------------------------------------------------------------------


def test_service_that_raises_is_reported_and_served_on(
    plain_broker: Broker, new_service: Callable[[], Service]
) -> None:
    service = new_service()
    service.link.subscribe(b"a")
    peer = plain_broker.peer(QUIET + b"SUB b 1\r\n")

    def fail(_batch: list[Delivery]) -> None:
        service.link.publish(b"b", b"said before")
        raise LookupError("mistake")

    service.act = fail
    peer.send(b"PUB a 1\r\nx\r\n")
    plain_broker.end_tick()
    assert [str(error) for error in service.errors] == ["mistake"]
    assert peer.received() == b"MSG b 1 11\r\nsaid before\r\n"
    assert not peer.link.is_closing
    service.act = None
    peer.send(b"PUB a 1\r\ny\r\n")
    plain_broker.end_tick()
    assert service.payloads == [b"x", b"y"]


def test_publication_whose_mapping_raises_is_reported_and_the_next_is_sent(
    plain_broker: Broker, new_service: Callable[[], Service]
) -> None:
    service = new_service()
    peer = plain_broker.peer(QUIET + b"SUB good 1\r\n")

    def mapper(subject: bytes) -> None:
        if subject == b"bad":
            raise LookupError("mistake")

    plain_broker.interest.mapper = mapper
    service.link.publish(b"bad", b"x")
    service.link.publish(b"good", b"y")
    plain_broker.end_tick()
    assert [str(error) for error in service.errors] == ["mistake"]
    assert peer.received() == b"MSG good 1 1\r\ny\r\n"
    peer.send(b"PING\r\n")
    assert peer.received() == b"PONG\r\n"


def test_service_may_end_itself_while_it_is_served(
    plain_broker: Broker, new_service: Callable[[], Service]
) -> None:
    service, other = new_service(), new_service()
    for each in (service, other):
        each.link.subscribe(b"a")
    service.act = other.act = lambda _batch: [s.link.detach() for s in (service, other)]
    service.link.publish(b"a", b"1")
    plain_broker.end_tick()
    plain_broker.end_tick()
    assert len(service.batches) + len(other.batches) == 1
    assert service.errors == []
    assert plain_broker.interest.statistics()["subscriptions"] == 0


def test_detached_service_publishes_and_gets_nothing(
    plain_broker: Broker, new_service: Callable[[], Service]
) -> None:
    service = new_service()
    service.link.subscribe(b"a")
    peer = plain_broker.peer(QUIET + b"SUB > 1\r\nPUB a 1\r\nx\r\n")
    peer.received()
    service.link.detach()
    service.link.detach()
    service.link.publish(b"b", b"late")
    service.link.unsubscribe(1)
    with pytest.raises(RuntimeError):
        service.link.subscribe(b"c")
    plain_broker.end_tick()
    assert (service.batches, peer.received(), service.wakes) == ([], b"", 0)
    assert not plain_broker.router.has_due


def test_link_dropped_without_detach_leaves_the_routers_list(plain_broker: Broker) -> None:
    service = Service(plain_broker)
    service.link.subscribe(b"a")
    service.link.publish(b"a", b"x")
    assert plain_broker.router.has_due
    vars(service).clear()
    plain_broker.end_tick()
    assert not plain_broker.router.has_due


def test_receiver_may_detach_everybody_while_a_publication_is_delivered(
    plain_broker: Broker, new_service: Callable[[], Service]
) -> None:
    service = new_service()
    service.link.subscribe(b"a")
    peers = [plain_broker.peer(QUIET + b"SUB a 1\r\n") for _ in range(3)]

    def detach_all(*_arguments: Any) -> None:
        for peer in peers:
            peer.link.detach()
        service.link.detach()

    for peer in peers:
        peer.link.traced = True
        peer.session.hooks["trace_delivery"] = detach_all
    service.link.publish(b"a", b"x")
    service.link.publish(b"a", b"y")
    plain_broker.end_tick()
    assert plain_broker.interest.statistics()["subscriptions"] == 0


def test_delivery_class_must_be_a_plain_tuple(plain_broker: Broker) -> None:
    class WithRoom(NamedTuple):
        sid: int

    class Wide(WithRoom):
        pass

    for kind in (list, Wide):
        with pytest.raises(TypeError):
            ServiceLink(plain_broker.router, None, kind)  # type: ignore[arg-type]


def test_service_without_an_interest_cannot_subscribe(plain_broker: Broker) -> None:
    link = ServiceLink(Router(), None, Delivery)
    with pytest.raises(RuntimeError, match="interest"):
        link.subscribe(b"a")
    link.interest = Interest()
    assert link.subscribe(b"a") == 1
    link.detach()


# ---- against a model ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_every_message_reaches_every_subscription_exactly_once(
    plain_broker: Broker, new_service: Callable[[], Service], seed: int
) -> None:
    """Clients and services publish to each other at random, across ticks and over the marks."""
    choose = random.Random(seed)
    services = [new_service() for _ in range(3)]
    peers = [plain_broker.peer() for _ in range(3)]
    subjects: list[dict[int, bytes]] = [{} for _ in services]
    names = [b"a.%d" % n for n in range(4)]
    number = 0
    for _ in range(12):
        for service, own in zip(services, subjects, strict=True):
            if own and choose.random() < 0.4:
                service.link.unsubscribe(sid := choose.choice(list(own)))
                del own[sid]
            subject = choose.choice([*names, b"a.*", b">"])
            own[service.link.subscribe(subject)] = subject
        published: Counter[tuple[bytes, bytes]] = Counter()
        for _ in range(choose.randrange(1, 60)):
            number += 1
            subject, size = choose.choice(names), choose.choice((0, 1, 100, 5000, 90_000))
            payload = b"%08d" % number + b"x" * size
            published[subject, payload] += 1
            if choose.random() < 0.5:
                choose.choice(services).link.publish(subject, payload, reply=b"r", headers=HEADERS)
            else:
                choose.choice(peers).link.feed(b"PUB %b %d\r\n%b\r\n" % (subject, len(payload), payload))
            if choose.random() < 0.1:
                plain_broker.end_tick()
        plain_broker.end_tick()
        while plain_broker.router.has_due:
            plain_broker.end_tick()
        for service, own in zip(services, subjects, strict=True):
            expected = Counter(
                (sid, *message)
                for sid, pattern in own.items()
                for message in published.elements()
                if pattern in (message[0], b"a.*", b">")
            )
            got = Counter((m.sid, m.subject, m.payload) for m in service.messages)
            assert got == expected
            assert all((m.headers, m.reply) in ((b"", b""), (HEADERS, b"r")) for m in service.messages)
            service.batches.clear()


# ---- how much waits -----------------------------------------------------------------------------


def test_backlog_is_what_waits_for_the_slowest_receiver(
    broker: Broker, services: Callable[[], Service]
) -> None:
    service = services()
    one, two = broker.peer(), broker.peer()
    one.send(b"SUB in.box 1\r\n")
    two.send(b"SUB in.> 1\r\nSUB other 2\r\n")
    broker.end_tick()
    assert one.received() == two.received() == b""
    assert service.link.backlog(b"in.box") == 0
    service.link.publish(b"in.box", b"12345")
    service.link.publish(b"other", b"x" * 100)
    assert service.link.backlog(b"in.box") == 0  # not routed yet
    broker.end_tick()

    waiting = len(b"MSG in.box 1 5\r\n12345\r\n"), len(b"MSG other 2 100\r\n" + b"x" * 100 + b"\r\n")
    assert service.link.backlog(b"in.box") == sum(waiting)
    two.received()
    assert service.link.backlog(b"in.box") == waiting[0]
    one.received()
    assert service.link.backlog(b"in.box") == 0


def test_only_who_names_a_subject_listens_to_it(broker: Broker, services: Callable[[], Service]) -> None:
    link = services().link
    peer = broker.peer().send(b"SUB > 1\r\nSUB in.* 2\r\nSUB in.box g 3\r\nSUB * h 4\r\n")
    assert not link.listens(b"in.box")
    assert link.listens(b"in.box", b"g")
    assert not link.listens(b"in.box", b"h")
    assert not link.listens(b"in.bo")
    peer.send(b"SUB in.box 5\r\n")
    assert link.listens(b"in.box")
    peer.send(b"UNSUB 5\r\nUNSUB 3\r\n")
    assert not link.listens(b"in.box")
    assert not link.listens(b"in.box", b"g")
    peer.send(b"SUB in.box 6\r\n")
    peer.link.doom(CloseReason.STALE_CONNECTION)
    assert not link.listens(b"in.box")
    for subject in (b"", b"in box"):
        assert not link.listens(subject)
    link.detach()
    assert not link.listens(b"in.box")


@pytest.mark.parametrize("subject", [b"nobody", b"", b"in box", b"in.*.x"])
def test_backlog_without_a_receiver_is_none(
    subject: bytes, broker: Broker, services: Callable[[], Service]
) -> None:
    broker.peer().send(b"SUB in.box 1\r\n")
    assert services().link.backlog(subject) is None


def test_it_is_alone_while_nobody_else_hears_a_subject(
    broker: Broker, services: Callable[[], Service]
) -> None:
    service = services()
    service.link.subscribe(b"acks.>")
    broker.end_tick()
    assert service.link.is_alone(b"acks.a")
    assert service.link.is_alone(b"no subject")
    for sub in (b"SUB acks.* 1\r\n", b"SUB acks.a group 1\r\n"):
        peer = broker.peer().send(sub)
        assert not service.link.is_alone(b"acks.a")
        assert service.link.is_alone(b"acks.b.c")
        peer.send(b"UNSUB 1\r\n")
        assert service.link.is_alone(b"acks.a")


def test_backlog_knows_queue_groups_and_who_has_left(broker: Broker, services: Callable[[], Service]) -> None:
    service = services()
    members = [broker.peer().send(b"SUB in.box workers 1\r\n") for _ in range(3)]
    assert service.link.backlog(b"in.box") == 0
    for number in range(20):
        service.link.publish(b"in.box", b"%03d" % number)
    broker.end_tick()
    assert service.link.backlog(b"in.box") == max(len(member.received()) for member in members) > 0
    members[0].send(b"UNSUB 1\r\n")
    members[1].link.doom(CloseReason.CLIENT_CLOSED)
    assert service.link.backlog(b"in.box") == 0
    members[2].link.doom(CloseReason.CLIENT_CLOSED)
    assert service.link.backlog(b"in.box") is None
    broker.end_tick()
    assert service.link.backlog(b"in.box") is None


def test_backlog_of_services_is_nothing_and_a_detached_one_sees_nobody(
    broker: Broker, services: Callable[[], Service]
) -> None:
    one, two = services(), services()
    two.link.subscribe(b"in.box")
    assert one.link.backlog(b"in.box") == 0
    one.link.detach()
    assert one.link.backlog(b"in.box") is None
