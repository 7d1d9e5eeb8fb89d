"""Plays the test suite of nats-py against Headrace and against nats-server and says where they differ.

    python tests/conformance/drop_in.py CHECKOUT [--only test_client.py ...] [--without test_js.py ...]

CHECKOUT is a clone of nats-io/nats.py: the suite is in no package of a registry, so this is no part of
`make test`. Its servers listen on fixed ports (4222 and others), which must be free. Each file runs in a
process of its own, with an executable called nats-server in front of PATH; one that hangs is ended, and its
test that had begun counts as HUNG. Exit code 0: no test passes with nats-server and does not with Headrace.
"""

from __future__ import annotations

import argparse
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Column, Table

REPOSITORY = Path(__file__).parents[2]
LONGEST_SILENCE = 90.0
"""Seconds without a line of output after which a file's process is ended."""
RESULT = re.compile(r"^(\S+::\S+) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)", re.MULTILINE)
BEGUN = re.compile(r"^(\S+::\S+) ?$", re.MULTILINE)


def suite_of(checkout: Path) -> Path:
    """The folder that has `tests/test_client.py`. Exits with a message when there is none."""
    for folder in (checkout / "nats", checkout):
        if (folder / "tests" / "test_client.py").is_file():
            return folder
    sys.exit(f"{checkout} is no clone of nats-io/nats.py: there is no tests/test_client.py in it")


def executables(folder: Path) -> dict[str, Path]:
    """A folder for PATH with a `nats-server` in it, by the name of the server it runs.

    Not called `nats-server` itself: the suite would look for that in the home directory first.
    """
    from harness.processes import NATS_SERVER

    commands = {
        "nats-server": f'exec {NATS_SERVER.command[0]} "$@"',
        "Headrace": f'PYTHONPATH={REPOSITORY / "src"} exec {sys.executable} -m headrace serve "$@"',
    }
    found = {}
    for name, command in commands.items():
        found[name] = folder / f"{name}-path"
        found[name].mkdir()
        script = found[name] / "nats-server"
        script.write_text(f"#!/bin/sh\n{command}\n")
        script.chmod(0o755)
    return found


def play(checkout: Path, suite: Path, file: Path, path: Path, home: Path) -> dict[str, str]:
    """What became of each test of a file with the nats-server of this PATH.

    Runs in the checkout: two of the suite's configurations name their certificates from there.
    """
    environment = {
        **os.environ,
        "PATH": f"{path}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(suite / "src" if (suite / "src").is_dir() else suite),
        "PYTHONUNBUFFERED": "1",
        "HOME": str(home),
    }
    command = [sys.executable, "-m", "pytest", "-v", "--tb=no", "-p", "no:cacheprovider", "-p", "no:warnings"]
    process = subprocess.Popen(
        [*command, str(file.relative_to(checkout))],
        cwd=checkout,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    text, hung = _output(process)
    found = dict(RESULT.findall(text))
    if hung:
        found |= {name: "HUNG" for name in BEGUN.findall(text) if name not in found}
    if not found:
        raise SystemExit(f"{file.name} could not be run:\n{text[-2000:]}")
    return found


def _output(process: subprocess.Popen[bytes]) -> tuple[str, bool]:
    """All it printed, and whether it had to be ended, with every server it had started."""
    assert process.stdout is not None
    chunks: list[bytes] = []
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        last = time.monotonic()
        while time.monotonic() - last < LONGEST_SILENCE:
            if not selector.select(1.0):
                continue
            chunk = os.read(process.stdout.fileno(), 1 << 16)
            if not chunk:
                process.wait()
                return b"".join(chunks).decode(), False
            chunks.append(chunk)
            last = time.monotonic()
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return b"".join(chunks).decode(), True


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="a clone of nats-io/nats.py")
    parser.add_argument("--only", nargs="+", default=[], metavar="FILE", help="these files of its tests")
    parser.add_argument("--without", nargs="+", default=[], metavar="FILE", help="all but these")
    given = parser.parse_args()
    checkout = given.checkout.resolve()
    suite = suite_of(checkout)
    files = sorted(
        file
        for file in (suite / "tests").glob("test_*.py")
        if file.name not in given.without and (not given.only or file.name in given.only)
    )
    console = Console()
    results: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as folder, Progress(console=console) as progress:
        paths, home = executables(Path(folder)), Path(folder)
        task = progress.add_task("", total=len(files) * len(paths))
        for file in files:
            for server, path in paths.items():
                progress.update(task, description=f"{file.name} with {server}")
                results.setdefault(server, {}).update(play(checkout, suite, file, path, home))
                progress.advance(task)
    return report(console, results["nats-server"], results["Headrace"])


def report(console: Console, theirs: dict[str, str], ours: dict[str, str]) -> int:
    """Prints the differences by name; 1 when one of them is Headrace's."""
    table = Table(Column("test", overflow="fold"), "nats-server", "Headrace")
    worse = 0
    for name in sorted(theirs.keys() | ours.keys()):
        his, mine = theirs.get(name, "not run"), ours.get(name, "not run")
        if his != mine:
            worse += his == "PASSED"
            table.add_row(name, his, mine)
    if table.row_count:
        console.print(table)
    for server, found in (("nats-server", theirs), ("Headrace", ours)):
        passed = sum(result == "PASSED" for result in found.values())
        console.print(f"{server}: {passed} of {len(found)} tests pass")
    console.print(f"{worse} tests pass with nats-server and not with Headrace")
    return min(worse, 1)


if __name__ == "__main__":
    sys.path.insert(0, str(REPOSITORY / "tests"))
    sys.exit(main())
