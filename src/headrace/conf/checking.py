"""Options made in Python: checked as those of a file are, all at once, by the names of their fields.

Here live the types of fields, which msgspec knows; the rules between options are those of `options_builder`.
What is as it is by default is right, so that a server with three options pays for three.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headrace.conf import account_options
from headrace.conf import options as option_types
from headrace.conf.options import Options
from headrace.conf.options_builder import OptionsBuilder
from headrace.conf.problems import Problems
from headrace.errors import ConfigError
from headrace.structures import defaults_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType


def checked(options: Options) -> Options:
    """The options as they are meant: those that can be written in several ways stand there in the one that
    servers read (a `max_payload` of -1 is as large as `max_pending`).

    Raises: ConfigError with everything that is wrong; what a file says was checked with it.
    """
    problems = Problems()
    wrong = set()
    for name, message in _mistyped(options, ""):
        wrong.add(name.partition(".")[0].partition("[")[0])
        problems.add(f"{name}: {message}", None)
    if options.config_file is not None or options.config_digest is not None:
        problems.raise_any()
        return options
    given = {name: value for name, value in _given(options) if name in Options.KEYS and name not in wrong}
    builder = OptionsBuilder(Problems(), {})
    builder.override(given)
    try:
        builder.check()
    except ConfigError as error:
        for problem in error.problems:
            problems.add(problem.message, None, problem.hint)
    problems.raise_any()
    meant = builder.options()
    return replace(options, **{name: getattr(meant, name) for name in given if given[name] is not None})


def _given(struct: Struct) -> Iterator[tuple[str, Any]]:
    """The fields that are not as they are by default."""
    defaults = defaults_of(type(struct))
    for name in struct.__struct_fields__:
        value = getattr(struct, name)
        default = defaults.get(name, msgspec.NODEFAULT)
        if type(value) is not type(default) or value != default:
            yield name, value


def _mistyped(struct: Struct, path: str) -> Iterator[tuple[str, str]]:
    """The fields whose values are of other types, and what is wrong with each."""
    for name, value in _given(struct):
        at = f"{path}{name}"
        try:
            msgspec.convert(value, _type_of(type(struct), name), strict=True)
        except msgspec.ValidationError as error:
            yield at, str(error)
            continue
        if isinstance(value, float) and not isfinite(value):
            yield at, f"Expected a finite number, got `{value}`"
            continue
        yield from _mistyped_within(value, at)


def _mistyped_within(value: object, at: str) -> Iterator[tuple[str, str]]:
    """Yield the options of wrong types in the structures of a value, each with its place."""
    if isinstance(value, Struct):
        yield from _mistyped(value, f"{at}.")
    elif isinstance(value, tuple):
        for number, inner in enumerate(value):
            yield from _mistyped_within(inner, f"{at}[{number}]")
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _mistyped_within(inner, f"{at}[{key!r}]")


def _type_of(kind: type[Struct], name: str) -> Any:
    """Return the type of a field; parts that most servers do not use are loaded for their own fields only."""
    for base in kind.__mro__:
        annotation = vars(base).get("__annotations__", {}).get(name)
        if annotation is not None:
            break
    names = {**vars(typing), "Mapping": Mapping, **_stand_ins(option_types), **_stand_ins(account_options)}
    try:
        return eval(annotation, names)
    except NameError:
        return eval(annotation, {**names, **_rarely_used()})


class _StandIn(type):
    """A class in the place of a structure: msgspec only looks whether a value is one, and not into it."""

    of: type

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.of)


@cache
def _stand_ins(module: ModuleType) -> dict[str, object]:
    found = vars(module).items()
    return {
        name: _StandIn(name, (), {"of": kind})
        for name, kind in found
        if isinstance(kind, type) and issubclass(kind, Struct)
    }


@cache
def _rarely_used() -> dict[str, object]:
    """The structures of all modules of options, and of tokens, which options may have."""
    import importlib
    import pkgutil

    import headrace.conf
    from headrace.protocol.jwt import claims

    found = dict(_stand_ins(claims))
    for module in pkgutil.iter_modules(headrace.conf.__path__, "headrace.conf."):
        if module.name.endswith("_options"):
            found |= _stand_ins(importlib.import_module(module.name))
    return found
