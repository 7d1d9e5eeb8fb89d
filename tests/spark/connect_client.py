"""A client of Spark Connect: what a program does that has no JVM, against a server that has the package.

A program of its own, started by test_spark_connect.py. Prints what it found as JSON.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from headrace.spark import watch
from headrace.spark.progress import stream_progress
from headrace.spark.query_state import QueryStatus

LONG = 120.0


def main() -> None:
    given: dict[str, Any] = json.loads(sys.argv[1])
    folder = Path(given["folder"])
    spark = SparkSession.builder.remote(given["remote"]).getOrCreate()
    found: dict[str, Any] = {"client": type(spark).__module__}
    options = {**given["stream"], "startingOffsets": "earliest"}
    found["table"] = spark.read.format("nats").options(**given["stream"]).load().count()
    try:
        spark.read.format("nats").options(subscribe="orders").load().count()
    except AnalysisException as error:
        found["refused"] = str(error)

    watching = watch(spark, port=0)
    frame = spark.readStream.format("nats").options(**options, maxOffsetsPerTrigger=given["half"]).load()
    query = (
        frame.select("sequence", "data")
        .writeStream.queryName("orders")
        .format("parquet")
        .option("path", str(folder / "table"))
        .option("checkpointLocation", str(folder / "checkpoints" / "table"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    told = [stream_progress(one) for one in query.recentProgress if one.sources[0].numInputRows]
    found["progress"] = [[one.messages, one.lag] for [one] in told]
    deadline = time.monotonic() + LONG
    while [one.status for one in watching.states] != [QueryStatus.ENDED]:
        assert time.monotonic() < deadline, watching.states
        time.sleep(0.02)
    with urllib.request.urlopen(f"{watching.url}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    found["rows"] = [line for line in lines if line.startswith("headrace_spark_rows_total{")]
    watching.stop()

    rows = frame.selectExpr("'out' as subject", "cast(sequence as string) as data", "sequence")
    query = (
        rows.writeStream.format("nats")
        .options(**given["sink"], keyColumns="sequence")
        .option("checkpointLocation", str(folder / "checkpoints" / "out"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    failure = query.exception()
    found["failure"] = None if failure is None else str(failure)
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
