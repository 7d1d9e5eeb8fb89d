"""The columns of a table: those of `format("nats")`, and the exact time; Arrow batches made of messages.

`timestamp` is cut to microseconds, which every reader understands; `timestamp_ns` is the time as it is stored
(ns since 1970 UTC). Text that is not UTF-8 is shown with backslash escapes. No file and no PySpark here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headrace.client.headers import parse_headers
from headrace.protocol.columns import Columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.client.jetstream import StreamBatch
    from headrace.client.replay import ReplayBatch
    from headrace.protocol.columns import BytesColumn

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


def to_arrow(stream: str, found: Columns | ReplayBatch | StreamBatch) -> pa.RecordBatch:
    """The messages as rows, in the order they came. What came as columns is not copied, but for headers."""
    times = np.asarray(found.times if isinstance(found, Columns) else found.timestamps, dtype=np.int64)
    name = stream.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if isinstance(found, Columns):
        subjects = text_array(bytes_array(found.subjects, len(found)))
        replies = text_array(bytes_array(found.replies, len(found)))
        blocks = found.headers.values() if found.headers.nulls < len(found) else ()
        payloads = bytes_array(found.payloads, len(found))
    else:
        subjects = text_array(pa.array(found.subjects, pa.binary()))
        replies = text_array(pa.array([reply or None for reply in found.replies], pa.binary()))
        blocks, payloads = found.headers, pa.array(found.payloads, pa.binary())
    columns = [
        pa.array([name], pa.string()).take(pa.array(np.zeros(len(times), dtype=np.int8))),
        subjects,
        pa.array(np.asarray(found.sequences, dtype=np.int64)),
        pa.array(times // 1000).cast(SCHEMA.field("timestamp").type),
        replies,
        header_array(blocks, len(times), SCHEMA.field("headers").type),
        payloads,
        pa.array(times),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def header_array(blocks: Sequence[bytes | None], rows: int, kind: pa.DataType) -> pa.Array:
    """Return headers as maps. `blocks` are those of the wire; empty: no message has any."""
    if not any(blocks):
        return pa.nulls(rows, kind)
    return pa.array([list(parse_headers(block).items()) if block else None for block in blocks], kind)


def bytes_array(column: BytesColumn, rows: int, kind: pa.DataType | None = None) -> pa.Array:
    """Return a column as an array, without a copy. `kind`: of the array, else binary."""
    parts = [column.validity, column.offsets, column.data]
    buffers = [None if part is None else pa.py_buffer(part) for part in parts]
    return pa.Array.from_buffers(kind or pa.binary(), rows, buffers, column.nulls)


def text_array(raw: pa.Array) -> pa.Array:
    """Return bytes as text; those that are not UTF-8 with backslash escapes."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        values = raw.to_pylist()
        texts = [None if value is None else value.decode("utf-8", "backslashreplace") for value in values]
        return pa.array(texts, pa.string())
