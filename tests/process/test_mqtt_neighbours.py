"""Servers that share sessions of MQTT clients: Headrace and nats-server in a cluster, and over a leaf node.

One of two servers has JetStream; a client goes from one to the other and finds its session there.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from harness.mqtt_servers import mqtt_port
from harness.mqtt_wire import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, Gone, MqttWire, Packet, text
from harness.ports import free_port
from harness.processes import HEADRACES, NATS_SERVER, ServerProcess
from harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.processes import Program

HEADRACE = HEADRACES[0]
NAMES = {"h": HEADRACE, "n": NATS_SERVER}


def started(program: Program, folder: Path, config: str) -> ServerProcess:
    folder.mkdir()
    return ServerProcess(program, folder, config=config.replace("STORE", str(folder / "js")))


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """Two servers with routes to each other; the first one has JetStream."""
    ports = free_port(), free_port()
    both = []
    for index, letter in enumerate(request.param):
        jetstream = "" if index else "jetstream { store_dir: STORE }\n"
        config = (
            f'server_name: s{index}\n{jetstream}mqtt {{ listen: "127.0.0.1:-1", stream_replicas: 1 }}\n'
            f'cluster {{ name: c, listen: "127.0.0.1:{ports[index]}", '
            f'routes: ["nats://127.0.0.1:{ports[1 - index]}"] }}\n'
        )
        both.append(started(NAMES[letter], tmp_path / f"s{index}", config))
    with both[0], both[1]:
        wait_until(lambda: "Route connection created" in both[1].log, "the routes are there")
        yield both[0], both[1]


@pytest.fixture
def leaf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """A hub with JetStream in a domain, and a leaf node whose MQTT clients use it."""
    port = free_port()
    first, second = (NAMES[letter] for letter in request.param)
    hub = started(
        first,
        tmp_path / "hub",
        "server_name: hub\njetstream { store_dir: STORE, domain: HUB }\n"
        f'leafnodes {{ listen: "127.0.0.1:{port}" }}\nmqtt {{ listen: "127.0.0.1:-1" }}\n',
    )
    with hub:
        node = started(
            second,
            tmp_path / "leaf",
            f'server_name: leaf\nleafnodes {{ remotes: [{{ url: "nats://127.0.0.1:{port}" }}] }}\n'
            'mqtt { listen: "127.0.0.1:-1", js_domain: HUB }\n',
        )
        with node:
            wait_until(lambda: "Leafnode connection created" in node.log, "the leaf node is connected")
            yield hub, node


@pytest.fixture
def connect() -> Iterator[Callable[..., MqttWire]]:
    """Connections, closed at the end."""
    with ExitStack() as stack:
        yield lambda *arguments, **options: stack.enter_context(MqttWire(*arguments, **options))


def acknowledged(wire: MqttWire, kind: int) -> None:
    found = wire.take()
    assert found.kind == kind, found


def publish_all(wire: MqttWire) -> None:
    """A message of QoS 1, one of QoS 2, and one that is retained."""
    wire.publish("x/y", b"one", 1, 1)
    acknowledged(wire, PUBACK)
    wire.publish("x/y", b"two", 2, 2)
    acknowledged(wire, PUBREC)
    wire.acknowledge(PUBREL, 2)
    acknowledged(wire, PUBCOMP)
    wire.send(PUBLISH, text("x/r") + b"\x00\x03" + b"kept", 3)
    acknowledged(wire, PUBACK)


def messages(wire: MqttWire, count: int) -> dict[bytes, Packet]:
    found = [wire.take() for _ in range(count)]
    assert all(packet.kind == PUBLISH for packet in found)
    return {packet.payload: packet for packet in found}


@pytest.mark.clients
@pytest.mark.parametrize("cluster", ["hn"], indirect=True)
def test_a_session_goes_to_another_server_of_its_cluster(
    cluster: tuple[ServerProcess, ServerProcess], connect: Callable[..., MqttWire]
) -> None:
    here, there = map(mqtt_port, cluster)
    first = connect(here, "sensor", clean=False)
    assert first.subscribe("x/#", 2) == 2
    publisher = connect(there, "publisher")
    publish_all(publisher)
    before = messages(first, 3)
    assert {payload: packet.qos for payload, packet in before.items()} == {b"one": 1, b"two": 2, b"kept": 1}

    second = connect(there, "sensor", clean=False)
    assert second.is_resumed
    with pytest.raises(Gone):
        first.take()
    again = messages(second, 3)
    assert again.keys() == before.keys()
    assert all(packet.flags & 8 for packet in again.values())
    if cluster[1].program is HEADRACE:
        assert again[b"two"].identifier == before[b"two"].identifier
    wait_until(lambda: "a remote connection has started" in cluster[0].log, "the log says why")

    third = connect(here, "sensor", clean=False)
    assert third.is_resumed
    assert messages(third, 3).keys() == before.keys()
    for port in (here, there):
        reader = connect(port, f"reader{port}")
        assert reader.subscribe("x/+", 1) == 1
        (kept,) = messages(reader, 1).values()
        assert (kept.payload, kept.flags & 1) == (b"kept", 1)


@pytest.mark.clients
@pytest.mark.parametrize("leaf", ["nh"], indirect=True)
def test_clients_of_a_leaf_node_use_the_streams_of_a_domain(
    leaf: tuple[ServerProcess, ServerProcess], connect: Callable[..., MqttWire]
) -> None:
    there = mqtt_port(leaf[1])
    first = connect(there, "sensor", clean=False)
    assert first.subscribe("x/#", 2) == 2
    publish_all(connect(there, "publisher"))
    before = messages(first, 3)
    first.close()
    second = connect(there, "sensor", clean=False)
    assert second.is_resumed
    again = messages(second, 3)
    assert {payload: packet.identifier for payload, packet in again.items()} == {
        payload: packet.identifier for payload, packet in before.items()
    }
    assert 'in domain "HUB"' in leaf[1].log
