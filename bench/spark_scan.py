"""What Spark reads of a stored stream in a second: from its log, through a server, and as others do it.

The same rows of 128 B are scanned by the same session into Spark's noop sink: the log's files by path,
Spark's own Parquet scan of the same rows with the same columns, a Headrace server that answers in columns,
and pull consumers of nats-py against nats-server, fewer rows of them because they take so long. Sides take
turns in an order that alternates; what is told are medians. Starting a job of Spark takes a few tenths of a
second, so the rows are many. Not here: what a micro-batch costs, or what is written.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.cases import Fill
from bench.process import Command, default_peer, default_server, running
from bench.progress import Progress, short_number
from bench.render import PAGE, RESULTS, replace_section
from bench.sides import side_command
from bench.spark_pull import ROW_BYTES, TASKS, let_workers_import, pull_source
from bench.stores import STREAM, fill_by_publishing, settle, temporary_stores

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

PULL_ROWS = 100_000
_APPEND = 5000


@dataclass(frozen=True, slots=True)
class Scan:
    """One way to read: what it is called, its rows, and the frame that reads them."""

    name: str
    title: str
    rows: int
    frame: Callable[[], DataFrame]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=8_000_000, help="stored messages (default 8 million)")
    parser.add_argument("--reps", type=int, default=3, help="repetitions of each side (default 3)")
    parser.add_argument("--name", default="spark-scan", help="result file, without .json")


def payload(number: int) -> bytes:
    """Give 128 bytes of JSON that no other message has: repeated bytes would flatter Parquet."""
    mixed = number * 2654435761 % (1 << 32)
    text = f'{{"id":{number},"user":"u{mixed % 9_999_991:07d}","price":{mixed % 99_991},"note":"{mixed:x}'
    return f'{text}{"x" * (ROW_BYTES - 2 - len(text))}"}}'.encode()


def fill(directory: Path, rows: int) -> None:
    """Append the rows to the log of a channel, as the streaming service would find it."""
    from headrace.log.port import NewMessage
    from headrace.log.store import FileStore

    name = STREAM.encode()
    store = FileStore(directory)
    try:
        log = store.open(name)
        for first in range(1, rows + 1, _APPEND):
            numbers = range(first, min(first + _APPEND, rows + 1))
            log.append([NewMessage(name, payload(number)) for number in numbers])
    finally:
        store.close()


def measure(options: argparse.Namespace, origin: dict[str, object]) -> dict[str, Any]:
    """Give every side's rows per second, in the order they were measured. Raises: BenchError."""
    from headrace.spark.session import session

    let_workers_import()
    ours, theirs = Command(default_server()), Command(default_peer())
    headrace, jetstream = (side_command(side, ours, theirs) for side in ("streaming", "jetstream"))
    with temporary_stores() as stores, stores.fresh() as directory:
        print("filling the stores ...", flush=True)
        log, stream = directory / "log", directory / "jetstream"
        fill(log, options.rows)
        stream.mkdir()
        fill_by_publishing(stream, Fill(PULL_ROWS, ROW_BYTES), jetstream)
        spark = session("headrace bench", master=f"local[{TASKS}]", log_file=directory / "spark.log")
        try:
            with running(headrace, directory=log) as one, running(jetstream, directory=stream) as other:
                urls = f"nats://127.0.0.1:{one.port}", f"nats://127.0.0.1:{other.port}"
                scans = _scans(spark, options.rows, log, urls)
                rates = _take(scans, options.reps)
                load = os.getloadavg()[1]
                return {**origin, "rows": options.rows, "reps": options.reps, "load": load, "rates": rates}
        finally:
            spark.stop()


