"""Kept inputs of API requests and a bounded number of changed ones; see test_corpus.py."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest

from fuzz.api_requests_target import check
from fuzz.s2_mutator import s2_mutate

CORPUS: Final = sorted((Path(__file__).parent / "corpus" / "api-requests").iterdir())
MADE: Final = 3000


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_kept_request_holds(path: Path) -> None:
    check(path.read_bytes())


def test_changed_requests_hold() -> None:
    for _ in range(MADE):
        seed = random.SystemRandom().getrandbits(32)
        path = random.Random(seed).choice(CORPUS)
        print(f"s2_mutate({path.name!r}, random.Random({seed}))")
        check(s2_mutate(path.read_bytes(), random.Random(seed), 1000))
