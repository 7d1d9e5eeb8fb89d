"""Kept inputs of publications and a bounded number of made ones; see test_corpus.py."""

from __future__ import annotations

import gc
import random
from pathlib import Path
from typing import Final

import pytest

from fuzz.publish_target import check, publish_input
from fuzz.s2_mutator import s2_mutate

CORPUS: Final = sorted((Path(__file__).parent / "corpus" / "publish").iterdir())
MADE: Final = 300


@pytest.fixture(autouse=True)
def _collected() -> None:
    """What earlier tests left in cycles does not go while live objects are counted."""
    gc.collect()


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_kept_input_of_publications_holds(path: Path) -> None:
    check(path.read_bytes())


def test_made_inputs_of_publications_hold() -> None:
    for _ in range(MADE):
        seed = random.SystemRandom().getrandbits(32)
        print(f"publish_input(random.Random({seed}))")
        check(publish_input(random.Random(seed)))


def test_mutated_inputs_of_publications_hold() -> None:
    for _ in range(MADE):
        seed = random.SystemRandom().getrandbits(32)
        print(f"s2_mutate(publish_input(rng), rng, 20_000) of random.Random({seed})")
        rng = random.Random(seed)
        check(s2_mutate(publish_input(rng), rng, 20_000))
