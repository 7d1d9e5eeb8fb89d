"""`python -m bench spark-sink`: the Spark sink beside a nats-py publish loop with acknowledgements.

Every side writes the same rows of 128 B into a fresh JetStream file stream of one nats-server and waits for
all acknowledgements; the count in the stream is checked. nats-py publishes one by one, as its documentation
does, and for comparison with many in flight. Sides take turns, figures are medians. Needs the Spark extra.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.errors import BenchError
from bench.process import Command, default_peer, running
from bench.progress import Progress, short_number
from bench.render import PAGE, RESULTS, replace_section
from bench.spark_pull import ROW_BYTES, TASKS
from bench.stores import temporary_stores
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from pyspark.sql import SparkSession

SUBJECT = "bench.rows"
TARGET = 5.0
LOOP_SHARE = 20
"""The loop is so slow that it gets a fraction of the rows."""

_IN_FLIGHT = 1000

TITLES = {
    "loop": "nats-py, each publish awaited",
    "windowed": f"nats-py, {_IN_FLIGHT:,} in flight",
    "exactly-once": "Spark sink, exactly once",
    "at-least-once": "Spark sink, at least once",
}


@dataclass(frozen=True, slots=True)
class Side:
    """One writer: publishes that many rows to a server and returns when all are acknowledged."""

    name: str
    write: Callable[[str, int], None]
    share: int = 1


def loop(url: str, count: int) -> None:
    """nats-py, one publish awaited after the other."""

    async def work() -> None:
        import nats

        connection = await nats.connect(url)
        stream, data = connection.jetstream(), b"x" * ROW_BYTES
        for number in range(count):
            await stream.publish(SUBJECT, data, headers={"Nats-Msg-Id": f"b/0/0/{number}"})
        await connection.close()

    asyncio.run(work())


def windowed(url: str, count: int) -> None:
    """nats-py with many publishes in flight."""

    async def work() -> None:
        import nats

        connection = await nats.connect(url)
        stream, data = connection.jetstream(publish_async_max_pending=_IN_FLIGHT), b"x" * ROW_BYTES
        for number in range(count):
            await stream.publish_async(SUBJECT, data, headers={"Nats-Msg-Id": f"b/0/0/{number}"})
        await stream.publish_async_completed()
        await connection.close()

    asyncio.run(work())


def spark_writer(spark: SparkSession, guarantee: str, partitions: int) -> Callable[[str, int], None]:
    """`df.write.format("nats")` with rows that Spark makes itself."""

    def write(url: str, count: int) -> None:
        rows = spark.range(0, count, 1, partitions).selectExpr(f"repeat('x', {ROW_BYTES}) as data")
        ids = {"positionalIds": "true"} if guarantee == "exactly-once" else {}
        options = {"url": url, "stream": "BENCH", "subject": SUBJECT, "deliveryGuarantee": guarantee, **ids}
        rows.write.format("nats").mode("append").options(**options).save()

    return write


def measure(side: Side, count: int) -> float:
    """Rows per second of one side with a fresh server. Raises: BenchError if the count is not exact."""
    peer = Command(f"{default_peer()} -js -sd {{dir}}")
    rows = count // side.share
    with temporary_stores() as stores, stores.fresh() as store, running(peer, directory=store) as server:
        url = f"nats://127.0.0.1:{server.port}"
        with connect(url) as nc:
            JetStreamApi(nc).ask("STREAM.CREATE.BENCH", {"name": "BENCH", "subjects": [SUBJECT]})
        begin = time.perf_counter()
        side.write(url, rows)
        seconds = time.perf_counter() - begin
        with connect(url) as nc:
            stored = JetStreamApi(nc).ask("STREAM.INFO.BENCH")["state"]["messages"]
    if stored != rows:
        raise BenchError(f"{side.name}: {stored} messages stored, {rows} were written")
    return rows / seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--count", type=int, default=500_000, help="rows (default %(default)s)")
    parser.add_argument("--reps", type=int, default=3, help="repetitions of each side (default %(default)s)")
    parser.add_argument("--name", default="spark-sink", help="result file, without .json")


def run_sink(options: argparse.Namespace, origin: dict[str, object]) -> int:
    """Measure all sides, write the result and show it; exit code 3 when the target is missed.

    Raises: BenchError.
    """
    from headrace.spark.session import session

    path = RESULTS / f"{options.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_stores() as stores, stores.fresh() as directory:
        spark = session("headrace bench", master=f"local[{TASKS}]", log_file=directory / "spark.log")
        try:
            rates = _measure_all(_sides(spark), options.count, options.reps)
        finally:
            spark.stop()
    load = os.getloadavg()[1]
    result: dict[str, Any] = {
        **origin, "rows": options.count, "reps": options.reps, "load": load, "rates": rates
    }  # fmt: skip
    path.write_text(json.dumps(result) + "\n", encoding="utf-8")
    print(sink_text(result))
    if options.name == "spark-sink":
        render_sink()
    return 0 if _ratio(result, "exactly-once") >= TARGET else 3


def _sides(spark: SparkSession) -> tuple[Side, ...]:
    return (
        Side("loop", loop, LOOP_SHARE),
        Side("windowed", windowed, 4),
        Side("exactly-once", spark_writer(spark, "exactly-once", TASKS)),
        Side("at-least-once", spark_writer(spark, "at-least-once", TASKS)),
    )


def _measure_all(sides: tuple[Side, ...], count: int, reps: int) -> dict[str, list[float]]:
    figures: dict[str, list[float]] = {side.name: [] for side in sides}
    progress = Progress(len(sides) * (reps + 1))
    for rep in range(reps + 1):
        for side in sides if rep % 2 else sides[::-1]:
            title = TITLES[side.name]
            progress.begin(title)
            rate = measure(side, count if rep else count // 4)
            progress.step(f"{title}: {short_number(rate)}/s" + ("" if rep else " (warming up)"))
            if rep:
                figures[side.name].append(rate)
    progress.close()
    return figures


def _ratio(result: dict[str, Any], name: str) -> float:
    """How many times the rate of the loop."""
    rates = result["rates"]
    return float(median(rates[name]) / median(rates["loop"]))


def sink_text(result: dict[str, Any]) -> str:
    """Give a result as a table with its ratios and the target."""
    machine = result["machine"]
    lines = [
        f"- machine: {machine['cores']} × {machine['cpu']}, {machine['memory_gib']} GiB; "
        f"{result['created']}; `local[{TASKS}]`, {result['rows']:,} rows of {ROW_BYTES} B "
        f"into a new file stream of nats-server ({result['rows'] // LOOP_SHARE:,} for the loop)",
        f"- medians of {result['reps']} repetitions in turns; run by `{result['command']}`",
        f"- load average of the last five minutes, this run included: {result['load']:.1f}",
        "",
        "| writer | rows/s | lowest to highest | |",
        "|---|---|---|---|",
    ]
    for name, title in TITLES.items():
        found = result["rates"][name]
        span = f"{short_number(min(found))} to {short_number(max(found))}"
        lines.append(f"| {title} | {short_number(median(found))} | {span} | {_verdict(result, name)} |")
    return "\n".join(lines) + "\n"


def _verdict(result: dict[str, Any], name: str) -> str:
    if name == "loop":
        return ""
    ratio = _ratio(result, name)
    text = f"{ratio:.1f}× the loop"
    if name != "exactly-once":
        return text
    return f"{text} (target ≥ {TARGET:g}×: **{'met' if ratio >= TARGET else 'missed'}**)"


def render_sink() -> None:
    """Fill the section of docs/performance.md from the stored result."""
    path = RESULTS / "spark-sink.json"
    text = sink_text(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else "Not measured yet.\n"
    PAGE.write_text(replace_section(PAGE.read_text(encoding="utf-8"), "spark-sink", text), encoding="utf-8")
