"""The in-memory source that `spark-stream` compares with: what any Python source costs that asks nobody.

The same columns and limits as ours; every trigger finds the next rows, one task makes them from nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from bench.spark_pull import ROW_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


class MemoryReader(DataSourceStreamReader):
    """Rows `[start, start + limit)` for ever."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        return {"next": 1}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        return ReadMaxRows(self._rows) if self._rows else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802  # Spark's name
        return {"next": start["next"] + self._rows}

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802  # Spark's name
        return None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [InputPartition((start["next"], end["next"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import numpy as np
        import pyarrow as pa

        from headrace.spark.schema import arrow_schema

        first, end = partition.value
        rows, schema = end - first, arrow_schema()
        columns = {
            "stream": pa.repeat(pa.scalar("bench"), rows),
            "subject": pa.repeat(pa.scalar("bench"), rows),
            "sequence": pa.array(np.arange(first, end)),
            "timestamp": pa.array(np.zeros(rows, np.int64)).cast(schema.field("timestamp").type),
            "data": pa.array([b"x" * ROW_BYTES] * rows, pa.binary()),
        }
        arrays = [columns[one.name] if one.name in columns else pa.nulls(rows, one.type) for one in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


class MemorySource(DataSource):
    """`format("bench_memory")`; option `rows`: those of a micro-batch."""

    @classmethod
    def name(cls) -> str:
        return "bench_memory"

    def schema(self) -> Any:
        from headrace.spark.schema import COLUMNS

        return COLUMNS

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        return MemoryReader(int(self.options["rows"]))
