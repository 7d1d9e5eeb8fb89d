"""Readers of payloads: a schema in words made into columns, and each payload into their values.

One judgement for all: a server that checks and a reader of the stream ask the same reader. A reader has the
columns of one schema; payloads may have been written with others, of which the metadata tell (Avro's rules:
a field that the writer did not have takes its default, one that the reader does not have is passed over,
numbers become larger ones).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from headrace.schemas.avro import AvroReader, AvroSchema
from headrace.schemas.errors import Misfit, SchemaError
from headrace.schemas.json_schema import JsonSchema
from headrace.schemas.metadata import SCHEMA
from headrace.schemas.protobuf import ProtobufSchema
from headrace.subjects.grammar import matches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.schemas.column_types import ColumnType
    from headrace.schemas.metadata import SchemaText, StreamSchemas, SubjectSchema

VALUE: Final = "value"
"""The column of a schema whose payloads are no structures."""


class PayloadReader(Protocol):
    """A reader of the payloads of one schema."""

    @property
    def type(self) -> ColumnType:
        """The type of the values."""

    @property
    def is_bounded(self) -> bool:
        """True if the time of a read depends on sizes only, and on no regular expression of a schema."""

    def read(self, payload: bytes) -> Any:
        """The value of a payload. Raises: Misfit."""


class PayloadWriter(Protocol):
    """A writer of the payloads of one schema."""

    @property
    def type(self) -> ColumnType:
        """The type of the values."""

    def write(self, value: Any) -> bytes:
        """The payload of a value as Arrow gives it. Raises: Misfit."""


def payload_writer(schema: SchemaText) -> PayloadWriter:
    """Make a writer. Raises: SchemaError, also if a package is not installed."""
    if schema.type == "protobuf":
        return ProtobufSchema(schema.text, schema.message)
    return AvroSchema(schema.text) if schema.type == "avro" else JsonSchema(schema.text)


class _JsonReader:
    """A reader of JSON that is valid by one of several schemas; its columns are those of the first."""

    def __init__(self, schema: JsonSchema, writers: Sequence[JsonSchema]) -> None:
        self.type = schema.type
        self.is_bounded = not any(one.has_patterns for one in writers)
        self._schema = schema
        self._writers = writers

    def read(self, payload: bytes) -> Any:
        value = self._schema.decode(payload)
        first: Misfit | None = None
        for writer in self._writers:
            try:
                writer.check(value)
            except Misfit as error:
                first = first or error
            else:
                return self._schema.convert(value)
        raise first or Misfit("no schema")


def payload_reader(schema: SchemaText, newest: SchemaText | None = None) -> PayloadReader:
    """Make a reader with the columns of a schema. `newest`: the one of the stream now, if it has another.

    Cost: code is generated for JSON Schema. Raises: SchemaError, also if a package is not installed.
    """
    if schema.type == "protobuf":
        return ProtobufSchema(schema.text, schema.message)
    known = (schema.text, *schema.earlier)
    if newest is not None and newest.type == schema.type:
        known = (newest.text, *newest.earlier, *known)
    texts = list(dict.fromkeys(known))
    if schema.type == "avro":
        avro = {text: AvroSchema(text) for text in texts}
        return AvroReader(avro[schema.text], list(avro.values()))
    json = {text: JsonSchema(text) for text in texts}
    return _JsonReader(json[schema.text], list(json.values()))


class PayloadJudge:
    """The readers of all schemas of a stream, by the subjects that they are for."""

    def __init__(self, schemas: StreamSchemas) -> None:
        """Make the readers. Raises: SchemaError naming the entry of the metadata."""
        self._readers = [(one.filter.encode(), _named_reader(one)) for one in schemas.schemas]
        self.is_bounded: Final = all(reader.is_bounded for _, reader in self._readers)

    def reader(self, subject: bytes) -> PayloadReader | None:
        """The reader of a subject's payloads; None if no schema is for it."""
        for pattern, reader in self._readers:
            if not pattern or matches(pattern, subject):
                return reader
        return None

    def check(self, subject: bytes, payload: bytes) -> None:
        """Check that a payload fits the schema of its subject, if there is one. Raises: Misfit."""
        reader = self.reader(subject)
        if reader is not None:
            reader.read(payload)


def _named_reader(one: SubjectSchema) -> PayloadReader:
    try:
        return payload_reader(one.schema)
    except SchemaError as error:
        raise SchemaError(f"{SCHEMA}{one.filter and '@'}{one.filter}: {error}") from error
