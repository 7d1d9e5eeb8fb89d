"""Streams in a bucket, beside streams of nats-server with three replicas: rates, latencies, CPU, requests.

Here live the loads that both get, and the tables with what is asked of us. CPU is that of all three servers,
the store's is not counted. Never here: what else is asked (`bucket_scenarios`), what one put costs
(`bucket_puts`), a bucket of a provider.
"""

from __future__ import annotations

import statistics
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from bench import bucket_scenarios
from bench.bucket_cluster import NO_BUDGET, SERVERS, running
from bench.bucket_findings import met
from bench.bucket_findings import table as findings_table
from bench.bucket_scenarios import SCENARIOS
from bench.bucket_store import KINDS, running_store
from bench.generator import build_generator, run_load
from bench.progress import Progress
from bench.stores import STREAM

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from bench.bucket_cluster import Node
    from bench.bucket_findings import Finding
    from bench.bucket_store import StoreKind
    from bench.generator import Report

Side = Literal["bucket", "replicas"]
SIDES: Final[tuple[Side, ...]] = ("bucket", "replicas")
SCENARIO_LATENCY_MS: Final = 5.0
FAR_LATENCY_MS: Final = 30.0
"""Of the store of a scenario that asks what a store far away costs."""
"""The latency of a fixed store under what is no load."""
PARTS: Final = ("loads", *SCENARIOS)
"""What is measured; the first is the table beside nats-server."""


class Load(NamedTuple):
    """Publishers of a stream. `window`: messages on their way of each; `payload`: bytes of a message;
    `puts_per_second`: the budget of the bucket; `is_python`: the publisher is nats-py, which is slower than
    any server here, and costs servers more than the generator in C: it sends a few messages at once.
    """

    title: str
    latency_ms: float
    publishers: int
    window: int
    payload: int = 128
    puts_per_second: int = NO_BUDGET
    is_python: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the load generator."""
        counts = ("--flows", str(self.publishers), "--inflight", str(self.window))
        return ("store", "--speak", "jetstream", "--payload", str(self.payload), *counts)

    def target(self, result: Result) -> str:
        """What is asked of streams in a bucket, and whether it is met."""
        if self.puts_per_second != NO_BUDGET:
            most = self.latency_ms + 2000 / self.puts_per_second
            return f"p99 ≤ {most:.1f} ms: {met(result.p99_ms <= most)}"
        if self.is_python:
            return ""
        if self.window > 1:
            least = 0.7 * self.window / self.latency_ms * 1000
            return f"≥ {least:,.0f} msg/s: {met(result.rate >= least)}"
        if self.publishers > 1:
            most = 2.5 * self.latency_ms
            return f"p99 ≤ {most:.1f} ms: {met(result.p99_ms <= most)}"
        most = self.latency_ms + 3
        return f"p50 ≤ {most:.1f} ms: {met(result.p50_ms <= most)}"


LOADS: Final[tuple[Load, ...]] = (
    Load("1 publisher, window of 500", 5, 1, 500),
    Load("1 publisher, window of 10,000", 30, 1, 10_000),
    Load("1 publisher that waits", 5, 1, 1),
    Load("1 publisher that waits", 30, 1, 1),
    Load("100 publishers that wait", 5, 100, 1),
    Load("100 publishers that wait", 30, 100, 1),
    Load("1 nats-py publisher, window of 500", 5, 1, 500, is_python=True),
    Load("1 publisher, window of 500, budget of 50 puts/s", 5, 1, 500, puts_per_second=50),
)
CPU_SHARE: Final = 0.3
"""The CPU for a message that is asked of us, as a share of nats-server's, with a window."""


WARM_UP: Final = LOADS[0]
WARM_UP_S: Final = 0.5
"""Seconds of a load on another stream before what is measured: modules are loaded, connections are there."""


