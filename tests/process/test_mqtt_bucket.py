"""MQTT whose streams are in a bucket: another machine has the sessions and messages of one that is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.bucket_servers import directory_bucket
from harness.mqtt_wire import PUBACK, PUBLISH, MqttWire, text
from headrace.conf.jetstream_options import JetStreamOptions
from headrace.conf.mqtt_options import MqttOptions
from headrace.testing import Server

if TYPE_CHECKING:
    from pathlib import Path


def serving(place: Path, store: str) -> Server:
    """A server over the bucket of the test, with a local directory of its own."""
    options = JetStreamOptions(store_dir=str(place / store), bucket=directory_bucket(place))
    return Server(server_name=store, mqtt=MqttOptions(host="127.0.0.1"), jetstream=options)


def port_of(server: Server) -> int:
    port = server.server.mqtt_port
    assert port is not None
    return port


def test_sessions_and_messages_outlive_their_machine(tmp_path: Path) -> None:
    with serving(tmp_path, "first") as server:
        with MqttWire(port_of(server), "sensor", clean=False) as client:
            assert client.subscribe("a/#", 1) == 1
        with MqttWire(port_of(server), "other") as other:
            for number in range(1, 6):
                other.publish("a/b", b"%d" % number, qos=1, identifier=number)
                assert other.take().kind == PUBACK
            other.send(PUBLISH, text("kept") + (6).to_bytes(2, "big") + b"still", 3)
            assert other.take().kind == PUBACK

    with serving(tmp_path, "second") as server:
        with MqttWire(port_of(server), "sensor", clean=False) as client:
            assert client.is_resumed
            came = [client.take() for _ in range(5)]
            assert [(packet.kind, packet.payload) for packet in came] == [
                (PUBLISH, b"%d" % number) for number in range(1, 6)
            ]
            for packet in came:
                client.acknowledge(PUBACK, packet.identifier)
        with MqttWire(port_of(server), "late") as late:
            late.subscribe("kept", 0)
            assert late.take().payload == b"still"
