"""Published clients for Node: installed from npm into build/, once, and driven a scenario at a time.

Without Node, npm or its registry the tests that need them are skipped, saying so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

BUILD: Final = Path(__file__).parents[2] / "build"
INSTALL_SECONDS: Final = 120
SCENARIO_SECONDS: Final = 120


def installed(sources: Path) -> Path:
    """The script `scenarios.js` of a folder, beside the packages that its package.json names."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    folder = BUILD / sources.name
    package = (sources / "package.json").read_text()
    done = folder / "installed.json"
    if not done.exists() or done.read_text() != package:
        _install(folder, package)
        done.write_text(package)
    script = folder / "scenarios.js"
    shutil.copyfile(sources / "scenarios.js", script)
    return script


def _install(folder: Path, package: str) -> None:
    """Skips when npm cannot: no network, no registry."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text(package)
    command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]
    try:
        result = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm install took more than {INSTALL_SECONDS} s")
    if result.returncode != 0:
        pytest.skip(f"npm install failed: {result.stderr.strip()[-300:]}")


class Run:
    """One run of a scenario; a context manager that ends it."""

    def __init__(self, script: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            ["node", str(script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "NODE_NO_WARNINGS": "1"},
        )

    def line(self) -> Any:
        """What it says next."""
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        if not text:
            raise AssertionError(f"ended with {self.process.wait()}: {self.process.communicate()[1]}")
        return json.loads(text)

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def rest(self) -> list[Any]:
        """All that it says until it has ended well."""
        try:
            out, errors = self.process.communicate(timeout=SCENARIO_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, errors = self.process.communicate()
            raise AssertionError(f"stuck after {out!r}: {errors}") from None
        assert self.process.returncode == 0, f"after {out!r}: {errors}"
        return [json.loads(line) for line in out.splitlines()]

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
