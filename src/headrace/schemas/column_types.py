"""The types of columns that a schema's payloads have, and the conversion of single values to them.

Neither Spark's types nor Arrow's: a server that judges payloads has neither package. `arrow` translates.
A conversion takes a decoded value, or None, and returns what Arrow takes for a column of the type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

from msgspec import Struct, json

from headrace.schemas.errors import Misfit, SchemaError

Convert = Callable[[Any], Any]
"""A value, or None, as another side has it. Raises: Misfit."""

MOST_TYPES: Final = 1_000
"""Types in one schema, those within others counted; a schema with more is refused."""
DEEPEST: Final = 32
"""Levels of types within types; a schema with more is refused."""
LARGEST_PRECISION: Final = 38
"""Digits of a decimal column."""


_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DATE_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


class ColumnType(Struct, frozen=True):
    """The type of a column.

    `name`: boolean, int (32 bits), long (64), float, double, string, binary, date, timestamp (microseconds,
    UTC), local_timestamp (without a zone), decimal, array, map or struct.
    """

    name: str
    item: ColumnType | None = None
    """The items of an array, the values of a map."""
    key: ColumnType | None = None
    fields: tuple[PayloadColumn, ...] = ()
    precision: int = 0
    scale: int = 0


class PayloadColumn(Struct, frozen=True):
    """A column, or a field of a structure."""

    name: str
    type: ColumnType


BOOLEAN: Final = ColumnType("boolean")
INT: Final = ColumnType("int")
LONG: Final = ColumnType("long")
FLOAT: Final = ColumnType("float")
DOUBLE: Final = ColumnType("double")
STRING: Final = ColumnType("string")
BINARY: Final = ColumnType("binary")
DATE: Final = ColumnType("date")
TIMESTAMP: Final = ColumnType("timestamp")
LOCAL_TIMESTAMP: Final = ColumnType("local_timestamp")


def array_of(item: ColumnType) -> ColumnType:
    return ColumnType("array", item=item)


def map_of(value: ColumnType, key: ColumnType = STRING) -> ColumnType:
    return ColumnType("map", item=value, key=key)


def struct_of(fields: tuple[PayloadColumn, ...]) -> ColumnType:
    return ColumnType("struct", fields=fields)


class ValueForm(NamedTuple):
    """The form of a schema's values in a column: its type, the way into it, and the way back.

    `read` takes what a payload was decoded to, `write` what Arrow gives for a value of the column.
    """

    type: ColumnType
    read: Convert
    write: Convert


class TypeCount:
    """The number of types in one schema, while it is read."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, depth: int) -> None:
        """Count a type at some level. Raises: SchemaError above a limit."""
        self._count += 1
        if self._count > MOST_TYPES:
            raise SchemaError(f"more than {MOST_TYPES} types")
        if depth > DEEPEST:
            raise SchemaError(f"more than {DEEPEST} levels of types")


# -- conversions -----------------------------------------------------------------------------------------


def same(value: Any) -> Any:
    return value


def to_boolean(value: Any) -> Any:
    if value is not None and type(value) is not bool:
        raise Misfit("neither true nor false")
    return value


def to_whole(bits: int) -> Convert:
    """Return the conversion to a whole number of so many bits; 1.0 is 1."""
    limit = 1 << bits - 1

    def convert(value: Any) -> Any:
        if type(value) is float and value.is_integer():
            value = int(value)
        if value is not None and (type(value) is not int or not -limit <= value < limit):
            raise Misfit(f"not a whole number of {bits} bits")
        return value

    return convert


def to_double(value: Any) -> Any:
    if value is None or type(value) is float:
        return value
    if type(value) is not int:
        raise Misfit("not a number")
    try:
        return float(value)
    except OverflowError as error:
        raise Misfit("a number too large") from error


def to_string(value: Any) -> Any:
    if value is not None and type(value) is not str:
        raise Misfit("not a string")
    return value


def to_json(value: Any) -> Any:
    """Return the JSON text of a value, for what has no one type."""
    return None if value is None else json.encode(value).decode()


def to_date(value: Any) -> Any:
    """Return the date that text such as `2026-01-31` is."""
    if value is None:
        return None
    if type(value) is not str or not _DATE.fullmatch(value):
        raise Misfit("not a date")
    try:
        return date.fromisoformat(value)
    except ValueError as error:
        raise Misfit("not a date") from error


def to_timestamp(value: Any) -> Any:
    """Return the time that RFC 3339 text is, in UTC; below microseconds it is cut."""
    if value is None:
        return None
    if type(value) is not str or not _DATE_TIME.fullmatch(value):
        raise Misfit("not a date-time with its offset")
    try:
        return datetime.fromisoformat(value.upper()).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise Misfit("not a date-time") from error


def to_decimal(precision: int, scale: int) -> Convert:
    """Return the conversion to a decimal of so many digits, `scale` of them behind the point."""
    limit = Decimal(10) ** (precision - scale)

    def convert(value: Any) -> Any:
        if value is not None and (type(value) is not Decimal or not -limit < value < limit):
            raise Misfit(f"not a decimal of {precision} digits, {scale} behind the point")
        return value

    return convert


def to_array(item: Convert) -> Convert:
    """Return the conversion of lists by that of their items."""

    def convert(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not list:
            raise Misfit("not a list")
        return value if item is same else [item(one) for one in value]

    return convert


def to_struct(fields: Mapping[str, Convert]) -> Convert:
    """Return the conversion of structures by those of their fields; others are left as they are."""

    def convert(value: Any) -> Any:
        if value is None:
            return None
        row = dict(value)
        for name, of_field in fields.items():
            try:
                row[name] = of_field(row[name])
            except Misfit as error:
                raise Misfit(f"{name}: {error}") from error
        return row

    return convert if fields else same


def to_map(item: Convert) -> Convert:
    """Return the conversion of objects to the pairs that Arrow takes for a map."""

    def convert(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not dict:
            raise Misfit("not an object")
        return [(key, item(one)) for key, one in value.items()]

    return convert


# -- and back --------------------------------------------------------------------------------------------


def from_json(value: Any) -> Any:
    """Return the value that a column of JSON text stands for."""
    if value is None:
        return None
    try:
        return json.decode(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise Misfit(f"not JSON: {error}") from error


def from_double(value: Any) -> Any:
    """Return a number that JSON can say."""
    if value is not None and not math.isfinite(value):
        raise Misfit("not a number that JSON has")
    return value


def from_date(value: Any) -> Any:
    return None if value is None else value.isoformat()


def from_timestamp(value: Any) -> Any:
    """Return a time as RFC 3339 has it."""
    return None if value is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def from_map(item: Convert) -> Convert:
    """Return the conversion of the pairs that Arrow gives for a map to an object."""

    def convert(value: Any) -> Any:
        return None if value is None else {key: item(one) for key, one in value}

    return convert
