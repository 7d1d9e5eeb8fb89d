"""One run of the demonstration: server, publisher and Spark job, from start through a kill to the verdict.

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

from headrace.demo import job
from headrace.demo.display import CounterDisplay
from headrace.demo.files import Files
from headrace.demo.listener import PayloadListener
from headrace.demo.outage import Outage
from headrace.demo.outcome import Expected, check_outcome
from headrace.demo.publisher_process import PublisherProcess
from headrace.demo.server import DemoServer
from headrace.demo.stream import LOST, STREAM, look, look_unused
from headrace.errors import HeadraceError
from headrace.spark.progress import QueryCounts, failure_text
from headrace.spark.session import session

if TYPE_CHECKING:
    import threading
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.demo.display import Display

CONNECTION_NAME: Final = "headrace-demo-spark"
MOST_PER_BATCH: Final = 80_000
"""Messages in one micro-batch: few enough that the bars move, enough that Spark is not kept busy starting."""

STALL_LIMIT: Final = 60.0
"""Seconds without any message published, stored or written after which the run has failed."""

_POLL: Final = 0.2


class DemoError(HeadraceError):
    """The demonstration did not get to its end; the text says what went wrong."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of a run.

    `url` None starts a server and kills it on the way; `limit` None replays the whole feed.
    """

    output: Path
    url: str | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of the stream; `server` and `outage` only if the server is the demonstration's own."""

    url: str
    server: DemoServer | None = None
    outage: Outage | None = None


@dataclass(frozen=True, slots=True)
class _Run:
    spark: SparkSession
    publisher: PublisherProcess
    listener: PayloadListener
    place: _Place
    files: Files
    display: Display
    stop: threading.Event


class DemoStopped(DemoError):
    """The demonstration was stopped by a signal before its end."""


def run_demo(options: DemoOptions, display: Display, stop: threading.Event) -> bool:
    """Walk through the whole demonstration; return True if every check holds. `stop` ends it on the way.

    Raises: HeadraceError and OSError with a text fit for the user.
    """
    begun = time.monotonic()
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it logs every interrupted call with a traceback
    files = Files(options.output)
    files.clear()
    with contextlib.ExitStack() as stack:
        place = _place(options, files, stack)
        # A server that cannot be used is told of before Spark starts.
        version = look_unused(place.url).version
        own = f"{place.url}, a process of its own that will be killed, version {version}"
        given = f"the one given by --url, version {version}; it is not ours, so nothing is killed"
        display.fact("server", own if place.server else given)
        publisher = PublisherProcess(
            place.url,
            options.limit,
            files.publisher_log,
            place.outage.published if place.outage else _nothing,
        )
        stack.callback(publisher.end)
        listener = PayloadListener(place.url, job.RESULTS)
        stack.callback(listener.close)
        listener.start()
        spark = session("headrace demo", quick_start=True, log_file=files.spark_log)
        stack.callback(spark.stop)
        display.fact("spark", f"PySpark {spark.version}, Java at {os.environ['JAVA_HOME']}")
        expected = _stream(
            _Run(spark, publisher, listener, place, files, display, stop), source_options(place.url)
        )
        good = check_outcome(spark, files, expected, display)
    if place.server:
        display.fact("store", f"{files.store}  (the stream, as the server left it)")
    display.fact("table", f"{files.delays}  (Parquet, one row per carrier and hour)")
    display.fact("flights", f"{files.flights}  (Parquet, one row per flight)")
    display.fact("chart", str(files.chart))
    display.fact("time", f"{time.monotonic() - begun:.0f} s in all")
    return good


def source_options(url: str) -> dict[str, str]:
    """The one place that says where the job's messages come from."""
    return {
        "stream": STREAM,
        "startingOffsets": "earliest",
        "url": url,
        "connectionName": CONNECTION_NAME,
        "maxOffsetsPerTrigger": str(MOST_PER_BATCH),
    }


def target_options(url: str) -> dict[str, str]:
    """The one place that says where the job's results go: each row to a core subject of its own."""
    return {"target": "subject", "url": url, "connectionName": CONNECTION_NAME}


