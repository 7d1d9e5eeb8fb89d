"""paho-mqtt speaks MQTT 3.1.1 to Headrace and nats-server, over TCP and WebSocket."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.mqtt_servers import mqtt_port, started, websocket_port
from harness.paho_clients import Paho
from harness.ports import free_port
from harness.processes import ALL, HEADRACES
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.certificates import Authority
    from harness.processes import ServerProcess

NAMES: Final = itertools.count()


@pytest.fixture(scope="module", params=ALL, ids=str)
def mqtt(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server of each kind for all tests here."""
    folder = tmp_path_factory.mktemp("mqtt")
    with started(request.param, folder, websocket="no_tls: true") as server:
        yield server


@pytest.fixture(params=["tcp", "websocket"])
def reached(request: pytest.FixtureRequest, mqtt: ServerProcess) -> dict[str, Any]:
    """The port and the transport of a client."""
    if request.param == "websocket":
        return {"port": websocket_port(mqtt), "websocket": True}
    return {"port": mqtt_port(mqtt)}


def fresh() -> str:
    """A name that no other test has."""
    return f"name{next(NAMES)}"


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_arrive_in_order(reached: dict[str, Any], qos: int) -> None:
    topic, sent = f"{fresh()}/out", [b"%d " % number * number for number in range(200)]
    with Paho(**reached) as subscriber, Paho(**reached) as publisher:
        assert subscriber.subscribe(f"{topic}/#", qos) == [qos]

        for payload in sent:
            publisher.client.publish(f"{topic}/a/b", payload, qos)

        assert subscriber.payloads(len(sent)) == sent


def test_a_large_message_arrives_whole(reached: dict[str, Any]) -> None:
    topic, payload = fresh(), bytes(range(256)) * 3000
    with Paho(**reached) as client:
        client.subscribe(topic, 1)

        client.publish(topic, payload, 1)

        assert client.take().payload == payload


@pytest.mark.parametrize(("published", "subscribed"), [(0, 2), (2, 0), (1, 2), (2, 1)])
def test_a_message_has_the_lower_qos(reached: dict[str, Any], published: int, subscribed: int) -> None:
    topic = fresh()
    with Paho(**reached) as client:
        client.subscribe(topic, subscribed)

        client.publish(topic, b"x", published)

        assert client.take().qos == min(published, subscribed)


def test_a_will_is_published_when_the_connection_is_lost(reached: dict[str, Any]) -> None:
    topic = fresh()
    with Paho(**reached) as watcher:
        watcher.subscribe(topic, 1)
        device = Paho(**reached, client_id=fresh(), will=(topic, b"gone", 1, True))

        device.cut()

        assert watcher.take().payload == b"gone"
    with Paho(**reached) as later:
        later.subscribe(topic, 1)
        message = later.take()
    assert (message.payload, message.retain) == (b"gone", True)


def test_no_will_is_published_after_disconnect(reached: dict[str, Any]) -> None:
    topic = fresh()
    with Paho(**reached) as watcher:
        watcher.subscribe(f"{topic}/#", 0)

        Paho(**reached, client_id=fresh(), will=(f"{topic}/will", b"gone", 0, False)).end()
        watcher.publish(f"{topic}/after", b"after", 0)

        assert watcher.take().topic == f"{topic}/after"


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_retained_message_is_there_for_later_subscribers(reached: dict[str, Any], qos: int) -> None:
    topic = fresh()
    with Paho(**reached) as publisher:
        publisher.subscribe(topic)
        publisher.publish(topic, b"old", qos, retain=True)
        publisher.publish(topic, b"new", qos, retain=True)
        live = [publisher.take(), publisher.take()]
        with Paho(**reached) as later:
            later.subscribe(topic, 2)
            message = later.take()
        publisher.publish(topic, b"", qos, retain=True)
        publisher.take()
        with Paho(**reached) as last:
            last.subscribe(topic, 2)
            publisher.publish(topic, b"live", 0)
            after = last.take()

    assert [(each.payload, each.retain) for each in live] == [(b"old", False), (b"new", False)]
    assert (message.payload, message.retain, message.qos) == (b"new", True, qos)
    assert (after.payload, after.retain) == (b"live", False)


