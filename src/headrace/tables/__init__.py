"""Stored streams as Parquet tables: the archiver, what keeps tables small and true, how others read them.

A table is one directory (or prefix of an object store) of one stream. Its files are plain Parquet that
Spark, pandas, Polars and DuckDB read without us. Which files belong together is said by a manifest that
changes atomically (`manifest`); messages that were removed are taken out of the files (`rewrite`). Never
here: a server, a Spark session, arguments of a program.

    from headrace.tables import Table, open_store

    table = Table(open_store("tables/orders"))
    spark.read.parquet(*table.locations())
"""

from headrace.objects.opening import open_store
from headrace.tables.table import Table

__all__ = ["Table", "open_store"]
