"""The published STAN client for Node, unmodified, against Headrace.

It comes from npm into build/, once; without Node or the registry these tests are skipped, saying so.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.node import Run, installed
from harness.processes import STREAMING, ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES = Path(__file__).parent / "stan_node"
CLUSTER = "node-cluster"


@pytest.fixture(scope="session")
def scenarios() -> Path:
    """The script, beside the packages that it needs."""
    return installed(SOURCES)


def streaming_server(folder: Path, *arguments: str) -> ServerProcess:
    server = ServerProcess(STREAMING, folder, "--cluster_id", CLUSTER, *arguments)
    server.wait_for_line("Streaming Server is ready")
    return server


@pytest.fixture(scope="module")
def streaming(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with streaming_server(tmp_path_factory.mktemp("streaming")) as server:
        yield server


def outcome(scenarios: Path, name: str, server: ServerProcess) -> list[Any]:
    with Run(scenarios, name, server.url, CLUSTER) as run:
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
        with Run(scenarios, "reconnect", server.url, CLUSTER) as run:
            assert run.line() == [[1, "before", False]]
            server.kill()
            listen = ("-a", "127.0.0.1", "-p", str(port))
            again = ServerProcess(STREAMING, tmp_path, "--cluster_id", CLUSTER, *store, listen=listen)
            with again:
                run.go_on()

                assert run.rest() == [[2, "after", False]]
