"""Streams in a bucket as rows: for DuckDB and others by name, in bounded memory, whatever is deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from harness.bucket_servers import create, directory_bucket, fill, serving
from harness.s3 import aws_environment, s3_endpoint
from harness.store_proxy import Fate, store_proxy
from headrace.bucket.errors import BucketError
from headrace.bucket_streams import BucketStream, ObjectsGone
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi
from headrace.objects.errors import AccessRefused, StoreError
from headrace.objects.local import LocalStore
from headrace.schemas import metadata
from headrace.tables import bucket_rows, open_store, read_stream
from headrace.tables.columns import SCHEMA
from headrace.tables.errors import SourceChanged, SourceMissing, TableDamaged, TableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import Any


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A bucket whose stream ORDERS has 600 messages of 10 kB, of which every third is of orders.paid."""
    place = tmp_path_factory.mktemp("rows")
    with serving(place) as server:
        create(server.url)
        with connect(server.url) as connection:
            for number in range(1, 600):
                subject = "orders.new" if number % 3 else "orders.paid"
                connection.publish(subject, b"%d" % number + bytes(10_000))
            JetStreamApi(connection, "$JS.API").put("orders.paid", b"600" + bytes(10_000))
    return directory_bucket(place).url


def test_duckdb_reads_a_stream_by_name(bucket: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    messages = read_stream(bucket, "ORDERS")  # noqa: F841 - DuckDB finds it by its name
    for _ in range(2):  # as often as it is asked
        found = duckdb.sql("select subject, count(*), max(sequence) from messages group by all order by all")
        assert found.fetchall() == [("orders.new", 400, 599), ("orders.paid", 200, 600)]
    [row] = duckdb.sql("select decode(data[1:3]) from messages where sequence = 123").fetchall()
    assert row == ("123",)


def test_polars_and_pyarrow_read_it(bucket: str) -> None:
    polars = pytest.importorskip("polars")
    messages = read_stream(bucket, "ORDERS", columns=["sequence", "subject"])
    frame = polars.DataFrame(messages)
    assert frame.columns == ["sequence", "subject"]
    assert frame["sequence"].to_list() == list(range(1, 601))
    assert pa.table(messages).num_rows == 600
    assert messages.reader().read_all().schema == messages.schema


def test_parts_of_a_stream(bucket: str) -> None:
    def found(**more: Any) -> list[int]:
        rows = read_stream(bucket, "ORDERS", columns=["sequence"], **more)
        return [int(one) for batch in rows.batches() for one in batch.column(0).to_pylist()]

    assert found(first=10, end=20) == list(range(10, 20))
    assert found(subjects=["orders.paid"], first=590) == [591, 594, 597, 600]
    assert found(first=700) == []
    assert read_stream(bucket, "ORDERS").schema == SCHEMA
    with pytest.raises(TableError, match="there is no column key"):
        read_stream(bucket, "ORDERS", columns=["key"])
    with pytest.raises(TableError, match="neither chachapoly nor aes"):
        read_stream(bucket, "ORDERS", cipher="rot13")


def test_a_few_pieces_are_read_at_once(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_rows, "PIECE_BYTES", 100_000)
    begun: list[int] = []
    read = BucketStream.read

    def counted(stream: BucketStream, first: int, end: int, filters: Sequence[bytes]) -> Iterator[Any]:
        begun.append(first)
        return read(stream, first, end, filters)

    monkeypatch.setattr(BucketStream, "read", counted)
    batches = read_stream(bucket, "ORDERS").batches()
    first = next(batches)
    assert first.num_rows < 20
    assert len(begun) <= bucket_rows.AHEAD + 1
    batches.close()  # type: ignore[attr-defined]
    assert len(begun) <= bucket_rows.AHEAD + 1


def test_objects_that_are_deleted_meanwhile_are_looked_for_again(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_rows, "PIECE_BYTES", 1_000_000)
    read = BucketStream.read
    failures = [0]

    def gone(stream: BucketStream, first: int, end: int, filters: Sequence[bytes]) -> Iterator[Any]:
        if first > 200 and failures[0] < 3:
            failures[0] += 1
            raise ObjectsGone("deleted while it was read")
        return read(stream, first, end, filters)

    monkeypatch.setattr(BucketStream, "read", gone)
    rows = read_stream(bucket, "ORDERS", columns=["sequence"])
    assert pa.table(rows).column(0).to_pylist() == list(range(1, 601))

    def always(stream: BucketStream, first: int, end: int, filters: Sequence[bytes]) -> Iterator[Any]:
        raise ObjectsGone("deleted while it was read, read it again")

    monkeypatch.setattr(BucketStream, "read", always)
    with pytest.raises(ObjectsGone, match="read it again"):
        list(rows.batches())

    def damaged(stream: BucketStream, first: int, end: int, filters: Sequence[bytes]) -> Iterator[Any]:
        yield [], [(7, 9)]

    monkeypatch.setattr(BucketStream, "read", damaged)
    with pytest.raises(TableDamaged, match="sequences 7 to 9 cannot be read"):
        list(rows.batches())


def test_what_is_gone_when_it_is_looked_for_again_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path) as server:
        create(server.url)
        fill(server.url, 1, 20)
        place = directory_bucket(tmp_path).url
        rows = read_stream(place, "ORDERS")
        read = BucketStream.read
        failed: list[int] = []

        def once(stream: BucketStream, first: int, end: int, filters: Sequence[bytes]) -> Iterator[Any]:
            if not failed:
                failed.append(first)
                raise ObjectsGone("deleted while it was read")
            return read(stream, first, end, filters)

        monkeypatch.setattr(BucketStream, "read", once)
        with connect(server.url) as connection:
            api = JetStreamApi(connection, "$JS.API")
            api.ask("STREAM.PURGE.ORDERS", {"seq": 6})
            with pytest.raises(SourceChanged, match="begins at sequence 6 now: 1 to 5 were removed"):
                list(rows.batches())
            api.ask("STREAM.DELETE.ORDERS")
            failed.clear()
            with pytest.raises(SourceChanged, match="was deleted while it was read"):
                list(rows.batches())
    with pytest.raises(SourceMissing, match=r"there is no stream ORDERS of account \$G in file:///"):
        read_stream(place, "ORDERS")
    with pytest.raises(BucketError, match="has no streams of Headrace in it"):
        read_stream(str(tmp_path / "store"), "ORDERS")


