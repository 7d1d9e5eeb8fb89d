"""Which schema a read has, and rows of its columns, without a server and without a JVM."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from headrace.client.jetstream import StreamBatch
from headrace.schemas import metadata
from headrace.spark.errors import OptionError, RowError, StoredStreamError, ValueFormatError
from headrace.spark.options import read_options
from headrace.spark.schema import COLUMNS, stored_record_batch
from headrace.spark.sink_options import SinkOptions, read_sink_options
from headrace.spark.sink_rows import PublishLimits, RowReader, RowsIdentity, check_sink_columns
from headrace.spark.typed_payloads import StreamPayloads, TypedDecoder, payloads_of

pytest.importorskip("fastjsonschema")

ORDER = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer"},
        "subject": {"type": "string"},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "at": {"type": "string", "format": "date-time"},
    },
}
OTHER = {"type": "string"}


def chosen(*streams: dict[str, str], filters: tuple[str, ...] = (), asked: bool = False) -> str | None:
    """The filter of the schema that is chosen; None for none."""
    named = {f"S{number}": one for number, one in enumerate(streams)}
    found = payloads_of(named, filters, is_asked_for=asked)
    return None if found is None else found.filter


PLAIN = metadata(ORDER)
EU = metadata(OTHER, subjects="o.eu.>")
US = metadata(ORDER, subjects="o.us.>")


@pytest.mark.parametrize(
    ("streams", "filters", "filter_of_schema"),
    [
        ((PLAIN,), (), ""),
        ((PLAIN,), ("o.eu.*", "o.us"), ""),
        ((PLAIN, PLAIN), (), ""),
        ((EU,), (), "o.eu.>"),
        ((EU,), ("o.eu.a", "o.eu.b.>"), "o.eu.>"),
        ((PLAIN | EU,), ("o.eu.a",), "o.eu.>"),
        ((PLAIN | EU,), ("o.us.a",), ""),
        ((EU | US,), ("o.us.*",), "o.us.>"),
        ((EU, EU), (), "o.eu.>"),
        # nothing, or no one schema
        (({},), (), None),
        ((), (), None),
        ((EU,), ("o.us.a",), None),
        ((EU | US,), (), None),
        ((PLAIN | EU,), (), None),
        ((PLAIN | EU,), ("o.*.a",), None),
        ((PLAIN, {}), (), None),
        ((PLAIN, metadata(OTHER)), (), None),
    ],
)
def test_a_read_has_the_one_schema_of_what_it_reads(
    streams: tuple[dict[str, str], ...], filters: tuple[str, ...], filter_of_schema: str | None
) -> None:
    assert chosen(*streams, filters=filters) == filter_of_schema
    if filter_of_schema is None:
        with pytest.raises(OptionError, match="option valueFormat binary"):
            chosen(*streams, filters=filters, asked=True)
    else:
        assert chosen(*streams, filters=filters, asked=True) == filter_of_schema


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ({"headrace.schema": "{}"}, "metadata headrace.schema.type is missing"),
        (metadata("{"), "not JSON"),
        (metadata('"unknown"', "avro"), "unknown"),
    ],
)
def test_a_schema_that_cannot_be_used_names_its_stream(entries: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=r"stream S0: metadata .* option valueFormat binary") as refused:
        chosen(entries)
    assert text in str(refused.value)


def decoder(columns: StructType | None = None, **given: Any) -> TypedDecoder:
    fields = {"metadata": PLAIN, "mode": "permissive", **given}
    payloads = payloads_of({"S": fields["metadata"]}, (), is_asked_for=True)
    assert payloads is not None
    payloads = pickle.loads(pickle.dumps(payloads))
    wanted = StructType([*COLUMNS, *payloads.columns()]) if columns is None else columns
    return TypedDecoder(payloads, fields["mode"], wanted, fields.get("now", fields["metadata"]))


def decoded(one: TypedDecoder, *payloads: bytes, subjects: list[bytes] | None = None) -> pa.RecordBatch:
    sequences = list(range(1, len(payloads) + 1))
    names = [b"o.eu.a"] * len(payloads) if subjects is None else subjects
    batch = StreamBatch(names, sequences, [0] * len(payloads), [None] * len(payloads), list(payloads))
    raw = stored_record_batch("S", batch, one.raw_columns)
    return one.decode(raw, sequences, "stream S")


GOOD = b'{"id":1,"subject":"s","lines":[{"n":1}],"counts":{"a":2},"at":"2026-01-31T00:00:00Z"}'
BAD = b'{"id":"1"}'


def test_fields_are_columns_beside_those_of_a_message() -> None:
    columns = payloads_of({"S": PLAIN}, (), is_asked_for=True).columns()  # type: ignore[union-attr]
    assert columns.simpleString() == (
        "struct<id:bigint,value_subject:string,lines:array<struct<n:bigint>>,counts:map<string,bigint>,"
        "at:timestamp,_corrupt_record:binary>"
    )


def test_payloads_become_rows() -> None:
    rows = decoded(decoder(), GOOD, BAD, b"").to_pylist()
    typed = ("id", "value_subject", "lines", "counts", "_corrupt_record", "data")
    assert [tuple(row[name] for name in typed) for row in rows] == [
        (1, "s", [{"n": 1}], [("a", 2)], None, GOOD),
        (None, None, None, None, BAD, BAD),
        (None, None, None, None, None, b""),
    ]
    assert rows[0]["at"].isoformat() == "2026-01-31T00:00:00+00:00"
    assert [row["sequence"] for row in rows] == [1, 2, 3]


def test_some_columns_are_enough() -> None:
    every = StructType([*COLUMNS, *decoder()._payloads.columns()])
    wanted = StructType([every["_corrupt_record"], every["id"], every["sequence"]])
    batch = decoded(decoder(wanted), GOOD, BAD)
    assert batch.schema.names == ["_corrupt_record", "id", "sequence"]
    assert batch.to_pylist()[1] == {"_corrupt_record": BAD, "id": None, "sequence": 2}


def test_subjects_that_the_schema_is_not_for_have_nulls() -> None:
    one = decoder(metadata=metadata(ORDER, subjects="o.eu.>"))
    rows = decoded(one, GOOD, GOOD, BAD, subjects=[b"o.eu.a", b"o.us.a", b"o.us.a"]).to_pylist()
    assert [(row["id"], row["_corrupt_record"]) for row in rows] == [(1, None), (None, None), (None, None)]


def test_what_does_not_fit_is_an_error_or_left_out_on_request() -> None:
    with pytest.raises(ValueFormatError, match="the payload of sequence 2 of stream S does not fit"):
        decoded(decoder(mode="failfast"), GOOD, BAD)
    rows = decoded(decoder(mode="dropmalformed"), GOOD, BAD, GOOD).to_pylist()
    assert [row["sequence"] for row in rows] == [1, 3]


def test_a_schema_that_came_later_is_resolved_to_the_columns_of_the_frame() -> None:
    later = {"type": "object", "required": ["note"], "properties": {"note": {"type": "string"}}}
    newer = later | {"properties": {"note": {"type": "string"}, "id": {"type": "integer"}}}
    rows = decoded(decoder(now=metadata(newer, earlier=[ORDER])), b'{"note":"n","id":5}', GOOD).to_pylist()
    assert [row["id"] for row in rows] == [5, 1]
    assert "note" not in rows[0]


@pytest.mark.parametrize("now", [{}, metadata(OTHER, subjects="o.>"), metadata('"int"', "avro")])
def test_a_stream_that_lost_its_schema_is_read_by_the_one_that_it_had(now: dict[str, str]) -> None:
    if "headrace.schema.type" in now:
        pytest.importorskip("fastavro")
    assert decoded(decoder(now=now), GOOD).to_pylist()[0]["id"] == 1


def test_a_later_schema_that_cannot_be_used_ends_the_query() -> None:
    with pytest.raises(StoredStreamError, match="the stream's schema was changed: type"):
        decoder(now=metadata({"type": "x"}))


def test_a_value_that_is_no_structure_is_one_column() -> None:
    one = decoder(metadata=metadata({"type": "integer"}))
    assert [row["value"] for row in decoded(one, b"1", b"x").to_pylist()] == [1, None]


def test_the_format_is_of_streams() -> None:
    assert read_options({"stream": "a", "valueFormat": "schema", "valueMode": "failfast"})
    for kind in ("channel", "subject"):
        with pytest.raises(OptionError, match="option valueFormat schema goes with option stream or path"):
            read_options({kind: "a", "valueFormat": "schema"})
    with pytest.raises(OptionError, match="option valueSchema and option valueFormat json need each other"):
        read_options({"stream": "a", "valueFormat": "schema", "valueSchema": "id bigint"})


def test_payloads_travel_to_executors() -> None:
    one = payloads_of({"S": PLAIN}, (), is_asked_for=True)
    assert isinstance(one, StreamPayloads)
    assert pickle.loads(pickle.dumps(one)) == one


# -- writing


def sink(entries: dict[str, str] = PLAIN, **given: str) -> SinkOptions:
    options = read_sink_options({"stream": "S", "positionalIds": "true", "subject": "o.eu.a", **given})
    return replace(options, payloads=payloads_of({"S": entries}, (), is_asked_for=True))


def row_reader(options: SinkOptions) -> RowReader:
    return RowReader(options, RowsIdentity("w", 0, 0), PublishLimits(1000))


def test_rows_with_the_fields_of_a_schema_are_written_as_payloads() -> None:
    options = sink()
    check_sink_columns(StructType().add("id", "long").add("value_subject", "string"), options)
    batch = pa.record_batch({"value_subject": ["s", None], "id": pa.array([1, 2])})
    assert row_reader(options).read(batch).payloads == [b'{"id":1,"subject":"s"}', b'{"id":2}']


def test_a_row_that_does_not_fit_is_malformed() -> None:
    batch = pa.record_batch({"id": pa.array([1, None, 3])})
    with pytest.raises(
        RowError, match="row 1 of partition 0: the row does not fit the stream's schema: data"
    ):
        row_reader(sink()).read(batch)
    rows = row_reader(sink(mode="dropmalformed"))
    assert rows.read(batch).payloads == [b'{"id":1}', b'{"id":3}']
    assert rows.dropped == 1


def test_a_value_that_is_no_structure_is_written() -> None:
    batch = pa.record_batch({"value": ["a", "b"]})
    assert row_reader(sink(metadata(OTHER))).read(batch).payloads == [b'"a"', b'"b"']


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (StructType().add("note", "string"), "column data is missing"),
        (StructType().add("id", "string"), "column id has type string, and the stream's schema says bigint"),
        (StructType().add("id", "long").add("note", "string"), "column 'note' is not one of"),
        (StructType().add("id", "long").add("_corrupt_record", "binary"), "'_corrupt_record' is not one of"),
    ],
)
def test_columns_that_are_not_those_of_the_schema_are_refused(columns: StructType, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        check_sink_columns(columns, sink())
