"""The engine, the logs that stand on it, the loops of loads and the kept corpus, under the sanitizers of
addresses and undefined behaviour.

    python tests/fuzz/sanitized.py [arguments of pytest]

Builds a copy in a temporary directory; ends with pytest's exit code, or dies where a sanitizer finds
something. Leaks are not looked for: Python itself leaves memory behind; the live counters of the engine are
what tests assert.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz.engine_copy import ROOT, build

TESTS = [
    "tests/unit/engine",
    "tests/fuzz",
    "tests/unit/load/test_load_loops.py",
    "tests/unit/log/test_log_core.py",
    "tests/unit/log/test_log_memory.py",
]


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="headrace-sanitized-") as directory:
        environment = build(Path(directory), sanitize=True)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--capture=sys"]
        command += sys.argv[1:] or TESTS
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
