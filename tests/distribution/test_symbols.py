"""Compiled modules have symbols beside their sources, for profilers, and none in a wheel."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest
from distributions import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SETUP: Final = f"""
import runpy
from setuptools import Extension, setup

ours = runpy.run_path({str(ROOT / "setup.py")!r})
setup(
    name="small",
    cmdclass={{"build_ext": ours["BuildModules"]}},
    ext_modules=[Extension("small", ["src/small.pyx"])],
    package_dir={{"": "src"}},
    py_modules=[],
)
"""
PROJECT: Final = """
[build-system]
requires = ["setuptools", "Cython"]
build-backend = "setuptools.build_meta"
"""


@pytest.mark.parametrize(
    ("command", "has_symbols"),
    [
        (("setup.py", "-q", "build_ext", "--inplace"), True),
        (("-c", "from setuptools.build_meta import *; build_editable('made')"), True),
        (("-c", "from setuptools.build_meta import *; build_wheel('made')"), False),
    ],
    ids=["in place", "editable", "wheel"],
)
def test_symbols_are_kept_beside_the_sources(
    tmp_path: Path, command: tuple[str, ...], has_symbols: bool
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "made").mkdir()
    (tmp_path / "src" / "small.pyx").write_text("def answer():\n    return 42\n")
    (tmp_path / "setup.py").write_text(SETUP)
    (tmp_path / "pyproject.toml").write_text(PROJECT)

    kept = {name: value for name, value in os.environ.items() if name[:9] != "HEADRACE_"}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=tmp_path,
        env={**kept, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    module = next(tmp_path.glob("build/lib*/small.*.so" if not has_symbols else "src/small.*.so"))
    sections = subprocess.run(["readelf", "-SW", module], capture_output=True, text=True, check=True).stdout
    assert (".symtab" in sections) is has_symbols
    assert (".debug_info" in sections) is has_symbols
