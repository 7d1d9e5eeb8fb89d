"""Option `valueSchema`: a schema from text, or from Spark's own JSON, with the types that JSON can have.

There is no JVM where a schema is needed, so the text is read here: `id bigint, at struct<x: double>`, the
words and types of Spark's DDL. A type that cannot be is refused with the way out. Everything may be null,
whatever the schema says: a payload need not have every field.
"""

from __future__ import annotations

import json
import re
from typing import Final

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
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VariantType,
)

from headrace.spark.errors import OptionError

_SIMPLE: Final[dict[str, DataType]] = {
    "string": StringType(),
    "boolean": BooleanType(),
    "tinyint": ByteType(),
    "byte": ByteType(),
    "smallint": ShortType(),
    "short": ShortType(),
    "int": IntegerType(),
    "integer": IntegerType(),
    "bigint": LongType(),
    "long": LongType(),
    "float": FloatType(),
    "real": FloatType(),
    "double": DoubleType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "timestamp_ltz": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
    "variant": VariantType(),
}
_DECIMAL: Final = ("decimal", "dec", "numeric")
_UNITS: Final = ("day", "hour", "minute", "second")
_OTHERS: Final = "decimal(p,s), time(p), interval day to second, array<...>, map<string,...> and struct<...>"
_INSTEAD: Final = {
    "char": "read it as string",
    "varchar": "read it as string",
    "interval year": "Arrow has no such type: read it as string and cast it in the query",
    "interval month": "Arrow has no such type: read it as string and cast it in the query",
    "interval": "say which, such as interval day to second",
    "void": "leave the field out",
    "geometry": "read it as string or binary and make it in the query",
    "geography": "read it as string or binary and make it in the query",
}
_TOKEN: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+)|'((?:[^'\\]|\\.)*)'|([<>,:()]))")
_DEEPEST: Final = 32
"""Levels of arrays and structures in a schema."""

_MOST_DIGITS: Final = 38
_MOST_FRACTION: Final = 6
"""Digits of a second that a time of day can have."""


def read_schema(text: str) -> StructType:
    """A schema from `name type, ...` or from Spark's own JSON. Raises: OptionError."""
    try:
        if text.lstrip().startswith("{"):
            made = _usable(StructType.fromJson(json.loads(text)))
        else:
            made = _Reader(text).fields("")
    except OptionError:
        raise
    except Exception as error:  # PySpark raises whatever its parser meets
        raise OptionError(f"option valueSchema: {text!r} cannot be understood: {error}") from error
    if not isinstance(made, StructType) or not made.fields:
        raise OptionError(f"option valueSchema: {text!r} names no field")
    return made


def _usable(kind: DataType, depth: int = 0) -> DataType:
    """Return a type in which everything may be null. Raises: OptionError for a type not supported."""
    if depth > _DEEPEST:
        raise OptionError(f"option valueSchema: more than {_DEEPEST} levels")
    if isinstance(kind, StructType):
        fields = [StructField(field.name, _usable(field.dataType, depth + 1)) for field in kind]
        _check_fields(fields)
        return StructType(fields)
    if isinstance(kind, ArrayType):
        return ArrayType(_usable(kind.elementType, depth + 1))
    if isinstance(kind, MapType):
        return _map_of(_usable(kind.keyType, depth + 1), _usable(kind.valueType, depth + 1))
    if isinstance(kind, DecimalType):
        return _decimal(kind.precision, kind.scale)
    if isinstance(kind, TimeType):
        return _time(kind.precision)
    if kind in _SIMPLE.values() or type(kind) is DayTimeIntervalType:
        return kind
    raise OptionError(_not_supported(kind.simpleString()))


def _map_of(key: DataType, value: DataType) -> MapType:
    if not isinstance(key, StringType):
        raise OptionError(
            f"option valueSchema: a map with keys of type {key.simpleString()} is not JSON, whose keys are "
            "text: read map<string,...> and cast the keys in the query"
        )
    return MapType(key, value)


def _decimal(precision: int, scale: int) -> DecimalType:
    if not 1 <= precision <= _MOST_DIGITS or not 0 <= scale <= precision:
        raise OptionError(
            f"option valueSchema: decimal({precision},{scale}) is none: it has 1 to {_MOST_DIGITS} digits, "
            "not more of them behind the point"
        )
    return DecimalType(precision, scale)


def _time(precision: int) -> TimeType:
    if not 0 <= precision <= _MOST_FRACTION:
        raise OptionError(
            f"option valueSchema: time({precision}) is none: 0 to {_MOST_FRACTION} digits of a second"
        )
    return TimeType(precision)


def _check_fields(fields: list[StructField]) -> None:
    names = [field.name for field in fields]
    if len(set(names)) != len(names):
        raise OptionError(f"option valueSchema: a field occurs twice in {', '.join(names)}")


