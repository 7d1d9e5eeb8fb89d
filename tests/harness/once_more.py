"""Runs a few tests that failed once more, alone: what `make test` does after a run with failures.

Six tests share two processors at a time, and a few of 33,000 may fail by that alone. One that passes here is
named, and the run is a success; a mistake that is there each time fails again. Many failures are no matter of
time: then nothing is run again. Never here: which tests there are, how they share processes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

MOST: Final = 3
"""Failures of a run that may be a matter of time."""
FAILED: Final = 1
"""The code of pytest for a run that was whole, and had failures; any other one is passed on."""
_CACHE: Final = Path(".pytest_cache/v/cache/lastfailed")
"""Where pytest notes which tests failed."""
_AGAIN: Final = ("--last-failed", "--last-failed-no-failures", "none", "-p", "no:xdist")


def main(code: int) -> int:
    """Return the code of the whole: 0 if all that failed passed alone. `code`: that of the run before."""
    if code != FAILED:
        return code
    failed = sorted(json.loads(_CACHE.read_text(encoding="utf-8")))
    if not 0 < len(failed) <= MOST:
        print(f"{len(failed)} tests failed: more than {MOST} are not run again")
        return code
    print(f"\nRun once more, alone: {len(failed)} that failed", flush=True)
    code = subprocess.run((sys.executable, "-m", "pytest", *_AGAIN), check=False).returncode
    if code == 0:
        print("Failed once, passed alone. Each is a mistake of time in the test, or in what it tests:")
        print(*failed, sep="\n")
    return code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
