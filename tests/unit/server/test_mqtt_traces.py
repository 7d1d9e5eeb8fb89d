"""Packets over MQTT as the trace shows them: what is in them, without secrets."""

from __future__ import annotations

from headrace.protocol.mqtt.packets import Acknowledgement, Connect, Subscribe, Unsubscribe, Will
from headrace.protocol.mqtt.properties import PacketKind
from headrace.protocol.mqtt.reasons import Reason
from headrace.server.mqtt.traces import (
    acknowledgement_text,
    connack_text,
    connect_text,
    subscribe_text,
    unsubscribe_text,
)


def test_connect_without_its_secrets() -> None:
    will = Will(b"gone", b"secret, too", 1, True)
    full = Connect(5, True, 30, b"id", will, b"joe", b"secret")

    assert connect_text(full, "id") == (
        "CONNECT clientID=id version=5 clean keepAlive=30s will=(gone QoS=1 retain=true) "
        "username=joe password=****"
    )
    assert connect_text(Connect(4, False, 0, b""), "made") == "CONNECT clientID=made"
    assert connack_text(0, is_present=True) == "CONNACK sp=true rc=0"


def test_filters_and_identifiers() -> None:
    assert subscribe_text(Subscribe(7, [(b"a/#", 1), (b"b", 0x0E)])) == "SUBSCRIBE [a/# QoS=1, b QoS=2] pi=7"
    assert unsubscribe_text(Unsubscribe(8, [b"a/#", b"b"])) == "UNSUBSCRIBE [a/#, b] pi=8"
    assert acknowledgement_text(PacketKind.PUBREL, Acknowledgement(9)) == "PUBREL pi=9"
    refused = Acknowledgement(9, Reason.QUOTA_EXCEEDED)
    assert acknowledgement_text(PacketKind.PUBREC, refused) == "PUBREC pi=9 rc=151"
