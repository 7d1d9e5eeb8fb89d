"""Sparkplug B in the engine: it hands over births that are published and deaths that are delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from mqtt_peers import MqttBroker, publish

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def whole() -> Iterator[MqttBroker]:
    broker = MqttBroker()
    yield broker
    broker.stop()


TOPICS = [
    (b"spBv1.0/G/NBIRTH/E", "spark"),
    (b"spBv1.0/G/DBIRTH/E/D", "spark"),
    (b"spBv1.0/G/NDEATH/E", "stamped"),
    (b"spBv1.0/G/DDEATH/E/D", "stamped"),
    (b"spBv1.0/G/NDATA/E", None),
    (b"spBv1.0/G/NDEATH", None),
    (b"spBv1.0/GROUP/XDEATH/E", None),
    (b"spBv1.1/G/NBIRTH/E", None),
    (b"spBv1.0/NBIRTH/NODE/E", None),
    (b"spBv1.0/12345678", None),
    (b"spBv1.0//////////", None),
]


@pytest.mark.parametrize(("topic", "call"), TOPICS)
def test_births_and_deaths_are_the_sessions(whole: MqttBroker, topic: bytes, call: str | None) -> None:
    client = whole.client()
    client.said()
    client.subscribe(b">").send(publish(topic, b"x"))
    assert [(packet.kind, packet.body[2:]) for packet in client.packets()] == [(3, topic + b"x")]
    called = {name: client.session.called(name) for name in ("spark", "stamped", "retain")}
    assert [name for name, calls in called.items() if calls] == ([] if call is None else [call])
    if call == "spark":
        ((publication,),) = called["spark"]
        assert (publication.topic, publication.payload, publication.headers) == (topic, b"x", b"")


def test_a_death_goes_out_with_what_the_session_gives(whole: MqttBroker) -> None:
    client = whole.client()
    client.said()
    client.session.hooks["stamped"] = lambda topic, payload: payload * 3
    client.subscribe(b">").send(publish(b"spBv1.0/G/NDEATH/E", b"abc"))
    (packet,) = client.packets()
    assert packet.body == b"\0\x12spBv1.0/G/NDEATH/E" + b"abc" * 3


@pytest.mark.parametrize("answer", [None, 7, ValueError])
def test_a_death_that_the_session_has_no_payload_for_is_told(whole: MqttBroker, answer: object) -> None:
    def stamped(_topic: bytes, _payload: bytes) -> object:
        if answer is ValueError:
            raise ValueError("no")  # a new one: it keeps what it came through
        return answer

    client = whole.client()
    client.said()
    client.session.hooks["stamped"] = stamped
    client.subscribe(b">").send(publish(b"spBv1.0/G/NDEATH/E", b"abc"))
    assert client.said() == b""
    assert len(client.session.called("failed")) == 1


def test_certificates_are_retained_when_they_go_out(whole: MqttBroker) -> None:
    client = whole.client()
    client.said()
    client.subscribe(b">")
    for topic in (b"$sparkplug/certificates/spBv1.0", b"$sparkplug/certificate", b"$sparkplug/certificates"):
        client.send(publish(topic, b"x"))
    assert [packet.flags & 1 for packet in client.packets()] == [1, 0, 0]
