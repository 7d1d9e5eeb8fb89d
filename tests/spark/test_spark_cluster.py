"""A standalone Spark cluster of two workers: processes that share nothing but the file system.

The executors get this package with the application, as an archive: what they import must be that. Two of the
queries have their checkpoint in an S3 store, by way of `headrace checkpoints`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pyarrow.parquet as pq
import pytest

from harness.dearest import in_turn
from harness.killing import table_files
from harness.s3 import aws_environment, s3_endpoint
from harness.spark_daemons import SOURCES, archive, cluster
from harness.stored_sources import GoStream, StanChannel
from harness.waiting import LONG
from headrace.client.blocking import connect
from headrace.client.jetstream import JetStream

if TYPE_CHECKING:
    from collections.abc import Iterator

# What moto and its dependencies warn of is theirs.
pytestmark = [pytest.mark.spark, in_turn("cluster"), pytest.mark.filterwarnings("default")]

COUNT = 40_000
"""Four tasks of a batch."""


@pytest.fixture
def s3() -> Iterator[dict[str, str]]:
    """The environment of a program that has an S3 store with the bucket `checkpoints`."""
    with s3_endpoint("checkpoints") as endpoint:
        yield aws_environment(endpoint)


@contextmanager
def gateway(s3: dict[str, str]) -> Iterator[str]:
    """`headrace checkpoints` in front of it, in a process of its own; gives the location."""
    command = [sys.executable, "-m", "headrace", "checkpoints", "s3://checkpoints/cluster", "--port", "0"]
    environment = {**os.environ, **s3, "PYTHONPATH": str(SOURCES)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            location = process.stdout.readline().strip()
            assert location.startswith("webhdfs://127.0.0.1:")
            yield location
        finally:
            process.terminate()


def keys(s3: dict[str, str]) -> list[str]:
    """What is in the bucket."""
    with urlopen(f"{s3['AWS_ENDPOINT']}/checkpoints?list-type=2&max-keys=1000", timeout=10) as answer:
        return re.findall(r"<Key>cluster/(.*?)</Key>", answer.read().decode())


def test_cluster_reads_and_writes_every_row_once_in_both_workers(tmp_path: Path, s3: dict[str, str]) -> None:
    source = StanChannel(tmp_path)
    target = GoStream(tmp_path)
    try:
        source.publish(COUNT)
        target.api("STREAM.CREATE.OUT", {"name": "OUT", "subjects": ["out"]})
        with gateway(s3) as checkpoints, cluster(tmp_path) as master:
            given = {
                "checkpoints": checkpoints,
                "half": COUNT // 2,
                "folder": str(tmp_path),
                "master": master,
                "archive": str(archive(tmp_path)),
                "channel": source.options(),
                "stream": {"url": target.url, "stream": "OUT"},
            }
            program = Path(__file__).with_name("cluster_driver.py")
            done = subprocess.run(
                [sys.executable, str(program), json.dumps(given)],
                env={**os.environ, "PYTHONPATH": str(SOURCES), "SPARK_LOCAL_IP": "127.0.0.1"},
                capture_output=True,
                text=True,
                timeout=LONG,
                check=False,
            )
        assert done.returncode == 0, done.stderr
        assert stored(target) == list(range(1, COUNT + 1))
    finally:
        source.stop()
        target.stop()
    rows = [row for file in table_files(tmp_path / "table") for row in pq.read_table(file).to_pylist()]
    assert sorted(row["sequence"] for row in rows) == list(range(1, COUNT + 1))
    executors = {row["executor"] for row in rows}
    assert {Path(one).relative_to(tmp_path).parts[0] for one in executors} == {"worker-1", "worker-2"}
    for row in rows:
        assert row["module"].startswith(f"{row['executor']}/"), "not the package that was shipped"
    assert json.loads(done.stdout) == {str(part): len(range(part or 7, COUNT + 1, 7)) for part in range(7)}
    there = keys(s3)
    assert {"out/commits/0", "totals/offsets/1", "totals/commits/1"} <= set(there)
    assert [key for key in there if re.fullmatch(r"totals/state/0/[01]/2(_.*)?\.delta", key)], there
    assert not [key for key in there if key.endswith(".tmp")]


def stored(target: GoStream) -> list[int]:
    with connect(target.url) as nc:
        batches = JetStream(nc).read("OUT", 1, 10 * COUNT)
        return sorted(int(payload) for batch in batches for payload in batch.payloads)
