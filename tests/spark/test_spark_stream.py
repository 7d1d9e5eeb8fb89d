"""`format("nats")` in a real Spark: the promises that only Spark itself can show."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException

from harness.waiting import LONG
from headrace.client.blocking import connect
from headrace.demo import job
from headrace.demo.feed import load_flights, messages
from headrace.spark.progress import QueryCounts, failure_text

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from conftest import Running

pytestmark = pytest.mark.spark


def nats(spark: SparkSession, server: Running, **options: str) -> DataFrame:
    given = {"subject": "a.>", "url": server.url, **options}
    return spark.readStream.format("nats").options(**given).load()


def start(frame: DataFrame, folder: Path, **trigger: Any) -> QueryCounts:
    writer = frame.writeStream.format("parquet").option("path", str(folder / "table"))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(**trigger).start()
    return QueryCounts(query)


def wait(counts: QueryCounts, rows: int | None = None) -> None:
    """Until the query listens (None) or has processed so many rows."""
    deadline = time.monotonic() + LONG
    while not (counts.is_live if rows is None else counts.processed >= rows):
        counts.update()
        assert time.monotonic() < deadline, counts.query.status
        time.sleep(0.02)


def publish(server: Running, subject: str, count: int) -> None:
    with connect(server.url) as nc:
        for number in range(count):
            nc.publish(subject, b"%d" % number)
        nc.flush()


def test_stream_writes_every_message_once_in_batches_of_the_limit(
    spark: SparkSession, server: Running, tmp_path: Path
) -> None:
    frame = nats(spark, server, maxOffsetsPerTrigger="15000")
    counts = start(frame.selectExpr("sequence", "subject", "data"), tmp_path, processingTime="0 seconds")
    wait(counts)
    publish(server, "a.b", 40_000)
    wait(counts, 40_000)
    counts.query.stop()
    assert max(counts.rows.values()) <= 15_000
    assert counts.received == 40_000
    table = spark.read.parquet(str(tmp_path / "table"))
    found = table.selectExpr(
        "count(*)", "count(distinct sequence)", "min(sequence)", "max(sequence)",
        "count_if(cast(cast(data as string) as bigint) = sequence - 1)",
    ).first()  # fmt: skip
    assert found is not None
    assert tuple(found) == (40_000, 40_000, 1, 40_000, 40_000)


@pytest.mark.parametrize("server", ["nats-server"], indirect=True)  # the command's own test takes ours
def test_flights_job_equals_the_same_sums_in_plain_python(
    spark: SparkSession, server: Running, tmp_path: Path
) -> None:
    flights = load_flights()[30_000:33_000]  # a stretch with cancelled flights
    assert any(flight["dep_delay"] is None for flight in flights)
    results = {"target": "subject", "url": server.url}
    read = job.read_flights(spark, {"subject": "flights.>", "url": server.url})
    queries = [
        QueryCounts(job.start_rows(read, tmp_path / "flights", tmp_path / "one")),
        QueryCounts(job.start_delays(read, tmp_path / "delays", tmp_path / "two", results)),
    ]
    for counts in queries:
        wait(counts)
    with connect(server.url) as nc:
        for subject, payload in messages(flights):
            nc.publish(subject, payload)
        nc.flush()
    for counts in queries:
        wait(counts, len(flights))
        counts.query.stop()
    rows = [row.asDict() for row in spark.read.parquet(str(tmp_path / "flights")).collect()]
    names = list(flights[0])
    assert sorted(rows, key=lambda row: row["sequence"])[0]["subject"] == messages(flights[:1])[0][0]
    assert [
        {name: row[name] for name in names} for row in sorted(rows, key=lambda r: r["sequence"])
    ] == flights
    found = {
        (row["carrier"], row["hour"]): row
        for row in (row.asDict() for row in spark.read.parquet(str(tmp_path / "delays")).collect())
    }
    groups: dict[tuple[str, int], list[int | None]] = {}
    for flight in flights:
        groups.setdefault((flight["carrier"], flight["hour"]), []).append(flight["dep_delay"])
    assert found.keys() == groups.keys()
    for key, delays in groups.items():
        known = [delay for delay in delays if delay is not None]
        row = found[key]
        assert (row["flights"], row["cancelled"]) == (len(delays), len(delays) - len(known))
        assert row["mean_delay"] == (pytest.approx(sum(known) / len(known)) if known else None)
        assert row["max_delay"] == max(known, default=None)


def test_query_fails_with_the_reason_when_the_server_goes(
    spark: SparkSession, server: Running, tmp_path: Path
) -> None:
    counts = start(nats(spark, server), tmp_path, processingTime="0 seconds")
    wait(counts)
    publish(server, "a.b", 10)
    wait(counts, 10)
    server.stop()
    with pytest.raises(StreamingQueryException) as caught:
        counts.query.awaitTermination(int(LONG))
    text = failure_text(caught.value)
    assert text.startswith(f"listening to a.> at {server.url.rstrip('/')} ended after 10 messages: ")
    assert "new checkpointLocation" in text


def test_restart_from_a_checkpoint_fails_unless_told_that_loss_is_fine(
    spark: SparkSession, headrace_server: Running, tmp_path: Path
) -> None:
    first = start(nats(spark, headrace_server), tmp_path, processingTime="0 seconds")
    wait(first)
    publish(headrace_server, "a.b", 10)
    wait(first, 10)
    first.query.stop()
    publish(headrace_server, "a.lost", 5)

    refused = start(nats(spark, headrace_server), tmp_path, processingTime="0 seconds")
    with pytest.raises(StreamingQueryException) as caught:
        refused.query.awaitTermination(int(LONG))
    assert "the checkpoint continues an earlier run" in failure_text(caught.value)
    assert "failOnDataLoss" in failure_text(caught.value)

    again = start(nats(spark, headrace_server, failOnDataLoss="false"), tmp_path, processingTime="0 seconds")
    deadline = time.monotonic() + LONG
    while again.processed == 0:  # a restarted query runs no first, empty batch that would show it listens
        publish(headrace_server, "a.c", 1)
        again.update()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    again.query.stop()
    rows = spark.read.parquet(str(tmp_path / "table")).select("sequence", "subject").collect()
    sequences = sorted(row["sequence"] for row in rows)
    assert sequences == list(range(1, len(rows) + 1))
    assert {row["subject"] for row in rows} == {"a.b", "a.c"}


def test_available_now_listens_for_the_duration_and_ends(
    spark: SparkSession, headrace_server: Running, tmp_path: Path
) -> None:
    refused = start(nats(spark, headrace_server), tmp_path / "refused", availableNow=True)
    with pytest.raises(StreamingQueryException, match="captureDuration"):
        refused.query.awaitTermination(int(LONG))

    frame = nats(spark, headrace_server, captureDuration="1s", maxOffsetsPerTrigger="50")
    counts = start(frame, tmp_path / "good", availableNow=True)
    with connect(headrace_server.url) as nc:
        while counts.query.isActive:
            nc.publish("a.b", b"x")
            nc.flush()
            time.sleep(0.005)
    counts.update()
    assert counts.processed > 50
    assert max(counts.rows.values()) == 50
    assert spark.read.parquet(str(tmp_path / "good" / "table")).count() == counts.processed


def test_wrong_use_fails_with_the_option_and_the_fix(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="option stream is missing"):
        spark.readStream.format("nats").load()
    with pytest.raises(AnalysisException, match="did you mean maxOffsetsPerTrigger"):
        spark.readStream.format("nats").option("subject", "a").option("maxOffsetPerTrigger", "1").load()
    with pytest.raises(AnalysisException, match="options subject and path exclude each other"):
        spark.readStream.format("nats").options(subject="a", path="ORDERS").load()
    with pytest.raises(AnalysisException, match=r"does not support spark\.read"):
        spark.read.format("nats").option("subject", "a").load().count()


def test_own_schema_gives_those_columns(
    spark: SparkSession, headrace_server: Running, tmp_path: Path
) -> None:
    frame = (
        spark.readStream.format("nats")
        .schema("data binary, headers map<string, array<string>>")
        .options(subject="a.>", url=headrace_server.url)
        .load()
    )
    counts = start(frame, tmp_path, processingTime="0 seconds")
    wait(counts)
    with connect(headrace_server.url) as nc:
        nc.publish("a.b", b"x", headers={"K": ["1", "2"]})
        nc.flush()
    wait(counts, 1)
    counts.query.stop()
    [row] = spark.read.parquet(str(tmp_path / "table")).collect()
    assert row.asDict() == {"data": bytearray(b"x"), "headers": {"K": ["1", "2"]}}
