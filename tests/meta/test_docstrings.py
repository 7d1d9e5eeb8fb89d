"""A docstring opens with an imperative or a noun phrase (CONTRIBUTING.md), not with What, Whether or Who.

Such an opening makes a sentence without its noun, which one has to read twice. Packages that still have some
have a bound in `docstring_bounds.toml`, which may only shrink; the others have none.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest
from source_tree import ROOT, SRC, Module, modules

if TYPE_CHECKING:
    from collections.abc import Iterator

OPENING: Final = re.compile(r"(What|Whether|Who|Whom|Whose|How|Which|Where|When|That)\b")
BOUNDS: Final = tomllib.loads((ROOT / "tests/meta/docstring_bounds.toml").read_text())["bounds"]
TOP: Final = "headrace"


def docstrings(module: Module) -> Iterator[tuple[int, str]]:
    """Every docstring of a module with its line; of attributes, too, which stand behind them."""
    if not module.is_python:
        for match in re.finditer(r'^ *"""(.+?)"""', module.text, re.MULTILINE | re.DOTALL):
            yield module.text.count("\n", 0, match.start()) + 1, match[1]
        return
    for node in ast.walk(ast.parse(module.text)):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                value = statement.value.value
                if isinstance(value, str):
                    yield statement.lineno, value


def package_of(module: Module) -> str:
    """The package of a module below headrace; `headrace` for modules of its own."""
    parts = module.path.relative_to(SRC).parts
    return parts[1] if len(parts) > 2 else TOP


def openings() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for module in modules():
        for line, text in docstrings(module):
            if OPENING.match(text.strip()):
                found.setdefault(package_of(module), []).append(
                    f"{module.relative}:{line} {text.strip()[:60]}"
                )
    return found


FOUND: Final = openings()


@pytest.mark.parametrize("package", sorted({package_of(module) for module in modules()}))
def test_docstrings_open_with_a_verb_or_a_noun(package: str) -> None:
    found = FOUND.get(package, [])

    assert len(found) <= BOUNDS.get(package, 0), "\n".join(found)


def test_bounds_are_of_packages_that_need_them() -> None:
    counts = Counter({package: len(found) for package, found in FOUND.items()})

    assert not [package for package in BOUNDS if not counts[package]], "no longer needed: leave it out"


@pytest.mark.parametrize("text", ["Whether it is open.", "What comes next.", "How many there are."])
def test_an_opening_without_a_noun_is_found(text: str) -> None:
    assert OPENING.match(text)


@pytest.mark.parametrize("text", ["True if it is open.", "Return the next one.", "Whatever is left goes."])
def test_other_openings_are_let_through(text: str) -> None:
    assert not OPENING.match(text)
