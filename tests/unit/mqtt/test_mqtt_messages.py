"""QoS 2 both ways, retained messages, shared subscriptions: through streams, on the hub of one account."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest

from harness.linked_mqtt import Device, LinkedMqtt
from headrace.mqtt import retained, retained_permissions
from headrace.mqtt.hub import Accepted
from headrace.protocol.mqtt.properties import PacketKind, Properties

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOOK = 0.3
PUBREC, PUBREL, PUBCOMP = PacketKind.PUBREC, PacketKind.PUBREL, PacketKind.PUBCOMP


@pytest.fixture
def account(tmp_path: Path) -> Iterator[LinkedMqtt]:
    made = LinkedMqtt(tmp_path)
    yield made
    assert made.mistakes == []
    made.stop()


def connected(account: LinkedMqtt, client_id: str = "c", **options: object) -> Device:
    device = Device(account, client_id, **options)  # type: ignore[arg-type]
    account.tick()
    assert isinstance(device.result, Accepted), device.result
    account.pass_time(LOOK)
    return device


def kinds(device: Device) -> list[tuple[int, int]]:
    return [(one.kind, one.identifier) for one in device.take()]


def messages_of(account: LinkedMqtt, stream: str) -> int:
    return json.loads(account.ask(f"STREAM.INFO.{stream}"))["state"]["messages"]


# -- QoS 2 from a client -------------------------------------------------------------------------------


def test_a_message_is_published_when_it_is_released(account: LinkedMqtt) -> None:
    listener = connected(account, "listener")
    listener.subscribe("t", 2)
    device = connected(account)
    device.publish("t", b"x", 2, 5)
    assert kinds(device) == [(PUBREC, 5)]
    assert listener.messages() == []
    device.acknowledge(PUBREL, 5)
    assert kinds(device) == [(PUBCOMP, 5)]
    assert listener.messages() == [("t", b"x", 2)]
    assert messages_of(account, "$MQTT_qos2in") == 0


def test_the_first_message_of_an_identifier_wins(account: LinkedMqtt) -> None:
    listener = connected(account, "listener")
    listener.subscribe("t", 0)
    device = connected(account)
    device.publish("t", b"1", 2, 5)
    device.publish("t", b"2", 2, 5, again=True)
    assert kinds(device) == [(PUBREC, 5)] * 2
    device.acknowledge(PUBREL, 5)
    device.acknowledge(PUBREL, 5)
    assert kinds(device) == [(PUBCOMP, 5)] * 2
    assert listener.messages() == [("t", b"1", 0)]


def test_a_clean_start_forgets_messages_that_were_not_released(account: LinkedMqtt) -> None:
    """As a session's end does in 5.0; in 3.1.1 they stay, as on nats-server."""
    listener = connected(account, "listener")
    listener.subscribe("t", 0)
    for version, taken in ((4, b"old"), (5, b"new")):
        device = connected(account, version=version)
        device.publish("t", b"old", 2, 5)
        device.leave()
        device = connected(account, clean=True, version=version)
        device.publish("t", b"new", 2, 5)
        device.acknowledge(PUBREL, 5)
        assert kinds(device) == [(PUBREC, 5), (PUBCOMP, 5)]
        assert listener.messages() == [("t", taken, 0)]
        device.leave()


@pytest.mark.parametrize("ticks", range(14))
def test_a_release_that_is_cut_off_anywhere_publishes_once(account: LinkedMqtt, ticks: int) -> None:
    listener = connected(account, "listener")
    listener.subscribe("t", 1)
    device = connected(account)
    device.publish("t", b"x", 2, 5)
    device.take()
    device.acknowledge(PUBREL, 5)
    for _ in range(ticks):
        account.one_tick()
    account.die()
    account.begin()
    device = connected(account)
    device.acknowledge(PUBREL, 5)
    assert kinds(device) == [(PUBCOMP, 5)]
    listener = connected(account, "listener")
    assert listener.messages() == [("t", b"x", 1)]
    assert messages_of(account, "$MQTT_qos2in") == 0


