"""Clocks that differ: a library, compiled here, that shows a process another time of day.

Never here: which server has which clock.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

_SOURCE: Final = Path(__file__).with_name("clock.c")


class Clocks:
    """The library, compiled into a folder. Skips the test where there is no C compiler."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("there is no C compiler (cc): clocks cannot be made to differ")
        self._library: Final = folder / "clock.so"
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(self._library), str(_SOURCE)]
        subprocess.run(command, check=True, capture_output=True, text=True)

    def environment(self, offset_s: int) -> dict[str, str]:
        """Return the variables of a process whose clock goes so many seconds before the machine's."""
        return {"LD_PRELOAD": str(self._library), "CLOCK_OFFSET_S": str(offset_s)}
