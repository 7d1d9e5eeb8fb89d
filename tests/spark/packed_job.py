"""A job for `spark-submit` in a packed environment: a stream into a Parquet table, with where each row went
through.

A program of its own, started by test_spark_submit.py. Prints where the driver found this package.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

import headrace


def place() -> str:
    """The directory of the executor, and where it found this package."""
    import json
    import os

    import headrace

    return json.dumps([os.getcwd(), headrace.__file__])


def main() -> None:
    given: dict[str, Any] = json.loads(sys.argv[1])
    folder = Path(given["folder"])
    spark = SparkSession.builder.appName("packed").getOrCreate()
    frame = spark.readStream.format("nats").options(**given["stream"], startingOffsets="earliest").load()
    query = (
        frame.select("sequence", udf(place, useArrow=False)().alias("place"))  # with Arrow it needs pandas
        .writeStream.format("parquet")
        .option("path", str(folder / "table"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()
    print(headrace.__file__)


if __name__ == "__main__":
    main()
