"""MQTT.js, the client of browsers and Node, on Headrace and nats-server, over TCP and WebSocket."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.mqtt_servers import mqtt_port, started, websocket_port
from harness.node import Run, installed
from harness.processes import HEADRACES, NATS_SERVER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.processes import ServerProcess

SOURCES = Path(__file__).parent / "mqtt_node"


@pytest.fixture(scope="session")
def scenarios() -> Path:
    """The script, beside the packages that it needs."""
    return installed(SOURCES)


@pytest.fixture(scope="module", params=(HEADRACES[0], NATS_SERVER), ids=str)
def mqtt(
    request: pytest.FixtureRequest, scenarios: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    with started(request.param, tmp_path_factory.mktemp("mqtt"), websocket="no_tls: true") as server:
        yield server


@pytest.fixture(params=["3.1.1 over TCP", "3.1.1 over WebSocket", "5.0 over TCP", "5.0 over WebSocket"])
def reached(request: pytest.FixtureRequest, mqtt: ServerProcess) -> tuple[str, str]:
    """The URL of a server, and the level that its client speaks."""
    level = "5" if request.param.startswith("5.0") else "4"
    if level == "5" and mqtt.program is NATS_SERVER:
        pytest.skip("nats-server does not speak MQTT 5.0")
    if request.param.endswith("WebSocket"):
        return f"ws://127.0.0.1:{websocket_port(mqtt)}/mqtt", level
    return f"mqtt://127.0.0.1:{mqtt_port(mqtt)}", level


def outcome(scenarios: Path, name: str, reached: tuple[str, str]) -> list[Any]:
    with Run(scenarios, name, *reached) as run:
        return run.rest()


def test_publish(scenarios: Path, reached: tuple[str, str]) -> None:
    told = outcome(scenarios, "publish", reached)

    for qos in range(3):
        assert told[2 * qos : 2 * qos + 2] == [[qos], [list(range(50)), [qos]]]


def test_will(scenarios: Path, reached: tuple[str, str]) -> None:
    assert outcome(scenarios, "will", reached) == [["node/will", "gone", 1]]


def test_session_and_retained_message(scenarios: Path, reached: tuple[str, str]) -> None:
    present, numbers, retained = outcome(scenarios, "session", reached)

    assert present is True
    assert numbers == list(range(20))
    assert retained == ["node/retained", "stays", 0, True]


def test_properties(scenarios: Path, reached: tuple[str, str]) -> None:
    if reached[1] != "5":
        pytest.skip("MQTT 3.1.1 has no properties")

    assert outcome(scenarios, "properties", reached) == [
        ["text/plain", "node/answers", [0, 255], {"place": ["attic", "cellar"]}, 9]
    ]
