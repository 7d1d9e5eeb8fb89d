"""Values for our types as Go's `encoding/json` makes them: as lenient, and refused with the same texts.

This is the slow way, for what msgspec refused: names in another case, null for anything, enumerations with
other spellings, and everything that is an error. Never here: which requests there are. Source: texts observed
from nats-server 2.15.1, and the types of the JetStream API.
"""

from __future__ import annotations

import functools
from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from headrace.protocol.go_json import (
    JSONKind,
    SyntaxProblem,
    Value,
    ValuePlace,
    only_value,
    quoted,
    quoted_bytes,
    values,
)
from headrace.protocol.info import folded_name
from headrace.protocol.jetstream import configs, times

T = TypeVar("T", bound=msgspec.Struct)

LARGEST: Final = 16 * 1024
"""Bytes of a body that is explained, at up to 5 ms for 1,024 of them; of a larger one is said less."""
_SPELLINGS: Final[dict[type[StrEnum], dict[str, str]]] = {
    configs.DeliverPolicy: {"undefined": "all"},
    configs.PersistMode: {"": "default"},
}
"""The other spellings of the values of an enumeration."""
_FOLDED: Final = frozenset({configs.DiscardPolicy})
_UNKNOWN: Final[dict[type[StrEnum], str]] = {
    configs.PriorityPolicy: "unknown priority policy: ",
    configs.Action: "unknown consumer action: ",
}
"""Refused with the text as it was sent; all others with the text quoted."""


def decode_strictly(kind: type[T], data: bytes) -> T:
    """Return the last of all values of the input, without unknown fields; an empty input gives the zero
    value.

    Raises: ValueError with Go's words, with the offset of a mistake in the syntax.
    """
    result = kind()
    try:
        for value in values(data):
            result = _Reader(kind, strict=True).read(value)
    except SyntaxProblem as problem:
        if problem.offset is None:
            raise ValueError("unexpected EOF") from None
        raise ValueError(f"{problem} at offset {problem.offset}") from None
    return result


def decode_leniently(kind: type[T], data: bytes, *, name: str | None = None) -> T:
    """The one value of the input; unknown fields are passed over. `name`: what errors call the type.

    Raises: ValueError with Go's words.
    """
    if len(data) > LARGEST:
        raise ValueError("too large to say what is wrong")
    result: T = _Reader(kind, strict=False, name=name).read(only_value(data))
    return result


class _Reader:
    """One decoding: which struct is the outermost, and whether it is strict."""

    def __init__(self, kind: type[msgspec.Struct], *, strict: bool, name: str | None = None) -> None:
        self._kind = kind
        self._strict = strict
        self._top = ValuePlace(_go_name(kind) if name is None else name)

    def read(self, value: Value) -> Any:
        """A value at the top; null is the zero value. Raises: ValueError."""
        if value.kind is JSONKind.NULL:
            return self._kind()
        return self._struct(self._kind, value, self._top)

    def _struct(self, kind: type[msgspec.Struct], value: Value, place: ValuePlace) -> Any:
        if value.kind is not JSONKind.OBJECT:
            place.refuse(value, f"server.{_go_name(kind)}")
        known, folded_names = fields_of(kind), _folded(kind)
        found: dict[str, object] = {}
        for name, item in zip(value.names, value.items, strict=True):
            field = name if name in known else folded_names.get(folded_name(name))
            if field is None:
                if self._strict:
                    raise ValueError(f"json: unknown field {quoted(name)}")
                continue
            annotation = known[field]
            if item.kind is not JSONKind.NULL or _is_enumeration(annotation):
                found[field] = self._value(annotation, item, place.within(name))
            elif _is_nullable(annotation):
                found.pop(field, None)
        return kind(**found)

    def _value(self, annotation: Any, value: Value, place: ValuePlace) -> object:
        if _is_optional(annotation):
            annotation = get_args(annotation)[0]
        origin = get_origin(annotation)
        if origin is Annotated:
            return self._measured(annotation.__metadata__[0].extra["go"], value, place)
        if origin is list:
            return self._list(get_args(annotation)[0], value, place)
        if origin is dict:
            return self._dict(get_args(annotation)[1], value, place)
        if issubclass(annotation, StrEnum):
            return self._enumerated(annotation, value)
        if issubclass(annotation, msgspec.Struct):
            return self._struct(annotation, value, place)
        return place.read(value, "bool" if annotation is bool else "string")

    def _measured(self, go: str, value: Value, place: ValuePlace) -> object:
        if go != "time.Time":
            return place.read(value, go)
        if value.kind is not JSONKind.STRING:
            place.refuse(value, go)
        return times.canonical(value.text)

    def _list(self, item: Any, value: Value, place: ValuePlace) -> list[object]:
        if value.kind is not JSONKind.ARRAY:
            place.refuse(value, _go_type(list[item]))
        return [
            _zero(item) if each.kind is JSONKind.NULL else self._value(item, each, place.within(index))
            for index, each in enumerate(value.items)
        ]

    def _dict(self, item: Any, value: Value, place: ValuePlace) -> dict[str, object]:
        if value.kind is not JSONKind.OBJECT:
            place.refuse(value, "map[string]" + _go_type(item))
        return {
            name: _zero(item) if each.kind is JSONKind.NULL else self._value(item, each, place.within(name))
            for name, each in zip(value.names, value.items, strict=True)
        }

    def _enumerated(self, kind: type[StrEnum], value: Value) -> StrEnum:
        if kind is configs.Compression:
            return _compression(value)
        spelling = value.source
        said = spelling[1:-1] if value.kind is JSONKind.STRING else None
        if said is not None:
            said = said.lower() if kind in _FOLDED else said
            said = _SPELLINGS.get(kind, {}).get(said, said)
            if said in kind.__members__.values():
                return kind(said)
        if kind in _UNKNOWN:
            raise ValueError(_UNKNOWN[kind] + spelling)
        raise ValueError(f"can not unmarshal {quoted_bytes(value.raw)}")


def _compression(value: Value) -> configs.Compression:
    if value.kind not in (JSONKind.STRING, JSONKind.NULL):
        ValuePlace("").refuse(value, "string")
    said = value.text if value.kind is JSONKind.STRING else ""
    if said not in configs.Compression.__members__.values():
        raise ValueError("unknown compression algorithm")
    return configs.Compression(said)


def _is_optional(annotation: Any) -> bool:
    """True if a type is `... | None`."""
    return type(None) in get_args(annotation)


def _is_enumeration(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, StrEnum)


def _is_nullable(annotation: Any) -> bool:
    """True if null resets an earlier field of the same name; else it changes nothing."""
    return _is_optional(annotation) or get_origin(annotation) in (list, dict)


def _zero(annotation: Any) -> object:
    if get_origin(annotation) is Annotated:
        return 0
    return annotation()


def _go_name(kind: type[msgspec.Struct]) -> str:
    return kind.go_name  # type: ignore[attr-defined, no-any-return]


def _go_type(annotation: Any) -> str:
    origin = get_origin(annotation)
    if origin is Annotated:
        return str(annotation.__metadata__[0].extra["go"])
    if origin is list:
        return "[]" + _go_type(get_args(annotation)[0])
    if annotation is str:
        return "string"
    pointer = "*" if annotation is configs.StreamSource else ""
    return f"{pointer}server.{_go_name(annotation)}"


@functools.cache
def fields_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Annotations by the names of the JSON."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.encode_name: hints[field.name] for field in msgspec.structs.fields(kind)}


@functools.cache
def _folded(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Names by how Go compares them."""
    return {folded_name(name): name for name in fields_of(kind)}
