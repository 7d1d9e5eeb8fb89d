"""Protobuf: descriptors as columns, and messages as values."""

from __future__ import annotations

import base64
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schema_samples import reader_of

from headrace.schemas.column_types import (
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    ColumnType,
    array_of,
    map_of,
)
from headrace.schemas.errors import Misfit, SchemaError
from headrace.schemas.metadata import metadata, read_schemas
from headrace.schemas.payloads import payload_reader

pytest.importorskip("google.protobuf")

from google.protobuf import descriptor_pb2, timestamp_pb2

Field = descriptor_pb2.FieldDescriptorProto


def file_set(*more: Any, syntax: str = "proto3") -> descriptor_pb2.FileDescriptorSet:
    """A file `shop.proto` with a message Order, which further fields may be added to."""
    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    file = files.file.add(
        name="shop.proto", package="shop", syntax=syntax, dependency=["google/protobuf/timestamp.proto"]
    )
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="NEW", number=0)
    kind.value.add(name="PAID", number=1)
    line = file.message_type.add(name="Line")
    line.field.add(name="item", number=1, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL)
    order = file.message_type.add(name="Order")
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=Field.TYPE_INT32, label=Field.LABEL_OPTIONAL)
    for number, (name, kind_of, label, type_name) in enumerate(
        (
            ("id", Field.TYPE_INT64, Field.LABEL_OPTIONAL, ""),
            ("small", Field.TYPE_SINT32, Field.LABEL_OPTIONAL, ""),
            ("large", Field.TYPE_UINT64, Field.LABEL_OPTIONAL, ""),
            ("ratio", Field.TYPE_FLOAT, Field.LABEL_OPTIONAL, ""),
            ("amount", Field.TYPE_DOUBLE, Field.LABEL_OPTIONAL, ""),
            ("paid", Field.TYPE_BOOL, Field.LABEL_OPTIONAL, ""),
            ("key", Field.TYPE_BYTES, Field.LABEL_OPTIONAL, ""),
            ("kind", Field.TYPE_ENUM, Field.LABEL_OPTIONAL, ".shop.Kind"),
            ("at", Field.TYPE_MESSAGE, Field.LABEL_OPTIONAL, ".google.protobuf.Timestamp"),
            ("line", Field.TYPE_MESSAGE, Field.LABEL_OPTIONAL, ".shop.Line"),
            ("lines", Field.TYPE_MESSAGE, Field.LABEL_REPEATED, ".shop.Line"),
            ("tags", Field.TYPE_STRING, Field.LABEL_REPEATED, ""),
            ("counts", Field.TYPE_MESSAGE, Field.LABEL_REPEATED, ".shop.Order.CountsEntry"),
            *more,
        ),
        start=1,
    ):
        order.field.add(name=name, number=number, type=kind_of, label=label, type_name=type_name or None)
    return files


def order_reader(*more: Any, syntax: str = "proto3") -> Any:
    return reader_of(file_set(*more, syntax=syntax).SerializeToString(), "protobuf", message="shop.Order")


def test_fields_have_their_columns() -> None:
    found = {column.name: column.type for column in order_reader().type.fields}
    line = found.pop("line")
    assert found == {
        "id": LONG,
        "small": INT,
        "large": ColumnType("decimal", precision=20),
        "ratio": FLOAT,
        "amount": DOUBLE,
        "paid": BOOLEAN,
        "key": BINARY,
        "kind": STRING,
        "at": TIMESTAMP,
        "lines": array_of(line),
        "tags": array_of(STRING),
        "counts": map_of(INT),
    }
    assert [(column.name, column.type) for column in line.fields] == [("item", STRING)]


def written(*more: Any, syntax: str = "proto3", **fields: Any) -> bytes:
    """An Order by protobuf's own writer."""
    from google.protobuf import descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    for file in file_set(*more, syntax=syntax).file:
        pool.Add(file)
    order = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    return bytes(order(**fields).SerializePartialToString())


