"""`format("nats")` over stored streams in a real Spark: exactly once, over restarts and a killed server.

The same tests for each kind of stream and server.
"""

from __future__ import annotations

import asyncio
import runpy
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pipeline_runs import publish
from pyspark.errors import AnalysisException, StreamingQueryException

from harness import depth
from harness.stored_sources import KINDS, Source, stored_source
from harness.waiting import LONG
from headrace.client import stan
from headrace.conf.streaming_options import StreamingOptions
from headrace.spark.progress import QueryCounts, failure_text
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(params=depth.turn(KINDS))
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Source]:
    with stored_source(request.param, tmp_path) as made:
        yield made


def stream(spark: SparkSession, source: Source, **options: str) -> DataFrame:
    given = {**source.options(), "startingOffsets": "earliest", **options}
    return spark.readStream.format("nats").options(**given).load()


def start(frame: DataFrame, folder: Path, **trigger: Any) -> QueryCounts:
    rows = frame.selectExpr("stream", "sequence", "cast(cast(data as string) as bigint) as number")
    writer = rows.writeStream.format("parquet").option("path", str(folder / "table"))
    trigger = trigger or {"processingTime": "0 seconds"}
    return QueryCounts(
        writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(**trigger).start()
    )


def wait(counts: QueryCounts, rows: int) -> None:
    deadline = time.monotonic() + LONG
    while counts.processed < rows:
        counts.update()
        assert time.monotonic() < deadline, counts.query.status
        time.sleep(0.02)


def run_to_end(frame: DataFrame, folder: Path) -> QueryCounts:
    counts = start(frame, folder, availableNow=True)
    assert counts.query.awaitTermination(int(LONG))
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


def test_stored_is_written_once_over_restarts_in_batches_of_the_limit(
    spark: SparkSession, source: Source, tmp_path: Path
) -> None:
    source.publish(25_000)
    frame = stream(spark, source, maxOffsetsPerTrigger="10000")
    first = run_to_end(frame, tmp_path)
    assert list(first.rows.values()) == [10_000, 10_000, 5_000]
    source.publish(15_000)
    again = run_to_end(frame, tmp_path)
    assert again.processed == 15_000
    assert summary(spark, tmp_path) == (40_000, 40_000, 1, 40_000, 40_000)


def test_stored_query_rides_out_a_killed_server(spark: SparkSession, source: Source, tmp_path: Path) -> None:
    source.publish(20_000)
    counts = start(stream(spark, source, maxOffsetsPerTrigger="2000"), tmp_path)
    for killed_after in (2_000, 8_000):
        wait(counts, killed_after)
        source.kill()
        time.sleep(0.5)  # the outage itself: queries and tasks meet a refused connection
        source.start()
    source.publish(5_000)
    wait(counts, 25_000)
    counts.query.stop()
    assert summary(spark, tmp_path) == (25_000, 25_000, 1, 25_000, 25_000)


def test_stored_query_gives_up_a_server_that_stays_away(
    spark: SparkSession, source: Source, tmp_path: Path
) -> None:
    source.publish(10)
    counts = start(stream(spark, source, reconnectTimeout="1s"), tmp_path)
    wait(counts, 10)
    source.kill()
    with pytest.raises(StreamingQueryException) as caught:
        counts.query.awaitTermination(int(LONG))
    text = failure_text(caught.value)
    assert text.startswith(f"cannot read {source.word} a")
    assert f" at {source.url.rstrip('/')}: " in text
    assert "tried for 1 s, option reconnectTimeout" in text


def test_stored_made_again_ends_the_query_unless_told_that_loss_is_fine(
    spark: SparkSession, source: Source, tmp_path: Path
) -> None:
    source.publish(10)
    run_to_end(stream(spark, source), tmp_path)
    source.delete()
    source.publish(30)
    refused = start(stream(spark, source), tmp_path, availableNow=True)
    with pytest.raises(StreamingQueryException) as caught:
        refused.query.awaitTermination(int(LONG))
    assert f"{source.word} a was deleted and made again since it was read up to sequence 10" in failure_text(
        caught.value
    )
    run_to_end(stream(spark, source, failOnDataLoss="false"), tmp_path)
    assert summary(spark, tmp_path) == (40, 30, 1, 30, 40)


