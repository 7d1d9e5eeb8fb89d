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
import tarfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pyarrow.parquet as pq
import pyspark
import pytest

import headrace
from harness.dearest import in_turn
from harness.killing import table_files
from harness.s3 import aws_environment, s3_endpoint
from harness.stored_sources import GoStream, StanChannel
from harness.waiting import LONG, wait_until
from headrace.client.blocking import connect
from headrace.client.jetstream import JetStream
from headrace.spark.java import find_java

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# What moto and its dependencies warn of is theirs.
pytestmark = [pytest.mark.spark, in_turn("cluster"), pytest.mark.filterwarnings("default")]

COUNT = 40_000
"""Four tasks of a batch."""
SOURCES = Path(headrace.__file__).parents[1]
CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
DEPLOY = "org.apache.spark.deploy"
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def archive(folder: Path) -> Path:
    """This package as it is installed, compiled modules included."""
    file = folder / "headrace.tar.gz"
    with tarfile.open(file, "w:gz", compresslevel=1) as tar:
        for name in ("headrace", "pyspark_nats"):
            tar.add(SOURCES / name, name, filter=lambda one: None if "__pycache__" in one.name else one)
    return file


@contextmanager
def daemon(folder: Path, name: str, *arguments: str) -> Iterator[Callable[[str], str]]:
    """A process of the cluster; gives a function that waits for a line of its log and says what matches."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(CLASS.parents[1]),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    log = folder / f"{name}.log"
    where = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    kind = name.partition("-")[0]
    command = [str(CLASS), f"{DEPLOY}.{kind}.{kind.capitalize()}", *where, *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=folder)

    def said(line: str) -> str:
        return wait_until(lambda: re.search(line, log.read_text()), f"{name} says {line}", LONG).group(0)

    try:
        yield said
    finally:
        process.terminate()
        process.wait()


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """The URL of a master with two workers of one core each; their directories are `worker-1` and `-2`."""
    with ExitStack() as stack:
        url = stack.enter_context(daemon(folder, "master"))(r"spark://127\.0\.0\.1:\d+")
        workers = []
        for number in (1, 2):
            name = f"worker-{number}"
            given = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / name), url)
            workers.append(stack.enter_context(daemon(folder, name, *given)))
        for said in workers:
            said("Successfully registered with master")
        yield url


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
