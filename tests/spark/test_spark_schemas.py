"""Streams with a schema in a real Spark: typed columns in tables and streams, and nothing that gets lost."""

from __future__ import annotations

import io
import json
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from harness.dearest import in_turn
from harness.waiting import LONG
from headrace.client.blocking import Connection, connect
from headrace.client.jetstream_api import JetStreamApi
from headrace.schemas import metadata
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, in_turn("rows by schema")]

pytest.importorskip("fastjsonschema")

ORDER = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer"},
        "timestamp": {"type": "string", "format": "date-time"},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
}


@pytest.fixture
def connection() -> Iterator[Connection]:
    with Server(jetstream=True) as server, connect(server.url) as made:
        yield made


def make(connection: Connection, name: str, entries: dict[str, str], verb: str = "CREATE") -> None:
    config = {"name": name, "subjects": [f"{name}.>"], "metadata": entries}
    JetStreamApi(connection).ask(f"STREAM.{verb}.{name}", config)


def publish(connection: Connection, name: str, *payloads: bytes) -> None:
    for payload in payloads:
        JetStreamApi(connection).put(f"{name}.a", payload)


def options(connection: Connection, name: str, **more: str) -> dict[str, str]:
    return {"url": str(connection.address), "stream": name, **more}


def test_a_table_has_the_columns_of_its_schema(spark: SparkSession, connection: Connection) -> None:
    make(connection, "S", metadata(ORDER))
    publish(
        connection,
        "S",
        b'{"id":1,"timestamp":"2026-01-31T10:00:00.5Z","lines":[{"n":1},{"n":2}],"counts":{"a":3}}',
        b'{"id":"one"}',
        b"\xff\x00",
    )
    frame = spark.read.format("nats").options(**options(connection, "S")).load()
    assert frame.drop(*frame.columns[:7]).schema.simpleString() == (
        "struct<id:bigint,value_timestamp:timestamp,lines:array<struct<n:bigint>>,counts:map<string,bigint>,"
        "_corrupt_record:binary>"
    )
    shown = ("sequence", "id", "unix_millis(value_timestamp)", "lines[1].n", "counts['a']")
    rows = frame.selectExpr(*shown, "_corrupt_record", "data").collect()
    assert [tuple(row)[:6] for row in rows] == [
        (1, 1, 1_769_853_600_500, 2, 3, None),
        (2, None, None, None, None, b'{"id":"one"}'),
        (3, None, None, None, None, b"\xff\x00"),
    ]
    assert [bytes(row["data"]) for row in rows[1:]] == [b'{"id":"one"}', b"\xff\x00"]
    assert frame.where("id = 1").count() == 1


def test_every_type_of_avro_is_a_column(spark: SparkSession, connection: Connection) -> None:
    fastavro = pytest.importorskip("fastavro")
    schema: dict[str, Any] = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "i", "type": "int"},
            {"name": "l", "type": ["null", "long"]},
            {"name": "f", "type": "float"},
            {"name": "b", "type": "bytes"},
            {"name": "t", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
            {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
            {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "string"}}},
        ],
    }
    make(connection, "A", metadata(schema, "avro", check=True))
    value = {"i": 1, "l": None, "f": 0.5, "b": b"x", "t": datetime(2026, 1, 31), "d": Decimal("1.25")}
    file = io.BytesIO()
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    fastavro.schemaless_writer(file, parsed, {**value, "m": {"a": ["x"]}})
    publish(connection, "A", file.getvalue())
    frame = spark.read.format("nats").options(**options(connection, "A")).load()
    assert frame.drop(*frame.columns[:7]).schema.simpleString() == (
        "struct<i:int,l:bigint,f:float,b:binary,t:timestamp_ntz,d:decimal(6,2),m:map<string,array<string>>,"
        "_corrupt_record:binary>"
    )
    row = frame.select("i", "l", "f", "b", "t", "d", "m").first()
    assert row is not None
    assert row.asDict() == {**value, "m": {"a": ["x"]}}


def test_a_query_goes_on_through_a_change_of_the_schema(
    spark: SparkSession, connection: Connection, tmp_path: Path
) -> None:
    make(connection, "Q", metadata(ORDER))
    publish(connection, "Q", b'{"id":1}', b"no order")

    def read() -> None:
        given = options(connection, "Q", startingOffsets="earliest")
        frame = spark.readStream.format("nats").options(**given).load()
        writer = frame.drop("headers").writeStream.format("parquet").option("path", str(tmp_path / "table"))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert query.trigger(availableNow=True).start().awaitTermination(int(LONG))

    read()
    properties = {**ORDER["properties"], "note": {"type": "string"}}  # type: ignore[dict-item]
    newer = {**ORDER, "required": ["id", "note"], "properties": properties}
    make(connection, "Q", metadata(newer, earlier=[ORDER]), "UPDATE")
    publish(connection, "Q", b'{"id":2,"note":"n"}', b'{"note":"no id"}')
    read()
    table = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "table"))
    rows = table.orderBy("sequence").select("sequence", "id", "note", "_corrupt_record").collect()
    assert [tuple(row) for row in rows] == [
        (1, 1, None, None),
        (2, None, None, b"no order"),
        (3, 2, "n", None),
        (4, None, None, b'{"note":"no id"}'),
    ]


def test_rows_of_a_query_are_written_by_the_schema_of_their_stream(
    spark: SparkSession, connection: Connection, tmp_path: Path
) -> None:
    make(connection, "FROM", metadata(ORDER))
    make(connection, "TO", metadata(ORDER, check=True))
    publish(
        connection,
        "FROM",
        b'{"id":1,"timestamp":"2026-01-31T10:00:00.5Z","lines":[{"n":1}],"counts":{"a":3}}',
        b"no order",
        b'{"id":2}',
    )
    given = options(connection, "FROM", startingOffsets="earliest")
    orders = spark.readStream.format("nats").options(**given).load()
    fitting = orders.where("_corrupt_record is null").selectExpr(
        "cast(sequence as string) as key", "id * 10 as id", "value_timestamp", "lines", "counts"
    )
    sink = options(connection, "TO", subject="TO.a", idColumn="key")
    query = fitting.writeStream.format("nats").options(
        **sink, checkpointLocation=str(tmp_path / "checkpoint")
    )
    assert query.trigger(availableNow=True).start().awaitTermination(int(LONG))
    found = spark.read.format("nats").options(**options(connection, "TO")).load()
    rows = found.orderBy("sequence").selectExpr("cast(data as string)", "id", "_corrupt_record").collect()
    assert [tuple(row) for row in rows] == [
        ('{"id":10,"timestamp":"2026-01-31T10:00:00.500000Z","lines":[{"n":1}],"counts":{"a":3}}', 10, None),
        ('{"id":20}', 20, None),
    ]
    with pytest.raises(
        StreamingQueryException, match="column id has type string, and the stream's schema says"
    ):
        fitting.selectExpr("key", "cast(id as string) as id").writeStream.format("nats").options(
            **sink, checkpointLocation=str(tmp_path / "other")
        ).trigger(availableNow=True).start().awaitTermination(int(LONG))
