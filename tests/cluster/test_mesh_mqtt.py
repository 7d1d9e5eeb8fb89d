"""MQTT in a cluster: sessions, messages and retained messages are there from every server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.mqtt_servers import mqtt_port
from harness.mqtt_wire import (
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    Gone,
    MqttWire,
    Packet,
    text,
)
from harness.ports import free_port
from harness.processes import EPOLL, NATS_SERVER, ServerProcess
from harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = pytest.mark.clients


@pytest.fixture(scope="module", params=[EPOLL, NATS_SERVER], ids=str)
def ports(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[int, int]]:
    """The MQTT ports of two servers of a cluster, of which the first one is a Headrace with JetStream."""
    first, second = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second")
    port = free_port()
    with (
        ServerProcess(EPOLL, first, config=configuration("first", first, f"listen: '127.0.0.1:{port}'")) as a,
        ServerProcess(
            request.param,
            second,
            config=configuration(
                "second", None, f"listen: '127.0.0.1:-1', routes: ['nats://127.0.0.1:{port}']"
            ),
        ) as b,
    ):
        found = mqtt_port(a), mqtt_port(b)
        wait_until(lambda: lets_in(found[1]), "the second server reaches JetStream")
        yield found


def configuration(name: str, store: Path | None, cluster: str) -> str:
    stored = "" if store is None else f'jetstream {{ store_dir: "{store}/js" }}\n'
    mqtt = "mqtt { listen: '127.0.0.1:-1', js_api_timeout: '1s' }"
    return f"server_name: {name}\n{stored}cluster {{ name: c, {cluster} }}\n{mqtt}\n"


def lets_in(port: int) -> bool:
    try:
        MqttWire(port, "probe").close()
    except (Gone, AssertionError):
        return False
    return True


def taken(client: MqttWire) -> Packet:
    """The next message, acknowledged to its end."""
    packet = client.take()
    assert packet.kind == PUBLISH
    if packet.qos == 1:
        client.acknowledge(PUBACK, packet.identifier)
    elif packet.qos == 2:
        client.acknowledge(PUBREC, packet.identifier)
        assert client.take().kind == PUBREL
        client.acknowledge(PUBCOMP, packet.identifier)
    return packet


@pytest.mark.parametrize("is_turned", [False, True])
def test_messages_of_every_qos_reach_clients_of_the_other_server(
    ports: tuple[int, int], is_turned: bool
) -> None:
    here, there = reversed(ports) if is_turned else ports
    with MqttWire(here, f"subscriber-{here}") as subscriber, MqttWire(there, f"publisher-{there}") as client:
        topic = f"to/{here}"
        assert subscriber.subscribe(topic, 2) == 2
        for qos in (1, 2):
            client.publish(topic, b"%d" % qos, qos=qos, identifier=qos)
            assert client.take().kind == (PUBACK if qos == 1 else PUBREC)
            if qos == 2:
                client.acknowledge(PUBREL, qos)
                assert client.take().kind == PUBCOMP
            packet = taken(subscriber)
            assert (packet.qos, packet.payload) == (qos, b"%d" % qos)


def test_session_goes_from_server_to_server(ports: tuple[int, int]) -> None:
    first, second = ports
    with MqttWire(first, "wanderer", clean=False) as old, MqttWire(first, "speaker") as speaker:
        assert old.subscribe("far/#", 1) == 1
        with MqttWire(second, "wanderer", clean=False) as new:
            assert new.is_resumed
            with pytest.raises(Gone):
                old.take()
            speaker.publish("far/away", b"x", qos=1, identifier=1)
            assert speaker.take().kind == PUBACK
            assert taken(new).topic == "far/away"
        speaker.publish("far/later", b"y", qos=1, identifier=2)
        assert speaker.take().kind == PUBACK
    with MqttWire(first, "wanderer", clean=False) as again:
        assert again.is_resumed
        assert taken(again).topic == "far/later"


def test_retained_message_is_there_from_the_other_server(ports: tuple[int, int]) -> None:
    first, second = ports
    with MqttWire(second, "keeper") as keeper:
        keeper.send(PUBLISH, text("kept/here") + (1).to_bytes(2, "big") + b"still", 3)
        assert keeper.take().kind == PUBACK

    def found() -> Packet | None:
        """The retained message; it comes to the other server after it was acknowledged here."""
        with MqttWire(first, "reader") as reader:
            reader.subscribe("kept/+", 0)
            try:
                return reader.take(1.0)
            except AssertionError:
                return None

    packet = wait_until(found, "the retained message is there")
    assert packet is not None
    assert (packet.topic, packet.payload, packet.flags & 1) == ("kept/here", b"still", 1)
