"""Typed columns of streams that say what their payloads are: which schema a read has, rows and payloads.

The columns are settled when a frame is made. Tasks look at the stream's metadata once more, so that a query
goes on when its stream gets a newer schema: such payloads are resolved to the columns that it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from headrace.schemas.arrow import arrow_type, column_values, described, table_columns
from headrace.schemas.errors import Misfit, SchemaError
from headrace.schemas.metadata import SCHEMA, read_schemas
from headrace.schemas.payloads import payload_reader, payload_writer
from headrace.spark.errors import OptionError, StoredStreamError, ValueFormatError
from headrace.spark.schema import COLUMNS, CORRUPT, arrow_schema
from headrace.subjects.grammar import is_subset, overlaps

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.schemas.metadata import SchemaText, SubjectSchema
    from headrace.schemas.payloads import PayloadReader

_EVERYTHING: Final = ">"
_WAY_OUT: Final = "option valueFormat binary reads payloads as they are"


@dataclass(frozen=True)
class StreamPayloads:
    """The schema of the payloads that are read. `filter`: of these subjects only; empty for all."""

    schema: SchemaText
    filter: str = ""

    def columns(self) -> StructType:
        """The columns beside those of every message. Raises: SchemaError."""
        kind = _reader(self.schema).type
        fields = [
            StructField(column.name, from_arrow_type(arrow_type(column.type), prefer_timestamp_ntz=True))
            for column in table_columns(kind, COLUMNS.names)
        ]
        return StructType([*fields, CORRUPT])


@lru_cache(maxsize=64)
def _reader(schema: SchemaText, newest: SchemaText | None = None) -> PayloadReader:
    """The reader of a schema's payloads, made once in a process."""
    return payload_reader(schema, newest)


def payloads_of(
    streams: Mapping[str, Mapping[str, str]], filters: Sequence[str], *, is_asked_for: bool
) -> StreamPayloads | None:
    """The schema of what is read: some subjects (none: all) of streams, whose metadata are given.

    None where there is no schema, or none that everything has, unless that is asked for.
    Raises: OptionError for a schema that cannot be used, or for none.
    """
    found: set[StreamPayloads | None] = set()
    for name, metadata in streams.items():
        try:
            schemas = read_schemas(metadata).schemas
            wanted = {one for one in schemas if _is_of(one, schemas, filters or (_EVERYTHING,))}
            found |= {StreamPayloads(one.schema, one.filter) for one in wanted} or {None}
            for one in found - {None}:
                assert one is not None
                one.columns()
        except SchemaError as error:
            raise OptionError(f"stream {name}: metadata {error}; {_WAY_OUT}") from error
    if len(found) == 1:
        [only] = found
        if only is not None or not is_asked_for:
            return only
    if not is_asked_for:
        return None
    what = ", ".join(streams) or "that is there"
    if found <= {None}:
        raise OptionError(f"option valueFormat schema: no stream {what} has metadata {SCHEMA}; {_WAY_OUT}")
    raise OptionError(
        f"option valueFormat schema: not everything that is read of {what} has the same schema; choose "
        f"streams, or subjects with option filterSubjects, or {_WAY_OUT}"
    )


def _is_of(one: SubjectSchema, schemas: Sequence[SubjectSchema], filters: Iterable[str]) -> bool:
    """True if a message that is read may have this one of a stream's schemas."""
    if one.filter:
        return any(overlaps(one.filter.encode(), wanted.encode()) for wanted in filters)
    others = [other.filter.encode() for other in schemas if other.filter]
    return any(not any(is_subset(wanted.encode(), other) for other in others) for wanted in filters)


class TypedDecoder:
    """Adds the typed columns to record batches, from their payloads.

    `metadata`: those of the stream now. `raw_columns`: the columns of the batches that it is given.
    """

    def __init__(
        self, payloads: StreamPayloads, mode: str, columns: StructType, metadata: Mapping[str, str]
    ) -> None:
        self._payloads = payloads
        self._mode = mode
        self._wanted = arrow_schema(columns)
        typed = table_columns(_reader(payloads.schema).type, COLUMNS.names)
        self._typed = [(one, self._wanted.field(one.name).type) for one in typed if one.name in columns.names]
        needed = {"data", *(["subject"] if payloads.filter else [])}
        self.raw_columns = StructType(
            [field for field in COLUMNS if field.name in needed or field.name in columns.names]
        )
        self._reader = _reader(payloads.schema, _newest(payloads, metadata))

    def decode(self, raw: pa.RecordBatch, sequences: Sequence[Any], source: str) -> pa.RecordBatch:
        """The batch as wanted; `sequences` and `source` name a message in an error.

        Raises: ValueFormatError for a payload that does not fit, in mode failfast.
        """
        payloads = raw.column("data").to_pylist()
        pattern = self._payloads.filter
        of = described(pattern, raw.column("subject"), payloads) if pattern else payloads
        values = column_values(self._reader, self._typed, of)
        if values.bad and self._mode == "failfast":
            row = values.bad[0]
            raise ValueFormatError(
                f"the payload of sequence {sequences[row]} of {source} does not fit the stream's schema: "
                f"{payloads[row][:80]!r}. Set option valueMode to permissive (column {CORRUPT.name}) or "
                "dropmalformed"
            )
        made = {**values.columns, CORRUPT.name: values.corrupt}
        arrays = [made[name] if name in made else raw.column(name) for name in self._wanted.names]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._wanted)
        if values.bad and self._mode == "dropmalformed":
            dropped = set(values.bad)
            batch = batch.filter(pa.array([row not in dropped for row in range(len(payloads))]))
        return batch


class TypedEncoder:
    """Makes payloads of rows that have the typed columns."""

    def __init__(self, payloads: StreamPayloads) -> None:
        self._writer = payload_writer(payloads.schema)
        self._columns = table_columns(self._writer.type, COLUMNS.names)

    def encode(self, batch: pa.RecordBatch) -> tuple[list[bytes], dict[int, str]]:
        """The payloads of rows, and why some rows have none. A column that is missing is null."""
        given = {
            one.field: batch.column(one.name).to_pylist() if one.name in batch.schema.names else None
            for one in self._columns
        }
        payloads, misfits = [], {}
        for row in range(batch.num_rows):
            values = {name: None if column is None else column[row] for name, column in given.items()}
            try:
                payloads.append(self._writer.write(values.get(None, values)))
            except Misfit as error:
                payloads.append(b"")
                misfits[row] = str(error)
        return payloads, misfits


def _newest(payloads: StreamPayloads, metadata: Mapping[str, str]) -> SchemaText | None:
    """The schema that the same subjects have now. Raises: StoredStreamError if it cannot be used."""
    try:
        for one in read_schemas(metadata).schemas:
            if one.filter == payloads.filter:
                _reader(payloads.schema, one.schema)
                return one.schema
    except SchemaError as error:
        raise StoredStreamError(f"the stream's schema was changed: {error}") from error
    return None
