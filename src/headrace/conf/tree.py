"""The tree a configuration text becomes: maps, lists and scalars, each with its position.

Here lives plain data. Never lives here: any option's name, reading of characters.
Reading order: `tree`, `source`, `lexer`, `parser`, `language`; then `fields` and `binding`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from datetime import datetime

    from headrace.errors import Position

    ScalarValue: TypeAlias = str | bool | int | float | datetime


class Scalar(Struct, frozen=True):
    """A string, number, truth value or time.

    `text` is how it was written, without quotes and before escapes. A number with an exponent is a
    number here, as in JSON; whoever wants a string takes `text` (`1e5` may be part of a password).
    """

    value: ScalarValue
    position: Position
    text: str


class ListNode(Struct, frozen=True):
    """A list; `size` counts the values in it, `depth` the containers inside one another, itself included."""

    items: tuple[Node, ...]
    position: Position
    size: int = 1
    depth: int = 1


class MapNode(Struct, frozen=True):
    """A map in the order written; of a key written twice the last one counts."""

    entries: dict[str, Entry]
    position: Position
    size: int = 1
    depth: int = 1


class BadValue(Struct, frozen=True):
    """Stands where a value could not be read; that problem is reported already, nothing more to say."""

    position: Position


Node: TypeAlias = Scalar | ListNode | MapNode | BadValue


class Entry(Struct):
    """A key with its value; `used` once a variable refers to it, so an unknown key is no mistake."""

    key: str
    position: Position
    node: Node
    used: bool = False


PlainValue: TypeAlias = "ScalarValue | list[PlainValue] | dict[str, PlainValue] | None"


def plain(node: Node) -> PlainValue:
    """The node as ordinary Python values; a value that could not be read becomes None."""
    match node:
        case Scalar(value=value):
            return value
        case ListNode(items=items):
            return [plain(item) for item in items]
        case MapNode(entries=entries):
            return {key: plain(entry.node) for key, entry in entries.items()}
        case BadValue():
            return None
