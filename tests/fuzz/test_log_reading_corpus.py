"""Kept inputs of point reads and a bounded number of made ones; see test_corpus.py."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest

from fuzz.log_reading_mutator import log_reading_input
from fuzz.log_reading_target import check
from fuzz.s2_mutator import s2_mutate

CORPUS: Final = sorted((Path(__file__).parent / "corpus" / "log-reading").iterdir())
MADE: Final = 600


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_kept_input_of_point_reads_holds(path: Path) -> None:
    check(path.read_bytes())


def test_made_inputs_of_point_reads_hold() -> None:
    for _ in range(MADE):
        seed = random.SystemRandom().getrandbits(32)
        print(f"log_reading_input(random.Random({seed}))")
        check(log_reading_input(random.Random(seed)))


def test_mutated_inputs_of_point_reads_hold() -> None:
    for _ in range(MADE):
        seed = random.SystemRandom().getrandbits(32)
        rng = random.Random(seed)
        path = rng.choice(CORPUS)
        print(f"s2_mutate({path.name!r}, random.Random({seed}))")
        check(s2_mutate(path.read_bytes(), random.Random(seed), 20_000))
