"""A scenario is repeated only where the reference differs from itself; else the first difference counts."""

from __future__ import annotations

from itertools import chain, repeat
from typing import TYPE_CHECKING

import pytest

from conformance.jetstream_plays import REPEATS, judge
from harness.tallies import TALLIES

if TYPE_CHECKING:
    from collections.abc import Callable

COUNTED = "scenario: the Go server differed from itself"


def plays(*transcripts: str) -> Callable[[], list[str]]:
    """One after the other, and the last of them again and again."""
    following = chain(transcripts, repeat(transcripts[-1]))
    return lambda: [next(following)]


def never() -> list[str]:
    raise AssertionError("there is no reason to play this again")


def test_agreement_is_not_repeated() -> None:
    assert judge("scenario", (["a"], ["a"]), reference=never, ours=never) == ["a"]


def test_reference_that_has_one_way_is_right_at_once() -> None:
    with pytest.raises(AssertionError, match="scenario"):
        judge("scenario", (["a"], ["b"]), reference=plays("a"), ours=never)
    assert COUNTED not in TALLIES


def test_reference_that_differs_from_itself_may_play_as_we_did() -> None:
    agreed = judge("scenario", (["a"], ["b"]), reference=plays("a", "b", "a"), ours=never)

    assert agreed == ["b"]
    assert TALLIES.pop(COUNTED) == 1


def test_reference_that_differs_from_itself_lets_us_play_again() -> None:
    agreed = judge("scenario", (["a"], ["b"]), reference=plays("a", "c", "a"), ours=plays("d", "c"))

    assert agreed == ["c"]
    assert TALLIES.pop(COUNTED) == 1


def test_what_the_reference_never_plays_is_refused_however_it_differs() -> None:
    tried = []

    def ours() -> list[str]:
        tried.append(1)
        return ["b"]

    with pytest.raises(AssertionError, match="scenario"):
        judge("scenario", (["a"], ["b"]), reference=plays("a", "c", "a"), ours=ours)
    assert len(tried) == REPEATS
    assert TALLIES.pop(COUNTED) == 1
