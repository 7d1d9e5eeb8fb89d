"""Stored messages as columns: an Arrow IPC stream of one record batch, written and read without Arrow.

Any Arrow library reads it (`pyarrow.ipc.open_stream`, `polars.read_ipc_stream`); here it is made by compiled
code on servers that have none, and read back without copying. One message of a replay or one page of a log is
one stream: schema, batch, end. Version 1 of the schema, which the schema's own metadata say
(`headrace.columns`: `1`):

    stream     binary                    the channel or stream
    subject    binary
    sequence   int64
    timestamp  timestamp[ns, UTC]
    reply      binary, nullable
    headers    binary, nullable          the block of the wire, from NATS/1.0 to the empty line
    data       binary

Text is binary because a subject need not be UTF-8. What stands around the buffers depends on eight numbers
only: rows, nulls of reply and headers, and bytes of the five columns of bytes. So a reader takes these
numbers out of the bytes, makes the same head of them, and accepts nothing that is not equal to it, then looks
at every offset: what is accepted can be handed on without another look. A later version has another head.
The buffers are written by `engine.columns`. No socket, no clock, no pyarrow here.
Source: Apache Arrow IPC streaming format (Schema.fbs, Message.fbs); FlatBuffers internals.
"""

from __future__ import annotations

import struct
import sys
from array import array
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct

from headrace.engine.columns import ColumnsBuilder, offsets_are_valid
from headrace.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.engine.batches import Outgoing
    from headrace.protocol.replay import Damage

CONTENT_TYPE: Final = b"application/vnd.apache.arrow.stream"
BLOCK: Final = b"NATS/1.0\r\nContent-Type: %b\r\n\r\n" % CONTENT_TYPE
"""The headers of a message that carries columns."""
FRAME_BYTES: Final = 1 << 20
"""About the most bytes of one stream; one with a single message is as large as that."""
VERSION: Final = b"1"

# ---- the head -----------------------------------------------------------------------------------

_TABLE: Final = {"u8": "<B", "i16": "<h", "i32": "<i", "i64": "<q", "ref": "<I"}
_Slot = tuple[str, Any]
"""Kind and value of a table's field; the value of a "ref" is called with the buffer and gives a position."""


def _table(slots: dict[int, _Slot]) -> Callable[[bytearray], int]:
    """A FlatBuffers table: its vtable, itself, then what it refers to."""

    def write(out: bytearray) -> int:
        count = max(slots, default=-1) + 1
        out.extend(bytes(-(len(out) + 4 + 2 * count) % 8))  # so that the table begins at a multiple of 8
        vtable = len(out)
        out.extend(bytes(4 + 2 * count))
        start = len(out)
        out.extend(struct.pack("<i", start - vtable))
        references = []
        for slot, (kind, value) in slots.items():
            size = struct.calcsize(_TABLE[kind])
            out.extend(bytes(-len(out) % size))
            struct.pack_into("<H", out, vtable + 4 + 2 * slot, len(out) - start)
            if kind == "ref":
                references.append((len(out), value))
            out.extend(struct.pack(_TABLE[kind], 0 if kind == "ref" else value))
        struct.pack_into("<HH", out, vtable, start - vtable, len(out) - start)
        for place, child in references:
            position = child(out)
            struct.pack_into("<I", out, place, position - place)
        return start

    return write


def _string(text: bytes) -> Callable[[bytearray], int]:
    def write(out: bytearray) -> int:
        out.extend(bytes(-len(out) % 4))
        start = len(out)
        out.extend(struct.pack("<I", len(text)) + text + b"\0")
        return start

    return write


def _tables(children: Sequence[Callable[[bytearray], int]]) -> Callable[[bytearray], int]:
    """A vector of tables."""

    def write(out: bytearray) -> int:
        out.extend(bytes(-len(out) % 4))
        start = len(out)
        out.extend(struct.pack("<I", len(children)) + bytes(4 * len(children)))
        for number, child in enumerate(children, 1):
            position = child(out)
            struct.pack_into("<I", out, start + 4 * number, position - (start + 4 * number))
        return start

    return write


def _pairs(numbers: Sequence[tuple[int, int]]) -> Callable[[bytearray], int]:
    """A vector of structures of two i64."""

    def write(out: bytearray) -> int:
        out.extend(bytes(-(len(out) + 4) % 8))
        start = len(out)
        out.extend(struct.pack("<I", len(numbers)))
        out.extend(b"".join(struct.pack("<qq", *pair) for pair in numbers))
        return start

    return write


