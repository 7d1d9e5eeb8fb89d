"""aiomqtt, the client of asyncio programs, on Headrace and nats-server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiomqtt
import pytest

from harness.mqtt_servers import mqtt_port, started
from harness.processes import ALL
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.processes import ServerProcess


@pytest.fixture(scope="module", params=ALL, ids=str)
def mqtt(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server of each kind for all tests here."""
    with started(request.param, tmp_path_factory.mktemp("mqtt")) as server:
        yield server


async def heard(client: aiomqtt.Client, count: int) -> list[tuple[str, bytes]]:
    """The next messages."""
    found: list[tuple[str, bytes]] = []
    async with asyncio.timeout(PATIENCE):
        async for message in client.messages:
            assert isinstance(message.payload, bytes)
            found.append((str(message.topic), message.payload))
            if len(found) == count:
                break
    return found


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_many_publish_at_once_and_one_hears_all(mqtt: ServerProcess, qos: int) -> None:
    where = {"hostname": "127.0.0.1", "port": mqtt_port(mqtt)}
    async with aiomqtt.Client(**where) as listener:  # type: ignore[arg-type]
        await listener.subscribe(f"many{qos}/+", qos=qos)

        async def publish(number: int) -> None:
            async with aiomqtt.Client(**where) as device:  # type: ignore[arg-type]
                for count in range(20):
                    await device.publish(f"many{qos}/{number}", b"%d" % count, qos=qos)

        async with asyncio.TaskGroup() as devices:
            for number in range(10):
                devices.create_task(publish(number))
        found = await heard(listener, 200)

    for number in range(10):
        mine = [payload for topic, payload in found if topic == f"many{qos}/{number}"]
        assert mine == [b"%d" % count for count in range(20)]


async def test_a_session_is_there_again(mqtt: ServerProcess) -> None:
    where = {"hostname": "127.0.0.1", "port": mqtt_port(mqtt), "identifier": "kept", "clean_session": False}
    async with aiomqtt.Client(**where) as first:  # type: ignore[arg-type]
        await first.subscribe("kept/aiomqtt", qos=2)
    async with aiomqtt.Client("127.0.0.1", mqtt_port(mqtt)) as device:
        for number in range(10):
            await device.publish("kept/aiomqtt", b"%d" % number, qos=2)

    async with aiomqtt.Client(**where) as again:  # type: ignore[arg-type]
        found = await heard(again, 10)

    assert [payload for _, payload in found] == [b"%d" % number for number in range(10)]
