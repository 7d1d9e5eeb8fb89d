"""The published JetStream, key-value and object clients for Node, on Headrace and on the Go server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.node import Run, installed
from harness.processes import HEADRACES, NATS_SERVER, ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES = Path(__file__).parent / "js_node"


@pytest.fixture(scope="session")
def scenarios() -> Path:
    """The script, beside the packages that it needs."""
    return installed(SOURCES)


@pytest.fixture(scope="module", params=(HEADRACES[0], NATS_SERVER), ids=str)
def jetstream(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("jetstream")
    with ServerProcess(request.param, folder, "-js", "-sd", str(folder / "js")) as running:
        yield running


def outcome(scenarios: Path, name: str, server: ServerProcess) -> list[Any]:
    with Run(scenarios, name, server.url) as run:
        return run.rest()


def test_publish(scenarios: Path, jetstream: ServerProcess) -> None:
    acks, wrong, nowhere, stored, state = outcome(scenarios, "publish", jetstream)

    assert acks == [1, False, 1, True]
    assert wrong == [10071, "wrong last sequence: 1"]
    assert nowhere
    assert stored == [1, "one", "x"]
    assert state == [1, {"publish.a": 1}]


def test_fetch_and_consume(scenarios: Path, jetstream: ServerProcess) -> None:
    first, *acks, again, rest, info = outcome(scenarios, "fetch", jetstream)

    assert first == ["1", "2", "3", "4"]
    assert acks == [True] * 4
    assert again == [5, 5, 2]
    assert rest == [6, 7, 8, 9, 10]
    assert info == [0, 10]


def test_ordered_consumer(scenarios: Path, jetstream: ServerProcess) -> None:
    assert outcome(scenarios, "ordered", jetstream) == [True, "499"]


def test_key_value(scenarios: Path, jetstream: ServerProcess) -> None:
    told = outcome(scenarios, "keyValue", jetstream)

    revisions, exists, stale, values, keys, history, seen, status, gone = told
    assert revisions == [1, 2, 3]
    assert exists == "wrong last sequence: 3"
    assert stale == "wrong last sequence: 3"
    assert values == ["three", "DEL", None]
    assert keys == ["a"]
    assert history == [["a", "PUT", 1, 3], ["b", "PUT", 2, 2], ["a", "PUT", 3, 1], ["b", "DEL", 4, 0]]
    assert seen == ["c.x", "seen"]
    assert status == ["bucket", 5, 4]
    assert gone is True


def test_objects(scenarios: Path, jetstream: ServerProcess) -> None:
    size, same, linked, left, status, gone = outcome(scenarios, "objects", jetstream)

    assert size == [1_000_000, 8]
    assert same == 0
    assert linked == 95
    assert left[0] is None
    assert left[1] == [["link", False], ["small", False]]
    assert status == ["objects", False]
    assert gone is True
