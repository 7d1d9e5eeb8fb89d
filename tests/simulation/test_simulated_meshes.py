"""Seeded clusters of real engines and meshes: they converge, deliver once, loop nothing, give everything
back.

A failure names the seeds and the command that plays them.
"""

from __future__ import annotations

import gc
from typing import Final

import pytest

from harness import depth
from harness.tallies import TALLIES
from headrace.engine.memory import live_objects
from simulation.scenario import Plan, Scenario, Violation

SMALL: Final = 2000
MIXED: Final = 1000
LARGER: Final = 20
LARGEST: Final = 10
BLOCK: Final = 20
"""Small clusters in one test."""
SIZES: Final = (7, 8, 10, 12, 16, 20, 8, 10, 7, 30)
"""Nodes of the larger clusters, in turn; the last of ten is the largest."""


def named(seeds: range) -> str:
    """As HEADRACE_TEST_SEEDS has it."""
    return f"{seeds[0]}-{seeds[-1]}"


def play(plan: Plan) -> None:
    """One run, after which the engine has what it had before. Raises: Violation."""
    if any(live_objects().values()):  # what earlier tests left in cycles must not go in the midst of this one
        gc.collect()
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


@pytest.mark.parametrize("seeds", depth.blocks(SMALL, BLOCK), ids=named)
def test_small_clusters(seeds: range) -> None:
    failures = []
    for seed in seeds:
        try:
            play(Plan.draw(seed))
        except Violation as violation:
            failures.append(f"{violation}\n  PYTHONPATH=tests python -m simulation {seed}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("seeds", depth.blocks(MIXED, BLOCK), ids=named)
def test_small_clusters_in_which_not_all_speak_the_same_protocol(seeds: range) -> None:
    failures = []
    for seed in seeds:
        try:
            play(Plan.draw(seed, legacy=True))
        except Violation as violation:
            failures.append(f"{violation}\n  PYTHONPATH=tests python -m simulation --legacy {seed}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("seed", depth.seeds(LARGER))
def test_larger_clusters(seed: int) -> None:
    nodes = SIZES[seed % len(SIZES)]
    try:
        play(Plan.draw(seed, nodes))
    except Violation as violation:
        pytest.fail(f"{violation}\n  PYTHONPATH=tests python -m simulation --nodes {nodes} {seed}")


@pytest.mark.parametrize("seed", depth.seeds(LARGEST))
def test_fifty_nodes(seed: int) -> None:
    try:
        play(Plan.draw(seed, 50))
    except Violation as violation:
        pytest.fail(f"{violation}\n  PYTHONPATH=tests python -m simulation --nodes 50 {seed}")
