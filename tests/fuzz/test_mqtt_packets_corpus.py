"""Kept inputs of MQTT's rare packets and a bounded number of made ones; see test_corpus.py."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest

from fuzz.mqtt_packets_mutator import mqtt_packet_input, mqtt_packets_mutate
from fuzz.mqtt_packets_target import check

CORPUS: Final = sorted((Path(__file__).parent / "corpus" / "mqtt-packets").iterdir())
INPUTS: Final = 2000


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_kept_mqtt_packet_holds(path: Path) -> None:
    check(path.read_bytes())


def test_made_mqtt_packets_hold() -> None:
    for _ in range(INPUTS):
        seed = random.SystemRandom().getrandbits(32)
        print(f"mqtt_packet_input(random.Random({seed}))")
        check(mqtt_packet_input(random.Random(seed)))


def test_changed_mqtt_packets_hold() -> None:
    for _ in range(INPUTS):
        seed = random.SystemRandom().getrandbits(32)
        rng = random.Random(seed)
        path = rng.choice(CORPUS)
        print(f"mqtt_packets_mutate({path.name!r}, random.Random({seed}))")
        check(mqtt_packets_mutate(path.read_bytes(), random.Random(seed), 100_000))
