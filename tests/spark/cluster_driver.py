"""A driver on a cluster: a channel into a Parquet table and into a stream, where each row went through noted.

A program of its own, started by test_spark_cluster.py. Prints nothing; ends when what is there is read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.spark.session import QUICK_START_FLAGS, session

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


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


def main() -> None:
    given: dict[str, Any] = json.loads(sys.argv[1])
    folder = Path(given["folder"])
    conf = {
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": QUICK_START_FLAGS,
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # both executors before the first task
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
        "spark.archives": f"{given['archive']}#shipped",
        "spark.executorEnv.PYTHONPATH": "shipped",
    }
    spark = session(
        "cluster",
        conf,
        master=given["master"],
        quick_start=True,
        log_level="warn",
        log_file=folder / "spark.log",
    )
    options = {"startingOffsets": "earliest", "minPartitions": "4", **given["channel"]}
    frame = spark.readStream.format("nats").options(**options).load()
    table = frame.select("sequence").mapInArrow(places, "sequence long, executor string, module string")
    rows = frame.selectExpr("'out' as subject", "cast(sequence as string) as data")
    for name, kind, result, sink in (
        ("table", "parquet", table, {"path": str(folder / "table")}),
        ("out", "nats", rows, {**given["stream"], "positionalIds": "true"}),
    ):
        writer = result.writeStream.format(kind).options(**sink)
        checkpoint = str(folder / "checkpoints" / name)
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
