"""Tables of streams that say what their payloads are: typed columns in files, in Iceberg and in Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from table_makers import START, Stream, archived, sequences
from table_streams import Streams
from test_table_buckets import DELETED, Bucket

from headrace.client.blocking import connect
from headrace.log.port import NewMessage
from headrace.schemas import metadata
from headrace.tables.archive import archive
from headrace.tables.errors import TableError
from headrace.tables.latest import archive_latest
from headrace.tables.manifest import FORMAT, PLAIN_FORMAT, TableKind, decode, encode
from headrace.tables.rewrite import compact
from headrace.tables.source import ServerStreamSource
from headrace.tables.verify import verify
from headrace.testing import Server

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.tables import Table

pytest.importorskip("fastjsonschema")

FIRST: dict[str, Any] = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
SECOND = {
    **FIRST,
    "properties": {"id": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
}


class Orders(Stream):
    """A stream with metadata, whose messages are JSON."""

    def __init__(self, entries: dict[str, str]) -> None:
        super().__init__()
        self._metadata = entries

    def say(self, entries: dict[str, str]) -> None:
        self._metadata = entries

    def put(self, *payloads: Any, subject: bytes = b"orders.1") -> None:
        first = self.log.state().last_sequence + 1
        bodies = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in payloads]
        self.log.append(
            [
                NewMessage(subject, body, b"", b"", START + number * 10**9)
                for number, body in enumerate(bodies, first)
            ]
        )


def file_rows(table: Table, directory: Path) -> list[dict[str, Any]]:
    """The rows of the files as any reader of Parquet has them, those of one file after the other."""
    return [
        row for file in table.manifest().files for row in pq.read_table(directory / file.path).to_pylist()
    ]


def test_fields_are_columns_of_the_files(table: Table, directory: Path) -> None:
    stream = Orders(metadata(FIRST))
    stream.put({"id": 1}, b"no order", {"id": 3}, b"")
    archived(table, stream)
    rows = file_rows(table, directory)
    assert [(row["id"], row["_corrupt_record"], row["data"]) for row in rows] == [
        (1, None, b'{"id": 1}'),
        (None, b"no order", b"no order"),
        (3, None, b'{"id": 3}'),
        (None, None, b""),
    ]
    assert verify(table) == []
    assert sequences(table) == [1, 2, 3, 4]


def test_a_schema_that_changes_is_that_of_files_from_then_on(table: Table, directory: Path) -> None:
    stream = Orders(metadata(FIRST))
    stream.put({"id": 1})
    archived(table, stream)
    stream.say(metadata(SECOND, earlier=[FIRST]))
    stream.put({"id": 2, "tags": ["a"]}, {"id": 3})
    archived(table, stream)
    assert ["tags" in row for row in file_rows(table, directory)] == [False, True, True]
    with table.writing() as writer:
        compact(writer)
    assert [(row["id"], row["tags"]) for row in file_rows(table, directory)] == [
        (1, None),
        (2, ["a"]),
        (3, None),
    ]
    assert verify(table) == []


def test_rows_that_are_erased_are_gone_from_typed_columns(table: Table, directory: Path) -> None:
    stream = Orders(metadata(FIRST))
    stream.put({"id": 1}, {"id": 2}, {"id": 3})
    archived(table, stream)
    stream.log.delete(2, erase=True)
    archived(table, stream)
    assert [row["id"] for row in file_rows(table, directory)] == [1, 3]


@pytest.mark.parametrize(
    ("entries", "names"),
    [
        ({}, set()),
        (metadata(FIRST, subjects="orders.1") | metadata("{}", subjects="orders.2"), set()),
        (metadata(FIRST, subjects="orders.1"), {"id", "_corrupt_record"}),
    ],
)
def test_only_one_schema_makes_columns(
    table: Table, directory: Path, entries: dict[str, str], names: set[str]
) -> None:
    stream = Orders(entries)
    stream.put({"id": 1})
    stream.put(b"other", subject=b"orders.2")
    archived(table, stream)
    [file] = table.manifest().files
    found = pq.read_table(directory / file.path)
    assert set(found.column_names[8:]) == names
    if names:
        assert found["id"].to_pylist() == [1, None]
        assert found["_corrupt_record"].to_pylist() == [None, None]


@pytest.mark.parametrize("entries", [metadata({"type": "x"}), {"headrace.schema": "{}"}])
def test_a_schema_that_cannot_be_used_ends_the_run(table: Table, entries: dict[str, str]) -> None:
    stream = Orders(entries)
    stream.put({"id": 1})
    with pytest.raises(TableError, match=r"cannot be used|metadata of the stream"):
        archived(table, stream)


def test_a_manifest_keeps_the_schema_and_says_so_by_its_format(table: Table) -> None:
    stream = Orders({})
    stream.put({"id": 1})
    archived(table, stream)
    plain = table.manifest()
    assert json.loads(encode(plain))["format"] == PLAIN_FORMAT
    stream.say(metadata(SECOND, earlier=[FIRST], subjects="orders.*"))
    stream.put({"id": 2})
    archived(table, stream)
    typed = table.manifest()
    assert typed.payloads is not None
    assert typed.payloads.filter == "orders.*"
    assert json.loads(encode(typed))["format"] == FORMAT
    assert (decode(encode(plain), "here"), decode(encode(typed), "here")) == (plain, typed)


def test_values_of_a_bucket_have_the_columns(table: Table, directory: Path) -> None:
    bucket = Bucket()
    bucket._metadata = metadata(FIRST)
    bucket.put(a='{"id": 1}', b='{"id": 2}', c="no order")
    archive_latest(table, bucket)
    bucket.put(a='{"id": 3}')
    bucket.store("b", headers=DELETED)
    archive_latest(table, bucket)
    rows = file_rows(table, directory)
    assert {row["key"]: (row["id"], row["_corrupt_record"]) for row in rows} == {
        "a": (3, None),
        "c": (None, b"no order"),
    }
    assert verify(table) == []


def test_deletions_in_a_history_are_no_payloads_that_do_not_fit(table: Table, directory: Path) -> None:
    bucket = Bucket(history=5)
    bucket._metadata = metadata(FIRST)
    bucket.put(a='{"id": 1}')
    bucket.store("a", headers=DELETED)
    archive(table, bucket, kind=TableKind.HISTORY)
    found = [(row["operation"], row["id"], row["_corrupt_record"]) for row in file_rows(table, directory)]
    assert found == [("PUT", 1, None), ("DEL", None, None)]


def test_iceberg_has_the_columns(table: Table, tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    from headrace.tables.iceberg import open_catalog, sync

    catalog = open_catalog(f"sqlite:///{tmp_path}/catalog.db")
    stream = Orders({})
    stream.put({"id": 0})
    archived(table, stream)
    sync(table, catalog)
    for number, entries in enumerate((metadata(FIRST), metadata(SECOND, earlier=[FIRST])), 1):
        stream.say(entries)
        stream.put({"id": number, "tags": ["a"]})
        archived(table, stream)
        name, _, _ = sync(table, catalog)
    rows = catalog.load_table(name).scan().to_arrow().sort_by("sequence").to_pylist()
    assert [(row["id"], row["tags"], row["_corrupt_record"]) for row in rows] == [
        (None, None, None),  # before the stream had a schema
        (1, None, None),
        (2, ["a"], None),
    ]


def test_spark_reads_the_columns_of_a_table(table: Table, directory: Path) -> None:
    pytest.importorskip("pyspark")
    from headrace.spark.datasource import NatsDataSource
    from headrace.spark.errors import OptionError

    stream = Orders({})
    stream.put({"id": 1}, b"no order")
    archived(table, stream)
    assert "id" not in NatsDataSource({"path": str(directory)}).schema().names
    with pytest.raises(OptionError, match="no stream orders has metadata"):
        NatsDataSource({"path": str(directory), "valueFormat": "schema"}).schema()
    stream.say(metadata(SECOND))
    stream.put({"id": 3, "tags": ["a"]})
    archived(table, stream)
    source = NatsDataSource({"path": str(directory)})
    reader = source.reader(source.schema())
    rows = [row for one in reader.partitions() for batch in reader.read(one) for row in batch.to_pylist()]
    assert sorted((row["sequence"], row["id"], row["tags"], row["_corrupt_record"]) for row in rows) == [
        (1, 1, None, None),
        (2, None, None, b"no order"),
        (3, 3, ["a"], None),
    ]
    assert "id" not in NatsDataSource({"path": str(directory), "valueFormat": "binary"}).schema().names


def test_spark_reads_the_columns_of_what_is_behind_a_table(table: Table, directory: Path) -> None:
    pytest.importorskip("pyspark")
    from headrace.spark.datasource import NatsDataSource
    from headrace.spark.stored_link import idle

    with Server(jetstream=True) as server, connect(server.url) as connection:
        streams = Streams(connection)
        streams.make(metadata=metadata({"type": "integer"}))
        streams.publish(1, 3)
        archive(table, ServerStreamSource(connection, "ORDERS"))
        streams.change(metadata=metadata({"type": ["integer", "string"]}, earlier=[{"type": "integer"}]))
        streams.publish(4, 2)
        source = NatsDataSource({"path": str(directory), "stream": "ORDERS", "url": server.url})
        reader = source.reader(source.schema())
        rows = [row for one in reader.partitions() for batch in reader.read(one) for row in batch.to_pylist()]
    idle.clear()
    assert sorted((row["sequence"], row["value"]) for row in rows) == [(n, n) for n in range(1, 6)]
