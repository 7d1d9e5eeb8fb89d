"""Kept inputs of MQTT over WebSocket and a bounded number of made ones; see test_corpus.py."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest

from fuzz.mqtt_websocket_mutator import websocket_mutate, websocket_session
from fuzz.mqtt_websocket_target import check

CORPUS: Final = sorted((Path(__file__).parent / "corpus" / "mqtt-websocket").iterdir())
INPUTS: Final = 150


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_kept_mqtt_over_websocket_holds(path: Path) -> None:
    check(path.read_bytes())


def test_made_mqtt_over_websocket_holds() -> None:
    for _ in range(INPUTS):
        seed = random.SystemRandom().getrandbits(32)
        messages = random.SystemRandom().choice((3, 5, 30))
        print(f"websocket_session(random.Random({seed}), {messages})")
        check(websocket_session(random.Random(seed), messages))


def test_changed_mqtt_over_websocket_holds() -> None:
    for _ in range(INPUTS):
        seed = random.SystemRandom().getrandbits(32)
        rng = random.Random(seed)
        path = rng.choice(CORPUS)
        print(f"websocket_mutate({path.name!r}, random.Random({seed}))")
        check(websocket_mutate(path.read_bytes(), random.Random(seed), 100_000))
