"""`python -m bench spark-stream`: what a micro-batch costs, how late rows are, and how many a second keep up.

The fixed cost is the time of a trigger with 100 rows into the noop sink: from a STAN channel of Headrace and
a JetStream stream of nats-server, beside a Python source that makes its rows in memory, in one session, in
turns. Latency goes from the publisher's clock to a function in `foreachBatch` that has the row. A rate is
sustained when the lag at its end is what it was. Publisher, servers and Spark share the machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.cases import Fill
from bench.errors import BenchError
from bench.machine import ROOT
from bench.process import Command, default_peer, default_server, running
from bench.progress import Progress, short_number
from bench.render import PAGE, RESULTS, replace_section
from bench.sides import side_command
from bench.spark_feed import STAMP
from bench.spark_pull import ROW_BYTES, TASKS, let_workers_import
from bench.spark_scan import fill
from bench.stores import STREAM, fill_by_publishing, temporary_stores

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from headrace.client.blocking import Connection

ROWS = 100
"""Rows of a micro-batch whose fixed cost is measured."""
TARGET = 1.5
LATENCY_RATES = (1_000, 10_000)
CLUSTER = "bench"
LIVE = "live"
_WARM_UP = 15
_WARM_UP_S = 2.0
_PHASES = ("latestOffset", "getBatch", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
_LONGEST_S = 300.0

TITLES = {
    "memory": "Python source in memory",
    "channel": "STAN channel of Headrace",
    "stream": "JetStream stream of nats-server",
}


@dataclass(frozen=True, slots=True)
class Bench:
    """What is measured with: a session, the two servers, and a directory for checkpoints."""

    spark: SparkSession
    headrace: str
    peer: str
    directory: Path

    def source(self, name: str, **more: str) -> DataFrame:
        """The stream of one side."""
        made = self.spark.readStream
        if name == "memory":
            return made.format("bench_memory").options(rows=str(ROWS)).load()
        chosen = {"url": self.peer, "stream": STREAM}
        if name == "channel":
            chosen = {"url": self.headrace, "clusterId": CLUSTER, "channel": STREAM}
        limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(ROWS)}
        return made.format("nats").options(**{**chosen, **limits, **more}).load()

    def live(self) -> DataFrame:
        """The channel that is published into now."""
        options = {"url": self.headrace, "clusterId": CLUSTER, "channel": LIVE}
        return self.spark.readStream.format("nats").options(**options).load()

    def checkpoint(self) -> str:
        return tempfile.mkdtemp(dir=self.directory)

    @contextmanager
    def feeding(self, rate: float, seconds: float) -> Iterator[subprocess.Popen[str]]:
        """A publisher that runs beside a block."""
        words = ["-m", "bench.spark_feed", self.headrace, CLUSTER, LIVE, str(rate), str(seconds)]
        with subprocess.Popen([sys.executable, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True) as one:
            try:
                yield one
            finally:
                one.kill()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reps", type=int, default=3, help="rounds of each side (default 3)")
    parser.add_argument("--batches", type=int, default=40, help="micro-batches of a round (default 40)")
    parser.add_argument("--seconds", type=float, default=8.0, help="of a phase with a publisher (default 8)")
    parser.add_argument("--rates", default="50000,100000,200000", help="rows a second to sustain, rising")
    parser.add_argument("--name", default="spark-stream", help="result file, without .json")


def measure(options: argparse.Namespace, origin: dict[str, object]) -> dict[str, Any]:
    """Give the times of micro-batches, latencies and sustained rates. Raises: BenchError."""
    from bench.spark_memory import MemorySource
    from headrace.spark.session import session

    let_workers_import()
    ours, theirs = Command(default_server()), Command(default_peer())
    headrace, jetstream = (side_command(side, ours, theirs) for side in ("streaming", "jetstream"))
    rows = ROWS * (options.batches + _WARM_UP + 30)
    with temporary_stores() as stores, stores.fresh() as directory:
        log, stream = directory / "log", directory / "jetstream"
        fill(log, rows)
        stream.mkdir()
        fill_by_publishing(stream, Fill(rows, ROW_BYTES), jetstream)
        spark = session("headrace bench", master=f"local[{TASKS}]", log_file=directory / "spark.log")
        try:
            spark.dataSource.register(MemorySource)
            with running(headrace, directory=log) as one, running(jetstream, directory=stream) as other:
                urls = f"nats://127.0.0.1:{one.port}", f"nats://127.0.0.1:{other.port}"
                bench = Bench(spark, *urls, directory)
                return {
                    **origin,
                    "rows": ROWS,
                    "reps": options.reps,
                    "floor": _floors(bench, options.reps, options.batches),
                    "latency": [_latency(bench, rate, options.seconds) for rate in LATENCY_RATES],
                    "sustained": _sustained(bench, options),
                    "load": os.getloadavg()[1],
                }
        finally:
            spark.stop()


# ---- the fixed cost -------------------------------------------------------------------------------


def _floors(bench: Bench, reps: int, batches: int) -> dict[str, list[dict[str, Any]]]:
    """Each side's rounds; the first one warms up and is not told."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in TITLES}
    progress = Progress((reps + 1) * len(TITLES))
    for rep in range(reps + 1):
        for name in TITLES if rep % 2 else reversed(TITLES):
            progress.begin(TITLES[name])
            one = _floor(bench, name, batches)
            progress.step(f"{TITLES[name]}: {one['trigger']:.0f} ms a micro-batch")
            if rep:
                found[name].append(one)
    progress.close()
    return found