@pytest.mark.parametrize("qos", [1, 2])
def test_a_session_keeps_messages_for_an_absent_client(reached: dict[str, Any], qos: int) -> None:
    topic, name = fresh(), fresh()
    with Paho(**reached, client_id=name, clean=False) as first:
        assert not first.is_resumed
        first.subscribe(topic, qos)
    with Paho(**reached) as publisher:
        for number in range(50):
            publisher.publish(topic, b"%d" % number, qos)

    with Paho(**reached, client_id=name, clean=False) as again:
        assert again.is_resumed
        assert again.payloads(50) == [b"%d" % number for number in range(50)]
        again.unsubscribe(topic)
    with Paho(**reached, client_id=name, clean=True) as clean:
        assert not clean.is_resumed


def test_a_second_client_of_a_name_takes_its_place(reached: dict[str, Any]) -> None:
    name = fresh()
    first = Paho(**reached, client_id=name)
    first.client.reconnect_delay_set(PATIENCE, PATIENCE)

    with Paho(**reached, client_id=name):
        first.ends.get(timeout=PATIENCE)

    first.end()


def test_a_client_connects_again_by_itself(tmp_path: Path) -> None:
    """Its session, its subscription and its retained message are there after a restart."""
    port, program = free_port(), HEADRACES[0]
    with started(program, tmp_path, port=port):
        client = Paho(port, "again", clean=False)
        client.subscribe("again/#", 1)
        client.publish("again/kept", b"kept", 1, retain=True)
        assert client.take().payload == b"kept"
    try:
        client.ends.get(timeout=PATIENCE)
        with started(program, tmp_path, port=port):
            flags, _, _ = client.connections.get(timeout=PATIENCE)
            with Paho(port) as other:
                other.subscribe("again/kept")
                kept = other.take()
                other.publish("again/later", b"later", 1)
            later = client.take()
            if later.payload == b"kept":  # QoS 1: its acknowledgement may be lost with the server
                later = client.take()
    finally:
        client.end()

    assert flags.session_present
    assert (kept.payload, kept.retain) == (b"kept", True)
    assert later.payload == b"later"


@pytest.mark.parametrize("program", ALL, ids=str)
def test_tls_and_a_certificate_for_a_user(program: Any, tmp_path: Path, authority: Authority) -> None:
    pair, own = authority.issue("server"), authority.issue("meter")
    mqtt = (
        f'tls {{ cert_file: "{pair.certificate}", key_file: "{pair.key}", ca_file: "{authority.file}"\n'
        "verify_and_map: true, timeout: 20 }"
    )
    users = (
        'authorization { users: [ {user: "CN=meter", permissions: {publish: "meter.>", subscribe: ">"}} ] }'
    )
    tls = {"ca_certs": str(authority.file), "certfile": str(own.certificate), "keyfile": str(own.key)}
    with (
        started(program, tmp_path, mqtt=mqtt, more=users) as server,
        Paho(mqtt_port(server), tls=tls, host="localhost") as client,
    ):
        client.subscribe("#")
        client.publish("no/thing", b"refused", 1)
        client.publish("meter/1", b"allowed", 1)

        assert client.take().payload == b"allowed"


@pytest.mark.parametrize("program", ALL, ids=str)
def test_who_may_not_connect_is_told(program: Any, tmp_path: Path) -> None:
    users = "authorization { users: [ {user: u, password: p} ] }"
    with started(program, tmp_path, more=users) as server:
        with Paho(mqtt_port(server), user=("u", "p")) as client:
            assert client.code == 0
        refused = Paho(mqtt_port(server), user=("u", "x"))
        refused.end()

    assert str(refused.code) == "Not authorized"
