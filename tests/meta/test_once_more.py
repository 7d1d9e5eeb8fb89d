"""`make test` runs a few failures once more, alone; a mistake that stays, or many, fail it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "harness" / "once_more.py"
ONCE = """
from pathlib import Path

def test_at_the_second_time():
    marker = Path("was-here")
    was_here = marker.exists()
    marker.touch()
    assert was_here
"""
ALWAYS = "def test_always():\n    assert False\n"
MANY = "".join(f"def test_{number}():\n    assert False\n" for number in range(4))
BROKEN = "nothing here\n"


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, *words), cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize(
    ("text", "before", "after", "said"),
    [
        pytest.param(ONCE, 1, 0, "test_it.py::test_at_the_second_time\n", id="once"),
        pytest.param(ALWAYS, 1, 1, "1 failed", id="always"),
        pytest.param(MANY, 1, 1, "4 tests failed: more than 3 are not run again", id="many"),
        pytest.param(BROKEN, 2, 2, "", id="broken"),
    ],
)
def test_what_failed_is_run_once_more(tmp_path: Path, text: str, before: int, after: int, said: str) -> None:
    (tmp_path / "test_it.py").write_text(text)
    (tmp_path / "test_well.py").write_text("def test_well():\n    pass\n")

    first = run(tmp_path, "-m", "pytest", "-q")
    again = run(tmp_path, str(SCRIPT), str(first.returncode))

    assert (first.returncode, again.returncode) == (before, after), first.stdout + again.stdout
    assert said in again.stdout
    assert ("Failed once, passed alone" in again.stdout) == (after == 0)
