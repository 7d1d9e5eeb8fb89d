"""A driver on a cluster: a channel into a Parquet table, into a stream, and into totals.

The table notes where each row went through. Of the stream and of the totals the checkpoint is in an object
store, and so is the state of the totals, which executors write; that query is stopped half-way and started
again. A program of its own, started by test_spark_cluster.py. Prints the totals as JSON, and ends when what
is there is read.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.spark.session import OBJECT_CHECKPOINT_MANAGER, QUICK_START_FLAGS, session

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

LONG = 300.0


def places(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Beside each sequence the directory of the executor, and the files that it has of us."""
    import os

    import pyarrow as pa

    import headrace

    for batch in batches:
        columns = [
            batch.column("sequence"),
            pa.array([os.getcwd()] * len(batch)),
            pa.array([os.path.realpath(headrace.__file__)] * len(batch)),
        ]
        yield pa.RecordBatch.from_arrays(columns, ["sequence", "executor", "module"])


def start(given: dict[str, Any]) -> SparkSession:
    conf = {
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": QUICK_START_FLAGS,
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # both executors before the first task
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
        "spark.archives": f"{given['archive']}#shipped",
        "spark.executorEnv.PYTHONPATH": "shipped",
        "spark.sql.streaming.checkpointFileManagerClass": OBJECT_CHECKPOINT_MANAGER,
        "spark.sql.shuffle.partitions": "2",
    }
    log = Path(given["folder"]) / "spark.log"
    return session("cluster", conf, master=given["master"], quick_start=True, log_level="warn", log_file=log)


def run(result: DataFrame, checkpoint: str, kind: str, **sink: str) -> None:
    writer = result.writeStream.format(kind).options(**sink).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()


def run_with_a_break(writer: DataStreamWriter) -> None:
    """Stopped after the first batch, in whatever it does by then, and started again to the end."""
    query = writer.start()
    begun = time.monotonic()
    while query.isActive and query.lastProgress is None:
        assert time.monotonic() < begun + LONG, query.status
        time.sleep(0.02)
    query.stop()
    writer.trigger(availableNow=True).start().awaitTermination()


def main() -> None:
    given: dict[str, Any] = json.loads(sys.argv[1])
    folder, objects = Path(given["folder"]), given["checkpoints"]
    spark = start(given)
    options = {"startingOffsets": "earliest", "minPartitions": "4", **given["channel"]}
    frame = spark.readStream.format("nats").options(**options).load()
    table = frame.select("sequence").mapInArrow(places, "sequence long, executor string, module string")
    run(table, str(folder / "checkpoints" / "table"), "parquet", path=str(folder / "table"))
    rows = frame.selectExpr("'out' as subject", "cast(sequence as string) as data")
    run(rows, f"{objects}/out", "nats", **given["stream"], positionalIds="true")

    totals: dict[int, int] = {}

    def keep(found: DataFrame, _: int) -> None:
        totals.update({row["part"]: row["count"] for row in found.collect()})

    halves = spark.readStream.format("nats").options(**options, maxOffsetsPerTrigger=given["half"]).load()
    counts = halves.groupBy((halves.sequence % 7).alias("part")).count()
    writer = counts.writeStream.outputMode("update").foreachBatch(keep)
    run_with_a_break(writer.option("checkpointLocation", f"{objects}/totals"))
    print(json.dumps(totals))
    spark.stop()


if __name__ == "__main__":
    main()
