"""Seeded runs of JetStream over faults: what must hold is said at the head of `js_scenario`.

A failure names the seeds and the command that plays them.
"""

from __future__ import annotations

import pytest

from harness import depth
from harness.tallies import TALLIES
from simulation.js_scenario import JetStreamPlan, JetStreamScenario
from simulation.scenario import Violation

RUNS = 1000
BLOCK = 10
"""Runs in one test."""


def named(seeds: range) -> str:
    """As HEADRACE_TEST_SEEDS has it."""
    return f"{seeds[0]}-{seeds[-1]}"


@pytest.mark.parametrize("seeds", depth.blocks(RUNS, BLOCK), ids=named)
def test_jetstream_over_faults(seeds: range) -> None:
    failures = []
    for seed in seeds:
        scenario = JetStreamScenario(JetStreamPlan.draw(seed))
        try:
            scenario.run()
        except Violation as violation:
            failures.append(f"{violation}\n  PYTHONPATH=tests python -m simulation --jetstream {seed}")
        TALLIES["simulated JetStream events"] += scenario.events
    assert not failures, "\n".join(failures)


def test_a_seed_is_played_the_same_way_again() -> None:
    tellings: list[list[str]] = [[], []]
    for told in tellings:
        JetStreamScenario(JetStreamPlan.draw(7), told).run()
    assert tellings[0]
    assert tellings[0] == tellings[1]
