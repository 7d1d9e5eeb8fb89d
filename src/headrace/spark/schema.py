"""The columns of `format("nats")`, the same for every kind of selection, and batches made of them.

A later source that reads streams fills the same columns, so a job does not change when its source
does. For core subjects `stream` is null, `sequence` counts the messages captured by this query from 1
and `timestamp` is when this query received the message (core messages carry no time of their own).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.client.headers import parse_headers
from headrace.spark.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.client.codec import MessageBatch

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


def arrow_schema(columns: StructType = COLUMNS) -> pa.Schema:
    """Exactly the Arrow schema Spark expects of record batches with these columns."""
    return to_arrow_schema(columns, timezone="UTC")


def check_columns(wanted: StructType) -> StructType:
    """The user's own schema, if it is some of our columns in any order. Raises: OptionError."""
    known = {field.name: field.dataType for field in COLUMNS}
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
    headers = schema.field("headers").type
    if batch.has_headers:
        blocks = [
            None if block is None else list(parse_headers(block).items()) for block in batch.header_blocks()
        ]
        header_column = pa.array(blocks, headers)
    else:
        header_column = pa.nulls(rows, headers)
    columns = [
        pa.nulls(rows, pa.string()),
        _text_column(batch.subjects()),
        pa.array(np.arange(first_sequence, first_sequence + rows, dtype=np.int64)),
        pa.array(stamps_us, pa.int64()).cast(schema.field("timestamp").type),
        _text_column(batch.replies()),
        header_column,
        pa.array(batch.payloads, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _text_column(values: Sequence[bytes | None]) -> pa.Array:
    try:
        return pa.array(values, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if value is None else value.decode("utf-8", "backslashreplace") for value in values]
        return pa.array(texts, pa.string())
