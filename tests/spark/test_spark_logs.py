"""Log files read by a real Spark while a server has them open: alone, and together with the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from harness.dearest import in_turn
from headrace.conf.streaming_options import StreamingOptions
from headrace.log.port import NewMessage
from headrace.log.store import FileStore
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, in_turn("open logs")]

COUNT = 60_000


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Channel orders: the numbers from 1 on, in segments of a MiB."""
    store = FileStore(tmp_path / "store", segment_bytes=1 << 20)
    log = store.open(b"orders")
    for first in range(1, COUNT + 1, 1000):
        log.append([NewMessage(b"orders", b"%0100d" % n) for n in range(first, first + 1000)])
    store.close()
    return tmp_path / "store"


@pytest.fixture
def server(directory: Path) -> Iterator[Server]:
    options = StreamingOptions(cluster_id="mine", store_type="FILE", directory=str(directory))
    with Server(streaming=options) as server:
        yield server


def totals(spark: SparkSession, **options: str) -> list[int]:
    frame = spark.read.format("nats").options(**options).load()
    [row] = frame.selectExpr(
        "count(*)", "count(distinct sequence)", "sum(sequence)", "sum(cast(cast(data as string) as bigint))"
    ).collect()
    return list(row)


def test_path_reads_what_a_server_has_open(spark: SparkSession, server: Server, directory: Path) -> None:
    every = sum(range(1, COUNT + 1))
    whole = [COUNT, COUNT, every, every]
    assert totals(spark, path=str(directory), minPartitions="3") == whole
    assert totals(spark, path=str(directory / "logs" / "orders")) == whole
    both = {"path": str(directory), "channel": "orders", "url": server.url, "clusterId": "mine"}
    assert totals(spark, **both) == whole
    with pytest.raises(PySparkException, match="no log of channel missing"):
        totals(spark, path=str(directory), channel="missing")


def test_path_with_its_server_is_a_stream(
    spark: SparkSession, server: Server, directory: Path, tmp_path: Path
) -> None:
    """It begins with the files, and its checkpoint is one of the channel: without `path` it goes on."""
    options = {"channel": "orders", "url": server.url, "clusterId": "mine", "startingOffsets": "earliest"}

    def run(**more: str) -> int:
        query = (
            spark.readStream.format("nats")
            .options(**options, **more)
            .load()
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "table"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return sum(progress.numInputRows for progress in query.recentProgress)

    assert run(path=str(directory), maxOffsetsPerTrigger="55000") == COUNT
    assert run() == 0
    found = spark.read.parquet(str(tmp_path / "table")).select("sequence")
    assert (found.count(), found.distinct().count()) == (COUNT, COUNT)
