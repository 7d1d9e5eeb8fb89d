"""Kept inputs of loads and a bounded number of made ones; see test_corpus.py."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest

from fuzz.load_mutator import load_input, load_mutate
from fuzz.load_target import check

CORPUS: Final = sorted((Path(__file__).parent / "corpus" / "load").iterdir())
MADE: Final = 1500


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_kept_input_of_a_load_holds(path: Path) -> None:
    check(path.read_bytes())


def test_made_inputs_of_loads_hold() -> None:
    for _ in range(MADE):
        seed = random.SystemRandom().getrandbits(32)
        print(f"load_input(random.Random({seed}))")
        check(load_input(random.Random(seed)))


def test_mutated_inputs_of_loads_hold() -> None:
    for _ in range(MADE):
        seed = random.SystemRandom().getrandbits(32)
        rng = random.Random(seed)
        path = rng.choice(CORPUS)
        print(f"load_mutate({path.name!r}, random.Random({seed}))")
        check(load_mutate(path.read_bytes(), random.Random(seed), 100_000))
