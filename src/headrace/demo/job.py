"""The Spark job of the demonstration: flights in, typed rows and a table of delays out.

Knows nothing of servers, processes or displays. Where the messages come from is `source`, the options of
`format("nats")`: a stream, a STAN channel, subjects, and no other line changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812  # the name every Spark user knows
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_TEXT: Final = ("carrier", "tailnum", "origin", "dest", "time_hour")
_NUMBERS: Final = (
    "year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time",
    "arr_delay", "flight", "air_time", "distance", "hour", "minute",
)  # fmt: skip

FLIGHT: Final = StructType(
    [StructField(name, StringType()) for name in _TEXT]
    + [StructField(name, IntegerType()) for name in _NUMBERS]
)
"""One flight; delays are minutes, `hour` and `minute` the scheduled departure in New York local time."""

TRIGGER: Final = "500 milliseconds"


def read_flights(spark: SparkSession, source: Mapping[str, str]) -> DataFrame:
    """Messages as typed flights, each with its subject, sequence and time of arrival."""
    messages = spark.readStream.format("nats").options(**source).load()
    flight = F.from_json(F.col("data").cast("string"), FLIGHT, {"mode": "FAILFAST"})
    return messages.select("subject", "sequence", "timestamp", flight.alias("flight")).select(
        "subject", "sequence", "timestamp", "flight.*"
    )


def delays(flights: DataFrame) -> DataFrame:
    """Departure delay in minutes per carrier and scheduled hour; early departures count as negative.

    A cancelled flight has no delay: it counts in `flights` and `cancelled` and in no other column.
    """
    return flights.groupBy("carrier", "hour").agg(
        F.count(F.lit(1)).alias("flights"),
        F.count(F.when(F.col("dep_delay").isNull(), 1)).alias("cancelled"),
        F.avg("dep_delay").alias("mean_delay"),
        F.percentile("dep_delay", 0.9).alias("p90_delay"),
        F.max("dep_delay").alias("max_delay"),
    )


def start_rows(flights: DataFrame, table: Path, checkpoint: Path) -> StreamingQuery:
    """Write every flight as a row of a Parquet table."""
    return (
        flights.writeStream.queryName("rows")
        .format("parquet")
        .option("path", str(table))
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime=TRIGGER)
        .start()
    )


RESULTS: Final = "delays.>"
"""The subjects of the results: one for each row of the delay table, `delays.<carrier>.<hour>`."""


def results(delays: DataFrame) -> DataFrame:
    """The rows of the delay table as messages: `subject`, and the row as JSON in `data`."""
    subject = F.format_string("delays.%s.%02d", "carrier", "hour")
    return delays.select(subject.alias("subject"), F.to_json(F.struct("*")).cast("binary").alias("data"))


def start_delays(
    flights: DataFrame, table: Path, checkpoint: Path, target: Mapping[str, str]
) -> StreamingQuery:
    """Keep the delays up to date: a Parquet table, and the same rows as messages on result subjects.

    Both are written anew after each micro-batch. `target`: options of `format("nats")`, where messages go.
    """

    def write(result: DataFrame, _batch: int) -> None:
        result.orderBy("carrier", "hour").coalesce(1).write.mode("overwrite").parquet(str(table))
        kept = result.sparkSession.read.parquet(str(table))  # what is told is what the table has
        results(kept).write.format("nats").options(**target).mode("append").save()

    return (
        delays(flights)
        .writeStream.queryName("delays")
        .outputMode("complete")
        .foreachBatch(write)
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime=TRIGGER)
        .start()
    )
