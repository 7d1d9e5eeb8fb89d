"""Spark's own processes on this machine: a standalone master with its workers, and a Spark Connect server.

They share nothing with the tests but the file system: no environment but what is given here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyspark

import headrace
from harness.ports import free_port
from harness.waiting import LONG, wait_until
from headrace.spark.java import find_java

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOURCES: Final = Path(headrace.__file__).parents[1]
"""What has the package as it is installed."""
SPARK_HOME: Final = Path(pyspark.__file__).parent
_DEPLOY: Final = "org.apache.spark.deploy"
_CONNECT: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def environment(folder: Path) -> dict[str, str]:
    """The variables of Spark's commands, none of them this process's own but the path."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def archive(folder: Path) -> Path:
    """This package as it is installed, compiled modules included."""
    file = folder / "headrace.tar.gz"
    with tarfile.open(file, "w:gz", compresslevel=1) as tar:
        for name in ("headrace", "pyspark_nats"):
            tar.add(SOURCES / name, name, filter=lambda one: None if "__pycache__" in one.name else one)
    return file


@contextmanager
def daemon(folder: Path, name: str, arguments: list[str], **more: str) -> Iterator[Callable[[str], str]]:
    """One of Spark's classes as a process; gives a function that waits for a line of its log and says what
    matches.
    """
    log = folder / f"{name}.log"
    command = [str(SPARK_HOME / "bin" / "spark-class"), *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env={**environment(folder), **more}, cwd=folder
        )

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
    where = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    small = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": _QUICK}
    with ExitStack() as stack:
        master = [f"{_DEPLOY}.master.Master", *where]
        url = stack.enter_context(daemon(folder, "master", master, **small))(r"spark://127\.0\.0\.1:\d+")
        workers = []
        for number in (1, 2):
            name = f"worker-{number}"
            given = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / name), url]
            worker = [f"{_DEPLOY}.worker.Worker", *where, *given]
            workers.append(stack.enter_context(daemon(folder, name, worker, **small)))
        for said in workers:
            said("Successfully registered with master")
        yield url


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """The URL of a Spark Connect server, as `sbin/start-connect-server.sh` starts it: this package is where
    its Python finds it, and nowhere else.
    """
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": _QUICK,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    given = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    command = [
        f"{_DEPLOY}.SparkSubmit",
        "--class",
        _CONNECT,
        "--master",
        "local[2]",
        *given,
        "spark-internal",
    ]
    python = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(SOURCES)}
    with daemon(folder, "connect", command, **python) as said:
        said("Spark Connect server started")
        yield f"sc://127.0.0.1:{port}"