def _place(options: DemoOptions, files: Files, stack: contextlib.ExitStack) -> _Place:
    if options.url:
        return _Place(options.url)
    server = DemoServer(files.store, files.server_log)
    stack.callback(server.stop)
    server.start()
    return _Place(server.url, server, Outage(server))


def _nothing(_count: int, _total: int) -> None:
    """Do nothing at the publisher's progress: in this run no server is killed."""


def _stream(run: _Run, source: dict[str, str]) -> Expected:
    """Run the job until everything published is in both tables; what must be there then."""
    files = run.files
    try:
        flights = job.read_flights(run.spark, source)
        queries = [
            QueryCounts(job.start_rows(flights, files.flights, files.checkpoints / "rows")),
            QueryCounts(
                job.start_delays(
                    flights, files.delays, files.checkpoints / "delays", target_options(run.place.url)
                )
            ),
        ]
        _wait_live(queries, run.stop)
        total = run.publisher.wait_ready()
        run.display.fact("reading", f"two streaming queries on stream {STREAM}; {total:,} flights to publish")
        with CounterDisplay(run.display, total, ("published", "stored", "written")) as counters:
            run.publisher.go()
            _wait_written(run, queries, total, counters)
        for counts in queries:
            counts.query.stop()
        if again := run.publisher.repeated:
            run.display.fact("sent again", f"{again:,} rows that the stream had: it knew them by their ids")
    except PySparkException as error:
        raise DemoError(f"a streaming query failed: {failure_text(error)} (see {files.spark_log})") from error
    place = run.place
    stored = look(place.url).last_sequence
    return Expected(
        total, stored, run.listener.last, place.outage.killed_at if place.outage else None, _kept(run)
    )


def _wait_live(queries: list[QueryCounts], stop: threading.Event) -> None:
    """Wait until both queries are through their first, empty batch, so that the kill comes while they run."""
    deadline = time.monotonic() + STALL_LIMIT
    while not all(counts.is_live for counts in queries):
        if time.monotonic() > deadline:
            raise DemoError(f"Spark's queries did not start to read in {STALL_LIMIT:g} s")
        _pause(stop)
        for counts in queries:
            counts.update()


def _wait_written(run: _Run, queries: list[QueryCounts], total: int, counters: CounterDisplay) -> None:
    last, moved = (0, 0, 0), time.monotonic()
    told = False
    while True:
        told = told or _ride_out(run)
        for counts in queries:
            counts.update()
        run.publisher.check()
        now = (
            run.publisher.published,
            max(last[1], _stored(run, queries)),
            min(counts.processed for counts in queries),
        )
        counters.show(now)
        if run.publisher.is_done and now[2] >= total and (told or run.place.outage is None):
            return
        if now != last:
            last, moved = now, time.monotonic()
        if time.monotonic() - moved > STALL_LIMIT:
            raise DemoError(
                f"nothing moved for {STALL_LIMIT:g} s: published {now[0]:,}, stored {now[1]:,}, "
                f"written {now[2]:,} of {total:,}"
            )
        _pause(run.stop)


def _pause(stop: threading.Event) -> None:
    if stop.wait(_POLL):
        raise DemoStopped("stopped")


def _stored(run: _Run, queries: list[QueryCounts]) -> int:
    """Return how far the stream is; Spark tells no sooner than with its next micro-batch."""
    try:
        return look(run.place.url).last_sequence
    except LOST:  # it was killed
        return max(counts.received for counts in queries)


def _ride_out(run: _Run) -> bool:
    """Start the server again when it was killed; return True once that is over and publishing has ended."""
    place, display = run.place, run.display
    if place.server is None or place.outage is None:
        return True
    outage = place.outage
    if outage.start_again():
        display.fact("killed", f"at row {outage.killed_at:,}: SIGKILL, rows on their way are in doubt")
    place.server.check()
    if outage.away is None or (run.publisher.recovered is None and not run.publisher.is_done):
        return False
    display.fact("up again", f"after {outage.away * 1000:.0f} ms, recovered {_kept(run):,} messages")
    return True


def _kept(run: _Run) -> int:
    """Return how many messages the server had after the outage; the publisher asked before it went on."""
    if run.publisher.recovered is not None:
        return run.publisher.recovered
    return look(run.place.url).last_sequence
