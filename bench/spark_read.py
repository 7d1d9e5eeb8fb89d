"""What is read from a JetStream stream of nats-server in a second, by our blocking reader and by nats-py.

The same rows of 128 B, in plain Python and in Spark's noop sink; nats-py reads as one writes it with pull
consumers, fewer rows because it takes so long. Sides take turns in an order that alternates; what is told are
medians. Not here: reading from a Headrace server, or what a micro-batch costs.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.cases import Fill
from bench.process import Command, default_peer, default_server, running
from bench.progress import Progress, short_number
from bench.render import PAGE, RESULTS, replace_section
from bench.sides import side_command
from bench.spark_pull import ROW_BYTES, TASKS, let_workers_import, pull, pull_source
from bench.stores import STREAM, fill_by_publishing, temporary_stores

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from pyspark.sql import SparkSession

PULL_ROWS = 50_000
TARGET = 8.0

TITLES = {
    "reader": "blocking reader, plain Python",
    "pull": "nats-py pull consumer, plain Python",
    "spark": '`format("nats")`, option `stream`',
    "spark-pull": "nats-py pull consumers in Spark tasks",
}


@dataclass(frozen=True, slots=True)
class Side:
    """One way to read: how many rows it has to find, and what finds them."""

    name: str
    rows: int
    read: Callable[[], int]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=1_000_000, help="stored messages (default 1 million)")
    parser.add_argument("--reps", type=int, default=5, help="repetitions of each side (default 5)")
    parser.add_argument("--name", default="spark-read", help="result file, without .json")


def measure(options: argparse.Namespace, origin: dict[str, object]) -> dict[str, Any]:
    """Give every side's rows per second, in the order they were measured. Raises: BenchError."""
    from headrace.spark.session import session

    let_workers_import()
    server = side_command("jetstream", Command(default_server()), Command(default_peer()))
    with temporary_stores() as stores, stores.fresh() as directory:
        print("filling the stream ...", flush=True)
        fill_by_publishing(directory, Fill(options.rows, ROW_BYTES), server)
        spark = session("headrace bench", master=f"local[{TASKS}]", log_file=directory / "spark.log")
        try:
            with running(server, directory=directory) as one:
                sides = _sides(spark, options.rows, f"nats://127.0.0.1:{one.port}")
                return {
                    **origin,
                    "rows": options.rows,
                    "reps": options.reps,
                    "rates": _take(sides, options.reps),
                }
        finally:
            spark.stop()


def _sides(spark: SparkSession, rows: int, url: str) -> list[Side]:
    from headrace.client.blocking import connect
    from headrace.client.jetstream import JetStream

    def by_reader() -> int:
        with connect(url) as nc:
            return sum(map(len, JetStream(nc).read(STREAM, 1, rows + 1)))

    def by_pull() -> int:
        return len(asyncio.run(pull(url, 1, PULL_ROWS)))

    def by_spark() -> int:
        frame = spark.read.format("nats").options(url=url, stream=STREAM).load()
        frame.write.format("noop").mode("overwrite").save()
        return rows

    def by_spark_pull() -> int:
        frame = spark.read.format("nats_py").options(url=url, rows=str(PULL_ROWS)).load()
        frame.write.format("noop").mode("overwrite").save()
        return PULL_ROWS

    spark.dataSource.register(pull_source())
    counted = spark.read.format("nats").options(url=url, stream=STREAM).load().count()
    assert counted == rows, f"{counted} rows of {rows}"
    return [
        Side("reader", rows, by_reader),
        Side("pull", PULL_ROWS, by_pull),
        Side("spark", rows, by_spark),
        Side("spark-pull", PULL_ROWS, by_spark_pull),
    ]


def _take(sides: list[Side], reps: int) -> dict[str, list[float]]:
    """One round of each to warm up, then in turns."""
    rates: dict[str, list[float]] = {side.name: [] for side in sides}
    progress = Progress((reps + 1) * len(sides))
    for rep in range(reps + 1):
        for side in reversed(sides) if rep % 2 else sides:
            progress.begin(TITLES[side.name])
            start = time.perf_counter()
            found = side.read()
            rate = found / (time.perf_counter() - start)
            assert found == side.rows, f"{side.name}: {found} rows of {side.rows}"
            if rep:
                rates[side.name].append(rate)
            progress.step(f"{TITLES[side.name]}: {short_number(rate)} rows/s")
    progress.close()
    return rates


def read_text(result: dict[str, Any]) -> str:
    """Give a result as a table with its ratios and the target."""
    machine, rates = result["machine"], {name: median(found) for name, found in result["rates"].items()}
    plain, spark = rates["reader"] / rates["pull"], rates["spark"] / rates["spark-pull"]
    verdicts = {
        "reader": f"{plain:.1f}× nats-py",
        "spark": f"{spark:.1f}× nats-py (target ≥ {TARGET:g}×: **{'met' if spark >= TARGET else 'missed'}**)",
    }
    lines = [
        f"- machine: {machine['cores']} × {machine['cpu']}, {machine['memory_gib']} GiB; "
        f"{result['created']}; `local[{TASKS}]`, {result['rows']:,} rows of {ROW_BYTES} B in a file stream "
        f"of nats-server ({PULL_ROWS:,} for nats-py)",
        f"- medians of {result['reps']} repetitions in turns; run by `{result['command']}`",
        "",
        "| reader | rows/s | lowest to highest | |",
        "|---|---|---|---|",
    ]
    for name, title in TITLES.items():
        found = result["rates"][name]
        span = f"{short_number(min(found))} to {short_number(max(found))}"
        lines.append(f"| {title} | {short_number(rates[name])} | {span} | {verdicts.get(name, '')} |")
    return "\n".join(lines) + "\n"


def render_read() -> None:
    """Fill the section of docs/performance.md from the stored result."""
    path = RESULTS / "spark-read.json"
    text = read_text(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else "Not measured yet.\n"
    PAGE.write_text(replace_section(PAGE.read_text(encoding="utf-8"), "spark-read", text), encoding="utf-8")


def run_read(options: argparse.Namespace, origin: dict[str, object]) -> int:
    """Measure, write the result and show it; exit code 0."""
    result = measure(options, origin)
    path = RESULTS / f"{options.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result) + "\n", encoding="utf-8")
    print(read_text(result))
    if options.name == "spark-read":
        render_read()
    return 0
