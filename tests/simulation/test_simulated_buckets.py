"""Seeded runs of a shard's log in a bucket: what must hold is said at the head of `bucket.scenario`, and of
`bucket.disk_scenario`.

A failure names the seeds and the command that plays them.
"""

from __future__ import annotations

import pytest

from harness import depth
from harness.tallies import TALLIES
from simulation.bucket.disk_mutations import DISK_MUTATIONS
from simulation.bucket.disk_scenario import DiskScenario, small_disks
from simulation.bucket.mutations import MUTATIONS, small_milestones
from simulation.bucket.scenario import BucketPlan, BucketScenario
from simulation.bucket.whole import WholeScenario, small_shards
from simulation.scenario import Violation

RUNS = 10_000
BLOCK = 50
"""Runs in one test."""
WHOLE_RUNS = 2000
"""With everything that a shard has, over a disk in memory."""
DISK_RUNS = 600
"""With everything, and `commit: disk`."""
DISK_BLOCK = 20
MOST_SEEDS = 400
"""Within so many runs a broken rule has to be found."""


def named(seeds: range) -> str:
    """As HEADRACE_TEST_SEEDS has it."""
    return f"{seeds[0]}-{seeds[-1]}"


def play(seed: int) -> None:
    """One run. Raises: Violation."""
    scenario = BucketScenario(BucketPlan.draw(seed))
    try:
        scenario.run()
    finally:
        TALLIES["simulated buckets"] += 1
        TALLIES["simulated takings over of a bucket"] += scenario.takeovers
        TALLIES["simulated requests to a bucket"] += scenario.bucket.requests


@pytest.mark.parametrize("seeds", depth.blocks(RUNS, BLOCK), ids=named)
def test_shards_over_faults(seeds: range) -> None:
    failures = []
    with small_milestones():
        for seed in seeds:
            try:
                play(seed)
            except Violation as violation:
                failures.append(f"{violation}\n  PYTHONPATH=tests python -m simulation --bucket {seed}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("seeds", depth.blocks(WHOLE_RUNS, BLOCK), ids=named)
def test_whole_shards_over_faults(seeds: range) -> None:
    failures = []
    with small_shards():
        for seed in seeds:
            scenario = WholeScenario(BucketPlan.draw(seed))
            try:
                scenario.run()
            except Violation as violation:
                failures.append(f"{violation}\n  PYTHONPATH=tests python -m simulation --whole {seed}")
            TALLIES["simulated whole shards"] += 1
            TALLIES["simulated takings over of a whole shard"] += scenario.takeovers
    assert not failures, "\n".join(failures)


def play_disk(seed: int) -> None:
    """One run. Raises: Violation."""
    scenario = DiskScenario(BucketPlan.draw(seed))
    try:
        scenario.run()
    finally:
        TALLIES["simulated shards with commit: disk"] += 1
        TALLIES["simulated promises of a disk, inherited"] += scenario.promises.inherited
        TALLIES["simulated promises of a disk, lost as they may be"] += len(scenario.promises.lost)


@pytest.mark.parametrize("seeds", depth.blocks(DISK_RUNS, DISK_BLOCK), ids=named)
def test_shards_of_disks_over_faults(seeds: range) -> None:
    failures = []
    with small_disks():
        for seed in seeds:
            try:
                play_disk(seed)
            except Violation as violation:
                failures.append(f"{violation}\n  PYTHONPATH=tests python -m simulation --disk {seed}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("seed", [278])
def test_standby_whose_disk_refused_a_change_begins_anew(seed: int) -> None:
    """Once it tried the same object for ever, of which it had made some changes, and never took over."""
    with small_disks():
        play_disk(seed)


@pytest.mark.parametrize("rule", depth.turn(list(DISK_MUTATIONS)))
def test_a_rule_of_disks_that_is_broken_is_found(rule: str) -> None:
    with small_disks(), DISK_MUTATIONS[rule]():
        for seed in range(MOST_SEEDS):
            try:
                play_disk(seed)
            except Violation:
                return
    pytest.fail(f"{MOST_SEEDS} runs saw nothing of it")


@pytest.mark.parametrize("rule", MUTATIONS)
def test_a_rule_that_is_broken_is_found(rule: str) -> None:
    with small_milestones(), MUTATIONS[rule]():
        for seed in range(MOST_SEEDS):
            try:
                play(seed)
            except Violation:
                return
    pytest.fail(f"{MOST_SEEDS} runs saw nothing of it")


def test_a_seed_is_played_the_same_way_again() -> None:
    tellings: list[list[str]] = [[], []]
    with small_milestones():
        for told in tellings:
            BucketScenario(BucketPlan.draw(7), told).run()
    assert tellings[0]
    assert tellings[0] == tellings[1]
