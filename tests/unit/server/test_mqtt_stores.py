"""Clients over MQTT whose messages cannot be stored: what they are told, and that the server goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.mqtt_stranger import ACCEPTED, Stranger, connect_packet
from harness.mqtt_wire import PUBACK, PUBLISH, encoded, text
from harness.wire import Wire
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server whose stream of MQTT messages somebody has deleted."""
    with Server(jetstream=True, mqtt=True) as running:
        with Stranger(running.server.mqtt_port) as first:
            first.send(connect_packet("first"))
            assert first.take(4).hex() == ACCEPTED
        with Wire(("127.0.0.1", running.port)) as nats:
            nats.connect()
            nats.send(b"SUB inbox 1\r\nPUB $JS.API.STREAM.DELETE.$MQTT_msgs inbox 0\r\n\r\n")
            assert b'"success":true' in nats.take_message()[1]
        yield running


def test_a_client_of_3_1_1_is_closed(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    with Stranger(server.server.mqtt_port) as client:
        client.send(connect_packet("old") + encoded(PUBLISH, text("t") + b"\0\1x", 2))

        assert client.rest().hex() == ACCEPTED
    assert "unable to store a message of QoS 1" in caplog.text


def test_a_client_of_5_is_told_and_stays(server: Server) -> None:
    with Stranger(server.server.mqtt_port) as client:
        client.send(connect_packet("new", version=5))
        accepted = client.take(2)
        client.take(accepted[1])
        client.send(encoded(PUBLISH, text("t") + b"\0\1\0x", 2))

        assert client.take(5) == encoded(PUBACK, b"\0\1\x80")
        client.send(bytes.fromhex("c000"))
        assert client.take(2).hex() == "d000"
