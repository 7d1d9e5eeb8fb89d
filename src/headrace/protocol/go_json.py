"""JSON as Go's `encoding/json` reads it: what is refused, at which offset, in which words.

msgspec reads what is right; this reads what msgspec refused, so that the client is told what the Go server
would tell it, and lets pass what Go lets pass (invalid UTF-8, lone surrogates). Here live the scanner and the
values of Go's plain types (`ValuePlace.read`). Never here: structures (`jetstream.go_decode`). Source: texts
observed from nats-server 2.15.1, which is built with Go 1.27.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NoReturn

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_DEPTH: Final = 10_000
_SPACE: Final = re.compile(rb"[ \t\r\n]*")
_NUMBER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_STRING: Final = re.compile(rb'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_INTEGER: Final = re.compile(rb"-?[0-9]+")
_DIGITS_MOST: Final = 20
_INT64: Final = (-(1 << 63), (1 << 63) - 1)
_BOUNDS: Final = {
    "int": _INT64,
    "int64": _INT64,
    "int32": (-(1 << 31), (1 << 31) - 1),
    "uint64": (0, (1 << 64) - 1),
    "time.Duration": _INT64,
    "server.ConnState": _INT64,
}
"""The least and the greatest value of Go's integers, and of types that are one."""
_LITERALS: Final = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_UNESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX: Final = frozenset(b"0123456789abcdefABCDEF")
_REPLACEMENT: Final = "\ufffd"  # by its number: by its name, compiling this would load all names


class JSONKind(StrEnum):
    """The kind of a value, as Go's errors name it."""

    OBJECT = "object"
    ARRAY = "array"
    STRING = "string"
    NUMBER = "number"
    BOOL = "bool"
    NULL = "null"


class SyntaxProblem(ValueError):
    """The input is not JSON.

    `offset`: the bytes that were read, with the wrong one; None at the end of the input.
    """

    def __init__(self, text: str, offset: int | None) -> None:
        super().__init__(text)
        self.offset = offset


class Value(Struct):
    """One value and where it stands. Of an object `names` has a name for every item."""

    kind: JSONKind
    data: bytes
    start: int
    end: int = 0
    items: list[Value] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    @property
    def raw(self) -> bytes:
        """Its bytes as they were sent."""
        return self.data[self.start : self.end]

    @property
    def source(self) -> str:
        """Return the value's JSON as it was sent, with U+FFFD for what is no UTF-8."""
        return _replaced(self.raw)

    @property
    def text(self) -> str:
        """Return the text of a string."""
        return unquoted(self.raw)


class ValuePlace(Struct, frozen=True):
    """The place of a value in what is read, as Go's errors name it.

    `root`: the name of the outermost structure. `path`: names of fields and numbers of items, from it on.
    """

    root: str
    path: tuple[str | int, ...] = ()

    def within(self, part: str | int) -> ValuePlace:
        """The place of a field or an item of the value that is here."""
        return ValuePlace(self.root, (*self.path, part))

    def read(self, value: Value, go: str) -> Any:
        """Return the value of a plain type of Go: `bool`, an integer, a list, or else a text.

        Of a list null is the zero value. Raises: ValueError with Go's words.
        """
        if go.startswith("[]"):
            if value.kind is not JSONKind.ARRAY:
                self.refuse(value, go)
            return [
                _zero_of(go[2:]) if item.kind is JSONKind.NULL else self.within(index).read(item, go[2:])
                for index, item in enumerate(value.items)
            ]
        if go in _BOUNDS:
            return self._integer(value, go)
        if value.kind is not (JSONKind.BOOL if go == "bool" else JSONKind.STRING):
            self.refuse(value, go)
        return value.raw == b"true" if go == "bool" else value.text

    def _integer(self, value: Value, go: str) -> int:
        if value.kind is not JSONKind.NUMBER:
            self.refuse(value, go)
        least, most = _BOUNDS[go]
        raw = value.raw
        # Python refuses to convert digits without end, and nothing as long as that is in bounds.
        fits = _INTEGER.fullmatch(raw) and len(raw) <= _DIGITS_MOST and least <= int(raw) <= most
        if not fits or (least == 0 and raw.startswith(b"-")):
            self.refuse(value, go, f"number {raw.decode()}")
        return int(raw)

    def refuse(self, value: Value, go: str, what: str = "") -> NoReturn:
        """Raise ValueError: a value, or `what`, is none of a type of Go."""
        what = what or value.kind
        if not self.path:
            raise ValueError(f"json: cannot unmarshal {what} into Go value of type {go}")
        parts = (str(part).replace("~", "~0").replace("/", "~1") for part in self.path)
        place = ".".join((self.root, *parts))
        field = "" if isinstance(self.path[-1], int) else "Go struct field "
        raise ValueError(f"json: cannot unmarshal {what} into {field}{place} of type {go}")


