"""What is published is made in a copy of the repository, so that no build lies in the working tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

TRACKED: Final = [
    name
    for name in subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split("\0")
    if name and (ROOT / name).is_file()
]
"""The files of the repository; empty where it is none."""


def copy_of_repository(folder: Path) -> Path:
    """Copy the files of the repository, and nothing that was built from them."""
    copied = folder / "repository"
    for name in TRACKED:
        (copied / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copied / name)
    return copied


def run_setup(repository: Path, *command: str) -> None:
    """Run a command of setup.py. Raises: AssertionError with what it says."""
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", *command],
        cwd=repository,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},  # setuptools warns of commands without an installer
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


def sdist(repository: Path) -> Path:
    """Make the source distribution; nothing is compiled."""
    run_setup(repository, "sdist")
    (made,) = (repository / "dist").glob("*.tar.gz")
    return made


def names_in(archive: Path) -> set[str]:
    """The files of a source distribution, below its folder."""
    with tarfile.open(archive) as opened:
        return {each.name.partition("/")[2] for each in opened.getmembers() if each.isfile()}
