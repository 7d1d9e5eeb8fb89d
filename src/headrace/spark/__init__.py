"""NATS as a PySpark data source and sink: `spark.readStream.format("nats")`, `df.write.format("nats")`.

Here live the data source, its options and offsets, and the session our own commands and examples use.
Never here: server code. Importing this package needs neither PySpark nor Java; its modules do.
Reading order: `options`, `schema`, `offsets`, for stored streams and channels `stored_link` and
`stored_reader`, for core subjects `capture`, `spool`, `core_reader`, for writing `sink_options`, `sink_rows`,
`sink_ledger`, `sink`, then `datasource`; apart from these `java`, `session` and `notebook`, and for progress
`progress`, `query_state`, `metrics`, `query_watch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.spark.notebook import NotebookStream
    from headrace.spark.query_watch import QueryWatch

__all__ = ["register", "stream", "watch"]


def register(spark: SparkSession) -> None:
    """Make `format("nats")` known to this session.

    Needed only where the package `pyspark_nats` is not on the driver's Python path, as it is after a
    normal install.
    """
    from headrace.spark.datasource import NatsDataSource

    spark.dataSource.register(NatsDataSource)


def stream(
    name: str,
    url: str | None = None,
    *,
    kind: str = "stream",
    spark: SparkSession | None = None,
    **options: str,
) -> NotebookStream:
    """A JetStream stream, or with `kind="channel"` a STAN channel, as a notebook shows it: how much is in
    it, its last messages; `.df()` is its table.

    `options` are those of `format("nats")`, such as `credsFile`. No Spark is started before `.df()`.
    Raises: OptionError if an option cannot be used.
    """
    from headrace.spark.notebook import NotebookStream

    return NotebookStream(name, url, spark, kind, options)


def watch(
    spark: SparkSession, *, port: int | None = None, host: str = "127.0.0.1", name: str = "spark"
) -> QueryWatch:
    """Watch all streaming queries of a session: rows, batches, failures, and lag in messages and seconds by
    stream, as `states` of what is returned; `port`, where one is given (0: a free one), serves them as
    Prometheus metrics, whose label `spark` is `name`.

    Raises: StartError if the port cannot be had.
    """
    from headrace.spark.query_watch import QueryWatch

    made = QueryWatch(spark, name, host, port)
    made.start()
    return made