def _floor(bench: Bench, name: str, batches: int) -> dict[str, Any]:
    """Median times in ms of the micro-batches of one query."""
    writer = bench.source(name).writeStream.format("noop").trigger(processingTime="0 seconds")
    query = writer.option("checkpointLocation", bench.checkpoint()).start()
    try:
        _wait(query, lambda: _batch(query) >= _WARM_UP + batches)
        seen = [one for one in query.recentProgress if one["batchId"] >= _WARM_UP][:batches]
    finally:
        query.stop()
    if any(one["numInputRows"] != ROWS for one in seen):
        raise BenchError(f"{name}: a micro-batch has not {ROWS} rows")
    times = [one["durationMs"] for one in seen]
    phases = {phase: median(one.get(phase, 0) for one in times) for phase in _PHASES}
    triggers = sorted(one["triggerExecution"] for one in times)
    return {"trigger": median(triggers), "p99": _quantile(triggers, 0.99), "phases": phases}


# ---- latency --------------------------------------------------------------------------------------


def _latency(bench: Bench, rate: int, seconds: float) -> dict[str, Any]:
    """ms from publishing a row to having it in `foreachBatch`, once the query is warm."""
    import numpy as np

    found: list[tuple[float, Any]] = []

    def handle(frame: DataFrame, _: int) -> None:
        stamps = [STAMP.unpack_from(one)[0] for one in frame.select("data").toArrow()["data"].to_pylist()]
        now = time.time_ns()
        found.append((time.monotonic(), (now - np.array(stamps, dtype=np.int64)) / 1e6))

    writer = bench.live().writeStream.foreachBatch(handle)
    query = writer.option("checkpointLocation", bench.checkpoint()).start()
    try:
        _wait(query, lambda: query.lastProgress is not None)
        with bench.feeding(rate, 2 * seconds) as feeder:
            first = time.monotonic() + seconds
            feeder.wait(_LONGEST_S + 2 * seconds)
        last = time.monotonic()
    finally:
        query.stop()
    warm = [ages for at, ages in found if first <= at <= last]
    if not warm:
        raise BenchError("no row came while rows were published")
    ages = np.sort(np.concatenate(warm))
    return {"rate": rate, "rows": len(ages), "p50": _quantile(ages, 0.5), "p99": _quantile(ages, 0.99)}


# ---- what keeps up --------------------------------------------------------------------------------


