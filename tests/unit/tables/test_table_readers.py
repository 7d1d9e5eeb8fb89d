"""Everybody reads a table: pyarrow, pandas, Polars and DuckDB, by directory and by the manifest's list.

Spark is in tests/spark/test_spark_tables.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest
from table_makers import START, Stream, merge_and_erase

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.tables import Table

EXPECTED = [n for n in range(1, 46) if n not in (17, 18)]


@pytest.fixture
def used(table: Table) -> Table:
    """A table with a history: small files, then merged, rows erased, new files behind."""
    merge_and_erase(table, Stream(35), (17, 18), more=10)
    return table


def test_pyarrow(used: Table, directory: Path) -> None:
    for where in (str(directory), used.locations()):
        rows = ds.dataset(where, format="parquet").to_table(filter=ds.field("sequence") > 40)
        assert sorted(rows["sequence"].to_pylist()) == [41, 42, 43, 44, 45]


def test_pandas(used: Table, directory: Path) -> None:
    pandas = pytest.importorskip("pandas")

    for where in (directory, used.locations()):
        frame = pandas.read_parquet(where).sort_values("sequence")
        check_row(frame.iloc[3].to_dict())
        assert frame["sequence"].tolist() == EXPECTED
        assert str(frame["timestamp"].dtype) == "datetime64[us, UTC]"


def test_polars(used: Table, directory: Path) -> None:
    polars = pytest.importorskip("polars")

    for where in (f"{directory}/*.parquet", used.locations()):
        frame = polars.scan_parquet(where).sort("sequence").collect()
        check_row(frame.row(3, named=True))
        assert frame["sequence"].to_list() == EXPECTED
        few = polars.scan_parquet(where).filter(polars.col("sequence") > 40).select("data").collect()
        assert len(few) == 5


def test_duckdb(used: Table, directory: Path) -> None:
    duckdb = pytest.importorskip("duckdb")

    for where in (f"{directory}/*.parquet", used.locations()):
        with duckdb.connect() as connection:
            rows = connection.execute(
                "select sequence, subject, data, headers, timestamp_ns from read_parquet($1) order by 1",
                [where],
            ).fetchall()
        assert [row[0] for row in rows] == EXPECTED
        sequence, subject, data, headers, time_ns = rows[3]
        assert headers == {"Kind": ["even", "two"]}
        check_row({"sequence": sequence, "subject": subject, "data": data, "timestamp_ns": time_ns})


def check_row(row: dict[str, Any]) -> None:
    """The fourth message."""
    assert (row["sequence"], row["subject"], bytes(row["data"])) == (4, "orders.0", b"message 4")
    assert row["timestamp_ns"] == START + 4 * 10**9 + 123
