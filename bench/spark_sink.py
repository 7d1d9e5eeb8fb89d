"""`python -m bench spark-sink`: the Spark sink beside a nats-py publish loop with acknowledgements.

Every side writes the same rows of 128 B into a fresh JetStream file stream of one nats-server and waits for
all acknowledgements; the count in the stream is checked. nats-py publishes one by one, as its documentation
does, and for comparison with many in flight. Sides take turns, figures are medians. Needs the Spark extra.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.errors import BenchError
from bench.process import Command, default_peer, running
from bench.progress import Progress, short_number
from bench.render import RESULTS
from bench.stores import temporary_stores
from headrace.client.blocking import connect
from headrace.client.jetstream_publish import JetStreamApi

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from pyspark.sql import SparkSession

SUBJECT = "bench.rows"
ROW_BYTES = 128
TARGET = 5.0
LOOP_SHARE = 20
"""The loop is so slow that it gets a fraction of the rows."""

_IN_FLIGHT = 1000
RESULT = RESULTS / "local" / "spark-sink.json"


@dataclass(frozen=True, slots=True)
class Side:
    """One writer: publishes that many rows to a server and returns when all are acknowledged."""

    name: str
    title: str
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


def run_sink(options: argparse.Namespace, origin: dict[str, object]) -> int:
    """Measure all sides and print medians; exit code 3 when the target is missed. Raises: BenchError."""
    from headrace.spark.session import session

    RESULT.parent.mkdir(parents=True, exist_ok=True)
    spark = session("headrace bench", master="local[2]", log_file=RESULT.with_name("spark.log"))
    try:
        sides = (
            Side("loop", "nats-py, one after the other", loop, LOOP_SHARE),
            Side("windowed", f"nats-py, {_IN_FLIGHT} in flight", windowed, 4),
            Side("exactly-once", "Spark sink, exactly once", spark_writer(spark, "exactly-once", 2)),
            Side("at-least-once", "Spark sink, at least once", spark_writer(spark, "at-least-once", 2)),
        )
        figures = _measure_all(sides, options.count, options.reps)
    finally:
        spark.stop()
    medians = {side.name: statistics.median(figures[side.name]) for side in sides}
    for side in sides:
        ratio = medians[side.name] / medians["loop"]
        print(f"{side.title:32} {short_number(medians[side.name]):>8}/s  {ratio:6.1f}x")
    measured = {"rows": options.count, "row_bytes": ROW_BYTES, "rates": figures, "medians": medians}
    RESULT.write_text(json.dumps({**origin, **measured}, indent=1) + "\n", encoding="utf-8")
    return 0 if medians["exactly-once"] >= TARGET * medians["loop"] else 3


def _measure_all(sides: tuple[Side, ...], count: int, reps: int) -> dict[str, list[float]]:
    figures: dict[str, list[float]] = {side.name: [] for side in sides}
    progress = Progress(len(sides) * (reps + 1))
    for rep in range(reps + 1):
        for side in sides if rep % 2 else sides[::-1]:
            progress.begin(side.title)
            rate = measure(side, count if rep else count // 4)
            progress.step(f"{side.title}: {short_number(rate)}/s" + ("" if rep else " (warming up)"))
            if rep:
                figures[side.name].append(rate)
    progress.close()
    return figures
