"""Modules and functions that a reader can take in (layers.toml, [sizes])."""

from __future__ import annotations

import tomllib

import pytest
from source_tree import ROOT, Module, modules

SIZES = tomllib.loads((ROOT / "layers.toml").read_text())["sizes"]


@pytest.mark.parametrize("module", modules(), ids=lambda m: m.relative)
def test_module_and_its_functions_stay_small(module: Module) -> None:
    lines = module.text.count("\n")
    long = {name: n for name, n in module.functions() if n > SIZES["function_lines"]}

    assert lines <= SIZES["module_lines"] or module.relative in SIZES["exceptions"], f"{lines} lines"
    assert not long


def test_exceptions_are_still_needed() -> None:
    by_name = {m.relative: m for m in modules()}

    for name in SIZES["exceptions"]:
        assert by_name[name].text.count("\n") > SIZES["module_lines"], f"{name} is small again"
