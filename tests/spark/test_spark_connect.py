"""Spark Connect: a client without a JVM, and a server in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness import depth
from harness.killing import table_files
from harness.spark_daemons import SOURCES, connect_server
from harness.stored_sources import GoStream
from harness.waiting import LONG
from headrace.client.blocking import connect
from headrace.client.jetstream import JetStream

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not depth.deep, reason="starts Spark twice, from nothing (make test-deep)"),
]

COUNT = 12_000


def test_connect_client_reads_writes_and_watches_on_its_server(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="grpcio, which Spark Connect's client needs, is not installed")
    source = GoStream(tmp_path)
    try:
        source.publish(COUNT)
        source.api("STREAM.CREATE.OUT", {"name": "OUT", "subjects": ["out"]})
        with connect_server(tmp_path) as remote:
            given = {
                "remote": remote,
                "folder": str(tmp_path),
                "stream": source.options(),
                "sink": {"url": source.url, "stream": "OUT"},
                "half": COUNT // 2,
            }
            program = Path(__file__).with_name("connect_client.py")
            done = subprocess.run(
                [sys.executable, str(program), json.dumps(given)],
                env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(SOURCES)},
                capture_output=True,
                text=True,
                timeout=LONG,
                check=False,
            )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        with connect(source.url) as nc:
            batches = list(JetStream(nc).read("OUT", 1, 10 * COUNT))
        assert sorted(int(one) for batch in batches for one in batch.payloads) == list(range(1, COUNT + 1))
    finally:
        source.stop()
    assert found["client"].startswith("pyspark.sql.connect")
    assert found["table"] == COUNT
    assert "here it is subject (" in found["refused"]
    assert found["progress"] == [[COUNT // 2, COUNT // 2], [COUNT // 2, 0]]
    assert found["rows"] == [f'headrace_spark_rows_total{{query="orders",spark="spark"}} {COUNT}.0']
    assert found["failure"] is None
    rows = [row for file in table_files(tmp_path / "table") for row in pq.read_table(file).to_pylist()]
    assert sorted(row["sequence"] for row in rows) == list(range(1, COUNT + 1))
    assert all(int(row["data"]) == row["sequence"] for row in rows)
