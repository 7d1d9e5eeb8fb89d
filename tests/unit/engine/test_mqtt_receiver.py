"""What clients of MQTT get: messages of filters, of consumers, and what becomes of those that they have."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from account_spaces import ImportedSubject
from engine_peers import NO_RESPONDERS, QUIET_WITH_HEADERS
from mqtt_peers import CONSUMER, DELIVER, MqttBroker, Packet, puback, publish, read_packets, text

from headrace.engine.interest import Interest
from headrace.engine.permission_cache import PermissionCache
from headrace.engine.reasons import CloseReason
from headrace.engine.stream_imports import StreamImport, change_imports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mqtt_peers import Client

NAK = b"-NAK"


@pytest.fixture
def broker() -> Iterator[MqttBroker]:
    broker = MqttBroker(max_pending=1 << 20)
    yield broker
    broker.stop()


def ticks(broker: MqttBroker, count: int = 3) -> None:
    for _ in range(count):
        broker.end_tick()


def nats(
    broker: MqttBroker, subject: bytes, payload: bytes = b"x", *, headers: bytes = b"", reply: bytes = b""
) -> None:
    """Publishes as a client of NATS."""
    words = b" ".join([subject, reply] if reply else [subject])
    size = len(headers) + len(payload)
    line = b"HPUB %b %d %d\r\n" % (words, len(headers), size) if headers else b"PUB %b %d\r\n" % (words, size)
    broker.peer(QUIET_WITH_HEADERS).send(line + headers + payload + b"\r\n")


def ids(client: Client) -> list[tuple[int, int]]:
    """The flags and identifiers of the PUBLISH packets that a client was written, all to the topic `a`."""
    return [(packet.flags, int.from_bytes(packet.body[3:5], "big")) for packet in client.packets()]


# -- messages of filters ------------------------------------------------------------------------------


def test_messages_of_nats_reach_a_client_without_headers_and_reply(broker: MqttBroker) -> None:
    client = broker.client().subscribe(b"a.>")
    nats(broker, b"a.b", b"one", headers=b"NATS/1.0\r\nA: 1\r\n\r\n", reply=b"re.x")
    nats(broker, b"a.b./.c", b"")
    nats(broker, b"b", b"")
    assert client.said() == publish(b"a/b", b"one") + publish(b"a/b//c", b"")
    assert client.link.counters[2:4] == (2, 3 + len(b"NATS/1.0\r\nA: 1\r\n\r\n"))


def test_each_subscription_gets_a_copy_and_the_same_sid_is_the_same_one(broker: MqttBroker) -> None:
    client = broker.client().subscribe(b"a.*").subscribe(b"a.>").subscribe(b"a.>", qos=1)
    assert client.link.subscriptions_count == 2
    nats(broker, b"a.b")
    assert client.said() == publish(b"a/b") * 2
    client.link.unsubscribe(b"a.*")
    client.link.unsubscribe(b"never")
    nats(broker, b"a.b")
    assert client.said() == publish(b"a/b")


@pytest.mark.parametrize(
    ("quality", "asked", "comes"),
    [(0, 0, True), (1, 0, True), (2, 0, True), (0, 1, True), (1, 1, False), (2, 2, False)],
)
def test_a_filter_of_a_qos_leaves_stored_messages_to_its_consumer(
    broker: MqttBroker, quality: int, asked: int, comes: bool
) -> None:
    client = broker.client().subscribe(b"a", qos=asked)
    nats(broker, b"a", headers=b"NATS/1.0\r\nNmqtt-Pub:%d\r\n\r\n" % quality)
    assert client.said() == (publish(b"a") if comes else b"")


def test_wildcards_hide_dollar_topics(broker: MqttBroker) -> None:
    client = broker.client().subscribe(b">", hides_dollar=True).subscribe(b"$x.>")
    nats(broker, b"$x.y")
    nats(broker, b"$SYS")
    nats(broker, b"z")
    assert client.said() == publish(b"$x/y") + publish(b"z")


def test_a_client_counts_as_a_responder(broker: MqttBroker) -> None:
    broker.client().subscribe(b"a")
    peer = broker.peer(NO_RESPONDERS).send(b"SUB re 1\r\nPUB a re 0\r\n\r\nPUB b re 0\r\n\r\n")
    assert peer.received() == b"HMSG re 1 33 33\r\nNATS/1.0 503\r\nNats-Subject: b\r\n\r\n\r\n"


def test_queue_groups_are_shared_with_clients_of_nats(broker: MqttBroker) -> None:
    client = broker.client()
    client.link.subscribe(b"share", b"a", b"g", qos=0)
    peer = broker.peer().send(b"SUB a g 1\r\n")
    for _ in range(40):
        nats(broker, b"a")
    mine, theirs = len(client.packets()), peer.received().count(b"MSG")
    assert mine + theirs == 40
    assert mine > 0 < theirs


def test_what_a_permission_keeps_from_a_client(broker: MqttBroker) -> None:
    client = broker.client()
    client.link.restrict(None, PermissionCache(lambda key: key != b"a.no"), True, False)
    client.session.hooks["subscribe_permission"] = lambda subject, _queue: 0 if subject == b"no" else 2
    client.subscribe(b"a.*")
    nats(broker, b"a.no")
    nats(broker, b"a.yes")
    assert client.said() == publish(b"a/yes")
    with pytest.raises(ValueError, match="not permitted"):
        client.subscribe(b"no")


def test_a_connection_has_no_more_subscriptions_than_it_may(broker: MqttBroker) -> None:
    client = (
        broker.client(max_subscriptions=1, max_subscription_tokens=2).subscribe(b"a").subscribe(b"a", qos=1)
    )
    with pytest.raises(ValueError, match="maximum subscriptions"):
        client.subscribe(b"b")
    with pytest.raises(ValueError, match="tokens"):
        client.subscribe(b"a.b.c")
    client.follow()
    client.link.hear(b"heard.it")
    with pytest.raises(ValueError, match="not a subject"):
        broker.client().subscribe(b"a..b")


def test_imported_streams_come_as_what_they_are_here(broker: MqttBroker) -> None:
    exporter = Interest()
    exporter.account = b"EXPORTER"
    change_imports(broker.interest, (StreamImport(exporter, ImportedSubject(b"out.>", b"in.>")),))
    client = broker.client().subscribe(b"in.>", qos=1).subscribe(b">", hides_dollar=True)
    other = broker.peer()
    other.link.interest = exporter
    other.send(b"PUB out.b 1\r\nx\r\n")
    assert set(client.packets()) == {Packet(3, 0, text(b"in/b") + b"x")}
    change_imports(broker.interest, ())


def test_a_slow_client_is_closed(broker: MqttBroker) -> None:
    client = broker.client().subscribe(b"a")
    for _ in range(20):
        nats(broker, b"a", b"x" * 100_000)
    assert client.reason is CloseReason.SLOW_CONSUMER_PENDING_BYTES


def test_a_topic_that_no_packet_can_have_is_left_out(broker: MqttBroker) -> None:
    client = broker.client().subscribe(b">")
    peer = broker.peer(QUIET_WITH_HEADERS, max_control_line=1 << 20)
    peer.send(b"PUB " + b"x" * 65536 + b" 0\r\n\r\nPUB / 0\r\n\r\nPUB " + b"y" * 65535 + b" 0\r\n\r\n")
    assert client.said() == publish(b"y" * 65535, b"")


# -- messages of consumers ----------------------------------------------------------------------------


@pytest.mark.parametrize(("quality", "asked", "sent"), [(1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 2)])
def test_a_stored_message_comes_with_the_lower_qos(
    broker: MqttBroker, quality: int, asked: int, sent: int
) -> None:
    client = broker.client().follow(qos=asked)
    ack = broker.store.send(b"a.b", sequence=7, quality=quality)
    ticks(broker)
    assert client.said() == publish(b"a/b", qos=sent, identifier=1)
    assert client.link.in_flight() == [(1, sent, CONSUMER, 7)]
    assert client.link.counters[2] == 1
    if sent == 1:
        client.send(puback(1))
        ticks(broker)
        assert broker.store.acks == [(ack, b"")]
        assert client.link.in_flight() == []


def test_identifiers_rise_and_are_not_those_in_use(broker: MqttBroker) -> None:
    client = broker.client().follow()
    for sequence in (1, 2):
        broker.store.send(b"a", sequence=sequence)
    ticks(broker)
    client.send(puback(1))
    client.link.expect([], 65535)
    for sequence in (3, 4, 5):
        broker.store.send(b"a", sequence=sequence)
    ticks(broker)
    assert ids(client) == [(2, 1), (2, 2), (2, 65535), (2, 1), (2, 3)]
    assert client.link.next_identifier == 4


def test_what_is_delivered_again_has_the_same_identifier(broker: MqttBroker) -> None:
    client = broker.client().follow()
    broker.store.send(b"a", sequence=1)
    broker.store.send(b"a", sequence=2)
    ticks(broker)
    ack = broker.store.send(b"a", sequence=1, deliveries=2)
    ticks(broker)
    assert ids(client) == [(2, 1), (2, 2), (10, 1)]
    client.send(puback(1))
    ticks(broker)
    assert broker.store.acks == [(ack, b"")]
    assert client.link.in_flight() == [(2, 1, CONSUMER, 2)]


def test_on_a_connection_of_mqtt_5_nothing_is_sent_again(broker: MqttBroker) -> None:
    client = broker.client(version=5).follow()
    broker.store.send(b"a", sequence=1)
    broker.store.send(b"a", sequence=1, deliveries=2)
    ticks(broker)
    assert ids(client) == [(2, 1)]


@pytest.mark.parametrize("version", [4, 5])
def test_what_an_earlier_connection_had_comes_again_as_that(broker: MqttBroker, version: int) -> None:
    client = broker.client(version=version).follow()
    client.link.expect([(9, 1, CONSUMER, 4), (3, 1, CONSUMER, 5), (0, 1, CONSUMER, 6)], 10)
    for sequence in (4, 5, 6):
        broker.store.send(b"a", sequence=sequence, deliveries=2)
    broker.store.send(b"a", sequence=7)
    ticks(broker)
    assert ids(client) == [(10, 9), (10, 3), (2, 10), (2, 11)]
    broker.store.send(b"a", sequence=4, deliveries=3)
    ticks(broker)
    assert ids(client) == ([(10, 9)] if version == 4 else [])


def test_what_is_expected_and_not_there_yet_is_not_acknowledged(broker: MqttBroker) -> None:
    client = broker.client().follow()
    client.link.expect([(9, 1, CONSUMER, 4)], 10)
    client.send(puback(9))
    ticks(broker)
    assert broker.store.acks == []
    assert client.link.in_flight() == [(9, 1, CONSUMER, 4)]


def test_an_unknown_redelivery_is_marked_as_one_but_for_shared_subscriptions(broker: MqttBroker) -> None:
    client = broker.client().follow().follow(deliver=b"$MQTT.sub.two", name=b"$MQTT_SHARE_x")
    broker.store.send(b"a", sequence=1, deliveries=2)
    broker.store.send(b"a", sequence=1, deliveries=2, deliver=b"$MQTT.sub.two", name=b"$MQTT_SHARE_x")
    ticks(broker)
    assert ids(client) == [(10, 1), (2, 2)]


def test_a_client_is_sent_no_more_than_it_takes_at_once(broker: MqttBroker) -> None:
    client = broker.client(version=5, accepts={"receive_maximum": 2}).follow().subscribe(b"q")
    for sequence in range(1, 6):
        broker.store.send(b"a", b"%d" % sequence, sequence=sequence)
    nats(broker, b"q")
    ticks(broker)
    assert [packet.body[-1:] for packet in client.packets()] == [b"x", b"1", b"2"]
    broker.store.send(b"a", b"3", sequence=3, deliveries=2)  # it waits, and goes on waiting
    ticks(broker)
    assert client.said() == b""
    client.send(puback(2))
    assert ids(client) == [(2, 3)]
    client.send(puback(1) + puback(3))
    assert ids(client) == [(2, 4), (2, 5)]
    assert client.link.in_flight() == [(4, 1, CONSUMER, 4), (5, 1, CONSUMER, 5)]


def test_what_waits_is_bounded(broker: MqttBroker) -> None:
    client = broker.client(version=5, accepts={"receive_maximum": 1}).follow()
    for sequence in range(1, 14):
        broker.store.send(b"a", b"x" * 100_000, sequence=sequence)
    ticks(broker, 30)
    assert client.reason is CloseReason.SLOW_CONSUMER_PENDING_BYTES


def test_all_identifiers_may_be_in_use(broker: MqttBroker) -> None:
    client = broker.client().follow()
    for identifier in range(1, 65536):
        client.link.occupy(identifier)
    broker.store.send(b"a", sequence=1)
    ticks(broker)
    assert client.said() == b""
    client.link.settle(77)
    ticks(broker)
    assert ids(client) == [(2, 77)]


def test_a_message_that_the_client_is_not_to_get_is_acknowledged_for_it(broker: MqttBroker) -> None:
    client = broker.client(version=5, accepts={"maximum_packet": 50})
    client.follow(hides_dollar=True, options=4)
    client.link.restrict(None, PermissionCache(lambda key: key != b"no"), False, False)
    acks = [
        broker.store.send(b"$x", sequence=1),
        broker.store.send(b"a", sequence=2, lines=b"Nmqtt-Client: ABCDEFGH\r\n"),
        broker.store.send(b"no", sequence=3),
        broker.store.send(b"a", b"x" * 50, sequence=4),
        broker.store.send(
            b"a", sequence=5, lines=b"Nmqtt-Expires-At: %d\r\n" % (time.time_ns() // 1_000_000 - 1)
        ),
    ]
    last = broker.store.send(b"a", sequence=6, lines=b"Nmqtt-Client: 12345678\r\n")
    ticks(broker)
    assert ids(client) == [(2, 1)]
    assert broker.store.acks == [(ack, b"") for ack in acks]
    assert client.link.counters[2] == 1
    client.send(puback(1))
    ticks(broker)
    assert broker.store.acks[-1] == (last, b"")


def test_a_message_that_says_nothing_of_its_qos_is_acknowledged_away(broker: MqttBroker) -> None:
    client = broker.client().follow()
    ack = b"$JS.ACK.$MQTT_msgs.%b.1.1.1.1.0" % CONSUMER
    broker.store.link.outgoing.pass_on(DELIVER, b"$MQTT.msgs.a", b"x", reply=ack)
    broker.store.link.announce()
    ticks(broker)
    assert client.said() == b""
    assert broker.store.acks == [(ack, b"")]


def test_what_no_consumer_delivers_is_nothing(broker: MqttBroker) -> None:
    client = broker.client().follow()
    nats(broker, DELIVER, headers=b"NATS/1.0\r\nNmqtt-Pub:1\r\n\r\n")
    nats(broker, DELIVER, headers=b"NATS/1.0\r\nNmqtt-Pub:1\r\n\r\n", reply=b"$JSx")
    assert client.said() == b""


# -- QoS 2 --------------------------------------------------------------------------------------------


def test_a_message_of_qos_2_is_settled_by_the_session(broker: MqttBroker) -> None:
    client = broker.client(version=5, accepts={"receive_maximum": 1}).follow(qos=2)
    ack = broker.store.send(b"a", sequence=1, quality=2)
    broker.store.send(b"a", sequence=2, quality=2)
    ticks(broker)
    assert ids(client) == [(4, 1)]
    client.send(puback(1))  # not how it is acknowledged
    assert client.link.settle(1) == ack
    client.link.occupy(1)
    ticks(broker)
    assert client.said() == b""
    assert client.link.in_flight() == [(0, 2, CONSUMER, 2)]
    assert client.link.settle(1) == b""
    ticks(broker)
    assert ids(client) == [(4, 2)]
    assert client.link.settle(99) == b""


def test_a_staged_message_waits_for_its_session(broker: MqttBroker) -> None:
    client = broker.client(accepts={"stages_qos2": True}).follow(qos=2)
    broker.store.send(b"a.b", b"two", sequence=7, quality=2, lines=b"k: v\r\n")
    broker.store.send(b"a", sequence=8)
    ticks(broker)
    assert client.said() == publish(b"a", qos=1, identifier=2)
    headers = b"NATS/1.0\r\nNmqtt-Pub:2\r\nk: v\r\n\r\n"
    assert client.session.called("staged") == [(DELIVER, 1, CONSUMER, 7, b"a.b", headers, b"two")]
    broker.store.send(b"a.b", b"two", sequence=7, quality=2, deliveries=2)
    ticks(broker)
    assert client.said() == b""
    client.link.forward(DELIVER, 1, b"a.b", headers, b"two")
    client.link.forward(DELIVER, 1, b"a.b", headers, b"two")
    client.link.forward(DELIVER, 9, b"a.b", headers, b"two")
    assert client.said() == publish(b"a/b", b"two", qos=2, identifier=1)
    broker.store.send(b"a.b", b"two", sequence=7, quality=2, deliveries=3)
    ticks(broker)
    assert client.said() == publish(b"a/b", b"two", qos=2, identifier=1, dup=True)


# -- what is heard, and what no consumer stands behind ------------------------------------------------


def test_the_session_hears_what_it_listens_to(broker: MqttBroker) -> None:
    client = broker.client()
    sid = client.link.hear(b"$MQTT.deliver.x")
    nats(broker, b"$MQTT.deliver.x", b"hi", headers=b"NATS/1.0\r\nA: 1\r\n\r\n", reply=b"re")
    assert client.session.called("heard") == []
    ticks(broker)
    assert client.session.called("heard") == [
        (sid, b"$MQTT.deliver.x", b"re", b"NATS/1.0\r\nA: 1\r\n\r\n", b"hi")
    ]
    assert client.link.counters[2:4] == (0, 0)
    assert client.said() == b""


def test_a_session_that_fails_to_hear_is_told(broker: MqttBroker) -> None:
    client = broker.client()

    def fail(*_: Any) -> None:
        raise RuntimeError("it fails")

    client.session.hooks["heard"] = fail
    client.link.hear(b"x.y")
    nats(broker, b"x.y")
    ticks(broker)
    assert [str(error) for (error,) in client.session.called("failed")] == ["it fails"]


def test_nothing_is_heard_after_the_end(broker: MqttBroker) -> None:
    closing, gone = broker.client(), broker.client()
    for client in (closing, gone):
        client.link.hear(b"x.y")
    nats(broker, b"x.y")
    closing.link.doom(CloseReason.CLIENT_CLOSED)
    gone.link.detach()
    ticks(broker)
    assert closing.session.called("heard") == gone.session.called("heard") == []


def test_a_message_without_a_consumer(broker: MqttBroker) -> None:
    client = broker.client()
    assert client.link.deliver(b"a", b"0", qos=0, retain=True) == 0
    assert (
        client.link.deliver(
            b"a", b"1", qos=1, retain=True, headers=b"NATS/1.0\r\nk: v\r\n\r\n", subscription=5
        )
        == 1
    )
    assert client.said() == publish(b"a", b"0", retain=True) + publish(b"a", b"1", qos=1, retain=True)
    assert client.link.in_flight() == []
    client.send(puback(1))
    ticks(broker)
    assert broker.store.acks == []
    client.link.doom(CloseReason.CLIENT_CLOSED)
    assert client.link.deliver(b"a", b"2", qos=1, retain=True) == 0


def test_a_message_without_a_consumer_has_properties_in_mqtt_5(broker: MqttBroker) -> None:
    client = broker.client(version=5, accepts={"receive_maximum": 1, "maximum_packet": 60})
    lines = b"Nmqtt-RTopic:a\r\nNmqtt-RFlags:1\r\nk: 1%0D\r\nNmqtt-Reply: re.x\r\n"
    link = client.link
    assert (
        link.deliver(
            b"a", b"1", qos=1, retain=True, headers=b"NATS/1.0\r\n" + lines + b"\r\n", subscription=300
        )
        == 1
    )
    assert link.deliver(b"a", b"2", qos=1, retain=True) == 0  # it waits
    assert link.deliver(b"a", b"x" * 60, qos=0, retain=True) == 0  # it is too large
    expired = b"NATS/1.0\r\nNmqtt-RFlags:1\r\nNmqtt-Expires-At: 1\r\n\r\n"
    assert link.deliver(b"a", b"3", qos=0, retain=True, headers=expired) == 0
    properties = b"&" + text(b"k") + text(b"1\r") + b"\x08" + text(b"re/x") + b"\x0b\xac\x02"
    assert client.said() == publish(b"a", b"1", qos=1, retain=True, properties=properties)
    client.send(puback(1))
    assert client.said() == publish(b"a", b"2", qos=1, retain=True, identifier=2, properties=b"")


# -- the end of a connection --------------------------------------------------------------------------


def test_what_is_in_flight_is_given_back(broker: MqttBroker) -> None:
    client = broker.client(version=5, accepts={"receive_maximum": 2}).follow(qos=2)
    acks = [broker.store.send(b"a", sequence=n, quality=n % 2 + 1) for n in (1, 2, 3)]
    ticks(broker)
    client.link.occupy(9)
    client.link.expect([(8, 1, CONSUMER, 50)], 0)
    rows = client.link.give_back()
    assert rows == [(1, 2, CONSUMER, 1), (2, 1, CONSUMER, 2), (0, 2, CONSUMER, 3), (8, 1, CONSUMER, 50)]
    ticks(broker)
    assert broker.store.acks == [(ack, NAK) for ack in acks]
    assert client.link.in_flight() == []
    client.link.detach()
    assert client.link.give_back() == []


def test_a_session_goes_on_with_another_connection(broker: MqttBroker) -> None:
    first = broker.client(version=5, accepts={"receive_maximum": 2}).follow()
    for n in (1, 2, 3):
        broker.store.send(b"a", b"%d" % n, sequence=n)
    ticks(broker)
    rows, following = first.link.give_back(), first.link.next_identifier
    first.link.detach()
    second = broker.client(version=5, accepts={"receive_maximum": 2})
    second.link.expect(rows, following)
    second.follow()
    for n in (1, 2, 3):
        broker.store.send(b"a", b"%d" % n, sequence=n, deliveries=2)
    ticks(broker)
    assert ids(second) == [(10, 1), (10, 2)]
    second.send(puback(2))
    assert ids(second) == [(2, 3)]


def test_a_link_that_goes_leaves_nothing(broker: MqttBroker) -> None:
    client = broker.client(version=5, accepts={"receive_maximum": 1}).follow().subscribe(b">")
    client.send(publish(b"a", qos=1, properties=b""))
    for n in (1, 2, 3):
        broker.store.send(b"a", b"x" * 1000, sequence=n)
    ticks(broker)
    client.link.hear(b"heard")
    nats(broker, b"heard")
    client.link.detach()
    for call in (lambda: client.subscribe(b"a"), client.follow, lambda: client.link.hear(b"a")):
        with pytest.raises(RuntimeError, match="detached"):
            call()


# -- MQTT 5 -------------------------------------------------------------------------------------------


def test_headers_are_properties(broker: MqttBroker) -> None:
    client = broker.client(version=5).subscribe(b"a", identifier=7)
    nats(broker, b"a", b"hi", headers=b"NATS/1.0\r\nContent-Type: x/y\r\nk: v\r\n\r\n", reply=b"_INBOX.x.y")
    properties = (
        b"\x03" + text(b"x/y") + b"&" + text(b"k") + text(b"v") + b"\x08" + text(b"_INBOX/x/y") + b"\x0b\x07"
    )
    assert client.said() == publish(b"a", b"hi", properties=properties)


def test_each_of_many_messages_has_its_own_properties(broker: MqttBroker) -> None:
    clients = [broker.client(version=5).subscribe(b"a.*") for _ in range(3)]
    expected = b""
    for n in range(5):
        value = b"x" * (n * n * 400)
        nats(broker, b"a.%d" % n, headers=b"NATS/1.0\r\nk: %b\r\n\r\n" % value, reply=b"r" * (n + 1) * 200)
        properties = b"&" + text(b"k") + text(value) + b"\x08" + text(b"r" * (n + 1) * 200)
        expected += publish(b"a/%d" % n, properties=properties)
    assert [client.said() for client in clients] == [expected] * 3


def test_no_local_keeps_a_client_from_what_it_publishes(broker: MqttBroker) -> None:
    client, other = broker.client(version=5), broker.client(version=5).subscribe(b"a")
    client.send(publish(b"a", b"0", properties=b""))
    client.subscribe(b"a", options=4)
    client.send(publish(b"a", b"1", qos=1, properties=b""))
    broker.end_tick()
    assert broker.store.stored[0].headers == b"NATS/1.0\r\nNmqtt-Pub:1\r\nNmqtt-Client: ABCDEFGH\r\n\r\n"
    ticks(broker)
    assert client.said() == puback(1)
    other.send(publish(b"a", b"2", properties=b""))
    assert client.said() == publish(b"a", b"2", properties=b"")
    assert [packet.body[-1:] for packet in other.packets()] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("options", [0, 8])
def test_retain_as_published(broker: MqttBroker, options: int) -> None:
    client = broker.client(version=5).subscribe(b"a", options=options).follow(options=options)
    broker.client(version=5).send(publish(b"a", retain=True, properties=b"") + publish(b"a", properties=b""))
    broker.store.send(b"a", sequence=1, lines=b"Nmqtt-Retain: 1\r\n")
    ticks(broker)
    assert [packet.flags for packet in client.packets()] == [options // 8, 0, 2 + options // 8]


def test_a_message_expires(broker: MqttBroker) -> None:
    client = broker.client(version=5).subscribe(b"a").follow()
    old = broker.client().follow(deliver=b"$MQTT.sub.old")
    now = time.time_ns() // 1_000_000
    broker.client(version=5).send(publish(b"a", b"1", properties=b"\x02\x00\x00\x00\x64"))
    for deliver in (DELIVER, b"$MQTT.sub.old"):
        for sequence, left in ((1, 5_500), (2, 0), (3, 5_000_000_000_000)):
            lines = b"Nmqtt-Expiry: 100\r\nNmqtt-Expires-At: %d\r\n" % (now + left)
            broker.store.send(b"a", b"%d" % sequence, sequence=sequence, lines=lines, deliver=deliver)
    nats(broker, b"a", headers=b"NATS/1.0\r\nNats-TTL: 10s\r\n\r\n")
    ticks(broker)
    packets = client.packets()
    expiries = [int.from_bytes(packet.body[-5:-1], "big") for packet in packets]
    assert expiries[0] == 100
    assert expiries[1] == 10
    assert 1 <= expiries[2] <= 6
    assert expiries[3] == 0xFFFFFFFF
    assert len(packets) == 4
    assert [packet.body[-1:] for packet in old.packets()] == [b"1", b"3"]


def test_what_expires_while_it_waits_is_acknowledged_away(broker: MqttBroker) -> None:
    client = broker.client(version=5, accepts={"receive_maximum": 1}).follow()
    broker.store.send(b"a", b"1", sequence=1)
    soon = time.time_ns() // 1_000_000 + 100
    ack = broker.store.send(b"a", b"2", sequence=2, lines=b"Nmqtt-Expires-At: %d\r\n" % soon)
    broker.store.send(b"a", b"3", sequence=3)
    ticks(broker)
    assert [row[3] for row in client.link.in_flight()] == [1, 2, 3]
    while time.time_ns() // 1_000_000 <= soon:
        time.sleep(0.01)
    client.send(puback(1))
    ticks(broker)
    assert [packet.body[-1:] for packet in client.packets()] == [b"1", b"3"]
    assert (ack, b"") in broker.store.acks


def test_a_message_that_is_too_large_is_left_out(broker: MqttBroker) -> None:
    client = broker.client(version=5, accepts={"maximum_packet": 20}).subscribe(b"a")
    nats(broker, b"a", b"x" * 14)
    nats(broker, b"a", b"x" * 15)
    nats(broker, b"a", b"x", headers=b"NATS/1.0\r\nkey: values\r\n\r\n")
    assert client.said() == publish(b"a", b"x" * 14, properties=b"")


def test_a_subscription_identifier_is_the_last_one(broker: MqttBroker) -> None:
    client = broker.client(version=5).subscribe(b"a", identifier=268435455).follow(identifier=1)
    nats(broker, b"a")
    broker.store.send(b"a", sequence=1)
    ticks(broker)
    assert client.said() == publish(b"a", properties=b"\x0b\xff\xff\xff\x7f") + publish(
        b"a", qos=1, properties=b"\x0b\x01"
    )
    client.subscribe(b"a").follow()
    nats(broker, b"a")
    broker.store.send(b"a", sequence=2)
    ticks(broker)
    assert client.said() == publish(b"a", properties=b"") + publish(b"a", qos=1, identifier=2, properties=b"")


def test_a_client_of_mqtt_3_gets_no_properties(broker: MqttBroker) -> None:
    client = broker.client().subscribe(b"a").follow()
    broker.client(version=5).send(publish(b"a", properties=b"\x03" + text(b"x/y")))
    broker.store.send(b"a", sequence=1, lines=b"k: v\r\n")
    ticks(broker)
    assert read_packets(client.said()) == [
        Packet(3, 0, text(b"a") + b"x"),
        Packet(3, 2, text(b"a") + b"\0\1x"),
    ]


def test_topics_get_aliases_of_a_client_that_takes_them(broker: MqttBroker) -> None:
    client = broker.client(version=5, accepts={"topic_alias_maximum_out": 2}).subscribe(b">")
    for subject in (b"a", b"b", b"a", b"c", b"b", b"c"):
        nats(broker, subject)
    assert client.said() == b"".join(
        publish(topic, properties=properties)
        for topic, properties in (
            (b"a", b"\x23\x00\x01"),
            (b"b", b"\x23\x00\x02"),
            (b"", b"\x23\x00\x01"),
            (b"c", b""),
            (b"", b"\x23\x00\x02"),
            (b"c", b""),
        )
    )


def test_an_alias_makes_no_packet_too_large(broker: MqttBroker) -> None:
    client = broker.client(version=5, accepts={"topic_alias_maximum_out": 2, "maximum_packet": 30})
    client.subscribe(b"a")
    nats(broker, b"a", b"x" * 24)
    nats(broker, b"a", b"x")
    nats(broker, b"a", b"y")
    alias = b"\x23\x00\x01"
    expected = publish(b"a", b"x" * 24, properties=b"") + publish(b"a", b"x", properties=alias)
    assert client.said() == expected + publish(b"", b"y", properties=alias)


OVERLAPPING = [(b"t.>", 1, 3), (b"t", 0, 4), (b"t.a", 2, 2), (b"t.*", 2, 0), (b"u", 1, 9)]


def overlapping(broker: MqttBroker, version: int = 5) -> Client:
    """A client whose filters each have a consumer that delivers to `$MQTT.sub.` and the filter."""
    client = broker.client(version=version)
    for subject, qos, identifier in OVERLAPPING:
        client.subscribe(subject, qos=qos, identifier=identifier)
        if qos:
            deliver = b"$MQTT.sub." + subject.replace(b">", b"all").replace(b"*", b"any")
            client.follow(
                deliver=deliver, name=subject.replace(b".", b"_"), qos=qos, identifier=identifier, sid=subject
            )
    return client


def test_overlapping_filters_of_mqtt_5_bring_one_copy_with_all_identifiers(broker: MqttBroker) -> None:
    client = overlapping(broker)
    nats(broker, b"t.a")
    (packet,) = client.packets()
    head = text(b"t/a") + b"\x04"
    assert packet.body[: len(head)] == head
    assert sorted([packet.body[6:8], packet.body[8:10]]) == [b"\x0b\x02", b"\x0b\x03"]
    nats(broker, b"t")
    nats(broker, b"u")
    assert client.said() == publish(b"t", properties=b"\x0b\x04") + publish(b"u", properties=b"\x0b\x09")
    client.link.unsubscribe(b"t.*")
    client.link.unsubscribe(b"t.a")
    nats(broker, b"t.a")
    assert client.said() == publish(b"t/a", properties=b"\x0b\x03")


def test_overlapping_filters_of_mqtt_3_bring_a_copy_each(broker: MqttBroker) -> None:
    client = overlapping(broker, version=4)
    nats(broker, b"t.a")
    assert client.said() == publish(b"t/a") * 3


def test_a_stored_message_comes_through_the_filter_of_the_highest_qos(broker: MqttBroker) -> None:
    client = overlapping(broker)
    headers = b"NATS/1.0\r\nNmqtt-Pub:2\r\n\r\n"
    peer = broker.client()
    peer.link.route(b"t.a", headers, b"x")
    assert client.said() == b""
    for deliver, name in ((b"all", b"t_>"), (b"a", b"t_a"), (b"any", b"t_*")):
        broker.store.send(b"t.a", sequence=7, quality=2, deliver=b"$MQTT.sub.t." + deliver, name=name)
    ticks(broker)
    (packet,) = client.packets()
    assert packet.flags == 4
    assert client.link.in_flight() == [(1, 2, b"t_*", 7)]  # of equal ones the first by its sid
    assert [subject.split(b".")[3] for subject, _ in broker.store.acks] == [b"t_>", b"t_a"]


def test_a_shared_filter_overlaps_none(broker: MqttBroker) -> None:
    client = broker.client(version=5).subscribe(b"a", identifier=1)
    client.link.subscribe(b"share", b"a", b"g", qos=0, identifier=2)
    nats(broker, b"a")
    assert client.said() == publish(b"a", properties=b"\x0b\x01") + publish(b"a", properties=b"\x0b\x02")


def test_what_a_client_of_nats_says_of_its_qos_is_nothing_to_mqtt_5(broker: MqttBroker) -> None:
    client, old = broker.client(version=5).subscribe(b"a", qos=1), broker.client().subscribe(b"a", qos=1)
    nats(broker, b"a", headers=b"NATS/1.0\r\nNmqtt-Pub:1\r\n\r\n")
    assert (client.said(), old.said()) == (publish(b"a", properties=b""), b"")
    broker.client(version=5).send(publish(b"a", qos=1, properties=b""))
    assert client.said() == b""
