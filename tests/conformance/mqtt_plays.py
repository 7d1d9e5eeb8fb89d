"""What the vectors of MQTT are played against: the configuration of a server, and where it listens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from conformance.conftest import Served
from conformance.run_mqtt_vectors import play
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from harness.processes import Program


def read(name: str) -> list[dict[str, Any]]:
    """Return the vectors of a file beside this one."""
    found: list[dict[str, Any]] = json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    return found


VECTORS: Final = read("mqtt_vectors.json")
OASIS_VECTORS: Final = read("mqtt_oasis_vectors.json")
"""Rules of the standard that no server which was asked obeys."""


_WEBSOCKET: Final = 'websocket { listen: "127.0.0.1:-1", no_tls: true }\n'


def served(program: Program, vector: dict[str, Any], *, over_websocket: bool = False) -> Served:
    """Return what a vector wants to be played against.

    A user of MQTT is one of MQTT over WebSocket there.
    """
    more = vector.get("config", "")
    if over_websocket:
        more = more.replace('["MQTT"]', '["MQTT_WS"]') + "\n" + _WEBSOCKET
    config = (
        'server_name: "S1"\njetstream { store_dir: "{{dir}}/js" }\n'
        f'mqtt {{ host: "127.0.0.1", port: -1\n{vector.get("mqtt_config", "")} }}\n{more}\n'
    )
    return Served(program, config, alone=vector["name"] if vector.get("fresh") else "")


def assert_played(vector: dict[str, Any], mqtt: int, nats: int = 0) -> None:
    """Play a vector. Raises: AssertionError with the transcript when something else comes back."""
    problem, transcript = play(vector, "127.0.0.1", mqtt, nats, PATIENCE)

    shown = "\n".join(transcript)
    assert not problem, f"{problem}\n{shown}"
