"""Errors of a text that is not JSON, in the words of the Go server's JSON package.

Here lives the search for the first mistake; it is only made when there is one. Never lives here: reading
values.
Source: texts compared with the Go server 2.15.1 (`encoding/json` of Go 1.27).
"""

from __future__ import annotations

import re
from typing import Final

from headrace.server.wording import escaped

ENDS_EARLY: Final = "unexpected end of JSON input"
TOO_DEEP: Final = "exceeded max depth"

_DEPTH: Final = 10_000
_SPACE: Final = re.compile(rb"[ \t\r\n]*")
_PLAIN: Final = re.compile(rb'[^"\\\x00-\x1f]*')
_ESCAPE: Final = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_NUMBER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NUMBER_BEGUN: Final = re.compile(rb"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*|(?:\.[0-9]+)?[eE][+-]?)?)?")
_LITERALS: Final = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}

_VALUE: Final = "looking for beginning of value"
_KEY: Final = "looking for beginning of object key string"


class _Mistake(Exception):
    """The first one; its text is what the search was for."""


def problem(text: bytes) -> str | None:
    """The first mistake in it; None for JSON. Cost: some microseconds for each value and each level."""
    try:
        _Search(text).document()
    except _Mistake as mistake:
        return str(mistake)
    return None


class _Search:
    def __init__(self, text: bytes) -> None:
        self._text = text
        self._at = 0
        self._open: list[bytes] = []

    def document(self) -> None:
        """Walks through; deep nesting is a list here, not a stack of calls."""
        expects_value = True
        while True:
            self._skip()
            if expects_value:
                expects_value = self._value()
            elif not self._open:
                if self._at < len(self._text):
                    raise self._unexpected("after top-level value")
                return
            else:
                expects_value = self._after_value()

    def _skip(self) -> None:
        self._at = _end(_SPACE, self._text, self._at)

    def _value(self) -> bool:
        """One value, or the beginning of one that has others; whether a value is to come."""
        byte = self._peek()
        if byte in b"{[":
            return self._enter(byte)
        if byte == b'"':
            self._string()
        elif byte[0] in _LITERALS:
            self._literal(_LITERALS[byte[0]])
        elif byte in b"-0123456789":
            self._number()
        else:
            raise self._unexpected(_VALUE)
        return False

    def _enter(self, byte: bytes) -> bool:
        self._open.append(byte)
        if len(self._open) > _DEPTH:
            raise _Mistake(TOO_DEEP)
        self._at += 1
        self._skip()
        if self._peek() == (b"}" if byte == b"{" else b"]"):
            self._at += 1
            self._open.pop()
            return False
        if byte == b"{":
            self._key()
        return True

    def _key(self) -> None:
        if self._peek() != b'"':
            raise self._unexpected(_KEY)
        self._string()
        self._skip()
        if self._peek() != b":":
            raise self._unexpected("after object key")
        self._at += 1

    def _after_value(self) -> bool:
        byte = self._peek()
        in_object = self._open[-1] == b"{"
        if byte == b",":
            self._at += 1
            if in_object:
                self._skip()
                self._key()
            return True
        if byte != (b"}" if in_object else b"]"):
            raise self._unexpected("after object key:value pair" if in_object else "after array element")
        self._at += 1
        self._open.pop()
        return False

    def _string(self) -> None:
        self._at += 1
        while True:
            self._at = _end(_PLAIN, self._text, self._at)
            byte = self._peek()
            if byte == b'"':
                self._at += 1
                return
            if byte != b"\\":
                raise self._unexpected("in string")
            escape = _ESCAPE.match(self._text, self._at)
            if escape is None:
                raise self._bad_escape()
            self._at = escape.end()

    def _bad_escape(self) -> _Mistake:
        length = 6 if self._text[self._at + 1 : self._at + 2] == b"u" else 2
        shown = self._text[self._at : self._at + length]
        if len(shown) < length and b'"' not in shown:
            return _Mistake(ENDS_EARLY)
        return _Mistake(f"invalid escape sequence `{shown.decode(errors='replace')}` in string")

    def _literal(self, word: bytes) -> None:
        for expected in word:
            if self._peek()[0] != expected:
                raise self._unexpected(f"in literal {word.decode()} (expecting '{chr(expected)}')")
            self._at += 1

    def _number(self) -> None:
        whole = _NUMBER.match(self._text, self._at)
        begun = _end(_NUMBER_BEGUN, self._text, self._at)
        if whole is None or whole.end() < begun:
            self._at = begun
            raise self._unexpected("in numeric literal")
        self._at = whole.end()

    def _peek(self) -> bytes:
        """The next byte. Raises: _Mistake at the end."""
        byte = self._text[self._at : self._at + 1]
        if not byte:
            raise _Mistake(ENDS_EARLY)
        return byte

    def _unexpected(self, where: str) -> _Mistake:
        if self._at >= len(self._text):
            return _Mistake(ENDS_EARLY)
        return _Mistake(f"invalid character {_quoted(self._text[self._at : self._at + 4])} {where}")


def _end(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()


def _quoted(text: bytes) -> str:
    """The first character between single quotes; a byte that begins none in hexadecimal."""
    for length in range(1, len(text) + 1):
        try:
            character = text[:length].decode()
        except UnicodeDecodeError:
            continue
        shown = escaped(character, "'")
        return f"'{shown}'"
    return f"'\\x{text[0]:02x}'"
