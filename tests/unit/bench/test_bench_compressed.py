"""The bench of compressed streams: one small stream on each server, and its words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bench.compressed import TAKERS, WAYS, compressed_text, measured
from bench.process import Command, default_peer, default_server
from bench.sides import Side, side_command

if TYPE_CHECKING:
    from pathlib import Path

FOUND: dict[str, float] = {"disk": 20.0, "store": 2.0, "deliver": 1.0}
RESULT: dict[str, Any] = {
    "created": "today",
    "command": "this",
    "machine": {"cpu": "one", "cores": 2},
    "megabytes": 24,
    "rows": 1_000_000,
    "reps": 3,
    "load": 1.5,
    "streams": {"x": {side: {"none": FOUND, "s2": {**FOUND, "disk": 5.0}} for side in TAKERS}},
    "scans": {
        "none": {"disk": 200.0, "rates": [1e6, 2e6, 3e6]},
        "s2": {"disk": 50.0, "rates": [1e6, 1e6, 9e6]},
    },
}


@pytest.mark.parametrize("side", TAKERS)
def test_a_small_stream(tmp_path: Path, side: Side) -> None:
    command = side_command(side, Command(default_server()), Command(default_peer()))
    found = measured(tmp_path, command, "json", WAYS[1], 1 << 20)
    assert found.keys() == FOUND.keys()
    assert 1.0 < found["disk"] < 1.6  # nothing of it is full
    assert found["store"] > 0
    assert found["deliver"] > 0


def test_the_words() -> None:
    text = compressed_text(RESULT)
    assert "| one letter | Headrace | 20.0 / 5.0 | 2.0 / 2.0 | 1.0 / 1.0 |" in text
    assert "| one letter | nats-server | 20.0 / 5.0 |" in text
    assert "2.00 M rows/s without compression (200 MB), 1.00 M rows/s with it (50 MB), 0.50×." in text
