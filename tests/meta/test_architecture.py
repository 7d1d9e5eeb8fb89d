"""The code map of ARCHITECTURE.md: every module is in a row, and is called by whom the row says.

A section names its packages in its heading; a name in a row stands for a module of theirs, or with a `/` for
a room. Names in the last column are modules of the same package, else of the whole project.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from source_tree import ROOT, SRC, modules

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE: Final = "headrace"
BY_NAME: Final = "(by name)"
"""Stands behind a caller that imports its modules by their names, as texts."""


class Row(NamedTuple):
    """A row of the map: its packages, its modules and rooms, its callers."""

    packages: tuple[str, ...]
    named: tuple[str, ...]
    callers: tuple[str, ...]


def rows() -> list[Row]:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    text = text.partition("## Code map")[2].partition("\n## ")[0]
    found = []
    for section in text.split("\n### ")[1:]:
        packages = tuple(re.findall(r"`(\w+)/`", section.partition("\n")[0]))
        for line in section.split("\n"):
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            if len(cells) == 3 and cells[0].startswith("`"):
                found.append(Row(packages, _words(cells[0]), _words(_imported(cells[2]))))
    return found


def _words(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([\w/]+)`", cell))


def _imported(cell: str) -> str:
    return re.sub(rf"`\w+` {re.escape(BY_NAME)}", "", cell)


def _module(packages: tuple[str, ...], name: str) -> str:
    """The module or room that a name of the first column stands for."""
    path = name.rstrip("/").replace("/", ".")
    is_whole = not packages or (name.partition("/")[0] in packages and "/" in name)
    place = PACKAGE if is_whole else f"{PACKAGE}.{packages[0]}"
    return f"{place}.{path}".removesuffix(".__init__")


ROWS: Final = rows()
NAMES: Final = {module.name for module in modules() if module.name.startswith(PACKAGE)}


@cache
def _imports() -> list[tuple[str, str]]:
    """Every module with every one of ours that it imports."""
    return [(module.name, imported) for module in modules() for imported in module.imports()]


def _covers(owner: str, name: str, module: str) -> bool:
    return module == owner or (name.endswith("/") and module.startswith(f"{owner}."))


def test_every_module_is_in_one_row() -> None:
    owners = [(_module(row.packages, name), name) for row in ROWS for name in row.named]
    for module in sorted(NAMES):
        is_package = (SRC / module.replace(".", "/")).is_dir()
        found = [name for owner, name in owners if _covers(owner, name, module)]
        assert len(found) == 1 or (is_package and not found), f"{module} is in {len(found)} rows: {found}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{'-'.join(row.packages)} {row.named[0]}")
def test_row_names_modules_and_those_that_import_them(row: Row) -> None:
    owned = {name: _module(row.packages, name) for name in row.named}
    missing = [name for name, module in owned.items() if module not in NAMES]
    assert not missing

    def imports_one(caller: str) -> bool:
        return any(
            (importer == caller or importer.startswith(f"{caller}."))
            and not any(_covers(module, name, importer) for name, module in owned.items())
            and any(_covers(module, name, imported) for name, module in owned.items())
            for importer, imported in _imports()
        )

    wrong = []
    for name in row.callers:
        path = name.replace("/", ".")
        places = [f"{PACKAGE}.{package}.{path}" for package in row.packages] + [f"{PACKAGE}.{path}", path]
        if not any(imports_one(place) for place in places):
            wrong.append(name)
    assert not wrong, f"{wrong} import none of {row.named}"


ROOMS: Final = [
    SRC / _module(row.packages, name).replace(".", "/")
    for row in ROWS
    for name in row.named
    if name.endswith("/")
]


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(SRC)))
def test_room_says_its_modules(room: Path) -> None:
    said = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8"))) or ""
    there = {
        path.stem for path in room.iterdir() if path.suffix in (".py", ".pyx") and path.stem != "__init__"
    }

    assert not there - set(re.findall(r"`(\w+)`", said))
