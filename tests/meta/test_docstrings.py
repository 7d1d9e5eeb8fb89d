"""A docstring opens with an imperative or a noun phrase (CONTRIBUTING.md), not with What, Whether or It.

Such an opening makes a sentence without its noun, which one has to read twice.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

import pytest
from source_tree import Module, modules

if TYPE_CHECKING:
    from collections.abc import Iterator

OPENING: Final = re.compile(r"(What|Whether|Who|Whom|Whose|How|Which|Where|When|That)\b")
REFERENCE: Final = re.compile(
    "(It|They|Those|These|Nothing|Nobody|Somebody|Everything|Everybody|Whoever|Whatever|None|Raises|Not|As|Of"
    r"|With|Without|And|So|By|For|In|At|On|Before|After|Only|Some|Also|Both|Until|There|From|Under|Up|Behind"
    r"|Between|While|Since|Is|Has|Each|Another)\b"
)
"""Openings of a sentence whose noun stands elsewhere: in the name, or in the line before."""


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


def openings(module: Module) -> list[str]:
    """The docstrings of a module that open without a noun, each with its line."""
    return [
        f"{module.relative}:{line} {text.strip()[:60]}"
        for line, text in docstrings(module)
        if OPENING.match(text.strip()) or (module.is_python and REFERENCE.match(text.strip()))
    ]


def test_docstrings_open_with_a_verb_or_a_noun() -> None:
    found = [opening for module in modules() for opening in openings(module)]

    assert not found, "\n".join(found)


def test_every_public_class_says_what_it_is() -> None:
    without = [
        f"{module.relative}:{node.lineno} {node.name}"
        for module in modules()
        if module.path.suffix == ".py"
        for node in ast.walk(ast.parse(module.text))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not ast.get_docstring(node)
    ]

    assert not without, "\n".join(without)


@pytest.mark.parametrize("text", ["Whether it is open.", "What comes next.", "How many there are."])
def test_an_opening_without_a_noun_is_found(text: str) -> None:
    assert OPENING.match(text)


@pytest.mark.parametrize("text", ["Raises: LogError.", "Of one stream.", "It is over.", "Nobody waits."])
def test_an_opening_that_refers_to_a_name_is_found(text: str) -> None:
    assert REFERENCE.match(text)


@pytest.mark.parametrize("text", ["True if it is open.", "Return the next one.", "The bytes of one stream."])
def test_other_openings_are_let_through(text: str) -> None:
    assert not OPENING.match(text)
    assert not REFERENCE.match(text)
