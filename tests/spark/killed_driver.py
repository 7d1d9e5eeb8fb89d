"""A driver to be killed: three queries that go on from their checkpoints, until standard input ends.

A program of its own, started by `harness.killing`. What a STAN channel holds goes into a Parquet table and,
row by row, into the JetStream stream OUT; what OUT holds goes through a shuffle into the stream COPY. A query
that ends is told on standard output and started again, as whoever watches over queries does.
"""

from __future__ import annotations

import json
import select
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext

from headrace.spark.progress import failure_text
from headrace.spark.session import session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TASK_TRIES = 8
MOST = "24000"
"""Messages in a micro-batch: enough for two tasks or three where a query is behind."""


def upper(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The payload in capitals, in Python."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in batches:
        text = pc.utf8_upper(batch.column("data").cast(pa.string()))
        yield pa.RecordBatch.from_arrays([batch.column("sequence"), text], ["sequence", "text"])


class Queries:
    """The three of them; each has its name, and its checkpoint under that."""

    def __init__(self, spark: SparkSession, given: dict[str, Any]) -> None:
        self._spark = spark
        self._given = given
        self._folder = Path(given["folder"])
        made: dict[str, Callable[[], StreamingQuery]] = {
            "table": self._table,
            "out": self._out,
            "copy": self._copy,
        }
        self._made = {name: made[name] for name in given["queries"]}
        self._running = {name: start() for name, start in self._made.items()}

    def watch(self) -> None:
        """Start again what has ended."""
        for name, query in self._running.items():
            if not query.isActive:
                failure = query.exception()
                print(f"{name} ended: {failure_text(failure) if failure else None!r}", flush=True)
                self._running[name] = self._made[name]()

    def stop(self) -> None:
        for query in self._running.values():
            query.stop()

    def _read(self, source: str) -> DataFrame:
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": MOST, **self._given[source]}
        return self._spark.readStream.format("nats").options(**options).load()

    def _start(self, frame: DataFrame, name: str, kind: str, **options: str) -> StreamingQuery:
        checkpoint = str(self._folder / "checkpoints" / name)
        writer = frame.writeStream.format(kind).queryName(name).options(**options)
        return writer.option("checkpointLocation", checkpoint).trigger(processingTime="0 seconds").start()

    def _table(self) -> StreamingQuery:
        rows = self._read("channel").select("sequence", "data")
        found = rows.mapInArrow(upper, "sequence long, text string")
        return self._start(found, "table", "parquet", path=str(self._folder / "table"))

    def _out(self) -> StreamingQuery:
        rows = self._read("channel").selectExpr(
            "concat('out.', sequence % 7) as subject",
            "concat(sequence, ' ', upper(cast(data as string))) as data",
        )
        sink = {**self._given["stream"], "stream": "OUT", "positionalIds": "true"}
        return self._start(rows, "out", "nats", **sink)

    def _copy(self) -> StreamingQuery:
        rows = self._read("stream").selectExpr(
            "cast(data as string) as data", "cast(split(cast(data as string), ' ')[0] as long) as number"
        )
        sink = {**self._given["stream"], "stream": "COPY", "subject": "copy", "keyColumns": "number"}
        return self._start(rows.repartition(2, "number"), "copy", "nats", **sink)


def main() -> None:
    given: dict[str, Any] = json.loads(sys.argv[1])
    log = Path(given["folder"]) / "spark.log"
    spark = session(
        "to be killed",
        {"spark.python.authenticate.socketTimeout": "60s"},  # a machine that is busy starts Python slowly
        master=f"local[2,{TASK_TRIES}]",
        quick_start=True,
        log_level="warn",
        log_file=log,
    )
    gateway = SparkContext._gateway
    assert gateway is not None
    print(f"jvm {gateway.jvm.java.lang.ProcessHandle.current().pid()}", flush=True)
    queries = Queries(spark, given)
    while not select.select([sys.stdin], [], [], 0.2)[0]:
        queries.watch()
    queries.stop()
    spark.stop()


if __name__ == "__main__":
    main()
