"""JetStream that refuses, is silent or gone: clients hear of it in bounded time, and nothing is left over."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from harness.linked_mqtt import Device, LinkedMqtt
from headrace.core.service import Delivery
from headrace.engine.service import ServiceLink
from headrace.mqtt import requests
from headrace.mqtt.hub import Accepted
from headrace.protocol.mqtt.properties import PacketKind
from headrace.protocol.mqtt.reasons import MqttError, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REFUSAL = b'{"error":{"code":500,"err_code":10047,"description":"insufficient resources"}}'


@pytest.fixture
def account(tmp_path: Path) -> Iterator[LinkedMqtt]:
    made = LinkedMqtt(tmp_path, api_timeout=5.0)
    yield made
    assert made.mistakes == []
    made.stop()


def connected(account: LinkedMqtt, client_id: str = "c", **options: object) -> Device:
    device = Device(account, client_id, **options)  # type: ignore[arg-type]
    account.tick()
    assert isinstance(device.result, Accepted), device.result
    return device


class Impostor:
    """Somebody who answers requests of the API in the place of JetStream, or does not."""

    def __init__(self, account: LinkedMqtt, answers: dict[bytes, bytes]) -> None:
        account.host.link.detach()
        account.router.end_tick()
        account.others.append(self)
        self.answers = answers
        self.asked: list[bytes] = []
        self.link = ServiceLink(account.router, self, Delivery)
        self.link.interest = account.interest
        self.link.subscribe(b"$JS.API.>")
        self.link.subscribe(b"$MQTT.>")

    def deliver(self, batch: list[Delivery]) -> None:
        for delivery in batch:
            if delivery.reply and not delivery.subject.startswith(b"$MQTT.JSA."):
                self.asked.append(delivery.subject)
                for start, answer in self.answers.items():
                    if delivery.subject.startswith(start):
                        self.link.publish(delivery.reply, answer)

    def failed(self, error: Exception) -> None:
        raise error

    def wake(self) -> None:
        """Ticks come by hand."""


# -- CONNECT -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [REFUSAL, b"", b"{", b"7", b'{"error":7}', b'{"config":[]}', b"\xff"])
def test_a_connect_is_refused_when_streams_cannot_be_looked_up(account: LinkedMqtt, answer: bytes) -> None:
    impostor = Impostor(account, {b"$JS.API.STREAM": answer})
    device = Device(account, "c")
    account.tick()
    assert isinstance(device.result, MqttError)
    assert device.result.return_code is None
    impostor.answers.clear()
    later = Device(account, "c")
    account.pass_time(6)
    assert isinstance(later.result, MqttError), "the streams are asked for again"
    assert len(impostor.asked) == 10


def test_many_connects_wait_for_the_streams_once(account: LinkedMqtt) -> None:
    impostor = Impostor(account, {})
    devices = [Device(account, f"c{number}") for number in range(50)]
    account.tick()
    assert len(impostor.asked) == 5
    account.pass_time(6)
    assert all(isinstance(device.result, MqttError) for device in devices)


def test_requests_that_wait_are_bounded(account: LinkedMqtt, monkeypatch: pytest.MonkeyPatch) -> None:
    device = connected(account)
    Impostor(account, {})
    monkeypatch.setattr(requests, "MOST_REQUESTS", 3)
    for identifier in range(1, 9):
        device.acknowledge(PacketKind.PUBREL, identifier)
    account.tick()
    assert len(account.hub.requests) == 0 or device.closed
    assert device.closed[0][0] == Reason.UNSPECIFIED_ERROR
    assert "too many requests" in device.closed[0][1]
    account.pass_time(6)


# -- SUBSCRIBE -----------------------------------------------------------------------------------------


def test_a_filter_whose_consumer_is_refused_is_not_granted(account: LinkedMqtt) -> None:
    device = connected(account)
    Impostor(
        account,
        {
            b"$JS.API.CONSUMER.DURABLE": REFUSAL,
            b"$JS.API.CONSUMER.DELETE": b"{}",
            b"$MQTT.sess": b'{"seq":9}',
        },
    )
    assert device.subscribe("a/#", 2) == 0x80
    assert device.subscribe("b", 0) == 0
    record = device.session.stored.record
    assert (record.subs, record.cons, record.pubrel) == ({"b": 0}, {}, None)
    assert device.closed == []


def test_a_consumer_that_was_made_goes_when_its_sibling_is_refused(account: LinkedMqtt) -> None:
    device = connected(account)
    made: list[bytes] = []

    class Half(Impostor):
        def deliver(self, batch: list[Delivery]) -> None:
            for delivery in batch:
                if delivery.subject.startswith(b"$JS.API.CONSUMER.DURABLE"):
                    self.link.publish(delivery.reply, REFUSAL if made else b'{"name":"x"}')
                    made.append(delivery.subject)
                elif delivery.subject.startswith(b"$JS.API.CONSUMER.DELETE"):
                    self.asked.append(delivery.subject)
                    self.link.publish(delivery.reply, b"{}")
                elif delivery.subject.startswith(b"$MQTT.sess"):
                    self.link.publish(delivery.reply, b'{"seq":9}')

    half = Half(account, {})
    assert device.subscribe("a/#", 1) == 0x80
    assert {name.rpartition(b".")[2] for name in half.asked} == {name.rpartition(b".")[2] for name in made}


def test_a_record_that_is_not_written_ends_the_connection(account: LinkedMqtt) -> None:
    device = connected(account)
    Impostor(account, {})
    device.feed(0x82, b"\x00\x01\x00\x01a\x00")
    account.pass_time(6)
    assert [reason for reason, _ in device.closed] == [Reason.SERVER_BUSY]
    assert device.codes == []


# -- messages ------------------------------------------------------------------------------------------


def test_a_message_that_is_not_staged_is_not_acknowledged(account: LinkedMqtt) -> None:
    first, second = connected(account), connected(account, "v5", version=5)
    Impostor(account, {b"$MQTT.qos2.in": REFUSAL})
    for device in (first, second):
        device.publish("t", b"x", 2, 5)
    account.tick()
    why = "JetStream failed a pipelined QoS1/2 operation (pi=5): insufficient resources (10047)"
    assert first.closed == [(Reason.UNSPECIFIED_ERROR, f"{why}; closing the connection")]
    assert [one.body for one in second.seen()] == [b"\x00\x05\x80"]


@pytest.mark.parametrize("version", [4, 5])
def test_a_message_that_may_be_staged_or_not_ends_the_connection(account: LinkedMqtt, version: int) -> None:
    """A client that went on could use its identifier for another message, and get the first one published."""
    device = connected(account, version=version)
    Impostor(account, {})
    device.publish("t", b"x", 2, 5)
    account.pass_time(6)
    why = "JetStream failed a pipelined QoS1/2 operation (pi=5): no JetStream ack within 5s"
    assert device.closed == [(Reason.SERVER_BUSY, f"{why}; closing the connection")]
    assert device.seen() == []


def test_a_release_goes_on_when_jetstream_is_there_again(account: LinkedMqtt) -> None:
    device = connected(account)
    device.publish("t", b"x", 2, 5)
    device.take()
    assert isinstance(device.result, Accepted)
    device.acknowledge(PacketKind.PUBREL, 5)
    refusal = b'{"error":{"code":503,"err_code":10047,"description":"insufficient resources"},"seq":0}'
    account.put(device.result.store_reply.decode() + "P5", refusal)
    account.tick()
    assert device.closed != []
    again = connected(account)
    again.acknowledge(PacketKind.PUBREL, 5)
    assert [one.body for one in again.take()] == [b"\x00\x05"]
    assert json.loads(account.ask("STREAM.INFO.$MQTT_qos2in"))["state"]["messages"] == 0


def test_a_release_that_is_never_answered_ends_the_connection(account: LinkedMqtt) -> None:
    device = connected(account)
    device.publish("t", b"x", 2, 5)
    assert [(one.kind, one.identifier) for one in device.take()] == [(PacketKind.PUBREC, 5)]
    Impostor(account, {})
    device.acknowledge(PacketKind.PUBREL, 5)
    account.tick()
    account.pass_time(4)
    assert device.closed == []
    account.pass_time(6)
    assert [reason for reason, _ in device.closed] == [Reason.SERVER_BUSY]


def test_a_receipt_that_is_never_stored_ends_the_connection(account: LinkedMqtt) -> None:
    device = connected(account, clean=True)
    device.subscribe("t", 2)
    device.publish("t", b"x", 2, 1)
    device.acknowledge(PacketKind.PUBREL, 1)
    (message,) = [one for one in device.take() if one.kind == PacketKind.PUBLISH]
    Impostor(account, {})
    device.acknowledge(PacketKind.PUBREC, message.identifier)
    account.tick()
    account.pass_time(12)
    assert [reason for reason, _ in device.closed] == [Reason.SERVER_BUSY]


def test_forged_answers_and_notices_do_nothing(account: LinkedMqtt) -> None:
    device = connected(account)
    digest = device.session.stored.hash
    origin = account.hub.server_hash
    for payload in (b"", b"{", b'{"seq":-1}', b'{"seq":"x"}', b"\xff", b"[]"):
        account.put(f"$MQTT.JSA.{origin}.SC.unknown", payload)
        account.put(f"$MQTT.JSA.other.SP.{digest}.unknown", payload)
        account.put("$MQTT.JSA.other.SP.nobody.unknown", b'{"seq":99}')
    account.tick()
    assert device.closed == []


@pytest.mark.parametrize("headers", [b"", b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nNmqtt-PubRel: x\r\n\r\n"])
def test_a_release_without_an_identifier_is_taken_away(account: LinkedMqtt, headers: bytes) -> None:
    device = connected(account)
    device.subscribe("t", 2)
    account.put(f"$MQTT.out.pubrel.{device.session.stored.hash}", b"", headers=headers)
    account.tick()
    assert device.take() == []
    assert json.loads(account.ask("STREAM.INFO.$MQTT_out"))["state"]["messages"] == 0


@pytest.mark.parametrize(
    "headers",
    [
        b"",
        b"NATS/1.0\r\nNmqtt-RFlags:\r\n\r\n",
        b"NATS/1.0\r\nNmqtt-RFlags: zz\r\nNmqtt-Expires-At: -1\r\n\r\n",
        b"NATS/1.0\r\nNmqtt-RFlags: 7\r\nNmqtt-Expires-At: " + b"9" * 40 + b"\r\n\r\n",
    ],
)
def test_records_of_retained_messages_with_odd_headers(account: LinkedMqtt, headers: bytes) -> None:
    device = connected(account)
    account.put("$MQTT.rmsgs.a", b"x", headers=headers)
    account.tick()
    device.subscribe("a", 0)
    assert [one.payload for one in device.take() if one.kind == PacketKind.PUBLISH] == [b"x"]
