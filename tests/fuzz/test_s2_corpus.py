"""Kept inputs of S2 and a bounded number of made ones; see test_corpus.py."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest

from fuzz.s2_mutator import s2_input, s2_mutate
from fuzz.s2_target import check

CORPUS: Final = sorted((Path(__file__).parent / "corpus" / "s2").iterdir())
MADE: Final = 1500


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_kept_s2_input_holds(path: Path) -> None:
    check(path.read_bytes())


def test_made_s2_inputs_hold() -> None:
    for _ in range(MADE):
        seed = random.SystemRandom().getrandbits(32)
        print(f"s2_input(random.Random({seed}))")
        check(s2_input(random.Random(seed)))


def test_mutated_s2_inputs_hold() -> None:
    for _ in range(MADE):
        seed = random.SystemRandom().getrandbits(32)
        rng = random.Random(seed)
        path = rng.choice(CORPUS)
        print(f"s2_mutate({path.name!r}, random.Random({seed}))")
        check(s2_mutate(path.read_bytes(), random.Random(seed), 100_000))
