"""Messages of QoS 2 from a client in compiled code: what is left to the session, and in which order."""

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
    account.pass_time(0.3)
    return device


def kinds(device: Device) -> list[tuple[int, int]]:
    return [(one.kind, one.identifier) for one in device.take()]


def staged(account: LinkedMqtt) -> int:
    return json.loads(account.ask("STREAM.INFO.$MQTT_qos2in"))["state"]["messages"]


def confirm(account: LinkedMqtt, device: Device, step: str, answer: bytes) -> None:
    """Have JetStream say something of a step, before it does by itself."""
    assert isinstance(device.result, Accepted)
    account.put(device.result.store_reply.decode() + step, answer)


def test_what_has_no_room_in_memory_is_read_from_the_stream_in_its_turn(account: LinkedMqtt) -> None:
    listener = connected(account, "listener")
    listener.subscribe("t", 1)
    device = connected(account)
    payloads = [bytes([number]) * 900_000 for number in range(1, 7)]
    for identifier, payload in enumerate([*payloads, b"small"], 1):
        device.publish("t", payload, 2, identifier)
        account.tick()
    assert kinds(device) == [(PUBREC, identifier) for identifier in range(1, 8)]
    for identifier in range(1, 8):
        device.acknowledge(PUBREL, identifier)
    assert sorted(kinds(device)) == [(PUBCOMP, identifier) for identifier in range(1, 8)]
    assert [payload for _, payload, _ in listener.messages()] == [*payloads, b"small"]
    assert staged(account) == 0


def test_a_release_that_comes_before_its_receipt_waits_for_it(account: LinkedMqtt) -> None:
    listener = connected(account, "listener")
    listener.subscribe("t", 0)
    device = connected(account)
    device.publish("t", b"x", 2, 5)
    device.acknowledge(PUBREL, 5)
    device.acknowledge(PUBREL, 5)
    assert kinds(device) == [(PUBREC, 5), (PUBCOMP, 5), (PUBCOMP, 5)]
    assert listener.messages() == [("t", b"x", 0)]


def test_a_release_before_its_receipt_of_what_was_staged_before(account: LinkedMqtt) -> None:
    listener = connected(account, "listener")
    listener.subscribe("t", 0)
    device = connected(account)
    device.publish("t", b"first", 2, 5)
    assert kinds(device) == [(PUBREC, 5)]
    device.leave()
    device = connected(account)
    device.publish("t", b"second", 2, 5)
    device.acknowledge(PUBREL, 5)
    assert kinds(device) == [(PUBREC, 5), (PUBCOMP, 5)]
    assert listener.messages() == [("t", b"first", 0)]


def test_a_retained_message_is_kept_before_it_is_removed(account: LinkedMqtt) -> None:
    device = connected(account, version=5)
    device.publish("t", b"x", 2, 5, retain=True)
    device.publish("t", b"y", 2, 6)
    assert kinds(device) == [(PUBREC, 5), (PUBREC, 6)]
    device.acknowledge(PUBREL, 5)
    device.acknowledge(PUBREL, 6)
    assert sorted(kinds(device)) == [(PUBCOMP, 5), (PUBCOMP, 6)]
    account.pass_time(0.3)
    listener = connected(account, "listener")
    listener.subscribe("t", 2)
    assert [(one.payload, one.is_retained) for one in listener.take() if one.qos == 2] == [(b"x", True)]
    assert staged(account) == 0


def test_a_message_that_was_removed_by_hand_is_completed(account: LinkedMqtt) -> None:
    listener = connected(account, "listener")
    listener.subscribe("t", 0)
    device = connected(account)
    device.publish("t", b"x", 2, 5)
    assert kinds(device) == [(PUBREC, 5)]
    account.ask("STREAM.PURGE.$MQTT_qos2in")
    device.acknowledge(PUBREL, 5)
    assert kinds(device) == [(PUBCOMP, 5)]
    assert listener.messages() == [("t", b"x", 0)]


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("answer", [b"", b"{", b"[]", b'{"seq":0}', b'{"seq":"x"}', b'{"seq'])
def test_an_answer_that_is_none_is_a_failure(account: LinkedMqtt, answer: bytes, version: int) -> None:
    device = connected(account, version=version)
    device.publish("t", b"x", 2, 5)
    confirm(account, device, "S5", answer)
    account.tick()
    if version == 5:
        assert [one.body for one in device.seen()] == [b"\x00\x05\x80"]
    else:
        assert [reason for reason, _ in device.closed] == [Reason.UNSPECIFIED_ERROR]


@pytest.mark.parametrize("step", ["S0", "S65536", "S", "X5", "P5", "D5", "S999999999999"])
def test_a_confirmation_of_nothing_does_nothing(account: LinkedMqtt, step: str) -> None:
    device = connected(account)
    device.publish("t", b"x", 2, 5)
    confirm(account, device, step, b'{"seq":7}')
    assert kinds(device) == [(PUBREC, 5)]
    assert device.closed == []
