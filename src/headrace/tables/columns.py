"""The columns of a table: those of `format("nats")`, and the exact time; Arrow batches made of messages.

`timestamp` is cut to microseconds, which every reader understands; `timestamp_ns` is the time as it is stored
(ns since 1970 UTC). Text that is not UTF-8 is shown with backslash escapes. No file and no PySpark here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headrace.client.headers import parse_headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.tables.source import SourceBatch

SCHEMA: Final = pa.schema(
    [
        pa.field("stream", pa.string()),
        pa.field("subject", pa.string()),
        pa.field("sequence", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("reply", pa.string()),
        pa.field("headers", pa.map_(pa.string(), pa.list_(pa.field("element", pa.string())))),
        pa.field("data", pa.binary()),
        pa.field("timestamp_ns", pa.int64()),
    ]
)


def to_arrow(stream: str, batch: SourceBatch) -> pa.RecordBatch:
    """The messages as rows, in the order they came."""
    times = np.asarray(batch.timestamps, dtype=np.int64)
    name = stream.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    columns = [
        pa.array([name], pa.string()).take(pa.array(np.zeros(len(times), dtype=np.int8))),
        _text_column(batch.subjects),
        pa.array(np.asarray(batch.sequences, dtype=np.int64)),
        pa.array(times // 1000).cast(SCHEMA.field("timestamp").type),
        _text_column([reply or None for reply in batch.replies]),
        _header_column(batch.headers),
        pa.array(batch.payloads, pa.binary()),
        pa.array(times),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _header_column(blocks: Sequence[bytes | None]) -> pa.Array:
    kind = SCHEMA.field("headers").type
    if not any(blocks):
        return pa.nulls(len(blocks), kind)
    return pa.array([list(parse_headers(block).items()) if block else None for block in blocks], kind)


def _text_column(values: Sequence[bytes | None]) -> pa.Array:
    try:
        return pa.array(values, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if value is None else value.decode("utf-8", "backslashreplace") for value in values]
        return pa.array(texts, pa.string())
