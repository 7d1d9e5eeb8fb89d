"""Streams and channels in a bucket read by a real Spark without a server: as a table, and as a stream over
restarts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.bucket_servers import (
    create,
    directory_bucket,
    fill,
    fill_channel,
    serving,
    serving_channels,
)
from harness.dearest import in_turn

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, in_turn("streams in a bucket")]


def test_a_bucket_is_read_over_restarts_and_other_owners(spark: SparkSession, tmp_path: Path) -> None:
    bucket = directory_bucket(tmp_path).url

    def run(**place: str) -> None:
        query = (
            spark.readStream.format("nats")
            .options(stream="ORDERS", startingOffsets="earliest", maxOffsetsPerTrigger="300", **place)
            .load()
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "table"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    with serving(tmp_path) as server:
        create(server.url)
        fill(server.url, 1, 1000)
        run(path=bucket)
        fill(server.url, 1001, 10)
    run(path=bucket)  # nobody owns it
    with serving(tmp_path, "another") as server:  # a new machine does
        fill(server.url, 1011, 10)
        run(path=bucket)
        fill(server.url, 1021, 10)
        run(url=server.url)  # the same offsets are good for its server
        fill(server.url, 1031, 10)
        run(path=bucket, url=server.url)
    found = sorted(row.sequence for row in spark.read.parquet(str(tmp_path / "table")).collect())
    assert found == list(range(1, 1041))
    frame = spark.read.format("nats").options(path=bucket, stream="ORDERS", minPartitions="3").load()
    assert frame.rdd.getNumPartitions() == 1  # one block of an index
    [row] = frame.selectExpr(
        "count(*)", "count(distinct sequence)", "sum(cast(cast(data as string) as bigint))"
    ).collect()
    assert list(row) == [1040, 1040, sum(range(1, 1041))]
    assert frame.where("sequence > 1035").count() == 5


def test_a_channel_is_read_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    channel = {"path": directory_bucket(tmp_path).url, "channel": "orders", "clusterId": "c"}

    def run() -> None:
        query = (
            spark.readStream.format("nats")
            .options(startingOffsets="earliest", **channel)
            .load()
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "table"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    with serving_channels(tmp_path) as server:
        fill_channel(server.url, "orders", 1, 100)
        run()
        fill_channel(server.url, "orders", 101, 10)
    run()  # nobody serves them
    wanted = list(range(1, 111))
    assert sorted(row.sequence for row in spark.read.parquet(str(tmp_path / "table")).collect()) == wanted
    assert (
        sorted(row.sequence for row in spark.read.format("nats").options(**channel).load().collect())
        == wanted
    )