def test_fields_of_payloads_are_columns(tmp_path: Path) -> None:
    pytest.importorskip("fastjsonschema")
    described = metadata({"type": "object", "properties": {"id": {"type": "integer"}}})
    with serving(tmp_path, encryption_key="s3cret", encryption_cipher="CHACHA") as server:
        create(server.url, metadata=described)
        with connect(server.url) as connection:
            JetStreamApi(connection, "$JS.API").put("orders.new", b'{"id": 7}')
    rows = read_stream(str(tmp_path / "bucket"), "ORDERS", key="s3cret", columns=["id", "sequence"])
    assert pa.table(rows).to_pylist() == [{"id": 7, "sequence": 1}]


@pytest.mark.filterwarnings("default")
def test_an_object_store_by_its_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_endpoint("streams") as endpoint:
        for name, value in aws_environment(endpoint).items():
            monkeypatch.setenv(name, value)
        with serving(tmp_path) as server:  # a server over moto loses its term on a machine that is too busy
            create(server.url)
            fill(server.url, 1, 20)
        directory, store = LocalStore(tmp_path / "bucket"), open_store("s3://streams/a")
        for one in directory.list():
            store.put(one.key, directory.get(one.key))
        assert pa.table(read_stream("s3://streams/a", "ORDERS")).num_rows == 20
        with pytest.raises(BucketError, match="s3://streams/b has no streams of Headrace in it"):
            read_stream("s3://streams/b", "ORDERS")
        monkeypatch.delenv("AWS_ENDPOINT")
        with store_proxy(endpoint) as proxy:  # moto believes everybody
            proxy.default = lambda _request: Fate(status=403, code="AccessDenied")
            with pytest.raises(AccessRefused) as refused:
                read_stream("s3://streams/a", "ORDERS", endpoint=proxy.url, region="us-east-1")
            assert "\n" not in str(refused.value)
        given = {"endpoint": endpoint, "region": "us-east-1"}
        assert pa.table(read_stream("s3://streams/a", "ORDERS", **given)).num_rows == 20
    with pytest.raises(StoreError):  # nobody is there any more
        read_stream("s3://streams/a", "ORDERS", **given)
