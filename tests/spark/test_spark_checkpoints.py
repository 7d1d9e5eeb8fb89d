"""Queries whose checkpoint is in an object store, through the gateway: stopped and started again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

pytest.importorskip("obstore")

from harness.dearest import in_turn
from harness.stored_sources import StanChannel
from harness.waiting import LONG
from headrace.checkpoints import object_checkpoint
from headrace.spark.session import OBJECT_CHECKPOINT_MANAGER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.spark, in_turn("object store")]

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


@pytest.fixture
def source(tmp_path: Path) -> Iterator[StanChannel]:
    made = StanChannel(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def atomic(spark: SparkSession) -> Iterator[SparkSession]:
    """The shared session with the setting for object stores."""
    before = spark.conf.get(MANAGER)
    assert before is not None
    spark.conf.set(MANAGER, OBJECT_CHECKPOINT_MANAGER)
    yield spark
    spark.conf.set(MANAGER, before)


def numbers(spark: SparkSession, source: StanChannel) -> DataFrame:
    options = {**source.options(), "startingOffsets": "earliest", "maxOffsetsPerTrigger": "1000"}
    rows = spark.readStream.format("nats").options(**options).load()
    return rows.selectExpr("sequence", "sequence % 7 as part")


def wait(query: StreamingQuery, batch: int) -> None:
    deadline = time.monotonic() + LONG
    while query.lastProgress is None or query.lastProgress["batchId"] < batch:
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, query.status
        time.sleep(0.02)


def test_a_query_goes_on_from_an_object_store_and_counts_every_message_once(
    atomic: SparkSession, source: StanChannel, tmp_path: Path
) -> None:
    url = f"file://{tmp_path}/objects"
    counts: dict[int, int] = {}

    def keep(frame: DataFrame, _: int) -> None:
        counts.update({row["part"]: row["count"] for row in frame.collect()})

    def start(location: str) -> list[StreamingQuery]:
        rows = numbers(atomic, source)
        table = rows.writeStream.format("parquet").option("path", str(tmp_path / "table"))
        totals = rows.groupBy("part").count().writeStream.outputMode("update").foreachBatch(keep)
        return [
            one.option("checkpointLocation", f"{location}/{name}").start()
            for name, one in (("table", table), ("totals", totals))
        ]

    source.publish(4_000)
    with object_checkpoint(url, secret="of-this-test") as location:
        queries = start(location)
        for query in queries:
            wait(query, 2)
            query.stop()
    port = urlsplit(location).port
    assert port is not None
    assert list((tmp_path / "objects" / "table" / "commits").iterdir())
    source.publish(1_000)
    with object_checkpoint(url, port=port, secret="of-this-test") as location:
        queries = start(location)
        for query in queries:
            query.processAllAvailable()
            query.stop()

    found = atomic.read.parquet(str(tmp_path / "table"))
    assert (found.count(), found.select("sequence").distinct().count()) == (5_000, 5_000)
    assert counts == {part: len(range(part or 7, 5_001, 7)) for part in range(7)}
