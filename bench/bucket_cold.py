"""Streams in a bucket on an empty disk: what a start downloads, and how fast all is read.

The bandwidth of the store is that of a client of ours which reads the same objects and does nothing else,
as many at once as a server asks for.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.bucket_cluster import NO_BUDGET, running
from bench.bucket_findings import Finding
from bench.bucket_load import PAYLOAD, Client, fill, read_all
from bench.errors import BenchError
from headrace.bucket.cache import THREADS
from headrace.bucket.extents import MOST_AT_ONCE
from headrace.bucket.opening import open_bucket

if TYPE_CHECKING:
    import argparse

    from bench.bucket_cluster import Node
    from bench.bucket_store import BenchStore
    from headrace.bucket.opening import BucketStores

SHARE: Final = 0.7
"""The share of the store's bandwidth that a reader is to have."""
MOST_DOWNLOADED: Final = 0.5
"""The share of a store that may be downloaded before the first answer."""


class ColdStart(NamedTuple):
    """A start on an empty disk: seconds to the first message that was asked for, bytes downloaded by then."""

    seconds: float
    downloaded: int


class Reading(NamedTuple):
    """MB/s of a reader of the whole stream, and of the store."""

    stream_mbs: float
    store_mbs: float


def cold(store: BenchStore, options: argparse.Namespace) -> list[Finding]:
    """Fill a store, and start without a disk: with and without a window of duplicates that has all of it.

    Then read everything. Raises: BenchError.
    """
    with running(store, NO_BUDGET, servers=1) as cluster:
        node = cluster.nodes[cluster.leader()]
        count = fill(node, options.cold_gb * 1e9)
        stored = count * PAYLOAD
        cluster.await_rest()
        recent = _cold_start(node)
        cluster.leader()
        with Client(node.port) as client:
            client.forget_ids()
        cluster.await_rest()
        old = _cold_start(node)
        cluster.leader()
        taken = read_all(node, count)["seconds"]
        bandwidth = store_bandwidth(open_bucket(store.options(cluster.prefix)))
    size = f"{options.cold_gb:g} GB"
    return [
        start_finding(f"empty disk, {size}, all in the window of duplicates", recent, stored),
        start_finding(f"empty disk, {size}", old, stored),
        reading_finding(Reading(stored / taken / 1e6, bandwidth / 1e6)),
    ]


def _cold_start(node: Node) -> ColdStart:
    """Stop a server, remove its disk, start it, ask for the first message."""
    node.stop()
    node.forget()
    return ColdStart(first_message_s(node), node.downloaded())


def first_message_s(node: Node) -> float:
    """Start a server; return the seconds until it gives its first message. Raises: BenchError."""
    began = time.perf_counter()
    node.start()
    node.await_port()
    with Client(node.port) as client:
        client.get_first()
    return time.perf_counter() - began


def store_bandwidth(stores: BucketStores) -> float:
    """Read all segments of a bucket, many ranges at once; return bytes a second. Raises: BenchError."""

    async def ranges() -> list[tuple[str, int, int]]:
        found = [one async for one in stores.store.list("shards")]
        return [
            (one.key, start, min(start + MOST_AT_ONCE, one.size))
            for one in found
            if "/segments/" in one.key and one.size is not None
            for start in range(0, one.size, MOST_AT_ONCE)
        ]

    wanted = asyncio.run(ranges())
    if not wanted:
        raise BenchError("so small a store is in the log alone, and not in segments: --cold-gb 0.2")
    began = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as threads:
        read = sum(threads.map(lambda one: len(stores.reads.get_range(*one)), wanted))
    return read / (time.perf_counter() - began)


def start_finding(title: str, start: ColdStart, stored: int) -> Finding:
    """Hold a start on an empty disk against what is asked: that it does not download the `stored` bytes."""
    return Finding(
        title,
        f"first message after {start.seconds:.2f} s, {start.downloaded / 1e6:,.1f} MB downloaded",
        "no full download",
        start.downloaded <= MOST_DOWNLOADED * stored,
    )


def reading_finding(reading: Reading) -> Finding:
    """Hold the speed of a reader against what is asked."""
    ratio = reading.stream_mbs / reading.store_mbs
    return Finding(
        "a reader of all of it, cold",
        f"{reading.stream_mbs:,.0f} MB/s; the store {reading.store_mbs:,.0f} MB/s, ratio {ratio:.2f}",
        f"≥ {SHARE} of the store's",
        ratio >= SHARE,
    )
