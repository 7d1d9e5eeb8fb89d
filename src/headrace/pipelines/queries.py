"""Frames to running queries: one for each sink, with its checkpoint and trigger.

Here lives how a sink is told to Spark; never how the frame was made (`plan`) or what is run (`running`).

`foreachBatch` is used for what has no other way: a Python function as a sink, a table that is written anew
after each micro-batch, and `update` into NATS, which Spark does not have for sinks in Python.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.conf.problems import shown
from headrace.errors import ConfigError, ConfigProblem
from headrace.pipelines.functions import find_function
from headrace.pipelines.plan import reason
from headrace.pipelines.spec import NATS, OutputMode, Trigger
from headrace.pipelines.table_files import FILE_LOG, newest_batch
from headrace.spark.query_state import WRITTEN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, DataFrameWriter
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from headrace.pipelines.spec import Sink, Spec

_STREAM_MODES = {OutputMode.APPEND: "append", OutputMode.UPDATE: "update", OutputMode.COMPLETE: "complete"}


def start(spec: Spec, sink: Sink, frame: DataFrame) -> StreamingQuery:
    """Start the query of one sink whose frame is a stream. It counts the rows that it writes under `WRITTEN`.

    Rows for a function are not counted: it may look at them as often as it likes.
    Raises: ConfigError if Spark refuses it.
    """
    _check_folder(spec, sink)
    if sink.python is None:
        from pyspark.sql.functions import count, lit

        frame = frame.observe(WRITTEN, count(lit(1)).alias("rows"))
    writer = frame.writeStream.queryName(sink.name).option(
        "checkpointLocation", f"{spec.checkpoint.rstrip('/')}/{sink.name}"
    )
    writer = writer.trigger(**_trigger(sink.trigger or spec.trigger))
    mode = sink.mode or OutputMode.APPEND
    if mode in (OutputMode.ERROR, OutputMode.IGNORE):
        raise _refused(sink, f"mode: {mode.value} is for tables, its rows are a stream")
    query: StreamingQuery = _attempt(sink, lambda: _start(spec, sink, writer, mode))
    return query


def _check_folder(spec: Spec, sink: Sink) -> None:
    """Check that a folder of files is not that of another checkpoint: Spark's file sink passes over the
    micro-batches that the folder has by number, and would lose the first ones of this query.

    Raises: ConfigError. Only folders and checkpoints of this machine are looked at.
    """
    path = sink.options.get("path")
    if path is None or sink.mode is OutputMode.OVERWRITE or ":/" in path or ":/" in spec.checkpoint:
        return
    written = newest_batch(Path(path) / FILE_LOG)
    if written > newest_batch(Path(spec.checkpoint) / sink.name / "offsets"):
        raise _refused(
            sink,
            f"{path} has {written + 1} micro-batches of another checkpoint, and Spark would leave out as "
            "many of this one: give path: another folder, or move that one away",
        )


def _start(spec: Spec, sink: Sink, writer: DataStreamWriter, mode: OutputMode) -> StreamingQuery:
    if mode is OutputMode.OVERWRITE:
        return writer.outputMode("complete").foreachBatch(_overwriting(sink)).start()
    writer = writer.outputMode(_STREAM_MODES[mode])
    if sink.format == NATS and mode is OutputMode.UPDATE:
        return writer.foreachBatch(_publishing(_options(spec, sink))).start()
    if sink.python is not None:
        return writer.foreachBatch(_calling(spec, sink)).start()
    writer = writer.options(**_options(spec, sink))
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    if sink.format is not None:
        writer = writer.format(sink.format)
    return writer.toTable(sink.table) if sink.table else writer.start()


def write(spec: Spec, sink: Sink, frame: DataFrame) -> None:
    """Write the table a sink's frame is, once, to its end.

    Raises: ConfigError if Spark refuses it; what reading or writing raises.
    """
    mode = sink.mode or OutputMode.ERROR
    if mode in (OutputMode.UPDATE, OutputMode.COMPLETE):
        raise _refused(sink, f"mode: {mode.value} is for streams, its rows are a table")
    if sink.python is not None:
        _calling(spec, sink)(frame, 0)
        return

    def work() -> None:
        writer = frame.write.mode(mode.value).options(**_options(spec, sink))
        _save(writer.partitionBy(*sink.partition_by) if sink.partition_by else writer, sink)

    _attempt(sink, work)


def _save(writer: DataFrameWriter, sink: Sink) -> None:
    if sink.format is not None:
        writer = writer.format(sink.format)
    if sink.table:
        writer.saveAsTable(sink.table)
    else:
        writer.save()


def _overwriting(sink: Sink) -> Callable[[DataFrame, int], None]:
    def work(frame: DataFrame, _batch: int) -> None:
        writer = frame.write.mode("overwrite").options(**sink.options)
        _save(writer.partitionBy(*sink.partition_by) if sink.partition_by else writer, sink)

    return work


def _publishing(options: Mapping[str, str]) -> Callable[[DataFrame, int], None]:
    def work(frame: DataFrame, _batch: int) -> None:
        frame.write.format(NATS).mode("append").options(**options).save()

    return work


def _calling(spec: Spec, sink: Sink) -> Callable[[DataFrame, int], None]:
    assert sink.python is not None
    function = find_function(sink.python, spec.folder)

    def work(frame: DataFrame, batch: int) -> None:
        function(frame, batch, **sink.arguments)

    return work


def _options(spec: Spec, sink: Sink) -> dict[str, str]:
    return {**spec.nats, **sink.options} if sink.format == NATS else dict(sink.options)


def _trigger(trigger: Trigger) -> dict[str, Any]:
    if trigger.interval is None:
        return {"availableNow": True}
    return {"processingTime": f"{round(trigger.interval * 1000)} milliseconds"}


def _attempt(sink: Sink, work: Callable[[], Any]) -> Any:
    from pyspark.errors import AnalysisException, IllegalArgumentException

    try:
        return work()
    except (AnalysisException, IllegalArgumentException) as error:
        raise _refused(sink, reason(error)) from error


def _refused(sink: Sink, text: str) -> ConfigError:
    return ConfigError([ConfigProblem(f"sink {shown(sink.name)}: {text}", sink.position)])
