"""Kept inputs of the leaf node protocol and a bounded number of made ones; see test_corpus.py."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest

from fuzz.leaf_mutator import leaf_mutate, leaf_session
from fuzz.leaf_target import check

CORPUS: Final = sorted((Path(__file__).parent / "corpus" / "leaf").iterdir())
MUTATIONS: Final = 600
SESSIONS: Final = 400


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_kept_leaf_input_holds(path: Path) -> None:
    check(path.read_bytes())


def test_leaf_inputs_made_of_ops_hold() -> None:
    for _ in range(SESSIONS):
        seed = random.SystemRandom().getrandbits(32)
        print(f"leaf_session(random.Random({seed}))")
        rng = random.Random(seed)
        check(leaf_session(rng, rng.choice((3, 20, 60))))


def test_mutated_leaf_inputs_hold() -> None:
    for _ in range(MUTATIONS):
        seed = random.SystemRandom().getrandbits(32)
        rng = random.Random(seed)
        path = rng.choice(CORPUS)
        print(f"leaf_mutate({path.name!r}, random.Random({seed}))")
        rng = random.Random(seed)
        check(leaf_mutate(path.read_bytes(), rng, 100_000))
