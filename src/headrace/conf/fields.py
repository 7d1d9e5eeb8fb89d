"""Reading typed values out of a tree by tables of keys.

Here lives the machinery: a `KeyTable` says which keys a map may have, under which names, of which type, and
which option each sets; a `Binder` applies it and collects problems. Never lives here: any key of the
NATS configuration; those stand in `binding` and the modules it names.

Keys are matched without regard to case. An unknown key is a problem, unless a variable refers to it (then
it exists for that). A key the Go server knows and this version does not is a problem too, unless its value
says that it is off.
"""

from __future__ import annotations

from enum import Enum
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from msgspec import Struct, field

from headrace.conf.problems import shown
from headrace.conf.tree import BadValue, ListNode, MapNode, Scalar
from headrace.protocol.durations import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from headrace.conf.keys import Key, Keyed
    from headrace.conf.problems import Problems
    from headrace.conf.tree import Entry, Node
    from headrace.errors import Position

    Reader = Callable[["Binder", Entry], object]

_UNITS: Final = {"K": 10, "M": 20, "G": 30, "T": 40}
_INT64: Final = range(-(1 << 63), 1 << 63)
_MAX_SUGGESTED_FOR: Final = 40  # characters; comparing longer keys costs too much


class Unset(Enum):
    """The result of a reader that has no value to set: the value was bad, or means the default."""

    UNSET = 0


UNSET: Final = Unset.UNSET
UnsetType: TypeAlias = Literal[Unset.UNSET]


class Field(Struct, frozen=True):
    """One key under all its names, the preferred one first.

    `read` gives the option's value, or UNSET after reporting why not. `option` is the name it is bound to,
    the preferred name if None. With `spreads` it gives a mapping of several options instead. `idle`: why the
    key, which nats-server has, changes nothing here; whoever asks something of it is told. `binds` False:
    nothing is made of the value, which is only read.

    For the reference: `text` says what the key means, `kind` is its type and `default` its default, where
    reader and options do not say them. `concerns`: the options that the key is about, beside its own.
    """

    names: tuple[str, ...]
    read: Reader
    option: str | None = None
    spreads: bool = False
    idle: str = ""
    binds: bool = True
    text: str = ""
    kind: str = ""
    default: str | None = None
    concerns: tuple[str, ...] = ()


class Bound(Struct, frozen=True):
    """The values that a map sets, by option, and the position of each.

    `failed` names options whose value had a problem, so that rules about them say nothing misleading.
    """

    values: dict[str, object] = field(default_factory=dict)
    positions: dict[str, Position] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)


