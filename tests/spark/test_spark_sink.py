"""`format("nats")` as a sink in a real Spark: written, read back, and exactly once over failing tasks."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException

from harness import depth
from harness.processes import SIDES, ServerProcess
from harness.waiting import LONG
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi
from headrace.conf.streaming_options import StreamingOptions
from headrace.spark.datasource import NatsDataSource
from headrace.spark.progress import failure_text
from headrace.spark.sink import NatsStreamWriter
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

pytestmark = pytest.mark.spark

SHORTEST_WINDOW = 100_000_000
PER_BATCH = 8_000


@pytest.fixture(params=depth.turn(list(SIDES)))
def jetstream(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with ServerProcess(SIDES[request.param], tmp_path, "-js", "-sd", str(tmp_path / "store")) as server:
        with connect(server.url) as nc:
            config = {"name": "OUT", "subjects": ["out.>"], "duplicate_window": SHORTEST_WINDOW}
            JetStreamApi(nc).ask("STREAM.CREATE.OUT", config)
        yield server.url


def stored(url: str) -> list[int]:
    """The numbers in stream OUT."""
    with connect(url) as nc:
        api = JetStreamApi(nc)
        wanted = int(api.ask("STREAM.INFO.OUT")["state"]["messages"])
        inbox = f"_INBOX.{secrets.token_hex(8)}"  # consumers of earlier calls are still there
        nc.subscribe(inbox)
        config = {"deliver_subject": inbox, "ack_policy": "none"}
        api.ask("CONSUMER.CREATE.OUT", {"stream_name": "OUT", "config": config})
        found: list[int] = []
        while len(found) < wanted:
            found += map(int, nc.receive(5).payloads)
        return found


def test_sink_frame_is_written_once_and_the_same_write_again_adds_nothing(
    spark: SparkSession, jetstream: str
) -> None:
    rows = spark.range(0, 20_000, 1, 3).selectExpr(
        "concat('out.', id % 7) as subject", "cast(id as string) as data", "map('N', array('1')) as headers"
    )
    writer = rows.write.format("nats").mode("append").options(stream="OUT", url=jetstream)
    for _ in range(2):
        writer.options(positionalIds="true", writeId="first").save()
    assert sorted(stored(jetstream)) == list(range(20_000))


def test_sink_channel_is_read_back_as_it_was_written(spark: SparkSession) -> None:
    with Server(streaming=StreamingOptions(cluster_id="mine")) as server:
        given = {"channel": "a", "url": server.url, "clusterId": "mine"}
        rows = spark.range(0, 5_000, 1, 1).selectExpr("cast(id as string) as data")
        rows.write.format("nats").mode("append").options(**given).save()
        back = spark.read.format("nats").options(**given).load()
        found = back.selectExpr("sequence", "cast(cast(data as string) as bigint) as n").orderBy("sequence")
        assert [tuple(row) for row in found.collect()] == [(n + 1, n) for n in range(5_000)]


def numbers(spark: SparkSession, shuffled: int) -> DataFrame:
    """8,000 numbers a batch, in that many partitions made by a shuffle (0: there is none)."""
    source = spark.readStream.format("rate-micro-batch")
    frame = source.option("rowsPerBatch", PER_BATCH).option("numPartitions", 1).load()
    if shuffled:
        frame = frame.repartition(shuffled, "value")
    return frame.selectExpr("cast(value as string) as data", *(["value as number"] if shuffled else []))


def failing_source(flag: str) -> type[NatsDataSource]:
    """The sink, whose tasks of batch 2 fail behind their last message while a file is there.

    Made in a function, so that it goes to the workers by value.
    """

    class FailingWriter(NatsStreamWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
            import os

            from pyspark import TaskContext

            done = NatsStreamWriter.write(self, iterator)
            context = TaskContext.get()
            assert context is not None
            if context.getLocalProperty("streaming.sql.batchId") == "2" and os.path.exists(flag):
                raise RuntimeError("made to fail")
            return done

    class Failing(NatsDataSource):
        @classmethod
        def name(cls) -> str:
            return "nats_failing"

        def streamWriter(self, schema: StructType, overwrite: bool) -> NatsStreamWriter:  # noqa: N802
            made = NatsDataSource.streamWriter(self, schema, overwrite)
            return FailingWriter(made.options, made.token)

    return Failing


def start(frame: DataFrame, url: str, folder: Path, **options: str) -> StreamingQuery:
    writer = frame.writeStream.format("nats_failing").options(
        stream="OUT", subject="out.n", url=url, **options
    )
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


@pytest.mark.parametrize("shuffled", [0, 1], ids=["map only", "shuffled"])
def test_sink_query_whose_tasks_fail_after_publishing_is_exact_after_a_restart(
    spark: SparkSession, jetstream: str, tmp_path: Path, shuffled: int
) -> None:
    """The stream's duplicate window is the shortest there is, so that it is not what keeps the counts exact.

    Too short for two attempts at the same time, too: so there is one task a batch until it fails.
    """
    flag = tmp_path / "flag"
    flag.touch()
    spark.dataSource.register(failing_source(str(flag)))
    options = {"keyColumns": "number"} if shuffled else {"positionalIds": "true"}
    frame = numbers(spark, shuffled)
    failing = start(frame, jetstream, tmp_path, **options)
    with pytest.raises(StreamingQueryException, match="made to fail"):
        failing.awaitTermination(int(LONG))
    assert len(stored(jetstream)) > 2 * PER_BATCH, "nothing of the failing batch was published"
    flag.unlink()
    again = start(numbers(spark, shuffled * 3), jetstream, tmp_path, **options)
    deadline = time.monotonic() + LONG
    while (again.lastProgress or {}).get("batchId", -1) < 4:
        assert again.isActive, again.exception()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    again.stop()
    found = stored(jetstream)
    assert len(found) == len(set(found))
    assert set(range(5 * PER_BATCH)) <= set(found)


def test_sink_wrong_use_fails_with_the_column_or_option_and_the_fix(
    spark: SparkSession, jetstream: str
) -> None:
    rows = spark.range(3).selectExpr("if(id = 2, 'out.*', 'out.a') as subject", "cast(id as string) as data")
    writer = rows.write.format("nats").mode("append").options(stream="OUT", url=jetstream)
    with pytest.raises(AnalysisException, match="set idColumn or keyColumns"):
        writer.save()
    with pytest.raises(AnalysisException, match="column data has type bigint"):
        rows.selectExpr("subject", "1L as data").write.format("nats").mode("append").options(
            stream="OUT", url=jetstream, positionalIds="true"
        ).save()
    with pytest.raises(Exception, match=r"column subject: 'out\.\*' is empty somewhere") as caught:
        writer.options(positionalIds="true").save()
    assert failure_text(caught.value).startswith("row ")
