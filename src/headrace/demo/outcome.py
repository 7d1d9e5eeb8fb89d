"""The results of a run, read back from disk: shown, compared with what was published, drawn.

Reads the two tables with Spark and decides whether they are right; of the run itself nothing is known here
but what must be in them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected results: rows published, and the last sequence as the server says.

    `results`: what was heard last on each result subject, as JSON; `killed_at`: rows acknowledged when the
    server was killed, None if it was not; `kept`: how many messages it had when it was back.
    """

    published: int
    stored: int
    results: Mapping[str, bytes]
    killed_at: int | None = None
    kept: int = 0


def check_outcome(spark: SparkSession, files: Files, expected: Expected, display: Display) -> bool:
    """Read back what was written, show it, and hold it against what was published and stored."""
    published = expected.published
    flights = spark.read.parquet(str(files.flights)).cache()
    delays = spark.read.parquet(str(files.delays)).cache()
    _show(delays, published, display)
    rows = flights.count()
    found = flights.agg(F.count_distinct("sequence"), F.min("sequence"), F.max("sequence")).first()
    distinct, first, last = found if found is not None else (0, None, None)
    sums = delays.agg(F.sum("flights"), F.sum("cancelled")).first()
    counted, cancelled = (sums[0] or 0, sums[1] or 0) if sums is not None else (0, 0)
    without_delay = flights.filter(F.col("dep_delay").isNull()).count()
    again = job.delays(flights)
    differing = again.exceptAll(delays).count() + delays.exceptAll(again).count()
    checks = [
        *_kill_checks(expected),
        (
            expected.stored == published,
            f"{published:,} messages published, {expected.stored:,} is the stream's last sequence",
        ),
        (rows == published, f"{rows:,} rows in the flights table"),
        (
            (distinct, first, last) == (published, 1, published),
            f"{distinct:,} different sequences from {first or 0:,} to {last or 0:,}: {published:,} expected",
        ),
        (counted == published, f"the delay table's counts add up to {counted:,}"),
        (
            cancelled == without_delay,
            f"{cancelled:,} cancelled flights counted apart, {without_delay:,} in the rows",
        ),
        _results_check(delays, expected.results),
        (differing == 0, f"computed again from the rows, {differing} rows of the delay table differ"),
    ]
    for good, text in checks:
        display.checked(good, text)
    draw_delays([row.asDict() for row in delays.collect()], load_airlines(), counted, files.chart)
    return all(good for good, _ in checks)


def _results_check(delays: DataFrame, heard: Mapping[str, bytes]) -> tuple[bool, str]:
    """Compare the last messages on the result subjects with the table."""
    told = {row["subject"]: json.loads(row["data"]) for row in job.results(delays).collect()}
    same = sum(told.get(subject) == json.loads(data) for subject, data in heard.items())
    return (
        same == len(told) == len(heard),
        f"{same:,} of {len(told):,} rows of the delay table heard by nats-py on {job.RESULTS}, "
        f"{len(heard) - same:,} others",
    )


def _kill_checks(expected: Expected) -> list[tuple[bool, str]]:
    if expected.killed_at is None:
        return []
    return [
        (
            expected.kept >= expected.killed_at,
            f"{expected.killed_at:,} rows were acknowledged before the kill, {expected.kept:,} came back",
        )
    ]


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