class Result(NamedTuple):
    """One load at one cluster: messages a second, ms, CPU of all servers in µs a message, puts a second."""

    rate: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    puts: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what `python -m bench bucket` takes."""
    parser.add_argument(
        "--part", choices=PARTS, action="append", help="what to measure (default: everything)"
    )
    parser.add_argument("--store", choices=KINDS, default="fixed", help="the object store (default fixed)")
    parser.add_argument("--reps", type=int, default=3, help="of each load, in turn (default 3)")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a measured phase (default 3)")
    bucket_scenarios.add_arguments(parser)


def run_bucket(options: argparse.Namespace, _origin: dict[str, object]) -> int:
    """Measure and print tables. Raises: BenchError."""
    build_generator()
    parts = options.part or PARTS
    if "loads" in parts:
        print("\n".join(table(_measured_loads(options))))
    findings: list[Finding] = []
    scenarios = [name for name in SCENARIOS if name in parts]
    progress = Progress(len(scenarios))
    try:
        for name in scenarios:
            bandwidth = options.cold_mbs if name == "cold" else 0.0
            latency_ms = FAR_LATENCY_MS if name == "streams" else SCENARIO_LATENCY_MS
            with running_store(options.store, latency_ms, bandwidth) as store:
                findings += SCENARIOS[name](store, options)
            progress.step(name)
    finally:
        progress.close()
        if findings:
            print("\n".join(findings_table(findings)))
    return 0


def _measured_loads(options: argparse.Namespace) -> dict[tuple[Load, Side], Result]:
    kind: StoreKind = options.store
    loads = LOADS
    if kind != "fixed":  # it has one latency, its own
        with running_store(kind, 0.0) as store:
            loads = tuple(dict.fromkeys(load._replace(latency_ms=store.latency_ms) for load in LOADS))
    found: dict[tuple[Load, Side], list[Result]] = {(load, side): [] for load in loads for side in SIDES}
    progress = Progress(options.reps * len(found))
    try:
        for _ in range(options.reps):
            for load in loads:
                for side in SIDES:
                    found[load, side].append(measured(load, side, options.seconds, kind))
                    progress.step(f"{side}: {load.title}, {load.latency_ms:g} ms")
    finally:
        progress.close()
    return {key: Result(*map(statistics.median, zip(*each, strict=True))) for key, each in found.items()}


def measured(load: Load, side: Side, seconds: float, kind: StoreKind = "fixed") -> Result:
    """Run a load at a new cluster. Raises: BenchError."""
    with ExitStack() as stack:
        store = stack.enter_context(running_store(kind, load.latency_ms)) if side == "bucket" else None
        cluster = stack.enter_context(running(store, load.puts_per_second))
        leader = cluster.nodes[cluster.leader()]
        _run_in_python(WARM_UP, leader, WARM_UP_S, "warm")
        before, puts = cluster.cpu_ns(), leader.puts()
        report = _run(load, leader, seconds)
        spent = cluster.cpu_ns() - before
        return Result(
            report["published"] / seconds,
            report["p50_us"] / 1000,
            report["p99_us"] / 1000,
            spent / 1000 / report["published"],
            (leader.puts() - puts) / seconds,
        )


def _run(load: Load, node: Node, seconds: float) -> Report:
    if load.is_python:
        return _run_in_python(load, node, seconds, STREAM)
    words = [str(build_generator()), *load.words, "--replicas", str(SERVERS)]
    words += ["--port", str(node.port), "--pid", str(node.process.pid)]
    words += ["--seconds", str(seconds), "--warmup", "0", "--deadline", str(seconds + 30)]
    return run_load(words, seconds + 60)


def _run_in_python(load: Load, node: Node, seconds: float, stream: str) -> Report:
    words = [sys.executable, "-m", "bench.nats_py_load", "--port", str(node.port), "--stream", stream]
    words += ["--replicas", str(SERVERS), "--inflight", str(load.window), "--payload", str(load.payload)]
    return run_load([*words, "--seconds", str(seconds)], seconds + 60)


# ---- what is shown --------------------------------------------------------------------------


def table(found: dict[tuple[Load, Side], Result]) -> Iterator[str]:
    """The lines of a Markdown table with the results of both sides."""
    yield "| load | store | | msg/s | p50 ms | p99 ms | CPU µs | of R3 | puts/s | asked |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for (load, side), result in found.items():
        share, asked, store = "", "", ""
        if side == "bucket":
            ratio = result.cpu_us / found[load, "replicas"].cpu_us
            share, store = f"{ratio:.2f}", f"{load.latency_ms:g} ms"
            asked = load.target(result)
            if load.window > 1:
                cpu = f"CPU ≤ {CPU_SHARE}×: {met(ratio <= CPU_SHARE)}"
                asked = f"{asked}; {cpu}" if asked else cpu
        name = "Headrace, bucket" if side == "bucket" else "nats-server, R3"
        numbers = f"{result.rate:,.0f} | {result.p50_ms:.2f} | {result.p99_ms:.2f} | {result.cpu_us:.1f}"
        yield f"| {load.title} | {store} | {name} | {numbers} | {share} | {result.puts:.0f} | {asked} |"
