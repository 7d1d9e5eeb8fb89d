"""Every row of the NATS Streaming specification has a test that proves it (streaming_rows.toml)."""

from __future__ import annotations

import ast
import tomllib
from functools import cache

import pytest
from source_tree import ROOT

TESTS = ROOT / "tests"
ROWS: dict[str, dict[str, list[str]]] = tomllib.loads((TESTS / "meta" / "streaming_rows.toml").read_text())
SECTIONS = 15


@cache
def functions_in(module: str) -> frozenset[str]:
    """The names of the tests in the module of that name; empty when there is none."""
    paths = list(TESTS.rglob(f"{module}.py"))
    if len(paths) != 1:
        return frozenset()
    nodes = ast.walk(ast.parse(paths[0].read_text(encoding="utf-8")))
    functions = (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in functions if node.name.startswith("test_"))


def missing(reference: str) -> bool:
    module, _, name = reference.partition("::")
    return not functions_in(module) if name == "*" else name not in functions_in(module)


@pytest.mark.parametrize("section", [str(number) for number in range(1, SECTIONS + 1)])
def test_every_row_of_a_section_has_tests_that_exist(section: str) -> None:
    rows = ROWS[section]

    assert rows
    assert [row for row, tests in rows.items() if not tests] == []
    assert [name for tests in rows.values() for name in tests if missing(name)] == []


def test_there_are_no_other_sections() -> None:
    assert set(ROWS) == {str(number) for number in range(1, SECTIONS + 1)}


def test_a_test_that_is_gone_is_noticed() -> None:
    assert missing("test_streaming_subscribe::test_row_that_nobody_wrote")
    assert missing("test_no_such_module::*")
    assert not missing("test_streaming_subscribe::test_row_not_decodable")
