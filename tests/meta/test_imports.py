"""Every module imports by itself, and the server's start loads nothing it does not need."""

from __future__ import annotations

import subprocess
import sys

import pytest
from source_tree import modules

from harness import depth

NEEDS_EXTRAS = ("headrace.spark", "headrace.demo", "pyspark_nats", "headrace.testing.plugin")
HEAVY = {
    "aiohttp",
    "pyspark",
    "pyarrow",
    "pandas",
    "numpy",
    "prometheus_client",
    "cryptography",
    "bcrypt",
    "pytest",
    "rich",
    "yaml",
}

IMPORT_EACH = """
import importlib, sys
for name in sys.argv[1:]:
    kept = dict(sys.modules)
    try:
        importlib.import_module(name)
    except Exception as error:
        sys.exit(f"{name}: {error!r}")
    for loaded in [m for m in sys.modules if m.startswith(("headrace", "pyspark_nats")) and m not in kept]:
        # compiled modules cannot be loaded twice; the rest starts afresh for the next name
        if getattr(sys.modules[loaded], "__file__", "").endswith(".py"):
            del sys.modules[loaded]
"""


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, timeout=300
    )


def names() -> list[str]:
    """Every module of Python."""
    return [m.name for m in modules() if m.path.suffix == ".py" and m.name != "headrace.__main__"]


def test_all_modules_import() -> None:
    result = run("import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]", *names())

    assert result.returncode == 0, result.stderr


def test_each_module_imports_alone() -> None:
    """A twentieth of them in `make test`: each needs all that it imports afresh."""
    result = run(IMPORT_EACH, *filter(depth.takes, names()))

    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("module", ["headrace", "headrace.app", "headrace.cli.serve", "headrace.testing"])
def test_start_of_the_server_loads_nothing_heavy(module: str) -> None:
    result = run(f"import sys, {module}; print(*sys.modules)")

    loaded = {name.partition(".")[0] for name in result.stdout.split()}
    assert result.returncode == 0, result.stderr
    assert not loaded & HEAVY


def test_every_module_says_what_lives_there() -> None:
    silent = [
        m.relative
        for m in modules()
        if m.path.suffix in (".py", ".pyx", ".pxd") and '"""' not in m.text[:200]
    ]

    assert not silent


def test_what_a_server_loads_has_no_dataclasses() -> None:
    """They take some fifty times as long to make as `msgspec.Struct`s; Spark's jobs start slowly anyway."""
    have_them = [
        m.relative
        for m in modules()
        if "import dataclass" in m.text and m.name.split(".")[1] not in ("spark", "pipelines", "demo")
    ]

    assert not have_them
