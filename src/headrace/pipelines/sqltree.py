"""SQL text to the tree of `headrace.conf.tree`: the same keys as in YAML, said in statements.

    SET name = value;
    CREATE STREAM | TABLE | VIEW | EXPECTATION | SINK name clause ... [AS query];
    CREATE DEAD LETTERS clause ...;

Here lives how statements and clauses are written and which key each is. Never lives here: what values a key
takes (`reading`), the SQL of queries and conditions, which Spark reads. Comments, quotes and brackets in them
are known, so that a `;` inside ends nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, NoReturn

from headrace.conf.problems import shown
from headrace.conf.tree import Entry, ListNode, MapNode, Scalar
from headrace.errors import Position
from headrace.pipelines.yamltree import MAX_BYTES, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.conf.problems import Problems
    from headrace.conf.tree import Node

_TOKEN: Final = re.compile(
    r"""
      (?P<blank> \s+ | --[^\n]* | /\*.*?\*/ )
    | (?P<string> '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" )
    | (?P<name> `(?:[^`]|``)*` )
    | (?P<mark> [(),;=] )
    | (?P<word> (?:(?!--|/\*)[^\s(),;'"`=])+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_GROUPS: Final = ("nats", "parameters")
"""The groups of `SET group.key = value`; in `spark` the key is the whole name, as Spark has it."""

_KINDS: Final = {
    "STREAM": "sources",
    "TABLE": "sources",
    "VIEW": "transforms",
    "EXPECTATION": "expectations",
    "SINK": "sinks",
    "DEAD": "dead_letters",
}


def read_sql_tree(text: str, file: str, problems: Problems) -> MapNode:
    """The whole file as a map; of a statement that is wrong the first problem is added, and it is left out.

    Cost: linear in the text.
    """
    root = MapNode({}, Position(file, 1, 1))
    if len(text) > MAX_BYTES:
        problems.add(f"larger than {MAX_BYTES:,} bytes: not a specification of a pipeline", root.position)
        return root
    lines = _Lines(text, file)
    try:
        for statement in _statements(text, lines):
            try:
                _Statement(text, lines, statement).add_to(root)
            except _Wrong as error:
                problems.add(*error.problem)
    except _Wrong as error:
        problems.syntax(*error.problem)
    if not root.entries and not len(problems):
        problems.add("the file is empty", root.position)
    return root


class _Wrong(Exception):  # never leaves this module
    """An error in a statement: text, position, hint."""

    def __init__(self, text: str, position: Position, hint: str | None = None) -> None:
        super().__init__(text)
        self.problem = (text, position, hint)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def upper(self) -> str:
        """A keyword's name; of what is quoted, nothing."""
        return self.text.upper() if self.kind in ("word", "mark") else ""


class _Lines:
    """Places in the text as lines and columns, asked for in any order."""

    def __init__(self, text: str, file: str) -> None:
        self._file = file
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def at(self, offset: int) -> Position:
        from bisect import bisect_right

        line = bisect_right(self._starts, offset)
        return Position(self._file, line, offset - self._starts[line - 1] + 1)


