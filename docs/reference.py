"""Writes docs/configuration.md from the tables of keys and the texts beside this file.

    python -m docs.reference

Names, types and defaults come from the tables that read configurations; reference.toml has what a key means,
and its type where the reader does not say it. A key without a text, and a text without a key, end the run.
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
from headrace.conf import jetstream_options, leaf_options, peer_options, tls_options
from headrace.conf import options as options_module
from headrace.conf.changes import RELOADABLE
from headrace.conf.durations import format_duration
from headrace.conf.fields import Field, Table
from headrace.structures import defaults_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.conf.fields import Reader

PAGE: Final = Path(__file__).with_name("configuration.md")
TEXTS: Final = Path(__file__).with_name("reference.toml")

_TYPES: Final[dict[Reader, str]] = {
    readers.text: "string",
    readers.whole: "integer",
    readers.flag: "true or false",
    readers.duration: "duration",
    readers.duration_or_seconds: "duration",
    readers.seconds: "seconds or duration",
    readers.strings: "string or list",
}
_DURATIONS: Final = frozenset((readers.duration, readers.duration_or_seconds, readers.seconds))
_SECTIONS_ELSEWHERE: Final = "headrace.conf.streaming"
"""The module whose tables docs/streaming.md describes."""


class PageError(Exception):
    """A key without a text, a text without a key, or a table that no section describes."""


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


def tables() -> dict[str, Table]:
    """Every table of keys by `module:name`."""
    found: dict[str, Table] = {}
    for module in pkgutil.iter_modules(headrace.conf.__path__, "headrace.conf."):
        if module.name == _SECTIONS_ELSEWHERE:
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, Table) and value not in found.values():
                found[f"{module.name.removeprefix('headrace.conf.')}:{name}"] = value
    return found


def _section(section: Mapping[str, Any], table: Table) -> str:
    texts = dict(section["keys"])
    reloads = section.get("reload", False)
    head = "| key | type | default | | |" if reloads else "| key | type | default | |"
    lines = [f"## {section['title']}", ""]
    if section.get("about"):
        lines += [section["about"].strip(), ""]
    lines += [head, "|---" * head.count(" |") + "|"]
    for entry in table.fields:
        text = texts.pop(entry.names[0], None)
        if text is None:
            raise PageError(f"{section['table']}: {entry.names[0]} has no text")
        lines.append(_row(entry, text, _defaults(section.get("options")), reloads=reloads))
    if texts:
        raise PageError(f"{section['table']} has no key {', '.join(texts)}")
    return "\n".join(lines)


def _row(
    entry: Field, text: str | Mapping[str, str], defaults: Mapping[str, object], *, reloads: bool
) -> str:
    given = {"text": text} if isinstance(text, str) else dict(text)
    kind = given.get("type") or _TYPES.get(entry.read)
    if kind is None:
        raise PageError(f"{entry.names[0]} has no type")
    option = entry.option or entry.names[0]
    default = given.get("default")
    if default is None and option in defaults:
        is_size = given["text"].startswith("Bytes")
        default = _shown(defaults[option], is_duration=entry.read in _DURATIONS, is_size=is_size)
    first, *others = (f"`{name}`" for name in entry.names)
    names = f"{first} ({', '.join(others)})" if others else first
    cells = [names, kind, default or "", given["text"]]
    if reloads:
        cells.append("" if RELOADABLE.isdisjoint(given.get("options", option).split()) else "reload")
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _defaults(name: str | None) -> dict[str, object]:
    """The defaults of a structure of options."""
    if name is None:
        return {}
    modules = (options_module, jetstream_options, leaf_options, peer_options, tls_options)
    kind = next(getattr(module, name) for module in modules if hasattr(module, name))
    return defaults_of(kind)


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


def _off(table: Table) -> Iterator[str]:
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
