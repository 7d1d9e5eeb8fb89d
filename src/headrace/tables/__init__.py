"""Stored streams as Parquet tables: the archiver, what keeps tables small and true, how others read them.

A table is one directory (or prefix of an object store) of one stream. Its files are plain Parquet that
Spark, pandas, Polars and DuckDB read without us. Which files belong together is said by a manifest that
changes atomically (`manifest`); messages that were removed are taken out of the files (`rewrite`). Never
here: a server, a Spark session, arguments of a program.

    from headrace.tables import Table, open_store

    table = Table(open_store("tables/orders"))
    spark.read.parquet(*table.locations())

Streams in a bucket are read without tables and without a server by `read_stream`, channels by `read_channel`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.objects.opening import open_store
from headrace.tables.table import Table

if TYPE_CHECKING:
    from headrace.tables.bucket_rows import StreamRows, read_channel, read_stream

__all__ = ["StreamRows", "Table", "open_store", "read_channel", "read_stream"]


def __getattr__(name: str) -> Any:
    """Load what reads buckets when it is used: it needs the formats of streams, and a server has no use for
    it.
    """
    if name in ("StreamRows", "read_channel", "read_stream"):
        from headrace.tables import bucket_rows

        return getattr(bucket_rows, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
