"""`format("nats")` over stored channels in a real Spark: exactly once, over restarts and a killed server."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException

from headrace.client import stan
from headrace.client.blocking import connect
from headrace.client.streaming_admin import StreamingAdmin
from headrace.conf.options import StreamingOptions
from headrace.demo.server import CLUSTER_ID, DemoServer
from headrace.spark.progress import QueryCounts, failure_text
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

DEADLINE = 60.0


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(streaming=StreamingOptions(cluster_id="mine")) as running:
        yield running


def publish(url: str, channel: str, count: int, cluster_id: str = "mine") -> None:
    """Numbers from the channel's next sequence on, so that every payload says its own sequence."""

    async def work() -> None:
        with connect(url) as nc:
            found = StreamingAdmin(nc, cluster_id).channels(channel)
        begin = found[0].last_seq + 1 if found else 1
        async with await stan.connect(cluster_id, "publisher", servers=url) as client:
            for number in range(begin, begin + count):
                last = await client.publish_async(channel, b"%d" % number)
            await last

    asyncio.run(work())


def stream(spark: SparkSession, url: str, **options: str) -> DataFrame:
    given = {"channel": "a", "url": url, "clusterId": "mine", "startingOffsets": "earliest", **options}
    return spark.readStream.format("nats").options(**given).load()


def start(frame: DataFrame, folder: Path, **trigger: Any) -> QueryCounts:
    rows = frame.selectExpr("stream", "sequence", "cast(cast(data as string) as bigint) as number")
    writer = rows.writeStream.format("parquet").option("path", str(folder / "table"))
    trigger = trigger or {"processingTime": "0 seconds"}
    return QueryCounts(
        writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(**trigger).start()
    )


def wait(counts: QueryCounts, rows: int) -> None:
    deadline = time.monotonic() + DEADLINE
    while counts.processed < rows:
        counts.update()
        assert time.monotonic() < deadline, counts.query.status
        time.sleep(0.02)


def run_to_end(frame: DataFrame, folder: Path) -> QueryCounts:
    counts = start(frame, folder, availableNow=True)
    assert counts.query.awaitTermination(int(DEADLINE))
    counts.update()
    return counts


def summary(spark: SparkSession, folder: Path) -> tuple[int, ...]:
    """Rows, different sequences, lowest, highest, rows whose payload is their sequence."""
    table = spark.read.parquet(str(folder / "table"))
    found = table.selectExpr(
        "count(*)",
        "count(distinct sequence)",
        "min(sequence)",
        "max(sequence)",
        "count_if(number = sequence)",
    ).first()
    assert found is not None
    return tuple(found)


def test_channel_is_written_once_over_restarts_in_batches_of_the_limit(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    publish(server.url, "a", 25_000)
    frame = stream(spark, server.url, maxOffsetsPerTrigger="10000")
    first = run_to_end(frame, tmp_path)
    assert list(first.rows.values()) == [10_000, 10_000, 5_000]
    publish(server.url, "a", 15_000)
    again = run_to_end(frame, tmp_path)
    assert again.processed == 15_000
    assert summary(spark, tmp_path) == (40_000, 40_000, 1, 40_000, 40_000)


def test_channel_query_rides_out_a_killed_server(spark: SparkSession, tmp_path: Path) -> None:
    server = DemoServer(tmp_path / "store", tmp_path / "server.log")
    server.start()
    try:
        publish(server.url, "a", 20_000, CLUSTER_ID)
        frame = stream(spark, server.url, clusterId=CLUSTER_ID, maxOffsetsPerTrigger="2000")
        counts = start(frame, tmp_path)
        for killed_after in (2_000, 8_000):
            wait(counts, killed_after)
            server.kill()
            time.sleep(0.5)  # the outage itself: queries and tasks meet a refused connection
            server.start()
        publish(server.url, "a", 5_000, CLUSTER_ID)
        wait(counts, 25_000)
        counts.query.stop()
    finally:
        server.stop()
    assert summary(spark, tmp_path) == (25_000, 25_000, 1, 25_000, 25_000)


def test_channel_query_gives_up_a_server_that_stays_away(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    publish(server.url, "a", 10)
    with Server(streaming=StreamingOptions(cluster_id="mine")) as going:
        publish(going.url, "a", 10)
        url = going.url
        counts = start(stream(spark, url, reconnectTimeout="1s"), tmp_path)
        wait(counts, 10)
    with pytest.raises(StreamingQueryException) as caught:
        counts.query.awaitTermination(int(DEADLINE))
    text = failure_text(caught.value)
    assert text.startswith(f"cannot read channel a of cluster mine at {url.rstrip('/')}: ")
    assert "tried for 1 s, option reconnectTimeout" in text


def test_channel_made_again_ends_the_query_unless_told_that_loss_is_fine(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    publish(server.url, "a", 10)
    run_to_end(stream(spark, server.url), tmp_path)
    with connect(server.url) as nc:
        StreamingAdmin(nc, "mine").delete("a")
    publish(server.url, "a", 30)
    refused = start(stream(spark, server.url), tmp_path, availableNow=True)
    with pytest.raises(StreamingQueryException) as caught:
        refused.query.awaitTermination(int(DEADLINE))
    assert "channel a was deleted and made again since it was read up to sequence 10" in failure_text(
        caught.value
    )
    run_to_end(stream(spark, server.url, failOnDataLoss="false"), tmp_path)
    assert summary(spark, tmp_path) == (40, 30, 1, 30, 40)


def test_channel_as_a_table_and_several_at_once(spark: SparkSession, server: Server) -> None:
    publish(server.url, "a", 30_000)
    publish(server.url, "b", 100)
    given = {"url": server.url, "clusterId": "mine"}
    table = spark.read.format("nats").options(channel="a,b", **given).load()
    found = table.groupBy("stream").agg({"sequence": "max", "*": "count"}).orderBy("stream").collect()
    assert [row["stream"] for row in found] == ["a", "b"]
    assert sorted(tuple(row)[1:] for row in found) == [(100, 100), (30_000, 30_000)]
    some = spark.read.format("nats").options(
        channel="a", startingOffsets='{"a": 11}', endingOffsets='{"a": 21}', **given
    )
    assert [row["sequence"] for row in some.load().select("sequence").collect()] == list(range(11, 21))
    with pytest.raises(Exception, match="there is no channel nope"):
        spark.read.format("nats").options(channel="nope", **given).load().count()


def test_channel_that_comes_later_is_read_from_its_first_message(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    counts = start(stream(spark, server.url), tmp_path)
    talker = threading.Thread(target=publish, args=(server.url, "a", 5))
    talker.start()
    wait(counts, 5)
    talker.join()
    counts.query.stop()
    assert summary(spark, tmp_path) == (5, 5, 1, 5, 5)


def test_channel_wrong_use_fails_with_the_option_and_the_fix(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="subject and channel exclude each other"):
        spark.readStream.format("nats").option("subject", "a").option("channel", "a").load()
    with pytest.raises(AnalysisException, match="startingOffsets goes with option channel"):
        spark.readStream.format("nats").option("subject", "a").option("startingOffsets", "latest").load()
