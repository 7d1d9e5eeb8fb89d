"""Permissions of clients over MQTT that change while they are connected: what they keep, and what ends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from harness.mqtt_wire import PUBACK, PUBLISH, MqttWire
from harness.waiting import wait_until
from harness.wire import Wire
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OPEN = '{user: a, password: p, permissions: {subscribe: ["a", "a.>", "b.>"], publish: [">"]}}'
CLOSED = '{user: a, password: p, permissions: {subscribe: ["a", "a.>"], publish: [">"]}}'
NATS = "{user: n, password: p}"


class Reloaded:
    """A server whose file is rewritten, with a client over MQTT and one of NATS."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "server.conf"
        self.write(OPEN)
        self.embedded = Server(config=str(self._file), jetstream=True)

    def write(self, user: str) -> None:
        text = f'mqtt {{ host: "127.0.0.1", port: -1 }}\nauthorization {{ users: [ {user}, {NATS} ] }}\n'
        self._file.write_text(text)

    def reload(self, user: str) -> None:
        self.write(user)
        self.embedded.call(self.embedded.server.reload)

    @property
    def mqtt_port(self) -> int:
        port = self.embedded.server.mqtt_port
        assert port is not None
        return port


@pytest.fixture
def reloaded(tmp_path: Path) -> Iterator[Reloaded]:
    found = Reloaded(tmp_path)
    with found.embedded:
        yield found


def consumers(wire: Wire) -> list[dict[str, Any]]:
    wire.send(b"SUB inbox 9\r\nPUB $JS.API.CONSUMER.LIST.$MQTT_msgs inbox 0\r\n\r\n")
    found = json.loads(wire.take_message()[1])
    wire.send(b"UNSUB 9\r\n")
    listed: list[dict[str, Any]] = found["consumers"]
    return listed


def test_filters_that_are_forbidden_end_with_their_consumers_and_others_stay(reloaded: Reloaded) -> None:
    with (
        MqttWire(reloaded.mqtt_port, "c", user="a", password="p") as client,
        Wire(("127.0.0.1", reloaded.embedded.port)) as nats,
    ):
        nats.connect(b'{"verbose":false,"user":"n","pass":"p","headers":true}')
        assert [client.subscribe(each, 1) for each in ("a/#", "b/x", "b/+")] == [1, 1, 1]
        assert len(consumers(nats)) == 4

        reloaded.reload(CLOSED)

        wait_until(lambda: len(consumers(nats)) == 2, "the consumers of b/x and b/+ are gone")
        nats.send(b"PUB b.x 6\r\nforbid\r\nPUB a.x 2\r\nok\r\n")
        nats.sync()
        assert (client.take().payload, client.subscribe("b/x", 0)) == (b"ok", 0x80)
        client.publish("b/x", b"forbid", 1, 1)
        assert client.take().kind == PUBACK
        client.publish("a/x", b"ok", 1, 2)
        found = [client.take(), client.take()]
        assert sorted((each.kind, each.payload) for each in found if each.kind == PUBLISH) == [
            (PUBLISH, b"ok")
        ]


def test_a_client_whose_permissions_stay_keeps_its_filters(reloaded: Reloaded) -> None:
    with MqttWire(reloaded.mqtt_port, "c", user="a", password="p") as client:
        client.subscribe("a/x", 1)

        reloaded.reload(OPEN)

        client.publish("a/x", b"ok", 1, 1)
        assert {client.take().kind, client.take().kind} == {PUBACK, PUBLISH}
