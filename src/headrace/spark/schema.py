"""The columns of `format("nats")`, the same for every kind of selection, and batches made of them.

A job does not change when its source does. For stored channels `stream` is the channel, `sequence` and
`timestamp` are those under which the message is stored. For core subjects `stream` is null, `sequence` counts
the messages captured by this query from 1 and `timestamp` is when this query received the message (core
messages carry no time of their own). Options `includeHeaders` and `valueFormat` leave out `headers` and give
`data` another type; what a payload then is stands in `values`, as does when there is `_corrupt_record`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.schemas.arrow import CORRUPT as CORRUPT_NAME
from headrace.spark.errors import OptionError
from headrace.tables.columns import bytes_array, header_array, text_array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.client.codec import MessageBatch
    from headrace.protocol.columns import Columns

COLUMNS: Final = StructType(
    [
        StructField("stream", StringType()),
        StructField("subject", StringType()),
        StructField("sequence", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("reply", StringType()),
        StructField("headers", MapType(StringType(), ArrayType(StringType()))),
        StructField("data", BinaryType()),
    ]
)

CORRUPT: Final = StructField(CORRUPT_NAME, BinaryType())
"""The payload of a message where it is not of option `valueFormat`, in mode permissive; else null."""


def arrow_schema(columns: StructType = COLUMNS) -> pa.Schema:
    """Exactly the Arrow schema Spark expects of record batches with these columns."""
    return to_arrow_schema(columns, timezone="UTC")


def columns_of(value_type: DataType, *, headers: bool = True, corrupt: bool = False) -> StructType:
    """The columns where `data` has this type; `corrupt`: and `CORRUPT` behind them."""
    columns = [
        StructField("data", value_type) if column.name == "data" else column
        for column in COLUMNS
        if headers or column.name != "headers"
    ]
    return StructType([*columns, CORRUPT] if corrupt else columns)


def check_columns(wanted: StructType, offered: StructType = COLUMNS) -> StructType:
    """The user's own schema, if it is some of the columns in any order. Raises: OptionError."""
    known = {field.name: field.dataType for field in offered}
    for column in wanted:
        if column.name not in known:
            raise OptionError(f"schema: column {column.name!r} is not one of {', '.join(known)}")
        if column.dataType != known[column.name]:
            raise OptionError(
                f"schema: column {column.name} has type {known[column.name].simpleString()}, not "
                f"{column.dataType.simpleString()}; cast it in the query instead"
            )
    return wanted


def to_record_batch(
    batch: MessageBatch, first_sequence: int, stamps_us: Sequence[int], schema: pa.Schema
) -> pa.RecordBatch:
    """The messages as one record batch of `schema` (that of `COLUMNS`), sequences counting from the first.

    Units: microseconds since 1970, UTC. Text that is not UTF-8 is shown with backslash escapes.
    """
    rows = len(batch)
    columns = [
        pa.nulls(rows, pa.string()),
        _text_column(batch.subjects()),
        pa.array(np.arange(first_sequence, first_sequence + rows, dtype=np.int64)),
        pa.array(stamps_us, pa.int64()).cast(schema.field("timestamp").type),
        _text_column(batch.replies()),
        header_array(batch.header_blocks() if batch.has_headers else (), rows, schema.field("headers").type),
        pa.array(batch.payloads, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class StoredColumns(Protocol):
    """Stored messages as the client gives them. Times are ns since 1970 UTC, headers blocks of the wire."""

    subjects: list[bytes]
    sequences: list[int]
    timestamps: list[int]
    headers: list[bytes | None]
    payloads: list[bytes]


def columns_record_batch(batch: Columns, schema: pa.Schema) -> pa.RecordBatch:
    """Return columns as a record batch with the schema of `arrow_schema`; copies times and headers only."""
    return pa.RecordBatch.from_arrays([_column(batch, field) for field in schema], schema=schema)


def stored_record_batch(
    stream: str,
    batch: StoredColumns,
    columns: StructType = COLUMNS,
    replies: Sequence[bytes | None] | None = None,
) -> pa.RecordBatch:
    """Stored messages as one record batch with the wanted columns only, in their order.

    `replies` None: no message has one. Spark keeps microseconds: nanoseconds are cut, never rounded up.
    """
    schema = arrow_schema(columns)
    rows = len(batch.payloads)
    make: dict[str, Callable[[], pa.Array]] = {
        "stream": lambda: pa.repeat(pa.scalar(stream, pa.string()), rows),
        "subject": lambda: _text_column(batch.subjects),
        "sequence": lambda: pa.array(batch.sequences, pa.int64()),
        "timestamp": lambda: _stamp_column(batch.timestamps, schema.field("timestamp").type),
        "reply": lambda: (
            pa.nulls(rows, pa.string()) if replies is None else _text_column([one or None for one in replies])
        ),
        "headers": lambda: header_array(batch.headers, rows, schema.field("headers").type),
        "data": lambda: pa.array(batch.payloads, pa.binary()),
    }
    return pa.RecordBatch.from_arrays([make[name]() for name in schema.names], schema=schema)


def _column(batch: Columns, field: pa.Field) -> pa.Array:
    """One column of `COLUMNS`."""
    rows = len(batch)
    if field.name in ("sequence", "timestamp"):
        numbers = batch.sequences if field.name == "sequence" else batch.times
        found = pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(numbers)])
        if field.name == "sequence":
            return found
        return found.cast(pa.timestamp("ns", "UTC")).cast(field.type, safe=False)
    if field.name == "headers":
        return header_array(batch.headers.values() if batch.headers.nulls < rows else (), rows, field.type)
    named = {
        "stream": batch.streams, "subject": batch.subjects, "reply": batch.replies, "data": batch.payloads
    }  # fmt: skip
    column = named[field.name]
    if column.nulls == rows:
        return pa.nulls(rows, field.type)
    # Of text that is ASCII no row has to be looked at.
    is_plain = field.name != "data" and bytes(column.data).isascii()
    found = bytes_array(column, rows, pa.string() if is_plain else pa.binary())
    return found if is_plain or field.name == "data" else text_array(found)


def _stamp_column(stamps_ns: Sequence[int], kind: pa.DataType) -> pa.Array:
    return pa.array(np.asarray(stamps_ns, dtype=np.int64) // 1000).cast(kind)


def _text_column(values: Sequence[bytes | None]) -> pa.Array:
    return text_array(pa.array(values, pa.binary()))
