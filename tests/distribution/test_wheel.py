"""A wheel that is built from the source distribution serves clients where there is no compiler."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

import pytest
from distributions import TRACKED, copy_of_repository, sdist

from harness import depth

HERE: Final = Path(__file__).parent

pytestmark = [
    pytest.mark.skipif(not TRACKED, reason="not a git checkout"),
    pytest.mark.skipif(not depth.deep, reason="compiles everything: make test-deep"),
]


def pip(*command: str, cwd: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "-q", *command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


def sections(module: Path) -> str:
    """The sections of a compiled module, as `readelf` of the compiler's tools lists them."""
    return subprocess.run(["readelf", "-SW", module], capture_output=True, text=True, check=True).stdout


def test_a_wheel_of_the_sdist_is_stripped_and_serves_without_a_compiler(tmp_path: Path) -> None:
    pytest.importorskip("nats")
    archive = sdist(copy_of_repository(tmp_path))
    pip("wheel", "--no-build-isolation", "--no-deps", "-w", "wheels", str(archive), cwd=tmp_path)
    (wheel,) = (tmp_path / "wheels").glob("headrace-*.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
    pip("install", "--no-deps", "--no-index", "--target", "site", str(wheel), cwd=tmp_path)
    site = tmp_path / "site"
    environment = {**os.environ, "PYTHONPATH": str(site), "PATH": str(site / "bin"), "CC": "false"}
    tried = subprocess.run(
        [sys.executable, str(HERE / "wheel_trial.py")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert not [name for name in names if name.endswith((".c", ".pyx", ".pxd"))]
    assert ".symtab" not in sections(next((site / "headrace" / "engine").glob("client.*.so")))
    assert tried.returncode == 0, tried.stderr
    assert f"modules in {site / 'headrace'}" in tried.stdout
