"""Many streams in a bucket on an empty disk: how long a start takes that has to open all of them.

A store far away makes what is asked for one after the other dear: the time is told in its latencies, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.bucket_cluster import NO_BUDGET, await_true, running
from bench.bucket_cold import first_message_s
from bench.bucket_findings import Finding
from bench.stores import STREAM, payload
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi

if TYPE_CHECKING:
    import argparse

    from bench.bucket_cluster import Node
    from bench.bucket_store import BenchStore

FILLED: Final = 90e6
"""Bytes in all streams: more than a snapshot waits for."""
MESSAGE: Final = 20_000
MOST_LATENCIES: Final = 60
"""Latencies of the store, one after the other, that a start may take."""


def streams(store: BenchStore, options: argparse.Namespace) -> list[Finding]:
    """Make `--streams` streams with a consumer each, and start without a disk. Raises: BenchError."""
    count: int = options.streams
    with running(store, NO_BUDGET, servers=1) as cluster:
        node = cluster.nodes[cluster.leader()]
        _fill(node, count)
        await_true(lambda: node.bucket()["snapshot"] > 0, "the server takes no snapshot")
        cluster.await_rest()
        node.kill()
        node.forget()
        taken = first_message_s(node)
        asked = node.requests()
    return [streams_finding(count, taken, store.latency_ms, asked.total(), asked["get"])]


def _fill(node: Node, count: int) -> None:
    data = payload(MESSAGE)
    with connect(f"nats://127.0.0.1:{node.port}") as connection:
        api = JetStreamApi(connection, "$JS.API")
        for number in range(count):
            name = f"{STREAM}{number or ''}"
            api.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": [name]})
            config = {"stream_name": name, "config": {"durable_name": "c", "ack_policy": "explicit"}}
            api.ask(f"CONSUMER.CREATE.{name}.c", config)
            for _ in range(int(FILLED / count / MESSAGE) - 1):
                connection.publish(name, data)
            api.put(name, data)


def streams_finding(count: int, seconds: float, latency_ms: float, requests: int, reads: int) -> Finding:
    """Hold a start with many streams against what is asked."""
    latencies = seconds * 1000 / latency_ms
    return Finding(
        f"empty disk, {count} streams, {latency_ms:g} ms",
        f"first message after {seconds:.2f} s, {latencies:.0f} latencies; {requests} requests, {reads} get",
        f"≤ {MOST_LATENCIES} latencies",
        latencies <= MOST_LATENCIES,
    )
