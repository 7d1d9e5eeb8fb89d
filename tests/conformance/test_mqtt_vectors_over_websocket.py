"""The vectors of MQTT over WebSocket, in frames that have nothing to do with packets.

`make test` plays a twentieth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.mqtt_plays import OASIS_VECTORS, VECTORS, assert_played, served
from harness import depth
from harness.mqtt_bridge import MqttBridge
from harness.mqtt_servers import websocket_port
from harness.processes import EPOLL

if TYPE_CHECKING:
    from conformance.conftest import CurrentServer


def chosen() -> list[Any]:
    """Return the vectors that this run plays, those of one configuration side by side."""
    found = [
        (number, vector)
        for number, vector in enumerate((*VECTORS, *OASIS_VECTORS))
        if depth.takes(vector["name"])
    ]
    found.sort(key=lambda each: (each[1].get("config", ""), each[1].get("mqtt_config", "")))
    return [pytest.param(number, vector, id=vector["name"]) for number, vector in found]


@pytest.mark.parametrize(("seed", "vector"), chosen())
def test_vector_played_over_websocket_matches(
    current: CurrentServer, seed: int, vector: dict[str, Any]
) -> None:
    (server,) = current.serve(served(EPOLL, vector, over_websocket=True))

    with MqttBridge(websocket_port(server), seed) as bridge:
        assert_played(vector, bridge.port, server.port)