def _sustained(bench: Bench, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Rising rates, to the first one at which the lag grows."""
    found: list[dict[str, Any]] = []
    for rate in map(int, options.rates.split(",")):
        found.append(_at_rate(bench, rate, options.seconds))
        print(
            f"{short_number(rate)} rows/s: lag {found[-1]['lags']} rows, flat: {found[-1]['flat']}",
            flush=True,
        )
        if not found[-1]["flat"]:
            break
    return found


def _at_rate(bench: Bench, rate: int, seconds: float) -> dict[str, Any]:
    """Whether the lag, in rows, is in the last third of the time what it was in the second."""
    from headrace.client.blocking import connect

    writer = bench.live().writeStream.format("noop")
    query = writer.option("checkpointLocation", bench.checkpoint()).start()
    lags: list[tuple[float, int]] = []
    try:
        _wait(query, lambda: query.lastProgress is not None)
        with bench.feeding(rate, _WARM_UP_S) as feeder:  # a query's first batches with rows take seconds
            feeder.wait(_LONGEST_S)
        with connect(bench.headrace) as nc:
            _wait(query, lambda: _lag(nc, query) == 0)
        with connect(bench.headrace) as nc, bench.feeding(rate, seconds) as feeder:
            begin = time.monotonic()
            while feeder.poll() is None:
                time.sleep(0.1)
                lags.append((time.monotonic() - begin, _lag(nc, query)))
            words = feeder.stdout.read().split() if feeder.stdout else []
    finally:
        query.stop()
    if len(words) != 2:
        raise BenchError("the publisher failed")
    stored, took = int(words[0]), float(words[1])
    middle = [lag for at, lag in lags if seconds / 3 <= at < 2 * seconds / 3]
    late = [lag for at, lag in lags if at >= 2 * seconds / 3]
    lag = [round(median(middle)), round(median(late))]
    reached = stored / took
    # A micro-batch more or less is no trend.
    flat = lag[1] <= lag[0] + reached / 4 and reached >= 0.95 * rate
    return {"rate": rate, "reached": reached, "lags": lag, "flat": flat}


def _lag(connection: Connection, query: StreamingQuery) -> int:
    """Rows that are stored and in no finished micro-batch."""
    from headrace.client.replay import channel_state

    progress: Any = query.lastProgress
    offset = progress["sources"][0]["endOffset"]
    places = offset if isinstance(offset, dict) else json.loads(offset)
    state = channel_state(connection, CLUSTER, LIVE)
    return 0 if state is None else state.last_sequence + 1 - int(places["channels"][LIVE]["next"])


def _batch(query: StreamingQuery) -> int:
    progress: Any = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])


def _wait(query: StreamingQuery, ready: Callable[[], bool]) -> None:
    """Wait for a query. Raises: BenchError when it takes too long; what ended the query."""
    until = time.monotonic() + _LONGEST_S
    while not ready():
        if not query.isActive:
            raise BenchError(f"the query ended: {query.exception()}")
        if time.monotonic() > until:
            raise BenchError(f"the query is not where it should be after {_LONGEST_S:g} s")
        time.sleep(0.02)


def _quantile(ordered: Any, share: float) -> float:
    return float(ordered[min(int(share * len(ordered)), len(ordered) - 1)])


# ---- telling --------------------------------------------------------------------------------------


def stream_text(result: dict[str, Any]) -> str:
    """Give a result as tables with its ratios and the target."""
    machine, floors = result["machine"], result["floor"]
    base = median(one["trigger"] for one in floors["memory"])
    lines = [
        f"- machine: {machine['cores']} × {machine['cpu']}, {machine['memory_gib']} GiB; "
        f"{result['created']}; `local[{TASKS}]`, our session's settings",
        f"- medians of {result['reps']} rounds in turns, {result['rows']} rows in a micro-batch, noop sink; "
        f"run by `{result['command']}`",
        f"- load average of the last five minutes, this run included: {result['load']:.1f}",
        "",
        f"| source | ms a micro-batch | p99 | {' | '.join(_PHASES)} | |",
        f"|---|---|---|{'---|' * len(_PHASES)}---|",
    ]
    for name, title in TITLES.items():
        rounds = floors[name]
        cost = median(one["trigger"] for one in rounds)
        p99 = median(one["p99"] for one in rounds)
        phases = " | ".join(f"{median(one['phases'][phase] for one in rounds):.0f}" for phase in _PHASES)
        lines.append(f"| {title} | {cost:.0f} | {p99:.0f} | {phases} | {_verdict(name, cost / base)} |")
    lines += ["", "| published, rows/s | latency p50 | p99 |", "|---|---|---|"]
    lines += [f"| {one['rate']:,} | {one['p50']:.0f} ms | {one['p99']:.0f} ms |" for one in result["latency"]]
    kept = [one["reached"] for one in result["sustained"] if one["flat"]]
    failed = [one["rate"] for one in result["sustained"] if not one["flat"]]
    text = f"Lag stays flat at {short_number(max(kept))} rows/s" if kept else "No rate kept the lag flat"
    if failed:
        text += f"; at {short_number(failed[0])} it grows or the publisher does not reach it"
    lines += ["", f"{text} (rows of {ROW_BYTES} B from a channel, publisher on the same cores)."]
    return "\n".join(lines) + "\n"


def _verdict(name: str, ratio: float) -> str:
    if name == "memory":
        return ""
    verdict = "met" if ratio <= TARGET else "missed"
    return f"{ratio:.2f}× in memory (target ≤ {TARGET:g}×: **{verdict}**)"


def render_stream() -> None:
    """Fill the section of docs/performance.md from the stored result."""
    path = RESULTS / "spark-stream.json"
    found = path.exists()
    text = stream_text(json.loads(path.read_text(encoding="utf-8"))) if found else "Not measured yet.\n"
    PAGE.write_text(replace_section(PAGE.read_text(encoding="utf-8"), "spark-stream", text), encoding="utf-8")


def run_stream(options: argparse.Namespace, origin: dict[str, object]) -> int:
    """Measure, write the result and show it; exit code 0."""
    result = measure(options, origin)
    path = RESULTS / f"{options.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result) + "\n", encoding="utf-8")
    print(stream_text(result))
    if options.name == "spark-stream":
        render_stream()
    return 0
