"""Streams with a schema as the data source reads them, from a real server and without a JVM."""

from __future__ import annotations

import io
import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from headrace.client.blocking import Connection, connect
from headrace.client.errors import JetStreamError
from headrace.client.jetstream_api import JetStreamApi
from headrace.schemas import metadata
from headrace.spark.datasource import NatsDataSource
from headrace.spark.errors import OptionError
from headrace.spark.schema import COLUMNS
from headrace.spark.stored_link import idle
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("fastjsonschema")

ORDER = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
GOOD, BAD = b'{"id": 1}', b'{"id": "1"}'


@pytest.fixture
def connection() -> Iterator[Connection]:
    with Server(jetstream=True) as server, connect(server.url) as made:
        yield made
    idle.clear()


def make(connection: Connection, entries: dict[str, str], verb: str = "CREATE", **more: Any) -> None:
    config = {"name": "ORDERS", "subjects": ["orders.>"], "metadata": entries, **more}
    JetStreamApi(connection).ask(f"STREAM.{verb}.ORDERS", config)


def publish(connection: Connection, *payloads: bytes, subject: str = "orders.a") -> None:
    for payload in payloads:
        JetStreamApi(connection).put(subject, payload)


def source(connection: Connection, **options: str) -> NatsDataSource:
    return NatsDataSource({"url": str(connection.address), "stream": "ORDERS", **options})


def rows(found: NatsDataSource) -> list[dict[str, Any]]:
    """Rows as Spark gets them: the source travels to another process behind its columns."""
    schema = found.schema()
    reader = pickle.loads(pickle.dumps(found)).reader(schema)
    return [
        row
        for partition in reader.partitions()
        for batch in pickle.loads(pickle.dumps(reader)).read(partition)
        for row in batch.to_pylist()
    ]


def test_a_stream_with_a_schema_has_columns(connection: Connection) -> None:
    make(connection, metadata(ORDER))
    publish(connection, GOOD, BAD)
    found = source(connection)
    assert found.schema().names == [*COLUMNS.names, "id", "_corrupt_record"]
    assert [(row["id"], row["_corrupt_record"], row["data"]) for row in rows(found)] == [
        (1, None, GOOD),
        (None, BAD, BAD),
    ]


def test_another_format_is_asked_for_and_wins(connection: Connection) -> None:
    make(connection, metadata(ORDER))
    publish(connection, GOOD)
    assert source(connection, valueFormat="binary").schema() == COLUMNS
    found = source(connection, VALUEFORMAT="json", valueSchema="id string, x int")
    assert found.schema().names == [*COLUMNS.names, "_corrupt_record"]
    typed = source(connection, valueFormat="json", valueSchema="id bigint, x int")
    assert rows(typed)[0]["data"] == {"id": 1, "x": None}


def test_columns_of_the_user_are_some_of_them(connection: Connection) -> None:
    make(connection, metadata(ORDER))
    publish(connection, GOOD)
    found = source(connection)
    every = source(connection).schema()
    wanted = type(every)([every["id"], every["sequence"]])
    reader = found.reader(wanted)
    [partition] = reader.partitions()
    assert [batch.to_pylist() for batch in reader.read(partition)] == [[{"id": 1, "sequence": 1}]]
    assert source(connection).reader(COLUMNS)._options.value_format.payloads is None
    with pytest.raises(OptionError, match=r"column 'ident' is not one of .*, id, _corrupt_record"):
        found.reader(type(every)().add("ident", "long"))


def test_a_stream_without_a_schema_is_as_ever(connection: Connection) -> None:
    make(connection, {})
    assert source(connection).schema() == COLUMNS
    assert source(connection, stream="NONE").schema() == COLUMNS
    with pytest.raises(OptionError, match="no stream ORDERS has metadata"):
        source(connection, valueFormat="schema").schema()


def test_a_query_goes_on_when_its_stream_gets_another_schema(connection: Connection) -> None:
    fastavro = pytest.importorskip("fastavro")
    first = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
    second = {
        **first,
        "fields": [{"name": "note", "type": "string"}, {"name": "id", "type": "int", "default": 0}],
    }

    def datum(schema: Any, value: Any) -> bytes:
        file = io.BytesIO()
        canonical = fastavro.schema.to_parsing_canonical_form(schema)
        file.write(b"\xc3\x01" + bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO")))
        fastavro.schemaless_writer(file, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
        return file.getvalue()

    make(connection, metadata(first, "avro", check=True))
    publish(connection, datum(first, {"id": 1}))
    with pytest.raises(JetStreamError, match="does not fit"):
        publish(connection, datum(second, {"note": "n", "id": 2}))
    running = source(connection)
    schema = running.schema()
    make(connection, metadata(second, "avro", earlier=[first], check=True), "UPDATE")
    publish(connection, datum(second, {"note": "n", "id": 2}))
    with pytest.raises(JetStreamError, match="No default value for field note"):
        publish(connection, datum(first, {"id": 3}))

    reader = running.reader(schema)
    [partition] = reader.partitions()
    [batch] = reader.read(partition)
    assert batch.column("id").to_pylist() == [1, 2]
    assert [(row["note"], row["id"]) for row in rows(source(connection))] == [
        (None, None),  # the first schema has no note, and no default says what it would be
        ("n", 2),
    ]
