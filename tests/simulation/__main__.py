"""Plays seeds and tells what happened.

`PYTHONPATH=tests python -m simulation [--nodes N] [--legacy] [--quiet] SEED [COUNT]`.
"""

from __future__ import annotations

import argparse
import sys
import time

from simulation.scenario import Plan, Scenario, Violation


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m simulation")
    parser.add_argument("--nodes", type=int, default=None)
    parser.add_argument("--legacy", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int, nargs="?", default=1)
    given = parser.parse_args()
    failures = 0
    for seed in range(given.seed, given.seed + given.count):
        told: list[str] | None = None if given.quiet else []
        began = time.process_time()
        scenario = Scenario(Plan.draw(seed, given.nodes, legacy=given.legacy), told)
        try:
            scenario.run()
            outcome = f"converged after {scenario.converged_after:.2f} s"
        except Violation as violation:
            failures += 1
            outcome = f"VIOLATION: {violation}"
        for line in told or ():
            print(line)
        took = time.process_time() - began
        print(
            f"seed {seed}: {outcome}; {scenario.clock.calls} events, "
            f"{scenario.network.connections} ends, {took * 1000:.0f} ms"
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
