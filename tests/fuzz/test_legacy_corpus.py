"""Kept inputs of the route protocol of before 2.0 and a bounded number of made ones; see test_corpus.py."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest

from fuzz.legacy_mutator import legacy_mutate, legacy_session
from fuzz.legacy_target import check

CORPUS: Final = sorted((Path(__file__).parent / "corpus" / "legacy").iterdir())
MUTATIONS: Final = 600
SESSIONS: Final = 400


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_kept_legacy_input_holds(path: Path) -> None:
    check(path.read_bytes())


def test_legacy_inputs_made_of_ops_hold() -> None:
    for _ in range(SESSIONS):
        seed = random.SystemRandom().getrandbits(32)
        print(f"legacy_session(random.Random({seed}))")
        rng = random.Random(seed)
        check(legacy_session(rng, rng.choice((3, 20, 60))))


def test_mutated_legacy_inputs_hold() -> None:
    for _ in range(MUTATIONS):
        seed = random.SystemRandom().getrandbits(32)
        rng = random.Random(seed)
        path = rng.choice(CORPUS)
        print(f"legacy_mutate({path.name!r}, random.Random({seed}))")
        rng = random.Random(seed)
        check(legacy_mutate(path.read_bytes(), rng, 100_000))