def test_a_message_becomes_values() -> None:
    payload = written(
        id=-1,
        small=-2,
        large=2**64 - 1,
        ratio=0.5,
        amount=1.25,
        paid=True,
        key=b"k",
        kind=1,
        at={"seconds": 1_769_817_600, "nanos": 1999},
        lines=[{"item": "a"}, {}],
        tags=["x", "y"],
        counts={"a": 1},
    )
    assert order_reader().read(payload) == {
        "id": -1,
        "small": -2,
        "large": Decimal(2**64 - 1),
        "ratio": 0.5,
        "amount": 1.25,
        "paid": True,
        "key": b"k",
        "kind": "PAID",
        "at": datetime(2026, 1, 31, 0, 0, 0, 1, UTC),
        "line": None,
        "lines": [{"item": "a"}, {"item": ""}],
        "tags": ["x", "y"],
        "counts": [("a", 1)],
    }


def test_an_empty_message_has_the_values_of_fields_that_are_not_sent() -> None:
    row = order_reader().read(b"")
    assert (row["id"], row["kind"], row["at"], row["tags"]) == (0, "NEW", None, [])


def test_a_number_without_a_name_is_shown() -> None:
    assert order_reader().read(written(kind=7))["kind"] == "7"


def test_fields_of_a_newer_message_are_passed_over() -> None:
    newer = ("note", Field.TYPE_STRING, Field.LABEL_OPTIONAL, "")
    payload = written(newer, id=1, note="n")
    assert order_reader().read(payload)["id"] == 1
    assert order_reader(newer).read(payload)["note"] == "n"
    assert order_reader(newer).read(written(id=1))["note"] == ""


@pytest.mark.parametrize("payload", [b"\x08", b"\x0f", b"\x62\x01\xff", b"\x62\x7f", b"\x4a\x01\x08"])
def test_what_is_no_message_does_not_fit(payload: bytes) -> None:
    with pytest.raises(Misfit, match=r"not a message shop\.Order"):
        order_reader().read(payload)


def test_a_time_that_no_column_holds_does_not_fit() -> None:
    with pytest.raises(Misfit, match="outside of the years"):
        order_reader().read(written(at={"seconds": 2**40}))


def test_what_is_required_is_missed() -> None:
    need = ("need", Field.TYPE_STRING, Field.LABEL_REQUIRED, "")
    with pytest.raises(Misfit, match="need is missing"):
        order_reader(need, syntax="proto2").read(written(need, syntax="proto2", id=1))


@given(st.binary(max_size=100))
def test_any_bytes_are_a_message_or_not(payload: bytes) -> None:
    with suppress(Misfit):
        order_reader().read(payload)


@pytest.mark.parametrize(
    ("schema", "message", "text"),
    [
        ("!", "shop.Order", "not a FileDescriptorSet in base64"),
        (base64.b64encode(b"\xff\xff").decode(), "shop.Order", "not a FileDescriptorSet in base64"),
        ("", "shop.Order", "there is no message 'shop.Order'"),
        (file_set().SerializeToString(), "shop.Orders", "there is no message 'shop.Orders'"),
        (file_set().SerializeToString(), "shop.Kind", "there is no message 'shop.Kind'"),
        (
            descriptor_pb2.FileDescriptorSet(file=file_set().file[1:]).SerializeToString(),
            "shop.Order",
            "--include_imports",
        ),
        (
            file_set(("o", Field.TYPE_MESSAGE, Field.LABEL_OPTIONAL, ".shop.Order")).SerializeToString(),
            "shop.Order",
            "message shop.Order contains itself",
        ),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(schema: Any, message: str, text: str) -> None:
    entries = metadata(schema or "x", "protobuf", message=message)
    entries["headrace.schema"] = entries["headrace.schema"] if schema else ""
    with pytest.raises(SchemaError) as refused:
        payload_reader(read_schemas(entries).schemas[0].schema)
    assert text in str(refused.value)
