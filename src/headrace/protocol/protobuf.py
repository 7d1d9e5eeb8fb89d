"""The part of protobuf 3 that flat messages need: varints, lengths, fields from a declaration.

Here live the wire's primitives and one reader and one writer for structures whose fields carry their
number (`text`, `uint64`, ...) in their name on the wire. Never nested messages, maps, groups,
packed fields: no wire of ours has them.
Source: protobuf encoding guide; as strict as the generated Go code of the ecosystem's servers and clients.
"""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from headrace.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
FIXED32: Final = 5

_MAX_KEY: Final = (1 << 32) - 1
_MASK64: Final = (1 << 64) - 1
_VARINT_BYTES: Final = 10
_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(128))


# -- primitives -----------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """Return a number as a varint.

    `value` as a varint, negative ones as the ten bytes of their two's complement.

    Raises: ValueError when it does not fit into 64 bits.
    """
    if 0 <= value < 128:
        return _ONE_BYTE[value]
    if not -(1 << 63) <= value <= _MASK64:
        raise ValueError(f"{value} does not fit into 64 bits")
    value &= _MASK64
    if value < 1 << 14:
        return bytes((value & 127 | 128, value >> 7))
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The varint at `position` as an unsigned number of 64 bits (more wrap), and where it ends.

    Raises: ProtocolError when it has more than ten bytes; IndexError when the data end within it.
    """
    value = 0
    for shift in range(0, 7 * _VARINT_BYTES, 7):
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _MASK64, position
    raise ProtocolError("protobuf: varint of more than 10 bytes")


# -- declared messages ----------------------------------------------------------------------------


class _Kind(Struct, frozen=True):
    """A field type: how an unsigned 64-bit varint becomes its value (None for bytes); bounds for encoding."""

    name: str
    wire_type: int
    default: Any
    from_varint: Callable[[int], Any] | None
    low: int = 0
    high: int = 0


def _signed(bits: int) -> Callable[[int], int]:
    half, mask = 1 << bits - 1, (1 << bits) - 1
    return lambda value: ((value & mask) ^ half) - half


_BYTES: Final = _Kind("bytes", LENGTH, b"", None)
_BOOL: Final = _Kind("bool", VARINT, False, bool, 0, 1)
_INT32: Final = _Kind("int32", VARINT, 0, _signed(32), -(1 << 31), (1 << 31) - 1)
_INT64: Final = _Kind("int64", VARINT, 0, _signed(64), -(1 << 63), (1 << 63) - 1)
_UINT32: Final = _Kind("uint32", VARINT, 0, lambda value: value & 0xFFFFFFFF, 0, (1 << 32) - 1)
_UINT64: Final = _Kind("uint64", VARINT, 0, int, 0, _MASK64)
_KINDS: Final = {kind.name: kind for kind in (_BYTES, _BOOL, _INT32, _INT64, _UINT32, _UINT64)}


def _field(number: int, kind: _Kind) -> Any:
    return field(default=kind.default, name=f"{number} {kind.name}")


def text(number: int) -> bytes:
    """Declare a string field, kept as the bytes that came: never decoded, so never badly encoded."""
    return _field(number, _BYTES)  # type: ignore[no-any-return]


def blob(number: int) -> bytes:
    """Declare a bytes field."""
    return _field(number, _BYTES)  # type: ignore[no-any-return]


def boolean(number: int) -> bool:
    """Declare a bool field; any varint but 0 is true."""
    return _field(number, _BOOL)  # type: ignore[no-any-return]


def int32(number: int) -> int:
    """Declare an int32 or enum field; of a longer varint the low 32 bits count."""
    return _field(number, _INT32)  # type: ignore[no-any-return]


def int64(number: int) -> int:
    """Declare an int64 field."""
    return _field(number, _INT64)  # type: ignore[no-any-return]


def uint32(number: int) -> int:
    """Declare a uint32 field; of a longer varint the low 32 bits count."""
    return _field(number, _UINT32)  # type: ignore[no-any-return]