def test_a_forbidden_message_is_acknowledged_and_dropped(account: LinkedMqtt) -> None:
    device = connected(account, version=5)
    device.forbidden.add(b"no")
    device.publish("no", b"x", 2, 5)
    (refused,) = device.take()
    assert (refused.kind, refused.body) == (PUBREC, b"\x00\x05\x87")
    assert messages_of(account, "$MQTT_qos2in") == 0
    device.acknowledge(PUBREL, 5)
    (unknown,) = device.take()
    assert (unknown.kind, unknown.body) == (PUBCOMP, b"\x00\x05\x92")


# -- QoS 2 to a client ---------------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [False, True])
def test_a_message_is_released_and_completed(account: LinkedMqtt, clean: bool) -> None:
    device = connected(account, clean=clean)
    device.subscribe("t", 2)
    connected(account, "other").publish("t", b"x", 1, 1)
    (message,) = device.take()
    assert message.qos == 1
    other = connected(account, "another")
    other.publish("t", b"y", 2, 1)
    other.take()
    other.acknowledge(PUBREL, 1)
    (message,) = device.take()
    assert (message.payload, message.qos) == (b"y", 2)
    device.acknowledge(PUBREC, message.identifier)
    assert kinds(device) == [(PUBREL, message.identifier)]
    assert messages_of(account, "$MQTT_out") == 1
    device.acknowledge(PUBCOMP, message.identifier)
    assert kinds(device) == []
    assert messages_of(account, "$MQTT_out") == 0


def test_an_unknown_receipt_is_released_all_the_same(account: LinkedMqtt) -> None:
    device = connected(account)
    device.acknowledge(PUBREC, 77)
    assert kinds(device) == [(PUBREL, 77)]
    device = connected(account, "v5", version=5)
    device.acknowledge(PUBREC, 77)
    (released,) = device.take()
    assert (released.kind, released.body) == (PUBREL, b"\x00\x4d\x92")


@pytest.mark.parametrize("ticks", range(8))
def test_a_delivery_that_is_cut_off_anywhere_keeps_its_identifier(account: LinkedMqtt, ticks: int) -> None:
    device = connected(account)
    device.subscribe("t", 2)
    other = connected(account, "other")
    for number in (1, 2, 3):
        other.publish("t", b"%d" % number, 2, number)
        other.take()
        other.acknowledge(PUBREL, number)
    got: dict[int, bytes] = {}
    for _ in range(ticks):
        account.one_tick()
        got |= {one.identifier: one.payload for one in device.seen()}
    account.die()
    account.begin()
    device = connected(account)
    connected(account, "other")
    for number in (1, 2, 3):
        account.devices[-1].acknowledge(PUBREL, number)
    account.pass_time(LOOK)
    for one in device.take():
        assert got.setdefault(one.identifier, one.payload) == one.payload
    assert sorted(got.values()) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("ticks", range(8))
def test_a_receipt_that_is_cut_off_anywhere_is_not_forgotten(account: LinkedMqtt, ticks: int) -> None:
    device = connected(account)
    device.subscribe("t", 2)
    other = connected(account, "other")
    other.publish("t", b"x", 2, 1)
    other.take()
    other.acknowledge(PUBREL, 1)
    (message,) = device.take()
    device.acknowledge(PUBREC, message.identifier)
    is_released = False
    for _ in range(ticks):
        account.one_tick()
        is_released = is_released or any(one.kind == PUBREL for one in device.seen())
    account.die()
    account.begin()
    device = connected(account)
    held = not is_released
    for one in device.take():
        if one.kind == PacketKind.PUBLISH:
            assert held, "the client takes it for a new message"
            assert one.identifier == message.identifier
            device.acknowledge(PUBREC, one.identifier)
        else:
            held = False
            device.acknowledge(PUBCOMP, one.identifier)
    for one in device.take():
        assert one.kind == PUBREL
        device.acknowledge(PUBCOMP, one.identifier)
    account.tick()
    assert messages_of(account, "$MQTT_out") == messages_of(account, "$MQTT_msgs") == 0


