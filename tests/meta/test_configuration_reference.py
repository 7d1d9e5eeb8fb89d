"""docs/configuration.md is what the tables of keys and docs/reference.toml make of it."""

from __future__ import annotations

import importlib.util
import tomllib
from typing import Any

import pytest
from source_tree import ROOT

SPEC = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "reference.py")
assert SPEC is not None
assert SPEC.loader is not None
reference: Any = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(reference)


def test_page_is_up_to_date() -> None:
    assert reference.PAGE.read_text() == reference.page(), "run python -m docs.reference"


def test_every_table_is_found() -> None:
    found = reference.tables()
    assert {"toplevel:TOP_LEVEL", "tls:_TLS", "accounts:_ACCOUNT"} <= found.keys()


def changed(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    texts = tomllib.loads(reference.TEXTS.read_text())
    change(texts)
    monkeypatch.setattr(reference.tomllib, "loads", lambda _: texts)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda texts: texts["section"][0]["keys"].pop("port"), "port has no text"),
        (lambda texts: texts["section"][0]["keys"].update(nonsense="x"), "has no key nonsense"),
        (lambda texts: texts["section"].pop(1), "no section describes authorization:_AUTHORIZATION"),
        (lambda texts: texts["section"][0]["keys"].update(listen="x"), "listen has no type"),
    ],
)
def test_what_does_not_fit_ends_the_run(monkeypatch: pytest.MonkeyPatch, change: Any, complaint: str) -> None:
    changed(monkeypatch, change)
    with pytest.raises(reference.PageError, match=complaint):
        reference.page()
