"""Streams read from their bucket, without a JVM: what is read, by whom, and what is told of."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from harness.bucket_servers import create, directory_bucket, fill, serving
from headrace.bucket_streams import SHARD
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi
from headrace.objects.local import LocalStore
from headrace.spark import bucket_reader
from headrace.spark.bucket_reader import BucketPartition
from headrace.spark.datasource import NatsDataSource
from headrace.spark.errors import DataLossError, OptionError, StoredStreamError
from headrace.spark.stored_reader import StoredPartition

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def source(place: Path, **options: str) -> NatsDataSource:
    return NatsDataSource({"path": directory_bucket(place).url, **options})


def table(one: Any, partitions: Sequence[Any] | None = None) -> pa.Table:
    """The rows of a reader's tasks, each as another process would read it."""
    planned = one.partitions() if partitions is None else partitions
    batches = []
    for partition in planned:
        reader, task = pickle.loads(pickle.dumps((one, partition)))
        batches += list(reader.read(task))
    return pa.Table.from_batches(batches) if batches else pa.table({"sequence": [], "data": []})


def batch(place: Path, **options: str) -> pa.Table:
    one = source(place, **options)
    return table(one.reader(one.schema()))


def sequences(found: pa.Table) -> list[int]:
    return [int(one) for one in found["sequence"].to_pylist()]


def ask(url: str, verb: str, **request: Any) -> dict[str, Any]:
    with connect(url) as connection:
        return JetStreamApi(connection, "$JS.API").ask(verb, request or None)


