"""Kept inputs of trace headers and a bounded number of made ones; see test_corpus.py."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest

from fuzz.trace_mutator import trace_input, trace_mutate
from fuzz.trace_target import check

CORPUS: Final = sorted((Path(__file__).parent / "corpus" / "trace").iterdir())
MADE: Final = 1500


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_kept_trace_headers_hold(path: Path) -> None:
    check(path.read_bytes())


def test_made_trace_headers_hold() -> None:
    for _ in range(MADE):
        seed = random.SystemRandom().getrandbits(32)
        print(f"trace_input(random.Random({seed}))")
        check(trace_input(random.Random(seed)))


def test_mutated_trace_headers_hold() -> None:
    for _ in range(MADE):
        seed = random.SystemRandom().getrandbits(32)
        rng = random.Random(seed)
        path = rng.choice(CORPUS)
        print(f"trace_mutate({path.name!r}, random.Random({seed}))")
        check(trace_mutate(path.read_bytes(), random.Random(seed), 100_000))
