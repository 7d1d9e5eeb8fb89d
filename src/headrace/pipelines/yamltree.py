"""YAML text to the tree of `headrace.conf.tree`: maps, lists and scalars, each with its position.

Here lives what of YAML a specification may use: maps, lists and scalars of YAML 1.2's core schema, so that
`no` and `1:30` are text. Anchors, tags and several documents are refused: nobody needs them here, and with
them a page of text can become gigabytes. Never lives here: any key of a specification.
PyYAML's scanner reads the text; its constructors, which make objects, are not used.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import yaml
from msgspec.structs import replace

from headrace.conf.problems import shown
from headrace.conf.tree import BadValue, Entry, ListNode, MapNode, Scalar
from headrace.errors import Position

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.conf.problems import Problems
    from headrace.conf.tree import Node, ScalarValue

MAX_BYTES: Final = 1 << 20
"""A larger specification is refused: it is something else by mistake."""

MAX_DEPTH: Final = 32
"""Maps and lists inside one another; deeper ends the reading."""

_NULL: Final = frozenset(("", "~", "null", "Null", "NULL"))
_TRUTH: Final = dict.fromkeys(("true", "True", "TRUE"), True) | dict.fromkeys(
    ("false", "False", "FALSE"), False
)
_WHOLE: Final = re.compile(r"[-+]?[0-9]{1,18}")
_FRACTION: Final = re.compile(r"[-+]?(?:[0-9]{1,18}\.[0-9]{0,18}|\.[0-9]{1,18})(?:[eE][-+]?[0-9]{1,3})?")
_PARAMETER: Final = re.compile(r"\$(\$)?\{([^{}\n]*)\}")


def read_tree(text: str, file: str, problems: Problems) -> MapNode:
    """The whole document as a map; what is wrong with it is added to `problems` and left out.

    Cost: linear in the text.
    """
    origin = Position(file, 1, 1)
    empty = MapNode({}, origin)
    if len(text) > MAX_BYTES:
        problems.add(f"larger than {MAX_BYTES:,} bytes: not a specification of a pipeline", origin)
        return empty
    try:
        root = _Composer(file, yaml.parse(text, yaml.SafeLoader), problems).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = _position(file, mark) if mark else origin
        problems.syntax(f"not YAML: {error.problem or error.context}", where, _advice(error.problem))
        return empty
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problems.syntax(f"not YAML: {error.reason}", Position(file, line, 1))
        return empty
    if isinstance(root, MapNode):
        return root
    if not isinstance(root, BadValue):
        problems.add("a specification is a map of keys such as sources: and sinks:", origin)
    return empty


def substitute(node: Node, values: Mapping[str, str], problems: Problems) -> Node:
    """The tree with every `${name}` replaced; `$${name}` stands for the text `${name}` itself.

    A scalar without quotes that becomes a number or a truth value by it, is one.
    """
    match node:
        case MapNode(entries=entries):
            changed = {
                key: replace(entry, node=substitute(entry.node, values, problems))
                for key, entry in entries.items()
            }
            return replace(node, entries=changed)
        case ListNode(items=items):
            return replace(node, items=tuple(substitute(item, values, problems) for item in items))
        case Scalar(value=str(text)) if "${" in text:
            return _filled(node, text, values, problems)
    return node


def _filled(node: Scalar, text: str, values: Mapping[str, str], problems: Problems) -> Node:
    missing = [name for escaped, name in _PARAMETER.findall(text) if not escaped and name not in values]
    for name in missing:
        there = f"parameters: {', '.join(values)}" if values else "there are no parameters"
        problems.add(f"unknown parameter {shown(name)}", node.position, there)
    if missing:
        return BadValue(node.position)

    def value_of(match: re.Match[str]) -> str:
        return match[0][1:] if match[1] else values[match[2]]

    made = _PARAMETER.sub(value_of, text)
    is_quoted = node.text != text
    return Scalar(made if is_quoted else resolve(made), node.position, made)


def resolve(text: str) -> ScalarValue:
    """Resolve a text without quotes: a truth value or number as in JSON, else the text."""
    if text in _TRUTH:
        return _TRUTH[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _FRACTION.fullmatch(text):
        return float(text)
    return text


def _mark(event: yaml.Event) -> Any:
    """PyYAML's line and column, counted from 0; its types say less than it does."""
    return event.start_mark


def _position(file: str, mark: Any) -> Position:
    return Position(file, mark.line + 1, mark.column + 1)


def _advice(problem: str | None) -> str | None:
    if problem and "cannot start any token" in problem:
        return "indent with blanks, and put texts that begin with @, ` or % in quotes"
    if problem and "mapping values are not allowed" in problem:
        return "put a text that holds a colon in quotes, or after |"
    return None


class _Composer:
    """Events of PyYAML to nodes."""

    def __init__(self, file: str, events: Iterator[yaml.Event], problems: Problems) -> None:
        self._file = file
        self._events = events
        self._problems = problems

    def document(self) -> Node:
        root: Node = BadValue(Position(self._file, 1, 1))
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._problems.add("a second document: a file holds one pipeline", self._at(event))
                    return root
                root = self._node(next(self._events), 0, "the specification")
        if not documents:
            self._problems.add("the file is empty", Position(self._file, 1, 1))
        return root

    def _node(self, event: yaml.Event, depth: int, what: str) -> Node:
        at = self._at(event)
        if isinstance(event, yaml.AliasEvent):
            self._problems.add(
                "anchors and aliases (&, *) are not supported", at, "use parameters: and ${name}"
            )
            return BadValue(at)
        assert isinstance(event, yaml.NodeEvent)
        if event.anchor is not None:
            self._problems.add(
                "anchors and aliases (&, *) are not supported", at, "use parameters: and ${name}"
            )
        tag = getattr(event, "tag", None)
        if tag is not None:
            self._problems.add(f"tags are not supported: {shown(str(tag))}", at)
        if depth > MAX_DEPTH:
            raise yaml.MarkedYAMLError(
                problem=f"maps and lists are deeper than {MAX_DEPTH} in one another",
                problem_mark=_mark(event),
            )
        if isinstance(event, yaml.MappingStartEvent):
            return self._map(at, depth)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(at, depth)
        assert isinstance(event, yaml.ScalarEvent)
        return self._scalar(event, at, what)

    def _map(self, at: Position, depth: int) -> MapNode:
        entries: dict[str, Entry] = {}
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            place = self._at(event)
            if not isinstance(event, yaml.ScalarEvent):
                self._problems.add("a key must be a single word", place)
                self._node(event, depth + 1, "the key")
                self._node(next(self._events), depth + 1, "the value")
                continue
            key = event.value
            node = self._node(next(self._events), depth + 1, f"field {shown(key)}")
            if key in entries:
                first = entries[key].position.line
                self._problems.add(f"field {shown(key)} is there twice", place, f"first in line {first}")
                continue
            entries[key] = Entry(key, place, node)
        return MapNode(entries, at)

    def _list(self, at: Position, depth: int) -> ListNode:
        items: list[Node] = []
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            items.append(self._node(event, depth + 1, "this item of the list"))
        return ListNode(tuple(items), at, len(items))

    def _scalar(self, event: yaml.ScalarEvent, at: Position, what: str) -> Node:
        text = event.value
        if event.style is not None:  # quoted, or a block after | or >
            return Scalar(text, at, f'"{text}"')
        if text in _NULL:
            self._problems.add(f"{what} has no value", at, "give it one, or leave it out")
            return BadValue(at)
        return Scalar(resolve(text), at, text)

    def _at(self, event: yaml.Event) -> Position:
        return _position(self._file, _mark(event))
