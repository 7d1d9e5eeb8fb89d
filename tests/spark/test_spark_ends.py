"""INT and TERM at any moment of a command that works on Spark: a line, a code, and nothing is left.

Where a JVM is started for it, `make test` plays one command or signal of a moment, `make test-deep` all.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import headrace
from harness import depth
from harness.dearest import in_turn
from harness.waiting import PATIENCE, wait_until
from headrace.spark.java import find_java

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.spark,
    in_turn("signals"),
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]

QUICK = '{spark.driver.extraJavaOptions: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}'
SPEC = f"""
pipeline: counting
spark: {QUICK}
trigger: 1h
sources: {{numbers: {{format: rate}}}}
sinks: {{out: {{from: numbers, format: noop}}}}
"""
ENDS = [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")]
QUERY = Path("checkpoints", "counting", "out")
MOMENTS: dict[str, tuple[str, Callable[[Path], bool]]] = {
    "in a batch": (
        "pipeline run counting.yaml",
        lambda folder: (folder / QUERY / "offsets" / "0").exists(),
    ),
    "between batches": (
        "pipeline run counting.yaml",
        lambda folder: (folder / QUERY / "commits" / "0").exists(),
    ),
    "in the demonstration": ("demo", lambda folder: "PySpark" in (folder / "stdout").read_text()),
}
"""A command, and whether the moment has come in the folder that it runs in."""
WHILE_IT_RUNS = [
    *((when, *end) for when in ("in a batch", "between batches") for end in ENDS),
    ("in the demonstration", *ENDS[1]),
]
COMMANDS = [
    ("pipeline run counting.yaml", signal.SIGINT, "interrupted"),
    ("pipeline run counting.yaml", signal.SIGTERM, "terminated"),
    ("pipeline check --plan counting.yaml", signal.SIGTERM, "terminated"),
    ("demo", signal.SIGINT, "interrupted"),
]
MARK = "HEADRACE_TEST_PROCESS"


class Command:
    """A `headrace` command with all the processes that it starts, which inherit a mark."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self.mark = f"{MARK}={uuid.uuid4()}"
        paths = [environment.pop("paths", ""), str(Path(headrace.__file__).parents[1])]
        with (folder / "stdout").open("wb") as output, (folder / "stderr").open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headrace", *arguments],
                cwd=folder,
                env={
                    **os.environ,
                    MARK: self.mark.removeprefix(f"{MARK}="),
                    "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                    **environment,
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
            )
        self._errors = folder / "stderr"

    def wait_for(self, state: Callable[[], bool]) -> None:
        def is_so() -> bool:
            assert self.process.poll() is None, self._errors.read_text()
            return state()

        wait_until(is_so, "what to wait for", 6 * PATIENCE)

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Its exit code and what it complained of; nothing that it started is left."""
        self.process.send_signal(number)
        code = self.process.wait(2 * PATIENCE)
        wait_until(lambda: not self.left(), "the end of what it started")
        return code, self._errors.read_text()

    def left(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdecimal() and self.mark.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except (OSError, ProcessLookupError):  # gone, or another user's
                continue
        return found

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for pid in self.left():
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Command]]:
    started: list[Command] = []

    def go(*arguments: str, **environment: str) -> Command:
        started.append(Command(tmp_path, *arguments, **environment))
        return started[-1]

    yield go
    for one in started:
        one.kill()


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    file = tmp_path / "counting.yaml"
    file.write_text(SPEC)
    return file


def a_java_that_hangs(folder: Path) -> Path:
    """A JAVA_HOME that passes for one; what is started in it never gets anywhere."""
    home = folder / "java"
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(f"""#!/bin/sh
case "$*" in
    --list-modules) echo java.base@21; echo jdk.incubator.vector@21;;
    *spark.launcher.Main*) exec {find_java().home}/bin/java "$@";;
    *) touch {folder}/hangs; exec sleep 1000;;
esac
""")
    java.chmod(0o755)
    return home


@pytest.mark.parametrize(("command", "number", "word"), COMMANDS)
def test_while_modules_are_loaded(
    start: Callable[..., Command], spec: Path, command: str, number: signal.Signals, word: str
) -> None:
    paths = spec.parent / "modules"
    (paths / "pyspark").mkdir(parents=True)
    (paths / "pyspark" / "__init__.py").write_text(
        "import pathlib, time; pathlib.Path('loads').touch(); time.sleep(1000)"
    )
    running = start(*command.split(), paths=str(paths))
    running.wait_for((spec.parent / "loads").exists)

    assert running.end(number) == (128 + number, f"headrace {command.split(maxsplit=1)[0]}: {word}\n")


@pytest.mark.parametrize(("command", "number", "word"), depth.turn(COMMANDS))
def test_while_the_jvm_starts(
    start: Callable[..., Command], spec: Path, command: str, number: signal.Signals, word: str
) -> None:
    running = start(*command.split(), JAVA_HOME=str(a_java_that_hangs(spec.parent)))
    running.wait_for((spec.parent / "hangs").exists)

    assert running.end(number) == (128 + number, f"headrace {command.split(maxsplit=1)[0]}: {word}\n")


@pytest.mark.parametrize(("number", "word"), depth.turn(ENDS))
def test_while_the_session_is_made(
    start: Callable[..., Command], spec: Path, number: signal.Signals, word: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:  # a master that says nothing
        mute.settimeout(6 * PATIENCE)
        master = f"spark://127.0.0.1:{mute.getsockname()[1]}"
        running = start("pipeline", "run", str(spec), "--master", master)
        with mute.accept()[0]:
            assert running.end(number) == (128 + number, f"headrace pipeline: {word}\n")


@pytest.mark.parametrize(("when", "number", "word"), depth.turn(WHILE_IT_RUNS))
def test_while_it_runs(
    start: Callable[..., Command], spec: Path, when: str, number: signal.Signals, word: str
) -> None:
    command, has_come = MOMENTS[when]
    running = start(*command.split())
    running.wait_for(lambda: has_come(spec.parent))

    assert running.end(number) == (128 + number, f"headrace {command.split(maxsplit=1)[0]}: {word}\n")


def test_a_second_signal_waits_for_nothing(start: Callable[..., Command], tmp_path: Path) -> None:
    (tmp_path / "sleeping.py").write_text(
        "import pathlib, time\n"
        "def never(rows, batch):\n"
        "    pathlib.Path('sleeps').touch()\n"
        "    time.sleep(1000)\n"
    )
    spec = tmp_path / "sleeping.yaml"
    spec.write_text(SPEC.replace("format: noop", "python: sleeping:never"))
    running = start("pipeline", "run", str(spec), paths=str(tmp_path))
    running.wait_for((tmp_path / "sleeps").exists)
    running.process.send_signal(signal.SIGTERM)
    running.wait_for(lambda: "terminated" in (tmp_path / "stderr").read_text())

    assert running.end(signal.SIGINT) == (
        128 + signal.SIGTERM,
        "headrace pipeline: terminated\nheadrace pipeline: interrupted\n",
    )
