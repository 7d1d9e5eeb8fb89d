"""Words into a tree: keys, values, nesting, separators.

Here lives the structure of the configuration language. Never lives here: single characters, options.

In short, `key: value`, `key = value` or `key value`, ended by a new line, `,` or `;`; a value is a scalar,
`{ keys }`, `[ values ]` or `$variable`; the whole text may stand in braces, which makes a JSON object a
configuration. Nesting is a list of frames, not recursion, and is bounded; so is the number of values,
counted after variables are filled in. What is written plainly is read by `plain`, which makes of it what is
made of it here.

After a mistake reading goes on at the next line or value, so that all mistakes are found at once.
Source: the Go server 2.15.1. More is accepted where JSON needs it (separator after a new line, value on the
next line inside braces, `[1,2]`); less where a slip is likely: an unclosed brace, an empty value.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from headrace.conf.lexer import KeyWord, Lexer, VariableName
from headrace.conf.plain import PlainReader
from headrace.conf.problems import shown
from headrace.conf.tree import BadValue, Entry, ListNode, MapNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.conf.includes import Includes
    from headrace.conf.problems import Problems
    from headrace.conf.source import SourceText
    from headrace.conf.tree import Node
    from headrace.conf.variables import Variables
    from headrace.errors import Position

MAX_DEPTH: Final = 100
"""Containers inside one another; deeper nesting ends the reading."""

MAX_VALUES: Final = 1_000_000
"""Values in one configuration with variables filled in; one more ends the reading."""


class _Shape(Enum):
    """The shape of a frame; a group is braces around keys that belong to the frame below."""

    TOP = auto()
    GROUP = auto()
    MAP = auto()
    LIST = auto()


_CLOSERS: Final = {_Shape.TOP: "", _Shape.GROUP: "}", _Shape.MAP: "}", _Shape.LIST: "]"}


class _Frame(Struct):
    shape: _Shape
    opened_at: int
    key: KeyWord | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    items: list[Node] = field(default_factory=list)
    after_value: bool = False
    """True if a value came last, so that one separator may follow."""


class Reading(Struct, frozen=True):
    """The part of reading that a file shares with the files it includes."""

    problems: Problems
    variables: Variables
    includes: Includes


class Parser:
    """Reads one text once."""

    def __init__(self, source: SourceText, reading: Reading) -> None:
        self._source = source
        self._reading = reading
        self._problems = reading.problems
        self._lexer = Lexer(source, reading.problems)
        self._plain = PlainReader(source.text, source.name, MAX_VALUES)
        self._frames: list[_Frame] = []

    def parse(self) -> MapNode:
        """The keys of the text; incomplete once problems are reported."""
        top = _Frame(_Shape.TOP, 0)
        self._frames.append(top)
        while self._frames and not self._problems.full:
            frame = self._frames[-1]
            self._read_next(frame)
        node = self._map_node(top)
        if node.size > MAX_VALUES:
            self._stop(f"more than {MAX_VALUES} values", 0)
        return node

    def parse_value(self) -> Node | None:
        """The one value that is the text, as in an environment variable; None if it is anything else."""
        bottom = _Frame(_Shape.LIST, 0)
        self._frames += [_Frame(_Shape.TOP, 0), bottom]
        self._lexer.skip_inline()
        if self._lexer.at_line_end():
            return None
        self._read_value(bottom, None)
        while len(self._frames) > 2 and not self._problems.full:
            self._read_next(self._frames[-1])
        return bottom.items[0] if bottom.items and self._rest_is_blank() else None

    # --- one step in a frame ---

    def _read_next(self, frame: _Frame) -> None:
        if frame.shape is not _Shape.TOP:  # where a value has to be on the line of its key
            self._read_plain(frame)
        if frame.shape is _Shape.LIST:
            self._read_item(frame)
        else:
            self._read_key(frame)

    def _read_plain(self, frame: _Frame) -> None:
        lexer = self._lexer
        start, position, room = lexer.offset, lexer.position(), MAX_DEPTH - len(self._frames)
        if frame.shape is _Shape.LIST:
            read = self._plain.items(start, position, frame.items, frame.after_value, room)
        else:
            read = self._plain.entries(start, position, frame.entries, frame.after_value, room)
        lexer.offset, frame.after_value = read

    def _read_key(self, frame: _Frame) -> None:
        lexer = self._lexer
        lexer.skip_blank()
        char = lexer.peek()
        if not char:
            self._end_of_text(frame)
        elif char in ",;":
            self._separator(frame, char)
        elif char in "}]":
            self._close(frame, char)
        elif char == "{" and frame.shape is not _Shape.MAP:
            self._open(_Frame(_Shape.GROUP, lexer.offset, entries=frame.entries))
        elif char in "{[":
            self._problems.syntax(f"a key is missing before '{char}'", lexer.position())
            self._open(_Frame(_Shape.MAP if char == "{" else _Shape.LIST, lexer.offset))
        else:
            key = lexer.key()
            if key is not None:
                self._after_key(frame, key)

    def _read_item(self, frame: _Frame) -> None:
        lexer = self._lexer
        lexer.skip_blank()
        char = lexer.peek()
        if not char:
            self._end_of_text(frame)
        elif char in ",;":
            self._separator(frame, char)
        elif char in "}]":
            self._close(frame, char)
        else:
            self._read_value(frame, None)

    def _after_key(self, frame: _Frame, key: KeyWord) -> None:
        lexer = self._lexer
        after_key = lexer.offset
        lexer.skip_whitespace()
        separated = lexer.peek() in (":", "=")
        if key.is_bare and not separated:
            if key.name.lower() == "include" and after_key != lexer.offset:
                self._include(frame)
                return
            if self._swallowed_a_closer(frame, key):
                return
        if key.is_bare and "{" in key.name[1:]:
            key = self._split_key(key)
        elif separated:
            lexer.offset += 1
            if frame.shape is _Shape.TOP:
                lexer.skip_inline()
            else:
                lexer.skip_whitespace()
        char = lexer.peek()
        if not char or char in "\r\n,;]}":
            self._no_value(frame, key.name, key.position)
            return
        self._read_value(frame, key, after_key=after_key)

    def _read_value(self, frame: _Frame, key: KeyWord | None, after_key: int | None = None) -> None:
        lexer = self._lexer
        start = lexer.offset
        char = lexer.peek()
        if char in "{[":
            self._open(_Frame(_Shape.MAP if char == "{" else _Shape.LIST, start, key))
            return
        word = lexer.value()
        if word is None:
            self._problems.syntax(f"a value cannot start with {char!r}", lexer.position())
            lexer.offset += 1
            lexer.resync(line=False)
            word = BadValue(lexer.position(start))
        if isinstance(word, VariableName):
            node = self._reading.variables.resolve(word, self._scopes(), self._problems, self._read_alone)
        else:
            node = word
        self._attach(frame, key, node)
        if not self._is_ended(frame):
            self._unexpected(key, start, after_key)

    # --- brackets ---

    def _open(self, frame: _Frame) -> None:
        if len(self._frames) > MAX_DEPTH:
            self._stop(f"nested deeper than {MAX_DEPTH} levels", frame.opened_at)
            return
        self._frames.append(frame)
        self._lexer.offset += 1

    def _close(self, frame: _Frame, char: str) -> None:
        lexer = self._lexer
        if char == _CLOSERS[frame.shape]:
            lexer.offset += 1
            self._pop()
            return
        position = lexer.position()
        if any(_CLOSERS[below.shape] == char for below in self._frames):
            opened = lexer.position(frame.opened_at)
            opener = "[" if frame.shape is _Shape.LIST else "{"
            message = f"'{opener}' of line {opened.line} is not closed before this '{char}'"
            self._problems.syntax(message, position, structural=True)
            self._pop()
            return
        lexer.offset += 1
        frame.after_value = True
        if char == "}" and self._rest_is_blank():
            # The Go server takes no notice of it, so neither may we refuse such a file.
            self._problems.warn("this '}' closes nothing", position)
        else:
            self._problems.syntax(f"this '{char}' closes nothing", position, structural=True)

    def _pop(self) -> None:
        frame = self._frames.pop()
        below = self._frames[-1]
        if frame.shape is _Shape.GROUP:
            below.after_value = True
        else:
            self._attach(below, frame.key, self._container(frame))
        if not self._is_ended(below):
            self._unexpected(frame.key, frame.opened_at, None)

    def _container(self, frame: _Frame) -> Node:
        node: ListNode | MapNode
        if frame.shape is _Shape.LIST:
            size = sum(map(_size, frame.items)) + 1
            depth = max(map(_depth, frame.items), default=0) + 1
            node = ListNode(tuple(frame.items), self._lexer.position(frame.opened_at), size, depth)
        else:
            node = self._map_node(frame)
        if node.size > MAX_VALUES:
            self._stop(f"more than {MAX_VALUES} values", frame.opened_at)
        elif node.depth > MAX_DEPTH:
            self._stop(f"nested deeper than {MAX_DEPTH} levels", frame.opened_at)
        else:
            return node
        return BadValue(node.position)

    def _map_node(self, frame: _Frame) -> MapNode:
        nodes = [entry.node for entry in frame.entries.values()]
        size, depth = sum(map(_size, nodes)) + 1, max(map(_depth, nodes), default=0) + 1
        return MapNode(frame.entries, self._lexer.position(frame.opened_at), size, depth)

    # --- keys, values and what stands between them ---

    def _attach(self, frame: _Frame, key: KeyWord | None, node: Node) -> None:
        frame.after_value = True
        if frame.shape is _Shape.LIST:
            frame.items.append(node)
        elif key is not None:
            frame.entries[key.name] = Entry(key.name, key.position, node)

    def _separator(self, frame: _Frame, char: str) -> None:
        if not frame.after_value:
            self._problems.syntax(f"'{char}' with no value before it", self._lexer.position())
        elif char == ";" and frame.shape is _Shape.LIST:
            self._problems.syntax("values of a list are separated by ',', not ';'", self._lexer.position())
        frame.after_value = False
        self._lexer.offset += 1

    def _is_ended(self, frame: _Frame) -> bool:
        """True if something follows that may follow a value; only spaces are passed."""
        lexer = self._lexer
        lexer.skip_inline()
        if not frame.after_value or not self._frames:
            return True
        return lexer.at_line_end() or lexer.peek() in ",;}]" or lexer.at_comment()

    def _unexpected(self, key: KeyWord | None, start: int, after_key: int | None) -> None:
        """Report what follows a value on its line, or the slip that made it seem to."""
        lexer = self._lexer
        opener = lexer.text[start]
        if opener in "\"'" and lexer.spans_lines(start):
            message = f"is this string's closing {opener} missing? It goes on for lines"
            self._problems.syntax(message, lexer.position(start), structural=True)
            lexer.offset = start
        elif key is not None and after_key is not None and "\n" in lexer.text[after_key:start]:
            self._no_value(self._frames[-1], key.name, key.position)
            lexer.offset = after_key
        else:
            char = lexer.peek()
            message = f"expected a new line or ',' after the value, not {char!r}"
            hint = "put the value in quotes if this belongs to it" if opener not in "\"'{[(" else None
            self._problems.syntax(message, lexer.position(), hint)
        lexer.resync(line=self._frames[-1].shape is _Shape.TOP)

    def _no_value(self, frame: _Frame, name: str, position: Position) -> None:
        self._problems.syntax(f"key {shown(name)} has no value", position)
        # The key is there, so that a variable which refers to it is no second mistake.
        frame.entries[name] = Entry(name, position, BadValue(position))

    def _swallowed_a_closer(self, frame: _Frame, key: KeyWord) -> bool:
        """True if an unquoted key has swallowed what follows it, as in `{a, b}`; then reading goes back
        there.
        """
        ends = [index for index in map(key.name.find, ",;}]") if index > 0]
        if not ends:
            return False
        name = key.name[: min(ends)]
        self._lexer.offset = key.offset + len(name)
        self._no_value(frame, name, key.position)
        return True

    def _split_key(self, key: KeyWord) -> KeyWord:
        """The part of a key before `{`, with the place set back to it: `tls{` was meant as `tls {`."""
        name = key.name[: key.name.index("{", 1)]
        self._lexer.offset = key.offset + len(name)
        hint = "or quote the key if it belongs to it"
        self._problems.syntax("a space is missing before '{'", self._lexer.position(), hint)
        return KeyWord(name, key.position, key.offset, is_bare=True)

    def _end_of_text(self, frame: _Frame) -> None:
        if frame.shape is not _Shape.TOP:
            opener = "[" if frame.shape is _Shape.LIST else "{"
            position = self._lexer.position(frame.opened_at)
            self._problems.syntax(f"'{opener}' is never closed", position, structural=True)
        self._frames.clear()

    def _rest_is_blank(self) -> bool:
        self._lexer.skip_blank()
        return not self._lexer.peek()

    def _stop(self, message: str, offset: int) -> None:
        self._problems.syntax(message, self._lexer.position(offset), structural=True)
        self._frames.clear()
        self._lexer.offset = len(self._lexer.text)

    # --- what comes from elsewhere ---

    def _scopes(self) -> Iterator[dict[str, Entry]]:
        return (frame.entries for frame in reversed(self._frames) if frame.shape is not _Shape.LIST)

    def _include(self, frame: _Frame) -> None:
        name = self._lexer.file_name()
        if name is None:
            return
        node = self._reading.includes.load(
            name, self._source.directory, self._problems, lambda source: Parser(source, self._reading).parse()
        )
        if node is not None:
            frame.entries.update(node.entries)
        frame.after_value = True
        if not self._is_ended(frame):
            self._unexpected(None, self._lexer.offset, None)

    def _read_alone(self, source: SourceText, problems: Problems) -> Node | None:
        reading = Reading(problems, self._reading.variables, self._reading.includes)
        return Parser(source, reading).parse_value()


def _size(node: Node) -> int:
    return node.size if isinstance(node, ListNode | MapNode) else 1


def _depth(node: Node) -> int:
    return node.depth if isinstance(node, ListNode | MapNode) else 0
