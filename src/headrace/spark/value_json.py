"""JSON payloads to values of exactly one Spark type, as Arrow takes them.

As Spark's `from_json` reads them, but for what it guesses: a whole number is no text, `1.5` no bigint, a time
without a zone is UTC, and a payload that does not fit in one place does not fit. No session is asked.
Values are Python's, but for what Arrow takes as numbers: days, microseconds, nanoseconds.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final, NoReturn

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VariantType,
    VariantVal,
)

BAD_JSON: Final = (ValueError, ArithmeticError, RecursionError)
"""The errors of a reader for a payload that is not of its type."""

_Make = Callable[[Any], Any]

_LARGEST: Final = 1 << 63
_EPOCH_DAYS: Final = date(1970, 1, 1).toordinal()
_SECOND: Final = 1_000_000
"""A second in microseconds."""

_DATE: Final = r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})"
_CLOCK: Final = r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,30}))?)?"
_ZONE: Final = r"(Z|UTC|GMT|[+-]\d{1,2}(?::?\d{2})?)"
_TIMESTAMP: Final = re.compile(rf"(?a){_DATE}(?:[T ]{_CLOCK} ?{_ZONE}?)?)?)?")
_DAY: Final = re.compile(rf"(?a){_DATE}(?:[T ].*)?)?)?")
_TIME: Final = re.compile(rf"(?a){_CLOCK}")
_NUMBER: Final = re.compile(r"(?a)[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,9})?")
_WIDE: Final = Context(prec=80, rounding=ROUND_HALF_UP)


def json_reader(kind: StructType) -> Callable[[bytes], Any]:
    """A function from a payload to the value of a structure; it raises one of `BAD_JSON` for any other."""
    make = _maker(kind)
    exact = _holds(kind, (DecimalType, VariantType))
    floats: Callable[[str], Any] = Decimal if exact else float
    whole: Callable[[str], Any] = _whole if exact else int

    def read(payload: bytes) -> Any:
        return make(
            json.loads(payload.decode(), parse_constant=_no_constant, parse_float=floats, parse_int=whole)
        )

    return read


def _holds(kind: DataType, wanted: tuple[type[DataType], ...]) -> bool:
    """True if a type is one of these, or has one in it."""
    inner: list[DataType] = []
    if isinstance(kind, StructType):
        inner = [field.dataType for field in kind]
    elif isinstance(kind, ArrayType):
        inner = [kind.elementType]
    elif isinstance(kind, MapType):
        inner = [kind.valueType]
    return isinstance(kind, wanted) or any(_holds(one, wanted) for one in inner)


def _whole(text: str) -> int | Decimal:
    """A whole number; one that 64 bits do not hold as the decimal that it may be."""
    number = int(text)
    return number if -_LARGEST <= number < _LARGEST else Decimal(number)


def _maker(kind: DataType) -> _Make:
    """Return what takes a JSON value of exactly this type or null, and raises ValueError for any other.

    PyArrow would take more than that: 1.5 for a whole number, a list for a structure.
    """
    return _MAKERS[type(kind)](kind)


def _struct_maker(kind: StructType) -> _Make:
    fields = [(field.name, _maker(field.dataType)) for field in kind]

    def make(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not dict:
            raise ValueError("not an object")
        get = value.get
        return {name: field(get(name)) for name, field in fields}

    return make


def _array_maker(kind: ArrayType) -> _Make:
    element = _maker(kind.elementType)

    def make(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not list:
            raise ValueError("not a list")
        return [element(one) for one in value]

    return make


def _map_maker(kind: MapType) -> _Make:
    element = _maker(kind.valueType)

    def make(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not dict:
            raise ValueError("not an object")
        return [(_string(name), element(one)) for name, one in value.items()]

    return make


def _integer_maker(bits: int) -> _Make:
    limit = 1 << bits - 1

    def make(value: Any) -> Any:
        if value is not None and (type(value) is not int or not -limit <= value < limit):
            raise ValueError("not a whole number of this size")
        return value

    return make


def _decimal_maker(kind: DecimalType) -> _Make:
    """Numbers, and numbers in quotes; more digits behind the point are rounded half up, as in Spark."""
    precision, scale = kind.precision, kind.scale
    unit = Decimal(1).scaleb(-scale)

    def make(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is str:
            if _NUMBER.fullmatch(value) is None:
                raise ValueError("not a number")
        elif type(value) is bool or not isinstance(value, int | Decimal):
            raise ValueError("not a number")
        number = Decimal(value)
        if number and number.adjusted() > precision:
            raise ValueError("too large")
        rounded = number.quantize(unit, context=_WIDE)
        if rounded and rounded.adjusted() >= precision - scale:
            raise ValueError("too large")
        return rounded

    return make


def _text_maker(read: Callable[[str], Any]) -> _Make:
    def make(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not str:
            raise ValueError("not a string")
        return read(value.strip())

    return make


def _float(value: Any) -> Any:
    if value is None or type(value) is float:
        return value
    if type(value) is not int and type(value) is not Decimal:
        raise ValueError("not a number")
    return float(value)


def _boolean(value: Any) -> Any:
    if value is not None and type(value) is not bool:
        raise ValueError("neither true nor false")
    return value


def _string(value: Any) -> Any:
    if value is None:
        return None
    if type(value) is not str:
        raise ValueError("not a string")
    if not value.isascii():
        value.encode()  # half a surrogate pair is no text
    return value


def _base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _variant(value: Any) -> Any:
    if value is None:
        return None
    made = VariantVal.parseJson(_VARIANTS.encode(value).decode())
    return {"value": made.value, "metadata": made.metadata}


_VARIANTS: Final = msgspec.json.Encoder(decimal_format="number")


# -- times ----------------------------------------------------------------------------------------------


def _date(text: str) -> int:
    """Days since 1970."""
    match = _DAY.fullmatch(text)
    if match is None:
        raise ValueError("not a date")
    return _days(match[1], match[2], match[3])


def _days(year: str, month: str | None, day: str | None) -> int:
    return date(int(year), int(month or 1), int(day or 1)).toordinal() - _EPOCH_DAYS


def _timestamp(value: Any) -> int | None:
    """Microseconds since 1970 UTC, of text or of whole seconds."""
    if value is None:
        return None
    if type(value) is int:
        found = value * _SECOND
        if not -_LARGEST <= found < _LARGEST:
            raise ValueError("not a time")
        return found
    if type(value) is not str:
        raise ValueError("not a time")
    return _moment(value.strip(), with_zone=True)


def _local_timestamp(text: str) -> int:
    """Microseconds since 1970 of a clock and a calendar without a zone."""
    return _moment(text, with_zone=False)


def _moment(text: str, *, with_zone: bool) -> int:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError("not a time")
    year, month, day, *clock, zone = match.groups()
    if zone is not None and not with_zone:
        raise ValueError("a time with a zone")
    seconds = _days(year, month, day) * 86_400 - _offset(zone)
    return seconds * _SECOND + (_nanoseconds(*clock) // 1000 if clock[0] is not None else 0)


def _offset(zone: str | None) -> int:
    """Seconds that a zone is ahead of UTC."""
    if zone is None or zone[0] not in "+-":
        return 0
    hours, _, minutes = zone[1:].partition(":")
    if not minutes and len(hours) > 2:
        hours, minutes = hours[:-2], hours[-2:]
    found = int(hours) * 60 + int(minutes or 0)
    if found > 18 * 60 or int(minutes or 0) > 59:
        raise ValueError("not a zone")
    return (found if zone[0] == "+" else -found) * 60


def _nanoseconds(hour: str, minute: str, second: str | None, fraction: str | None) -> int:
    """Nanoseconds since midnight; more digits are cut."""
    hours, minutes, seconds = int(hour), int(minute), int(second or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError("not a time of day")
    whole = (hours * 60 + minutes) * 60 + seconds
    return whole * 1_000_000_000 + int((fraction or "0")[:9].ljust(9, "0"))


def _time_reader(kind: TimeType) -> Callable[[str], int]:
    unit: int = 10 ** (9 - kind.precision)

    def read(text: str) -> int:
        match = _TIME.fullmatch(text)
        if match is None:
            raise ValueError("not a time of day")
        return _nanoseconds(*match.groups()) // unit * unit

    return read


_FIELDS: Final = ("day", "hour", "minute", "second")
_LENGTHS: Final = (86_400, 3600, 60, 1)
_LIMITS: Final = (0, 24, 60, 60)


def _interval_reader(kind: DayTimeIntervalType) -> Callable[[str], int]:
    """Microseconds of `1 02:03:04.5`, or of `INTERVAL '1 02:03:04.5' DAY TO SECOND`, which Spark writes."""
    fields = range(kind.startField, kind.endField + 1)
    shape = ""
    for field in fields:
        if field != kind.startField:
            shape += " " if field == 1 else ":"
        shape += r"(\d{1,15})" if field == kind.startField else r"(\d{1,2})"
        if field == 3:
            shape += r"(?:\.(\d{1,9}))?"
    units = rf"{_FIELDS[kind.startField]}" + (
        f" to {_FIELDS[kind.endField]}" if kind.endField != kind.startField else ""
    )
    bare = re.compile(f"(?a)([+-]?){shape}")
    whole = re.compile(rf"(?ai)interval ([+-]?)'([^']*)' {units}")

    def read(text: str) -> int:
        literal = whole.fullmatch(text)
        match = bare.fullmatch(literal[2] if literal is not None else text)
        if match is None:
            raise ValueError("not an interval")
        micros = 0
        for place, field in enumerate(fields):
            number = int(match[place + 2])
            if place and number >= _LIMITS[field]:
                raise ValueError("not an interval")
            micros += number * _LENGTHS[field] * _SECOND
        if kind.endField == 3:
            micros += int((match[len(fields) + 2] or "0")[:6].ljust(6, "0"))
        if (match[1] == "-") != (literal is not None and literal[1] == "-"):
            micros = -micros
        if not -_LARGEST <= micros < _LARGEST:
            raise ValueError("not an interval")
        return micros

    return read


_MAKERS: Final[dict[type[DataType], Callable[[Any], _Make]]] = {
    StructType: _struct_maker,
    ArrayType: _array_maker,
    MapType: _map_maker,
    StringType: lambda _kind: _string,
    BooleanType: lambda _kind: _boolean,
    ByteType: lambda _kind: _integer_maker(8),
    ShortType: lambda _kind: _integer_maker(16),
    IntegerType: lambda _kind: _integer_maker(32),
    LongType: lambda _kind: _integer_maker(64),
    FloatType: lambda _kind: _float,
    DoubleType: lambda _kind: _float,
    DecimalType: _decimal_maker,
    BinaryType: lambda _kind: _text_maker(_base64),
    DateType: lambda _kind: _text_maker(_date),
    TimestampType: lambda _kind: _timestamp,
    TimestampNTZType: lambda _kind: _text_maker(_local_timestamp),
    TimeType: lambda kind: _text_maker(_time_reader(kind)),
    DayTimeIntervalType: lambda kind: _text_maker(_interval_reader(kind)),
    VariantType: lambda _kind: _variant,
}
"""The functions that make the maker of a type, for each type that `value_schema` gives."""


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
