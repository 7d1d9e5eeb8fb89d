"""Stores that released versions have written open as they were left.

`stores/<version>` was written by that version for published clients, and closed in order: streams with a
message deleted and others purged, a mirror, a work queue, a key-value bucket, consumers with messages that
await acknowledgement; a STAN channel with a durable subscription.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import nats
import pytest

import headrace
from harness.waiting import PATIENCE
from headrace.client import stan
from headrace.conf.streaming_options import StreamingOptions
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

STORES: Final = Path(__file__).parent / "stores"
VERSIONS: Final = sorted(folder.name for folder in STORES.iterdir())


@pytest.fixture(params=VERSIONS)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Copies of the stores of a version."""
    return Path(shutil.copytree(STORES / request.param, tmp_path / "stores"))


def with_streams(stores: Path, scenario: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    """Run a scenario with the streams of a store, twice: what this version has made of it opens as well."""

    async def run(url: str) -> None:
        async with await nats.connect(url) as client:
            await scenario(client.jetstream())

    options = headrace.JetStreamOptions(store_dir=str(stores / "jetstream"))
    for _ in range(2):
        with Server(jetstream=options) as server:
            asyncio.run(run(server.url))


def test_streams_have_their_messages(stores: Path) -> None:
    async def scenario(js: Any) -> None:
        states = {info.config.name: info.state for info in await js.streams_info()}
        found = {name: (state.messages, state.first_seq, state.last_seq) for name, state in states.items()}
        message = await js.get_msg("ORDERS", 12)

        assert found == {"ORDERS": (17, 3, 20), "COPY": (20, 1, 20), "WORK": (3, 3, 5), "KV_CFG": (5, 3, 7)}
        assert states["ORDERS"].num_deleted == 1
        assert (message.subject, message.data, message.headers) == ("orders.0", b"order 12", {"Number": "12"})

    with_streams(stores, scenario)


def test_buckets_have_their_values(stores: Path) -> None:
    async def scenario(js: Any) -> None:
        bucket = await js.key_value("CFG")

        assert [entry.value for entry in await bucket.history("a")] == [b"2", b"3", b"4"]
        assert await bucket.keys() == ["a"]

    with_streams(stores, scenario)


def test_consumers_go_on_where_they_were(stores: Path) -> None:
    async def scenario(js: Any) -> None:
        info = await js.consumer_info("ORDERS", "worker")

        assert (info.delivered.stream_seq, info.ack_floor.stream_seq) == (13, 7)
        assert (info.num_ack_pending, info.num_pending) == (6, 7)
        assert (await js.consumer_info("WORK", "queue")).num_pending == 3

    with_streams(stores, scenario)

    async def rest(url: str) -> list[bytes]:
        async with await nats.connect(url) as client:
            worker = await client.jetstream().pull_subscribe("", "worker", stream="ORDERS")
            return [message.data for message in await worker.fetch(13)]

    with Server(jetstream=headrace.JetStreamOptions(store_dir=str(stores / "jetstream"))) as server:
        found = asyncio.run(rest(server.url))
    # What was not acknowledged comes first: its time is over.
    assert found == [b"order %d" % number for number in range(8, 21)]


def test_durable_subscriptions_of_channels_go_on_where_they_were(stores: Path) -> None:
    async def scenario(url: str) -> list[tuple[int, bytes]]:
        async with await stan.connect("shop", "till", servers=url) as client:
            book = await client.subscribe("sales", durable_name="book", manual_acks=True)
            found = []
            async with asyncio.timeout(PATIENCE):
                async for message in book:
                    found.append((message.sequence, message.data))
                    if message.sequence == 10:
                        break
            return found

    options = StreamingOptions(cluster_id="shop", store_type="FILE", directory=str(stores / "streaming"))
    for _ in range(2):
        with Server(streaming=options) as server:
            found = asyncio.run(scenario(server.url))
            assert found == [(number, b"sale %d" % number) for number in range(4, 11)]
