"""Kept inputs of MQTT and a bounded number of made ones; see test_corpus.py."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest

from fuzz.mqtt_mutator import mqtt_mutate, mqtt_session
from fuzz.mqtt_target import check

CORPUS: Final = sorted((Path(__file__).parent / "corpus" / "mqtt").iterdir())
MUTATIONS: Final = 600
SESSIONS: Final = 400


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_kept_mqtt_input_holds(path: Path) -> None:
    check(path.read_bytes())


def test_mqtt_inputs_made_of_ops_hold() -> None:
    for _ in range(SESSIONS):
        seed = random.SystemRandom().getrandbits(32)
        print(f"mqtt_session(random.Random({seed}))")
        rng = random.Random(seed)
        check(mqtt_session(rng, rng.choice((3, 20, 60))))


def test_mutated_mqtt_inputs_hold() -> None:
    for _ in range(MUTATIONS):
        seed = random.SystemRandom().getrandbits(32)
        rng = random.Random(seed)
        path = rng.choice(CORPUS)
        print(f"mqtt_mutate({path.name!r}, random.Random({seed}))")
        rng = random.Random(seed)
        check(mqtt_mutate(path.read_bytes(), rng, 100_000))
