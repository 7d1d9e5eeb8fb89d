"""Without an optional package its tests are skipped and all others are collected; any other error is one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Final

import pytest
from source_tree import ROOT

from harness.optional import OPTIONAL

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ABSENT: Final = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Absent())
"""


def collect(folder: Path, absent: Iterable[str], *where: str) -> subprocess.CompletedProcess[str]:
    """What pytest finds in some of our tests when packages are not there."""
    (folder / "absent.py").write_text(ABSENT.format(names=sorted(absent)))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "absent",
        "-p",
        "no:cacheprovider",
        "--collect-only",
        "-q",
    ]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [*command, *where], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_without_optional_packages_their_tests_are_skipped(tmp_path: Path) -> None:
    where = (
        "tests/clients",
        "tests/unit/pipelines",
        "tests/unit/tables",
        "tests/unit/spark/test_spark_values.py",
        "tests/spark",
        "tests/unit/subjects",
    )

    found = collect(tmp_path, OPTIONAL, *where)

    assert found.returncode == pytest.ExitCode.OK, found.stdout
    assert "tests/unit/subjects/test_subject_grammar.py::" in found.stdout
    assert "is not installed" in found.stdout


def test_a_package_of_every_extra_is_optional() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {
        re.split(r"[<>=\[]", requirement)[0]
        for extra in project["optional-dependencies"].values()
        for requirement in extra
    }
    modules = {"nats-py": "nats", "pyyaml": "yaml", "protobuf": "google"}

    assert {modules.get(name, name) for name in named} - {"headrace"} <= OPTIONAL


def test_without_a_package_that_tests_need_the_run_ends(tmp_path: Path) -> None:
    found = collect(tmp_path, ["msgspec", "hypothesis"], "tests/unit/subjects")

    assert found.returncode != pytest.ExitCode.OK
    assert "errors during collection" in found.stdout
