"""A compressed stream beside an uncompressed one, on both servers and under Spark.

Here live a JetStream stream that Headrace and nats-server are given in turn, with and without compression:
bytes on disk and the server's CPU time for storing and for delivering; and Spark's scan of the log's files.
The log alone is measured in `compression`.
"""

from __future__ import annotations

import asyncio
import os
import time
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from bench.compression import BYTES, KINDS, maker
from bench.process import Command, cpu_ns, default_peer, default_server, running
from bench.progress import Progress
from bench.section import Section
from bench.sides import SIDES, Side, side_command
from bench.spark_pull import TASKS, let_workers_import
from bench.spark_scan import payload
from bench.storage import PAGE
from bench.stores import STREAM, settle, temporary_stores

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from pyspark.sql import SparkSession

    from bench.stores import Stores

WAYS: Final = ("none", "s2")
TAKERS: Final[tuple[Side, ...]] = ("streams", "jetstream")
AT_ONCE: Final = 500
"""Messages that are published before one acknowledgement is waited for, and that are fetched at once."""
_APPEND: Final = 5000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what `python -m bench compressed` takes."""
    parser.add_argument("--megabytes", type=int, default=24, help="of payloads in each stream")
    parser.add_argument("--rows", type=int, default=1_000_000, help="that Spark scans")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--name", help="result file below bench/results/local; the page is left alone")


def run_compressed(options: argparse.Namespace, origin: dict[str, object]) -> int:
    """Measure, write the result file, fill the page. Raises: BenchError."""
    with temporary_stores() as stores:
        streams = _streams(options, stores)
        scans = _scans(options, stores)
    result = {
        **origin,
        "megabytes": options.megabytes,
        "rows": options.rows,
        "reps": options.reps,
        "load": os.getloadavg()[1],
        "streams": streams,
        "scans": scans,
    }
    SECTION.publish(result, options.name)
    return 0


# ---- streams --------------------------------------------------------------------------------


def _streams(options: argparse.Namespace, stores: Stores) -> dict[str, dict[str, dict[str, Any]]]:
    """The medians by payload, side and way. Sides and ways take turns."""
    ours, theirs = Command(default_server()), Command(default_peer())
    commands = {side: side_command(side, ours, theirs) for side in TAKERS}
    progress = Progress(len(KINDS) * options.reps)
    runs: dict[tuple[str, str, str], list[dict[str, float]]] = {}
    for kind in KINDS:
        for _ in range(options.reps):
            for way in WAYS:
                for side, command in commands.items():
                    with stores.fresh() as directory:
                        found = measured(directory, command, kind, way, options.megabytes << 20)
                    runs.setdefault((kind, side, way), []).append(found)
            progress.step(KINDS[kind])
    progress.close()
    return {
        kind: {
            side: {way: _medians(runs[kind, side, way]) for way in WAYS} for side in TAKERS
        }
        for kind in KINDS
    }  # fmt: skip


def _medians(found: list[dict[str, float]]) -> dict[str, float]:
    return {key: median(one[key] for one in found) for key in found[0]}


def measured(directory: Path, command: Command, kind: str, way: str, size: int) -> dict[str, float]:
    """MB on disk when the server has ended; µs of its CPU for each message that is stored, and delivered."""
    count = size // BYTES
    make = maker(kind)
    with running(command, directory=directory) as server:
        times = asyncio.run(_publish_and_fetch(server.port, server.pid, way, [make(n) for n in range(count)]))
    used = sum(path.stat().st_blocks * 512 for path in directory.rglob("*") if path.is_file())
    return {"disk": used / 1e6, **{key: value / count / 1e3 for key, value in times.items()}}


async def _publish_and_fetch(port: int, pid: int, way: str, payloads: list[bytes]) -> dict[str, float]:
    """ns of the server's CPU."""
    import nats
    from nats.js.api import AckPolicy, ConsumerConfig, StoreCompression, StreamConfig

    connection = await nats.connect(f"nats://127.0.0.1:{port}")
    try:
        streams = connection.jetstream()
        await streams.add_stream(
            StreamConfig(name=STREAM, subjects=[STREAM], compression=StoreCompression(way))
        )
        began = cpu_ns(pid)
        for start in range(0, len(payloads), AT_ONCE):
            *most, last = payloads[start : start + AT_ONCE]
            for one in most:
                await connection.publish(STREAM, one)
            await streams.publish(STREAM, last, timeout=60)
        stored = cpu_ns(pid)
        wanted = ConsumerConfig(ack_policy=AckPolicy.NONE)
        subscription = await streams.pull_subscribe(STREAM, stream=STREAM, config=wanted)
        taken = 0
        while taken < len(payloads):
            taken += len(await subscription.fetch(AT_ONCE, timeout=60))
        return {"store": stored - began, "deliver": cpu_ns(pid) - stored}
    finally:
        await connection.close()


