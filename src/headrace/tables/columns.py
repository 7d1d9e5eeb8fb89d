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


def to_arrow(stream: str, found: Columns | ReplayBatch) -> pa.RecordBatch:
    """The messages as rows, in the order they came. What came as columns is not copied, but for headers."""
    times = np.asarray(found.times if isinstance(found, Columns) else found.timestamps, dtype=np.int64)
    name = stream.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if isinstance(found, Columns):
        subjects, replies = _text(_bytes_of(found, found.subjects)), _text(_bytes_of(found, found.replies))
        blocks = found.headers.values() if found.headers.nulls < len(found) else ()
        payloads = _bytes_of(found, found.payloads)
    else:
        subjects = _text(pa.array(found.subjects, pa.binary()))
        replies = _text(pa.array([reply or None for reply in found.replies], pa.binary()))
        blocks, payloads = found.headers, pa.array(found.payloads, pa.binary())
    columns = [
        pa.array([name], pa.string()).take(pa.array(np.zeros(len(times), dtype=np.int8))),
        subjects,
        pa.array(np.asarray(found.sequences, dtype=np.int64)),
        pa.array(times // 1000).cast(SCHEMA.field("timestamp").type),
        replies,
        _headers(blocks, len(times)),
        payloads,
        pa.array(times),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _headers(blocks: Sequence[bytes | None], rows: int) -> pa.Array:
    """`blocks` are of the wire; none: no message has any."""
    kind = SCHEMA.field("headers").type
    if not any(blocks):
        return pa.nulls(rows, kind)
    return pa.array([list(parse_headers(block).items()) if block else None for block in blocks], kind)


def _bytes_of(found: Columns, column: BytesColumn) -> pa.Array:
    parts = [column.validity, column.offsets, column.data]
    buffers = [None if part is None else pa.py_buffer(part) for part in parts]
    return pa.Array.from_buffers(pa.binary(), len(found), buffers, column.nulls)


def _text(raw: pa.Array) -> pa.Array:
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        values = raw.to_pylist()
        texts = [None if value is None else value.decode("utf-8", "backslashreplace") for value in values]
        return pa.array(texts, pa.string())