_V5: Final = 4
_SCHEMA: Final = 1
_BATCH: Final = 3
_INT: Final = (2, _table({0: ("i32", 64), 1: ("u8", 1)}))
_BINARY: Final = (4, _table({}))
_TIME: Final = (10, _table({0: ("i16", 3), 1: ("ref", _string(b"UTC"))}))  # unit 3: ns
_FIELDS: Final = (
    ("stream", False, _BINARY),
    ("subject", False, _BINARY),
    ("sequence", False, _INT),
    ("timestamp", False, _TIME),
    ("reply", True, _BINARY),
    ("headers", True, _BINARY),
    ("data", False, _BINARY),
)


def _field(name: str, nullable: bool, kind: tuple[int, Callable[[bytearray], int]]) -> Any:
    return _table(
        {
            0: ("ref", _string(name.encode())),
            1: ("u8", int(nullable)),
            2: ("u8", kind[0]),
            3: ("ref", kind[1]),
            5: ("ref", _tables([])),
        }
    )


def _message(kind: int, header: Callable[[bytearray], int], body: int) -> bytes:
    """An encapsulated message without its body, a multiple of 8 bytes long."""
    out = bytearray(4)
    root = _table({0: ("i16", _V5), 1: ("u8", kind), 2: ("ref", header), 3: ("i64", body)})(out)
    struct.pack_into("<I", out, 0, root)
    out.extend(bytes(-len(out) % 8))
    return struct.pack("<Ii", 0xFFFFFFFF, len(out)) + out


_PREFIX: Final = _message(
    _SCHEMA,
    _table(
        {
            1: ("ref", _tables([_field(*field) for field in _FIELDS])),
            2: (
                "ref",
                _tables([_table({0: ("ref", _string(b"headrace.columns")), 1: ("ref", _string(VERSION))})]),
            ),
        }
    ),
    0,
)
_END: Final = struct.pack("<II", 0xFFFFFFFF, 0)


class Counts(NamedTuple):
    """The counts in the head of a stream, in the order of `ColumnsBuilder.counts`."""

    rows: int
    null_replies: int
    null_headers: int
    streams: int
    subjects: int
    replies: int
    headers: int
    payloads: int

    def nulls(self) -> tuple[int, ...]:
        """Return the number of nulls of each column."""
        return 0, 0, 0, 0, self.null_replies, self.null_headers, 0

    def buffers(self) -> list[tuple[int, int]]:
        """(offset in the body, bytes) of each buffer, the columns' one after another."""
        rows = self.rows
        bitmap = (rows + 7) // 8
        offsets, numbers = 4 * (rows + 1), 8 * rows
        sizes = [0, offsets, self.streams, 0, offsets, self.subjects, 0, numbers, 0, numbers]
        sizes += [bitmap if self.null_replies else 0, offsets, self.replies]
        sizes += [bitmap if self.null_headers else 0, offsets, self.headers]
        sizes += [0, offsets, self.payloads]
        placed, at = [], 0
        for size in sizes:
            placed.append((at, size))
            at += size + -size % 8
        return placed


def _drawn_head(counts: Counts) -> bytes:
    """The head as a FlatBuffers writer makes it."""
    buffers = counts.buffers()
    batch = _table(
        {
            0: ("i64", counts.rows),
            1: ("ref", _pairs([(counts.rows, number) for number in counts.nulls()])),
            2: ("ref", _pairs(buffers)),
        }
    )
    return _PREFIX + _message(_BATCH, batch, _body_size(buffers))


def _body_size(buffers: Sequence[tuple[int, int]]) -> int:
    last, size = buffers[-1]
    return last + size + -size % 8


# Where the numbers stand: found once, by numbers that occur nowhere else.
_MARKED: Final = Counts(*range(1 << 40, (1 << 40) + 8))
_MARKED_HEAD: Final = _drawn_head(_MARKED)
_HEAD_BYTES: Final = len(_MARKED_HEAD)
_NODES_AT: Final = _MARKED_HEAD.index(struct.pack("<qqq", _MARKED.rows, 0, _MARKED.rows))
_BUFFERS_AT: Final = 4 + _MARKED_HEAD.index(struct.pack("<Iqqq", 19, 0, 0, 0), _NODES_AT)
_NODES: Final = struct.Struct("<14q")
_BUFFERS: Final = struct.Struct("<38q")
_NUMBER: Final = struct.Struct("<q")
_ROWS_AT: Final = _MARKED_HEAD.index(_NUMBER.pack(_MARKED.rows), len(_PREFIX), _NODES_AT)
_BODY_AT: Final = _MARKED_HEAD.index(_NUMBER.pack(_body_size(_MARKED.buffers())), len(_PREFIX))


def _head(counts: Counts) -> bytes:
    """The head of these numbers: every other byte of all heads is the same."""
    out = bytearray(_MARKED_HEAD)
    buffers = counts.buffers()
    _NUMBER.pack_into(out, _ROWS_AT, counts.rows)
    _NUMBER.pack_into(out, _BODY_AT, _body_size(buffers))
    _NODES.pack_into(out, _NODES_AT, *chain.from_iterable((counts.rows, number) for number in counts.nulls()))
    _BUFFERS.pack_into(out, _BUFFERS_AT, *chain.from_iterable(buffers))
    return bytes(out)


