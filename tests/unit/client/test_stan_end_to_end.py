"""The STAN client against the streaming service, both in this process, over real sockets."""

from __future__ import annotations

import asyncio
import functools
import logging
import runpy
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nats
import pytest

from headrace import Options, Server
from headrace.client import stan
from headrace.conf.streaming_options import StoreLimits, StreamingOptions
from headrace.log.committer import InlineCommitter
from headrace.log.store import MemoryStore
from headrace.streaming.service import OpenStore, StreamingService

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

TEST_SECONDS = 20.0


class World:
    """A server with streaming, whose store outlives it, and clients that are closed at the end."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self.store = MemoryStore()
        self.url = ""
        self._stack = stack

    @asynccontextmanager
    async def server(self, port: int = -1, **limits: Any) -> AsyncIterator[Server]:
        options = StreamingOptions(cluster_id="test", limits=StoreLimits(**limits))
        log = logging.getLogger("test-stan")
        service = StreamingService(options, lambda: OpenStore(self.store, InlineCommitter()), log)
        async with Server(Options(host="127.0.0.1", port=port), services=[service]) as server:
            self.url = server.url
            yield server

    async def connect(self, name: str = "me", **options: Any) -> stan.Client:
        client = await stan.connect("test", name, servers=self.url, **options)
        self._stack.push_async_callback(client.close)
        return client

    async def filled(self, count: int, name: str = "me") -> stan.Client:
        client = await self.connect(name)
        for n in range(1, count + 1):
            await client.publish("foo", b"data %d" % n)
        return client


def scenario(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    """Runs a coroutine test in a world with a server."""

    @functools.wraps(test)
    async def run() -> None:
        async with asyncio.timeout(TEST_SECONDS):
            outer, inner = AsyncExitStack(), AsyncExitStack()
            world = World(inner)
            async with outer:
                await outer.enter_async_context(world.server())
                async with inner:
                    await test(world)

    def wrapper() -> None:
        asyncio.run(run())

    wrapper.__name__ = test.__name__  # type: ignore[attr-defined]
    wrapper.__doc__ = test.__doc__
    return wrapper


async def take(subscription: stan.Subscription, count: int) -> list[stan.Message]:
    """The next `count` messages, all acknowledged."""
    messages: list[stan.Message] = []
    async for message in subscription:
        messages.append(message)
        await message.ack()
        if len(messages) == count:
            break
    return messages


async def ignore(error: Exception) -> None:
    """nats-py's report of a lost connection, which a test causes on purpose."""


def sequences(messages: list[stan.Message]) -> list[int]:
    return [message.sequence for message in messages]


@scenario
async def test_what_was_published_is_delivered(world: World) -> None:
    client = await world.filled(3)

    messages = await take(await client.subscribe("foo", start_at=stan.StartPosition.FIRST), 3)

    assert [(m.sequence, m.data, m.channel) for m in messages] == [
        (n, b"data %d" % n, "foo") for n in (1, 2, 3)
    ]
    assert sorted(message.timestamp for message in messages) == [m.timestamp for m in messages]
    assert not any(message.redelivered for message in messages)


@scenario
async def test_thousands_in_flight_come_in_order(world: World) -> None:
    client = await world.connect(max_pub_acks_in_flight=500)
    subscription = await client.subscribe("foo", max_in_flight=100)

    futures = [await client.publish_async("foo", b"%d" % n) for n in range(3000)]
    messages = await take(subscription, 3000)

    assert len(set(await asyncio.gather(*futures))) == 3000
    assert sequences(messages) == list(range(1, 3001))
    assert [int(message.data) for message in messages] == list(range(3000))
    assert subscription.refused == 0


@scenario
async def test_each_start(world: World) -> None:
    client = await world.filled(5)
    starts: list[tuple[dict[str, Any], int]] = [
        ({"start_at": stan.StartPosition.FIRST}, 1),
        ({"start_at": stan.StartPosition.LAST_RECEIVED}, 5),
        ({"sequence": 3}, 3),
        ({"time_delta": timedelta(hours=1)}, 1),
    ]
    for options, first in starts:
        subscription = await client.subscribe("foo", **options)
        assert sequences(await take(subscription, 6 - first)) == list(range(first, 6))
        await subscription.unsubscribe()

    fresh = await client.subscribe("foo")
    await client.publish("foo", b"new")
    assert sequences(await take(fresh, 1)) == [6]


@scenario
async def test_unacknowledged_message_comes_again(world: World) -> None:
    client = await world.filled(2)
    received: asyncio.Queue[stan.Message] = asyncio.Queue()
    await client.subscribe(
        "foo", received.put_nowait, start_at=stan.StartPosition.FIRST, manual_acks=True, ack_wait=1
    )

    *once, again = [await received.get() for _ in range(3)]
    assert [(message.sequence, message.redelivered) for message in once] == [(1, False), (2, False)]
    assert (again.sequence, again.redelivered, again.redelivery_count) == (1, True, 1)


@scenario
async def test_stalls_at_max_in_flight(world: World) -> None:
    client = await world.filled(3)
    received: asyncio.Queue[stan.Message] = asyncio.Queue()
    await client.subscribe(
        "foo", received.put_nowait, start_at=stan.StartPosition.FIRST, manual_acks=True, max_in_flight=1
    )

    got = []
    for _ in range(3):
        message = await received.get()
        await client.publish("other", b"a round trip")
        assert received.empty()
        got.append(message.sequence)
        await message.ack()

    assert got == [1, 2, 3]


