"""MQTT over leaf nodes: sessions in the hub's JetStream by its domain, of servers of both kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from harness.mqtt_servers import mqtt_port
from harness.mqtt_wire import PINGREQ, PINGRESP, PUBACK, PUBLISH, Gone, MqttWire
from harness.ports import free_port
from harness.processes import EPOLL, NATS_SERVER, ServerProcess
from harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.processes import Program

pytestmark = pytest.mark.clients

HUB: Final = """
server_name: hub
jetstream {{ store_dir: "{store}", domain: HUB }}
leafnodes {{ listen: "127.0.0.1:{port}" }}
mqtt {{ listen: "127.0.0.1:-1", js_api_timeout: "1s" }}
"""
LEAF: Final = """
server_name: leaf
{jetstream}
leafnodes {{ remotes: [{{url: "nats-leaf://127.0.0.1:{port}"}}], reconnect: "1s" }}
mqtt {{ listen: "127.0.0.1:-1", js_api_timeout: "1s" {more} }}
"""
PAIRS: Final = {
    "hub-of-nats-server": (NATS_SERVER, EPOLL),
    "leaf-of-nats-server": (EPOLL, NATS_SERVER),
    "headrace": (EPOLL, EPOLL),
}


@pytest.fixture(params=PAIRS)
def programs(request: pytest.FixtureRequest) -> tuple[Program, Program]:
    return PAIRS[request.param]


@pytest.fixture
def ports(
    programs: tuple[Program, Program],
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[int, int]]:
    """The MQTT ports of a hub and of a leaf node; with the parameter the leaf node has streams of its own."""
    first, second, port = tmp_path_factory.mktemp("hub"), tmp_path_factory.mktemp("leaf"), free_port()
    own = f'jetstream {{ store_dir: "{second}/js", domain: LEAF }}' if request.param == "own streams" else ""
    leaf = LEAF.format(port=port, jetstream=own, more="" if own else ', js_domain: "HUB"')
    with (
        ServerProcess(programs[0], first, config=HUB.format(store=first / "js", port=port)) as hub,
        ServerProcess(programs[1], second, config=leaf) as node,
    ):
        found = mqtt_port(hub), mqtt_port(node)
        wait_until(lambda: lets_in(found[1]), "the leaf node reaches JetStream")
        yield found


def lets_in(port: int) -> bool:
    try:
        MqttWire(port, "probe").close()
    except (Gone, AssertionError):
        return False
    return True


@pytest.mark.parametrize("ports", ["streams of the hub"], indirect=True)
def test_session_goes_from_the_leaf_node_to_the_hub(ports: tuple[int, int]) -> None:
    hub, leaf = ports
    with MqttWire(leaf, "wanderer", clean=False) as client:
        assert client.subscribe("far/#", 1) == 1
    with MqttWire(hub, "speaker") as speaker:
        speaker.publish("far/away", b"x", qos=1, identifier=1)
        assert speaker.take().kind == PUBACK
    with MqttWire(hub, "wanderer", clean=False) as client:
        assert client.is_resumed
        packet = client.take()
        assert (packet.kind, packet.topic) == (PUBLISH, "far/away")


@pytest.mark.parametrize("ports", ["own streams"], indirect=True)
def test_same_identifier_in_another_domain_is_another_client(ports: tuple[int, int]) -> None:
    hub, leaf = ports
    with MqttWire(hub, "same", clean=False) as one, MqttWire(leaf, "same", clean=False) as other:
        for client in (one, other):
            assert client.subscribe("a", 1) == 1
            client.send(PINGREQ)
            assert client.take().kind == PINGRESP
