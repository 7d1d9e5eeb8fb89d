"""Protobuf messages as columns: a FileDescriptorSet in base64, and the name of a message in it.

`protoc --include_imports --descriptor_set_out=orders.pb orders.proto` writes one. Fields have numbers, and a
reader passes over those that it does not know: other versions of a message need no other schema here.
"""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

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
    PayloadColumn,
    TypeCount,
    ValueForm,
    array_of,
    map_of,
    same,
    struct_of,
)
from headrace.schemas.errors import Misfit, SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.schemas.column_types import Convert

_TIMESTAMP: Final = "google.protobuf.Timestamp"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UINT64: Final = ColumnType("decimal", precision=20)


class ProtobufSchema:
    """A message type: its columns, and the reader of payloads."""

    is_bounded: Final = True

    def __init__(self, text: str, name: str) -> None:
        """Read the descriptors of a message. Raises: SchemaError."""
        self._message = _message_class(text, name)
        from google.protobuf.message import DecodeError

        self._error = DecodeError
        self._form = _Forms().message(self._message.DESCRIPTOR, 0)
        self.type: Final = self._form.type

    def read(self, payload: bytes) -> Any:
        """The value of a payload. Raises: Misfit."""
        message = self._message()
        try:
            message.ParseFromString(payload)
        except self._error as error:
            raise Misfit(f"not a message {self._message.DESCRIPTOR.full_name}: {error}") from error
        missing = message.FindInitializationErrors()
        if missing:
            raise Misfit(f"{missing[0]} is missing")
        return self._form.read(message)

    def write(self, value: Any) -> bytes:
        """The payload of a value as Arrow gives it. Raises: Misfit."""
        try:
            message = self._message(**self._form.write(value))
        except (TypeError, ValueError, ArithmeticError) as error:  # a number too large, a name of no enum
            raise Misfit(str(error)) from error
        missing = message.FindInitializationErrors()
        if missing:
            raise Misfit(f"{missing[0]} is missing")
        return bytes(message.SerializeToString(deterministic=True))


def _message_class(text: str, name: str) -> Any:
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        from google.protobuf.message import DecodeError
    except ModuleNotFoundError as error:
        raise SchemaError("Protobuf needs the package protobuf: pip install 'headrace[schemas]'") from error
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError) as error:
        raise SchemaError(f"not a FileDescriptorSet in base64: {error}") from error
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in files.file:
            pool.Add(file)
    except TypeError as error:  # what protobuf raises for all that is wrong with a file
        raise SchemaError(f"{error} (protoc --include_imports puts in what is imported)") from error
    try:
        found = pool.FindMessageTypeByName(name)
    except KeyError as error:
        raise SchemaError(f"there is no message {name!r}") from error
    return message_factory.GetMessageClass(found)


def _same(kind: ColumnType) -> ValueForm:
    return ValueForm(kind, same, same)


def _simple() -> Mapping[int, ValueForm]:
    """The forms of fields that are values, by the numbers of their types in a descriptor."""
    from google.protobuf.descriptor import FieldDescriptor as Field

    return {
        Field.TYPE_DOUBLE: _same(DOUBLE),
        Field.TYPE_FLOAT: _same(FLOAT),
        Field.TYPE_BOOL: _same(BOOLEAN),
        Field.TYPE_STRING: _same(STRING),
        Field.TYPE_BYTES: _same(BINARY),
        **dict.fromkeys((Field.TYPE_INT32, Field.TYPE_SINT32, Field.TYPE_SFIXED32), _same(INT)),
        **dict.fromkeys((Field.TYPE_UINT32, Field.TYPE_FIXED32), _same(LONG)),
        **dict.fromkeys((Field.TYPE_INT64, Field.TYPE_SINT64, Field.TYPE_SFIXED64), _same(LONG)),
        **dict.fromkeys((Field.TYPE_UINT64, Field.TYPE_FIXED64), ValueForm(_UINT64, Decimal, _from_uint64)),
    }


def _from_uint64(value: Any) -> Any:
    return None if value is None else int(value)


class _Forms:
    """A reader of one message's descriptor. Raises, from every method: SchemaError."""

    def __init__(self) -> None:
        self._simple = _simple()
        self._count = TypeCount()
        self._within: list[str] = []

    def message(self, descriptor: Any, depth: int) -> ValueForm:
        """The form of a message."""
        self._count.add(depth)
        name = descriptor.full_name
        if name == _TIMESTAMP:
            return ValueForm(TIMESTAMP, _to_timestamp, _from_timestamp)
        if name in self._within:
            raise SchemaError(f"message {name} contains itself: recursion is not supported")
        self._within.append(name)
        fields = [(field, self._field(field, depth + 1)) for field in descriptor.fields]
        self._within.pop()
        columns = tuple(PayloadColumn(field.name, form.type) for field, form in fields)
        reads = [(field.name, field.has_presence, form.read) for field, form in fields]
        return ValueForm(struct_of(columns), _to_struct(reads), _from_struct(fields))

    def _field(self, field: Any, depth: int) -> ValueForm:
        if not field.is_repeated:
            return self._value(field, depth)
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            key = self._value(entry.fields_by_name["key"], depth)
            value = self._value(entry.fields_by_name["value"], depth)
            return ValueForm(
                map_of(value.type, key.type),
                lambda items: [(key.read(one), value.read(items[one])) for one in items],
                lambda pairs: pairs and {key.write(one): value.write(of) for one, of in pairs},
            )
        item = self._value(field, depth)
        return ValueForm(
            array_of(item.type),
            lambda items: [item.read(one) for one in items],
            lambda items: items and [item.write(one) for one in items],
        )

    def _value(self, field: Any, depth: int) -> ValueForm:
        self._count.add(depth)
        if field.message_type is not None:
            return self.message(field.message_type, depth)
        if field.enum_type is not None:
            names = field.enum_type.values_by_number
            return ValueForm(
                STRING,
                lambda number: names[number].name if number in names else str(number),
                lambda text: int(text) if text and text.lstrip("-").isdigit() else text,
            )
        return self._simple[field.type]


def _to_struct(fields: list[tuple[str, bool, Convert]]) -> Convert:
    def convert(message: Any) -> Any:
        return {
            name: None if has_presence and not message.HasField(name) else to_value(getattr(message, name))
            for name, has_presence, to_value in fields
        }

    return convert


def _from_struct(fields: list[tuple[Any, ValueForm]]) -> Convert:
    """The conversion to what a message is made with: fields that are not null."""
    writes = [(field.name, form.write) for field, form in fields]

    def convert(value: Any) -> Any:
        if value is None:
            return None
        return {name: write(value[name]) for name, write in writes if value[name] is not None}

    return convert


def _to_timestamp(message: Any) -> datetime:
    try:
        return _EPOCH + timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)
    except OverflowError as error:
        raise Misfit("a timestamp outside of the years 1 to 9999") from error


def _from_timestamp(value: datetime) -> dict[str, int]:
    seconds, rest = divmod(value - _EPOCH, timedelta(seconds=1))
    return {"seconds": seconds, "nanos": rest.microseconds * 1000}
