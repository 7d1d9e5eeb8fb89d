"""A query started again from its checkpoint after something has changed: it ends as docs/spark.md says."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import pytest
from pipeline_runs import publish_to_channel
from pyspark.errors import StreamingQueryException

from harness import depth
from harness.dearest import in_turn
from harness.stored_sources import KINDS, GoStream, Source, stored_source
from harness.waiting import LONG
from headrace.client import stan
from headrace.client.blocking import connect
from headrace.client.jetstream import JetStream
from headrace.conf.account_options import AuthorizationOptions, UserOptions
from headrace.conf.streaming_options import StreamingOptions
from headrace.spark.progress import failure_text
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, in_turn("restarts")]

START_TRIES = 5


@pytest.fixture(params=depth.turn(KINDS))
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Source]:
    with stored_source(request.param, tmp_path) as made:
        yield made


def read(spark: SparkSession, options: dict[str, str], **more: str) -> DataFrame:
    given = {"startingOffsets": "earliest", **options, **more}
    return spark.readStream.format("nats").options(**given).load()


def run(
    frame: DataFrame, folder: Path, sink: str = "parquet", output_mode: str = "append", **options: str
) -> None:
    """From the checkpoint to what is there now; once more where Spark could not start Python in its 10 s."""
    options = {"path": str(folder / "table"), **options} if sink == "parquet" else options
    writer = frame.writeStream.format(sink).outputMode(output_mode).options(**options)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    for left in reversed(range(START_TRIES)):
        query = writer.start()
        try:
            assert query.awaitTermination(int(LONG)), query.status
            return
        except StreamingQueryException as error:
            if not left or "Python worker failed to connect back" not in str(error):
                raise


def failure(frame: DataFrame, folder: Path, sink: str = "parquet", **options: str) -> str:
    with pytest.raises(StreamingQueryException) as caught:
        run(frame, folder, sink, **options)
    return failure_text(caught.value)


def sequences(spark: SparkSession, folder: Path) -> list[int]:
    rows = spark.read.parquet(str(folder / "table")).select("sequence").collect()
    return sorted(row["sequence"] for row in rows)


def only_sequences(frame: DataFrame) -> DataFrame:
    return frame.select("sequence")


def test_restart_after_messages_were_removed(spark: SparkSession, source: Source, tmp_path: Path) -> None:
    frame = only_sequences(read(spark, source.options()))
    lossy = only_sequences(read(spark, source.options(), failOnDataLoss="false"))
    source.publish(20)
    run(frame, tmp_path)
    source.publish(20)
    source.keep_last(5)
    assert failure(frame, tmp_path) == (
        f"{source.word} a begins at sequence 36 now: 21 to 35 were removed by its limits or a purge before "
        "they were read. Set option failOnDataLoss to false to go on with what is there, or start with a new "
        "checkpointLocation"
    )
    run(lossy, tmp_path)
    source.publish(3)
    run(frame, tmp_path)
    assert sequences(spark, tmp_path) == [*range(1, 21), *range(36, 44)]


def test_restart_of_a_batch_that_was_planned_and_whose_messages_are_gone(
    spark: SparkSession, source: Source, tmp_path: Path
) -> None:
    source.publish(20)
    run(read(spark, source.options()), tmp_path, "noop")
    (tmp_path / "checkpoint" / "commits" / "0").unlink()  # as if it was killed inside the batch
    source.keep_last(5)
    text = "begins at sequence 16 now: 1 to 15 were removed"
    assert text in failure(read(spark, source.options()), tmp_path, "noop")
    run(read(spark, source.options(), failOnDataLoss="false"), tmp_path, "noop")
    source.delete()
    assert f"{source.word} a was deleted; it had been read up to sequence 20" in failure(
        read(spark, source.options()), tmp_path, "noop"
    )


def test_restart_with_other_columns_values_and_limits(
    spark: SparkSession, source: Source, tmp_path: Path
) -> None:
    """Offsets are sequences and know nothing of columns; what the sink makes of new ones is the sink's."""
    source.publish(10)
    run(only_sequences(read(spark, source.options())), tmp_path)
    source.publish(10)
    other = {"valueFormat": "string", "includeHeaders": "false", "maxOffsetsPerTrigger": "4"}
    run(read(spark, source.options(), **other).select("sequence", "data"), tmp_path)
    source.publish(10)
    fewer = {"filterSubjects": "a.0,a.1"} if source.word == "stream" else {}  # a channel has one subject
    typed = read(spark, source.options(), valueFormat="json", valueSchema="id bigint", **fewer)
    run(typed.selectExpr("sequence", "data.id as id"), tmp_path)
    new = [number for number in range(21, 31) if not fewer or number % 3 != 2]
    merged = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "table"))
    found = merged.selectExpr("count(*)", "count(distinct sequence)", "count(data)", "count(id)").first()
    assert found is not None
    assert tuple(found) == (20 + len(new), 20 + len(new), 10, 0)
    assert sequences(spark, tmp_path) == [*range(1, 21), *new]
    elsewhere = {**source.options(), source.word: "b"}
    assert failure(only_sequences(read(spark, elsewhere, failOnDataLoss="false")), tmp_path) == (
        f"the checkpoint is one of the {source.word}s a, option {source.word} says b; give this query a "
        "checkpointLocation of its own"
    )


