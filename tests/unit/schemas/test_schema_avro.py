"""Avro: its columns, data that is cut off or no datum, and schemas with which fastavro cannot be trusted."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schema_samples import reader_of

from headrace.schemas.column_types import (
    BINARY,
    DATE,
    DOUBLE,
    INT,
    LOCAL_TIMESTAMP,
    LONG,
    MOST_TYPES,
    STRING,
    TIMESTAMP,
    ColumnType,
    array_of,
    map_of,
)
from headrace.schemas.errors import Misfit, SchemaError

fastavro = pytest.importorskip("fastavro")

FIRST = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "int"}, {"name": "customer", "type": "string"}],
}
SECOND = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "currency", "type": "string", "default": "EUR"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
EVERYTHING = {
    "type": "record",
    "name": "Everything",
    "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "PAID"]}},
        {"name": "again", "type": "Kind"},
        {"name": "key", "type": {"type": "fixed", "name": "Key", "size": 4}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "lines", "type": {"type": "array", "items": FIRST}},
        {"name": "either", "type": ["null", "string", "int"]},
        {"name": "number", "type": ["int", "long"]},
        {"name": "alarm", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}


def datum(schema: Any, value: Any) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return file.getvalue()


def single_object(schema: Any, value: Any) -> bytes:
    """A datum behind the fingerprint of its schema."""
    canonical = fastavro.schema.to_parsing_canonical_form(schema)
    mark = bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))
    return b"\xc3\x01" + mark + datum(schema, value)


def everything() -> bytes:
    midnight = datetime(2026, 1, 31, tzinfo=UTC)
    return datum(
        EVERYTHING,
        {
            "at": midnight,
            "local": midnight.replace(tzinfo=None),
            "day": date(2026, 1, 31),
            "price": Decimal("1.25"),
            "kind": "PAID",
            "again": "NEW",
            "key": b"1234",
            "counts": {"a": 1},
            "lines": [{"id": 1, "customer": "c"}],
            "either": 5,
            "number": 7,
            "alarm": 3,
            "uuid": "123e4567-e89b-12d3-a456-426614174000",
        },
    )


def test_types_have_their_columns() -> None:
    found = {column.name: column.type for column in reader_of(EVERYTHING, "avro").type.fields}
    lines = found.pop("lines")
    assert found == {
        "at": TIMESTAMP,
        "local": LOCAL_TIMESTAMP,
        "day": DATE,
        "price": ColumnType("decimal", precision=6, scale=2),
        "kind": STRING,
        "again": STRING,
        "key": BINARY,
        "counts": map_of(INT),
        "either": STRING,
        "number": LONG,
        "alarm": INT,
        "uuid": STRING,
    }
    assert lines.item is not None
    assert [(column.name, column.type) for column in lines.item.fields] == [("id", INT), ("customer", STRING)]
    assert lines == array_of(lines.item)


def test_a_datum_becomes_values() -> None:
    assert reader_of(EVERYTHING, "avro").read(everything()) == {
        "at": datetime(2026, 1, 31, tzinfo=UTC),
        "local": datetime(2026, 1, 31),
        "day": date(2026, 1, 31),
        "price": Decimal("1.25"),
        "kind": "PAID",
        "again": "NEW",
        "key": b"1234",
        "counts": [("a", 1)],
        "lines": [{"id": 1, "customer": "c"}],
        "either": "5",
        "number": 7,
        "alarm": 3,
        "uuid": "123e4567-e89b-12d3-a456-426614174000",
    }


def test_a_datum_that_is_cut_off_anywhere_does_not_fit() -> None:
    whole, read = everything(), reader_of(EVERYTHING, "avro").read
    for end in range(len(whole)):
        with pytest.raises(Misfit):
            read(whole[:end])
    with pytest.raises(Misfit, match="1 bytes behind the datum"):
        read(whole + b"\0")


@given(st.binary(max_size=200), st.integers(0, 120))
def test_any_bytes_are_a_datum_or_not(noise: bytes, place: int) -> None:
    read = reader_of(EVERYTHING, "avro").read
    for payload in (noise, everything()[:place] + noise, b"\xc3\x01" + noise):
        with suppress(Misfit):
            read(payload)


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ("int", b"\x80\x80\x80\x80\x10"),  # 2 ** 31
        ({"type": "int", "logicalType": "date"}, b"\xfe\xff\xff\xff\x0f"),  # in the year 5,881,580
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}, b"\x04\x7f\xff"),
        ({"type": "array", "items": "int"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"),  # 2 ** 62 items
        ("bytes", b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"),
        ("string", b"\x02\xff"),
        ("string", b"\x03"),  # -2 bytes
        (["null", "int"], b"\x7f"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02"),
        ("boolean", b""),
    ],
)
def test_values_beyond_their_type_do_not_fit(schema: Any, payload: bytes) -> None:
    with pytest.raises(Misfit):
        reader_of(json.dumps(schema), "avro").read(payload)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("{", "not JSON"),
        ("3", "not an Avro schema"),
        ("null", "not an Avro schema"),
        ('"order"', "unknown type order"),
        ([], "a union of nothing"),
        ({"type": "record"}, "name"),
        ({"type": "array"}, "items"),
        ({"type": "map", "values": 5}, "not an Avro schema"),
        ({"type": "fixed", "name": "F", "size": -1}, "fixed F has no size"),
        (
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": "x"}]},
            "Default",
        ),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}] * 2}, "two fields"),
        ({"type": "array", "items": "null"}, "a list of items without bytes"),
        ({"type": "array", "items": {"type": "record", "name": "R", "fields": []}}, "items without bytes"),
        (
            {"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]},
            "type R contains itself",
        ),
        (
            {
                "type": "record",
                "name": "A",
                "fields": [
                    {
                        "name": "b",
                        "type": {
                            "type": "record",
                            "name": "B",
                            "fields": [{"name": "a", "type": {"type": "array", "items": "A"}}],
                        },
                    }
                ],
            },
            "type A contains itself",
        ),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(schema: Any, text: str) -> None:
    with pytest.raises(SchemaError) as refused:
        reader_of(schema, "avro")
    assert text in str(refused.value)


def test_a_schema_does_not_grow_beyond_its_limit() -> None:
    """Each record has the one before it twice, and none a byte."""
    before: Any = {"type": "record", "name": "R0", "fields": []}
    for number in range(1, 12):
        fields = [{"name": "a", "type": before}, {"name": "b", "type": f"R{number - 1}"}]
        before = {"type": "record", "name": f"R{number}", "fields": fields}
    with pytest.raises(SchemaError, match=f"more than {MOST_TYPES} types"):
        reader_of(before, "avro")


@pytest.mark.parametrize("precision", [0, 39, "6", None])
def test_a_decimal_that_no_column_holds_is_its_bytes(precision: Any) -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": precision}
    assert reader_of(schema, "avro").type == BINARY


def test_numbers_of_several_sizes_are_the_largest() -> None:
    assert reader_of(["null", "float", "double"], "avro").type == DOUBLE


# -- evolution


def test_a_marked_datum_is_read_by_the_schema_that_wrote_it() -> None:
    read = reader_of(SECOND, "avro", earlier=[FIRST]).read
    old = {"id": 1, "customer": "c"}
    new = {**old, "currency": "USD", "note": "n"}
    assert read(single_object(FIRST, old)) == {**old, "currency": "EUR", "note": None}
    assert read(single_object(SECOND, new)) == new


def test_a_datum_without_a_mark_is_of_the_newest_schema_that_it_fits() -> None:
    read = reader_of(SECOND, "avro", earlier=[FIRST]).read
    old = {"id": 1, "customer": "c"}
    assert read(datum(FIRST, old)) == {**old, "currency": "EUR", "note": None}
    assert read(datum(SECOND, {**old, "currency": "USD", "note": None}))["currency"] == "USD"


def test_a_mark_of_another_schema_does_not_fit() -> None:
    with pytest.raises(Misfit):
        reader_of(SECOND, "avro").read(single_object(FIRST, {"id": 1, "customer": "c"}))


def test_what_cannot_be_resolved_does_not_fit() -> None:
    text = {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "id", "type": "string"}],
    }
    with pytest.raises(Misfit, match="int"):
        reader_of(text, "avro", earlier=[FIRST]).read(single_object(FIRST, {"id": 1, "customer": "c"}))
