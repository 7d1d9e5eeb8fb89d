"""The store of the bench does what obstore asks of S3, and its puts are measured."""

from __future__ import annotations

import asyncio
import time

import pytest
from bench.bucket_puts import IN_FLIGHT, SIZES, measure
from bench.bucket_store import BenchStore, running_store

from headrace.bucket.identity import check_identity
from headrace.bucket.opening import open_bucket
from headrace.objects.errors import KeyExists, KeyMissing

pytest.importorskip("obstore")


def test_store_keeps_the_contract_of_object_stores() -> None:
    async def run(where: BenchStore) -> None:
        store = open_bucket(where.options("a")).store
        await check_identity(store, "east")
        keys = [f"wal/{number:04}" for number in range(1100)]
        for first in range(0, len(keys), 100):  # each at once is a connection
            await asyncio.gather(*(store.put(key, key.encode()) for key in keys[first : first + 100]))
        assert [one.key async for one in store.list("wal")] == keys
        assert [one.key async for one in store.list("wal", after=keys[1050])] == keys[1051:]
        assert (await store.list_folder()).folders == ["cluster", "wal"]
        assert len((await store.list_folder("wal")).objects) == 1100
        assert await store.get_range(keys[0], 2, 100) == keys[0].encode()[2:]
        assert (await store.head(keys[0])).size == 8
        tried = [store.create("wal/new & <old>", b"%d" % number) for number in range(8)]
        outcomes = await asyncio.gather(*tried, return_exceptions=True)
        assert sum(outcome is None for outcome in outcomes) == 1
        assert sum(isinstance(outcome, KeyExists) for outcome in outcomes) == 7
        await store.delete(["wal/new & <old>", *keys, "none"])
        assert [one.key async for one in store.list("wal")] == []
        for missing in (store.get(keys[0]), store.head(keys[0])):
            with pytest.raises(KeyMissing):
                await missing

    with running_store("fixed", 0.0) as where:
        asyncio.run(run(where))


def test_answers_take_the_latency_at_least() -> None:
    async def run(where: BenchStore) -> float:
        store = open_bucket(where.options("a")).store
        began = time.perf_counter()
        await store.create("a", b"x")
        return time.perf_counter() - began

    with running_store("fixed", 50.0) as where:
        assert asyncio.run(run(where)) >= 0.05


def test_bodies_take_the_time_of_the_line_one_behind_the_other() -> None:
    async def run(where: BenchStore) -> float:
        store = open_bucket(where.options("a")).store
        await store.put("a", bytes(100_000))
        began = time.perf_counter()
        await asyncio.gather(*(store.get_range("a", 0, 50_000) for _ in range(4)))
        return time.perf_counter() - began

    with running_store("fixed", 10.0, bandwidth_mbs=1.0) as where:
        assert asyncio.run(run(where)) >= 0.01 + 4 * 0.05


def test_puts_are_measured_by_size_and_by_how_many_are_under_way() -> None:
    with running_store("fixed", 1.0) as where:
        costs = asyncio.run(measure(where, 10))

    assert set(costs) == {(size, in_flight) for size in SIZES for in_flight in IN_FLIGHT}
    for cost in costs.values():
        assert cost.p99_ms >= cost.p50_ms >= 1.0
        assert cost.cpu_us > 0
        assert cost.per_second > 0
