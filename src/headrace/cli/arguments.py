"""Arguments as Go's flag package reads them.

Here lives the syntax: one dash or two, `-name value` or `-name=value`, switches without a value or with
`=true`, the first other argument ends the flags. Never lives here: which flags there are.

The standard library's argparse is not used since it reads otherwise: it takes `-VD` for `-V -D` and `-p4222`
for `-p 4222`, where Go refuses both, and refuses `--pass -x1`, where Go takes the next argument whatever it
is.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.conf.problems import shown
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_TRUTH: Final = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)
_INTEGER: Final = r"([+-]?)(0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|0|[1-9][0-9]*)"
_MAX_INTEGER_CHARS: Final = 20


class UsageError(HeadraceError):
    """A command line that cannot be obeyed; the text is one line."""


class FlagKind(Enum):
    """The kind of value that follows a flag."""

    TEXT = "text"
    INTEGER = "integer"
    SWITCH = "switch"


class ArgumentFlag(Struct, frozen=True):
    """One flag under all its names, without dashes; `target` is what it sets."""

    names: tuple[str, ...]
    target: str
    kind: FlagKind
    help: str
    placeholder: str = ""


class Given(Struct, frozen=True):
    """A flag as given: under which name, with which value."""

    flag: ArgumentFlag
    name: str
    value: str | int | bool


def read_arguments(
    arguments: Sequence[str], flags: Iterable[ArgumentFlag], more: Iterable[ArgumentFlag] = ()
) -> tuple[list[Given], list[str]]:
    """The flags given, in order, and the arguments after them.

    `more`: the other flags, taken one by one for a name that is not among those before.
    Raises: UsageError that names the flag, in the words of Go's flag package.
    """
    by_name = {name: flag for flag in flags for name in flag.names}
    others = iter(more)
    rest = list(arguments)
    given: list[Given] = []
    while rest and len(rest[0]) > 1 and rest[0][0] == "-":
        argument = rest.pop(0)
        if argument == "--":
            break
        name, equals, value = argument[2 if argument[1] == "-" else 1 :].partition("=")
        if not name or name[0] == "-":
            raise UsageError(f"bad flag syntax: {argument}")
        flag = by_name.get(name) or _next_named(name, others, by_name)
        if flag is None:
            raise UsageError(f"flag provided but not defined: -{name}{_suggestion(name, by_name)}")
        if flag.kind is FlagKind.SWITCH:
            given.append(Given(flag, name, _switch(name, value) if equals else True))
            continue
        if not equals:
            if not rest:
                raise UsageError(f"flag needs an argument: -{name}")
            value = rest.pop(0)
        given.append(Given(flag, name, _integer(name, value) if flag.kind is FlagKind.INTEGER else value))
    return given, rest


def _next_named(
    name: str, others: Iterator[ArgumentFlag], by_name: dict[str, ArgumentFlag]
) -> ArgumentFlag | None:
    """Take flags one by one into those that are known, up to one with a name."""
    for flag in others:
        by_name.update(dict.fromkeys(flag.names, flag))
        if name in flag.names:
            return flag
    return None


def _switch(name: str, value: str) -> bool:
    if value not in _TRUTH:
        raise UsageError(f"invalid boolean value {shown(value)} for -{name}: true or false is expected")
    return _TRUTH[value]


def _integer(name: str, value: str) -> int:
    match = re.fullmatch(_INTEGER, value)
    if match is None or len(value) > _MAX_INTEGER_CHARS:
        raise UsageError(f"invalid value {shown(value)} for flag -{name}: a whole number is expected")
    sign, digits = match.groups()
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        digits = f"0o{digits[1:]}"
    number = int(digits, 0)
    return -number if sign == "-" else number


def _suggestion(name: str, names: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name[:_MAX_INTEGER_CHARS], [known for known in names if len(known) > 2], n=1)
    return f" (did you mean --{close[0]}?)" if close else ""
