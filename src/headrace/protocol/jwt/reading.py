"""The JSON of tokens, read into typed values.

Here lives what counts as a string, a whole number, a list or a record, and the errors that say where one was
expected. Never lives here: which claims there are (`shapes`), signatures (`decoding`).

As in the Go server, names of fields match in any case, null leaves a field as it is and unknown fields are
passed over. What that server reads leniently is an error here: a name that stands twice (in whatever case),
bytes that are not UTF-8, half a surrogate pair, null inside a list.

No error shows a value: it may be a secret.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, TypeAlias, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Value: TypeAlias = "Mapping[str, Any] | list[Any] | str | int | float | bool | None"
T = TypeVar("T")

_INT64: Final = range(-(1 << 63), 1 << 63)
# Besides upper and lower case these two characters stand for ASCII letters where the Go server compares
# names.
_FOLDED: Final = str.maketrans({"\u017f": "s", "\u212a": "k"})
_KINDS: Final[Mapping[type, str]] = {
    bool: "true or false",
    int: "a number",
    float: "a fraction or a number that is too large",
    str: "a string",
    list: "a list",
    dict: "an object",
}


class ShapeError(ValueError):
    """The JSON is not what was expected; `path` grows from the inside out."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.path = path

    def within(self, name: str) -> ShapeError:
        separator = "." if self.path and not self.path.startswith("[") else ""
        return ShapeError(self.message, f"{name}{separator}{self.path}")

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def parse_object(raw: bytes) -> Mapping[str, Any]:
    """The JSON object in these bytes.

    Raises: ShapeError for anything else, for too deep nesting and for names that stand twice.
    """
    try:
        value = json.loads(
            raw.decode("utf-8"), object_pairs_hook=_object, parse_constant=_refuse_constant, parse_int=_whole
        )
    except UnicodeDecodeError:
        raise ShapeError("not UTF-8") from None
    except RecursionError:
        raise ShapeError("nested too deep") from None
    except json.JSONDecodeError:
        # Its text may quote the token.
        raise ShapeError("not JSON") from None
    if not isinstance(value, dict):
        raise ShapeError(f"an object is expected, not {kind_of(value)}")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ShapeError("a name stands twice in an object")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ShapeError(f"{name} is not JSON")


def _whole(digits: str) -> int | float:
    # Larger ones fit nowhere, and very long ones take long to read.
    return int(digits) if len(digits) <= 20 else float("inf")


def text(value: Value) -> str:
    if not isinstance(value, str):
        raise ShapeError(f"a string is expected, not {kind_of(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ShapeError("half a surrogate pair") from None
    return value


def integer(value: Value) -> int:
    """A whole number of 64 bits, written without fraction and exponent."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ShapeError(f"a whole number is expected, not {kind_of(value)}")
    if value not in _INT64:
        raise ShapeError("the number is too large")
    return value


def within(low: int, high: int) -> Callable[[Value], int]:
    def read(value: Value) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        integer(value)
        raise ShapeError(f"a number from {low} to {high} is expected")

    return read


def flag(value: Value) -> bool:
    if not isinstance(value, bool):
        raise ShapeError(f"true or false is expected, not {kind_of(value)}")
    return value


def list_of(item: Callable[[Any], T]) -> Callable[[Value], tuple[T, ...]]:
    def read(value: Value) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise ShapeError(f"a list is expected, not {kind_of(value)}")
        return tuple(_at(f"[{number}]", item, entry) for number, entry in enumerate(value))

    return read


texts: Final = list_of(text)


def map_of(item: Callable[[Any], T]) -> Callable[[Value], Mapping[str, T]]:
    """An object whose names are data; an error does not show them."""

    def read(value: Value) -> Mapping[str, T]:
        entries = an_object(value)
        return MappingProxyType({text(name): _at("[…]", item, entry) for name, entry in entries.items()})

    return read


def an_object(value: Value) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ShapeError(f"an object is expected, not {kind_of(value)}")
    return cast("Mapping[str, Any]", value)


Fields: TypeAlias = "Mapping[str, tuple[str, Callable[[Any], Any]]]"
"""JSON name in lower case -> (attribute, reader)."""


def read_fields(value: Value, fields: Fields) -> dict[str, Any]:
    """Attributes and values of those fields that are there and not null."""
    found: dict[str, Any] = {}
    seen: set[str] = set()
    for name, entry in an_object(value).items():
        folded = name.translate(_FOLDED).lower()
        known = fields.get(folded)
        if known is None:
            continue
        if folded in seen:
            raise ShapeError("it stands twice", folded)
        seen.add(folded)
        if entry is not None:
            attribute, reader = known
            found[attribute] = _at(folded, reader, entry)
    return found


class FieldsReader(Generic[T]):
    """Reads an object into what `make` gives; `writing` goes by the same `fields`."""

    def __init__(self, make: Callable[..., T], fields: Fields) -> None:
        self._make = make
        self.fields = fields

    def __call__(self, value: Value) -> T:
        return self._make(**read_fields(value, self.fields))


def _at(name: str, reader: Callable[[Any], T], value: Value) -> T:
    try:
        return reader(value)
    except ShapeError as error:
        raise error.within(name) from None


def kind_of(value: object) -> str:
    """Return the name of a JSON value's kind."""
    return _KINDS.get(type(value), "null")
