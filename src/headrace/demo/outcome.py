"""What a run wrote, read back from disk: shown, held against what was published, drawn.

Reads the two tables with Spark and decides whether they are right; nothing of the run itself is known here
but how many messages were published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812  # the name every Spark user knows

from headrace.demo import job
from headrace.demo.chart import draw_delays
from headrace.demo.feed import load_airlines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, Row, SparkSession

    from headrace.demo.display import Display
    from headrace.demo.files import Files

_TOP: Final = 12
_LEAST_FLIGHTS: Final = 100
_MANY: Final = 100_000
_COLUMNS: Final = {"carrier": False} | dict.fromkeys(
    ("hour", "flights", "cancelled", "mean", "p90", "max"), True
)


def check_outcome(spark: SparkSession, files: Files, published: int, display: Display) -> bool:
    """Read back what was written, show it, and hold it against what was published."""
    flights = spark.read.parquet(str(files.flights)).cache()
    delays = spark.read.parquet(str(files.delays)).cache()
    _show(delays, published, display)
    rows = flights.count()
    distinct = flights.select("sequence").distinct().count()
    sums = delays.agg(F.sum("flights"), F.sum("cancelled")).first()
    counted, cancelled = (sums[0] or 0, sums[1] or 0) if sums is not None else (0, 0)
    without_delay = flights.filter(F.col("dep_delay").isNull()).count()
    again = job.delays(flights)
    differing = again.exceptAll(delays).count() + delays.exceptAll(again).count()
    checks = [
        (rows == published, f"{rows:,} rows in the flights table, {published:,} messages published"),
        (distinct == rows, f"{distinct:,} different sequences, so no message is there twice"),
        (counted == published, f"the delay table's counts add up to {counted:,}"),
        (
            cancelled == without_delay,
            f"{cancelled:,} cancelled flights counted apart, {without_delay:,} in the rows",
        ),
        (differing == 0, f"computed again from the rows, {differing} rows of the delay table differ"),
    ]
    for good, text in checks:
        display.checked(good, text)
    draw_delays([row.asDict() for row in delays.collect()], load_airlines(), counted, files.chart)
    return all(good for good, _ in checks)


def _show(delays: DataFrame, published: int, display: Display) -> None:
    airlines = load_airlines()
    count = delays.count()
    least = _LEAST_FLIGHTS if published >= _MANY else 1  # a short replay has few flights in any hour
    busy = delays.filter((F.col("flights") >= least) & F.col("mean_delay").isNotNull())
    top = busy.orderBy(F.desc("mean_delay"), "carrier", "hour").limit(_TOP).collect()
    display.table(
        f"Departure delay by carrier and scheduled hour, in minutes: the {len(top)} latest of {count} rows",
        _COLUMNS,
        [_cells(row, airlines) for row in top],
    )


def _cells(row: Row, airlines: Mapping[str, str]) -> tuple[str, ...]:
    return (
        f"{airlines.get(row['carrier'], '')} ({row['carrier']})",
        f"{row['hour']:02d}",
        f"{row['flights']:,}",
        f"{row['cancelled']:,}",
        f"{row['mean_delay']:.1f}",
        f"{row['p90_delay']:.0f}",
        f"{row['max_delay']:,}",
    )
