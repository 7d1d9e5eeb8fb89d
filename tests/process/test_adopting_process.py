"""A channel that is a stream too, in a process that is killed: what either API acknowledged is there."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from typing import TYPE_CHECKING

import nats

from headrace.client import stan

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from harness.processes import ServerProcess

CONFIG = 'jetstream { store_dir: "js" }\nstreaming { store: FILE, dir: "stan", adopt { orders: ORDERS } }\n'
TURNS = 3
ENOUGH = 25
"""Acknowledged by each API, before the server is killed."""


async def _ignored(_error: Exception) -> None:
    """The server goes away: that is what is tested."""


async def publish(server: ServerProcess, turn: int) -> list[bytes]:
    """Both APIs publish at once until the server is killed; gives what was acknowledged."""
    client = await nats.connect(server.url, allow_reconnect=False, error_cb=_ignored)
    writer = await stan.connect("test-cluster", f"writer{turn}", nats=client)
    acknowledged: dict[str, list[bytes]] = {"js": [], "stan": []}
    enough = asyncio.Event()

    async def through(api: str, send: Callable[[str, bytes], Awaitable[object]]) -> None:
        for number in itertools.count():
            payload = f"{api} {turn} {number}".encode()
            await send("orders", payload)
            acknowledged[api].append(payload)
            if min(map(len, acknowledged.values())) >= ENOUGH:
                enough.set()

    publishers = (through("js", client.jetstream().publish), through("stan", writer.publish))
    tasks = [asyncio.ensure_future(each) for each in publishers]
    await enough.wait()
    server.kill()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for close in (writer.close, client.close):
        with suppress(stan.StanError, OSError, TimeoutError, nats.errors.Error):
            await asyncio.wait_for(close(), 1.0)  # it cannot say goodbye to anybody
    return [payload for each in acknowledged.values() for payload in each]


async def stored(server: ServerProcess) -> tuple[dict[int, bytes], dict[int, bytes]]:
    """What readers of STAN and of JetStream get."""
    client = await nats.connect(server.url)
    js = client.jetstream()
    last = (await js.stream_info("ORDERS")).state.last_seq
    streamed = {number: (await js.get_msg("ORDERS", number)).data or b"" for number in range(1, last + 1)}
    got: dict[int, bytes] = {}
    async with await stan.connect("test-cluster", "reader", servers=server.url) as reader:
        async for message in await reader.subscribe("orders", start_at=stan.StartPosition.FIRST):
            got[message.sequence] = message.data
            if message.sequence == last:
                break
    await client.close()
    return got, streamed


def test_killed_server_keeps_what_either_api_acknowledged(serve: Callable[..., ServerProcess]) -> None:
    acknowledged: list[bytes] = []
    for turn in range(TURNS):
        acknowledged += asyncio.run(asyncio.wait_for(publish(serve(config=CONFIG), turn), 30))
    channel, stream = asyncio.run(asyncio.wait_for(stored(serve(config=CONFIG)), 30))
    assert channel == stream
    assert list(channel) == list(range(1, len(channel) + 1))
    kept = list(stream.values())
    assert len(set(kept)) == len(kept)
    assert set(acknowledged) <= set(kept)
    for api in (b"js", b"stan"):
        own = [payload for payload in kept if payload.startswith(api)]
        assert own == sorted(own, key=lambda payload: tuple(map(int, payload.split()[1:])))