def test_restart_of_an_aggregation_with_another_state_is_refused(
    checkpoint: tuple[DataFrame, Path], tmp_path: Path
) -> None:
    rows, _ = checkpoint
    run(rows.groupBy("stream").count(), tmp_path, "noop", output_mode="complete")
    (tmp_path / "checkpoint" / "commits" / "0").unlink()
    text = failure(rows.groupBy("sequence").count(), tmp_path, "noop", output_mode="complete")
    assert "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE]" in text


DAMAGE = {
    "offsets cut off": ("offsets", "v1\n", "next on empty iterator"),
    "offsets empty": ("offsets", "", "Failed to read log file"),
    "offsets without ours": ("offsets", 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0}', r"\[0\] sources"),
    "ours cut off": ("offsets", '{HEAD}{"v": 1, "channels": {"a": {"next": 1', "JSONDecodeError"),
    "ours no offset": ("offsets", "{HEAD}[1, 2]", "was not written by a source that reads STAN channels"),
    "ours damaged": (
        "offsets",
        '{HEAD}{"v": 1, "channels": {"a": {"next": null, "created": 1}}}',
        "is damaged; give this query a new checkpointLocation",
    ),
    "commit empty": ("commits", "", "Failed to read log file"),
    "commit no JSON": ("commits", "v1\nxx", "Unrecognized token 'xx'"),
}


@pytest.fixture(scope="module")
def checkpoint(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[DataFrame, Path]]:
    """A channel with twenty messages, and what a query left that has read them."""
    folder = tmp_path_factory.mktemp("checkpoint")
    with Server(streaming=StreamingOptions(cluster_id="mine")) as server:
        asyncio.run(publish(server.url, 20))
        options = {"url": server.url, "clusterId": "mine", "channel": "a"}
        run(only_sequences(read(spark, options, maxOffsetsPerTrigger="10")), folder, "noop")
        yield read(spark, options, failOnDataLoss="false"), folder / "checkpoint"


async def publish(url: str, count: int) -> None:
    async with await stan.connect("mine", "publisher", servers=url) as client:
        for number in range(count):
            last = await client.publish_async("a", b"%d" % number)
        await last


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_restart_with_a_damaged_checkpoint_never_goes_on(
    checkpoint: tuple[DataFrame, Path], tmp_path: Path, damage: tuple[str, str, str]
) -> None:
    rows, good = checkpoint
    log, content, text = damage
    shutil.copytree(good, tmp_path / "checkpoint")
    file = tmp_path / "checkpoint" / log / "1"
    version, metadata, *_ = (good / "offsets" / "1").read_text().splitlines()
    file.write_text(content.replace("{HEAD}", f"{version}\n{metadata}\n"))
    frame = only_sequences(rows)
    if damage is DAMAGE["ours no offset"]:  # Spark compares before anyone reads; not in an empty file
        with pytest.raises(StreamingQueryException, match="Checksum error"):
            run(frame, tmp_path, "noop")
    (file.parent / ".1.crc").unlink()  # where checksums are off, or were left behind by a copy
    with pytest.raises(StreamingQueryException, match=text):
        run(frame, tmp_path, "noop")


