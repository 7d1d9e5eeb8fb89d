"""How long streams in a bucket have no owner when theirs is killed, with a server that stands by."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Final

from bench.bucket_cluster import NO_BUDGET, Cluster, running
from bench.bucket_findings import Finding
from bench.bucket_load import Client, fill

if TYPE_CHECKING:
    import argparse

    from bench.bucket_store import BenchStore

MOST_S: Final = 1.5
"""Seconds from SIGKILL to the next acknowledgement, at most."""


def take_over(store: BenchStore, options: argparse.Namespace) -> list[Finding]:
    """Kill the owner of a filled store `--take-overs` times. Raises: BenchError."""
    with running(store, NO_BUDGET, servers=2) as cluster:
        fill(cluster.nodes[cluster.leader()], options.take_over_gb * 1e9)
        times = [_time_of_one(cluster) for _ in range(options.take_overs)]
    return take_over_findings(times, options.take_over_gb)


def _time_of_one(cluster: Cluster) -> float:
    """Kill the owner, publish at the other server, start the killed one again; return seconds."""
    cluster.await_rest()
    leader = cluster.leader()
    with Client(cluster.nodes[1 - leader].port) as client:
        began = time.perf_counter()
        cluster.nodes[leader].kill()
        client.publish()
        taken = time.perf_counter() - began
    cluster.nodes[leader].start()
    return taken


def take_over_findings(times: list[float], gb: float) -> list[Finding]:
    """Hold the seconds of takings over against what is asked of their median."""
    median = statistics.median(times)
    found = f"median {median:.2f} s of {len(times)}, {min(times):.2f} to {max(times):.2f} s"
    asked = f"median ≤ {MOST_S} s"
    return [Finding(f"SIGKILL of the owner, {gb:g} GB", found, asked, median <= MOST_S)]
