"""nats-py in a mesh: it is told one address and survives the loss of any node."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import nats
import pytest

from harness.nats_py import settle
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats.aio.client import Client
    from nats.aio.msg import Msg

    from harness.mesh import Mesh

pytestmark = pytest.mark.clients


async def _connect(url: str) -> tuple[Client, asyncio.Event]:
    reconnected = asyncio.Event()

    async def note() -> None:
        reconnected.set()

    client = await nats.connect(url, reconnect_time_wait=0.01, reconnected_cb=note, connect_timeout=1)
    return client, reconnected


async def _ask_until_answered(client: Client, subject: str) -> bytes:
    """While interest is on its way there is nobody; everything else that goes wrong is a failure."""
    while True:
        try:
            return (await client.request(subject, b"q", timeout=2)).data
        except nats.errors.NoRespondersError:
            await asyncio.sleep(0.005)


async def _survive(mesh: Mesh, lost: int) -> None:
    home = mesh.nodes[lost]
    other = mesh.nodes[lost - 1]
    client, reconnected = await _connect(home.url)
    asking, _ = await _connect(other.url)

    async def answer(message: Msg) -> None:
        await message.respond(b"answer")

    await client.subscribe("service", cb=answer)
    await settle(client)
    assert await _ask_until_answered(asking, "service") == b"answer"
    assert {f"127.0.0.1:{node.port}" for node in mesh.nodes} <= {
        f"{url.hostname}:{url.port}" for url in (*client.servers, *client.discovered_servers)
    }

    await asyncio.to_thread(home.kill)
    await asyncio.wait_for(reconnected.wait(), 5)
    assert client.connected_url is not None
    assert client.connected_url.port in {node.port for node in mesh.nodes if node is not home}
    assert await _ask_until_answered(asking, "service") == b"answer"
    await asyncio.to_thread(home.start)
    await client.close()
    await asking.close()


def test_a_client_moves_on_when_its_node_is_gone_whichever_it_is(build: Callable[..., Mesh]) -> None:
    mesh = build()
    for lost in range(len(mesh.nodes)):
        mesh.converge()
        asyncio.run(_survive(mesh, lost))


def test_a_client_that_leaves_in_order_loses_nothing(build: Callable[..., Mesh]) -> None:
    """Drained: what was on its way over the route is still handled."""
    mesh = build()
    mesh.converge()

    async def run() -> int:
        client, _ = await _connect(mesh.nodes[0].url)
        sender, _ = await _connect(mesh.nodes[-1].url)
        handled, arrived = 0, asyncio.Event()

        async def handle(_: Msg) -> None:
            nonlocal handled
            handled += 1
            arrived.set()

        await client.subscribe("drained", "g", cb=handle)
        await settle(client)
        while True:
            try:
                await sender.request("drained", b"", timeout=0.05)
            except nats.errors.NoRespondersError:
                continue
            except nats.errors.TimeoutError:
                break
        begun = handled
        arrived.clear()
        for _ in range(500):
            await sender.publish("drained", b"x")
        await settle(sender)
        # One has come over the route at least, the others are on their way.
        await asyncio.wait_for(arrived.wait(), PATIENCE)
        await client.drain()
        await sender.close()
        return handled - begun

    assert 0 < asyncio.run(run()) <= 500
