"""The Spark session that our commands, tests and examples use; a user's own session is never touched.

Sets what a first-time user would otherwise trip over: Java, the workers' Python, the loopback address where
there is no cluster; and the settings measured best for small machines: Unix sockets between JVM and Python
(no 40 ms stall a task) and the checkpoint manager without helper processes (both in spark.md section 3.2).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from headrace.spark.errors import SparkSourceError
from headrace.spark.java import JavaRuntime, cache_folder, find_java, write_atomically
from headrace.spark.jvm import start_jvm

if TYPE_CHECKING:
    from collections.abc import Mapping

CHECKPOINT_MANAGER: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
"""Atomic by rename: for POSIX file systems, not for object stores."""

OBJECT_CHECKPOINT_MANAGER: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
)
"""Says with each rename whether it may replace: for `headrace.checkpoints`, HDFS and all else; Spark's own
default.
"""

_MARK: Final = "spark.headrace.session"

SETTINGS: Final[Mapping[str, str]] = {
    _MARK: "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_MANAGER,
    "spark.sql.shuffle.partitions": str(min(os.cpu_count() or 1, 8)),
}

LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

QUICK_START_FLAGS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""JVM flags that save about 4 s of start-up and 100 MB; long jobs run faster without them."""

_LOGGING: Final = """\
# Written by Headrace: Spark's log for people who did not ask for it.
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = console
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = {level}
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex{{8}}
"""


def ensure_java(*, local: bool = True) -> JavaRuntime:
    """Point JAVA_HOME, PYSPARK_PYTHON and SPARK_LOCAL_IP of this process where Spark works.

    On a cluster, not `local`, other hosts run Python and connect to the driver: there what the environment
    says of the two stays, and no address is made up.
    Raises: JavaError if there is no Java to point to.
    """
    runtime = find_java()
    os.environ["JAVA_HOME"] = str(runtime.home)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    if local:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return runtime


def session(
    app_name: str,
    conf: Mapping[str, str] | None = None,
    *,
    master: str = "local[*]",
    quick_start: bool = False,
    log_level: str = "error",
    log_file: Path | None = None,
) -> SparkSession:
    """A Spark session ready for `format("nats")`; the same one again if this made it before.

    `conf` wins over our settings. `log_file` takes everything the JVM and the workers print, so that
    nothing but the caller's own text reaches the terminal.

    Raises: JavaError; SparkSourceError if another session is running or the JVM does not start.
    """
    running = SparkContext._active_spark_context
    if running is not None:
        if running.getConf().get(_MARK) != "true":
            raise SparkSourceError(
                "a Spark session is already running and its static settings cannot be changed; stop it "
                "first, or keep it and call headrace.spark.register(spark)"
            )
        return SparkSession.builder.getOrCreate()
    local = master.startswith("local")
    ensure_java(local=local)
    settings = {**SETTINGS, **(LOCAL_SETTINGS if local else {}), **(conf or {})}
    options = [
        settings.get("spark.driver.extraJavaOptions", ""),
        f"-Dlog4j2.configurationFile={_logging(log_level)}",
    ]
    if quick_start:
        options.append(QUICK_START_FLAGS)
    settings["spark.driver.extraJavaOptions"] = " ".join(filter(None, options))
    spark_conf = (
        SparkConf(loadDefaults=False).setMaster(master).setAppName(app_name).setAll(list(settings.items()))
    )
    gateway = SparkContext._gateway or _launch(spark_conf, log_file)  # a stopped session leaves its JVM
    context = SparkContext(conf=spark_conf, gateway=gateway)
    return SparkSession(context)


def _logging(level: str) -> str:
    path = cache_folder() / "spark" / f"log4j2-{level}.properties"
    write_atomically(path, _LOGGING.format(level=level), 0o644)
    return str(path)


def _launch(conf: SparkConf, log_file: Path | None) -> object:
    if log_file is None:
        return start_jvm(conf)
    log_file.parent.mkdir(parents=True, exist_ok=True)
    with log_file.open("ab") as log:
        try:
            return start_jvm(conf, log)
        except Exception as error:
            raise SparkSourceError(f"Spark's JVM did not start; {log_file} says why") from error
