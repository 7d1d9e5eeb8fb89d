"""Seeded clusters of real engines and meshes: they converge, deliver once, loop nothing, give everything
back.

HEADRACE_TEST_MESHES says how many small clusters are played (2,000), HEADRACE_TEST_SEED with which seed to
begin (0); one larger cluster is played for every hundred. A failure names the seeds and the command that
plays them.
"""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING, Final

import pytest

from harness.tallies import TALLIES
from headrace.engine.memory import live_objects
from simulation.scenario import Plan, Scenario, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

MESHES: Final = int(os.environ.get("HEADRACE_TEST_MESHES", "2000"))
FIRST: Final = int(os.environ.get("HEADRACE_TEST_SEED", "0"))
BLOCK: Final = 100
SIZES: Final = (7, 8, 10, 12, 16, 20, 8, 10, 7, 30)
"""Nodes of the larger clusters, in turn; the last of ten is the largest."""


@pytest.fixture(autouse=True, scope="module")
def small_heap() -> Iterator[None]:
    """What is there before the first cluster is not looked through for cycles after each: a run of all tests
    has a large heap by then."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def play(plan: Plan) -> None:
    """One run, after which the engine has what it had before. Raises: Violation."""
    before = live_objects()
    scenario = Scenario(plan)
    scenario.run()
    TALLIES["simulated clusters"] += 1
    TALLIES["simulated nodes"] += plan.nodes
    TALLIES["simulated events"] += scenario.clock.calls
    del scenario
    after = live_objects()
    if after != before:
        gc.collect()
        after = live_objects()
    if after != before:
        raise Violation(f"the engine had {before}, and has {after}")


@pytest.mark.parametrize("first", range(FIRST, FIRST + MESHES, BLOCK))
def test_small_clusters(first: int) -> None:
    failures = []
    for seed in range(first, min(first + BLOCK, FIRST + MESHES)):
        try:
            play(Plan.draw(seed))
        except Violation as violation:
            failures.append(f"{violation}\n  PYTHONPATH=tests python -m simulation {seed}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("first", range(FIRST, FIRST + MESHES // 2, BLOCK))
def test_small_clusters_in_which_not_all_speak_the_same_protocol(first: int) -> None:
    failures = []
    for seed in range(first, min(first + BLOCK, FIRST + MESHES // 2)):
        try:
            play(Plan.draw(seed, legacy=True))
        except Violation as violation:
            failures.append(f"{violation}\n  PYTHONPATH=tests python -m simulation --legacy {seed}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("number", range(MESHES // BLOCK))
def test_larger_clusters(number: int) -> None:
    seed, nodes = FIRST + number, SIZES[number % len(SIZES)]
    try:
        play(Plan.draw(seed, nodes))
    except Violation as violation:
        pytest.fail(f"{violation}\n  PYTHONPATH=tests python -m simulation --nodes {nodes} {seed}")


def test_fifty_nodes() -> None:
    try:
        play(Plan.draw(FIRST + 2, 50))
    except Violation as violation:
        pytest.fail(f"{violation}\n  PYTHONPATH=tests python -m simulation --nodes 50 {FIRST + 2}")
