"""Columns of a table: their names beside those of a message, their Arrow types, rows that do not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from schema_samples import ORDER, reader_of

from headrace.schemas.column_types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LOCAL_TIMESTAMP,
    LONG,
    STRING,
    TIMESTAMP,
    ColumnType,
    PayloadColumn,
    array_of,
    map_of,
    struct_of,
)

if TYPE_CHECKING:
    from types import ModuleType

pa: ModuleType = pytest.importorskip("pyarrow")

from headrace.schemas.arrow import arrow_type, column_values, table_columns  # noqa: E402


@pytest.mark.parametrize(
    ("kind", "arrow"),
    [
        (BOOLEAN, pa.bool_()),
        (INT, pa.int32()),
        (LONG, pa.int64()),
        (FLOAT, pa.float32()),
        (DOUBLE, pa.float64()),
        (STRING, pa.string()),
        (BINARY, pa.binary()),
        (DATE, pa.date32()),
        (TIMESTAMP, pa.timestamp("us", "UTC")),
        (LOCAL_TIMESTAMP, pa.timestamp("us")),
        (ColumnType("decimal", precision=6, scale=2), pa.decimal128(6, 2)),
        (array_of(LONG), pa.list_(pa.int64())),
        (map_of(LONG), pa.map_(pa.string(), pa.int64())),
        (struct_of((PayloadColumn("a", LONG),)), pa.struct([("a", pa.int64())])),
    ],
)
def test_a_column_has_its_arrow_type(kind: ColumnType, arrow: Any) -> None:
    assert arrow_type(kind) == arrow


def names(*fields: str, taken: tuple[str, ...] = ("subject", "data")) -> list[tuple[str, str | None]]:
    kind = struct_of(tuple(PayloadColumn(name, LONG) for name in fields))
    return [(column.name, column.field) for column in table_columns(kind, taken)]


def test_a_name_that_is_taken_has_a_prefix() -> None:
    assert names("id", "Subject", "_corrupt_record") == [
        ("id", "id"),
        ("value_Subject", "Subject"),
        ("value__corrupt_record", "_corrupt_record"),
    ]


def test_names_differ_in_more_than_their_case() -> None:
    assert names("ID", "id", "subject", "value_subject") == [
        ("ID", "ID"),
        ("value_id", "id"),
        ("value_value_subject", "subject"),
        ("value_subject", "value_subject"),
    ]


def test_what_is_no_structure_is_one_column() -> None:
    (column,) = table_columns(LONG, ("value",))
    assert (column.name, column.field) == ("value_value", None)
    (column,) = table_columns(struct_of(()), ())
    assert (column.name, column.field) == ("value", None)


def test_what_does_not_fit_keeps_its_payload() -> None:
    pytest.importorskip("fastjsonschema")
    reader = reader_of(ORDER)
    payloads = [b'{"id": 1, "tags": ["a"]}', b'{"id": 0}', b"", None, b"\xff"]
    columns = [(column, arrow_type(column.type)) for column in table_columns(reader.type, ())]
    found = column_values(reader, columns, payloads)
    assert {name: values.to_pylist() for name, values in found.columns.items()} == {
        "id": [1, None, None, None, None],
        "amount": [None] * 5,
        "tags": [["a"], None, None, None, None],
    }
    assert found.corrupt.to_pylist() == [None, b'{"id": 0}', None, None, b"\xff"]
    assert found.bad == [1, 4]


def test_values_of_every_type_become_arrays() -> None:
    """Whatever a reader returns, Arrow takes."""
    pytest.importorskip("fastavro")
    from test_schema_avro import EVERYTHING, everything

    reader = reader_of(EVERYTHING, "avro")
    columns = [(column, arrow_type(column.type)) for column in table_columns(reader.type, ())]
    found = column_values(reader, columns, [everything(), b"no"])
    assert found.bad == [1]
    for column, kind in columns:
        array = found.columns[column.name]
        assert array.type == kind
        assert array[0].as_py() is not None
        assert array[1].as_py() is None
