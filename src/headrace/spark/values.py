"""Payloads as column `data`: option `valueFormat`, its schema, and the conversion.

Bytes as they are, text, or JSON with a schema. No socket and no Spark session here: a schema is read from
text by this module, because where it is needed there is no JVM to ask.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from headrace.spark.errors import OptionError, ValueFormatError
from headrace.spark.option_entry import Option
from headrace.spark.schema import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.spark.typed_payloads import StreamPayloads

FORMATS: Final = ("binary", "string", "json", "schema")
MODES: Final = ("permissive", "failfast", "dropmalformed")

VALUE_OPTIONS: Final = (
    Option(
        "valueFormat",
        "word",
        "`schema` for a stream that has one, else `binary`",
        "What column `data` is: `binary`, `string` or `json`; with `schema` binary, and the fields of the "
        "stream's schema are columns beside it",
        elsewhere=("value.format", "format", "value.deserializer", "kafka.value.deserializer"),
    ),
    Option(
        "valueSchema",
        "schema",
        "none",
        "With `json`: the fields, as `id bigint, tags array<string>` or Spark's JSON",
        elsewhere=("schema", "jsonSchema", "value.schema"),
    ),
    Option(
        "valueMode",
        "word",
        "permissive",
        "A payload that is not of the format: null (`permissive`; of a stream's schema the payload in "
        "`_corrupt_record`), an error (`failfast`), no row (`dropmalformed`)",
        elsewhere=("mode",),
    ),
)
"""The options that make up a `ValueFormat`."""

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
}
_TOKEN: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+)|([<>,:]))")
_DEEPEST: Final = 32
"""Levels of arrays and structures in a schema."""


@dataclass(frozen=True)
class ValueFormat:
    """The format of payloads in column `data`, and the treatment of one that is not of the format."""

    name: str = "binary"
    type: DataType = BinaryType()  # noqa: RUF009  # a Spark type is a constant
    mode: str = "permissive"
    payloads: StreamPayloads | None = None
    """The schema of the stream, where its fields are columns."""


class Decoder:
    """Turns record batches with binary payloads into those of the wanted columns."""

    def __init__(self, value_format: ValueFormat, columns: StructType) -> None:
        self._format = value_format
        self._wanted = arrow_schema(columns)
        self._works = value_format.name not in ("binary", "schema") and "data" in self._wanted.names
        self.raw_columns = columns
        """The columns to make, with payloads as bytes."""
        if self._works:
            self.raw_columns = StructType(
                [StructField("data", BinaryType()) if column.name == "data" else column for column in columns]
            )

    def decode(self, raw: pa.RecordBatch, sequences: Sequence[Any], source: str) -> pa.RecordBatch:
        """The batch as wanted; `sequences` and `source` name a message in an error.

        Raises: ValueFormatError for a payload not of the format, in mode failfast.
        """
        if not self._works:
            return raw
        place = self._wanted.names.index("data")
        payloads = raw.column(place)
        values, bad = self._values(payloads, self._wanted.field(place).type)
        if bad and self._format.mode == "failfast":
            row = bad[0]
            raise ValueFormatError(
                f"the payload of sequence {sequences[row]} of {source} is not {self._what()}: "
                f"{payloads[row].as_py()[:80]!r}. Set option valueMode to permissive (null) or dropmalformed"
            )
        columns = raw.columns
        columns[place] = values
        batch = pa.RecordBatch.from_arrays(columns, schema=self._wanted)
        if bad and self._format.mode == "dropmalformed":
            dropped = set(bad)
            batch = batch.filter(pa.array([row not in dropped for row in range(len(values))]))
        return batch

    def _what(self) -> str:
        if self._format.name == "string":
            return "UTF-8 (option valueFormat string)"
        return f"JSON of schema {self._format.type.simpleString()} (option valueFormat json)"

    def _values(self, payloads: pa.Array, kind: pa.DataType) -> tuple[pa.Array, list[int]]:
        """The values, null where a payload is not of the format, and those rows."""
        if self._format.name == "string":
            try:
                return payloads.cast(kind), []
            except pa.ArrowInvalid:
                read: Callable[[bytes], Any] = bytes.decode
        else:
            read = _json_reader(self._format.type)
        values: list[Any] = []
        bad: list[int] = []
        for row, payload in enumerate(payloads.to_pylist()):
            try:
                values.append(read(payload))
            except (ValueError, OverflowError, RecursionError):
                values.append(None)
                bad.append(row)
        return pa.array(values, kind), bad


_Make = Callable[[Any], Any]


def _json_reader(kind: DataType) -> Callable[[bytes], Any]:
    make = _maker(kind)

    def read(payload: bytes) -> Any:
        return make(json.loads(payload.decode(), parse_constant=_no_constant))

    return read


def _maker(kind: DataType) -> _Make:
    """Take a JSON value of exactly this type or null. Raises: ValueError for any other.

    PyArrow would take more than that: 1.5 for a whole number, a list for a structure.
    """
    if isinstance(kind, StructType):
        return _struct_maker([(field.name, _maker(field.dataType)) for field in kind])
    if isinstance(kind, ArrayType):
        return _array_maker(_maker(kind.elementType))
    if isinstance(kind, StringType):
        return _string
    if isinstance(kind, BooleanType):
        return _boolean
    if isinstance(kind, DoubleType | FloatType):
        return _float
    return _integer_maker(1 << _BITS[kind.simpleString()] - 1)


_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def _struct_maker(fields: list[tuple[str, _Make]]) -> _Make:
    def make(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not dict:
            raise ValueError("not an object")
        get = value.get
        return {name: field(get(name)) for name, field in fields}

    return make


def _array_maker(element: _Make) -> _Make:
    def make(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not list:
            raise ValueError("not a list")
        return [element(one) for one in value]

    return make


def _integer_maker(limit: int) -> _Make:
    def make(value: Any) -> Any:
        if value is not None and (type(value) is not int or not -limit <= value < limit):
            raise ValueError("not a whole number of this size")
        return value

    return make


def _float(value: Any) -> Any:
    if value is None or type(value) is float:
        return value
    if type(value) is not int:
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


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def read_value_format(
    name: str | None, schema: str | None, mode: str | None, default: ValueFormat
) -> ValueFormat:
    """The three options as one value. Raises: OptionError."""
    chosen = (name or default.name).lower()
    how = (mode or default.mode).lower()
    if chosen not in FORMATS:
        raise OptionError(
            f"option valueFormat: {name!r} is not one of {', '.join(FORMATS)}; for Avro and Protobuf use "
            "Spark's from_avro and from_protobuf on column data"
        )
    if how not in MODES:
        raise OptionError(f"option valueMode: {mode!r} is not one of {', '.join(MODES)}")
    if mode is not None and chosen == "binary":
        raise OptionError("option valueMode needs option valueFormat string, json or schema")
    if (schema is not None) != (chosen == "json"):
        raise OptionError(
            "option valueSchema and option valueFormat json need each other: set both or neither"
        )
    if schema is None:
        return ValueFormat(chosen, StringType() if chosen == "string" else BinaryType(), how)
    return ValueFormat(chosen, read_schema(schema), how)


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
        return StructType([StructField(field.name, _usable(field.dataType, depth + 1)) for field in kind])
    if isinstance(kind, ArrayType):
        return ArrayType(_usable(kind.elementType, depth + 1))
    if type(kind) in map(type, _SIMPLE.values()):
        return kind
    raise OptionError(_not_supported(kind.simpleString()))


def _not_supported(name: str) -> str:
    return (
        f"option valueSchema: type {name} is not supported (supported are {', '.join(_SIMPLE)}, array<...> "
        "and struct<...>); read it as string and cast it, or use from_json with valueFormat string"
    )


class _Reader:
    """A reader of a schema as text.

    `name type, name type`, where a type may be `array<type>` or `struct<name: type, ...>`.
    """

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
            mark = self._at
            if self._next() != (":", False):
                self._at = mark
            found.append(StructField(name, self._type()))
            token = self._next()
            if token == (closing, False):
                names = [field.name for field in found]
                if len(set(names)) != len(names):
                    raise OptionError(f"option valueSchema: a field occurs twice in {', '.join(names)}")
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
        made = self._nested(name.lower())
        self._depth -= 1
        return made

    def _nested(self, name: str) -> DataType:
        if name in _SIMPLE:
            return _SIMPLE[name]
        if name not in ("array", "struct"):
            raise OptionError(_not_supported(name))
        self._expect("<")
        if name == "struct":
            return self.fields(">")
        element = self._type()
        self._expect(">")
        return ArrayType(element)

    def _expect(self, sign: str) -> None:
        token = self._next()
        if token != (sign, False):
            raise self._wrong(repr(sign), token[0])

    def _next(self) -> tuple[str, bool]:
        """The next word, and whether it is a name; empty at the end."""
        if not self._text[self._at :].strip():
            self._at = len(self._text)
            return "", False
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            raise self._wrong("a name or a type", self._text[self._at :].strip()[:20])
        self._at = match.end()
        quoted, word, sign = match.groups()
        if sign is not None:
            return sign, False
        return (quoted.replace("``", "`") if word is None else word), True

    def _wrong(self, wanted: str, found: str) -> OptionError:
        shown = repr(found) if found else "the end"
        return OptionError(f"option valueSchema: expected {wanted}, found {shown} in {self._text!r}")
