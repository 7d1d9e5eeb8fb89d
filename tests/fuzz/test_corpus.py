"""The kept corpus and a bounded number of mutations of it, without a fuzzer.

`python tests/fuzz/fuzz_client.py` is the long run; this is what every run of the tests plays again.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest

from fuzz.client_mutator import mutate, session
from fuzz.client_target import check

CORPUS: Final = sorted((Path(__file__).parent / "corpus" / "client").iterdir())
MOST_BYTES: Final = 300_000
MUTATIONS: Final = 2000
SESSIONS: Final = 500


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_kept_input_holds(path: Path) -> None:
    check(path.read_bytes())


def test_inputs_made_of_ops_hold() -> None:
    for _ in range(SESSIONS):
        seed = random.SystemRandom().getrandbits(32)
        print(f"session(random.Random({seed}))")
        rng = random.Random(seed)
        check(session(rng, rng.choice((3, 20, 60))))


def test_mutated_kept_inputs_hold() -> None:
    for _ in range(MUTATIONS):
        seed = random.SystemRandom().getrandbits(32)
        rng = random.Random(seed)
        path = rng.choice(CORPUS)
        print(f"mutate({path.name!r}, random.Random({seed}))")
        rng = random.Random(seed)
        check(mutate(path.read_bytes(), rng, 100_000))


def test_kept_corpus_stays_small() -> None:
    assert sum(path.stat().st_size for path in CORPUS) < MOST_BYTES
