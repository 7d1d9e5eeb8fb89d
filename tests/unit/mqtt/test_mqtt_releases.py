"""Messages of QoS 2 to a client whose session ends with its connection, from PUBREC to PUBCOMP."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from harness.linked_mqtt import Device, LinkedMqtt
from headrace.mqtt.hub import Accepted
from headrace.protocol.mqtt.properties import PacketKind
from headrace.protocol.mqtt.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.linked_mqtt import Seen

PUBLISH, PUBREC, PUBREL, PUBCOMP = (
    PacketKind.PUBLISH,
    PacketKind.PUBREC,
    PacketKind.PUBREL,
    PacketKind.PUBCOMP,
)


@pytest.fixture
def account(tmp_path: Path) -> Iterator[LinkedMqtt]:
    made = LinkedMqtt(tmp_path, ack_wait_ns=1_000_000_000)
    yield made
    assert made.mistakes == []
    made.stop()


def connected(account: LinkedMqtt, client_id: str = "c", *, version: int = 4) -> Device:
    device = Device(account, client_id, clean=True, version=version)
    account.tick()
    assert isinstance(device.result, Accepted), device.result
    account.pass_time(0.3)
    return device


def messages_of(account: LinkedMqtt, stream: str) -> int:
    return json.loads(account.ask(f"STREAM.INFO.{stream}"))["state"]["messages"]


def publish(account: LinkedMqtt, *payloads: bytes) -> None:
    publisher = connected(account, "publisher")
    for identifier, payload in enumerate(payloads, 1):
        publisher.publish("t", payload, 2, identifier)
        publisher.acknowledge(PUBREL, identifier)
    account.tick()


def received(account: LinkedMqtt, version: int = 4) -> tuple[Device, Seen]:
    """A client with one message of QoS 2."""
    device = connected(account, version=version)
    device.subscribe("t", 2)
    publish(account, b"x")
    (message,) = device.take()
    assert (message.kind, message.qos) == (PUBLISH, 2)
    return device, message


def kinds(device: Device) -> list[tuple[int, int]]:
    return [(one.kind, one.identifier) for one in device.take()]


@pytest.mark.parametrize("version", [4, 5])
def test_every_message_goes_through_all_steps(account: LinkedMqtt, version: int) -> None:
    device = connected(account, version=version)
    device.subscribe("t", 2)
    publish(account, *(b"%d" % number for number in range(100)))
    identifiers = [one.identifier for one in device.take() if one.kind == PUBLISH]
    assert len(set(identifiers)) == 100
    for identifier in identifiers:
        device.acknowledge(PUBREC, identifier)
    assert kinds(device) == [(PUBREL, identifier) for identifier in identifiers]
    assert messages_of(account, "$MQTT_msgs") == 0
    assert messages_of(account, "$MQTT_out") == 100
    for identifier in identifiers:
        device.acknowledge(PUBCOMP, identifier)
    assert kinds(device) == []
    assert messages_of(account, "$MQTT_out") == 0
    assert device.link.in_flight() == []


@pytest.mark.parametrize("version", [4, 5])
def test_answers_that_come_twice(account: LinkedMqtt, version: int) -> None:
    device, message = received(account, version)
    released = (PUBREL, message.identifier)
    device.acknowledge(PUBREC, message.identifier)
    device.acknowledge(PUBREC, message.identifier)
    device.acknowledge(PUBCOMP, message.identifier)  # of a PUBREL that has not come
    assert kinds(device) == [released]
    device.acknowledge(PUBREC, message.identifier)
    assert kinds(device) == [released]
    device.acknowledge(PUBCOMP, message.identifier)
    device.acknowledge(PUBCOMP, message.identifier)
    assert kinds(device) == []
    assert messages_of(account, "$MQTT_out") == messages_of(account, "$MQTT_msgs") == 0


def test_a_release_that_is_not_answered_is_sent_again_in_3_1_1(account: LinkedMqtt) -> None:
    device, message = received(account)
    device.acknowledge(PUBREC, message.identifier)
    assert kinds(device) == [(PUBREL, message.identifier)]
    account.pass_time(1.5)
    assert kinds(device) == [(PUBREL, message.identifier)]
    device.acknowledge(PUBCOMP, message.identifier)
    account.pass_time(3)
    assert kinds(device) == []
    assert messages_of(account, "$MQTT_out") == 0


def test_a_message_that_comes_again_while_its_release_is_stored_is_not_sent(account: LinkedMqtt) -> None:
    device, message = received(account)
    assert isinstance(device.result, Accepted)
    (_, _, name, sequence) = device.link.in_flight()[0]
    again = f"$JS.ACK.$MQTT_msgs.{name.decode()}.2.{sequence}.2.1.0"
    deliver = device.session.stored.record.cons["t"]["deliver_subject"]
    device.acknowledge(PUBREC, message.identifier)
    account.put(deliver, b"x", reply=again, headers=b"NATS/1.0\r\nNmqtt-Pub:2\r\n\r\n")
    assert kinds(device) == [(PUBREL, message.identifier)]


def test_a_message_without_a_consumer_is_released_at_once(account: LinkedMqtt) -> None:
    publisher = connected(account, "publisher")
    publisher.publish("t", b"x", 2, 1, retain=True)
    publisher.acknowledge(PUBREL, 1)
    account.tick()
    device = connected(account)
    device.subscribe("t", 2)
    (message,) = device.take()
    assert message.is_retained
    device.acknowledge(PUBREC, message.identifier)
    device.acknowledge(PUBREC, message.identifier)
    assert kinds(device) == [(PUBREL, message.identifier)] * 2
    device.acknowledge(PUBCOMP, message.identifier)
    assert kinds(device) == []
    assert messages_of(account, "$MQTT_out") == 0


def test_a_receipt_with_an_error_ends_the_message(account: LinkedMqtt) -> None:
    device, message = received(account, 5)
    device.feed(PUBREC << 4, message.identifier.to_bytes(2, "big") + b"\x80")
    assert kinds(device) == []
    assert messages_of(account, "$MQTT_msgs") == 0


def test_a_receipt_with_properties_is_one(account: LinkedMqtt) -> None:
    device, message = received(account, 5)
    identifier = message.identifier.to_bytes(2, "big")
    device.feed(PUBREC << 4, identifier + b"\x00\x00")
    assert kinds(device) == [(PUBREL, message.identifier)]
    device.feed(PUBCOMP << 4, identifier + b"\x00\x00")
    assert kinds(device) == []
    assert messages_of(account, "$MQTT_out") == 0


@pytest.mark.parametrize("version", [4, 5])
def test_a_receipt_of_nothing_is_released(account: LinkedMqtt, version: int) -> None:
    device = connected(account, version=version)
    device.acknowledge(PUBREC, 77)
    (released,) = device.take()
    assert (released.kind, released.body) == (PUBREL, b"\x00\x4d" + (b"\x92" if version == 5 else b""))
    device.acknowledge(PUBCOMP, 77)
    assert kinds(device) == []


@pytest.mark.parametrize("answer", [b"", b"{", b'{"error":{"code":503,"err_code":10077}}'])
def test_a_release_that_is_not_stored_ends_the_connection(account: LinkedMqtt, answer: bytes) -> None:
    device, message = received(account)
    assert isinstance(device.result, Accepted)
    device.acknowledge(PUBREC, message.identifier)
    account.put(f"{device.result.store_reply.decode()}R{message.identifier}", answer)
    account.tick()
    assert [reason for reason, _ in device.closed] == [Reason.UNSPECIFIED_ERROR]


@pytest.mark.parametrize(
    "headers",
    [
        *(b"", b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nNmqtt-PubRel:\r\n\r\n"),
        *(b"NATS/1.0\r\nNmqtt-PubRel:0\r\n\r\n", b"NATS/1.0\r\nNmqtt-PubRel:65536\r\n\r\n"),
        *(b"NATS/1.0\r\nNmqtt-PubRel:99999999999999999999\r\n\r\n", b"NATS/1.0\r\nNmqtt-PubRel: 7x\r\n\r\n"),
    ],
)
def test_a_release_that_names_no_identifier_is_taken_away(account: LinkedMqtt, headers: bytes) -> None:
    device = connected(account)
    device.subscribe("t", 2)
    account.put(f"$MQTT.out.pubrel.{device.session.stored.hash}", b"", headers=headers)
    account.tick()
    assert kinds(device) == []
    assert messages_of(account, "$MQTT_out") == 0


def test_a_release_of_somebody_else_goes_out_and_keeps_its_identifier(account: LinkedMqtt) -> None:
    device = connected(account)
    device.subscribe("t", 2)
    stored = f"$MQTT.out.pubrel.{device.session.stored.hash}"
    account.put(stored, b"", headers=b"NATS/1.0\r\nNmqtt-PubRel: 1\r\n\r\n")
    assert kinds(device) == [(PUBREL, 1)]
    publish(account, b"x")
    (message,) = device.take()
    assert message.identifier != 1
    device.acknowledge(PUBCOMP, 1)
    assert kinds(device) == []
    assert messages_of(account, "$MQTT_out") == 0
