"""paho-mqtt as a client of MQTT 5.0, which nats-server does not speak; over TCP and WebSocket."""

from __future__ import annotations

import itertools
import queue
import socket
from typing import TYPE_CHECKING, Any, Final

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from harness.mqtt_servers import mqtt_port, started, websocket_port
from harness.paho_clients import Paho
from harness.processes import HEADRACES
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paho.mqtt.reasoncodes import ReasonCode

    from harness.processes import ServerProcess

NAMES: Final = itertools.count()
UNCLOSED: Final = 0.3
"""Seconds in which a server would have closed that does not wait for its client."""


@pytest.fixture(scope="module", params=HEADRACES, ids=str)
def mqtt(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server of each kind for all tests here."""
    users = (
        "no_auth_user: all\nauthorization { users: [ {user: all, password: p}, {user: ro, password: p, "
        'permissions: {publish: {deny: "no.>"}, subscribe: {deny: "no.>"}}} ] }'
    )
    folder = tmp_path_factory.mktemp("mqtt")
    with started(request.param, folder, websocket="no_tls: true", more=users) as server:
        yield server


@pytest.fixture(params=["tcp", "websocket"])
def reached(request: pytest.FixtureRequest, mqtt: ServerProcess) -> dict[str, Any]:
    """The port and the transport of a client of level 5."""
    if request.param == "websocket":
        return {"port": websocket_port(mqtt), "websocket": True, "five": True}
    return {"port": mqtt_port(mqtt), "five": True}


def fresh() -> str:
    """A name that no other test has."""
    return f"name{next(NAMES)}"


def properties(kind: int, **values: Any) -> Properties:
    """Properties of a packet."""
    made = Properties(kind)
    for name, value in values.items():
        setattr(made, name, value)
    return made


def kept(seconds: int) -> Properties:
    """Properties of a CONNECT that asks for a session of so many seconds."""
    return properties(PacketTypes.CONNECT, SessionExpiryInterval=seconds)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_properties_of_a_message_arrive(reached: dict[str, Any], qos: int) -> None:
    topic = fresh()
    given = properties(
        PacketTypes.PUBLISH,
        UserProperty=[("place", "Zürich"), ("place", "twice"), ("odd name:", "a\nb")],
        ContentType="text/plain",
        ResponseTopic=f"{topic}/answers",
        CorrelationData=b"\x00\xff7",
        PayloadFormatIndicator=1,
        MessageExpiryInterval=100,
    )
    with Paho(**reached) as client:
        client.subscribe(topic, qos)

        client.publish(topic, "grüezi".encode(), qos, properties=given)

        message = client.take()
    told = message.properties.json()  # type: ignore[union-attr]
    expiry = told.pop("MessageExpiryInterval")
    assert 0 < expiry <= 100
    assert told == {key: value for key, value in given.json().items() if key != "MessageExpiryInterval"}


def test_a_session_has_its_expiry(reached: dict[str, Any]) -> None:
    topic, name = fresh(), fresh()
    with Paho(**reached, client_id=name, clean=False, properties=kept(600)) as first:
        first.subscribe(topic, 1)
    with Paho(**reached) as publisher:
        publisher.publish(topic, b"kept", 1)

    with Paho(**reached, client_id=name, clean=False, properties=kept(0)) as again:
        assert again.is_resumed
        assert again.take().payload == b"kept"
    with Paho(**reached, client_id=name, clean=False) as last:
        assert not last.is_resumed


def test_subscription_options_and_identifiers(reached: dict[str, Any]) -> None:
    topic = fresh()
    with Paho(**reached) as client, Paho(**reached) as other:
        client.publish(topic, b"old", 1, retain=True)
        own = SubscribeOptions(qos=1, noLocal=True, retainAsPublished=True, retainHandling=2)
        number = properties(PacketTypes.SUBSCRIBE, SubscriptionIdentifier=77)
        client.subscribe([(topic, own)], properties=number)  # type: ignore[arg-type]

        client.publish(topic, b"own", 1)
        other.publish(topic, b"other", 1, retain=True)

        message = client.take()
    assert (message.payload, message.retain) == (b"other", True)
    assert message.properties.SubscriptionIdentifier == [77]  # type: ignore[union-attr]


def test_members_of_a_share_divide_the_messages(reached: dict[str, Any]) -> None:
    topic, members = fresh(), [Paho(**reached) for _ in range(3)]
    for member in members:
        assert member.subscribe(f"$share/group/{topic}", 1) == [1]
    with Paho(**reached) as publisher:
        for number in range(90):
            publisher.publish(topic, b"%d" % number, 1)
        got: list[bytes] = []
        shares = [0, 0, 0]
        while len(got) < 90:
            for at, member in enumerate(members):
                try:
                    got.append(member.take(0.01).payload)
                    shares[at] += 1
                except queue.Empty:
                    continue
    for member in members:
        member.end()

    assert sorted(got, key=int) == [b"%d" % number for number in range(90)]
    assert all(shares)


def test_what_is_not_allowed_has_its_reason(mqtt: ServerProcess) -> None:
    with Paho(mqtt_port(mqtt), five=True, user=("ro", "p")) as client:
        told: queue.Queue[ReasonCode] = queue.Queue()
        client.client.on_publish = lambda _client, _data, _id, code, _properties: told.put(code)

        codes = client.subscribe("no/topic", 1)
        client.client.publish("no/topic", b"x", 1)

        assert codes == [0x80]  # Paho's own suite wants this one
        assert told.get(timeout=PATIENCE).value == 0x87


def test_a_client_without_a_name_gets_one(reached: dict[str, Any]) -> None:
    with Paho(**reached) as client:
        assert client.told.AssignedClientIdentifier


def test_who_loses_the_place_is_told_why(reached: dict[str, Any]) -> None:
    name = fresh()
    first = Paho(**reached, client_id=name)
    first.client.reconnect_delay_set(PATIENCE, PATIENCE)

    with Paho(**reached, client_id=name):
        code = first.ends.get(timeout=PATIENCE)

    first.end()
    assert code.value == 0x8E


def test_a_will_waits_for_its_delay_and_has_its_properties(reached: dict[str, Any]) -> None:
    topic = fresh()
    with Paho(**reached) as watcher:
        watcher.subscribe(topic, 1)
        device = Paho(**reached, client_id=fresh(), will=(topic, b"gone", 1, False), properties=kept(1))
        device.cut()

        assert watcher.take().payload == b"gone"


def test_a_client_that_sends_too_many_reads_why(mqtt: ServerProcess) -> None:
    """Though it reads byte by byte, and answers a thousand PUBRECs before it comes to the DISCONNECT."""
    with socket.create_connection(("127.0.0.1", mqtt_port(mqtt)), PATIENCE) as sock:

        def take(size: int) -> bytes:
            return sock.recv(size, socket.MSG_WAITALL)

        def take_body() -> bytes:
            return take(take(1)[0])

        sock.sendall(b"\x10\x10\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x03too")
        assert take(1) == b"\x20"
        take_body()
        for number in range(1, 1026):
            sock.sendall(b"\x34\x07\x00\x01t" + number.to_bytes(2, "big") + b"\x00x")
        while (first := take(1)) != b"\xe0":
            assert first == b"\x50"
            sock.sendall(b"\x62\x02" + take_body()[:2])
        assert take_body()[:1] == b"\x93"
        sock.settimeout(UNCLOSED)
        with pytest.raises(TimeoutError):  # neither closed nor reset, and nothing follows
            sock.recv(1)