@scenario
async def test_durable_goes_on_after_close_and_begins_anew_after_unsubscribe(world: World) -> None:
    client = await world.filled(2)
    options: dict[str, Any] = {"durable_name": "d", "start_at": stan.StartPosition.FIRST}
    subscription = await client.subscribe("foo", **options)
    assert sequences(await take(subscription, 2)) == [1, 2]
    await subscription.close()
    await client.close()

    client = await world.connect()
    await client.publish("foo", b"data 3")
    subscription = await client.subscribe("foo", **options)
    with pytest.raises(stan.StanError, match=r"^stan: duplicate durable registration$"):
        await client.subscribe("foo", **options)
    assert sequences(await take(subscription, 1)) == [3]
    await subscription.unsubscribe()

    assert sequences(await take(await client.subscribe("foo", **options), 3)) == [1, 2, 3]


@scenario
async def test_queue_group_shares(world: World) -> None:
    clients = [await world.connect(name) for name in ("one", "two")]
    received: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
    for place, client in enumerate(clients):
        await client.subscribe(
            "foo", lambda message, place=place: received.put_nowait((place, message.sequence)), queue="g"
        )

    for n in range(20):
        await clients[0].publish("foo", b"%d" % n)

    got = [await received.get() for _ in range(20)]
    assert sorted(sequence for _, sequence in got) == list(range(1, 21))
    assert {place for place, _ in got} == {0, 1}


@scenario
async def test_texts_of_the_server(world: World) -> None:
    client = await world.connect()

    for options, text in [
        ({"ack_wait": 0}, "stan: invalid ack wait time, should be >= 1s"),
        ({"max_in_flight": 0}, "stan: invalid MaxInflight, should be >= 1"),
        (
            {"durable_name": "a:b", "queue": "g"},
            "stan: durable name of a durable queue subscriber can't contain the character ':'",
        ),
    ]:
        with pytest.raises(stan.StanError) as caught:
            await client.subscribe("foo", **options)
        assert str(caught.value) == text
    with pytest.raises(stan.StanError, match=r"^stan: invalid subject$"):
        await client.subscribe("foo.*")
    with pytest.raises(stan.StanError, match=r"^stan: invalid publish request$"):
        await client.publish("foo/bar", b"")
    with pytest.raises(stan.StanError, match=r"^stan: invalid clientID"):
        await world.connect("not a client id")
    with pytest.raises(stan.StanError, match=r"^stan: clientID already registered$"):
        await world.connect()


@scenario
async def test_replaced_client_hears_of_it(world: World) -> None:
    told: asyncio.Queue[str] = asyncio.Queue()
    old = await world.connect(
        ping_interval=0.02, connection_lost=lambda _, error: told.put_nowait(str(error))
    )
    for inbox in old._inboxes[:1]:
        await inbox.unsubscribe()  # it answers no heartbeats any more
    heir = await world.connect()

    assert await told.get() == "client has been replaced or is no longer registered"
    assert old.closed
    await heir.publish("foo", b"x")


def test_restart_that_keeps_the_store_is_not_noticed() -> None:
    async def test() -> None:
        async with asyncio.timeout(TEST_SECONDS), AsyncExitStack() as stack:
            world = World(stack)
            received: asyncio.Queue[int] = asyncio.Queue()
            back = asyncio.Event()

            async def note() -> None:
                back.set()

            nc = nats.NATS()
            async with world.server() as server:
                port = server.port
                await nc.connect(
                    server.url,
                    reconnect_time_wait=0.01,  # type: ignore[arg-type]
                    reconnected_cb=note,
                    error_cb=ignore,
                )
                client = await stan.connect("test", "me", nats=nc)
                await client.publish("foo", b"before")
                await client.subscribe(
                    "foo",
                    lambda message: received.put_nowait(message.sequence),
                    start_at=stan.StartPosition.FIRST,
                )
                assert await received.get() == 1
            async with world.server(port):
                await back.wait()
                for _ in range(2):
                    await client.publish("foo", b"after")
                got = {await received.get()}
                while not got >= {2, 3}:  # 1 comes again when its acknowledgement was lost
                    got.add(await received.get())
                await client.close()
                await nc.close()

    asyncio.run(test())


def test_restart_that_loses_the_store_is_a_lost_connection() -> None:
    async def test() -> None:
        async with asyncio.timeout(TEST_SECONDS), AsyncExitStack() as stack:
            world = World(stack)
            told: asyncio.Queue[str] = asyncio.Queue()
            async with world.server() as server:
                port = server.port
                client = await world.connect(
                    ping_interval=0.05, connection_lost=lambda _, error: told.put_nowait(str(error))
                )
                client.nats.options["reconnect_time_wait"] = 0.01
            world.store = MemoryStore()
            async with world.server(port):
                assert await told.get() == "client has been replaced or is no longer registered"
                assert client.closed

    asyncio.run(test())


def test_limits_of_the_server() -> None:
    async def test() -> None:
        async with asyncio.timeout(TEST_SECONDS), AsyncExitStack() as outer, AsyncExitStack() as stack:
            world = World(stack)
            await outer.enter_async_context(world.server(max_channels=1, max_msgs=1))
            async with stack:
                client = await world.filled(2)
                with pytest.raises(stan.StanError, match=r"^too many channels$"):
                    await client.publish("bar", b"")
                subscription = await client.subscribe("foo", start_at=stan.StartPosition.FIRST)
                assert sequences(await take(subscription, 1)) == [2]

    asyncio.run(test())


@scenario
async def test_example_does_what_it_says(world: World) -> None:
    example = runpy.run_path(str(Path(__file__).parents[3] / "examples" / "stan_publish_subscribe.py"))

    assert await example["walk"](world.url, "test") == [
        "order 1: one tea",
        "order 2: two coffees",
        "order 3, after a break: three cakes",
    ]
