"""`spark-submit` with a packed environment: neither the driver nor the workers have anything else of ours.

As docs/spark-clusters.md says it: a virtual environment made an archive by venv-pack, shipped with
`--archives`, and unpacked where the driver starts.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
import venv
from pathlib import Path

import msgspec
import numpy
import pyarrow
import pyarrow.parquet as pq
import pytest

from harness import depth
from harness.killing import table_files
from harness.spark_daemons import SOURCES, SPARK_HOME, cluster, environment
from harness.stored_sources import GoStream
from harness.waiting import LONG

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        not depth.deep, reason="packs some 200 MB and starts Java four times (make test-deep)"
    ),
]

COUNT = 40_000
"""Four tasks of a batch."""


def packed(folder: Path) -> Path:
    """An environment with this package as it is installed and what tasks import of others, as an archive."""
    venv_pack = pytest.importorskip("venv_pack", reason="venv-pack is not installed")
    made = folder / "made"
    venv.create(made, symlinks=True)
    [site] = made.glob("lib/python*/site-packages")
    packages = [SOURCES / "headrace", SOURCES / "pyspark_nats"]
    for module in (msgspec, numpy, pyarrow):
        package = Path(module.__file__ or "").parent
        packages += [package, *package.parent.glob(f"{package.name}.libs")]
    for package in packages:
        shutil.copytree(package, site / package.name, ignore=shutil.ignore_patterns("__pycache__", "*.pyx"))
    archive = folder / "environment.tar.gz"  # Spark unpacks a .tar by itself, and stumbles over its links
    venv_pack.pack(prefix=str(made), output=str(archive), format="tar.gz", compress_level=1)
    shutil.rmtree(made)
    return archive


def test_job_in_a_packed_environment_reads_every_row_once_in_both_workers(tmp_path: Path) -> None:
    archive = packed(tmp_path)
    job = tmp_path / "job"
    with tarfile.open(archive) as tar:
        tar.extractall(job / "environment", filter="tar")
    source = GoStream(tmp_path)
    settings = {
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # both executors before the first task
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
        "spark.ui.enabled": "false",
    }
    conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    given = {"folder": str(tmp_path), "stream": {**source.options(), "minPartitions": "4"}}
    try:
        source.publish(COUNT)
        with cluster(tmp_path) as master:
            command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master, *conf]
            command += ["--archives", f"{archive}#environment"]
            program = Path(__file__).with_name("packed_job.py")
            done = subprocess.run(
                [*command, str(program), json.dumps(given)],
                env={**environment(tmp_path), "PYSPARK_PYTHON": "./environment/bin/python"},
                cwd=job,
                capture_output=True,
                text=True,
                timeout=LONG,
                check=False,
            )
    finally:
        source.stop()
    assert done.returncode == 0, done.stderr + done.stdout  # where spark-submit lets Python's errors go
    assert Path(done.stdout.splitlines()[-1]).is_relative_to(job / "environment"), (
        "not the driver's packed environment"
    )
    rows = [row for file in table_files(tmp_path / "table") for row in pq.read_table(file).to_pylist()]
    assert sorted(row["sequence"] for row in rows) == list(range(1, COUNT + 1))
    places = [json.loads(place) for place in {row["place"] for row in rows}]
    assert {Path(one).relative_to(tmp_path).parts[0] for one, _ in places} == {"worker-1", "worker-2"}
    for executor, module in places:
        assert module.startswith(f"{executor}/environment/"), "not the package that was shipped"
