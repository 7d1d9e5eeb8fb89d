"""Builds the engine anew in a directory of its own, so that no other build lies in the working tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


def build(
    directory: Path, *, sanitize: bool = False, compile_flags: str = "", link_flags: str = ""
) -> dict[str, str]:
    """Copies the package to `directory` and builds it there with its guards on.

    Returns the environment in which Python imports the copy. Raises: RuntimeError with the compiler's words.
    """
    sources = shutil.ignore_patterns("*.so", "*.c", "__pycache__")
    shutil.copytree(ROOT / "src", directory / "src", ignore=sources)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, directory)
    environment = os.environ | {"HEADRACE_ENGINE_DEBUG": "1"}
    if sanitize:
        environment["HEADRACE_ENGINE_SANITIZE"] = "1"
    if compile_flags:
        environment |= {"CFLAGS": compile_flags, "LDFLAGS": link_flags}
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    run = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"the engine could not be built:\n{run.stdout}{run.stderr}")
    found = os.environ | {"PYTHONPATH": str(directory / "src")}
    return found | sanitizer_environment() if sanitize else found


def sanitizer_environment() -> dict[str, str]:
    """What a Python that loads sanitized modules needs.

    Python's own allocator is put aside: links live in Python objects, and their end must be seen too.
    """
    where = subprocess.run(
        [compiler(), "-print-file-name=libasan.so"], check=True, capture_output=True, text=True
    )
    return {
        "LD_PRELOAD": where.stdout.strip(),
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
    }


def compiler() -> str:
    return os.environ.get("CC", "gcc")
