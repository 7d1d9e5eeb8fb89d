"""Channels of NATS Streaming read from their bucket without a server: by name, by Spark, with their key."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from harness.bucket_servers import directory_bucket, fill_channel, serving_channels
from headrace.bucket.errors import BucketError
from headrace.bucket_channels import BucketChannels
from headrace.bucket_streams import StreamBucket
from headrace.client.blocking import connect
from headrace.client.streaming_admin import StreamingAdmin
from headrace.errors import StorageError
from headrace.spark import bucket_reader
from headrace.spark.bucket_reader import BucketPartition
from headrace.spark.datasource import NatsDataSource
from headrace.spark.errors import DataLossError, OptionError, StoredStreamError
from headrace.spark.stored_reader import StoredPartition
from headrace.tables import read_channel
from headrace.tables.errors import SourceMissing, TableError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def channels_of(place: Path, **more: Any) -> BucketChannels:
    return BucketChannels(StreamBucket(directory_bucket(place), cluster_id="c", **more))


def source(place: Path, **options: str) -> NatsDataSource:
    return NatsDataSource({"path": directory_bucket(place).url, "clusterId": "c", **options})


def rows(one: Any, partitions: Sequence[Any] | None = None) -> list[tuple[str, int, bytes]]:
    """The rows of a reader's tasks, each as another process would read it."""
    found = []
    for partition in one.partitions() if partitions is None else partitions:
        reader, task = pickle.loads(pickle.dumps((one, partition)))
        for batch in reader.read(task):
            found += [(row["subject"], row["sequence"], row["data"]) for row in batch.to_pylist()]
    return found


def batch(place: Path, **options: str) -> list[tuple[str, int, bytes]]:
    one = source(place, **options)
    return rows(one.reader(one.schema()))


def expected(channel: str, first: int, end: int) -> list[tuple[str, int, bytes]]:
    return [(channel, number, b"%d" % number) for number in range(first, end)]


def test_channels_are_read_beside_their_server_and_without_it(tmp_path: Path) -> None:
    bucket = str(tmp_path / "bucket")
    with serving_channels(tmp_path) as server:
        fill_channel(server.url, "orders.eu", 1, 20)
        fill_channel(server.url, "orders.us", 1, 5)
        channels = channels_of(tmp_path)
        assert channels.names() == ["orders.eu", "orders.us"]
        assert channels.get("orders") is None
        table = pa.table(read_channel(bucket, "orders.eu", cluster_id="c"))
        assert table["sequence"].to_pylist() == list(range(1, 21))
        assert set(table["subject"].to_pylist()) == {"orders.eu"}
        online = NatsDataSource({"url": server.url, "clusterId": "c", "channel": "orders.eu"})
        assert rows(online.reader(online.schema())) == batch(tmp_path, channel="orders.eu")
        fill_channel(server.url, "orders.eu", 21, 10)
        assert channels.get("orders.eu").last_sequence == 20  # type: ignore[union-attr]
        channels.look_again()
        assert channels.get("orders.eu").last_sequence == 30  # type: ignore[union-attr]
    assert batch(tmp_path, channel="orders.eu", minPartitions="3") == expected("orders.eu", 1, 31)
    assert batch(tmp_path, channel="orders.>") == [
        *expected("orders.eu", 1, 31),
        *expected("orders.us", 1, 6),
    ]
    part = read_channel(bucket, "orders.eu", cluster_id="c", first=10, end=12, columns=["data"])
    assert pa.table(part).to_pylist() == [{"data": b"10"}, {"data": b"11"}]
    wanted = batch(tmp_path, channel="orders.eu", startingOffsets='{"orders.eu": 28}')
    assert wanted == expected("orders.eu", 28, 31)
    one = source(tmp_path, channel="orders.*", pushdown="true")
    reader: Any = one.reader(one.schema())
    reader.pushFilters([EqualTo(("subject",), "orders.us")])
    assert rows(reader) == expected("orders.us", 1, 6)


