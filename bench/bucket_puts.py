"""The cost of putting objects: CPU and latency of a client of ours over a store with a fixed latency.

Here lives what a process pays for each put, as a server makes them: create only, over HTTP, on the server's
loop, by size and by how many are under way. Never here: a server, or its streams.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.bucket_store import running_store
from headrace.bucket.opening import open_bucket
from headrace.bucket.requests import BucketRequests
from headrace.server.loop import run_in_poller

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from bench.bucket_store import BenchStore

SIZES: Final = (200, 64 << 10, 1 << 20)
IN_FLIGHT: Final = (1, 4)


class Cost(NamedTuple):
    """The cost of puts: how many a second, CPU in µs each, latencies in ms."""

    per_second: float
    cpu_us: float
    p50_ms: float
    p99_ms: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what `python -m bench bucket-puts` takes."""
    parser.add_argument("--latency-ms", type=float, default=5.0, help="of the store (default 5)")
    parser.add_argument("--puts", type=int, default=400, help="of each size (default 400)")


def run_puts(options: argparse.Namespace, _origin: dict[str, object]) -> int:
    """Measure and print. Raises: BenchError."""
    with running_store("fixed", options.latency_ms) as store:
        costs = run_in_poller(measure(store, options.puts))
    print(f"{'bytes':>9} {'in flight':>9} {'puts/s':>8} {'CPU µs':>8} {'p50 ms':>8} {'p99 ms':>8}")
    for (size, in_flight), cost in costs.items():
        print(
            f"{size:9,} {in_flight:9} {cost.per_second:8,.0f} {cost.cpu_us:8,.0f} "
            f"{cost.p50_ms:8.2f} {cost.p99_ms:8.2f}"
        )
    return 0


async def measure(where: BenchStore, puts: int) -> dict[tuple[int, int], Cost]:
    """Return the cost of a put by its bytes and by how many are under way."""
    store = BucketRequests(open_bucket(where.options("puts")).store, random.random)
    keys = (f"{number:020}" for number in itertools.count())
    costs = {}
    for size, in_flight in itertools.product(SIZES, IN_FLIGHT):
        data = os.urandom(size)
        await asyncio.gather(*(store.create(next(keys), data) for _ in range(in_flight)))  # connections
        costs[size, in_flight] = await _cost(store, itertools.islice(keys, puts), data, in_flight)
    return costs


async def _cost(store: BucketRequests, keys: Iterator[str], data: bytes, in_flight: int) -> Cost:
    latencies: list[float] = []

    async def put_on() -> None:
        for key in keys:
            began = time.perf_counter()
            await store.create(key, data)
            latencies.append(time.perf_counter() - began)

    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(put_on() for _ in range(in_flight)))
    cpu, seconds = time.process_time() - cpu, time.perf_counter() - began
    latencies.sort()
    many = len(latencies)
    p50, p99 = latencies[many // 2] * 1e3, latencies[int(many * 0.99)] * 1e3
    return Cost(many / seconds, cpu / many * 1e6, p50, p99)
