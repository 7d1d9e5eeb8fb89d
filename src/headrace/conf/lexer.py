"""Characters into words: keys, strings, unquoted words, comments, white space.

Here lives everything that looks at single characters. Never lives here: nesting, variables' values,
options. The parser asks for what its place in the grammar allows, since the same characters mean
different things as key and as value (`#` starts a comment before a key, and is part of an unquoted value).

Every pattern is possessive, so no text makes matching slower than linear.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

from headrace.conf import literals
from headrace.conf.tree import BadValue, Scalar

if TYPE_CHECKING:
    from headrace.conf.problems import Problems
    from headrace.conf.source import SourceText
    from headrace.errors import Position

# Python counts four control characters as white space that the Go server does not.
_WHITE: Final = r"[^\S\x1c-\x1f]"
_BLANK: Final = re.compile(rf"(?:{_WHITE}++|#[^\r\n]*+|//[^\r\n]*+)*+")
_INLINE: Final = re.compile(r"[ \t]*+")
_WHITESPACE: Final = re.compile(rf"{_WHITE}*+")
_BARE_KEY: Final = re.compile(r"(?:[^\s:=]|[\x1c-\x1f])++")
_FILE_NAME: Final = re.compile(r"[^\r\n;} \t']*+")
_DOUBLE_QUOTED: Final = re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_SINGLE_QUOTED: Final = re.compile(r"'([^']*+)'")
_BLOCK_END: Final = re.compile(r"\n\)(?=\r?\n|\Z)")
_BARE_VALUE: Final = re.compile(r"(?:[^\r\n;,\]} \t'\\]++|\\.)++", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}
_RESYNC: Final = re.compile(r"[^\r\n,;\]}]*+")
_LINE: Final = re.compile(r"[^\r\n]*+")
_BCRYPT: Final = re.compile(r"\$2(?:a\$|[bxy]\$[0-9]{2}\$)")

_ALLOWED_ESCAPES: Final = r"allowed are \xXX \uXXXX \t \n \r \b \f \/ \" \\"


def is_bcrypt(word: str) -> bool:
    """True if a word that starts with `$` is the hash of a password, and no variable."""
    return _BCRYPT.match(word) is not None


class KeyWord(Struct, frozen=True):
    """A key as written; an unquoted one may turn out to be the word `include`."""

    name: str
    position: Position
    offset: int
    is_bare: bool


class VariableName(Struct, frozen=True):
    """An unquoted `$NAME` in place of a value."""

    name: str
    position: Position


Word: TypeAlias = Scalar | VariableName | BadValue


class Lexer:
    """A place in one text. A method that cannot do what it is asked reports it and skips what is broken."""

    __slots__ = ("_has_block_end", "_problems", "_source", "offset", "text")

    def __init__(self, source: SourceText, problems: Problems) -> None:
        self._source = source
        self._problems = problems
        self.text: Final = source.text
        self.offset = 0
        # Once a search for the end of a block fails, all later ones would, each going through the whole text.
        self._has_block_end = True

    def peek(self) -> str:
        """The character here, "" at the end."""
        return self.text[self.offset : self.offset + 1]

    def position(self, offset: int | None = None) -> Position:
        return self._source.position(self.offset if offset is None else offset)

    def skip_blank(self) -> None:
        """Go to the next key, value or bracket: past white space, new lines and comments."""
        self._skip(_BLANK)

    def skip_inline(self) -> None:
        """Go past spaces and tabs."""
        self._skip(_INLINE)

    def skip_whitespace(self) -> None:
        """Go past white space and new lines but no comment."""
        self._skip(_WHITESPACE)

    def resync(self, *, line: bool) -> None:
        """Go to where the next thing may start: the end of the line, or else of this value."""
        self._skip(_LINE if line else _RESYNC)

    def at_line_end(self) -> bool:
        return self.peek() in ("", "\r", "\n")

    def at_comment(self) -> bool:
        return self.peek() == "#" or self.text.startswith("//", self.offset)

    def spans_lines(self, start: int) -> bool:
        """True if a new line lies between there and here."""
        return self.text.find("\n", start, self.offset) >= 0

    def key(self) -> KeyWord | None:
        """The key that starts here; None if there is none, then the line is skipped."""
        start = self.offset
        position = self.position()
        quote = self.peek()
        if quote in ('"', "'"):
            match = (_DOUBLE_QUOTED if quote == '"' else _SINGLE_QUOTED).match(self.text, start)
            if match is None:
                self._unclosed(start)
                return None
            self.offset = match.end()
            # JSON's escapes mean in a key what they mean in JSON; any other backslash is just a character.
            name = self._unescaped(match[1], start + 1, leniently=True) if quote == '"' else match[1]
            return None if name is None else KeyWord(name, position, start, is_bare=False)
        match = _BARE_KEY.match(self.text, start)
        if match is None:
            self._problems.syntax(f"a key is missing before {quote!r}", position)
            self.resync(line=True)
            return None
        self.offset = match.end()
        return KeyWord(match[0], position, start, is_bare=True)

    def value(self) -> Word | None:
        """The scalar that starts here; None if no value does.

        A container is not looked at: the caller knows its brackets.
        """
        char = self.peek()
        if char == '"':
            return self._double_quoted()
        if char == "'":
            return self._single_quoted()
        if char == "(":
            return self._block()
        return self._bare()

    def file_name(self) -> Scalar | None:
        """The value of `include`: quoted without escapes, or unquoted up to white space, `;` or `}`.

        None if it cannot be a file name; that is reported.
        """
        start = self.offset
        position = self.position()
        quote = self.peek()
        if quote in ('"', "'"):
            end = self.text.find(quote, start + 1)
            if end < 0:
                self._unclosed(start)
                return None
            self.offset = end + 1
            name = self.text[start + 1 : end]
        else:
            match = _FILE_NAME.match(self.text, start)
            name = match[0] if match else ""
            self.offset += len(name)
            if not name or name[0] in "[{(-\\0123456789":
                self._problems.syntax("a file name must follow 'include'", position, "put it in quotes")
                self.resync(line=True)
                return None
        return Scalar(name, position, name)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.offset)
        if match is not None:
            self.offset = match.end()

    def _double_quoted(self) -> Word:
        start = self.offset
        match = _DOUBLE_QUOTED.match(self.text, start)
        if match is None:
            return self._unclosed(start)
        self.offset = match.end()
        value = self._unescaped(match[1], start + 1)
        if value is None:
            return BadValue(self.position(start))
        return Scalar(value, self.position(start), match[1])

    def _single_quoted(self) -> Word:
        start = self.offset
        match = _SINGLE_QUOTED.match(self.text, start)
        if match is None:
            return self._unclosed(start)
        self.offset = match.end()
        return Scalar(match[1], self.position(start), match[1])

    def _block(self) -> Word:
        start = self.offset
        match = _BLOCK_END.search(self.text, start) if self._has_block_end else None
        if match is None:
            self._has_block_end = False
            hint = "a block ends with ')' alone on a line"
            self._problems.syntax("'(' is never closed", self.position(start), hint, structural=True)
            self.resync(line=True)
            return BadValue(self.position(start))
        self.offset = match.end()
        text = self.text[start + 1 : match.start() + 1]
        return Scalar(text, self.position(start), text)

    def _bare(self) -> Word | None:
        start = self.offset
        match = _BARE_VALUE.match(self.text, start)
        if match is None:
            return None
        self.offset = match.end()
        word = match[0]
        position = self.position(start)
        if "\\" in word:
            value = self._unescaped(word, start)
            return BadValue(position) if value is None else Scalar(value, position, word)
        if word[0] == "$":
            return Scalar(word, position, word) if is_bcrypt(word) else VariableName(word[1:], position)
        try:
            return Scalar(literals.meaning(word), position, word)
        except literals.LiteralError as error:
            self._problems.syntax(str(error), position, error.hint)
            return BadValue(position)

    def _unescaped(self, text: str, start: int, *, leniently: bool = False) -> str | None:
        """The text with its escapes replaced; None if one is wrong, which is reported where it stands."""
        if "\\" not in text:
            return text
        pieces: list[bytes] = []
        end = 0
        for match in _ESCAPE.finditer(text):
            piece = _escaped_bytes(match)
            if piece is None and leniently:
                piece = match[0].encode()
            if piece is None:
                position = self.position(start + match.start())
                self._problems.syntax("unknown escape", position, _ALLOWED_ESCAPES)
                return None
            pieces += (text[end : match.start()].encode(), piece)
            end = match.end()
        pieces.append(text[end:].encode())
        try:
            # Two \u escapes may be the halves of one character; two \x escapes the bytes of one.
            halves = b"".join(pieces).decode("utf-8", "surrogatepass")
            return halves.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._problems.syntax("the escapes do not make a Unicode character", self.position(start))
            return None

    def _unclosed(self, start: int) -> BadValue:
        position = self.position(start)
        message = f"the string that starts here with {self.text[start]} is never closed"
        self._problems.syntax(message, position, structural=True)
        self.resync(line=True)
        return BadValue(position)


def _escaped_bytes(match: re.Match[str]) -> bytes | None:
    byte, code, char = match.groups()
    if byte is not None:
        return bytes.fromhex(byte)
    if code is not None:
        return chr(int(code, 16)).encode("utf-8", "surrogatepass")
    plain = _ESCAPED.get(char)
    return None if plain is None else plain.encode()
