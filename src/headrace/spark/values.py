"""Payloads as column `data`: options `valueFormat`, `valueSchema` and `valueMode`, and the conversion.

Bytes as they are, text, or JSON with a schema. A payload that is not of the format is never lost in mode
permissive: `data` is null, and column `_corrupt_record` has the bytes. No socket and no Spark session here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from headrace.spark.errors import OptionError, ValueFormatError
from headrace.spark.option_entry import Option
from headrace.spark.schema import CORRUPT, arrow_schema, columns_of
from headrace.spark.value_json import BAD_JSON, json_reader
from headrace.spark.value_schema import read_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.spark.typed_payloads import StreamPayloads

FORMATS: Final = ("binary", "string", "json", "schema")
_CONVERTED: Final = ("string", "json")
"""The formats that make something else of a payload."""

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
        "With `json`: the fields, as `id bigint, at timestamp, tags array<string>` or Spark's JSON",
        elsewhere=("schema", "jsonSchema", "value.schema"),
    ),
    Option(
        "valueMode",
        "word",
        "permissive",
        "A payload that is not of the format: null, and its bytes in column `_corrupt_record` "
        "(`permissive`), an error (`failfast`), no row (`dropmalformed`)",
        elsewhere=("mode",),
    ),
)
"""The options that make up a `ValueFormat`."""


@dataclass(frozen=True)
class ValueFormat:
    """The format of payloads in column `data`, and the treatment of one that is not of the format."""

    name: str = "binary"
    type: DataType = BinaryType()  # noqa: RUF009  # a Spark type is a constant
    mode: str = "permissive"
    payloads: StreamPayloads | None = None
    """The schema of the stream, where its fields are columns."""

    def columns(self, *, headers: bool = True) -> StructType:
        """The columns of a source whose payloads are of this format."""
        corrupt = self.name in _CONVERTED and self.mode == "permissive"
        columns = columns_of(self.type, headers=headers, corrupt=corrupt)
        return columns if self.payloads is None else StructType([*columns, *self.payloads.columns()])


class Decoder:
    """Turns record batches with binary payloads into those of the wanted columns."""

    def __init__(self, value_format: ValueFormat, columns: StructType) -> None:
        self._format = value_format
        self._wanted = arrow_schema(columns)
        self._kind = arrow_schema(StructType([StructField("data", value_format.type)])).field(0).type
        made = {"data", CORRUPT.name}
        self._works = value_format.name in _CONVERTED and not made.isdisjoint(columns.names)
        self.raw_columns = columns
        """The columns to make, with payloads as bytes."""
        if self._works:
            payload = StructField("data", BinaryType())
            raw = [payload if column.name == "data" else column for column in columns]
            raw = [column for column in raw if column.name != CORRUPT.name]
            self.raw_columns = StructType(raw if payload in raw else [*raw, payload])

    def decode(self, raw: pa.RecordBatch, sequences: Sequence[Any], source: str) -> pa.RecordBatch:
        """The batch as wanted; `sequences` and `source` name a message in an error.

        Raises: ValueFormatError for a payload not of the format, in mode failfast.
        """
        if not self._works:
            return raw
        payloads = raw.column("data")
        values, bad = self._values(payloads)
        if bad and self._format.mode == "failfast":
            row = bad[0]
            raise ValueFormatError(
                f"the payload of sequence {sequences[row]} of {source} is not {self._what()}: "
                f"{payloads[row].as_py()[:80]!r}. Set option valueMode to permissive (null, and the payload "
                f"in column {CORRUPT.name}) or dropmalformed"
            )
        columns = dict(zip(raw.schema.names, raw.columns, strict=True))
        columns |= {"data": values, CORRUPT.name: _only(payloads, bad)}
        batch = pa.RecordBatch.from_arrays(
            [columns[name] for name in self._wanted.names], schema=self._wanted
        )
        if bad and self._format.mode == "dropmalformed":
            dropped = set(bad)
            batch = batch.filter(pa.array([row not in dropped for row in range(len(values))]))
        return batch

    def _what(self) -> str:
        if self._format.name == "string":
            return "UTF-8 (option valueFormat string)"
        return f"JSON of schema {self._format.type.simpleString()} (option valueFormat json)"

    def _values(self, payloads: pa.Array) -> tuple[pa.Array, list[int]]:
        """The values, null where a payload is not of the format, and those rows."""
        kind = self._kind
        if self._format.name == "string":
            try:
                return payloads.cast(kind), []
            except pa.ArrowInvalid:
                read: Callable[[bytes], Any] = bytes.decode
        else:
            assert isinstance(self._format.type, StructType)
            read = json_reader(self._format.type)
        values: list[Any] = []
        bad: list[int] = []
        for row, payload in enumerate(payloads.to_pylist()):
            try:
                values.append(read(payload))
            except BAD_JSON:
                values.append(None)
                bad.append(row)
        return pa.array(values, kind), bad


def _only(payloads: pa.Array, rows: Sequence[int]) -> pa.Array:
    """The payloads of these rows, null in all others."""
    if not rows:
        return pa.nulls(len(payloads), pa.binary())
    chosen: list[bytes | None] = [None] * len(payloads)
    for row in rows:
        chosen[row] = payloads[row].as_py()
    return pa.array(chosen, pa.binary())


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