BESIDES: Final = len(BLOCK) + _HEAD_BYTES + len(_END)
"""Bytes of a message that are not columns."""

# ---- writing ------------------------------------------------------------------------------------


def pack(builder: ColumnsBuilder) -> bytes:
    """Write the rows of a builder as a stream."""
    return builder.pack(_head(Counts(*builder.counts())), _END)


def send(builder: ColumnsBuilder, out: Outgoing, inbox: bytes) -> int:
    """Publish what was added to a builder; return bytes of headers and stream. Raises: ValueError."""
    return builder.send(out, inbox, BLOCK, _head(Counts(*builder.counts())), _END)


# ---- reading ------------------------------------------------------------------------------------


class BytesColumn(Struct, frozen=True):
    """A column of bytes as Arrow has it; the parts are views of the frame that was read."""

    validity: memoryview | None
    """A bit for each row, the lowest first; None: no row is null."""
    offsets: memoryview
    data: memoryview
    nulls: int

    def values(self) -> list[bytes | None]:
        """Row by row."""
        data = bytes(self.data)
        found: list[bytes | None] = [data[a:b] for a, b in pairwise(_numbers("i", self.offsets))]
        bits = self.validity
        if bits is not None:
            found = [one if bits[row >> 3] >> (row & 7) & 1 else None for row, one in enumerate(found)]
        return found

    def texts(self) -> list[bytes]:
        """Row by row, of a column without nulls."""
        data = bytes(self.data)
        return [data[a:b] for a, b in pairwise(_numbers("i", self.offsets))]


class Columns(Struct):
    """The columns of one stream, over its bytes.

    `sequences` and `times` (ns since 1970 UTC) are little-endian i64. `damaged`: what the server could not
    read in the part of a replay that this belongs to, as its end said.
    """

    frame: bytes
    rows: int
    streams: BytesColumn
    subjects: BytesColumn
    sequences: Sequence[int]
    times: Sequence[int]
    replies: BytesColumn
    headers: BytesColumn
    payloads: BytesColumn
    damaged: Damage = ()

    def __len__(self) -> int:
        return self.rows

    @classmethod
    def read(cls, frame: bytes) -> Columns:
        """Read columns from a frame. Raises: ProtocolError for anything but what `pack` makes."""
        counts = _counts(frame)
        if counts is None or frame[:_HEAD_BYTES] != _head(counts) or not frame.endswith(_END):
            raise ProtocolError(f"not columns of version {VERSION.decode()}: {frame[:24]!r}")
        buffers = [(_HEAD_BYTES + at, size) for at, size in counts.buffers()]
        last, size = buffers[-1]
        if len(frame) != last + size + -size % 8 + len(_END):
            raise ProtocolError(f"columns of {len(frame)} bytes are cut off or too long")
        view = memoryview(frame)
        parts = [view[at : at + size] for at, size in buffers]
        rows = counts.rows

        def column(first: int, nulls: int = 0) -> BytesColumn:
            if not offsets_are_valid(frame, buffers[first + 1][0], rows, buffers[first + 2][1]):
                raise ProtocolError("columns: the offsets are not in order")
            validity = parts[first] if nulls else None
            if validity is not None and int.from_bytes(validity, "little").bit_count() != rows - nulls:
                raise ProtocolError("columns: the nulls are not as many as it says")
            return BytesColumn(validity, parts[first + 1], parts[first + 2], nulls)

        return cls(
            frame,
            rows,
            column(0),
            column(3),
            _numbers("q", parts[7]),
            _numbers("q", parts[9]),
            column(10, counts.null_replies),
            column(13, counts.null_headers),
            column(16),
        )


def _counts(frame: bytes) -> Counts | None:
    """The numbers of a head, not looked at further; None when it is too short or they make no sense."""
    if len(frame) < _HEAD_BYTES + len(_END):
        return None
    nodes = _NODES.unpack_from(frame, _NODES_AT)
    sizes = _BUFFERS.unpack_from(frame, _BUFFERS_AT)[1::2]
    counts = Counts(nodes[0], nodes[9], nodes[11], sizes[2], sizes[5], sizes[12], sizes[15], sizes[18])
    if not all(0 <= number <= len(frame) for number in counts):
        return None
    return counts if max(counts.null_replies, counts.null_headers) <= counts.rows else None


def _numbers(kind: str, part: memoryview) -> Sequence[int]:
    if sys.byteorder == "little":
        return part.cast(kind)  # type: ignore[call-overload,no-any-return]
    swapped = array(kind, bytes(part))
    swapped.byteswap()
    return swapped