def uint64(number: int) -> int:
    """Declare a uint64 field."""
    return _field(number, _UINT64)  # type: ignore[no-any-return]


class Layout(Struct, frozen=True):
    """A declared message as the reader and the writer want it: `slots` by key, `columns` in field order."""

    name: str
    numbers: frozenset[int]
    defaults: tuple[Any, ...]
    slots: dict[int, tuple[int, Callable[[int], Any] | None]]
    columns: tuple[tuple[str, bytes, _Kind, Callable[[Any], Any]], ...]


def _layout(message: type[Struct]) -> Layout:
    on_the_wire = (name.split() for name in message.__struct_encode_fields__)
    declared = [
        (name, int(number), _KINDS[kind])
        for name, (number, kind) in zip(message.__struct_fields__, on_the_wire, strict=True)
    ]
    return Layout(
        name=message.__name__,
        numbers=frozenset(number for _, number, _ in declared),
        defaults=tuple(kind.default for _, _, kind in declared),
        slots={
            number << 3 | kind.wire_type: (index, kind.from_varint)
            for index, (_, number, kind) in enumerate(declared)
        },
        columns=tuple(
            (name, varint(number << 3 | kind.wire_type), kind, attrgetter(name))
            for name, number, kind in declared
        ),
    )


layout: Final[Callable[[type[Struct]], Layout]] = cache(_layout)
"""The layout of a structure whose every field was declared with a function of this module."""


def read(data: bytes, layout: Layout) -> list[Any]:
    """The values of a message's fields, in declared order; of a repeated field the last one counts.

    Fields nobody declared are skipped. Raises: ProtocolError for anything cut off, too long or of another
    wire type than declared, and for groups.
    """
    values = list(layout.defaults)
    slots = layout.slots
    position, end = 0, len(data)
    try:
        while position < end:
            key = data[position]
            position += 1
            if key > 127:
                key, position = read_varint(data, position - 1)
            slot = slots.get(key)
            if slot is None:
                position = skip(data, position, key, layout)
                continue
            value = data[position]
            position += 1
            if value > 127:
                value, position = read_varint(data, position - 1)
            index, from_varint = slot
            if from_varint is None:
                stop = position + value
                if stop > end:
                    raise ProtocolError(f"{layout.name}: length {value} with {end - position} bytes left")
                values[index] = data[position:stop]
                position = stop
            else:
                values[index] = from_varint(value)
    except IndexError:
        raise ProtocolError(f"{layout.name}: ends within a field") from None
    return values


def skip(data: bytes, position: int, key: int, layout: Layout) -> int:
    """Return the end of an undeclared field whose value starts at `position`.

    Raises: ProtocolError as `read` says; IndexError when the data end within it.
    """
    number, wire_type = key >> 3, key & 7
    if number == 0 or key > _MAX_KEY:
        raise ProtocolError(f"{layout.name}: no such field number: {number}")
    if number in layout.numbers:
        raise ProtocolError(f"{layout.name}: wire type {wire_type} for field {number}")
    if wire_type == VARINT:
        return read_varint(data, position)[1]
    if wire_type == LENGTH:
        length, position = read_varint(data, position)
    elif wire_type in (FIXED32, FIXED64):
        length = 4 if wire_type == FIXED32 else 8
    else:
        raise ProtocolError(f"{layout.name}: wire type {wire_type} is not of proto3")
    if position + length > len(data):
        raise ProtocolError(f"{layout.name}: length {length} with {len(data) - position} bytes left")
    return position + length


def write(message: Any, layout: Layout) -> bytes:
    """The encoded message, fields in declared order, defaults left out.

    Raises: ValueError for a number that its field's type cannot hold.
    """
    parts: list[bytes] = []
    for name, key, kind, get in layout.columns:
        value = get(message)
        if not value:
            continue
        if kind.from_varint is None:
            parts += key, varint(len(value)), value
        elif kind.low <= value <= kind.high:
            parts += key, varint(value)
        else:
            raise ValueError(f"{layout.name}.{name} cannot be {value}")
    return b"".join(parts)