def test_what_is_committed_is_a_table_with_and_without_its_server(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        create(server.url)
        create(server.url, "OTHER")
        fill(server.url, 1, 100, size=100)
        fill(server.url, 1, 10, "other.a")
        ask(server.url, "STREAM.MSG.DELETE.ORDERS", seq=60)
        ask(server.url, "STREAM.PURGE.ORDERS", seq=11)
        beside = batch(tmp_path, stream="ORDERS")
        of_server = NatsDataSource({"url": server.url, "stream": "ORDERS"})
        assert table(of_server.reader(of_server.schema())).to_pylist() == beside.to_pylist()
    found = batch(tmp_path, stream="ORDERS", minPartitions="3")
    assert found.to_pylist() == beside.to_pylist()
    assert sequences(found) == [number for number in range(11, 101) if number != 60]
    assert batch(tmp_path).num_rows == 89 + 10
    assert set(batch(tmp_path, stream="O*")["stream"].to_pylist()) == {"ORDERS", "OTHER"}
    plain = NatsDataSource({"path": str(tmp_path / "bucket"), "stream": "OTHER"})  # the directory
    assert table(plain.reader(plain.schema())).num_rows == 10
    with pytest.raises(StoredStreamError, match=r"there is no stream MISSING of account \$G in file:///"):
        batch(tmp_path, stream="MISSING")
    with pytest.raises(StoredStreamError, match="there is no stream ORDERS of account SALES"):
        batch(tmp_path, stream="ORDERS", account="SALES")


def test_places_and_conditions_narrow_what_is_read(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        create(server.url)
        fill(server.url, 1, 50)
        fill(server.url, 51, 50, "orders.paid")
        stamp = batch(tmp_path, startingOffsets='{"ORDERS": 51}', stream="ORDERS")["timestamp"][0].as_py()
    wanted = batch(
        tmp_path, stream="ORDERS", startingOffsets='{"ORDERS": 10}', endingOffsets='{"ORDERS": 20}'
    )
    assert sequences(wanted) == list(range(10, 20))
    assert sequences(batch(tmp_path, stream="ORDERS", filterSubjects="orders.paid")) == list(range(51, 101))
    since = str(int(stamp.timestamp() * 1000) + 1)
    assert len(sequences(batch(tmp_path, stream="ORDERS", startingTimestamp=since))) <= 50
    one = source(tmp_path, stream="ORDERS", pushdown="true")
    reader = one.reader(one.schema())
    reader.pushFilters([GreaterThanOrEqual(("sequence",), 90), EqualTo(("subject",), "orders.paid")])
    assert sequences(table(reader)) == list(range(90, 101))
    reader.pushFilters([EqualTo(("subject",), "orders.new")])
    assert sequences(table(reader)) == list(range(1, 51))
    with serving(tmp_path, "again") as server:
        ask(server.url, "STREAM.PURGE.ORDERS", seq=21)
    with pytest.raises(DataLossError, match="ORDERS begins at sequence 21 now: 10 to 20 were removed"):
        batch(tmp_path, stream="ORDERS", startingOffsets='{"ORDERS": 10}')


def test_an_encrypted_store_is_read_with_its_key(tmp_path: Path) -> None:
    with serving(tmp_path, encryption_key="s3cret", encryption_cipher="AES") as server:
        create(server.url)
        fill(server.url, 1, 5)
    (tmp_path / "key").write_text("s3cret\n")
    (tmp_path / "empty").write_text("\n")
    given = {"stream": "ORDERS", "keyFile": str(tmp_path / "key"), "cipher": "aes"}
    assert sequences(batch(tmp_path, **given)) == [1, 2, 3, 4, 5]
    with pytest.raises(StoredStreamError, match="set option keyFile"):
        batch(tmp_path, stream="ORDERS")
    for wrong in (
        {"keyFile": str(tmp_path / "none")},
        {"keyFile": str(tmp_path / "empty")},
        {"cipher": "aes"},
    ):
        with pytest.raises(OptionError, match=r"option (keyFile|cipher)"):
            batch(tmp_path, stream="ORDERS", **wrong)
    with pytest.raises(OptionError, match="neither chachapoly nor aes"):
        batch(tmp_path, **(given | {"cipher": "rot13"}))


def test_options_that_do_not_fit_are_errors(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        create(server.url)
    one = source(tmp_path, logPath="elsewhere")
    with pytest.raises(OptionError, match="option logPath does not go with"):
        one.reader(one.schema())
    (tmp_path / "none").mkdir()
    for given in ({"account": "A"}, {"stream": "S", "filterSubjects": "a"}):
        other = NatsDataSource({"path": str(tmp_path / "none"), **given})
        with pytest.raises(OptionError, match="is for buckets of streams"):
            other.reader(other.schema())


def test_objects_that_were_deleted_since_the_plan_are_looked_for_again(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        create(server.url)
        fill(server.url, 1, 20)
    one = source(tmp_path, stream="ORDERS")
    reader = one.reader(one.schema())
    [planned] = reader.partitions()
    assert isinstance(planned, BucketPartition)
    assert planned.slice is not None
    [file] = planned.slice.part.files
    assert not file.extents  # the write-ahead log has all of it: pretend that an object does
    from headrace.bucket.changes import FileExtent

    gone = replace_extents(planned, FileExtent(0, file.size, "gone", 0, file.size, 0))
    assert sequences(table(reader, [gone])) == list(range(1, 21))


def replace_extents(planned: BucketPartition, extent: Any) -> BucketPartition:
    """The task with bytes that an object has which is not there."""
    import msgspec

    assert planned.slice is not None
    [file] = planned.slice.part.files
    part = msgspec.structs.replace(
        planned.slice.part, files=(msgspec.structs.replace(file, extents=(extent,)),), writes=()
    )
    return replace(planned, slice=msgspec.structs.replace(planned.slice, part=part))


def test_a_stream_goes_on_by_sequence_with_the_bucket_or_with_the_server(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        create(server.url)
        fill(server.url, 1, 30)
        one = source(tmp_path, stream="ORDERS", startingOffsets="earliest")
        reader: Any = one.streamReader(one.schema())
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadMaxRows(20))
        assert sequences(table(reader, reader.partitions(start, end))) == list(range(1, 21))
        fill(server.url, 31, 10)
        rest = reader.latestOffset(end, ReadAllAvailable())
        assert sequences(table(reader, reader.partitions(end, rest))) == list(range(21, 41))
        assert reader.latestOffset(rest, ReadAllAvailable()) == rest
        served = NatsDataSource({"url": server.url, "stream": "ORDERS"})
        other: Any = served.streamReader(served.schema())
        assert other.latestOffset(end, ReadAllAvailable()) == rest
        assert sequences(table(other, other.partitions(end, rest))) == list(range(21, 41))
        fill(server.url, 41, 5)
        last = other.latestOffset(rest, ReadAllAvailable())
    again = source(tmp_path, stream="ORDERS")
    reader = again.streamReader(again.schema())
    assert sequences(table(reader, reader.partitions(rest, last))) == [41, 42, 43, 44, 45]
    assert reader.latestOffset(last, ReadAllAvailable()) == last
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset(end, ReadAllAvailable()) == last


def test_a_stream_that_was_made_again_is_a_loss(tmp_path: Path) -> None:
    one = source(tmp_path, stream="ORDERS", startingOffsets="earliest")
    with serving(tmp_path) as server:
        create(server.url)
        fill(server.url, 1, 5)
        reader: Any = one.streamReader(one.schema())
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        ask(server.url, "STREAM.DELETE.ORDERS")
        with pytest.raises(DataLossError, match="was deleted"):
            reader.latestOffset(end, ReadAllAvailable())
        create(server.url)
        with pytest.raises(DataLossError, match="was deleted and made again"):
            reader.latestOffset(end, ReadAllAvailable())
        with pytest.raises(DataLossError, match="was deleted and made again"):
            reader.partitions(start, end)


def test_with_its_server_what_the_bucket_has_not_is_asked_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_reader, "FROM_FILES", 10)
    with serving(tmp_path) as server:
        create(server.url)
        fill(server.url, 1, 50)
        both = {"stream": "ORDERS", "url": server.url}
        one = source(tmp_path, **both)
        reader = one.reader(one.schema())
        planned = reader.partitions()
        assert {type(task) for task in planned} == {BucketPartition}
        assert sequences(table(reader, planned)) == list(range(1, 51))
        seen = reader._bucket
        monkeypatch.setattr(seen, "look_again", lambda: None)  # a bucket that follows later
        fill(server.url, 51, 10)
        planned = reader.partitions()
        assert [type(task) for task in planned] == [BucketPartition, StoredPartition]
        assert sequences(table(reader, planned)) == list(range(1, 61))
        small = source(tmp_path, **both, startingOffsets='{"ORDERS": 55}')
        few = small.reader(small.schema())
        assert {type(task) for task in few.partitions()} == {StoredPartition}
        assert sequences(table(few)) == list(range(55, 61))


def test_columns_are_those_of_the_streams_schema(tmp_path: Path) -> None:
    from headrace.schemas import metadata

    described = metadata({"type": "object", "properties": {"id": {"type": "integer"}}})
    with serving(tmp_path) as server:
        create(server.url, metadata=described)
        with connect(server.url) as connection:
            JetStreamApi(connection, "$JS.API").put("orders.new", b'{"id": 7}')
    assert batch(tmp_path, stream="ORDERS")["id"].to_pylist() == [7]


def test_a_damaged_object_and_a_missing_one_are_told_of(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        create(server.url)
        fill(server.url, 1, 5)
    wal = LocalStore(tmp_path / "bucket")
    keys = sorted(one.key for one in wal.list(f"shards/{SHARD}/wal"))
    (tmp_path / "bucket" / keys[2]).write_bytes(b"nothing")
    with pytest.raises(StoredStreamError, match="object 3 of shard jetstream is no object"):
        batch(tmp_path, stream="ORDERS")
