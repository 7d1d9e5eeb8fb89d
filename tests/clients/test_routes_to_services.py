"""JetStream and NATS Streaming of a Headrace, used by clients of another server of its cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import nats
import pytest

from harness.processes import HEADRACES, NATS_SERVER, ServerProcess
from harness.waiting import PATIENCE
from headrace.client import stan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nats.aio.msg import Msg

CLUSTER = 'cluster { name: c, listen: "127.0.0.1:-1", pool_size: 3, %s }'
PEERS = (*HEADRACES, NATS_SERVER)
COUNT = 50


@pytest.fixture(scope="module", params=PEERS, ids=str)
def other(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """A server without either, which has a route to a Headrace with both."""
    first, second = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    services = f'jetstream {{ store_dir: "{first}" }}\nstreaming {{ cluster_id: test-cluster }}\n'
    with ServerProcess(HEADRACES[0], first, config=f"server_name: a\n{services}{CLUSTER % ''}") as ours:
        port = ours.wait_for_line(r"Listening for route connections on \S+:(\d+)$")[1]
        routes = f'routes: ["nats://127.0.0.1:{port}"]'
        config = f"server_name: b\n{CLUSTER % routes}"
        with ServerProcess(request.param, second, "-D", config=config) as theirs:
            asyncio.run(_reached(theirs))
            yield theirs


async def _reached(server: ServerProcess) -> None:
    """Wait until the services answer clients of the other server."""
    client = await nats.connect(server.url)
    async with asyncio.timeout(10):
        for subject in ("$JS.API.INFO", "_STAN.discover.test-cluster"):
            while True:
                try:
                    await client.request(subject, timeout=0.5)
                    break
                except nats.errors.NoRespondersError:
                    await asyncio.sleep(0.02)
                except nats.errors.TimeoutError:  # an empty request for a channel server: somebody has it
                    break
    await client.close()


def test_streams_and_consumers(other: ServerProcess) -> None:
    async def run() -> None:
        client = await nats.connect(other.url)
        js = client.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        for number in range(COUNT):
            headers = {"X": "1"} if number % 2 else None
            ack = await js.publish("s.a", b"%d" % number, headers=headers)
        assert ack.seq == COUNT

        pulled = await js.pull_subscribe("s.>", durable="pull")
        got: list[Msg] = []
        while len(got) < COUNT:
            got += await pulled.fetch(20, timeout=5)
        for message in got:
            await message.ack_sync()
        assert [message.data for message in got] == [b"%d" % number for number in range(COUNT)]
        assert [bool(message.headers) for message in got] == [bool(n % 2) for n in range(COUNT)]
        floor = (await pulled.consumer_info()).ack_floor
        assert floor is not None
        assert floor.stream_seq == COUNT

        pushed = await js.subscribe("s.>", durable="push", manual_ack=True)
        for number in range(COUNT):
            message = await pushed.next_msg(timeout=PATIENCE)
            assert (message.subject, message.metadata.sequence.stream) == ("s.a", number + 1)
            await message.ack_sync()
        assert (await pushed.consumer_info()).num_ack_pending == 0

        ordered = await js.subscribe("s.>", ordered_consumer=True)
        assert [(await ordered.next_msg(timeout=PATIENCE)).data for _ in range(COUNT)] == [
            m.data for m in got
        ]

        bucket = await js.create_key_value(bucket="b")
        await bucket.put("k", b"v")
        assert (await bucket.get("k")).value == b"v"
        await client.close()

    asyncio.run(run())


def test_channels(other: ServerProcess) -> None:
    async def run() -> list[bytes]:
        async with await stan.connect("test-cluster", "far", servers=other.url) as client:
            for number in range(COUNT):
                await client.publish("ch", b"%d" % number)
            subscription = await client.subscribe("ch", start_at=stan.StartPosition.FIRST)
            messages = aiter(subscription)
            return [(await anext(messages)).data for _ in range(COUNT)]

    assert asyncio.run(run()) == [b"%d" % number for number in range(COUNT)]