def _statements(text: str, lines: _Lines) -> Iterator[list[_Token]]:
    found: list[_Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            what = "comment" if text.startswith("/*", at) else "quote"
            raise _Wrong(f"a {what} that is not closed", lines.at(at))
        kind = match.lastgroup or ""
        if match[0] == ";" and kind == "mark":
            if found:
                yield found
            found = []
        elif kind != "blank":
            found.append(_Token(kind, match[0], at))
        at = match.end()
    if found:
        yield found


class _Statement:
    """One statement, read from its first token to its last."""

    def __init__(self, text: str, lines: _Lines, tokens: list[_Token]) -> None:
        self._text = text
        self._lines = lines
        self._tokens = tokens
        self._at = 0

    def add_to(self, root: MapNode) -> None:
        """Read it into the tree. Raises: _Wrong."""
        first = self._next("a statement")
        if first.upper == "SET":
            self._set(root)
        elif first.upper == "CREATE":
            self._create(root)
        else:
            self._wrong(f"{shown(first.text)} begins no statement", first, "there are SET and CREATE")

    def _set(self, root: MapNode) -> None:
        name = self._next("a name")
        key, place = name.text, self._lines.at(name.start)
        self._expect("=")
        node = self._value()
        if self._at < len(self._tokens):
            extra = self._tokens[self._at]
            self._wrong(
                f"{shown(extra.text)} after the value",
                extra,
                "put texts in quotes, and ; behind each statement",
            )
        group, dot, rest = key.partition(".")
        if dot and group in (*_GROUPS, "spark"):
            root = self._group(root, group, place)
            key = key if group == "spark" else rest
        self._put(root, key, place, node)

    def _create(self, root: MapNode) -> None:
        kind = self._next("what to create")
        group = _KINDS.get(kind.upper)
        if group is None:
            names = ["DEAD LETTERS" if name == "DEAD" else name for name in _KINDS]
            close = get_close_matches(kind.text.upper()[:40], names, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"
            self._wrong(f"CREATE {kind.text} is not known", kind, hint)
        begin = self._lines.at(kind.start)
        thing = MapNode({}, begin)
        if kind.upper == "DEAD":
            self._expect("LETTERS")
            self._clauses(thing)
            self._put(root, group, begin, thing)
            return
        name = self._next("its name")
        place = self._lines.at(name.start)
        if kind.upper == "TABLE":
            self._put(thing, "stream", begin, Scalar(False, begin, "false"))
        self._clauses(thing)
        self._put(self._group(root, group, begin), _unquoted(name), place, thing)

    def _clauses(self, thing: MapNode) -> None:
        if self._peek() == "(":
            place = self._lines.at(self._tokens[self._at].start)
            self._put(thing, "schema", place, self._bracketed("the columns"))
        while self._at < len(self._tokens):
            clause = self._next("a clause")
            found = _CLAUSES.get(clause.upper)
            if found is None:
                close = get_close_matches(clause.text.upper()[:40], _CLAUSES, n=1)
                hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(_CLAUSES)}"
                self._wrong(f"{shown(clause.text)} is no clause here", clause, hint)
            key, read = found
            self._put(thing, key, self._lines.at(clause.start), read(self))

    # --- what clauses take ---

    def _value(self) -> Scalar:
        """A text in quotes, or a word or number as it is."""
        token = self._next("a value")
        place = self._lines.at(token.start)
        if token.kind == "mark":
            self._wrong(f"{shown(token.text)} where a value should be", token)
        if token.kind == "word":
            return Scalar(resolve(token.text), place, token.text)
        value = _unquoted(token)
        return Scalar(value, place, f'"{value}"')

    def _word(self) -> Scalar:
        """A value whose letters' case says nothing."""
        value = self._value()
        return Scalar(value.text.lower(), value.position, value.text) if value.value == value.text else value

    def _names(self) -> Node:
        """One name, or several with commas."""
        first = self._value()
        items: list[Node] = [first]
        while self._peek() == ",":
            self._at += 1
            items.append(self._value())
        return ListNode(tuple(items), first.position, len(items)) if len(items) > 1 else first

    def _partitions(self) -> Node:
        self._expect("BY")
        self._expect("(")
        names = self._names()
        self._expect(")")
        return names

    def _options(self) -> MapNode:
        opening = self._expect("(")
        options = MapNode({}, self._lines.at(opening.start))
        while True:
            key = self._next("an option's name")
            if key.kind == "mark":
                self._wrong(f"{shown(key.text)} where an option's name should be", key)
            if self._peek() == "=":
                self._at += 1
            self._put(options, _unquoted(key), self._lines.at(key.start), self._value())
            mark = self._next(", or )")
            if mark.text == ")":
                return options
            if mark.text != ",":
                self._wrong(f"{shown(mark.text)} where , or ) should be", mark)

    def _watermark(self) -> MapNode:
        column = self._value()
        key = self._expect("DELAY")
        delay = self._value()
        entries = {
            "column": Entry("column", column.position, column),
            "delay": Entry("delay", self._lines.at(key.start), delay),
        }
        return MapNode(entries, column.position)

    def _condition(self) -> Scalar:
        return self._bracketed("the condition")

    def _bracketed(self, what: str) -> Scalar:
        """The text between this bracket and the one that closes it, as it is."""
        opening = self._expect("(")
        depth = 1
        while depth:
            token = self._next(f") behind {what}")
            depth += {"(": 1, ")": -1}.get(token.upper, 0)
        text = self._text[opening.end : token.start].strip()
        return Scalar(text, self._lines.at(opening.end), f'"{text}"')

    def _query(self) -> Scalar:
        """Return the text up to the end of the statement, as it is written."""
        first = self._next("a query")
        text = self._text[first.start : self._tokens[-1].end]
        self._at = len(self._tokens)
        return Scalar(text, self._lines.at(first.start), f'"{text}"')

    # --- tokens and entries ---

    def _peek(self) -> str:
        return self._tokens[self._at].upper if self._at < len(self._tokens) else ""

    def _next(self, what: str) -> _Token:
        if self._at == len(self._tokens):
            self._wrong(f"the statement ends where {what} should be", self._tokens[-1])
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, keyword: str) -> _Token:
        token = self._next(keyword)
        if token.upper != keyword:
            self._wrong(f"{shown(token.text)} where {keyword} should be", token)
        return token

    def _group(self, root: MapNode, key: str, place: Position) -> MapNode:
        entry = root.entries.get(key)
        if entry is None:
            entry = root.entries[key] = Entry(key, place, MapNode({}, place))
        if not isinstance(entry.node, MapNode):
            raise _Wrong(f"{key} is set as a whole", place, f"in line {entry.position.line}")
        return entry.node

    def _put(self, into: MapNode, key: str, place: Position, node: Node) -> None:
        if key in into.entries:
            first = into.entries[key].position.line
            raise _Wrong(f"{shown(key)} is there twice", place, f"first in line {first}")
        into.entries[key] = Entry(key, place, node)

    def _wrong(self, text: str, token: _Token, hint: str | None = None) -> NoReturn:
        raise _Wrong(text, self._lines.at(token.start), hint)


_CLAUSES: Final[dict[str, tuple[str, Callable[[_Statement], Node]]]] = {
    "USING": ("format", _Statement._value),
    "OPTIONS": ("options", _Statement._options),
    "PATH": ("path", _Statement._value),
    "TABLE": ("table", _Statement._value),
    "PYTHON": ("python", _Statement._value),
    "ARGUMENTS": ("arguments", _Statement._options),
    "FROM": ("from", _Statement._names),
    "MODE": ("mode", _Statement._word),
    "PARTITIONED": ("partition_by", _Statement._partitions),
    "TRIGGER": ("trigger", _Statement._value),
    "WATERMARK": ("watermark", _Statement._watermark),
    "ON": ("view", _Statement._value),
    "CHECK": ("check", _Statement._condition),
    "OTHERWISE": ("otherwise", _Statement._word),
    "AS": ("sql", _Statement._query),
}
"""The clauses by keyword: the key of YAML, and what follows."""


def _unquoted(token: _Token) -> str:
    """A name or text without its quotes; doubled ones inside are one, \\ stands before a quote or a \\."""
    if token.kind == "word":
        return token.text
    quote = token.text[0]
    inner = token.text[1:-1].replace(quote * 2, quote)
    return inner if token.kind == "name" else re.sub(r"\\(['\"\\])", r"\1", inner)
