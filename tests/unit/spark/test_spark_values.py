"""Payloads as text and JSON, schemas from text, and every way to get them wrong."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    BinaryType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimeType,
)

from headrace.spark.errors import OptionError, ValueFormatError
from headrace.spark.schema import CORRUPT, arrow_schema
from headrace.spark.value_schema import read_schema
from headrace.spark.values import Decoder, ValueFormat, read_value_format

SCHEMA = "id bigint, name string, tags array<string>, at struct<x: double, y double>, ok boolean"


def decode(payloads: list[bytes], chosen: ValueFormat) -> list[Any]:
    columns = StructType([StructField("sequence", LongType()), StructField("data", chosen.type)])
    decoder = Decoder(chosen, columns)
    raw = pa.RecordBatch.from_arrays(
        [pa.array(range(1, len(payloads) + 1), pa.int64()), pa.array(payloads, pa.binary())],
        schema=arrow_schema(decoder.raw_columns),
    )
    made = decoder.decode(raw, range(1, len(payloads) + 1), "stream S")
    assert made.schema == arrow_schema(columns)
    return [row["data"] for row in made.to_pylist()]


def json_format(schema: str = SCHEMA, mode: str = "permissive") -> ValueFormat:
    return read_value_format("json", schema, mode, ValueFormat())


def test_values_json_becomes_fields_unknown_ones_left_out_missing_ones_null() -> None:
    payloads = [
        b'{"id": 1, "name": "\xc3\xa9", "tags": ["a", null], "at": {"x": 1, "y": 2.5}, "z": 9}',
        b"{}",
        b"null",
    ]
    empty = {"id": None, "name": None, "tags": None, "at": None, "ok": None}
    assert decode(payloads, json_format()) == [
        {**empty, "id": 1, "name": "\xe9", "tags": ["a", None], "at": {"x": 1.0, "y": 2.5}}, empty, None,
    ]  # fmt: skip


BAD = [
    b"", b"{", b"7", b"[]", b'{"id": "1"}', b'{"id": 1.5}', b'{"id": 1e400}', b'{"id": NaN}', b"\xff{}",
    b'{"name": 7}', b'{"name": "\\ud800"}', b'{"id": true}', b'{"at": {"x": 1e3, "y": "1"}}', b'{"ok": 1}',
    b'{"tags": "a"}', b'{"id": 99999999999999999999}', b'{"id": 1} {"id": 2}', b'{"id": 1}\n{',
    b"[" * 100_000, b'{"at": [1]}', b"9" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("payload", BAD)
def test_values_not_of_the_schema_are_null_or_dropped_or_an_error_and_shift_no_other(payload: bytes) -> None:
    good = [b'{"id": 1}', b'{"id": 2}']
    payloads = [good[0], payload, good[1]]
    found = decode(payloads, json_format())
    assert [None if row is None else row["id"] for row in found] == [1, None, 2]
    assert [row["id"] for row in decode(payloads, json_format(SCHEMA, "dropmalformed"))] == [1, 2]
    with pytest.raises(ValueFormatError, match="the payload of sequence 2 of stream S is not JSON of schema"):
        decode(payloads, json_format(SCHEMA, "failfast"))


@pytest.mark.parametrize("payload", BAD)
def test_values_not_of_the_schema_stay_in_the_column_for_them(payload: bytes) -> None:
    chosen = json_format()
    assert chosen.columns().names[-2:] == ["data", "_corrupt_record"]
    for names in (["data", "_corrupt_record"], ["_corrupt_record"], ["_corrupt_record", "sequence"]):
        columns = StructType([chosen.columns()[name] for name in names])
        decoder = Decoder(chosen, columns)
        assert CORRUPT.name not in decoder.raw_columns.names
        arrays = {"data": pa.array([b"{}", payload]), "sequence": pa.array([1, 2], pa.int64())}
        schema = arrow_schema(decoder.raw_columns)
        raw = pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)
        made = decoder.decode(raw, [1, 2], "stream S")
        assert made.schema == arrow_schema(columns)
        assert made.column(CORRUPT.name).to_pylist() == [None, payload]


def test_values_only_permissive_ones_have_a_column_for_payloads_that_are_none() -> None:
    for mode in ("failfast", "dropmalformed"):
        assert CORRUPT.name not in json_format(SCHEMA, mode).columns().names
    assert CORRUPT.name not in ValueFormat().columns().names
    text = read_value_format("string", None, None, ValueFormat())
    assert text.columns(headers=False).names == [
        "stream", "subject", "sequence", "timestamp", "reply", "data", "_corrupt_record",
    ]  # fmt: skip
    decoder = Decoder(text, StructType([StructField("data", StringType()), CORRUPT]))
    raw = pa.record_batch({"data": [b"a", b"\xff"]}, schema=arrow_schema(decoder.raw_columns))
    made = decoder.decode(raw, [1, 2], "stream S")
    assert made.to_pylist() == [
        {"data": "a", "_corrupt_record": None}, {"data": None, "_corrupt_record": b"\xff"},
    ]  # fmt: skip


def test_values_text_is_text_and_what_is_none_follows_the_mode() -> None:
    def text(mode: str) -> list[Any]:
        return decode(
            [b"a", b"\xff", b"\xc3\xa9", b""], read_value_format("string", None, mode, ValueFormat())
        )

    assert text("permissive") == ["a", None, "\xe9", ""]
    assert text("DROPMALFORMED") == ["a", "\xe9", ""]
    with pytest.raises(ValueFormatError, match="sequence 2 of stream S is not UTF-8"):
        text("failfast")


def test_values_without_the_column_are_not_looked_at() -> None:
    columns = StructType([StructField("sequence", LongType())])
    raw = pa.RecordBatch.from_arrays([pa.array([1], pa.int64())], schema=arrow_schema(columns))
    decoder = Decoder(json_format(mode="failfast"), columns)
    assert decoder.raw_columns == columns
    assert decoder.decode(raw, [1], "stream S") is raw


def test_values_of_no_rows_are_no_rows() -> None:
    assert decode([], json_format()) == []


def test_schema_from_text_and_from_sparks_json_are_the_same_and_may_be_null() -> None:
    made = read_schema("id: INT,`a b``c` string , s struct<t array<array<long>>>")
    assert made.simpleString() == "struct<id:int,a b`c:string,s:struct<t:array<array<bigint>>>>"
    assert read_schema(made.json()) == made
    every = (
        "a decimal, b DEC(5), c numeric(38,38), d date, e timestamp, f timestamp_ltz, g timestamp_ntz, "
        "h binary, i variant, j time, k time(0), l interval day to second, m INTERVAL HOUR, "
        "n interval minute to second, o map<string, array<map<string, date>>>, "
        "p struct<q: decimal(3,1) NOT NULL COMMENT 'a, \\'b\\''>"
    )
    assert read_schema(every).simpleString() == (
        "struct<a:decimal(10,0),b:decimal(5,0),c:decimal(38,38),d:date,e:timestamp,f:timestamp,g:timestamp_ntz,"
        "h:binary,i:variant,j:time(6),k:time(0),l:interval day to second,m:interval hour,"
        "n:interval minute to second,o:map<string,array<map<string,date>>>,p:struct<q:decimal(3,1)>>"
    )
    assert read_schema(read_schema(every).json()) == read_schema(every)
    strict = StructType([StructField("id", IntegerType(), nullable=False)])
    assert read_schema(strict.json()).fields[0].nullable


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "expected a field name, found the end"),
        ("id", "expected a type, found the end"),
        ("id int,", "expected a field name, found the end"),
        ("id int name string", "expected a comma or 'the end', found 'name'"),
        ("id int, id string", "a field occurs twice"),
        ("id array<int", "expected '>', found the end"),
        ("id array int", "expected '<', found 'int'"),
        ("id decimal(39,2)", "1 to 38 digits"),
        ("id decimal(3,4)", r"decimal\(3,4\) is none"),
        ("id decimal(0)", r"decimal\(0,0\) is none"),
        ("id decimal(3", r"expected ',', found the end"),
        ("id decimal(x)", "expected a number, found 'x'"),
        ("id decimal(99999)", "expected a number, found '99999'"),
        ("id time(7)", "0 to 6 digits"),
        ("id map<string>", "expected ',', found '>'"),
        ("id map<int,string>", "a map with keys of type int is not JSON, .* read map<string,...>"),
        ("id interval", "type interval is not supported .*such as interval day to second"),
        ("id interval second to day", "type interval second to day is not supported"),
        ("id interval year to month", "Arrow has no such type: read it as string and cast it"),
        ("id interval month", "Arrow has no such type"),
        ("id varchar(3)", r"type varchar is not supported \(read it as string\)"),
        ("id void", "leave the field out"),
        ("id tuple", "type tuple is not supported .* from_json"),
        ("id int not", "expected NULL, found the end"),
        ("id int comment x", "expected a comment in quotes, found 'x'"),
        ("id int 'x'", "expected a comma"),
        ("id int; x int", "expected a name or a type, found '; x int'"),
        ("s " + "array<" * 40 + "int" + ">" * 40, "more than 32 levels"),
        ("{", "cannot be understood"),
        ('{"type": "struct", "fields": []}', "names no field"),
        (
            '{"type": "struct", "fields": [{"name": "a", "type": "void", "nullable": true}]}',
            "type void is not supported",
        ),
        (
            '{"type": "struct", "fields": [{"name": "a", "type": "interval year", "nullable": true}]}',
            "Arrow has no such type",
        ),
        (StructType([StructField("a", MapType(LongType(), LongType()))]).json(), "keys of type bigint"),
        (StructType([StructField("a", DecimalType(5, 9))]).json(), r"decimal\(5,9\) is none"),
        (StructType([StructField("a", TimeType(9))]).json(), r"time\(9\) is none"),
        (StructType([StructField("a", LongType()), StructField("a", LongType())]).json(), "occurs twice"),
    ],
)
def test_schema_that_cannot_be_understood_says_where(text: str, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        read_schema(text)


def test_value_format_without_options_is_bytes() -> None:
    assert read_value_format(None, None, None, ValueFormat()) == ValueFormat("binary", BinaryType())
    assert read_value_format("string", None, None, ValueFormat()).type == StringType()
