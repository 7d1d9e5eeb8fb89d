"""The columns of a table, by its kind, and Arrow batches made of messages (`layout_of`).

Messages have those of `format("nats")`, and the exact time. Rows of a key-value bucket have the key, the
revision and, in a history, the operation before them; the value is in `data`. `timestamp` is cut to
microseconds, which every reader understands; `timestamp_ns` is the time as it is stored (ns since 1970 UTC).
Text that is not UTF-8 is shown with backslash escapes. No file and no PySpark here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headrace.client.headers import parse_headers
from headrace.protocol.columns import Columns
from headrace.tables.manifest import TableKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.client.jetstream import StreamBatch
    from headrace.client.replay import ReplayBatch
    from headrace.protocol.columns import BytesColumn
    from headrace.tables.manifest import TableManifest

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


_KEY: Final = pa.field("key", pa.string())
_OPERATION: Final = pa.field("operation", pa.string())
_REVISION: Final = pa.field("revision", pa.int64())
_BUCKET: Final = r"^\$KV\.[^.]*\."
"""The part of a message's subject that stands before its key."""
PUT, DELETE, PURGE = "PUT", "DEL", "PURGE"
_OPERATIONS: Final = {"DEL": DELETE, "PURGE": PURGE}
_MARKERS: Final = {"MaxAge": PURGE, "Purge": PURGE, "Remove": DELETE}
"""The operations that a server's own markers stand for, by their reason."""


class TableLayout(Struct, frozen=True):
    """The columns of a table, and messages as its rows."""

    schema: pa.Schema = SCHEMA

    def rows(self, stream: str, found: Columns | ReplayBatch | StreamBatch) -> pa.RecordBatch:
        """The messages as rows, in the order they came; a layout may leave some out."""
        return to_arrow(stream, found)


class HistoryLayout(TableLayout, frozen=True):
    """The messages of a key-value bucket as operations on its keys."""

    schema: pa.Schema = pa.schema([_KEY, _OPERATION, _REVISION, *SCHEMA])

    def rows(self, stream: str, found: Columns | ReplayBatch | StreamBatch) -> pa.RecordBatch:
        rows = to_arrow(stream, found)
        keys = pc.replace_substring_regex(rows.column("subject"), _BUCKET, "")
        columns = [keys, _operations(rows.column("headers")), rows.column("sequence"), *rows.columns]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


class LatestLayout(TableLayout, frozen=True):
    """The values of a key-value bucket. Which of them are the latest is not decided here (`latest`)."""

    schema: pa.Schema = pa.schema([_KEY, _REVISION, *SCHEMA])

    def rows(self, stream: str, found: Columns | ReplayBatch | StreamBatch) -> pa.RecordBatch:
        return self.values_of(HistoryLayout().rows(stream, found))

    def values_of(self, history: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a history that are values."""
        puts = history.filter(pc.equal(history.column("operation"), PUT))
        return puts.select(self.schema.names)


_LAYOUTS: Final = {
    TableKind.MESSAGES: TableLayout(),
    TableKind.HISTORY: HistoryLayout(),
    TableKind.LATEST: LatestLayout(),
}


def layout_of(table: TableManifest) -> TableLayout:
    """Return the columns of a table: the one place where they are decided."""
    return _LAYOUTS[table.kind]


def _operations(headers: pa.Array) -> pa.Array:
    if headers.null_count == len(headers):
        return pa.repeat(pa.scalar(PUT), len(headers))
    return pa.array(
        [PUT if one is None else _operation(dict(one)) for one in headers.to_pylist()], pa.string()
    )


def _operation(headers: dict[str, list[str]]) -> str:
    [operation, *_] = headers.get("KV-Operation", [""])
    [reason, *_] = headers.get("Nats-Marker-Reason", [""])
    return _OPERATIONS.get(operation) or _MARKERS.get(reason, PUT)


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
