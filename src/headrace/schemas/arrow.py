"""Columns of a table for a schema's payloads: their names, their Arrow types, and arrays of values.

Needs PyArrow. A structure's fields are columns of their own beside those that a message has anyway; any
other payload is the column `value`. What does not fit stands as it is in `_corrupt_record`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from msgspec import Struct

from headrace.schemas.errors import Misfit
from headrace.schemas.payloads import VALUE
from headrace.subjects.grammar import matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.schemas.column_types import ColumnType
    from headrace.schemas.payloads import PayloadReader

CORRUPT: Final = "_corrupt_record"
_PREFIX: Final = "value_"
_SIMPLE: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "local_timestamp": pa.timestamp("us"),
}


class TableColumn(Struct, frozen=True):
    """A column of a table. `field`: the payload's field that it shows; None for the whole value."""

    name: str
    field: str | None
    type: ColumnType


def table_columns(kind: ColumnType, taken: Iterable[str]) -> tuple[TableColumn, ...]:
    """The columns of payloads of a type, beside others whose names are taken.

    Names differ in more than their case; one that is taken has `value_` before it.
    """
    known = {name.lower() for name in (*taken, CORRUPT)}
    if kind.name != "struct" or not kind.fields:
        return (TableColumn(_free(VALUE, known), None, kind),)
    names: dict[str, str] = {}
    for field in kind.fields:  # those that can keep their names first
        if field.name.lower() not in known:
            names[field.name] = field.name
            known.add(field.name.lower())
    for field in kind.fields:
        if field.name not in names:
            names[field.name] = _free(field.name, known)
            known.add(names[field.name].lower())
    return tuple(TableColumn(names[field.name], field.name, field.type) for field in kind.fields)


def _free(name: str, known: set[str]) -> str:
    while name.lower() in known:
        name = _PREFIX + name
    return name


def arrow_type(kind: ColumnType) -> pa.DataType:
    """The Arrow type of a column."""
    if kind.name == "struct":
        return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in kind.fields])
    if kind.name == "array":
        return pa.list_(arrow_type(_part(kind.item)))
    if kind.name == "map":
        return pa.map_(arrow_type(_part(kind.key)), arrow_type(_part(kind.item)))
    if kind.name == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    return _SIMPLE[kind.name]


def _part(kind: ColumnType | None) -> ColumnType:
    assert kind is not None
    return kind


def described(pattern: str, subjects: pa.Array, payloads: Sequence[bytes]) -> Sequence[bytes | None]:
    """The payloads of the subjects that a schema is for; None for the others. Empty: it is for all."""
    if not pattern:
        return payloads
    wanted = pattern.encode()
    return [
        payload if matches(wanted, subject.encode()) else None
        for subject, payload in zip(subjects.to_pylist(), payloads, strict=True)
    ]


class ColumnValues(Struct, frozen=True):
    """The values of some payloads: an array for each column, and the payloads that did not fit."""

    columns: dict[str, pa.Array]
    corrupt: pa.Array
    bad: Sequence[int]
    """The rows that did not fit."""


def column_values(
    reader: PayloadReader,
    columns: Iterable[tuple[TableColumn, pa.DataType]],
    payloads: Iterable[bytes | None],
) -> ColumnValues:
    """Read payloads, one row each; None and what does not fit are nulls.

    `columns`: with the types of their arrays, which may name the parts of lists and maps as they like. An
    empty payload that does not fit has nothing to keep, and is no bad row: a deleted key is one.
    """
    values: list[Any] = []
    corrupt: list[bytes | None] = []
    bad: list[int] = []
    for row, payload in enumerate(payloads):
        value = kept = None
        if payload is not None:
            try:
                value = reader.read(payload)
            except Misfit:
                if payload:
                    kept = payload
                    bad.append(row)
        values.append(value)
        corrupt.append(kept)
    made = {}
    for column, kind in columns:
        field = column.field
        found = values if field is None else [None if one is None else one[field] for one in values]
        made[column.name] = pa.array(found, kind)
    return ColumnValues(made, pa.array(corrupt, pa.binary()), bad)
