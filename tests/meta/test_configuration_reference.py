"""docs/configuration.md is what the entries of keys and docs/reference.toml make of it."""

from __future__ import annotations

import importlib.util
import tomllib
from typing import Any

import pytest
from source_tree import ROOT

from headrace.conf.fields import Field, whole
from headrace.conf.listen import listen

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


def test_table_without_a_section_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = tomllib.loads(reference.TEXTS.read_text())
    texts["section"].pop(1)
    monkeypatch.setattr(reference.tomllib, "loads", lambda _: texts)
    with pytest.raises(reference.PageError, match="no section describes authorization:_AUTHORIZATION"):
        reference.page()


@pytest.mark.parametrize(
    ("field", "complaint"),
    [
        (Field(("port",), whole), "port has no text"),
        (Field(("listen",), listen, text="Where to listen"), "listen has no type"),
    ],
)
def test_key_that_says_too_little_ends_the_run(field: Field, complaint: str) -> None:
    with pytest.raises(reference.PageError, match=complaint):
        reference._row(field, {}, reloads=False)


def test_keys_that_concern_others_stand_behind_them() -> None:
    fields = [Field((name,), whole) for name in ("a", "b", "c")]
    about = Field(("both",), whole, concerns=("a", "b"))
    without_effect = Field(("nothing",), whole, binds=False)
    ordered = reference._ordered([without_effect, *fields, about])
    assert [field.names[0] for field in ordered] == ["a", "b", "both", "c", "nothing"]
