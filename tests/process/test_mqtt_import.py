"""MQTT of a nats-server goes on here: its store is imported, and clients find their sessions and messages."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Final

import pytest

from harness.mqtt_servers import mqtt_port, started
from harness.mqtt_wire import (
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    MqttWire,
    text,
)
from harness.processes import BIN, EPOLL, NATS_SERVER
from harness.waiting import LONG

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.clients

HALF: Final = 9
"""The identifier of a message of QoS 2 whose second half comes after the import."""


def goodbye(client: MqttWire) -> None:
    client.send(DISCONNECT)
    client.close()


def live_with_the_old_server(port: int) -> None:
    """A client that sleeps, messages for it, a retained one, and one that is not released yet."""
    with MqttWire(port, "sleeper", clean=False) as sleeper:
        assert [sleeper.subscribe("work/#", 1), sleeper.subscribe("exact", 2)] == [1, 2]
        goodbye(sleeper)
    with MqttWire(port, "half", clean=False) as half:
        for number, topic in enumerate(("work/1", "work/2"), 1):
            half.publish(topic, topic.encode(), qos=1, identifier=number)
            assert half.take().kind == PUBACK
        half.publish("exact", b"twice said", qos=2, identifier=3)
        assert half.take().kind == PUBREC
        half.acknowledge(PUBREL, 3)
        assert half.take().kind == PUBCOMP
        half.send(PUBLISH, text("state/x") + (4).to_bytes(2, "big") + b"kept", 3)
        assert half.take().kind == PUBACK
        half.publish("work/3", b"released later", qos=2, identifier=HALF)
        assert half.take().kind == PUBREC
        goodbye(half)


def test_mqtt_of_a_nats_server_goes_on(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
    with started(NATS_SERVER, old) as server:
        live_with_the_old_server(mqtt_port(server))
    done = subprocess.run(
        [BIN / "headrace", "jetstream", "import", old / "js", "--dir", new / "js"],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with started(EPOLL, new) as server:
        port = mqtt_port(server)
        with MqttWire(port, "sleeper", clean=False) as sleeper, MqttWire(port, "half", clean=False) as half:
            assert (sleeper.is_resumed, half.is_resumed) == (True, True)
            came: dict[str, tuple[int, bytes]] = {}
            while len(came) < 3:
                packet = sleeper.take()
                assert packet.kind == PUBLISH
                came[packet.topic] = (packet.qos, packet.payload)
                sleeper.acknowledge(PUBACK if packet.qos == 1 else PUBREC, packet.identifier)
                if packet.qos == 2:
                    released = sleeper.take()
                    while released.kind == PUBLISH:  # another one was on its way
                        came[released.topic] = (released.qos, released.payload)
                        sleeper.acknowledge(PUBACK, released.identifier)
                        released = sleeper.take()
                    assert released.kind == PUBREL
                    sleeper.acknowledge(PUBCOMP, released.identifier)
            assert came == {"work/1": (1, b"work/1"), "work/2": (1, b"work/2"), "exact": (2, b"twice said")}

            half.acknowledge(PUBREL, HALF)
            assert half.take().kind == PUBCOMP
            packet = sleeper.take()
            assert (packet.topic, packet.qos, packet.payload) == ("work/3", 1, b"released later")
            sleeper.acknowledge(PUBACK, packet.identifier)
            sleeper.send(PINGREQ)
            assert sleeper.take().kind == PINGRESP  # and nothing twice
        with MqttWire(port, "late") as late:
            late.subscribe("state/+", 1)
            packet = late.take()
            assert (packet.topic, packet.payload, packet.flags & 1) == ("state/x", b"kept", 1)
