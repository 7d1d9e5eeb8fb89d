"""The demonstration's verdict: what must agree for it to be good, and that each disagreement is seen."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812  # the name every Spark user knows
from pyspark.sql.types import LongType, StructField, StructType
from rich.console import Console

from harness.dearest import in_turn
from headrace.demo import job
from headrace.demo.display import Display
from headrace.demo.feed import load_flights
from headrace.demo.files import Files
from headrace.demo.outcome import Expected, check_outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, in_turn("outcome")]

COUNT = 40
ALL = tuple(range(1, COUNT + 1))


def expected(published: int, stored: int, killed_at: int, kept: int) -> Expected:
    return Expected(published, stored, {}, killed_at, kept)


def heard(spark: SparkSession, files: Files) -> dict[str, bytes]:
    """What a listener heard last when all went well."""
    rows = job.results(spark.read.parquet(str(files.delays))).collect()
    return {row["subject"]: bytes(row["data"]) for row in rows}


def write(spark: SparkSession, files: Files, sequences: list[int]) -> None:
    schema = StructType([StructField("sequence", LongType()), *job.FLIGHT])
    rows = [
        {"sequence": sequence, **flight}
        for sequence, flight in zip(sequences, load_flights(COUNT), strict=True)
    ]
    flights = spark.createDataFrame(rows, schema)
    flights.coalesce(1).write.parquet(str(files.flights))
    job.delays(flights).orderBy(F.col("carrier")).coalesce(1).write.parquet(str(files.delays))


@pytest.fixture(scope="module")
def written(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Sequence[int]], tuple[Files, dict[str, bytes]]]:
    """Tables of a run with these sequences, and what was heard of it; made once, read by several tests."""
    made: dict[Sequence[int], tuple[Files, dict[str, bytes]]] = {}

    def tables(sequences: Sequence[int]) -> tuple[Files, dict[str, bytes]]:
        if sequences not in made:
            files = Files(tmp_path_factory.mktemp("outcome"))
            write(spark, files, list(sequences))
            made[sequences] = files, heard(spark, files)
        return made[sequences]

    return tables


@pytest.mark.parametrize(
    ("sequences", "expected", "wrong"),
    [
        (ALL, expected(COUNT, COUNT, 20, 25), None),
        (ALL, expected(COUNT, COUNT, 20, 19), "20 rows were acknowledged before"),
        (ALL, expected(COUNT, COUNT + 1, 20, 25), "is the stream's last sequence"),
        (ALL, expected(COUNT + 1, COUNT + 1, 20, 25), "40 rows in the flights table"),
        (
            (*range(1, COUNT), 7),
            expected(COUNT, COUNT, 20, 25),
            "39 different sequences from 1 to 39: 40 expected",
        ),
        (
            (*range(1, COUNT), COUNT + 1),
            expected(COUNT, COUNT, 20, 25),
            "40 different sequences from 1 to 41",
        ),
    ],
    ids=[
        "good",
        "acknowledged lost",
        "stored more",
        "row missing",
        "row twice",
        "row skipped",
    ],
)
def test_outcome_is_good_only_if_everything_agrees(
    spark: SparkSession,
    written: Callable[[Sequence[int]], tuple[Files, dict[str, bytes]]],
    sequences: tuple[int, ...],
    expected: Expected,
    wrong: str | None,
) -> None:
    files, results = written(sequences)
    expected = replace(expected, results=results)
    text = io.StringIO()
    good = check_outcome(spark, files, expected, Display(Console(file=text, width=120)))
    failures = [line for line in text.getvalue().splitlines() if line.startswith("  WRONG")]
    assert good == (wrong is None)
    assert bool(failures) == (not good)
    assert wrong is None or any(wrong in line for line in failures), failures


@pytest.mark.parametrize("change", ["missing", "stale", "strange"])
def test_outcome_is_not_good_if_the_results_that_were_heard_differ(
    spark: SparkSession, written: Callable[[Sequence[int]], tuple[Files, dict[str, bytes]]], change: str
) -> None:
    files, all_heard = written(ALL)
    results = dict(all_heard)
    first = next(iter(results))
    if change == "missing":
        del results[first]
    elif change == "stale":
        results[first] = b'{"carrier":"UA"}'
    else:
        results["delays.ZZ.99"] = results[first]
    text = io.StringIO()
    outcome = replace(expected(COUNT, COUNT, 20, 25), results=results)
    assert not check_outcome(spark, files, outcome, Display(Console(file=text, width=120)))
    failures = [line for line in text.getvalue().splitlines() if line.startswith("  WRONG")]
    assert len(failures) == 1
    assert "heard by nats-py on delays.>" in failures[0]