class KeyTable:
    """The keys one kind of map may have.

    `unsupported`: keys of the Go server that this version lacks, each with the values that ask for nothing; a
    pair of a key and its value stands for a map with it. `reasons`: by such a key, why and what to do.
    """

    def __init__(
        self,
        fields: Iterable[Field],
        unsupported: Mapping[str, frozenset[object]] | None = None,
        reasons: Mapping[str, str] | None = None,
    ) -> None:
        self._fields = {name: entry for entry in fields for name in entry.names}
        self._unsupported = unsupported or {}
        self._reasons = reasons or {}

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of the table, each once, in order."""
        return tuple(dict.fromkeys(self._fields.values()))

    @property
    def unsupported(self) -> Mapping[str, frozenset[object]]:
        return self._unsupported

    def find(self, key: str) -> Field | None:
        return self._fields.get(key) or self._fields.get(key.lower())

    def knows(self, key: str) -> bool:
        """True if the key has a meaning here, supported or not."""
        return key.lower() in self._fields or key.lower() in self._unsupported

    def is_off(self, key: str, node: Node) -> bool | None:
        """True if this value turns an unsupported feature off; None if the key is of no such feature."""
        off = self._unsupported.get(key.lower())
        if off is None:
            return None
        if isinstance(node, MapNode):
            return any(
                _says(entry, key, value) for key, value in _pairs(off) for entry in node.entries.values()
            )
        return isinstance(node, BadValue) or any(_is(node, value) for value in off)

    def why_not(self, key: str) -> str | None:
        """Why an unsupported key is, and what to do instead."""
        return self._reasons.get(key.lower())

    def suggestion(self, key: str) -> str | None:
        """A hint at the key that was probably meant."""
        if len(key) > _MAX_SUGGESTED_FOR:
            return None
        from difflib import get_close_matches

        preferred = {entry.names[0] for entry in self._fields.values()}
        for names in (preferred, self._fields, self._unsupported):
            close = get_close_matches(key.lower(), names, n=1, cutoff=0.7)
            if close:
                return f'did you mean "{close[0]}"?'
        return None


class Binder:
    """Reads values and collects what is wrong with them.

    Readers take an `Entry` and give its value, or UNSET after reporting a problem. A `BadValue` is
    UNSET without a word: the parser has reported it.
    """

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self._bad_values = 0

    def bind(self, node: MapNode, table: KeyTable) -> Bound:
        """The options a map sets; of an option set under two names the one written last counts."""
        bound = Bound()
        for entry in node.entries.values():
            known = table.find(entry.key)
            if known is None:
                self._unknown(entry, table)
                continue
            option = known.option or known.names[0]
            failures_before = self._failures()
            value = self._read(known, entry)
            if self._failures() > failures_before:
                bound.failed.add(option)
            if value is UNSET:
                continue
            if known.idle and value:
                self.problems.remark(f"{entry.key} has no effect: {known.idle}", entry.position)
            if not known.binds:
                continue
            if known.spreads and isinstance(value, dict):
                bound.values.update(value)
                bound.positions.update(dict.fromkeys(value, entry.position))
            else:
                bound.values[option] = value
                bound.positions[option] = entry.position
        return bound

    def bind_map(self, entry: Entry, table: KeyTable) -> Bound | UnsetType:
        node = self.map(entry)
        return UNSET if node is UNSET else self.bind(node, table)

    def problem(self, message: str, position: Position | None, hint: str | None = None) -> UnsetType:
        """Report a problem; gives UNSET for convenience."""
        self.problems.add(message, position, hint)
        return UNSET

    def wrong_type(self, entry: Entry, expected: str) -> UnsetType:
        return self.wrong_node(f"field {shown(entry.key)}", entry.node, expected)

    def wrong_node(self, what: str, node: Node, expected: str) -> UnsetType:
        if isinstance(node, BadValue):
            self._bad_values += 1
            return UNSET
        hint = None
        if isinstance(node, Scalar) and not isinstance(node.value, str) and "string" in expected:
            hint = "put it in quotes"
        elif isinstance(node, Scalar) and isinstance(node.value, str) and "string" not in expected:
            hint = "remove the quotes" if _would_fit(node.text, expected) else None
        return self.problem(f"{what} must be {expected}, not {type_name(node)}", node.position, hint)

    def map(self, entry: Entry) -> MapNode | UnsetType:
        return entry.node if isinstance(entry.node, MapNode) else self.wrong_type(entry, "a map")

    def list(self, entry: Entry) -> ListNode | UnsetType:
        return entry.node if isinstance(entry.node, ListNode) else self.wrong_type(entry, "a list")

    def _read(self, known: Field, entry: Entry) -> object:
        if isinstance(entry.node, BadValue):
            self._bad_values += 1
            return UNSET
        return known.read(self, entry)

    def _failures(self) -> int:
        return len(self.problems) + self._bad_values

    def _unknown(self, entry: Entry, table: KeyTable) -> None:
        off = table.is_off(entry.key, entry.node)
        if off is False:
            message = f"field {shown(entry.key)} is not supported by this version of Headrace yet"
            self.problems.unsupported(message, entry.position, table.why_not(entry.key))
        elif off is None and not entry.used:
            self.problem(f"unknown field {shown(entry.key)}", entry.position, table.suggestion(entry.key))


def _pairs(off: frozenset[object]) -> Iterator[tuple[str, object]]:
    return (each for each in off if isinstance(each, tuple))


def _says(entry: Entry, key: str, value: object) -> bool:
    return entry.key.lower() == key and _is(entry.node, value)


def _is(node: Node, value: object) -> bool:
    if not isinstance(node, Scalar):
        return False
    given = node.value.lower() if isinstance(node.value, str) else node.value
    return type(given) is type(value) and given == value  # in Python 0 == False


# --- readers ---


def text(binder: Binder, entry: Entry) -> str | UnsetType:
    value = string_of(entry.node)
    return binder.wrong_type(entry, "a string") if value is None else value


def whole(binder: Binder, entry: Entry) -> int | UnsetType:
    node = entry.node
    if isinstance(node, Scalar) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return node.value
    return binder.wrong_type(entry, "an integer")


def flag(binder: Binder, entry: Entry) -> bool | UnsetType:
    node = entry.node
    if isinstance(node, Scalar) and isinstance(node.value, bool):
        return node.value
    return binder.wrong_type(entry, "true or false")


def duration(binder: Binder, entry: Entry) -> float | UnsetType:
    """A duration such as "2m", in seconds."""
    value = string_of(entry.node)
    if value is None:
        return binder.wrong_type(entry, 'a duration as a string, such as "2m"')
    try:
        return parse_duration(value)
    except ValueError as error:
        return binder.problem(f"field {shown(entry.key)} is not a duration: {error}", entry.node.position)


def duration_or_seconds(binder: Binder, entry: Entry) -> float | UnsetType:
    """A duration, or as in old files a whole number of seconds; the Go server warns of those, so we do."""
    node = entry.node
    if not isinstance(node, Scalar) or isinstance(node.value, bool) or not isinstance(node.value, int):
        return duration(binder, entry)
    message = f"invalid use of field {shown(entry.key)}: {entry.key} should be converted to a duration"
    hint = None if node.text.lstrip("-").isdigit() else f"{node.text} without quotes is {node.value} seconds"
    binder.problems.warn(message, entry.position, hint)
    return float(node.value)


def seconds(binder: Binder, entry: Entry) -> float | UnsetType:
    """A number of seconds, with or without a fraction, or a duration."""
    node = entry.node
    if isinstance(node, Scalar) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value)
    return duration(binder, entry)


def size(binder: Binder, entry: Entry) -> int | UnsetType:
    """A number of bytes, or as older files write it a text such as "10G"."""
    node = entry.node
    value = string_of(node)
    if value is None:
        return whole(binder, entry)
    if not value:
        return 0
    number, unit = value[:-1], value[-1]
    if unit not in _UNITS:
        message = f"field {shown(entry.key)}: sizes defined as strings must end in K, M, G, T"
        return binder.problem(message, node.position)
    try:
        found = int(number) << _UNITS[unit] if number.isascii() and "_" not in number else None
    except ValueError:
        found = None
    if found is None or found not in _INT64:
        return binder.problem(f"field {shown(entry.key)} is no size: {shown(value)}", node.position)
    return found


def text_map(binder: Binder, entry: Entry) -> dict[str, str] | UnsetType:
    """Strings by name."""
    node = binder.map(entry)
    if node is UNSET:
        return UNSET
    read = {inner.key: text(binder, inner) for inner in node.entries.values()}
    return {name: value for name, value in read.items() if value is not UNSET}


def strings(binder: Binder, entry: Entry) -> tuple[str, ...] | UnsetType:
    """One string or a list of them."""
    single = string_of(entry.node)
    if single is not None:
        return (single,)
    if not isinstance(entry.node, ListNode):
        return binder.wrong_type(entry, "a string or a list of strings")
    values = []
    for node in entry.node.items:
        value = string_of(node)
        if value is None:
            binder.wrong_node(f"each value of {shown(entry.key)}", node, "a string")
        else:
            values.append(value)
    return tuple(values)


PLAIN: Final[dict[str, Reader]] = {
    "string": text,
    "integer": whole,
    "true or false": flag,
    "duration": duration,
    "string or list": strings,
    "seconds or duration": seconds,
}
"""The readers of keys of plain kinds (`keys.Key`)."""


def fields_of(
    options: type[Keyed] | Mapping[str, Key],
    given: Mapping[str, Reader] = MappingProxyType({}),
    only: Collection[str] | None = None,
) -> list[Field]:
    """The rows of a table that read the keys of a structure of options, or those of entries by option.

    `given`: readers by option, of keys that neither are of a plain kind nor name their reader. `only`: the
    options whose keys the table has, None: all of them.
    """
    keys = options.KEYS if isinstance(options, type) else options
    return [
        Field(
            (key.name or option, *key.aliases),
            given.get(option) or (lazily(key.read) if key.read else PLAIN[key.kind]),
            option=option,
            spreads=key.spreads,
            text=key.text,
            kind=key.kind,
            default=key.shown_default,
        )
        for option, key in keys.items()
        if key.name is not None and (only is None or option in only)
    ]


def values_of(bound: Bound, options: type[Keyed]) -> dict[str, object]:
    """Return the options that a block sets, each in the way in which it is kept (`Key.normal`).

    Values that stand for the default are left out: an empty text, and zero where the entry of the key says
    so.
    """
    found = {}
    for option, value in bound.values.items():
        key = options.KEYS.get(option)
        if value in ("", None) or (key is not None and key.zero_is_default and not value):
            continue
        found[option] = value if key is None or key.normal is None else key.normal(value)
    return found


def lazily(place: str) -> Reader:
    """Return a reader by its `module:function`; its module is loaded when the key is read."""
    module, _, name = place.partition(":")

    def read(binder: Binder, entry: Entry) -> object:
        reader = cast("Reader", getattr(import_module(f"headrace.conf.{module}"), name))
        return reader(binder, entry)

    return read


def string_of(node: Node) -> str | None:
    """The string a node is, None for anything else; what has an exponent may be meant as a string."""
    if not isinstance(node, Scalar):
        return None
    if isinstance(node.value, str):
        return node.value
    return node.text if isinstance(node.value, float) and "e" in node.text.lower() else None


def type_name(node: Node) -> str:
    """Return the name of a node's type."""
    if isinstance(node, MapNode):
        return "a map"
    if isinstance(node, ListNode):
        return "a list"
    value = node.value if isinstance(node, Scalar) else None
    if isinstance(value, bool):
        return "true or false"
    names = {str: "a string", int: "an integer", float: "a number with a fraction"}
    return names.get(type(value), "a time")


def _would_fit(text_of_value: str, expected: str) -> bool:
    if "integer" in expected:
        return text_of_value.lstrip("-").isdigit()
    return text_of_value.lower() in ("true", "false", "yes", "no", "on", "off") and "true" in expected
