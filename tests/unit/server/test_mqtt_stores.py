"""Clients over MQTT whose messages cannot be stored: what they are told, and that the server goes on."""

from __future__ import annotations

import time
from contextlib import suppress
from select import select
from typing import TYPE_CHECKING

import pytest

from harness.mqtt_stranger import ACCEPTED, Stranger, connect_packet
from harness.mqtt_wire import DISCONNECT, PUBACK, PUBLISH, encoded, text
from harness.waiting import PATIENCE
from harness.wire import Wire
from headrace.conf.mqtt_options import MqttOptions
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server whose stream of MQTT messages somebody has deleted."""
    with Server(jetstream=True, mqtt=True) as running:
        delete_messages(running)
        yield running


def delete_messages(server: Server) -> None:
    """Delete the stream, which the first client has made."""
    with Stranger(server.server.mqtt_port) as first:
        first.send(connect_packet("first"))
        assert first.take(4).hex() == ACCEPTED
    with Wire(("127.0.0.1", server.port)) as nats:
        nats.connect()
        nats.send(b"SUB inbox 1\r\nPUB $JS.API.STREAM.DELETE.$MQTT_msgs inbox 0\r\n\r\n")
        assert b'"success":true' in nats.take_message()[1]


def test_a_client_of_3_1_1_is_closed(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    with Stranger(server.server.mqtt_port) as client:
        client.send(connect_packet("old") + encoded(PUBLISH, text("t") + b"\0\1x", 2))

        assert client.rest().hex() == ACCEPTED
    assert "(pi=1): JetStream is not available; closing the connection" in caplog.text


def test_a_client_of_5_is_told_and_stays(server: Server) -> None:
    with Stranger(server.server.mqtt_port) as client:
        client.send(connect_packet("new", version=5))
        accepted = client.take(2)
        client.take(accepted[1])
        client.send(encoded(PUBLISH, text("t") + b"\0\1\0x", 2))

        assert client.take(5) == encoded(PUBACK, b"\0\1\x80")
        client.send(bytes.fromhex("c000"))
        assert client.take(2).hex() == "d000"


@pytest.fixture(scope="module")
def silent() -> Iterator[Server]:
    """A server in which somebody else hears what is to be stored, and says nothing."""
    block = MqttOptions(host="127.0.0.1", port=-1, js_api_timeout=0.3)
    with Server(jetstream=True, mqtt=block) as running:
        delete_messages(running)
        with Wire(("127.0.0.1", running.port)) as nats:
            nats.connect()
            nats.send(b"SUB $MQTT.msgs.> 1\r\n")
            nats.sync()
            yield running


def test_a_client_of_5_hears_that_the_server_is_busy_when_nobody_says_what_became_of_a_message(
    silent: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with Stranger(silent.server.mqtt_port) as client:
        client.send(connect_packet("new", version=5))
        client.take(client.take(2)[1])
        held = encoded(PUBLISH, text("t") + b"\0y", 0)  # of QoS 0, behind the one of QoS 1
        client.send(encoded(PUBLISH, text("t") + b"\0\1\0x", 2) + held)

        assert client.rest() == encoded(DISCONNECT, b"\x89")
    assert "(pi=1): no JetStream ack within 300ms; closing the connection" in caplog.text


def test_a_message_that_nobody_answers_is_not_forgotten_for_others_that_are_answered(
    silent: Server, caplog: pytest.LogCaptureFixture
) -> None:
    ends = time.monotonic() + PATIENCE
    with Wire(("127.0.0.1", silent.port)) as nats, Stranger(silent.server.mqtt_port) as client:
        nats.connect()
        nats.send(b"SUB $MQTT.msgs.answered 1\r\n")
        nats.sync()
        client.send(connect_packet("busy") + encoded(PUBLISH, text("forgotten") + b"\xff\xffx", 2))
        assert client.take(4).hex() == ACCEPTED
        number = 0
        with suppress(OSError):
            while time.monotonic() < ends:
                number += 1
                client.send(encoded(PUBLISH, text("answered") + number.to_bytes(2, "big") + b"x", 2))
                if nats.socket not in select([nats.socket, client.socket], [], [], PATIENCE)[0]:
                    break
                head, _ = nats.take_message()
                nats.send(b'PUB %b 9\r\n{"seq":1}\r\n' % head[3])
                if not client.rest_or(4):
                    break
    assert number > 1
    assert "(pi=65535): no JetStream ack within 300ms; closing the connection" in caplog.text
