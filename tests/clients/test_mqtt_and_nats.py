"""MQTT and NATS are one space of subjects: paho-mqtt on one side, nats-py on the other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from harness.mqtt_servers import mqtt_port, started
from harness.paho_clients import Paho
from harness.processes import ALL, HEADRACES
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clients.conftest import Clients
    from harness.processes import ServerProcess


@pytest.fixture(scope="module", params=ALL, ids=str)
def mqtt(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server of each kind for all tests here."""
    with started(request.param, tmp_path_factory.mktemp("mqtt")) as server:
        yield server


@pytest.fixture(scope="module", params=HEADRACES, ids=str)
def newer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """Servers that speak MQTT 5.0."""
    with started(request.param, tmp_path_factory.mktemp("mqtt")) as server:
        yield server


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_what_a_device_publishes_is_in_a_stream(
    mqtt: ServerProcess, connect: Clients, qos: int
) -> None:
    client = await connect(mqtt)
    stream = client.jetstream()
    await stream.add_stream(name=f"SENSORS{qos}", subjects=[f"sensors{qos}.>"])
    with Paho(mqtt_port(mqtt)) as device:
        for number in range(20):
            device.publish(f"sensors{qos}/kitchen/a.b", b"%d" % number, qos)

    consumer = await stream.pull_subscribe(f"sensors{qos}.>", durable="reader")
    messages: list[Any] = []
    while len(messages) < 20:
        messages += await consumer.fetch(20 - len(messages), timeout=PATIENCE)
    for message in messages:
        await message.ack()
    assert [message.data for message in messages] == [b"%d" % number for number in range(20)]
    assert {message.subject for message in messages} == {f"sensors{qos}.kitchen.a//b"}
    assert {message.headers["Nmqtt-Pub"] for message in messages} == {str(qos)}


async def test_what_nats_publishes_reaches_devices(mqtt: ServerProcess, connect: Clients) -> None:
    client = await connect(mqtt)
    with Paho(mqtt_port(mqtt)) as device:
        device.subscribe("lamps/+/set", 1)
        await client.publish("lamps.7.set", b"on", headers={"Trace": "x"})

        message = await asyncio.to_thread(device.take)

    assert (message.topic, message.payload, message.qos) == ("lamps/7/set", b"on", 0)


async def test_a_service_of_nats_answers_a_device(newer: ServerProcess, connect: Clients) -> None:
    client = await connect(newer)

    async def answer(message: Any) -> None:
        await message.respond(message.data.upper())

    await client.subscribe("shout", cb=answer)
    await client.flush()
    with Paho(mqtt_port(newer), five=True) as device:
        device.subscribe("answers/7", 1)
        properties = Properties(PacketTypes.PUBLISH)
        properties.ResponseTopic = "answers/7"

        device.publish("shout", b"hello", 1, properties=properties)

        assert (await asyncio.to_thread(device.take)).payload == b"HELLO"


async def test_a_device_answers_a_request_of_nats(newer: ServerProcess, connect: Clients) -> None:
    client = await connect(newer)
    with Paho(mqtt_port(newer), five=True) as device:
        device.subscribe("rooms/+/temperature")

        async def respond() -> None:
            request = await asyncio.to_thread(device.take)
            device.client.publish(request.properties.ResponseTopic, b"21.5")  # type: ignore[union-attr]

        answering = asyncio.create_task(respond())
        answer = await client.request("rooms.4.temperature", b"?", timeout=PATIENCE)
        await answering

    assert answer.data == b"21.5"


async def test_headers_and_user_properties_are_the_same(newer: ServerProcess, connect: Clients) -> None:
    client = await connect(newer)
    subscription = await client.subscribe("from.mqtt")
    await client.flush()
    with Paho(mqtt_port(newer), five=True) as device:
        device.subscribe("from/nats")
        properties = Properties(PacketTypes.PUBLISH)
        properties.UserProperty = ("Place", "attic")

        device.publish("from/mqtt", b"1", 1, properties=properties)
        await client.publish("from.nats", b"2", headers={"Place": "cellar"})

        there = await subscription.next_msg(PATIENCE)
        here = await asyncio.to_thread(device.take)

    assert there.headers is not None
    assert there.headers["Place"] == "attic"
    assert here.properties.UserProperty == [("Place", "cellar")]  # type: ignore[union-attr]


async def test_devices_and_nats_share_a_group(newer: ServerProcess, connect: Clients) -> None:
    client = await connect(newer)
    subscription = await client.subscribe("jobs", queue="workers")
    await client.flush()
    with Paho(mqtt_port(newer), five=True) as device:
        device.subscribe("$share/workers/jobs")
        for number in range(100):
            await client.publish("jobs", b"%d" % number)
        await client.flush()
        with Paho(mqtt_port(newer), five=True) as asking:
            asking.subscribe("behind")
            await client.publish("behind", b"")
            await asyncio.to_thread(asking.take)

        mine = subscription.pending_msgs
        theirs = [(await asyncio.to_thread(device.take)).payload for _ in range(100 - mine)]
        assert device.nothing_left()
    assert 0 < mine < 100
    assert len(set(theirs)) == len(theirs)