def test_restart_with_wrong_credentials_and_without_server_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    users = AuthorizationOptions(users=(UserOptions("joe", "right"),))
    with Server(authorization=users, streaming=StreamingOptions(cluster_id="mine")) as server:
        asyncio.run(publish(f"nats://joe:right@{server.host}:{server.port}", 10))
        given = {"url": server.url, "clusterId": "mine", "channel": "a", "user": "joe"}
        right = only_sequences(read(spark, given, password="right"))
        run(right, tmp_path)
        wrong = only_sequences(read(spark, given, password="wrong", reconnectTimeout="1h"))
        assert failure(wrong, tmp_path) == (
            f"cannot read channel a of cluster mine at {server.url}: the server says: Authorization Violation"
        )
        asyncio.run(publish(f"nats://joe:right@{server.host}:{server.port}", 10))
        run(right, tmp_path)
    away = read(spark, given, password="right", reconnectTimeout="200ms", failOnDataLoss="false")
    text = failure(only_sequences(away), tmp_path)
    assert text.startswith(f"cannot read channel a of cluster mine at {given['url']}: cannot connect to ")
    assert text.endswith(" (tried for 0.2 s, option reconnectTimeout)")
    assert sequences(spark, tmp_path) == list(range(1, 21))


def test_query_of_a_channel_goes_on_as_one_of_its_stream(spark: SparkSession, tmp_path: Path) -> None:
    """With a checkpoint and a folder of its own: of the old folder Spark leaves out the batches it has."""
    streaming = StreamingOptions(
        store_type="FILE", directory=str(tmp_path / "stan"), adopt={"orders": "ORDERS"}
    )
    before, after, mixed = (tmp_path / name for name in ("before", "after", "mixed"))
    with Server(streaming=streaming, jetstream=True) as server:
        publish_to_channel(server, "orders", [b"x"] * 4)
        run(only_sequences(read(spark, {"url": server.url, "channel": "orders"})), before)
        with connect(server.url) as connection:
            connection.request("orders", b"x")
            connection.request("orders", b"x")
        moved = {"url": server.url, "stream": "ORDERS", "startingOffsets": '{"ORDERS": 5}'}
        run(only_sequences(read(spark, moved)), after)
        run(only_sequences(read(spark, moved)), mixed, path=str(before / "table"))
    assert [sequences(spark, folder) for folder in (before, after)] == [[1, 2, 3, 4], [5, 6]]


def test_restart_of_a_sink_that_met_a_wrong_type_and_a_message_that_is_too_large(
    spark: SparkSession, tmp_path: Path
) -> None:
    target = GoStream(tmp_path, "max_payload: 1024\n")
    try:
        target.api("STREAM.CREATE.OUT", {"name": "OUT", "subjects": ["out"]})
        with Server(streaming=StreamingOptions(cluster_id="mine")) as server:
            asyncio.run(publish(server.url, 30))
            given = {"url": server.url, "clusterId": "mine", "channel": "a", "maxOffsetsPerTrigger": "10"}
            messages = read(spark, given)
            rows = messages.selectExpr(
                "if(sequence = 15, repeat('x', 1025), cast(sequence as string)) as data"
            )
            sink = {"url": target.url, "stream": "OUT", "subject": "out", "positionalIds": "true"}
            wrong = messages.selectExpr("sequence as data")
            text = failure(wrong, tmp_path, "nats", **sink)
            assert text == "column data has type bigint, not binary or string"
            assert stored(target) == []
            text = failure(rows, tmp_path, "nats", **sink)
            assert text.startswith("row 4 of partition 0: columns data and headers: a message of ")
            assert "the target takes 1024 (option mode dropmalformed leaves such rows out)" in text
            assert stored(target) == list(range(1, 11)), "the batch before, nothing of the one that failed"
            run(rows, tmp_path, "nats", mode="dropmalformed", **sink)
            assert stored(target) == [number for number in range(1, 31) if number != 15]
    finally:
        target.stop()


def stored(target: GoStream) -> list[int]:
    with connect(target.url) as nc:
        streams = JetStream(nc)
        state = streams.state("OUT")
        assert state is not None
        batches = streams.read("OUT", 1, state.last_sequence + 1)
        return [int(payload) for batch in batches for payload in batch.payloads]
