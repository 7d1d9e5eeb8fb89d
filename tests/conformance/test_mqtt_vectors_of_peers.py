"""The vectors of MQTT against the servers that they are from: nats-server (3.1.1) and Mosquitto (5.0).

They show that a vector says what the real server does. `make test` plays a twentieth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.mqtt_plays import VECTORS, assert_played, served
from harness import depth
from harness.mosquitto import Mosquitto
from harness.mqtt_servers import mqtt_port
from harness.processes import NATS_SERVER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.conftest import CurrentServer

pytestmark = pytest.mark.clients


def of_kind(kind: str) -> list[Any]:
    """Return the vectors of a level of the protocol that this run plays, those of one configuration side by
    side.
    """
    chosen = [vector for vector in VECTORS if vector["kind"] == kind and depth.takes(vector["name"])]
    chosen.sort(key=lambda vector: (vector.get("config", ""), vector.get("mqtt_config", "")))
    return [pytest.param(vector, id=vector["name"]) for vector in chosen]


@pytest.fixture(scope="module")
def mosquitto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path_factory.mktemp("mosquitto")) as running:
        yield running


@pytest.mark.parametrize("vector", of_kind("3.1.1"))
def test_vector_played_against_nats_server_matches(current: CurrentServer, vector: dict[str, Any]) -> None:
    (server,) = current.serve(served(NATS_SERVER, vector))

    assert_played(vector, mqtt_port(server), server.port)


@pytest.mark.parametrize("vector", of_kind("5"))
def test_vector_played_against_mosquitto_matches(mosquitto: Mosquitto, vector: dict[str, Any]) -> None:
    assert_played(vector, mosquitto.port)
