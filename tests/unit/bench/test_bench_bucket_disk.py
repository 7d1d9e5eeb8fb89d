"""What the bench of `commit: disk` asks, and that its servers differ in the bucket alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.bucket_disk import DiskResult, config, disk_findings
from bench.bucket_store import BenchStore

from headrace.conf.binding import load_options

S3 = BenchStore("fixed", "s3", "http://127.0.0.1:1", {"access_key_id": "key", "secret_access_key": "secret"})
ALONE = DiskResult(rate=400_000, p50_us=300, cpu_us=2.0, loop_us=1.5)


@pytest.mark.parametrize(
    ("window", "found", "met"),
    [
        (500, DiskResult(364_000, 900, 2.2, 1.6), [True, True, None]),
        (500, DiskResult(363_000, 300, 2.2, 1.6), [False, True, None]),
        (500, DiskResult(400_000, 300, 2.21, 1.5), [True, False, None]),
        (1, DiskResult(1, 330, 2.0, 9.0), [True, True, None]),
        (1, DiskResult(400_000, 331, 2.0, 1.5), [False, True, None]),
    ],
)
def test_a_bucket_may_cost_a_tenth(window: int, found: DiskResult, met: list[bool | None]) -> None:
    assert [each.is_met for each in disk_findings(window, ALONE, found)] == met


def test_finding_has_both_figures_and_their_ratio() -> None:
    pace, cpu, loop = disk_findings(500, ALONE, DiskResult(200_000, 300, 3.0, 1.8))
    assert pace.line.endswith("| rate 200.0 k/s, without a bucket 400.0: 2.00 | ≤ 1.10: MISSED |")
    assert cpu.found == "CPU 3.00 µs, without a bucket 2.00: 1.50"
    assert loop.line.endswith("| of it the loop's 1.80 µs, without a bucket 1.50: 1.20 |  |")


def test_servers_differ_in_the_bucket_alone() -> None:
    alone, with_bucket = (
        load_options(text=config(side, Path("/home"), S3, 1, 2)).jetstream for side in ("alone", "disk")
    )
    assert alone is not None
    assert with_bucket is not None
    assert alone.sync == "group"
    assert alone.bucket is None
    assert with_bucket.bucket is not None
    assert with_bucket.bucket.commit == "disk"
    assert (with_bucket.sync, with_bucket.store_dir) == (alone.sync, alone.store_dir)
