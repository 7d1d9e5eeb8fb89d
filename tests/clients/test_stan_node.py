"""The published STAN client for Node, unmodified, against Headrace.

It comes from npm into build/, once; without Node or the registry these tests are skipped, saying so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.processes import BIN, Program, ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES = Path(__file__).parent / "stan_node"
INSTALLED = Path(__file__).parents[2] / "build" / "stan_node"
STREAMING = Program("headrace-streaming", (str(BIN / "headrace"), "streaming"))
CLUSTER = "node-cluster"
INSTALL_SECONDS = 120
SCENARIO_SECONDS = 30


@pytest.fixture(scope="session")
def scenarios() -> Path:
    """The script, beside the packages that it needs."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    package = (SOURCES / "package.json").read_text()
    done = INSTALLED / "installed.json"
    if not done.exists() or done.read_text() != package:
        install(package)
        done.write_text(package)
    script = INSTALLED / "scenarios.js"
    shutil.copyfile(SOURCES / "scenarios.js", script)
    return script


def install(package: str) -> None:
    """Skips when npm cannot: no network, no registry."""
    INSTALLED.mkdir(parents=True, exist_ok=True)
    (INSTALLED / "package.json").write_text(package)
    command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]
    try:
        result = subprocess.run(
            command, cwd=INSTALLED, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm install took more than {INSTALL_SECONDS} s")
    if result.returncode != 0:
        pytest.skip(f"npm install failed: {result.stderr.strip()[-300:]}")


class Run:
    """One run of a scenario; a context manager that ends it."""

    def __init__(self, script: Path, name: str, url: str) -> None:
        self.process = subprocess.Popen(
            ["node", str(script), name, url, CLUSTER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "NODE_NO_WARNINGS": "1"},
        )

    def line(self) -> Any:
        """What it says next."""
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        if not text:
            raise AssertionError(f"ended with {self.process.wait()}: {self.process.communicate()[1]}")
        return json.loads(text)

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def rest(self) -> list[Any]:
        """All that it says until it has ended well."""
        try:
            out, errors = self.process.communicate(timeout=SCENARIO_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, errors = self.process.communicate()
            raise AssertionError(f"stuck after {out!r}: {errors}") from None
        assert self.process.returncode == 0, f"after {out!r}: {errors}"
        return [json.loads(line) for line in out.splitlines()]

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def streaming_server(folder: Path, *arguments: str) -> ServerProcess:
    server = ServerProcess(STREAMING, folder, "--cluster_id", CLUSTER, *arguments)
    server.wait_for_line("Streaming Server is ready")
    return server


@pytest.fixture(scope="module")
def streaming(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with streaming_server(tmp_path_factory.mktemp("streaming")) as server:
        yield server


def outcome(scenarios: Path, name: str, server: ServerProcess) -> list[Any]:
    with Run(scenarios, name, server.url) as run:
        return run.rest()


def test_publish(scenarios: Path, streaming: ServerProcess) -> None:
    assert outcome(scenarios, "publish", streaming) == [5, "stan: invalid publish request"]


def test_each_start(scenarios: Path, streaming: ServerProcess) -> None:
    stored = [[n, f"message {n}", False] for n in range(1, 6)]

    assert outcome(scenarios, "subscribe", streaming) == [
        stored,
        stored[4:],
        stored[2:],
        stored,
        [6, "message 6", False, True],
    ]


def test_durable(scenarios: Path, streaming: ServerProcess) -> None:
    first, resumed, refused, afresh = outcome(scenarios, "durable", streaming)

    assert first == [[1, "a", False], [2, "b", False]]
    assert resumed == [[3, "c", False]]
    assert refused == "stan: duplicate durable registration"
    assert afresh == [[1, "a", False], [2, "b", False], [3, "c", False]]


def test_queue_group(scenarios: Path, streaming: ServerProcess) -> None:
    sequences, busy, last = outcome(scenarios, "queue", streaming)

    assert sequences == list(range(1, 41))
    assert busy == [True, True]
    assert last == [[41, "last", False]]


def test_redelivery(scenarios: Path, streaming: ServerProcess) -> None:
    twice, then = outcome(scenarios, "redelivery", streaming)

    assert twice == [[1, "a", False, 0], [2, "b", False, 0], [1, "a", True, 1], [2, "b", True, 1]]
    assert then == [3, "c", False]


def test_replaced_client_hears_of_it(scenarios: Path, streaming: ServerProcess) -> None:
    assert outcome(scenarios, "replaced", streaming) == [
        "stan: clientID already registered",
        "client has been replaced or is no longer registered",
    ]


def test_restart_of_the_server_is_only_a_reconnect(scenarios: Path, tmp_path: Path) -> None:
    store = ("--store", "file", "--dir", str(tmp_path / "store"))
    with streaming_server(tmp_path, *store) as server:
        port = server.port
        with Run(scenarios, "reconnect", server.url) as run:
            assert run.line() == [[1, "before", False]]
            server.kill()
            listen = ("-a", "127.0.0.1", "-p", str(port))
            again = ServerProcess(STREAMING, tmp_path, "--cluster_id", CLUSTER, *store, listen=listen)
            with again:
                run.go_on()

                assert run.rest() == [[2, "after", False]]
