"""The JVM of a session of ours: started in a process group of its own, and ended before this process is.

PySpark starts one as well, but tells which process it is only when it is up; until then nobody could end it.
Here it is known from the first moment. What runs in it is `session`'s.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from headrace.spark.errors import SparkSourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import SparkConf

END_LIMIT: Final = 3.0
"""Seconds a JVM that was told to end may take to put its affairs in order; then it is killed."""

_POLL: Final = 0.05
_PORT: Final = "PYSPARK_GATEWAY_PORT"
_SECRET: Final = "PYSPARK_GATEWAY_SECRET"


class _JVM:
    """The one JVM of this process. `end` may be called from any thread, also while another one starts it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = False

    def start(self, conf: SparkConf, output: IO[bytes] | None) -> object:
        if _PORT in os.environ:  # whoever runs this program as a Spark job has one for it
            return launch_gateway(conf)  # type: ignore[no-untyped-call]
        with _connection_file() as file:
            process = self._launch(conf, file, output)
            while not file.exists():
                if process.poll() is not None:
                    raise SparkSourceError(f"Spark's JVM ended while it started (code {process.returncode})")
                time.sleep(_POLL)
            with file.open("rb") as info, _told_in_environment(info):
                return launch_gateway(conf)  # type: ignore[no-untyped-call]

    def end(self) -> None:
        with self._lock:
            self._is_over = True
            process = self._process
        if process is None or process.poll() is not None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_LIMIT)
                return

    def _launch(self, conf: SparkConf, file: Path, output: IO[bytes] | None) -> subprocess.Popen[bytes]:
        settings = [part for name, value in conf.getAll() for part in ("--conf", f"{name}={value}")]
        program = Path(os.environ["SPARK_HOME"]) / "bin" / "spark-submit"
        arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        with self._lock:
            if self._is_over:
                raise SparkSourceError("Spark's JVM was ended before it started")
            # It ends with its standard input, so also when this process is killed. Signals for the group of
            # this process, as of Ctrl-C, are this process's to handle.
            self._process = subprocess.Popen(
                [program, *settings, *arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={
                    **os.environ,
                    "SPARK_CONNECT_MODE": "0",
                    "_PYSPARK_DRIVER_CONN_INFO_PATH": str(file),
                },
                process_group=0,
            )
            return self._process


_jvm: Final = _JVM()


def start_jvm(conf: SparkConf, output: IO[bytes] | None = None) -> object:
    """Start it and connect to it; return the gateway. `output` takes what it prints.

    Raises: SparkSourceError if it does not start, or has been ended.
    """
    return _jvm.start(conf, output)


def end_jvm() -> None:
    """End the JVM that was started here, if there is one, and let none be started after it. It is gone when
    this returns; sessions in it can not be used any more.
    """
    _jvm.end()


@contextlib.contextmanager
def _connection_file() -> Iterator[Path]:
    """Make a file to which the JVM writes its address, at once and whole."""
    folder = tempfile.mkdtemp()
    try:
        yield Path(folder) / "connection"
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def _told_in_environment(info: IO[bytes]) -> Iterator[None]:
    """Put the JVM's address into the environment, where PySpark looks for a JVM that runs already."""
    os.environ[_PORT] = str(read_int(info))  # type: ignore[no-untyped-call]
    os.environ[_SECRET] = UTF8Deserializer().loads(info)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        for name in (_PORT, _SECRET):
            del os.environ[name]
