"""Rows that Spark hands a sink as Arrow batches, checked and turned into columns of messages with their ids.

Pure: no server, no session. A whole batch is checked before any of it is given on, so that a row that cannot
be a message stops its batch before anything of it is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DateType,
    DayTimeIntervalType,
    IntegralType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headrace.client.headers import encode_headers
from headrace.client.pipeline import MessageColumns
from headrace.spark.errors import OptionError, RowError, SinkError
from headrace.spark.schema import COLUMNS, CORRUPT
from headrace.spark.sink_options import Guarantee, MalformedRows, SinkTarget
from headrace.spark.typed_payloads import TypedEncoder
from headrace.subjects.grammar import is_valid_literal, is_valid_subject

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql.types import DataType

    from headrace.spark.sink_options import SinkOptions
    from headrace.spark.typed_payloads import StreamPayloads

_FIRST_LINE: Final = len(b"NATS/1.0\r\n")
_ID_BLOCK: Final = len(b"NATS/1.0\r\nNats-Msg-Id: \r\n\r\n")
_OURS: Final = ("nats-msg-id", "nats-expected-", "nats-batch-")
"""Headers that tell JetStream what the sink itself tells it."""

_KEY_TYPES: Final = (
    NumericType,
    StringType,
    BinaryType,
    BooleanType,
    DateType,
    TimestampType,
    TimestampNTZType,
    DayTimeIntervalType,
)
"""The types of columns that can be keys: equal values have equal bytes."""

_KEY_BYTES: Final = 16
_SUBJECTS_KEPT: Final = 1 << 16  # checked subjects remembered; then they are checked anew


@dataclass(frozen=True, slots=True)
class PublishLimits:
    """The limits of the server.

    `max_bytes` is header plus payload; `overhead` what the wire adds for a subject; `refusal` why a subject
    does not belong to the target, if it does not.
    """

    max_bytes: int
    overhead: Callable[[bytes], int] = lambda _subject: 0
    refusal: Callable[[bytes], str | None] = lambda _subject: None


@dataclass(frozen=True, slots=True)
class RowsIdentity:
    """The identity of a set of rows. `write` is the query's or the write's name."""

    write: str
    batch: int
    partition: int

    @property
    def batch_prefix(self) -> bytes:
        return f"{self.write}/{self.batch}/".encode()

    @property
    def task_prefix(self) -> bytes:
        return f"{self.write}/{self.batch}/{self.partition}/".encode()


def check_sink_columns(schema: StructType, options: SinkOptions) -> None:
    """Check that the frame can be written. Raises: OptionError naming the column."""
    kinds = {field.name: field.dataType for field in schema}
    used = {key_path(name, schema.names)[0] for name in options.key_columns}
    typed = {} if options.payloads is None else _typed_kinds(options.payloads)
    if "data" not in kinds and not typed.keys() & kinds.keys():
        raise OptionError(
            "column data is missing: it holds the payload, binary or string; only fields of one schema that "
            "the stream says for all that is written (docs/schemas.md) can take its place"
        )
    own = COLUMNS.names if typed else [*COLUMNS.names, CORRUPT.name]  # what did not fit has no fields
    fixed = options.name if options.target is SinkTarget.CHANNEL else options.subject
    if fixed is None and "subject" not in kinds:
        raise OptionError("column subject is missing, and option subject is not set")
    for name, kind in kinds.items():
        _check_type(name, kind)
        if name in typed and kind.simpleString() != typed[name].simpleString():
            raise OptionError(
                f"column {name} has type {kind.simpleString()}, and the stream's schema says "
                f"{typed[name].simpleString()}; cast it in the query"
            )
        known = name in (*own, *typed, options.id_column) or name in used
        if not known:
            raise OptionError(
                f"column {name!r} is not one of subject, data, headers, reply, and of no option: leave it out"
            )
    if options.id_column is not None and options.id_column not in kinds:
        raise OptionError(f"option idColumn: there is no column {options.id_column!r}")
    if options.id_column is not None and not isinstance(
        kinds[options.id_column], (StringType, BinaryType, IntegralType)
    ):
        raise OptionError(
            f"option idColumn: column {options.id_column} has type "
            f"{kinds[options.id_column].simpleString()}, not string, binary or a whole number"
        )
    check_keys(schema, options)


def check_keys(schema: StructType, options: SinkOptions) -> None:
    """Check that the columns of option `keyColumns` can tell rows apart. Raises: OptionError naming one."""
    for name in options.key_columns:
        _check_key(name, key_path(name, schema.names), schema)


def key_path(name: str, columns: Sequence[str]) -> tuple[str, ...]:
    """A key of option `keyColumns` as a column and the fields in it: `window.start` is a field of `window`,
    unless there is a column of that very name.
    """
    return (name,) if name in columns else tuple(name.split("."))


def _check_key(name: str, path: Sequence[str], schema: StructType) -> None:
    """Check that a key is there and that its values can be told apart. Raises: OptionError."""
    kind: DataType = schema
    for depth, field in enumerate(path):
        if not isinstance(kind, StructType) or field not in kind.names:
            where = f" in {'.'.join(path[:depth])}" if depth else ""
            raise OptionError(f"option keyColumns: there is no column {field!r}{where} (for key {name!r})")
        kind = kind[field].dataType
    if isinstance(kind, _KEY_TYPES):
        return
    text = f"option keyColumns: column {name} cannot be a key, since it has type {kind.simpleString()}"
    if isinstance(kind, StructType):
        fields = ", ".join(f"{name}.{field}" for field in kind.names)
        raise OptionError(f"{text}; name its fields instead: {fields}")
    raise OptionError(
        f"{text}; select a column that says the same in a simple type, such as cast({name} as string) or "
        f"to_json({name}), and name that"
    )


def _typed_kinds(payloads: StreamPayloads) -> dict[str, DataType]:
    """The types of the columns that are fields of the payload."""
    return {field.name: field.dataType for field in payloads.columns() if field != CORRUPT}


def _check_type(name: str, kind: DataType) -> None:
    text = ArrayType(StringType())
    allowed: dict[str, tuple[DataType, ...]] = {
        "subject": (StringType(),),
        "reply": (StringType(),),
        "data": (BinaryType(), StringType()),
        "headers": (MapType(StringType(), text), MapType(StringType(), StringType())),
    }
    found = kind.simpleString()
    if name in allowed and found not in [one.simpleString() for one in allowed[name]]:
        wanted = " or ".join(one.simpleString() for one in allowed[name])
        raise OptionError(f"column {name} has type {found}, not {wanted}")


class RowReader:
    """Arrow batches of one task in their order, as columns of messages."""

    def __init__(self, options: SinkOptions, identity: RowsIdentity, limits: PublishLimits) -> None:
        self._options = options
        self._limits = limits
        self._identity = identity
        self._fixed = (options.name if options.target is SinkTarget.CHANNEL else options.subject) or ""
        self._subjects: dict[bytes, str | None] = {}
        self._keys: set[bytes] = set()
        self._row = 0
        self._typed = None if options.payloads is None else TypedEncoder(options.payloads)
        self.dropped = 0

    def read(self, batch: pa.RecordBatch) -> MessageColumns:
        """The rows as messages. Raises: RowError unless `mode` drops them; SinkError for a double key."""
        bad: dict[int, str] = {}
        payloads = self._payloads(batch, bad)
        subjects = self._read_subjects(batch, bad)
        replies = self._read_replies(batch, bad)
        headers = self._read_headers(batch, bad)
        ids = self._read_ids(batch, bad)
        self._check_subjects(subjects, bad)
        self._check_sizes(MessageColumns(subjects, payloads, headers, replies, ids), bad)
        columns = self._good(MessageColumns(subjects, payloads, headers, replies, ids), bad)
        if self._options.key_columns and columns.ids is not None:
            self._check_keys(columns.ids)
        self._row += batch.num_rows
        return columns

    def _good(self, columns: MessageColumns, bad: dict[int, str]) -> MessageColumns:
        if not bad:
            return columns
        if self._options.mode is MalformedRows.FAIL_FAST:
            row = min(bad)
            raise RowError(
                f"row {self._row + row} of partition {self._identity.partition}: {bad[row]} "
                "(option mode dropmalformed leaves such rows out)"
            )
        self.dropped += len(bad)
        return chosen(columns, [row for row in range(len(columns)) if row not in bad])

    def _payloads(self, batch: pa.RecordBatch, bad: dict[int, str]) -> list[bytes]:
        if self._typed is not None:
            payloads, misfits = self._typed.encode(batch)
            for row, reason in misfits.items():
                bad.setdefault(row, f"the row does not fit the stream's schema: {reason}")
            return payloads
        column = batch.column("data")
        if column.null_count:
            _note(bad, column, "column data is null")
            column = pc.fill_null(column, b"" if _is_binary(column) else "")
        return _bytes(column)

    def _read_subjects(self, batch: pa.RecordBatch, bad: dict[int, str]) -> list[bytes]:
        if self._fixed:
            return [self._fixed.encode()] * batch.num_rows
        column = batch.column("subject")
        if column.null_count:
            _note(bad, column, "column subject is null")
        words = column.dictionary_encode()
        found = [text.encode() for text in words.dictionary.to_pylist()]
        return [b"" if index is None else found[index] for index in words.indices.to_pylist()]

    def _check_subjects(self, subjects: list[bytes], bad: dict[int, str]) -> None:
        known = self._subjects
        if len(known) > _SUBJECTS_KEPT:
            known.clear()
        wrong = {}
        for subject in set(subjects):
            if subject not in known:
                known[subject] = self._subject_problem(subject)
            if known[subject] is not None:
                wrong[subject] = known[subject]
        if wrong:
            for row, subject in enumerate(subjects):
                problem = wrong.get(subject)
                if problem is not None:
                    bad.setdefault(row, problem)

    def _subject_problem(self, subject: bytes) -> str | None:
        text = subject.decode(errors="replace")
        if not is_valid_subject(subject) or not is_valid_literal(subject) or b"\0" in subject:
            return f"column subject: {text!r} is empty somewhere or has blanks or wildcards"
        refusal = self._limits.refusal(subject)
        return None if refusal is None else f"column subject: {refusal}"

    def _read_replies(self, batch: pa.RecordBatch, bad: dict[int, str]) -> list[bytes | None] | None:
        if "reply" not in batch.schema.names:
            return None
        column = batch.column("reply")
        if column.null_count == batch.num_rows:
            return None
        replies = [None if text is None else text.encode() for text in column.to_pylist()]
        for row, reply in enumerate(replies):
            if reply is None:
                continue
            if self._options.target is SinkTarget.STREAM:
                bad.setdefault(row, "column reply: a stream takes none, it acknowledges to its publisher")
            elif not is_valid_subject(reply) or not is_valid_literal(reply):
                bad.setdefault(row, f"column reply: {reply.decode()!r} is no subject to answer to")
        return replies

    def _read_headers(self, batch: pa.RecordBatch, bad: dict[int, str]) -> list[bytes] | None:
        if "headers" not in batch.schema.names:
            return None
        column = batch.column("headers")
        if column.null_count == batch.num_rows:
            return None
        lines = [b""] * batch.num_rows
        for row, entries in enumerate(column.to_pylist()):
            if not entries:
                continue
            try:
                lines[row] = self._lines(entries)
            except ValueError as error:
                bad.setdefault(row, f"column headers: {error}")
        return lines

    def _lines(self, entries: Sequence[tuple[str, Any]]) -> bytes:
        if self._options.target is SinkTarget.CHANNEL:
            raise ValueError("messages of NATS Streaming carry no headers")
        for name, values in entries:
            if values is None or (isinstance(values, list) and None in values):
                raise ValueError(f"header {name!r} has a null")
            if self._options.guarantee is Guarantee.EXACTLY_ONCE and name.lower().startswith(_OURS):
                raise ValueError(
                    f"header {name!r} is the sink's own; take it out with map_filter or rename it"
                )
        return encode_headers(dict(entries))[_FIRST_LINE:-2]

    def _read_ids(self, batch: pa.RecordBatch, bad: dict[int, str]) -> list[bytes] | None:
        options = self._options
        if options.positional_ids:
            prefix = self._identity.task_prefix
            return [b"%b%d" % (prefix, row) for row in range(self._row, self._row + batch.num_rows)]
        if options.id_column is not None:
            return self._column_ids(options.id_column, batch.column(options.id_column), bad)
        if options.key_columns:
            paths = [key_path(name, batch.schema.names) for name in options.key_columns]
            return self._key_ids([_at(batch, path) for path in paths])
        return None

    def _column_ids(self, name: str, column: pa.Array, bad: dict[int, str]) -> list[bytes]:
        if column.null_count:
            _note(bad, column, f"column {name} is null, and it is the id (option idColumn)")
        ids = [b"" if one is None else one for one in _texts(column)]
        for row, one in enumerate(ids):
            if not one or one != one.strip() or b"\r" in one or b"\n" in one or b"\0" in one:
                bad.setdefault(row, f"column {name}: {one!r} is no id: empty, or with blanks or line ends")
        return ids

    def _key_ids(self, columns: Sequence[pa.Array]) -> list[bytes]:
        prefix = self._identity.batch_prefix
        ids = []
        for values in zip(*map(_texts, columns), strict=True):
            digest = blake2b(digest_size=_KEY_BYTES)
            for value in values:
                digest.update(b"-" if value is None else b"%d:%b" % (len(value), value))
            ids.append(prefix + digest.hexdigest().encode())
        return ids

    def _check_keys(self, ids: Sequence[bytes]) -> None:
        before = len(self._keys)
        self._keys.update(ids)
        if len(self._keys) - before != len(ids):
            raise SinkError(
                f"option keyColumns: two rows of this micro-batch have the same "
                f"{', '.join(self._options.key_columns)}, and the second would be taken for the first again"
            )

    def _check_sizes(self, columns: MessageColumns, bad: dict[int, str]) -> None:
        headers, ids, most = columns.headers, columns.ids, self._limits.max_bytes
        overhead = {subject: self._limits.overhead(subject) for subject in set(columns.subjects)}
        worst = max(map(len, columns.payloads), default=0) + max(overhead.values(), default=0)
        if headers is not None:
            worst += max(map(len, headers), default=0)
        if worst + _ID_BLOCK + (max(map(len, ids), default=0) if ids is not None else 0) <= most:
            return
        for row, payload in enumerate(columns.payloads):
            lines = len(headers[row]) if headers is not None else 0
            size = len(payload) + overhead[columns.subjects[row]] + lines
            size += _ID_BLOCK + len(ids[row]) if ids is not None else (_FIRST_LINE + 2 if lines else 0)
            if size > most:
                bad.setdefault(
                    row, f"columns data and headers: a message of {size} bytes, the target takes {most}"
                )


def chosen(columns: MessageColumns, rows: Sequence[int]) -> MessageColumns:
    """Return some of the rows."""
    return MessageColumns(
        [columns.subjects[row] for row in rows],
        [columns.payloads[row] for row in rows],
        None if columns.headers is None else [columns.headers[row] for row in rows],
        None if columns.replies is None else [columns.replies[row] for row in rows],
        None if columns.ids is None else [columns.ids[row] for row in rows],
    )


def _at(batch: pa.RecordBatch, path: Sequence[str]) -> pa.Array:
    """A column, or a field of structures in it: null where its structure is null."""
    column = batch.column(path[0])
    return pc.struct_field(column, list(path[1:])) if path[1:] else column


def _note(bad: dict[int, str], column: pa.Array, what: str) -> None:
    for row in pc.indices_nonzero(column.is_null()).to_pylist():
        bad.setdefault(row, what)


def _is_binary(column: pa.Array) -> bool:
    return bool(pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type))


def _bytes(column: pa.Array) -> list[Any]:
    """A text or binary column."""
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    values: list[Any] = column.cast(pa.large_binary() if large else pa.binary()).to_pylist()
    return values


def _texts(column: pa.Array) -> list[bytes | None]:
    """Any atomic column, as bytes that are the same for equal values."""
    if _is_binary(column) or pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return _bytes(column)
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int64() if column.type.bit_width == 64 else pa.int32())
    return _bytes(column.cast(pa.string()))