def numbered(account: LinkedMqtt, other: Device, number: int) -> None:
    """One message of QoS 2, published and released."""
    other.publish("t", b"%d" % number, 2, number)
    other.take()
    other.acknowledge(PUBREL, number)
    other.take()


@pytest.mark.parametrize("version", [4, 5])
def test_a_receipt_that_jetstream_forgets_is_known_by_its_release(account: LinkedMqtt, version: int) -> None:
    """A consumer writes acknowledgements a moment later, and loses the last when the server is killed."""
    properties = Properties(session_expiry=1000) if version == 5 else Properties()
    device = connected(account, version=version, properties=properties)
    device.subscribe("t", 2)
    other = connected(account, "other")
    publish = account.hub_host.publish

    def forget(subject: bytes, payload: bytes, **more: bytes) -> None:
        if not subject.startswith(b"$JS.ACK.$MQTT_msgs."):
            publish(subject, payload, **more)

    account.hub_host.publish = forget  # type: ignore[method-assign]
    numbered(account, other, 1)
    (first,) = device.take()
    device.acknowledge(PUBREC, first.identifier)
    assert kinds(device) == [(PUBREL, first.identifier)]
    numbered(account, other, 2)  # its identifier is stored, with those that are under way then
    (second,) = device.take()
    account.die()
    account.begin()

    device = connected(account, version=version, properties=properties)

    came = device.take()
    assert {(one.kind, one.identifier) for one in came} == {
        (PUBREL, first.identifier),
        (PacketKind.PUBLISH, second.identifier),
    }
    for one in came:
        device.acknowledge(PUBCOMP if one.kind == PUBREL else PUBREC, one.identifier)
    assert kinds(device) == [(PUBREL, second.identifier)]
    device.acknowledge(PUBCOMP, second.identifier)
    account.pass_time(60)
    assert device.take() == []
    assert messages_of(account, "$MQTT_out") == messages_of(account, "$MQTT_msgs") == 0


# -- retained messages ---------------------------------------------------------------------------------


def retained_of(
    device: Device, topic_filter: str, qos: int = 0, **options: int
) -> list[tuple[str, bytes, int]]:
    device.subscribe(topic_filter, qos, **options)
    found = [one for one in device.take() if one.kind == PacketKind.PUBLISH]
    assert all(one.is_retained for one in found)
    return sorted((one.topic, one.payload, one.qos) for one in found)


def test_a_new_filter_gets_what_is_retained(account: LinkedMqtt) -> None:
    device = connected(account)
    device.publish("a", b"0", retain=True)
    device.publish("a/b", b"1", 1, 1, retain=True)
    device.publish("a/b/c", b"2", 1, 2, retain=True)
    device.publish("$x/y", b"3", retain=True)
    account.tick()
    assert retained_of(device, "a/#", 2) == [("a", b"0", 0), ("a/b", b"1", 1), ("a/b/c", b"2", 1)]
    assert retained_of(device, "+/b") == [("a/b", b"1", 0)]
    assert retained_of(device, "$x/+") == [("$x/y", b"3", 0)]
    assert len(retained_of(connected(account, "all"), "#")) == 3
    device.forbidden.add(b"a.b")
    assert retained_of(device, "a/+") == []


def test_an_empty_message_removes_what_is_retained(account: LinkedMqtt) -> None:
    device = connected(account)
    device.publish("a", b"0", retain=True)
    account.tick()
    assert messages_of(account, "$MQTT_rmsgs") == 1
    device.publish("a", b"", retain=True)
    account.tick()
    assert messages_of(account, "$MQTT_rmsgs") == 0
    assert retained_of(device, "a") == []


def test_another_hub_and_a_new_one_know_what_is_retained(account: LinkedMqtt) -> None:
    device = connected(account)
    other = account.another("S2")
    elsewhere = connected(other, "elsewhere")
    device.publish("a", b"0", 1, 1, retain=True)
    account.tick()
    assert retained_of(elsewhere, "a", 1) == [("a", b"0", 1)]
    other.die()
    account.die()
    account.begin()
    assert retained_of(connected(account), "+") == [("a", b"0", 0)]


