"""What clients of MQTT send: framing, rules, publications of QoS 0 and 1, whole and in pieces."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from engine_peers import QUIET_WITH_HEADERS, WAYS
from mqtt_peers import (
    CONNECT,
    CONNECT_5,
    DISCONNECT,
    PING,
    PONG,
    STORE_REPLY,
    MqttBroker,
    packet,
    puback,
    publish,
    text,
)

from headrace.engine.interest import Interest
from headrace.engine.mqtt import MqttLink, MqttPublication
from headrace.engine.permission_cache import PermissionCache
from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD_0 = b"NATS/1.0\r\nNmqtt-Pub:0\r\n\r\n"
HEAD_1 = b"NATS/1.0\r\nNmqtt-Pub:1\r\n\r\n"


@pytest.fixture(params=WAYS)
def broker(request: pytest.FixtureRequest) -> Iterator[MqttBroker]:
    broker = MqttBroker(request.param)
    yield broker
    broker.stop()


@pytest.fixture
def whole() -> Iterator[MqttBroker]:
    broker = MqttBroker()
    yield broker
    broker.stop()


# -- framing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data", [PING, publish(b"a"), puback(1), DISCONNECT, b"GET / HTTP/1.1\r\n", b"\x00\x00", b"\xff\xff"]
)
def test_the_first_packet_is_a_connect(broker: MqttBroker, data: bytes) -> None:
    client = broker.client(connects=False).send(data)
    assert len(client.violations) == 1
    assert client.said() == b""
    assert client.reason is CloseReason.PROTOCOL_VIOLATION


def test_a_connect_goes_to_the_session_and_a_second_one_ends_the_connection(broker: MqttBroker) -> None:
    client = broker.client(connects=False).send(CONNECT + PING)
    assert client.session.called("packet") == [(1, 0, CONNECT[2:])]
    assert client.said() == b"\x20\x02\x00\x00" + PONG
    client.send(CONNECT)
    assert client.violations == [("received a second CONNECT packet", 0x82)]


@pytest.mark.parametrize("first", [0x00, 0x10, 0x20, 0x90, 0xB0, 0xD0, 0xF0])
def test_packets_that_no_client_sends_end_the_connection(broker: MqttBroker, first: int) -> None:
    client = broker.client().send(bytes([first, 0]) + PING)
    assert len(client.violations) == 1
    assert client.said() == b""


@pytest.mark.parametrize("first", [0x42, 0x52, 0x60, 0x62 | 1, 0x70 | 2, 0x80, 0xA0, 0xC1, 0xE1])
def test_flags_are_those_of_their_packet(broker: MqttBroker, first: int) -> None:
    client = broker.client().send(bytes([first, 2, 0, 1]))
    assert client.violations == [
        (f"invalid fixed header flags {first & 15:x} for packet type {first & 0xF0:x}", 0x81)
    ]


@pytest.mark.parametrize(
    "data",
    [b"\xc0\x01x", b"\xe0\x01x", b"\x40\x01x", b"\x40\x03xyz", b"\x50\x00", b"\x62\x04xxxx", b"\x70\x03xxx"],
)
def test_lengths_are_those_of_their_packet(broker: MqttBroker, data: bytes) -> None:
    client = broker.client().send(data)
    assert [reason for _, reason in client.violations] == [0x81]


@pytest.mark.parametrize("size", [b"\x80\x80\x80\x80\x01", b"\xff\xff\xff\xff", b"\x80\x80\x80\x80"])
def test_a_length_has_four_bytes(broker: MqttBroker, size: bytes) -> None:
    client = broker.client().send(b"\x30" + size)
    assert client.violations == [("malformed variable int", 0x81)]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x50\x02\x00\x01", 5),
        (b"\x62\x02\x00\x01", 6),
        (b"\x70\x02\x00\x01", 7),
        (b"\x82\x01x", 8),
        (b"\xa2\x00", 10),
    ],
)
def test_rare_packets_go_to_the_session(broker: MqttBroker, data: bytes, kind: int) -> None:
    client = broker.client().send(data * 2)
    assert client.session.called("packet")[1:] == [(kind, data[0] & 15, data[2:])] * 2


def test_auth_is_a_packet_of_mqtt_5(broker: MqttBroker) -> None:
    assert broker.client().send(b"\xf0\x00").violations == [("received unknown packet type f0", 0x82)]
    client = broker.client(version=5).send(b"\xf0\x01\x00")
    assert client.session.called("packet")[1:] == [(15, 0, b"\x00")]


def test_a_session_that_ends_nothing_ends_the_connection(whole: MqttBroker) -> None:
    client = whole.client()
    client.session.hooks["violation"] = lambda *_: None
    client.send(b"\x00\x00")
    assert client.reason is CloseReason.PROTOCOL_VIOLATION


def test_nothing_is_parsed_while_the_link_is_held(broker: MqttBroker) -> None:
    client = broker.client()
    client.session.hooks["packet"] = lambda *_: client.link.hold()
    client.send(b"\x82\x01x" + PING)
    client.send(PING)
    assert client.said() == b""
    client.link.release()
    assert client.said() == PONG * 2


def test_a_connect_is_no_larger_than_a_payload(broker: MqttBroker) -> None:
    client = broker.client(connects=False, max_payload=100).send(b"\x10\x63" + b"x" * 99)
    assert client.violations == [("maximum payload exceeded: 101 vs 100", 0x95)]
    client = broker.client(connects=False, max_payload=100).send(b"\x10\xff\xff\xff\x7f")
    assert [reason for _, reason in client.violations] == [0x95]


def test_a_stranger_gets_no_memory_for_what_it_announces(whole: MqttBroker) -> None:
    client = whole.client(connects=False).send(b"\x10\x80\x80\x04" + b"x" * 100)
    assert client.link.is_closing is False
    assert len(client.link.buffer()) <= 65536


def test_a_packet_is_no_larger_than_a_payload_and_what_may_stand_beside_it(broker: MqttBroker) -> None:
    client = broker.client(max_payload=100).send(b"\x82\x81\x81\x04")
    assert [reason for _, reason in client.violations] == [0x95]


# -- PUBLISH ------------------------------------------------------------------------------------------


def test_a_message_of_qos_0_reaches_nats_clients_with_its_header(broker: MqttBroker) -> None:
    peer, bare = broker.peer(QUIET_WITH_HEADERS).send(b"SUB > 1\r\n"), broker.peer().send(b"SUB a.* 2\r\n")
    client = broker.client().send(publish(b"a/b", b"one") + publish(b"a/b", b"") + publish(b"x", b"two"))
    assert peer.received() == b"".join(
        b"HMSG %b 1 25 %d\r\n%b%b\r\n" % (subject, 25 + len(payload), HEAD_0, payload)
        for subject, payload in ((b"a.b", b"one"), (b"a.b", b""), (b"x", b"two"))
    )
    assert bare.received() == b"MSG a.b 2 3\r\none\r\nMSG a.b 2 0\r\n\r\n"
    assert client.said() == b""
    assert client.link.counters[:2] == (3, 3 * 25 + 6)


def test_a_message_of_qos_1_is_routed_stored_and_acknowledged(broker: MqttBroker) -> None:
    peer = broker.peer(QUIET_WITH_HEADERS).send(b"SUB a.> 1\r\n")
    client = broker.client().send(publish(b"a/b", b"one", qos=1, identifier=0x102, dup=True))
    assert peer.received() == b"HMSG a.b 1 25 28\r\n" + HEAD_1 + b"one\r\n"
    broker.end_tick()
    broker.end_tick()
    assert client.said() == puback(0x102)
    (stored,) = broker.store.stored
    assert stored[1:] == (b"$MQTT.msgs.a.b", STORE_REPLY + b"258", HEAD_1, b"one")
    assert client.link.counters[:3] == (1, 28, 0)


def test_acknowledgements_come_in_the_order_of_publications(broker: MqttBroker) -> None:
    client = broker.client().send(b"".join(publish(b"a", qos=1, identifier=i) for i in (5, 1, 65535, 2)))
    broker.end_tick()
    broker.end_tick()
    assert client.said() == b"".join(puback(i) for i in (5, 1, 65535, 2))


@pytest.mark.parametrize(
    "answer", [b'{"error":{"code":503},"stream":"$MQTT_msgs","seq":0}', b"", b"nonsense"]
)
def test_a_message_that_was_not_stored_is_the_sessions(broker: MqttBroker, answer: bytes) -> None:
    broker.store.answer = answer
    client = broker.client().send(publish(b"a", qos=1, identifier=7))
    for _ in range(3):
        broker.end_tick()
    assert client.session.called("store_failed") == [(7, answer)]
    assert client.said() == b""


def test_nobody_stores(broker: MqttBroker) -> None:
    broker.store.link.detach()
    broker.end_tick()
    client = broker.client().send(publish(b"a", qos=1, identifier=7))
    assert client.session.called("store_failed") == [(7, b"")]


def test_a_message_of_qos_0_waits_behind_those_that_are_not_stored(broker: MqttBroker) -> None:
    peer = broker.peer().send(b"SUB a.* 1\r\n")
    answer, broker.store.answer = broker.store.answer, None
    client = broker.client().send(publish(b"a/1", qos=1, identifier=7) + publish(b"a/0") + PING)
    broker.end_tick()
    assert client.link.is_held
    assert peer.received() == b"MSG a.1 1 1\r\nx\r\n"
    assert answer is not None
    broker.store.link.publish(STORE_REPLY + b"7", answer)
    for _ in range(3):
        broker.end_tick()
    assert peer.received() == b"MSG a.0 1 1\r\nx\r\n"
    assert client.said() == puback(7) + PONG


def test_the_oldest_message_that_waits_is_known_whatever_the_order_of_answers(broker: MqttBroker) -> None:
    answer, broker.store.answer = broker.store.answer, None
    assert answer is not None
    rng = random.Random(5)
    client, waiting, number = broker.client(), [], 0
    for _ in range(300):
        if rng.random() < 0.55 or not waiting:
            number += 1
            client.send(publish(b"a", qos=1, identifier=number))
            waiting.append(number)
        else:
            chosen = waiting.pop(rng.randrange(min(len(waiting), 4)) if rng.random() < 0.9 else -1)
            broker.store.link.publish(STORE_REPLY + b"%d" % chosen, answer)
            broker.end_tick()
            assert client.said() == puback(chosen)
        oldest = client.link.publications.watch_unconfirmed()
        assert (oldest[0] if oldest else None) == (waiting[0] if waiting else None)
    assert client.session.called("store_failed") == []


def test_an_answer_that_nobody_waits_for_is_none(broker: MqttBroker) -> None:
    answer = broker.store.answer
    assert answer is not None
    client = broker.client().send(publish(b"a", qos=1, identifier=7))
    broker.store.link.publish(STORE_REPLY + b"8", answer)
    for _ in range(2):
        broker.end_tick()
    broker.store.link.publish(STORE_REPLY + b"7", answer)
    broker.end_tick()
    assert client.said() == puback(7)


def test_the_session_is_told_of_the_first_message_that_waits(broker: MqttBroker) -> None:
    client = broker.client().send(publish(b"a", qos=1, identifier=1) + publish(b"a", qos=1, identifier=2))
    for _ in range(2):
        broker.end_tick()
    client.send(publish(b"a", qos=1, identifier=3))
    assert client.session.called("stores") == [()]
    for _ in range(2):
        broker.end_tick()
    assert client.link.publications.watch_unconfirmed() is None
    client.send(publish(b"a", qos=1, identifier=4))
    assert client.session.called("stores") == [(), ()]


def test_a_message_of_qos_2_is_the_sessions(broker: MqttBroker) -> None:
    client = broker.client().send(publish(b"a.b/c", b"two", qos=2, identifier=9, retain=True, dup=True))
    assert client.session.called("publication") == [
        (MqttPublication(13, 9, b"a.b/c", b"a//b.c", b"", b"", b"two"),)
    ]
    assert broker.store.stored == []


def test_qos_2_may_be_refused(broker: MqttBroker) -> None:
    client = broker.client(accepts={"rejects_qos2": True}).send(publish(b"a", qos=2))
    assert [reason for _, reason in client.violations] == [0x9B]


@pytest.mark.parametrize(
    "data",
    [
        publish(b"a", qos=3),
        publish(b"a", qos=1, identifier=0),
        publish(b"a", qos=2, identifier=0),
        publish(b""),
        publish(b"a+"),
        publish(b"#"),
        publish(b"a b"),
        publish(b"a\0"),
        publish(b"\xff"),
        packet(0x30, b""),
        packet(0x30, b"\x00"),
        packet(0x30, b"\x00\x02a"),
        packet(0x32, b"\x00\x01a\x00"),
        packet(0x32, b"\x00\x01a"),
    ],
)
def test_publications_that_break_a_rule(broker: MqttBroker, data: bytes) -> None:
    peer = broker.peer().send(b"SUB > 1\r\n")
    client = broker.client().send(data + PING)
    assert len(client.violations) == 1
    assert client.said() == b""
    assert peer.received() == b""


def test_the_largest_payload_counts_with_its_header(broker: MqttBroker) -> None:
    peer = broker.peer(max_payload=1000).send(b"SUB > 1\r\n")
    client = broker.client(max_payload=1000).send(publish(b"a", b"x" * 975))
    assert peer.received() == b"MSG a 1 975\r\n" + b"x" * 975 + b"\r\n"
    client.send(publish(b"a", b"x" * 976))
    assert client.violations == [("maximum payload exceeded: 1001 vs 1000", 0x95)]


def test_the_largest_payload_of_qos_2_counts_as_it_is_stored(broker: MqttBroker) -> None:
    client = broker.client(max_payload=1000).send(publish(b"a/b", b"x" * 955, qos=2))
    assert len(client.session.called("publication")) == 1
    client.send(publish(b"a/b", b"x" * 956, qos=2))
    assert [reason for _, reason in client.violations] == [0x95]


def test_a_large_payload(broker: MqttBroker) -> None:
    data = bytes(range(256)) * 3000
    peer = broker.peer().send(b"SUB a 1\r\n")
    broker.client().send(publish(b"a", data) + publish(b"a", b"next"))
    assert peer.received() == b"MSG a 1 768000\r\n" + data + b"\r\nMSG a 1 4\r\nnext\r\n"


def test_the_longest_topic(broker: MqttBroker) -> None:
    peer = broker.peer().send(b"SUB > 1\r\n")
    client = broker.client().send(publish(b"a" * 65535, b"x"))
    assert peer.received() == b"MSG " + b"a" * 65535 + b" 1 1\r\nx\r\n"
    assert client.violations == []


def test_a_retained_message_is_the_sessions_after_it_was_routed(broker: MqttBroker) -> None:
    peer = broker.peer().send(b"SUB a.b 1\r\n")
    client = broker.client()
    seen = []
    client.session.hooks["retain"] = lambda _: seen.append(peer.received())
    client.send(publish(b"a/b", b"keep", retain=True))
    assert client.session.called("retain") == [(MqttPublication(1, 0, b"a/b", b"a.b", b"", b"", b"keep"),)]
    assert seen == [b"MSG a.b 1 4\r\nkeep\r\n"]


# -- permissions and mappings -------------------------------------------------------------------------


def test_what_may_not_be_published_goes_nowhere_and_is_acknowledged(broker: MqttBroker) -> None:
    peer = broker.peer().send(b"SUB > 1\r\n")
    client = broker.client()
    client.link.restrict(PermissionCache(lambda key: key == b"yes"), None, False, False)
    client.send(publish(b"no") + publish(b"no", qos=1, identifier=3, retain=True) + publish(b"yes"))
    assert client.session.called("publish_refused") == [(b"no",), (b"no",)]
    assert client.session.called("retain") == []
    assert client.said() == puback(3)
    assert peer.received() == b"MSG yes 1 1\r\nx\r\n"
    assert broker.store.stored == []


def test_in_mqtt_5_the_session_says_that_it_may_not_be_published(broker: MqttBroker) -> None:
    client = broker.client(version=5)
    client.link.restrict(PermissionCache(lambda _: False), None, False, False)
    client.send(publish(b"no", properties=b"") + publish(b"no", qos=1, identifier=3, properties=b""))
    assert client.session.called("refused") == [(3, 1)]
    assert client.said() == b""


@pytest.mark.parametrize("topic", [b"$NRG/x", b"_GR_/x/y"])
def test_subjects_of_the_cluster_are_nobodys(broker: MqttBroker, topic: bytes) -> None:
    client = broker.client().send(publish(topic, qos=1, identifier=3))
    assert len(client.session.called("publish_refused")) == 1
    assert broker.store.stored == []


def test_a_mapped_message_is_stored_and_kept_as_what_it_was_mapped_to(broker: MqttBroker) -> None:
    broker.interest.mapper = lambda subject: (b"to.it", True) if subject == b"from" else None
    peer = broker.peer().send(b"SUB > 1\r\n")
    client = broker.client().send(
        publish(b"from", qos=1, retain=True) + publish(b"other", qos=1, identifier=2)
    )
    broker.end_tick()
    assert [message.subject for message in broker.store.stored] == [b"$MQTT.msgs.to.it", b"$MQTT.msgs.other"]
    assert client.session.called("retain")[0][0][2:4] == (b"to/it", b"to.it")
    assert [line.split()[1] for line in peer.received().splitlines() if line.startswith(b"MSG")].count(
        b"to.it"
    ) == 1


# -- MQTT 5 -------------------------------------------------------------------------------------------


def test_properties_are_header_lines(broker: MqttBroker) -> None:
    peer = broker.peer(QUIET_WITH_HEADERS).send(b"SUB a 1\r\n")
    properties = b"\x03" + text(b"text/plain") + b"&" + text(b"k") + text(b"v")
    broker.client(version=5).send(publish(b"a", b"hi", properties=properties))
    head = b"NATS/1.0\r\nNmqtt-Pub:0\r\nContent-Type: text/plain\r\nk: v\r\n\r\n"
    assert peer.received() == b"HMSG a 1 %d %d\r\n%bhi\r\n" % (len(head), len(head) + 2, head)


def test_a_response_topic_is_a_reply_subject(broker: MqttBroker) -> None:
    peer = broker.peer(QUIET_WITH_HEADERS).send(b"SUB a 1\r\n")
    client = broker.client(version=5)
    client.send(
        publish(
            b"a",
            b"hi",
            qos=1,
            identifier=4,
            properties=b"\x08" + text(b"re/x") + b"&" + text(b"k") + text(b"v"),
        )
    )
    head = b"NATS/1.0\r\nNmqtt-Pub:1\r\nk: v\r\n\r\n"
    assert peer.received() == b"HMSG a 1 re.x %d %d\r\n%bhi\r\n" % (len(head), len(head) + 2, head)
    broker.end_tick()
    broker.end_tick()
    assert client.said() == puback(4)
    (stored,) = broker.store.stored
    assert stored.reply == STORE_REPLY + b"4"
    assert stored.headers == b"NATS/1.0\r\nNmqtt-Pub:1\r\nk: v\r\nNmqtt-Reply: re.x\r\n\r\n"
    assert stored.payload == b"hi"


@pytest.mark.parametrize("topic", [b"a/+", b"a b", b"#"])
def test_a_response_topic_is_a_topic(broker: MqttBroker, topic: bytes) -> None:
    client = broker.client(version=5).send(publish(b"a", properties=b"\x08" + text(topic)))
    assert len(client.violations) == 1


def test_a_reserved_response_topic_is_refused(broker: MqttBroker) -> None:
    client = broker.client(version=5).send(publish(b"a", properties=b"\x08" + text(b"$JS/ACK/a/b/c")))
    assert client.session.called("reply_refused") == [(b"$JS.ACK.a.b.c",)]


def test_an_alias_stands_for_its_topic(broker: MqttBroker) -> None:
    peer = broker.peer().send(b"SUB > 1\r\n")
    client = broker.client(version=5, accepts={"topic_alias_maximum": 2})
    client.send(
        publish(b"a/b", b"1", properties=b"\x23\x00\x02") + publish(b"", b"2", properties=b"\x23\x00\x02")
    )
    client.send(
        publish(b"c", b"3", properties=b"\x23\x00\x02")
        + publish(b"", b"4", qos=2, properties=b"\x23\x00\x02")
    )
    assert peer.received() == b"MSG a.b 1 1\r\n1\r\nMSG a.b 1 1\r\n2\r\nMSG c 1 1\r\n3\r\n"
    assert client.session.called("publication")[0][0].topic == b"c"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (publish(b"a", properties=b"\x23\x00\x03"), 0x94),
        (publish(b"a", properties=b"\x23\x00\x00"), 0x94),
        (publish(b"", properties=b"\x23\x00\x01"), 0x82),
        (publish(b"", properties=b""), 0x82),
        (publish(b"a", qos=0, dup=True, properties=b""), 0x81),
        (publish(b"a+", properties=b""), 0x90),
        (publish(b"a", properties=b"\x0b\x01"), 0x82),
        (packet(0x30, b"\x00\x01a"), 0x81),
        (packet(0x30, b"\x00\x01a\x05\x01"), 0x81),
        (packet(0x30, b"\x00\x01a\xff\xff\xff\xff"), 0x81),
    ],
)
def test_publications_that_break_a_rule_of_mqtt_5(broker: MqttBroker, data: bytes, reason: int) -> None:
    client = broker.client(version=5, accepts={"topic_alias_maximum": 2}).send(data)
    assert [code for _, code in client.violations] == [reason]


def test_headers_count_towards_the_largest_payload(broker: MqttBroker) -> None:
    client = broker.client(version=5, max_payload=200)
    client.send(publish(b"a", b"x" * 160, properties=b"&" + text(b"key") + text(b"value")))
    assert client.violations == []
    client.send(publish(b"a", b"x" * 160, properties=b"&" + text(b"key") + text(b"value" * 3)))
    assert [reason for _, reason in client.violations] == [0x95]


@pytest.mark.parametrize(
    "data", [b"\x40\x03\x00\x01\x10", b"\x40\x04\x00\x01\x00\x00", b"\x40\x09\x00\x01\x80\x05\x1f\x00\x02no"]
)
def test_a_puback_of_mqtt_5_may_have_more(broker: MqttBroker, data: bytes) -> None:
    client = broker.client(version=5).send(data + PING)
    assert client.said() == PONG


@pytest.mark.parametrize(
    "data",
    [
        b"\x40\x04\x00\x01\x00\x01",
        b"\x40\x07\x00\x01\x00\x03\x1f\x00\x05",
        b"\x40\x06\x00\x01\x00\x02\x01\x01",
        b"\x40\x02\x00\x00",
    ],
)
def test_a_puback_that_is_wrong(broker: MqttBroker, data: bytes) -> None:
    assert len(broker.client(version=5).send(data).violations) == 1


def test_a_connect_of_mqtt_5(broker: MqttBroker) -> None:
    client = broker.client(connects=False).send(CONNECT_5)
    assert client.link.version == 5
    with pytest.raises(ValueError, match="version"):
        client.link.accept_connect(version=3, client_hash=b"", store_reply=b"")


# -- what the session publishes -----------------------------------------------------------------------


def test_the_session_publishes_as_the_client(whole: MqttBroker) -> None:
    peer = whole.peer(QUIET_WITH_HEADERS).send(b"SUB > 1\r\n")
    client = whole.client()
    client.link.restrict(PermissionCache(lambda key: key == b"a.b"), None, False, False)
    assert client.link.route(b"a.b", HEAD_1, b"hi", reply=b"re") == b"a.b"
    assert client.link.route(b"no", b"", b"hi") is None
    client.link.publish_internal(b"$MQTT.x", b"", b"inside", reply=b"back")
    assert (
        peer.received() == b"HMSG a.b 1 re 25 27\r\n" + HEAD_1 + b"hi\r\nMSG $MQTT.x 1 back 6\r\ninside\r\n"
    )
    assert client.session.called("publish_refused") == [(b"no",)]


def test_a_closing_link_may_publish_and_a_detached_one_may_not(whole: MqttBroker) -> None:
    peer = whole.peer().send(b"SUB > 1\r\n")
    client = whole.client().send(DISCONNECT)
    assert client.link.is_closing
    assert client.link.route(b"will", b"", b"1") == b"will"
    client.link.publish_internal(b"will", b"", b"2")
    assert peer.received() == b"MSG will 1 1\r\n1\r\nMSG will 1 1\r\n2\r\n"
    client.link.detach()
    for call in (client.link.route, client.link.publish_internal):
        with pytest.raises(RuntimeError, match="detached"):
            call(b"will", b"", b"3")


def test_a_link_without_an_account_cannot_publish(whole: MqttBroker) -> None:
    link = MqttLink(whole.router, object(), max_payload=100)
    with pytest.raises(RuntimeError, match="interest"):
        link.publish_internal(b"a", b"", b"")
    link.interest = Interest()
    link.publish_internal(b"a", b"", b"")
    link.detach()


def test_a_client_of_mqtt_5_waits_for_answers(broker: MqttBroker) -> None:
    broker.store.answer = None
    client = broker.client(version=5, accepts={"receive_maximum_in": 2})
    first, second = (publish(b"a", qos=2, identifier=n, properties=b"") for n in (1, 2))
    client.send(first + second + first)
    client.send(b"\x62\x02\x00\x01" + publish(b"a", qos=2, identifier=3, properties=b""))
    client.link.end_publication(3)
    client.link.end_publication(99)
    client.send(publish(b"a", qos=1, identifier=4, properties=b""))
    assert client.violations == []
    client.send(publish(b"a", qos=2, identifier=5, properties=b""))
    assert [reason for _, reason in client.violations] == [0x93]
    assert len(client.session.called("publication")) == 4


def test_a_session_may_hold_a_link_that_broke_a_rule(broker: MqttBroker) -> None:
    """It ends the connection later; nothing more is parsed until then."""
    client = broker.client(version=5, accepts={"receive_maximum_in": 1})
    client.session.hooks["violation"] = lambda *_: client.link.hold()
    client.send(b"".join(publish(b"a", qos=2, identifier=n, properties=b"") for n in (1, 2, 3)) + PING)
    assert len(client.violations) == 1
    assert not client.link.is_closing
    assert client.said() == b""
    client.session.hooks["violation"] = lambda *_: None
    client.link.release()
    assert client.reason is CloseReason.PROTOCOL_VIOLATION


def test_a_client_of_mqtt_3_need_not_wait(broker: MqttBroker) -> None:
    client = broker.client(accepts={"receive_maximum_in": 1})
    client.send(publish(b"a", qos=2) + publish(b"a", qos=2, identifier=2))
    assert client.violations == []
