"""Sparkplug B over MQTT, side by side with nats-server: certificates of births, the time of deaths."""

from __future__ import annotations

import time
from itertools import count
from typing import TYPE_CHECKING

import pytest

from harness.mqtt_servers import mqtt_port, started
from harness.mqtt_wire import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, MqttWire
from harness.processes import SIDES
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.mqtt_wire import Packet

pytestmark = pytest.mark.clients
BIRTH = "spBv1.0/G/NBIRTH/E"
CERTIFICATE = f"$sparkplug/certificates/{BIRTH}"


@pytest.fixture(scope="module", params=list(SIDES))
def port(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with started(SIDES[request.param], tmp_path_factory.mktemp("sparkplug")) as server:
        yield mqtt_port(server)


_numbers = count()


def connected(port: int) -> MqttWire:
    """A client with an identifier of its own: one that comes back within a second may be held up."""
    return MqttWire(port, f"client{next(_numbers)}")


def published(wire: MqttWire, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> None:
    """Publish, until all is answered."""
    number = (7).to_bytes(2, "big") if qos else b""
    wire.send(PUBLISH, len(topic).to_bytes(2, "big") + topic.encode() + number + payload, qos << 1 | retain)
    if qos == 1:
        assert wire.take().kind == PUBACK
    elif qos == 2:
        assert wire.take().kind == PUBREC
        wire.acknowledge(PUBREL, 7)
        assert wire.take().kind == PUBCOMP


def seen(packet: Packet) -> tuple[str, bytes, bool]:
    assert packet.kind == PUBLISH
    return packet.topic, packet.payload, bool(packet.flags & 1)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_birth_is_published_as_a_certificate_and_kept(port: int, qos: int) -> None:
    birth = b"birth %d" % qos
    with connected(port) as node, connected(port) as host:
        host.subscribe("spBv1.0/#", 0)
        published(node, BIRTH, birth, qos)
        assert seen(host.take()) == (BIRTH, birth, False)
        deadline = time.monotonic() + PATIENCE
        while True:  # what is kept is known a moment later
            with connected(port) as late:
                late.subscribe("$sparkplug/certificates/#", 0)
                found = seen(late.take())
            if found == (CERTIFICATE, birth, True):
                break
            assert time.monotonic() < deadline, found


@pytest.mark.parametrize("qos", [0, 1])
def test_who_listens_gets_the_certificate_as_retained(port: int, qos: int) -> None:
    with connected(port) as node, connected(port) as host:
        host.subscribe(f"$sparkplug/certificates/spBv1.0/H{qos}/#", qos)
        published(node, f"spBv1.0/H{qos}/DBIRTH/E/D", b"x", 0)
        assert seen(host.take()) == (f"$sparkplug/certificates/spBv1.0/H{qos}/DBIRTH/E/D", b"x", True)


def test_a_birth_with_retain_is_no_certificate(port: int) -> None:
    with connected(port) as node, connected(port) as host:
        host.subscribe("$sparkplug/certificates/spBv1.0/R/#", 0)
        host.subscribe("spBv1.0/R/#", 0)
        published(node, "spBv1.0/R/NBIRTH/E", b"x", 0, retain=True)
        published(node, "spBv1.0/R/NDATA/E", b"y", 0)
        assert [seen(host.take()) for _ in range(2)] == [
            ("spBv1.0/R/NBIRTH/E", b"x", False),
            ("spBv1.0/R/NDATA/E", b"y", False),
        ]


@pytest.mark.parametrize(("qos", "granted"), [(0, 0), (1, 1), (1, 0)])
def test_a_death_says_when_it_was_delivered(port: int, qos: int, granted: int) -> None:
    with connected(port) as node, connected(port) as host:
        host.subscribe(f"spBv1.0/D{qos}{granted}/#", granted)
        before = time.time_ns() // 1_000_000
        published(node, f"spBv1.0/D{qos}{granted}/NDEATH/E", b"\x08\x01\x18\x05", qos)
        topic, payload, is_retained = seen(host.take())
        assert (topic, is_retained) == (f"spBv1.0/D{qos}{granted}/NDEATH/E", False)
        assert (payload[:1], payload[-2:]) == (b"\x08", b"\x18\x05")
        stamp = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(payload[1:-2]))
        assert before <= stamp <= time.time_ns() // 1_000_000
