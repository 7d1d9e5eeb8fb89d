"""One entry for one option of `format("nats")`.

An option is a field of the dataclass that holds all (`options.SourceOptions`, `sink_options.SinkOptions`),
and its entry is declared with the field: name, type, default, what it applies to and what it means. Reading,
error texts and the tables of docs/spark.md (`python -m docs.spark_options`) are made from the entries. A
field that several options make up has an entry for each of them (`made_of`).

Options are text, as Spark hands them over.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace.spark.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Reader = Callable[[str, str], object]
    """Gives the value of an option; takes its name and its text. Raises: OptionError."""

T = TypeVar("T")

SELECTIONS: Final = ("subject", "channel", "stream", "path")
"""The options of which a query has one, but that `path` may have `channel` or `stream` too; others may be for
some only."""

STORED: Final = ("channel", "stream", "path")
"""The options that select what is stored."""

_APPLIES_TO: Final = {
    SELECTIONS: "all",
    STORED: "stored",
    ("subject",): "subjects",
    ("channel", "path"): "channels",
    ("stream",): "streams",
    ("stream", "path"): "streams",
    ("path",): "paths",
}


@dataclass(frozen=True, slots=True)
class Option:
    """The entry of one option. `default` is for people.

    `of`: the selections that it goes with. `writes`: it is an option of the sink as well, and means the same
    there. `read` None: the option is read together with others. `elsewhere`: names that users of Kafka's
    source and of other NATS programs type for it; the error about such a name gives this one.
    """

    name: str
    kind: str
    default: str
    meaning: str
    of: tuple[str, ...] = SELECTIONS
    writes: bool = False
    read: Reader | None = None
    elsewhere: tuple[str, ...] = ()

    @property
    def applies_to(self) -> str:
        return f"{_APPLIES_TO[self.of]}, writing" if self.writes else _APPLIES_TO[self.of]


def option(
    default: T,
    kind: str,
    meaning: str,
    *,
    name: str = "",
    shown_default: str = "",
    of: tuple[str, ...] = SELECTIONS,
    writes: bool = False,
    read: Reader | None = None,
    elsewhere: tuple[str, ...] = (),
) -> T:
    """A field with the entry of its one option.

    `name`: of the option, where it is not that of the field. `read`: what reads it, where its kind
    (`READERS`) does not say it.
    """
    entry = Option(
        name,
        kind,
        shown_default or _shown(default, kind),
        meaning,
        of,
        writes,
        read or READERS[kind],
        elsewhere,
    )
    return dataclasses.field(default=default, metadata={"options": (entry,)})


def made_of(default: T, *options: Option) -> T:
    """A field that several options make up; what reads them knows it."""
    return dataclasses.field(default=default, metadata={"options": options})


def options_of(kind: type[Any]) -> tuple[Option, ...]:
    """The entries of a dataclass, in the order of its fields."""
    return tuple(entry for _, entry in _entries(kind))


def read_fields(kind: type[Any], values: Mapping[str, str]) -> dict[str, Any]:
    """The values of the fields with one option each that is given, by field; `values` are by lower-case name.

    Raises: OptionError.
    """
    return {
        name: entry.read(entry.name, values[entry.name.lower()])
        for name, entry in _entries(kind)
        if entry.read is not None and _says_something(entry, values)
    }


def option_table(options: Iterable[Option]) -> str:
    """The rows of options for docs/spark.md."""
    return "".join(
        f"| `{one.name}` | {one.kind} | {one.applies_to} | {one.default} | {one.meaning} |\n"
        for one in options
    )


def _entries(kind: type[Any]) -> Iterable[tuple[str, Option]]:
    for field in dataclasses.fields(kind):
        for entry in field.metadata.get("options", ()):
            yield field.name, entry if entry.name else dataclasses.replace(entry, name=_camel(field.name))


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _says_something(entry: Option, values: Mapping[str, str]) -> bool:
    """An empty text is no text at all."""
    text = values.get(entry.name.lower())
    return text is not None and (bool(text) or entry.kind not in ("text", "subject"))


# -- values by kind -------------------------------------------------------------------------------------


def read_boolean(name: str, text: str) -> bool:
    """True or false. Raises: OptionError."""
    if text.lower() not in ("true", "false"):
        raise OptionError(f"option {name}: {text!r} is neither true nor false")
    return text.lower() == "true"


def _count(name: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) == 0:
        raise OptionError(f"option {name}: {text!r} is not a whole number above 0")
    return int(text)


_UNITS: Final = {"": 1, "ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600}
_MULTIPLES: Final = {"": 1, "b": 1} | {
    f"{letter}{ending}": 1 << (10 * power)
    for power, letter in enumerate("kmgt", 1)
    for ending in ("", "b", "ib")
}


def _duration(name: str, text: str) -> float:
    return _measure(name, text, _UNITS, "a duration such as 500ms, 5s or 2m")


def _size(name: str, text: str) -> int:
    return int(_measure(name, text, _MULTIPLES, "a size such as 512MiB or 4GiB"))


def _measure(name: str, text: str, units: Mapping[str, float], example: str) -> float:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *([a-zA-Z]*)", text)
    if match is None or match[2].lower() not in units or float(match[1]) == 0:
        raise OptionError(f"option {name}: {text!r} is not {example}")
    return float(match[1]) * units[match[2].lower()]


READERS: Final[dict[str, Reader]] = {
    "text": lambda _name, text: text,
    "true or false": read_boolean,
    "number": _count,
    "duration": _duration,
    "size": _size,
}
"""The readers of options, by kind."""


def _shown(default: object, kind: str) -> str:
    """A default as options write it."""
    if default is None:
        return "none"
    if isinstance(default, bool):
        return str(default).lower()
    if kind == "size" and isinstance(default, int):
        return f"{default >> 30}GiB"
    if kind == "duration" and isinstance(default, float):
        return f"{default / 60:g}m" if default % 60 == 0 else f"{default:g}s"
    return str(default)