def _scans(spark: SparkSession, rows: int, log: Path, urls: tuple[str, str]) -> list[Scan]:
    ours, theirs = urls
    parquet = log.with_name("parquet")

    def by_path() -> DataFrame:
        return spark.read.format("nats").options(path=str(log), channel=STREAM).load()

    def by_server() -> DataFrame:
        options = {"url": ours, "clusterId": "bench", "channel": STREAM}
        return spark.read.format("nats").options(**options).load()

    def by_pull() -> DataFrame:
        return spark.read.format("nats_py").options(url=theirs, rows=str(PULL_ROWS)).load()

    spark.dataSource.register(pull_source())
    by_path().repartition(TASKS).write.parquet(str(parquet))
    settle(log.parent)
    return [
        Scan("path", "the log's files, by path", rows, by_path),
        Scan(
            "parquet",
            "Spark's own scan of the rows in Parquet",
            rows,
            lambda: spark.read.parquet(str(parquet)),
        ),
        Scan("server", "through a Headrace server, in columns", rows, by_server),
        Scan("pull", "nats-py pull consumers, from nats-server", PULL_ROWS, by_pull),
    ]


def _take(scans: list[Scan], reps: int) -> dict[str, list[float]]:
    """One round of each to warm up, whose rows are counted, then in turns."""
    for scan in scans:
        counted = scan.frame().count()
        assert counted == scan.rows, f"{scan.name}: {counted} rows of {scan.rows}"
        _time(scan)
    rates: dict[str, list[float]] = {scan.name: [] for scan in scans}
    progress = Progress(reps * len(scans))
    for rep in range(reps):
        for scan in reversed(scans) if rep % 2 else scans:
            progress.begin(scan.title)
            rate = scan.rows / _time(scan)
            rates[scan.name].append(rate)
            progress.step(f"{scan.title}: {short_number(rate)} rows/s")
    progress.close()
    return rates


def _time(scan: Scan) -> float:
    start = time.perf_counter()
    scan.frame().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def scan_text(result: dict[str, Any]) -> str:
    """Give a result as a table with its ratios and targets."""
    machine = result["machine"]
    rates = {name: median(found) for name, found in result["rates"].items()}
    to_parquet = rates["path"] / rates["parquet"]
    to_pull = rates["server"] / rates["pull"]
    rows = [
        (
            "the log's files, by path",
            "path",
            f"{to_parquet:.2f}× Parquet (target ≥ 0.5×: {_met(to_parquet >= 0.5)})",
        ),
        ("Spark's own scan of the same rows in Parquet", "parquet", ""),
        (
            "through a Headrace server, in columns",
            "server",
            f"{to_pull:.0f}× nats-py (target ≥ 30×: {_met(to_pull >= 30)}; "
            f"≥ 2.5 M rows/s: {_met(rates['server'] >= 2.5e6)})",
        ),
        (f"nats-py pull consumers from nats-server ({PULL_ROWS:,} rows)", "pull", ""),
    ]
    lines = [
        f"- machine: {machine['cores']} × {machine['cpu']}, {machine['memory_gib']} GiB; "
        f"{result['created']}; `local[{TASKS}]`, {result['rows']:,} rows of {ROW_BYTES} B into the noop sink",
        f"- medians of {result['reps']} repetitions in turns; run by `{result['command']}`",
        f"- load average of the last five minutes, this run included: {result['load']:.1f}",
        "",
        "| scan | rows/s | lowest to highest | |",
        "|---|---|---|---|",
    ]
    for title, name, verdict in rows:
        found = result["rates"][name]
        span = f"{short_number(min(found))} to {short_number(max(found))}"
        lines.append(f"| {title} | {short_number(rates[name])} | {span} | {verdict} |")
    return "\n".join(lines) + "\n"


def _met(holds: bool) -> str:
    return "**met**" if holds else "**missed**"


def render_scan() -> None:
    """Fill the section of docs/performance.md from the stored result."""
    path = RESULTS / "spark-scan.json"
    text = scan_text(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else "Not measured yet.\n"
    PAGE.write_text(replace_section(PAGE.read_text(encoding="utf-8"), "spark-scan", text), encoding="utf-8")


def run_scan(options: argparse.Namespace, origin: dict[str, object]) -> int:
    """Measure, write the result and show it; exit code 0."""
    result = measure(options, origin)
    path = RESULTS / f"{options.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result) + "\n", encoding="utf-8")
    print(scan_text(result))
    if options.name == "spark-scan":
        render_scan()
    return 0