def test_payloads_beyond_the_bound_are_read_from_the_stream(
    account: LinkedMqtt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retained, "MOST_BYTES", 200)
    device = connected(account)
    for number in range(10):
        device.publish(f"a/{number}", b"%d" % number * 30, retain=True)
        account.tick()
    assert account.hub.retained._bytes <= 200
    assert retained_of(device, "a/+") == [(f"a/{n}", b"%d" % n * 30, 0) for n in range(10)]


def test_subjects_beyond_the_bound_are_left_out(account: LinkedMqtt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained, "MOST_INDEXED", 2)
    device = connected(account)
    for number in range(4):
        device.publish(f"a/{number}", b"x", retain=True)
    account.tick()
    assert len(account.hub.retained) == 2
    assert len(retained_of(device, "#")) == 2


def test_a_record_of_a_nats_client_is_retained(account: LinkedMqtt) -> None:
    device = connected(account)
    account.put("$MQTT.rmsgs.a.b", b"x", headers=b"NATS/1.0\r\nNmqtt-RFlags: 1\r\n\r\n")
    account.tick()
    assert retained_of(device, "a/b") == [("a/b", b"x", 0)]


def test_messages_of_users_who_lost_the_right_are_forgotten(
    account: LinkedMqtt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retained, "MOST_BYTES", 60)
    monkeypatch.setattr(retained_permissions, "TOGETHER", 3)
    device, other = connected(account), account.another("S2")
    device.user = "u"  # type: ignore[assignment]
    for number in range(8):
        device.publish(f"a/{number}", b"x", 1, number + 1, retain=True)
        account.tick()
    device.publish("spBv1.0/g/NBIRTH/n", b"x")
    device.user = None
    device.publish("a/nobody", b"x", retain=True)
    elsewhere = connected(other, "elsewhere")
    elsewhere.user = "u"  # type: ignore[assignment]
    elsewhere.publish("a/elsewhere", b"x", retain=True)
    account.tick()

    def may_publish(user: str, subject: bytes) -> bool:
        assert user == "u"
        return subject.startswith(b"spBv1//0.") or subject == b"a.3"

    account.hub.judge_retained(may_publish)
    account.pass_time(1)
    left = [("a/3", b"x", 1), ("a/elsewhere", b"x", 0), ("a/nobody", b"x", 0)]
    assert retained_of(device, "a/#", 1) == left
    assert len(retained_of(elsewhere, "$sparkplug/#")) == 1
    assert messages_of(account, "$MQTT_rmsgs") == 4
    other.hub.judge_retained(lambda *_: False)
    account.pass_time(1)
    assert messages_of(account, "$MQTT_rmsgs") == 3


def test_an_expired_message_is_gone(account: LinkedMqtt) -> None:
    device = connected(account, version=5)
    expires = account.host.now // 10**6 + 2000
    headers = f"NATS/1.0\r\nNmqtt-RFlags: 1\r\nNmqtt-Expires-At: {expires}\r\n\r\n"
    account.put("$MQTT.rmsgs.a", b"x", headers=headers.encode())
    account.pass_time(3)
    device.subscribe("a")
    assert [one for one in device.take() if one.kind == PacketKind.PUBLISH] == []
    assert messages_of(account, "$MQTT_rmsgs") == 0


@pytest.mark.parametrize(("handling", "first", "second"), [(0, 1, 1), (1, 1, 0), (2, 0, 0)])
def test_retain_handling(account: LinkedMqtt, handling: int, first: int, second: int) -> None:
    connected(account, "other").publish("a", b"0", retain=True)
    device = connected(account, version=5)
    assert len(retained_of(device, "a", options=handling << 4)) == first
    assert len(retained_of(device, "a", options=handling << 4)) == second


# -- shared subscriptions ------------------------------------------------------------------------------


