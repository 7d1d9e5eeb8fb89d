"""Spark reads a table's directory, and exactly its newest version by its manifest, as plain Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.log.memory import MemoryLog
from headrace.log.port import NewMessage
from headrace.log.store import FileStore
from headrace.spark.schema import COLUMNS
from headrace.tables import Table, open_store
from headrace.tables.archive import archive
from headrace.tables.files import FileLimits
from headrace.tables.rewrite import compact
from headrace.tables.source import LogSource

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_spark_reads_a_table(spark: SparkSession, tmp_path: Path) -> None:
    log = MemoryLog()
    source = LogSource(log, "orders")
    table = Table(open_store(str(tmp_path / "orders")))
    for _ in range(3):
        log.append([NewMessage(b"orders", b"x", headers=b"NATS/1.0\r\nA: b\r\n\r\n") for _ in range(100)])
        archive(table, source, limits=FileLimits(group_rows=30))
    with table.writing() as writer:
        compact(writer)
    log.delete(7, erase=True)
    log.append([NewMessage(b"orders", b"y")])
    archive(table, source)

    for frame in (spark.read.parquet(str(tmp_path / "orders")), spark.read.parquet(*table.locations())):
        assert [(f.name, f.dataType) for f in frame.schema][:-1] == [(f.name, f.dataType) for f in COLUMNS]
        found = [row.sequence for row in frame.select("sequence").orderBy("sequence").collect()]
        assert found == [n for n in range(1, 302) if n != 7]
        (first,) = frame.where("sequence = 1").collect()
        assert (first.headers, first.stream) == ({"A": ["b"]}, "orders")
        assert frame.where("sequence > 300 and subject = 'orders'").count() == 1


def test_spark_reads_tables_and_the_log_behind_them_as_nats(spark: SparkSession, tmp_path: Path) -> None:
    store = FileStore(tmp_path / "store", segment_bytes=1 << 16)
    log = store.open(b"orders")
    for first in range(1, 2001, 100):
        subjects = [b"orders", b"orders.big"]
        log.append([NewMessage(subjects[n % 2], b"%d" % n) for n in range(first, first + 100)])
        if first <= 1000:
            source = LogSource(log, "orders")
            archive(Table(open_store(str(tmp_path / "tables" / "orders"))), source, limits=FileLimits())

    frame = (
        spark.read.format("nats")
        .options(path=str(tmp_path / "tables"), logPath=str(tmp_path / "store"), pushdown="true")
        .option("minPartitions", "3")
        .load()
    )
    [row] = frame.selectExpr(
        "count(*)", "count(distinct sequence)", "sum(cast(cast(data as string) as bigint))"
    ).collect()
    assert list(row) == [2000, 2000, sum(range(1, 2001))]
    assert frame.where("sequence between 950 and 1250 and subject = 'orders.big'").count() == 150
    assert frame.where("subject like 'orders.%'").count() == 1000
    store.close()


@pytest.mark.filterwarnings("default")  # what pyiceberg and SQLAlchemy warn of is theirs
def test_spark_reads_an_iceberg_table_by_the_line_that_is_printed(
    spark: SparkSession, tmp_path: Path
) -> None:
    iceberg = pytest.importorskip("headrace.tables.iceberg")
    log = MemoryLog()
    log.append([NewMessage(b"orders.eu", b"%d" % n) for n in range(1, 101)])
    table = Table(open_store(str(tmp_path / "orders.eu")))
    archive(table, LogSource(log, "orders.eu"))
    uri = f"sqlite:///{tmp_path}/catalog.db"
    name, _, _ = iceberg.sync(table, iceberg.open_catalog(uri))

    lines = iceberg.opened_by(uri, name)
    names: dict[str, Any] = {"spark": spark}
    exec("from pyiceberg.catalog import load_catalog", names)
    exec(lines["pyiceberg"], names)
    frame = eval(lines["Spark"], names)

    assert sorted(row.sequence for row in frame.select("sequence").collect()) == list(range(1, 101))