def test_stored_that_comes_later_is_read_from_its_first_message(
    spark: SparkSession, source: Source, tmp_path: Path
) -> None:
    counts = start(stream(spark, source), tmp_path)
    talker = threading.Thread(target=source.publish, args=(5,))
    talker.start()
    wait(counts, 5)
    talker.join()
    counts.query.stop()
    assert summary(spark, tmp_path) == (5, 5, 1, 5, 5)


def test_stored_as_a_table_with_conditions_pushed_down(spark: SparkSession, source: Source) -> None:
    source.publish(30_000)
    table = spark.read.format("nats").options(**source.options(), pushdown="true", minPartitions="3").load()
    assert table.count() == 30_000
    assert table.rdd.getNumPartitions() == 3
    some = table.where("sequence between 11 and 20 and stream = 'a' and timestamp > '2000-01-01'")
    assert [row["sequence"] for row in some.select("sequence").collect()] == list(range(11, 21))
    assert some.rdd.getNumPartitions() == 1  # only because the conditions arrived before the plan was made
    given = {"startingOffsets": '{"a": 11}', "endingOffsets": '{"a": 21}', "includeHeaders": "false"}
    text = {"valueFormat": "string", "valueMode": "failfast"}
    own = spark.read.format("nats").options(**source.options(), **given, **text).load()
    assert "headers" not in own.columns
    assert sorted(row["data"] for row in own.collect()) == sorted(map(str, range(11, 21)))
    numbers = {"valueFormat": "json", "valueSchema": "id bigint"}
    none = spark.read.format("nats").options(**source.options(), **given, **numbers).load()
    assert none.where("data.id is null").count() == 10
    wrong = {**source.options(), source.word: "nope"}
    with pytest.raises(Exception, match=f"there is no {source.word} nope"):
        spark.read.format("nats").options(**wrong).load().count()


def test_stored_several_at_once(spark: SparkSession) -> None:
    async def publish(url: str) -> None:
        async with await stan.connect("mine", "publisher", servers=url) as client:
            for channel, count in (("a", 3_000), ("b", 100)):
                for number in range(count):
                    last = await client.publish_async(channel, b"%d" % number)
                await last

    with Server(streaming=StreamingOptions(cluster_id="mine")) as server:
        asyncio.run(publish(server.url))
        given = {"url": server.url, "clusterId": "mine", "channel": "a,b"}
        table = spark.read.format("nats").options(**given).load()
        found = table.groupBy("stream").agg({"sequence": "max", "*": "count"}).orderBy("stream").collect()
    assert [row["stream"] for row in found] == ["a", "b"]
    assert sorted(tuple(row)[1:] for row in found) == [(100, 100), (3_000, 3_000)]


def test_stored_wrong_use_fails_with_the_option_and_the_fix(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="subject and channel exclude each other"):
        spark.readStream.format("nats").option("subject", "a").option("channel", "a").load()
    with pytest.raises(AnalysisException, match="startingOffsets goes with option channel or stream"):
        spark.readStream.format("nats").option("subject", "a").option("startingOffsets", "latest").load()
    with pytest.raises(AnalysisException, match="valueSchema and option valueFormat json need each other"):
        spark.readStream.format("nats").option("stream", "a").option("valueFormat", "json").load()


def test_example_of_a_table_does_what_it_says(spark: SparkSession, tmp_path: Path) -> None:
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "stream_to_table.py"))
    table = str(tmp_path / "table")
    with Server(jetstream=True) as server:
        publish(server.url, "ORDERS", [b"%d" % n for n in range(30)])
        assert example["append"](server.url, "ORDERS", table) == 30
        publish(server.url, "ORDERS", [b"%d" % n for n in range(30, 50)])
        assert example["append"](server.url, "ORDERS", table) == 50
    texts = [row["text"] for row in spark.read.parquet(table).orderBy("sequence").collect()]
    assert texts == [str(n) for n in range(50)]