def test_members_of_a_group_share_a_consumer_that_goes_with_the_last(account: LinkedMqtt) -> None:
    stays = Properties(session_expiry=60)
    members = [connected(account, f"m{n}", version=5, properties=stays) for n in range(2)]
    for member in members:
        assert member.subscribe("$share/g/a/#", 1) == 1
    names = json.loads(account.ask("CONSUMER.NAMES.$MQTT_msgs"))["consumers"]
    assert len(names) == 1
    publisher = connected(account, "p")
    for number in range(20):
        publisher.publish("a/b", b"%d" % number, 1, number + 1)
    publisher.publish("a", b"20", 1, 21)
    account.pass_time(LOOK)
    shares = [[one.body for one in member.take() if one.kind == PacketKind.PUBLISH] for member in members]
    assert sum(map(len, shares)) == 21
    members[0].unsubscribe("$share/g/a/#")
    assert json.loads(account.ask("CONSUMER.NAMES.$MQTT_msgs"))["consumers"] == names
    members[1].leave(expiry=0)
    assert not json.loads(account.ask("CONSUMER.NAMES.$MQTT_msgs"))["consumers"]


GROUPS = [[0, 1], [1, 0], [0, 0, 1, 2], [2, 0, 1], [0, 2, 0]]


@pytest.mark.parametrize("at_two_servers", [False, True])
@pytest.mark.parametrize("qualities", GROUPS, ids=str)
def test_members_of_any_qos_get_each_message_once(
    account: LinkedMqtt, qualities: list[int], at_two_servers: bool
) -> None:
    servers = [account, account.another("S2") if at_two_servers else account]
    members = [connected(servers[n % 2], f"m{n}", version=5) for n in range(len(qualities))]
    for member, qos in zip(members, qualities, strict=True):
        assert member.subscribe("$share/g/a/#", qos) == qos
    publisher = connected(account, "p")
    for number in range(60):
        publisher.publish("a/b", b"%d." % number, number % 2, number + 1)
    for number in range(60, 90):
        publisher.publish("a", b"%d." % number, 2, number + 1)
        account.tick()
        publisher.acknowledge(PacketKind.PUBREL, number + 1)
    came: list[bytes] = []
    for _ in range(20):
        account.pass_time(LOOK)
        for member, qos in zip(members, qualities, strict=True):
            for one in member.take():
                if one.kind == PacketKind.PUBLISH:
                    assert one.qos <= qos
                    came.append(one.body.rpartition(b"\0")[2])
                    if one.qos:
                        answer = PacketKind.PUBACK if one.qos == 1 else PacketKind.PUBREC
                        member.acknowledge(answer, one.identifier)
                elif one.kind == PacketKind.PUBREL:
                    member.acknowledge(PacketKind.PUBCOMP, one.identifier)
    assert sorted(came) == sorted(b"%d." % number for number in range(90))


def test_member_of_qos_0_that_was_away_shares_what_is_stored_for_its_group(account: LinkedMqtt) -> None:
    stays = Properties(session_expiry=60)
    away = connected(account, "away", version=5, properties=stays)
    assert away.subscribe("$share/g/a", 0) == 0
    away.leave(expiry=60)
    other = connected(account, "other", version=5)
    assert other.subscribe("$share/g/a", 1) == 1
    back = connected(account, "away", version=5, properties=stays)
    account.tick()
    publisher = connected(account, "p")
    for number in range(1, 31):
        publisher.publish("a", b"x", 1, number)
    account.pass_time(LOOK)
    shares = [[one for one in member.take() if one.kind == PacketKind.PUBLISH] for member in (back, other)]
    assert sum(map(len, shares)) == 30
    assert all(shares)
    assert {one.qos for one in shares[0]} == {0}
    other.leave(expiry=0)
    publisher.publish("a", b"last", 1, 31)
    account.pass_time(LOOK)
    assert [one.body[-4:] for one in back.take() if one.kind == PacketKind.PUBLISH][-1:] == [b"last"]
    back.unsubscribe("$share/g/a")
    assert not json.loads(account.ask("CONSUMER.NAMES.$MQTT_msgs"))["consumers"]


