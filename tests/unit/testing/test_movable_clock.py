"""A clock that tests move: in what order calls are made, and what JetStream does by it."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar, copy_context
from itertools import pairwise
from time import time_ns
from typing import TYPE_CHECKING, Any, Final

import nats
import pytest
from nats.js.api import ConsumerConfig
from nats.js.errors import NotFoundError

import headrace
from harness.waiting import PATIENCE
from headrace.client import stan
from headrace.protocol.rfc3339 import format_time
from headrace.testing import Server
from headrace.testing.clock import MovableClock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

SECOND: Final = 10**9
HOUR: Final = 3600


def on_a_clock(test: Callable[[MovableClock], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(test(MovableClock()))

    run.__name__ = test.__name__
    return run


@on_a_clock
async def test_calls_are_made_in_order_each_at_its_time(clock: MovableClock) -> None:
    made: list[tuple[str, bool]] = []
    began = clock.now_ns()

    def set_call(name: str, seconds: int) -> None:
        due = began + seconds * SECOND

        def call() -> None:
            made.append((name, due <= clock.now_ns() < due + HOUR * SECOND // 2))

        clock.call_later(seconds, call)

    for name, hours in (("third", 3), ("first", 1), ("second", 2), ("late", 5)):
        set_call(name, hours * HOUR)
    await clock.advance(4 * HOUR)
    assert made == [("first", True), ("second", True), ("third", True)]
    assert clock.now_ns() >= began + 4 * HOUR * SECOND

    await clock.advance(HOUR)
    assert made[3:] == [("late", True)]


@on_a_clock
async def test_calls_that_calls_set_are_made_if_they_are_due_too(clock: MovableClock) -> None:
    made: list[int] = []

    def again() -> None:
        made.append(clock.now_ns())
        clock.call_later(60, again)

    clock.call_later(60, again)
    await clock.advance(10 * 60)

    assert len(made) == 10
    assert all(after - before >= 60 * SECOND for before, after in pairwise(made))


@on_a_clock
async def test_call_that_is_cancelled_is_not_made(clock: MovableClock) -> None:
    made: list[str] = []
    second = clock.call_later(2, lambda: made.append("second"))
    clock.call_later(1, second.cancel)
    never = clock.call_later(3, lambda: made.append("third"))
    never.cancel()
    never.cancel()

    await clock.advance(10)

    assert made == []


@on_a_clock
async def test_call_is_made_by_itself_when_its_rest_of_the_time_is_over(clock: MovableClock) -> None:
    made = asyncio.Event()
    clock.call_later(HOUR + 0.01, made.set)
    await clock.advance(HOUR)
    async with asyncio.timeout(PATIENCE):
        await made.wait()


@on_a_clock
async def test_call_has_its_context_by_itself_and_when_the_clock_is_moved(clock: MovableClock) -> None:
    name: ContextVar[str] = ContextVar("name", default="none")
    context = copy_context()
    context.run(name.set, "given")
    seen: list[str] = []
    made = asyncio.Event()

    def look() -> None:
        seen.append(name.get())
        made.set()

    clock.call_later(HOUR, look, context=context)
    await clock.advance(HOUR)
    made.clear()
    clock.call_later(0, look, context=context)
    async with asyncio.timeout(PATIENCE):
        await made.wait()

    assert seen == ["given", "given"]


@on_a_clock
async def test_clock_goes_on_after_a_call_that_fails(clock: MovableClock) -> None:
    made: list[str] = []
    clock.call_later(1, lambda: 1 // 0)
    clock.call_later(2, lambda: made.append("second"))
    with pytest.raises(ZeroDivisionError):
        await clock.advance(3)

    await clock.advance(3)

    assert made == ["second"]


@on_a_clock
async def test_clock_is_moved_forward_by_one_at_a_time(clock: MovableClock) -> None:
    for wrong in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="goes forward"):
            await clock.advance(wrong)
    for far in (1e10, 1e300):  # a log has no such time, and a call each second would be made until then
        with pytest.raises(ValueError, match="no time after 2262"):
            await clock.advance(far)
    clock.call_later(1, lambda: None)
    moving = asyncio.ensure_future(clock.advance(2))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="being moved already"):
        await clock.advance(1)
    await moving
    assert abs(clock.now_ns() - time_ns() - 2 * SECOND) < SECOND


# -- JetStream by it


def on_streams(test: Callable[[Server, Any], Coroutine[Any, Any, None]]) -> Callable[[str], None]:
    """The test with JetStream in memory and in files, and a client of it."""

    def run(storage: str) -> None:
        async def connected(server: Server) -> None:
            client = await nats.connect(server.url)
            try:
                await test(server, _Streams(client, storage))
            finally:
                await client.close()

        with Server(jetstream=True) as server:
            asyncio.run(connected(server))

    run.__name__ = test.__name__
    return pytest.mark.parametrize("storage", ["file", "memory"])(run)


class _Streams:
    """A client's JetStream, with a stream of the kind of storage that is tested."""

    def __init__(self, client: Any, storage: str) -> None:
        self.client = client
        self.context = client.jetstream()
        self._storage = storage

    async def add(self, **config: Any) -> None:
        await self.context.add_stream(name="S", subjects=["s.>"], storage=self._storage, **config)

    async def last(self, subject: str) -> Any:
        """The last message of a subject; None: there is none."""
        try:
            return await self.context.get_last_msg("S", subject)
        except NotFoundError:
            return None

    async def messages(self) -> int:
        return int((await self.context.stream_info("S")).state.messages)


