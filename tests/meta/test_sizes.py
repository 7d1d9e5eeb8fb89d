"""Modules and functions that a reader can take in (layers.toml, [sizes])."""

from __future__ import annotations

import tomllib

from source_tree import ROOT, modules

SIZES = tomllib.loads((ROOT / "layers.toml").read_text())["sizes"]


def test_modules_stay_small() -> None:
    lines = {
        module.relative: module.text.count("\n")
        for module in modules()
        if module.relative not in SIZES["exceptions"]
    }

    assert not {name: count for name, count in lines.items() if count > SIZES["module_lines"]}


def test_functions_stay_small() -> None:
    assert not {
        f"{module.relative}: {name}": lines
        for module in modules()
        for name, lines in module.functions()
        if lines > SIZES["function_lines"]
    }


def test_exceptions_are_still_needed() -> None:
    by_name = {m.relative: m for m in modules()}

    for name in SIZES["exceptions"]:
        assert by_name[name].text.count("\n") > SIZES["module_lines"], f"{name} is small again"
