"""Avro schemas as columns, and payloads in Avro's binary encoding by fastavro.

fastavro trusts a schema: data of a type that contains itself end its process when they are nested deeply
enough, and a list of items without bytes can be as long as its count says. Both kinds of schemas are refused
here, so that reading a payload takes memory and time by its size. A payload is a datum, alone or behind the
marker and the fingerprint of its schema (single-object encoding).
Source: Avro 1.12, "Schema Declaration", "Schema Resolution", "Single-object encoding".
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.schemas.column_types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LARGEST_PRECISION,
    LOCAL_TIMESTAMP,
    LONG,
    STRING,
    TIMESTAMP,
    ColumnType,
    PayloadColumn,
    TypeCount,
    ValueForm,
    array_of,
    from_json,
    from_map,
    map_of,
    same,
    struct_of,
    to_array,
    to_decimal,
    to_json,
    to_map,
    to_struct,
    to_whole,
)
from headrace.schemas.errors import Misfit, SchemaError
from headrace.schemas.json_schema import parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

MARKER: Final = b"\xc3\x01"
"""The first bytes of a single object."""
FINGERPRINT_BYTES: Final = 8
_HEAD: Final = len(MARKER) + FINGERPRINT_BYTES

_WRONG_DATA: Final = (
    *(ValueError, LookupError, TypeError, AttributeError, EOFError, ArithmeticError, RecursionError),
)
"""Exceptions of fastavro for bytes that are not of their schema."""
_WRONG_SCHEMA: Final = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)


class AvroSchema:
    """An Avro schema: its columns, and its fingerprint."""

    def __init__(self, text: str) -> None:
        """Read a schema. Raises: SchemaError."""
        fastavro = _fastavro()
        document = parse_json(text)
        if type(document) not in (dict, list, str):
            raise SchemaError("not an Avro schema")
        try:
            known = _known_types(document)
            self._parsed = fastavro.parse_schema(known)
            canonical = fastavro.schema.to_parsing_canonical_form(known)
            self.fingerprint: Final = bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))
        except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
            raise SchemaError(f"{_kind(error)}{error}") from error
        except _WRONG_SCHEMA as error:
            raise SchemaError(f"not an Avro schema: {error!r}") from error
        found = _Columns().column(self._parsed, 0)
        self._form = found.form
        self.type: Final = found.form.type

    def read(self, payload: bytes, reader: AvroSchema) -> Any:
        """The value of a datum written with this schema, as a reader with another one sees it.

        Raises: Misfit.
        """
        file = BytesIO(payload)
        try:
            value = _fastavro().schemaless_reader(
                file, self._parsed, None if reader is self else reader._parsed
            )
        except _WRONG_DATA as error:
            raise Misfit(f"not a datum of the schema: {error or type(error).__name__}") from error
        except _fastavro().read.SchemaResolutionError as error:
            raise Misfit(str(error)) from error
        if file.tell() != len(payload):
            raise Misfit(f"{len(payload) - file.tell()} bytes behind the datum")
        return reader._form.read(value)

    def write(self, value: Any) -> bytes:
        """The payload of a value as Arrow gives it: a single object. Raises: Misfit."""
        file = BytesIO()
        try:
            _fastavro().schemaless_writer(file, self._parsed, self._form.write(value))
        except _WRONG_DATA as error:
            raise Misfit(f"not of the schema: {error or type(error).__name__}") from error
        return MARKER + self.fingerprint + file.getvalue()


class AvroReader:
    """The reader of payloads that were written with one of several schemas."""

    is_bounded: Final = True

    def __init__(self, schema: AvroSchema, writers: Sequence[AvroSchema]) -> None:
        """`writers`: the newest first."""
        self.type = schema.type
        self._schema = schema
        self._writers = writers
        self._marked = {one.fingerprint: one for one in writers}

    def read(self, payload: bytes) -> Any:
        """The value of a payload.

        The fingerprint says who wrote it; where there is none the newest schema of which it is a datum.
        Raises: Misfit.
        """
        if payload.startswith(MARKER):
            writer = self._marked.get(payload[len(MARKER) : _HEAD])
            if writer is not None:
                return writer.read(payload[_HEAD:], self._schema)
        first: Misfit | None = None
        for writer in self._writers:
            try:
                return writer.read(payload, self._schema)
            except Misfit as error:
                first = first or error
        raise first or Misfit("no schema")


def _fastavro() -> ModuleType:
    try:
        import fastavro
    except ModuleNotFoundError as error:
        raise SchemaError("Avro needs the package fastavro: pip install 'headrace[schemas]'") from error
    module: ModuleType = fastavro
    return module


def _kind(error: Exception) -> str:
    return "unknown type " if type(error).__name__ == "UnknownType" else ""


# -- columns -------------------------------------------------------------------------------------------------

_LOGICAL: Final[Mapping[str, tuple[str, ColumnType]]] = {
    "date": ("int", DATE),
    "timestamp-millis": ("long", TIMESTAMP),
    "timestamp-micros": ("long", TIMESTAMP),
    "local-timestamp-millis": ("long", LOCAL_TIMESTAMP),
    "local-timestamp-micros": ("long", LOCAL_TIMESTAMP),
}
"""Logical types with a column of their own, beside decimal: what they annotate, and the column."""


def _known_types(schema: Any) -> Any:
    """Return a schema without logical types that have no column; such values are what is beneath."""
    if type(schema) is list:
        return [_known_types(one) for one in schema]
    if type(schema) is not dict:
        return schema
    known = {
        key: _known_types(value) if key in ("type", "items", "values", "fields") else value
        for key, value in schema.items()
        if not key.startswith("__")  # what fastavro notes in a schema that it has parsed
    }
    if not _is_decimal(known) and _logical_type(known) is None:
        known.pop("logicalType", None)
    return known


def _logical_type(schema: Mapping[str, Any]) -> ColumnType | None:
    """The column of a logical type, where it stands on what it annotates."""
    name = schema.get("logicalType")
    beneath, column = _LOGICAL.get(name, ("", None)) if type(name) is str else ("", None)
    return column if schema.get("type") == beneath else None


def _is_decimal(schema: Mapping[str, Any]) -> bool:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    return (
        schema.get("logicalType") == "decimal"
        and schema.get("type") in ("bytes", "fixed")
        and type(precision) is int
        and type(scale) is int
        and 0 <= scale <= precision <= LARGEST_PRECISION
        and precision > 0
    )


class _Found(NamedTuple):
    """A type as a column, and the fewest bytes that one of its values has."""

    form: ValueForm
    least: int = 1


def _same(kind: ColumnType) -> ValueForm:
    return ValueForm(kind, same, same)


_SIMPLE: Final[Mapping[str, _Found]] = {
    "null": _Found(_same(STRING), 0),
    "boolean": _Found(_same(BOOLEAN)),
    "int": _Found(ValueForm(INT, to_whole(32), same)),
    "long": _Found(ValueForm(LONG, to_whole(64), same)),
    "float": _Found(_same(FLOAT), 4),
    "double": _Found(_same(DOUBLE), 8),
    "bytes": _Found(_same(BINARY)),
    "string": _Found(_same(STRING)),
}
_ANYTHING: Final = ValueForm(STRING, to_json, from_json)


class _Columns:
    """A reader of one parsed schema. Raises, from every method: SchemaError."""

    def __init__(self) -> None:
        self._count = TypeCount()
        self._named: dict[str, Any] = {}
        self._within: list[str] = []

    def column(self, schema: Any, depth: int) -> _Found:
        self._count.add(depth)
        if type(schema) is list:
            return self._union(schema, depth)
        if type(schema) is str:
            return _SIMPLE[schema] if schema in _SIMPLE else self._again(schema, depth)
        if schema["type"] in ("enum", "fixed"):
            self._named[schema["name"]] = schema
        if _is_decimal(schema):
            return self._decimal(schema)
        logical = _logical_type(schema)
        return self._declared(schema, depth) if logical is None else _Found(_same(logical))

    def _declared(self, schema: Any, depth: int) -> _Found:
        """The column of a type that is declared in its place."""
        match schema["type"]:
            case "record" | "error":
                return self._record(schema, depth)
            case "array":
                return self._array(schema, depth)
            case "map":
                value = self.column(schema["values"], depth + 1).form
                return _Found(ValueForm(map_of(value.type), to_map(value.read), from_map(value.write)))
            case "enum":
                return _Found(_same(STRING))
            case "fixed":
                return _Found(_same(BINARY), _size(schema))
        return self.column(schema["type"], depth + 1)

    def _again(self, name: str, depth: int) -> _Found:
        """The column of a type that was declared before."""
        if name in self._within:
            raise SchemaError(f"type {name} contains itself: recursion is not supported")
        return self.column(self._named[name], depth + 1)

    def _record(self, schema: Any, depth: int) -> _Found:
        name = schema["name"]
        self._named[name] = schema
        self._within.append(name)
        fields = [(field["name"], self.column(field["type"], depth + 1)) for field in schema["fields"]]
        self._within.pop()
        forms = {field: found.form for field, found in fields}
        if len(forms) != len(fields):
            raise SchemaError(f"record {name} has two fields of one name")
        form = ValueForm(
            struct_of(tuple(PayloadColumn(field, one.type) for field, one in forms.items())),
            to_struct({field: one.read for field, one in forms.items() if one.read is not same}),
            to_struct({field: one.write for field, one in forms.items() if one.write is not same}),
        )
        return _Found(form, sum(found.least for _, found in fields))

    def _array(self, schema: Any, depth: int) -> _Found:
        item = self.column(schema["items"], depth + 1)
        if not item.least:
            raise SchemaError("a list of items without bytes is not supported: it could have any length")
        form = item.form
        return _Found(ValueForm(array_of(form.type), to_array(form.read), to_array(form.write)))

    def _decimal(self, schema: Any) -> _Found:
        precision, scale = schema["precision"], schema.get("scale", 0)
        least = _size(schema) if schema["type"] == "fixed" else 1
        kind = ColumnType("decimal", precision=precision, scale=scale)
        return _Found(ValueForm(kind, to_decimal(precision, scale), same), least)

    def _union(self, schema: Any, depth: int) -> _Found:
        """The column of a union: that of its one type but null, of all its numbers, or its JSON text."""
        if not schema:
            raise SchemaError("a union of nothing")
        parts = [one for one in schema if one != "null"]
        found = [self.column(one, depth + 1) for one in parts]
        if len(found) == 1:
            return _Found(found[0].form)
        if parts and set(map(str, parts)) <= {"int", "long"}:
            return _SIMPLE["long"]
        if parts and set(map(str, parts)) <= {"float", "double"}:
            return _Found(_same(DOUBLE))
        return _Found(_ANYTHING)


def _size(schema: Any) -> int:
    size = schema.get("size")
    if type(size) is not int or size < 0:
        raise SchemaError(f"fixed {schema['name']} has no size")
    return size