@on_streams
async def test_messages_are_over_their_age(server: Server, streams: _Streams) -> None:
    await streams.add(max_age=HOUR)
    await streams.context.publish("s.a", b"x")
    server.advance(seconds=HOUR - 60)
    await streams.context.publish("s.a", b"y")
    assert await streams.messages() == 2

    server.advance(seconds=120)
    assert await streams.messages() == 1

    server.advance(seconds=HOUR)
    assert await streams.messages() == 0


@on_streams
async def test_message_that_is_not_acknowledged_comes_again(server: Server, streams: _Streams) -> None:
    await streams.add()
    await streams.context.publish("s.a", b"x")
    config = ConsumerConfig(ack_wait=HOUR)
    pulled = await streams.context.pull_subscribe("s.a", durable="d", config=config)
    for count in (1, 2, 3):
        (message,) = await pulled.fetch(1, timeout=PATIENCE)
        assert message.metadata.num_delivered == count
        server.advance(seconds=HOUR + 1)


@on_streams
async def test_id_is_forgotten_behind_the_duplicate_window(server: Server, streams: _Streams) -> None:
    await streams.add(duplicate_window=HOUR)
    ids = {"Nats-Msg-Id": "one"}
    answers = [await streams.context.publish("s.a", b"x", headers=ids) for _ in range(2)]
    assert [(answer.seq, bool(answer.duplicate)) for answer in answers] == [(1, False), (1, True)]

    server.advance(seconds=HOUR + 1)

    answer = await streams.context.publish("s.a", b"x", headers=ids)
    assert (answer.seq, bool(answer.duplicate)) == (2, False)


@on_streams
async def test_scheduled_message_is_published_at_its_time(server: Server, streams: _Streams) -> None:
    await streams.add(allow_msg_schedules=True)
    at = format_time(server.clock.now_ns() + HOUR * SECOND)
    headers = {"Nats-Schedule": f"@at {at}", "Nats-Schedule-Target": "s.now"}
    await streams.context.publish("s.later", b"x", headers=headers)
    server.advance(seconds=HOUR - 60)
    with pytest.raises(NotFoundError):
        await streams.context.get_last_msg("S", "s.now")

    server.advance(seconds=120)

    async with asyncio.timeout(PATIENCE):  # on disk it is a moment later
        while (message := await streams.last("s.now")) is None:
            pass
    assert message.data == b"x"


@on_streams
async def test_repeating_schedule_makes_each_of_its_messages(server: Server, streams: _Streams) -> None:
    await streams.add(allow_msg_schedules=True)
    headers = {"Nats-Schedule": "@every 1m", "Nats-Schedule-Target": "s.now"}
    await streams.context.publish("s.schedule", b"x", headers=headers)

    server.advance(seconds=10 * 60 + 1)

    assert (await streams.context.stream_info("S")).state.last_seq == 1 + 10


def test_time_stays_moved_over_a_restart() -> None:
    async def publish(url: str) -> int:
        client = await nats.connect(url)
        context = client.jetstream()
        await context.add_stream(name="S", subjects=["s"])
        await context.publish("s", b"x")
        stored = await context.get_msg("S", 1)
        await client.close()
        return int(stored.time.timestamp())

    with Server(jetstream=True, faults=True) as server:
        server.advance(seconds=24 * HOUR)
        server.kill()
        server.restart()
        stored = asyncio.run(publish(server.url))
        assert abs(stored - server.clock.now_ns() // SECOND) < PATIENCE


def test_streaming_delivers_again_when_its_ack_wait_is_over() -> None:
    async def run() -> None:
        async with Server(streaming=headrace.StreamingOptions(cluster_id="c")) as server:
            client = await stan.connect("c", "tester", servers=server.url)
            await client.publish("orders", b"42")
            subscription = await client.subscribe(
                "orders", start_at=stan.StartPosition.FIRST, manual_acks=True, ack_wait=30
            )
            seen = []
            async for message in subscription:
                seen.append(message.redelivered)
                if len(seen) == 2:
                    break
                await server.clock.advance(31)
            assert seen == [False, True]
            await client.close()

    asyncio.run(run())


def test_clock_is_moved_by_the_servers_own_thread() -> None:
    async def run() -> None:
        async with Server() as server:
            with pytest.raises(RuntimeError, match="enter it with `with`"):
                server.advance(1)

    asyncio.run(run())
    with Server() as server, pytest.raises(ValueError, match="goes forward"):
        server.advance(-1)