def test_group_of_qos_0_alone_needs_no_consumer(account: LinkedMqtt) -> None:
    members = [connected(account, f"m{n}", version=5) for n in range(2)]
    for member in members:
        member.subscribe("$share/g/a", 0)
    publisher = connected(account, "p")
    for number in range(1, 21):
        publisher.publish("a", b"x", 1, number)
    account.tick()
    assert sum(len(member.messages()) for member in members) == 20
    assert not json.loads(account.ask("CONSUMER.NAMES.$MQTT_msgs"))["consumers"]


def test_what_a_member_left_goes_to_another(account: LinkedMqtt) -> None:
    stays = Properties(session_expiry=60)
    first = connected(account, "m1", version=5, properties=stays)
    first.subscribe("$share/g/a", 1)
    connected(account, "p").publish("a", b"x", 1, 1)
    account.pass_time(LOOK)
    assert len([one for one in first.take() if one.kind == PacketKind.PUBLISH]) == 1
    second = connected(account, "m2", version=5, properties=stays)
    second.subscribe("$share/g/a", 1)
    first.leave(expiry=60)
    account.pass_time(LOOK)
    assert len([one for one in second.take() if one.kind == PacketKind.PUBLISH]) == 1


@pytest.mark.parametrize("topic_filter", ["$share//a", "$share/g", "$share/g/", "$share/a+b/c", "$share"])
def test_groups_that_may_not_be(account: LinkedMqtt, topic_filter: str) -> None:
    assert connected(account, version=5).subscribe(topic_filter) == 0x8F


def test_a_stream_that_was_deleted_is_made_and_followed_anew(account: LinkedMqtt) -> None:
    device = connected(account)
    device.publish("a", b"0", retain=True)
    account.tick()
    account.ask("STREAM.DELETE.$MQTT_rmsgs")
    account.hub._ready = None  # as after a request that failed
    device = connected(account, "d")
    assert retained_of(device, "#") == []
    account.put("$MQTT.rmsgs.b", b"x", headers=b"NATS/1.0\r\nNmqtt-RFlags: 1\r\n\r\n")
    account.tick()
    assert retained_of(device, "#") == [("b", b"x", 0)]


def test_a_literal_wildcard_on_a_topic_hides_nothing(account: LinkedMqtt) -> None:
    device = connected(account)
    device.publish("*", b"star", retain=True)
    device.publish("a", b"a", retain=True)
    account.tick()
    assert retained_of(device, "+") == [("*", b"star", 0), ("a", b"a", 0)]


@pytest.mark.parametrize(("qos", "others"), [(0, 0), (1, 0), (2, 0), (2, 5)])
def test_retain_comes_as_published_to_who_asks_for_it(account: LinkedMqtt, qos: int, others: int) -> None:
    """A message of QoS 2 that has no room in memory beside others is published by the session."""
    publisher = connected(account, "p", version=5)
    plain, asks = (connected(account, name, version=5) for name in ("plain", "asks"))
    plain.subscribe("t", 2)
    asks.subscribe("t", 2, options=0x08)
    for number in range(others):
        publisher.publish("other", bytes(900_000), 2, 10 + number)
        publisher.take()
    publisher.publish("t", b"x", qos, 1 if qos else 0, retain=True)
    publisher.take()
    if qos == 2:
        publisher.acknowledge(PacketKind.PUBREL, 1)
        publisher.take()

    seen = [
        [one.is_retained for one in device.take() if one.kind == PacketKind.PUBLISH]
        for device in (plain, asks)
    ]
    assert seen == [[False], [True]]
    later = connected(account, "later", version=5)
    later.subscribe("t", 2)
    (kept,) = (one for one in later.take() if one.kind == PacketKind.PUBLISH)
    assert kept.is_retained
    stored = json.loads(account.ask("STREAM.MSG.GET.$MQTT_rmsgs", {"last_by_subj": "$MQTT.rmsgs.t"}))
    assert b"Nmqtt-Retain:" not in base64.b64decode(stored["message"]["hdrs"])