def _zero_of(go: str) -> object:
    if go == "bool":
        return False
    return 0 if go in _BOUNDS else ""


def values(data: bytes) -> Iterator[Value]:
    """All values that follow one another. Raises: SyntaxProblem, once what stands before it was given."""
    position = _skip(data, 0)
    while position < len(data):
        value = _Scanner(data, position).value()
        yield value
        position = _skip(data, value.end)


def only_value(data: bytes) -> Value:
    """The one value of the input. Raises: SyntaxProblem."""
    value = _Scanner(data, _skip(data, 0)).value()
    end = _skip(data, value.end)
    if end < len(data):
        _unexpected(data, end, "after top-level value")
    return value


def unquoted(raw: bytes) -> str:
    """Decode a string literal. Invalid UTF-8 and half of a surrogate pair become U+FFFD, as in Go."""
    text = _replaced(raw[1:-1])
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_unescape, text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def quoted(text: str) -> str:
    """Return a text as Go's `%q` writes it."""
    return '"' + "".join(_escaped(char, '"') for char in text) + '"'


def quoted_bytes(raw: bytes) -> str:
    """Return bytes as Go's `%q` writes them: one that belongs to no character as `\\xff`."""
    return quoted(raw.decode("utf-8", "surrogateescape"))


def _replaced(raw: bytes) -> str:
    """Return bytes as text; each byte that belongs to no character becomes one U+FFFD."""
    text = raw.decode("utf-8", "surrogateescape")
    return text if text.isascii() else "".join(_REPLACEMENT if _is_byte(char) else char for char in text)


def _is_byte(char: str) -> bool:
    return "\udc80" <= char <= "\udcff"


def _unescape(match: re.Match[str]) -> str:
    code, char = match.groups()
    return chr(int(code, 16)) if code else _UNESCAPED.get(char, char)


def _escaped(char: str, quote: str) -> str:
    if char in (quote, "\\"):
        return "\\" + char
    if char.isprintable():
        return char
    if _is_byte(char):
        return f"\\x{ord(char) - 0xDC00:02x}"
    named = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
    if char in named:
        return named[char]
    code = ord(char)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _skip(data: bytes, position: int) -> int:
    match = _SPACE.match(data, position)
    assert match is not None
    return match.end()


def _unexpected(data: bytes, position: int, where: str) -> NoReturn:
    if position >= len(data):
        raise SyntaxProblem("unexpected end of JSON input", None)
    char = data[position : position + 4].decode("utf-8", "surrogateescape")[0]
    size = 1 if _is_byte(char) else len(char.encode())
    raise SyntaxProblem(f"invalid character '{_escaped(char, chr(39))}' {where}", position + size)