def test_a_query_goes_on_where_it_was_with_the_bucket_or_with_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving_channels(tmp_path) as server:
        fill_channel(server.url, "orders", 1, 30)
        one = source(tmp_path, channel="orders", startingOffsets="earliest")
        reader: Any = one.streamReader(one.schema())
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadMaxRows(20))
        assert rows(reader, reader.partitions(start, end)) == expected("orders", 1, 21)
        fill_channel(server.url, "orders", 31, 10)
        rest = reader.latestOffset(end, ReadAllAvailable())
        assert rows(reader, reader.partitions(end, rest)) == expected("orders", 21, 41)
        served = NatsDataSource({"url": server.url, "clusterId": "c", "channel": "orders"})
        other: Any = served.streamReader(served.schema())
        assert other.latestOffset(end, ReadAllAvailable()) == rest
        monkeypatch.setattr(bucket_reader, "FROM_FILES", 10)
        both = source(tmp_path, channel="orders", url=server.url)
        relieved: Any = both.reader(both.schema())
        planned = relieved.partitions()
        assert {type(task) for task in planned} == {BucketPartition}
        monkeypatch.setattr(relieved._bucket, "look_again", lambda: None)  # a bucket that follows later
        fill_channel(server.url, "orders", 41, 10)
        planned = relieved.partitions()
        assert [type(task) for task in planned] == [BucketPartition, StoredPartition]
        assert rows(relieved, planned) == expected("orders", 1, 51)
        last = other.latestOffset(rest, ReadAllAvailable())
    again = source(tmp_path, channel="orders")
    reader = again.streamReader(again.schema())
    with serving_channels(tmp_path, "another machine") as server:
        assert rows(reader, reader.partitions(rest, last)) == expected("orders", 41, 51)
        with connect(server.url) as connection:
            StreamingAdmin(connection, "c").delete("orders")
        with pytest.raises(DataLossError, match="channel orders was deleted"):
            reader.latestOffset(last, ReadAllAvailable())
        fill_channel(server.url, "orders", 1, 3)
        with pytest.raises(DataLossError, match="was deleted and made again"):
            reader.latestOffset(last, ReadAllAvailable())


def test_an_encrypted_store_needs_its_key(tmp_path: Path) -> None:
    with serving_channels(tmp_path, encryption_key="s3cret", encryption_cipher="AES") as server:
        fill_channel(server.url, "orders", 1, 5)
    bucket = str(tmp_path / "bucket")
    (tmp_path / "key").write_text("s3cret\n")
    assert batch(tmp_path, channel="orders", keyFile=str(tmp_path / "key")) == expected("orders", 1, 6)
    assert pa.table(read_channel(bucket, "orders", cluster_id="c", key="s3cret")).num_rows == 5
    with pytest.raises(StoredStreamError, match="set option keyFile"):
        batch(tmp_path, channel="orders")
    with pytest.raises(StorageError, match="encrypted"):
        read_channel(bucket, "orders", cluster_id="c", key="wrong")
    with pytest.raises(TableError, match="neither chachapoly nor aes"):
        read_channel(bucket, "orders", cluster_id="c", key="s3cret", cipher="rot13")


def test_what_is_not_there_or_does_not_fit_is_told(tmp_path: Path) -> None:
    bucket = directory_bucket(tmp_path).url
    with pytest.raises(BucketError, match="has no streams of Headrace in it"):
        read_channel(bucket, "orders")
    with serving_channels(tmp_path) as server:
        fill_channel(server.url, "orders", 1, 1)
    with pytest.raises(SourceMissing, match="there is no channel other of cluster c in file:///"):
        read_channel(bucket, "other", cluster_id="c")
    with pytest.raises(BucketError, match="has no channels of cluster test-cluster in it"):
        read_channel(bucket, "orders")
    with pytest.raises(StoredStreamError, match="there is no channel other of cluster c in file:///"):
        batch(tmp_path, channel="other")
    with pytest.raises(StoredStreamError, match="has no streams of JetStream in it"):
        batch(tmp_path)
    for given, told in (
        ({"logPath": "elsewhere"}, "option logPath does not go with"),
        ({"account": "SALES"}, "option account is for streams"),
        ({"filterSubjects": "orders"}, "option filterSubjects is for streams"),
        ({"valueFormat": "schema"}, "channels say no schema"),
    ):
        with pytest.raises(OptionError, match=told):
            batch(tmp_path, channel="orders", **given)