# ---- Spark ----------------------------------------------------------------------------------


def _scans(options: argparse.Namespace, stores: Stores) -> dict[str, dict[str, Any]]:
    """The rows a second of each repetition, and MB on disk, by way."""
    from headrace.spark.session import session

    let_workers_import()
    with stores.fresh() as directory:
        used = {way: _fill(directory / way, options.rows, way) for way in WAYS}
        settle(directory)
        spark = session("headrace bench", master=f"local[{TASKS}]", log_file=directory / "spark.log")
        try:
            rates: dict[str, list[float]] = {way: [] for way in WAYS}
            for rep in range(options.reps + 1):
                for way in reversed(WAYS) if rep % 2 else WAYS:
                    rate = options.rows / _scan(spark, directory / way)
                    if rep:  # the first one warms up
                        rates[way].append(rate)
        finally:
            spark.stop()
    return {way: {"disk": used[way], "rates": rates[way]} for way in WAYS}


def _fill(directory: Path, rows: int, way: str) -> float:
    """Append rows to the log of a channel; gives its MB."""
    from headrace.log.port import Limits, NewMessage
    from headrace.log.store import FileStore

    name = STREAM.encode()
    store = FileStore(directory)
    try:
        log = store.open(name, Limits(compresses=way == "s2"))
        for first in range(0, rows, _APPEND):
            log.append([NewMessage(name, payload(n)) for n in range(first, min(first + _APPEND, rows))])
            log.sync()
    finally:
        store.close()
    return sum(path.stat().st_blocks * 512 for path in directory.rglob("*.log")) / 1e6


def _scan(spark: SparkSession, directory: Path) -> float:
    began = time.perf_counter()
    frame = spark.read.format("nats").options(path=str(directory), channel=STREAM).load()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


# ---- words ----------------------------------------------------------------------------------


def compressed_text(result: dict[str, Any]) -> str:
    """Give the figures of a result file as Markdown."""
    machine = result["machine"]
    rows = [
        f"Measured on {result['created']} with `{result['command']}`: {machine['cpu']}, "
        f"{machine['cores']} cores, medians of {result['reps']}, load average {result['load']:.1f}; "
        f"a stream of {result['megabytes']} MiB of 1 KiB each, without / with compression, "
        "µs of the server's CPU a message:",
        "",
        "| payloads | server | MB on disk | stored | delivered |",
        "|---|---|---|---|---|",
    ]
    for kind, sides in result["streams"].items():
        for side, found in sides.items():
            label = SIDES[side].label.replace("JetStream", "nats-server")
            cells = [
                f"{found['none'][key]:.1f} / {found['s2'][key]:.1f}" for key in ("disk", "store", "deliver")
            ]
            rows.append(f"| {KINDS[kind]} | {label} | " + " | ".join(cells) + " |")
    none, packed = (result["scans"][way] for way in WAYS)
    before, after = (median(scan["rates"]) for scan in (none, packed))
    rows += [
        "",
        f"Spark (`local[{TASKS}]`) scans {result['rows']:,} rows of JSON of 128 B from the log's files "
        f"into its noop sink: {before / 1e6:.2f} M rows/s without compression ({none['disk']:.0f} MB), "
        f"{after / 1e6:.2f} M rows/s with it ({packed['disk']:.0f} MB), {after / before:.2f}×.",
    ]
    return "\n".join(rows) + "\n"


SECTION: Final = Section("compressed", PAGE, compressed_text)
