"""Strict JSON requests: one object, known keys, right types, or a text that says what is wrong.

Here lives the reading of single values and of whole objects; never what a request means. Channel names and
subjects are text in JSON and bytes elsewhere: bytes that are not UTF-8 stand as lone surrogates (`\\udcff`).
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

from headrace.errors import ProtocolError
from headrace.protocol.rfc3339 import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Reader = Callable[[object], Any]

LARGEST: Final = 64 << 10
"""Bytes of a request; more is refused unread."""
LARGEST_NUMBER: Final = (1 << 63) - 2
_SHOWN: Final = 40


def read_document(payload: bytes, fields: Mapping[str, Reader]) -> dict[str, Any]:
    """The values of the keys that are there. Raises: ProtocolError that names the key and what is wrong."""
    if len(payload) > LARGEST:
        raise ProtocolError(f"a request of {len(payload)} bytes, {LARGEST} are allowed")
    try:
        pairs = json.loads(payload, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"not JSON: {error}") from None
    if not isinstance(pairs, _Pairs):
        raise ProtocolError("not a JSON object")
    values: dict[str, Any] = {}
    for key, value in pairs:
        reader = fields.get(key)
        if reader is None:
            raise ProtocolError(f"unknown key {_shown(key)}; there are {', '.join(fields)}")
        if key in values:
            raise ProtocolError(f"key {key} stands twice")
        try:
            values[key] = reader(value)
        except ValueError as error:
            raise ProtocolError(f"{key}: {error}") from None
    return values


def write_document(values: Mapping[str, Any]) -> bytes:
    """The request that says this; keys whose value is None are left out."""
    given = {key: value for key, value in values.items() if value is not None}
    return json.dumps(given, separators=(",", ":")).encode()


class _Pairs(list[tuple[str, Any]]):
    """An object of the request, with keys that stand twice."""


def name_of(raw: bytes) -> str:
    """A channel name or subject as a string of a document."""
    return raw.decode("utf-8", "surrogateescape")


def raw_name(text: str) -> bytes:
    """Return the bytes that `name_of` made a string of. Raises: ValueError for any other string."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ValueError("not a name") from None


def a_text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a string is expected, not {_kind(value)}")
    return value


def a_name(value: object) -> bytes:
    text = a_text(value)
    if not text:
        raise ValueError("it is empty")
    return raw_name(text)


def a_switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"true or false is expected, not {_kind(value)}")
    return value


def a_number(value: object) -> int:
    """A whole number from 0 to what a sequence can be."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"a whole number is expected, not {_kind(value)}")
    if not 0 <= value <= LARGEST_NUMBER:
        raise ValueError(f"{value} is not from 0 to {LARGEST_NUMBER}")
    return value


def a_positive_number(value: object) -> int:
    number = a_number(value)
    if not number:
        raise ValueError("0 is not from 1 on")
    return number


def a_time(value: object) -> int:
    """ns since 1970 UTC, of RFC 3339."""
    return parse_time(a_text(value))


def one_of(*words: str) -> Reader:
    def read(value: object) -> str:
        if value not in words:
            raise ValueError(f"{_shown(value)} is not one of {', '.join(words)}")
        return str(value)

    return read


def _kind(value: object) -> str:
    if isinstance(value, float):
        return "a fraction" if math.isfinite(value) else "no number"
    kinds = {bool: "true or false", int: "a number", str: "a string", list: "a list", type(None): "null"}
    return kinds.get(type(value), "an object") if not isinstance(value, _Pairs) else "an object"


def _shown(value: object) -> str:
    text = json.dumps(value if isinstance(value, str | int | float) else _kind(value))
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
