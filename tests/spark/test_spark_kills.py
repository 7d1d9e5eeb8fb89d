"""kill -9 of driver, JVM, Python workers and both servers of running queries: every row once, in each sink.

Where `make test` plays it (`harness.dearest`) there is a kill of each under the two queries that write with
our sink; `make test-deep` kills fifty times, whatever is drawn, under all three.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from harness import depth
from harness.dearest import in_turn
from harness.killing import QUERIES, BreakingPipeline
from harness.tallies import note

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, in_turn("killed queries")]

KILLS = 50 if depth.deep else 0
SEEDS = range(4, 5) if depth.deep else depth.seeds(10)
SHORT = ("out", "copy")
EACH_ONCE = ("worker", "headrace", "jvm", "nats-server", "worker")


@pytest.mark.parametrize("seed", SEEDS)
def test_every_row_is_in_each_sink_once_whatever_is_killed(tmp_path: Path, seed: int) -> None:
    begun = time.monotonic()
    queries = QUERIES if KILLS else SHORT
    pipeline = BreakingPipeline(tmp_path, seed, queries)
    try:
        for number in range(KILLS or len(EACH_ONCE)):
            target, moment = pipeline.kill(None if KILLS else EACH_ONCE[number])
            print(f"{time.monotonic() - begun:.1f} s: killed {target}, {moment}", flush=True)
        last = pipeline.finish()
        stored = pipeline.channel()
        assert set(stored) == set(range(1, last + 1))
        assert {f"NUMBER {number}" for number in range(1, pipeline.published() + 1)} == set(stored.values())
        expected = Counter(stored.items())
        for name in queries:
            found = Counter(pipeline.rows(name))
            assert not found - expected, f"{name}: there twice or never published"
            assert not expected - found, f"{name}: missing"
    finally:
        pipeline.close()
        print(dict(pipeline.kills), *pipeline.ended, sep="\n")
    for target, count in pipeline.kills.items():
        note(f"kills of {target} under running Spark queries", count)
    note("rows that went through killed Spark queries into each of their sinks", last)
