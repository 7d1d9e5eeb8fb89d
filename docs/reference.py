"""Writes docs/configuration.md from the entries of all keys, and from the texts beside this file.

    python -m docs.reference

Names, types, defaults and texts are those that keys are declared with in `headrace.conf`; reference.toml has
the sections and their order. A key without a text, and a table without a section, end the run.
"""

from __future__ import annotations

import importlib
import pkgutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

import headrace.conf
from headrace.conf import fields as readers
from headrace.conf.fields import Field, KeyTable
from headrace.conf.options import Options
from headrace.conf.toplevel import TOP_LEVEL
from headrace.protocol.durations import format_duration
from headrace.structures import defaults_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

    from headrace.conf.fields import Reader

PAGE: Final = Path(__file__).with_name("configuration.md")
TEXTS: Final = Path(__file__).with_name("reference.toml")

_KINDS: Final[dict[Reader, str]] = {
    **{read: kind for kind, read in readers.PLAIN.items()},
    readers.duration_or_seconds: "duration",
    readers.seconds: "seconds or duration",
}
"""The types of keys by what reads them."""


class PageError(Exception):
    """A key without a type or a text, or a table that no section describes."""


def page() -> str:
    """The whole page. Raises: PageError."""
    texts = tomllib.loads(TEXTS.read_text(encoding="utf-8"))
    described = {section["table"] for section in texts["section"]}
    undescribed = sorted(set(tables()) - described)
    if undescribed:
        raise PageError(f"no section describes {', '.join(undescribed)}")
    parts = [texts["introduction"].strip()]
    for section in texts["section"]:
        parts.append(_section(section, tables()[section["table"]]))
    parts.append(_unsupported(texts, described))
    return "\n\n".join(parts) + "\n"


def tables() -> dict[str, KeyTable]:
    """Every table of keys by `module:name`."""
    found: dict[str, KeyTable] = {}
    for module in _modules():
        for name, value in vars(module).items():
            if isinstance(value, KeyTable) and value not in found.values():
                found[f"{module.__name__.removeprefix('headrace.conf.')}:{name}"] = value
    return found


def _modules() -> Iterator[ModuleType]:
    """The modules of the configuration, by name."""
    for module in pkgutil.iter_modules(headrace.conf.__path__, "headrace.conf."):
        yield importlib.import_module(module.name)


def _section(section: Mapping[str, Any], table: KeyTable) -> str:
    reloads = table is TOP_LEVEL
    head = "| key | type | default | | |" if reloads else "| key | type | default | |"
    lines = [f"## {section['title']}", ""]
    if section.get("about"):
        lines += [section["about"].strip(), ""]
    lines += [head, "|---" * head.count(" |") + "|"]
    defaults = _defaults(section.get("options"))
    lines += [_row(entry, defaults, reloads=reloads) for entry in _ordered(table.fields)]
    return "\n".join(lines)


def _ordered(fields: Sequence[Field]) -> list[Field]:
    """Keys that concern options stand behind the keys of these, those that have no effect at the end."""
    places = {field.option or field.names[0]: n for n, field in enumerate(fields) if not field.concerns}

    def place(numbered: tuple[int, Field]) -> tuple[bool, int, int]:
        number, field = numbered
        behind = max((places.get(option, -1) for option in field.concerns), default=number)
        return not field.binds, behind, number

    return [field for _, field in sorted(enumerate(fields), key=place)]


def _row(entry: Field, defaults: Mapping[str, object], *, reloads: bool) -> str:
    name = entry.names[0]
    kind = entry.kind or _KINDS.get(entry.read)
    if kind is None:
        raise PageError(f"{name} has no type")
    if not entry.text:
        raise PageError(f"{name} has no text")
    option = entry.option or name
    default = entry.default
    if default is None and option in defaults:
        is_size = entry.text.startswith("Bytes")
        default = _shown(defaults[option], is_duration="duration" in kind, is_size=is_size)
    first, *others = (f"`{name}`" for name in entry.names)
    names = f"{first} ({', '.join(others)})" if others else first
    cells = [names, kind, default or "", entry.text]
    if reloads:
        keys = [Options.KEYS[name] for name in (option, *entry.concerns) if name in Options.KEYS]
        cells.append("" if all(key.needs_restart for key in keys) else "reload")
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _defaults(name: str | None) -> dict[str, object]:
    """The defaults of a structure of options."""
    if name is None:
        return {}
    return defaults_of(next(getattr(module, name) for module in _modules() if hasattr(module, name)))


def _shown(value: object, *, is_duration: bool, is_size: bool) -> str:
    if value is None or value == "" or isinstance(value, (tuple, Mapping, Struct)):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if is_duration and isinstance(value, float):
        return format_duration(value)
    if is_size and isinstance(value, int) and value % 1024 == 0:
        return next(
            f"{value // size}{unit}"
            for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10))
            if value % size == 0
        )
    return str(value)


def _unsupported(texts: Mapping[str, Any], described: set[str]) -> str:
    lines = [f"## {texts['unsupported']['title']}", "", texts["unsupported"]["about"].strip(), ""]
    for name, table in tables().items():
        keys = list(_off(table))
        if name in described and keys:
            title = next(section["title"] for section in texts["section"] if section["table"] == name)
            lines.append(f"- {title}: {', '.join(keys)}")
    return "\n".join(lines)


def _off(table: KeyTable) -> Iterator[str]:
    for key, off in table.unsupported.items():
        values = ", ".join(sorted(map(_off_value, off)))
        yield f"`{key}`" + (f" ({values})" if values else "")


def _off_value(value: object) -> str:
    if isinstance(value, tuple):
        key, inner = value
        return f"{key}: {_off_value(inner)}"
    return str(value).lower() or '""'


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
