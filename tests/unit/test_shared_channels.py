"""A channel that is a stream too: one log, publishers and readers of both APIs, durables that go over."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import nats
import pytest
from msgspec.structs import replace

from harness.waiting import PATIENCE
from headrace.cli import streaming as cli
from headrace.client import stan
from headrace.conf.binding import load_options
from headrace.conf.jetstream_options import JetStreamOptions
from headrace.conf.streaming_options import StoreLimits, StreamingOptions
from headrace.errors import ConfigError, StartError
from headrace.protocol.rfc3339 import parse_time
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine
    from pathlib import Path

    from nats.aio.client import Client
    from nats.js import JetStreamContext

CLUSTER = "test-cluster"


def both(tmp_path: Path, **adopt: str) -> Server:
    streaming = StreamingOptions(store_type="FILE", directory=str(tmp_path / "stan"))
    jetstream = JetStreamOptions(store_dir=str(tmp_path / "js"))
    return Server(streaming=replace(streaming, adopt=adopt or {"orders": "ORDERS"}), jetstream=jetstream)


def run(work: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(30):
            await work

    asyncio.run(limited())


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[Client]:
    client = await nats.connect(server.url)
    try:
        yield client
    finally:
        await client.close()


async def publish(server: Server, *payloads: bytes, channel: str = "orders") -> None:
    async with await stan.connect(CLUSTER, "publisher", servers=server.url) as client:
        for payload in payloads:
            await client.publish(channel, payload)


async def everything(server: Server, count: int) -> list[tuple[int, bytes]]:
    """What a STAN subscriber gets from the beginning on."""
    got: list[tuple[int, bytes]] = []
    async with await stan.connect(CLUSTER, "reader", servers=server.url) as client:
        async for message in await client.subscribe("orders", start_at=stan.StartPosition.FIRST):
            got.append((message.sequence, message.data))
            if len(got) == count:
                return got
    raise AssertionError("the subscription ended")


async def pulled(js: JetStreamContext, durable: str, count: int) -> list[tuple[int, bytes]]:
    subscription = await js.pull_subscribe("orders", durable=durable)
    got = []
    while len(got) < count:
        for message in await subscription.fetch(count - len(got), timeout=5):
            got.append((message.metadata.sequence.stream, message.data))
            await message.ack_sync()
    return got


def test_stored_channel_is_a_stream_with_its_sequences_and_times(tmp_path: Path) -> None:
    async def work() -> None:
        limits = StoreLimits(max_msgs=50, max_age=3600.0)
        before = StreamingOptions(store_type="FILE", directory=str(tmp_path / "stan"), limits=limits)
        async with Server(streaming=before) as server:
            await publish(server, b"1", b"2", b"3")
        jetstream = JetStreamOptions(store_dir=str(tmp_path / "js"))
        async with (
            Server(streaming=replace(before, adopt={"orders": "ORDERS"}), jetstream=jetstream) as server,
            connected(server) as client,
        ):
            info = await client.jetstream().stream_info("ORDERS")
            assert (info.state.messages, info.state.first_seq, info.state.last_seq) == (3, 1, 3)
            assert (info.config.subjects, info.config.max_msgs, info.config.max_age) == (["orders"], 50, 3600)
            assert await pulled(client.jetstream(), "c", 3) == [(1, b"1"), (2, b"2"), (3, b"3")]
            stored = json.loads((await client.request("$JS.API.STREAM.MSG.GET.ORDERS", b'{"seq":2}')).data)
            async with await stan.connect(CLUSTER, "reader", servers=server.url) as reader:
                subscription = await reader.subscribe("orders", sequence=2)
                message = await anext(aiter(subscription))
            assert parse_time(stored["message"]["time"]) == message.timestamp

    run(work())


def test_publishers_of_both_append_and_readers_of_both_see_all(tmp_path: Path) -> None:
    async def work() -> None:
        async with both(tmp_path) as server, connected(server) as client:
            js = client.jetstream()
            live = await js.subscribe("orders", ordered_consumer=True)
            async with await stan.connect(CLUSTER, "writer", servers=server.url) as writer:
                followed = await writer.subscribe("orders")
                feed = aiter(followed)
                for number in range(1, 11):
                    if number % 2:
                        await writer.publish("orders", b"%d" % number)
                    else:
                        assert (await js.publish("orders", b"%d" % number)).seq == number
                    message = await anext(feed)
                    assert (message.sequence, message.data) == (number, b"%d" % number)
                    heard = await live.next_msg(timeout=PATIENCE)
                    assert heard.data == b"%d" % number
            expected = [(number, b"%d" % number) for number in range(1, 11)]
            assert await everything(server, 10) == expected
            assert await pulled(js, "c", 10) == expected
            info = await js.consumer_info("ORDERS", "c")
            assert (info.num_pending, info.num_ack_pending) == (0, 0)
        async with both(tmp_path) as server, connected(server) as client:
            assert await everything(server, 10) == expected
            assert (await client.jetstream().publish("orders", b"11")).seq == 11
            await publish(server, b"12")
            assert await pulled(client.jetstream(), "c", 2) == [(11, b"11"), (12, b"12")]

    run(work())


def test_conditions_are_judged_against_what_the_other_api_appended(tmp_path: Path) -> None:
    async def work() -> None:
        async with both(tmp_path) as server, connected(server) as client:
            js = client.jetstream()
            await publish(server, b"1")
            ack = await js.publish("orders", b"2", headers={"Nats-Expected-Last-Sequence": "1"})
            assert ack.seq == 2
            await publish(server, b"3")
            with pytest.raises(nats.js.errors.APIError) as refused:
                await js.publish("orders", b"no", headers={"Nats-Expected-Last-Sequence": "2"})
            assert refused.value.err_code == 10071

    run(work())


def test_what_is_removed_by_one_is_gone_for_the_other(tmp_path: Path) -> None:
    async def work() -> None:
        async with both(tmp_path) as server, connected(server) as client:
            js = client.jetstream()
            await publish(server, b"1", b"2", b"3", b"4")
            await js.pull_subscribe("orders", durable="c")
            assert (await js.consumer_info("ORDERS", "c")).num_pending == 4
            await js.delete_msg("ORDERS", 2)
            assert await everything(server, 3) == [(1, b"1"), (3, b"3"), (4, b"4")]
            answer = await client.request(f"_STAN.admin.{CLUSTER}.purge", b'{"channel":"orders","keep":1}')
            assert b'"purged":2' in answer.data
            assert (await js.consumer_info("ORDERS", "c")).num_pending == 1
            refused = await client.request(f"_STAN.admin.{CLUSTER}.delete", b'{"channel":"orders"}')
            assert b'"code":409' in refused.data
            await js.delete_stream("ORDERS")
            assert await everything(server, 1) == [(4, b"4")]
        async with both(tmp_path) as server, connected(server) as client:
            assert (await client.jetstream().stream_info("ORDERS")).state.messages == 1

    run(work())


async def leave_pending(server: Server, *, queue: str = "") -> None:
    """A durable gets five messages, acknowledges two of them, and goes."""
    async with await stan.connect(CLUSTER, "worker", servers=server.url) as worker:
        subscription = await worker.subscribe(
            "orders", queue=queue, durable_name="dur", start_at=stan.StartPosition.FIRST, manual_acks=True
        )
        feed = aiter(subscription)
        messages = [await anext(feed) for _ in range(5)]
        for message in (messages[0], messages[2]):
            await message.ack()
        await subscription.close()


@pytest.mark.parametrize(("queue", "arguments"), [("", ["dur", "--client", "worker"]), ("q", ["dur:q"])])
def test_durable_goes_over_with_what_it_had_pending(
    tmp_path: Path, queue: str, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    async def work() -> None:
        async with both(tmp_path) as server, connected(server) as client:
            await publish(server, *(b"%d" % number for number in range(1, 6)))
            await leave_pending(server, queue=queue)
            await publish(server, b"6")
            command = ["adopt", "orders", *arguments, "--consumer", "WORK", "--server", server.url]
            assert await asyncio.to_thread(cli.run, command) == 0
            assert await asyncio.to_thread(cli.run, command) == 1
            js = client.jetstream()
            info = await js.consumer_info("ORDERS", "WORK")
            assert (info.num_ack_pending, info.num_pending) == (3, 1)
            assert info.ack_floor is not None
            assert info.ack_floor.stream_seq == 1
            assert await pulled(js, "WORK", 1) == [(6, b"6")]
            report = await client.request(f"_STAN.admin.{CLUSTER}.report", b"{}")
            assert b'"subscriptions":[]' in report.data
        async with both(tmp_path) as server, connected(server) as client:
            js = client.jetstream()
            info = await js.consumer_info("ORDERS", "WORK")
            assert (info.num_ack_pending, info.num_pending) == (3, 0)

    run(work())
    captured = capsys.readouterr()
    assert "is consumer WORK of stream ORDERS, 3 pending" in captured.out
    assert "no such durable subscription" in captured.err


def test_durable_in_use_and_channels_that_are_no_streams_stay(tmp_path: Path) -> None:
    async def ask(client: Any, request: bytes) -> bytes:
        return bytes((await client.request(f"_STAN.admin.{CLUSTER}.adopt", request)).data)

    async def work() -> None:
        async with both(tmp_path) as server, connected(server) as client:
            await publish(server, b"1", channel="other")
            async with await stan.connect(CLUSTER, "worker", servers=server.url) as worker:
                await worker.subscribe("orders", durable_name="dur")
                request = b'{"channel":"orders","client_id":"worker","durable":"dur"}'
                assert b"in use" in await ask(client, request)
            assert b"no such durable" in await ask(client, b'{"channel":"orders","durable":"dur:q"}')
            assert b"no JetStream stream" in await ask(client, b'{"channel":"other","durable":"dur"}')
            assert b"durable is missing" in await ask(client, b'{"channel":"orders"}')
            answer = await ask(client, request[:-1] + b',"consumer":"a.b"}')
            assert b'"code":409' in answer

    run(work())


def test_stream_with_messages_of_its_own_is_not_taken_for_a_channels(tmp_path: Path) -> None:
    async def work() -> None:
        jetstream = JetStreamOptions(store_dir=str(tmp_path / "js"))
        async with Server(jetstream=jetstream) as server, connected(server) as client:
            await client.jetstream().add_stream(name="OTHER", subjects=["orders"])
        with pytest.raises(StartError, match="cannot be adopted"):
            await both(tmp_path).__aenter__()

    run(work())


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("streaming { store: FILE, dir: x, adopt: [a] }", "adopt needs JetStream"),
        ("jetstream: on\nstreaming { adopt: [a] }", "adopt needs a FILE store"),
        ("jetstream: on\nstreaming { store: FILE, dir: x, adopt: [a.b] }", "cannot be a stream's name"),
        ("jetstream: on\nstreaming { store: FILE, dir: x, adopt { a: S, b: S } }", "of one channel"),
        ('jetstream: on\nstreaming { store: FILE, dir: x, adopt { "a.*": S } }', "invalid channel name"),
        ("jetstream: on\nstreaming { store: FILE, dir: x, adopt { a: 5 } }", "must be a string"),
        (
            "jetstream { sync: never }\nstreaming { store: FILE, dir: x, adopt: [a] }",
            "streaming has sync group, and JetStream never",
        ),
    ],
)
def test_configuration_that_cannot_be_says_why(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load_options(text=text, environ={})


def test_configuration_names_channels_and_streams() -> None:
    text = 'jetstream: on\nstreaming { store: FILE, dir: x, adopt { orders: ORDERS, "a.b": AB } }'
    streaming = load_options(text=text, environ={}).streaming
    assert streaming is not None
    assert streaming.adopt == {"orders": "ORDERS", "a.b": "AB"}
    listed = load_options(text="jetstream: on\nstreaming { store: FILE, dir: x, adopt: [a, b] }").streaming
    assert listed is not None
    assert listed.adopt == {"a": "a", "b": "b"}
