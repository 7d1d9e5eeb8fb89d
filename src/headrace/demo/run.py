"""One run of the demonstration: server, publisher and Spark job, from start to verdict.

Owns what a run starts and ends it in any case. Whether the run was good is decided by `outcome` from what
lies on disk, not from the counters shown on the way.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from headrace.client.blocking import connect
from headrace.demo import job
from headrace.demo.display import Counters
from headrace.demo.files import Files
from headrace.demo.monitor import messages_sent
from headrace.demo.outcome import check_outcome
from headrace.demo.replay import Replay
from headrace.errors import HeadraceError
from headrace.spark.progress import QueryCounts, failure_text
from headrace.spark.session import session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.demo.display import Display

SUBJECTS: Final = "flights.>"
CONNECTION_NAME: Final = "headrace-demo-spark"
MOST_PER_BATCH: Final = 80_000
"""Messages in one micro-batch: few enough that the bars move, enough that Spark is not kept busy starting."""

STALL_LIMIT: Final = 60.0
"""Seconds without any message published, received or written after which the run has failed."""

_POLL: Final = 0.2


class DemoError(HeadraceError):
    """The demonstration did not get to its end; the text says what went wrong."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What to run. `url` None starts an embedded server; `limit` None replays the whole feed."""

    output: Path
    url: str | None = None
    monitor_url: str | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class _Run:
    spark: SparkSession
    replay: Replay
    monitor_url: str | None
    files: Files
    display: Display


def run_demo(options: DemoOptions, display: Display) -> bool:
    """The whole walk; whether every check holds.

    Raises: HeadraceError and OSError with a text fit for the user.
    """
    begun = time.monotonic()
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it logs every interrupted call with a traceback
    files = Files(options.output)
    files.clear()
    with contextlib.ExitStack() as stack:
        if options.url:
            url, monitor_url = options.url, options.monitor_url
        else:
            url, monitor_url = stack.enter_context(_embedded_server())
        with connect(url) as client:  # a server that cannot be used is told of before Spark starts
            version = client.server_info.get("version")
        place = "the one given by --url" if options.url else f"{url}, embedded in this process"
        display.fact("server", f"{place}, version {version}")
        replay = Replay(url, options.limit, files.publisher_log)
        stack.callback(replay.end)
        spark = session("headrace demo", quick_start=True, log_file=files.spark_log)
        stack.callback(spark.stop)
        display.fact("spark", f"PySpark {spark.version}, Java at {os.environ['JAVA_HOME']}")
        run = _Run(spark, replay, monitor_url, files, display)
        published = _stream(run, source_options(url))
        good = check_outcome(spark, files, published, display)
    display.fact("table", f"{files.delays}  (Parquet, one row per carrier and hour)")
    display.fact("flights", f"{files.flights}  (Parquet, one row per flight)")
    display.fact("chart", str(files.chart))
    display.fact("time", f"{time.monotonic() - begun:.0f} s in all")
    return good


def source_options(url: str) -> dict[str, str]:
    """The one place that says where the job's messages come from."""
    return {
        "subject": SUBJECTS,
        "url": url,
        "connectionName": CONNECTION_NAME,
        "maxOffsetsPerTrigger": str(MOST_PER_BATCH),
    }


@contextlib.contextmanager
def _embedded_server() -> Iterator[tuple[str, str]]:
    from headrace.testing import Server

    with Server(monitoring=True) as server:
        yield server.url, server.monitor_url


def _stream(run: _Run, source: dict[str, str]) -> int:
    """Run the job until everything published is in both tables; how much that was."""
    files = run.files
    try:
        flights = job.read_flights(run.spark, source)
        queries = [
            QueryCounts(job.start_rows(flights, files.flights, files.checkpoints / "rows")),
            QueryCounts(job.start_delays(flights, files.delays, files.checkpoints / "delays")),
        ]
        _wait_live(queries)
        total = run.replay.wait_ready()
        run.display.fact("listening", f"two streaming queries on {SUBJECTS}; {total:,} flights to publish")
        with Counters(run.display, total, ("published", "received", "written")) as counters:
            run.replay.go()
            _wait_written(run, queries, total, counters)
        for counts in queries:
            counts.query.stop()
    except PySparkException as error:
        raise DemoError(f"a streaming query failed: {failure_text(error)} (see {files.spark_log})") from error
    return total


def _wait_live(queries: list[QueryCounts]) -> None:
    """Until both queries are through their first, empty batch: from then on their sources miss nothing."""
    deadline = time.monotonic() + STALL_LIMIT
    while not all(counts.is_live for counts in queries):
        if time.monotonic() > deadline:
            raise DemoError(f"Spark's queries did not start to listen in {STALL_LIMIT:g} s")
        time.sleep(_POLL)
        for counts in queries:
            counts.update()


def _wait_written(run: _Run, queries: list[QueryCounts], total: int, counters: Counters) -> None:
    last, moved = (0, 0, 0), time.monotonic()
    while True:
        for counts in queries:
            counts.update()
        run.replay.check()
        sent = messages_sent(run.monitor_url, CONNECTION_NAME) if run.monitor_url else None
        received = min(counts.received for counts in queries) if sent is None else sent
        now = (run.replay.published, received, min(counts.processed for counts in queries))
        counters.show(now)
        if run.replay.is_done and now[2] >= total:
            return
        if now != last:
            last, moved = now, time.monotonic()
        if time.monotonic() - moved > STALL_LIMIT:
            raise DemoError(
                f"nothing moved for {STALL_LIMIT:g} s: published {now[0]:,}, received {now[1]:,}, "
                f"written {now[2]:,} of {total:,}"
            )
        time.sleep(_POLL)
