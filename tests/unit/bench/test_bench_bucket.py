"""What the bench of streams in a bucket asks of a result, and how it shows it."""

from __future__ import annotations

import pytest
from bench.bucket import LOADS, Load, Result, table

WINDOW = Load("a window", 5, 1, 500)
ONE = Load("one", 30, 1, 1)
MANY = Load("many", 5, 100, 1)
BUDGET = Load("a budget", 5, 1, 500, puts_per_second=50)


def result(rate: float = 0, p50_ms: float = 0, p99_ms: float = 0, cpu_us: float = 1) -> Result:
    return Result(rate, p50_ms, p99_ms, cpu_us, puts=0)


@pytest.mark.parametrize(
    ("load", "found", "said"),
    [
        (WINDOW, result(rate=70_000), "≥ 70,000 msg/s: met"),
        (WINDOW, result(rate=69_999), "≥ 70,000 msg/s: MISSED"),
        (ONE, result(p50_ms=33), "p50 ≤ 33.0 ms: met"),
        (ONE, result(p50_ms=33.1), "p50 ≤ 33.0 ms: MISSED"),
        (MANY, result(p99_ms=12.5), "p99 ≤ 12.5 ms: met"),
        (MANY, result(p99_ms=12.6), "p99 ≤ 12.5 ms: MISSED"),
        (BUDGET, result(p99_ms=45), "p99 ≤ 45.0 ms: met"),
        (BUDGET, result(p99_ms=45.1), "p99 ≤ 45.0 ms: MISSED"),
    ],
)
def test_result_is_held_against_what_is_asked(load: Load, found: Result, said: str) -> None:
    assert load.target(found) == said


def test_table_has_the_cpu_of_both_and_its_ratio() -> None:
    ours, theirs = result(rate=80_000, cpu_us=2), result(rate=90_000, cpu_us=8)
    _, _, bucket, replicas = table({(WINDOW, "bucket"): ours, (WINDOW, "replicas"): theirs})
    assert "| 2.0 | 0.25 |" in bucket
    assert bucket.endswith("CPU ≤ 0.3×: met |")
    assert "| 8.0 |  |" in replicas


def test_a_publisher_in_python_is_asked_for_the_cpu_of_servers_alone() -> None:
    load = WINDOW._replace(is_python=True)
    ours, theirs = result(rate=1, cpu_us=3), result(rate=1, cpu_us=8)
    _, _, bucket, _ = table({(load, "bucket"): ours, (load, "replicas"): theirs})
    assert bucket.endswith("| CPU ≤ 0.3×: MISSED |")


def test_loads_have_titles_of_their_own() -> None:
    names = [(load.title, load.latency_ms) for load in LOADS]
    assert len(set(names)) == len(names)
