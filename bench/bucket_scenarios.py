"""What streams in a bucket do besides taking publications in at full speed: scenarios, each with its answer.

Here live their list, a load that goes on at a fixed rate, and an idle cluster: how many requests both make.
Never here: an owner that dies (`bucket_failover`), an empty disk (`bucket_cold`, `bucket_streams`),
`commit: disk` (`bucket_disk`), loads beside nats-server (`bucket`), the servers (`bucket_cluster`), the
stores (`bucket_store`).
"""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.bucket_cluster import NO_BUDGET, running
from bench.bucket_cold import cold
from bench.bucket_disk import disk
from bench.bucket_failover import take_over
from bench.bucket_findings import Finding
from bench.bucket_load import PAYLOAD, WINDOW, publish
from bench.bucket_streams import streams

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from bench.bucket_cluster import Cluster, Node
    from bench.bucket_store import BenchStore

RATE: Final = 50_000_000
"""Bytes a second of the load that goes on."""
BUDGET: Final = 50
"""Its puts a second: what a server has without a word of it."""
BURST_S: Final = 6.0
"""Seconds after which such a load has used up what may be put at once after a pause."""
QUIET_S: Final = 5.0
"""Seconds after which what a start asks for is over."""
_MISCOUNT: Final = 1.01
"""Puts a second that are looked at twice may be so much more: the moments of the looks are not exact."""


class Traffic(NamedTuple):
    """What a server did while a load went on: puts a second, and what the load says of messages."""

    puts_per_second: float
    messages_per_second: float
    p99_ms: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say how long and how large the scenarios are."""
    parser.add_argument(
        "--sustained-s", type=float, default=15.0, help="a load at a fixed rate, seconds (default 15)"
    )
    parser.add_argument("--idle-s", type=float, default=30.0, help="an idle cluster, seconds (default 30)")
    parser.add_argument(
        "--take-over-gb", type=float, default=1.0, help="the store that is taken over, GB (default 1)"
    )
    parser.add_argument("--take-overs", type=int, default=10, help="of it, in turn (default 10)")
    parser.add_argument("--cold-gb", type=float, default=1.0, help="the store without a disk, GB (default 1)")
    parser.add_argument(
        "--streams", type=int, default=100, help="streams of a server that has no disk (default 100)"
    )
    parser.add_argument(
        "--cold-mbs",
        type=float,
        default=250.0,
        help="MB/s that a fixed store sends at most to who has no disk (default 250; 0: no limit)",
    )


# ---- a load that goes on --------------------------------------------------------------------


def sustained(store: BenchStore, options: argparse.Namespace) -> list[Finding]:
    """Publish 50 MB/s for `--sustained-s`, within a budget of puts. Raises: BenchError."""
    with running(store, BUDGET, servers=1) as cluster:
        node = cluster.nodes[cluster.leader()]
        traffic = _traffic(node, options.sustained_s)
    return sustained_findings(traffic, store.latency_ms)


def _traffic(node: Node, seconds: float) -> Traffic:
    words = ["--inflight", str(WINDOW), "--rate", str(RATE / PAYLOAD)]
    words += ["--warmup", str(BURST_S), "--seconds", str(seconds + 1)]
    with ThreadPoolExecutor(1) as threads:
        load = threads.submit(publish, node, words, BURST_S + seconds)
        time.sleep(BURST_S)
        puts, began = node.puts(), time.monotonic()
        time.sleep(seconds)
        puts, taken = node.puts() - puts, time.monotonic() - began
        report = load.result()
    return Traffic(puts / taken, report["published"] / (seconds + 1), report["p99_us"] / 1000)


def sustained_findings(traffic: Traffic, latency_ms: float) -> list[Finding]:
    """Hold what was found of a load that goes on against what is asked."""
    title = f"{RATE / 1e6:.0f} MB/s, budget of {BUDGET} puts/s"
    rate = traffic.messages_per_second * PAYLOAD
    most_ms = latency_ms + 2000 / BUDGET
    return [
        Finding(title, f"{rate / 1e6:.1f} MB/s", f"≥ {RATE / 1e6:.0f} MB/s", rate >= 0.99 * RATE),
        Finding(
            title,
            f"{traffic.puts_per_second:.1f} puts/s",
            f"≤ {BUDGET} puts/s",
            traffic.puts_per_second <= _MISCOUNT * BUDGET,
        ),
        Finding(title, f"p99 {traffic.p99_ms:.1f} ms", f"p99 ≤ {most_ms:.1f} ms", traffic.p99_ms <= most_ms),
    ]


# ---- nothing to do --------------------------------------------------------------------------


def idle(store: BenchStore, options: argparse.Namespace) -> list[Finding]:
    """Leave three servers with a stream alone for `--idle-s`. Raises: BenchError."""
    with running(store, NO_BUDGET) as cluster:
        leader = cluster.leader()
        publish(cluster.nodes[leader], ["--count", "1000", "--inflight", "100", "--warmup", "0"], 30)
        cluster.await_rest()
        time.sleep(QUIET_S)
        asked = requests_per_minute(cluster, options.idle_s)
    return idle_findings(asked.pop(leader), asked)


def requests_per_minute(cluster: Cluster, seconds: float) -> list[Counter[str]]:
    """Return the requests that each server makes in a minute, by kind, as seen for so long."""
    before, began = [node.requests() for node in cluster.nodes], time.monotonic()
    time.sleep(seconds)
    after, taken = [node.requests() for node in cluster.nodes], time.monotonic() - began
    return [
        Counter({kind: round(60 / taken * count) for kind, count in (now - then).items()})
        for then, now in zip(before, after, strict=True)
    ]


def idle_findings(owner: Counter[str], standbys: list[Counter[str]]) -> list[Finding]:
    """Hold the requests of a minute against what is asked: one HEAD a second of the owner, and no more.

    Of the servers that stand by the one that asks most is told.
    """
    others = owner - Counter({"head": owner["head"]})
    is_proof_only = not others and owner["head"] <= 61
    asleep = max(standbys, key=lambda each: each.total())
    return [
        Finding(
            "idle, the owner", f"{kinds(owner)} a minute", "≤ 60 head a minute, nothing else", is_proof_only
        ),
        Finding("idle, a server that stands by", f"{kinds(asleep)} a minute", "nothing", not asleep.total()),
    ]


def kinds(requests: Counter[str]) -> str:
    """Return counts of requests in words."""
    return ", ".join(f"{count} {kind}" for kind, count in sorted(requests.items())) or "nothing"


SCENARIOS: Final[dict[str, Callable[[BenchStore, argparse.Namespace], list[Finding]]]] = {
    "sustained": sustained,
    "idle": idle,
    "take-over": take_over,
    "cold": cold,
    "streams": streams,
    "disk": disk,
}
"""The scenarios by name; each measures over a store that runs."""