class _Scanner:
    """Reads one value, with a stack of its own: how deep a request is nested is the client's choice."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._at = position
        self._open: list[Value] = []

    def value(self) -> Value:
        while True:
            value = self._begin()
            if value is None:  # an array or object that has items
                continue
            while self._open:
                value.end = self._at
                parent = self._open[-1]
                parent.items.append(value)
                if self._next(parent):
                    break
                value = self._open.pop()
            else:
                value.end = self._at
                return value

    def _peek(self) -> int:
        self._at = _skip(self._data, self._at)
        return self._data[self._at] if self._at < len(self._data) else -1

    def _begin(self) -> Value | None:
        char = self._peek()
        start = self._at
        if char == ord('"'):
            self._string()
            return Value(JSONKind.STRING, self._data, start)
        if char in _LITERALS:
            self._literal(_LITERALS[char])
            return Value(JSONKind.NULL if char == ord("n") else JSONKind.BOOL, self._data, start)
        if char == ord("-") or ord("0") <= char <= ord("9"):
            self._number()
            return Value(JSONKind.NUMBER, self._data, start)
        if char not in (ord("{"), ord("[")):
            _unexpected(self._data, start, "looking for beginning of value")
        return self._container(
            Value(JSONKind.OBJECT if char == ord("{") else JSONKind.ARRAY, self._data, start)
        )

    def _container(self, value: Value) -> Value | None:
        """The value if it is empty; else it is open, and where its first item begins is next."""
        self._at += 1
        if len(self._open) >= _MAX_DEPTH:
            raise SyntaxProblem("exceeded max depth", self._at)
        if self._peek() == (ord("}") if value.kind is JSONKind.OBJECT else ord("]")):
            self._at += 1
            return value
        self._open.append(value)
        if value.kind is JSONKind.OBJECT:
            self._name(value)
        return None

    def _next(self, parent: Value) -> bool:
        """True if another item follows. Moves past the comma and the item's name, else past the end."""
        char = self._peek()
        is_object = parent.kind is JSONKind.OBJECT
        if char == (ord("}") if is_object else ord("]")):
            self._at += 1
            return False
        if char != ord(","):
            _unexpected(
                self._data, self._at, "after object key:value pair" if is_object else "after array element"
            )
        self._at += 1
        if is_object:
            self._name(parent)
        return True

    def _name(self, value: Value) -> None:
        if self._peek() != ord('"'):
            _unexpected(self._data, self._at, "looking for beginning of object key string")
        start = self._at
        self._string()
        value.names.append(unquoted(self._data[start : self._at]))
        if self._peek() != ord(":"):
            _unexpected(self._data, self._at, "after object key")
        self._at += 1

    def _literal(self, word: bytes) -> None:
        for expected in word:
            if self._data[self._at : self._at + 1] != bytes([expected]):
                name = word.decode()
                _unexpected(self._data, self._at, f"in literal {name} (expecting '{chr(expected)}')")
            self._at += 1

    def _number(self) -> None:
        match = _NUMBER.match(self._data, self._at)
        if match is None:
            _unexpected(self._data, self._at + 1, "in numeric literal")
        self._at = match.end()
        fraction, exponent = match.groups()
        rest = self._data[self._at : self._at + 1]
        if rest == b"." and fraction is None and exponent is None:
            _unexpected(self._data, self._at + 1, "in numeric literal")
        if rest in (b"e", b"E") and exponent is None:
            signed = self._data[self._at + 1 : self._at + 2] in (b"+", b"-")
            _unexpected(self._data, self._at + 1 + signed, "in numeric literal")

    def _string(self) -> None:
        match = _STRING.match(self._data, self._at)
        if match is None:
            self._bad_string(self._at + 1)
        self._at = match.end()

    def _bad_string(self, at: int) -> NoReturn:
        data = self._data
        while at < len(data):
            if data[at] < 0x20:
                _unexpected(data, at, "in string")
            if data[at] != ord("\\"):
                at += 1
                continue
            kind = data[at + 1 : at + 2]
            size = 6 if kind == b"u" else 2
            sequence = data[at : at + size]
            digits_fit = kind != b"u" or _HEX.issuperset(sequence[2:])
            if not digits_fit or kind not in b'"\\/bfnrtu':
                raise SyntaxProblem(
                    f"invalid escape sequence {_shown(sequence)} in string", at + len(sequence)
                )
            at += size
        raise SyntaxProblem("unexpected end of JSON input", None)


def _shown(sequence: bytes) -> str:
    text = sequence.decode("utf-8", "surrogateescape")
    plain = all(char.isprintable() and not char.isspace() and char != "`" for char in text)
    return f"`{text}`" if plain else quoted(text)