def _not_supported(name: str) -> str:
    instead = next((way for begin, way in _INSTEAD.items() if name.startswith(begin)), "")
    return f"option valueSchema: type {name} is not supported " + (
        f"({instead})"
        if instead
        else f"(supported are {', '.join(_SIMPLE)}, {_OTHERS}); read it as string and cast it, or use "
        "from_json with valueFormat string"
    )


class _Reader:
    """A reader of a schema as text: `name type, name type`, with colons or without."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def fields(self, closing: str) -> StructType:
        found: list[StructField] = []
        while True:
            name, is_name = self._next()
            if not is_name:
                raise self._wrong("a field name", name)
            self._skip(":")
            found.append(StructField(name, self._type()))
            self._skip_remarks()
            token = self._next()
            if token == (closing, False):
                _check_fields(found)
                return StructType(found)
            if token != (",", False):
                raise self._wrong(f"a comma or {closing or 'the end'!r}", token[0])

    def _type(self) -> DataType:
        name, is_name = self._next()
        if not is_name:
            raise self._wrong("a type", name)
        self._depth += 1
        if self._depth > _DEEPEST:
            raise OptionError(f"option valueSchema: more than {_DEEPEST} levels")
        made = self._made(name.lower())
        self._depth -= 1
        return made

    def _made(self, name: str) -> DataType:
        if name in _SIMPLE:
            return _SIMPLE[name]
        if name in _DECIMAL:
            given = self._numbers()
            return _decimal(*(given + [10, 0][len(given) :])[:2])
        if name == "time":
            return _time((self._numbers() or [_MOST_FRACTION])[0])
        if name == "interval":
            return self._interval()
        if name in ("array", "map", "struct"):
            return self._nested(name)
        raise OptionError(_not_supported(name))

    def _nested(self, name: str) -> DataType:
        self._expect("<")
        if name == "struct":
            return self.fields(">")
        first = self._type()
        if name == "array":
            self._expect(">")
            return ArrayType(first)
        self._expect(",")
        made = _map_of(first, self._type())
        self._expect(">")
        return made

    def _interval(self) -> DataType:
        first = self._word(*_UNITS, "year", "month")
        if first is None:
            raise OptionError(_not_supported("interval"))
        last = first
        if self._word("to") is not None:
            last = self._word(*_UNITS, "year", "month") or first
        if first not in _UNITS or last not in _UNITS or _UNITS.index(first) > _UNITS.index(last):
            raise OptionError(_not_supported(f"interval {first} to {last}"))
        return DayTimeIntervalType(_UNITS.index(first), _UNITS.index(last))

    def _numbers(self) -> list[int]:
        """The numbers in parentheses, if there are any."""
        if not self._skip("("):
            return []
        found = []
        while True:
            text, is_name = self._next()
            if not is_name or not re.fullmatch(r"[0-9]{1,4}", text):
                raise self._wrong("a number", text)
            found.append(int(text))
            if self._skip(")"):
                return found
            self._expect(",")

    def _skip_remarks(self) -> None:
        """Pass over `NOT NULL` and `COMMENT '...'`, which say nothing about payloads."""
        if self._word("not") is not None and self._word("null") is None:
            raise self._wrong("NULL", self._next()[0])
        if self._word("comment") is not None:
            match = _TOKEN.match(self._text, self._at)
            if match is None or match[3] is None:
                raise self._wrong("a comment in quotes", self._next()[0])
            self._at = match.end()

    def _expect(self, sign: str) -> None:
        token = self._next()
        if token != (sign, False):
            raise self._wrong(repr(sign), token[0])

    def _skip(self, sign: str) -> bool:
        """True if the sign came next, which is passed over then."""
        mark = self._at
        if self._next() == (sign, False):
            return True
        self._at = mark
        return False

    def _word(self, *words: str) -> str | None:
        """The next word if it is one of these, which is passed over then."""
        mark = self._at
        name, is_name = self._next()
        if is_name and name.lower() in words:
            return name.lower()
        self._at = mark
        return None

    def _next(self) -> tuple[str, bool]:
        """The next word, and whether it is a name; empty at the end."""
        if not self._text[self._at :].strip():
            self._at = len(self._text)
            return "", False
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            raise self._wrong("a name or a type", self._text[self._at :].strip()[:20])
        self._at = match.end()
        quoted, word, remark, sign = match.groups()
        if sign is not None or remark is not None:
            return sign or repr(remark), False
        return (quoted.replace("``", "`") if word is None else word), True

    def _wrong(self, wanted: str, found: str) -> OptionError:
        shown = repr(found) if found else "the end"
        return OptionError(f"option valueSchema: expected {wanted}, found {shown} in {self._text!r}")
