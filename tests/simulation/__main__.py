"""Plays seeds and tells what happened.

`PYTHONPATH=tests python -m simulation [--nodes N] [--legacy] [--quiet] SEED [COUNT]`; with `--jetstream`,
`--bucket`, `--whole` (a whole shard) or `--disk` (one with `commit: disk`) seeds of those.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from typing import Final

from simulation.bucket.disk_scenario import DiskScenario, small_disks
from simulation.bucket.scenario import BucketPlan, BucketScenario
from simulation.bucket.whole import WholeScenario
from simulation.js_scenario import JetStreamPlan, JetStreamScenario
from simulation.scenario import Plan, Scenario, Violation

VIOLATION: Final = "VIOLATION: "


def play_mesh(seed: int, given: argparse.Namespace, told: list[str] | None) -> str:
    """Says how the run of a cluster ended."""
    scenario = Scenario(Plan.draw(seed, given.nodes, legacy=given.legacy), told)
    try:
        scenario.run()
        outcome = f"converged after {scenario.converged_after:.2f} s"
    except Violation as violation:
        outcome = f"{VIOLATION}{violation}"
    return f"{outcome}; {scenario.clock.calls} events, {scenario.network.connections} ends"


def play_jetstream(seed: int, told: list[str] | None) -> str:
    """Says how the run of JetStream ended."""
    scenario = JetStreamScenario(JetStreamPlan.draw(seed), told)
    try:
        scenario.run()
        outcome = scenario.plan.kind
    except Violation as violation:
        outcome = f"{VIOLATION}{violation}"
    return f"{outcome}; {scenario.events} events"


BUCKETS: Final = {"bucket": BucketScenario, "whole": WholeScenario, "disk": DiskScenario}


def play_bucket(seed: int, told: list[str] | None, kind: str) -> str:
    """Says how the run of a shard in a bucket ended."""
    scenario = BUCKETS[kind](BucketPlan.draw(seed), told)
    try:
        with small_disks():
            scenario.run()
        outcome = f"{scenario.takeovers} takings over"
    except Violation as violation:
        outcome = f"{VIOLATION}{violation}"
    return f"{outcome}; {scenario.loop.calls} events"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m simulation")
    parser.add_argument("--nodes", type=int, default=None)
    parser.add_argument("--legacy", action="store_true")
    parser.add_argument("--jetstream", action="store_true")
    parser.add_argument("--bucket", action="store_true")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--disk", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int, nargs="?", default=1)
    given = parser.parse_args()
    logging.disable()  # what is told says more
    failures = 0
    for seed in range(given.seed, given.seed + given.count):
        told: list[str] | None = None if given.quiet else []
        began = time.process_time()
        kind = next((each for each in BUCKETS if getattr(given, each)), None)
        if kind is not None:
            outcome = play_bucket(seed, told, kind)
        else:
            outcome = play_jetstream(seed, told) if given.jetstream else play_mesh(seed, given, told)
        failures += outcome.startswith(VIOLATION)
        for line in told or ():
            print(line)
        print(f"seed {seed}: {outcome}, {(time.process_time() - began) * 1000:.0f} ms")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
