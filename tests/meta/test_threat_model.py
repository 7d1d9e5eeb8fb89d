"""THREAT_MODEL.md names tests: each exists, and the suites written for it are all named."""

from __future__ import annotations

import re

from source_tree import ROOT

MODEL = (ROOT / "THREAT_MODEL.md").read_text()
DEFINED = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)


def defined(pattern: str) -> set[str]:
    return {name for file in (ROOT / "tests").rglob(pattern) for name in DEFINED.findall(file.read_text())}


def test_every_test_that_is_named_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", MODEL))
    assert named
    assert named - defined("test_*.py") == set()


def test_every_file_that_is_named_exists() -> None:
    assert [name for name in re.findall(r"`(tests/[\w./]+)`", MODEL) if not (ROOT / name).exists()] == []


def test_every_threat_that_is_tried_is_named() -> None:
    assert {name for name in defined("test_threats_*.py") if f"`{name}`" not in MODEL} == set()
