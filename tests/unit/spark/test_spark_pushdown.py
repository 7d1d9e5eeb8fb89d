"""Which messages the conditions of a query can match."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from headrace.spark.pushdown import Bounds, bounds_of

SEQUENCE, TIME, SUBJECT, NAME = ("sequence",), ("timestamp",), ("subject",), ("stream",)
NOON = datetime(2026, 11, 21, 12, 0, 0, 5, tzinfo=UTC)
NOON_NS = 1795262400_000005000


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], Bounds()),
        ([GreaterThan(SEQUENCE, 5), LessThan(SEQUENCE, 9)], Bounds(6, 8)),
        ([GreaterThanOrEqual(SEQUENCE, 5), LessThanOrEqual(SEQUENCE, 9)], Bounds(5, 9)),
        ([GreaterThan(SEQUENCE, 5), GreaterThan(SEQUENCE, 2)], Bounds(6)),
        ([EqualTo(SEQUENCE, 5)], Bounds(5, 5)),
        ([EqualNullSafe(SEQUENCE, 5), LessThan(SEQUENCE, 4)], Bounds(5, 3)),
        ([In(SEQUENCE, (9, 3, 5))], Bounds(3, 9)),
        ([In(SEQUENCE, (9, None))], Bounds()),
        ([GreaterThan(SEQUENCE, -5)], Bounds()),
        ([Not(EqualTo(SEQUENCE, 5)), IsNotNull(SEQUENCE)], Bounds()),
        ([EqualTo(("headers", "sequence"), 5), EqualTo(("data",), b"x")], Bounds()),
        ([EqualTo(TIME, NOON)], Bounds(since_ns=NOON_NS, until_ns=NOON_NS + 1000)),
        ([GreaterThan(TIME, NOON)], Bounds(since_ns=NOON_NS)),
        ([GreaterThanOrEqual(TIME, NOON), LessThan(TIME, NOON)], Bounds(since_ns=NOON_NS, until_ns=NOON_NS)),
        ([LessThanOrEqual(TIME, NOON)], Bounds(until_ns=NOON_NS + 1000)),
        ([EqualTo(TIME, "noon")], Bounds()),
        (
            [GreaterThan(TIME, NOON.astimezone(timezone(timedelta(hours=3)))), GreaterThan(TIME, NOON)],
            Bounds(since_ns=NOON_NS),
        ),
        ([EqualTo(SUBJECT, "a.b")], Bounds(subjects=("a.b",))),
        ([In(SUBJECT, ("a.b", "c", "a.b"))], Bounds(subjects=("a.b", "c"))),
        ([In(SUBJECT, ("a.b", None))], Bounds()),
        ([In(SUBJECT, tuple(map(str, range(100))))], Bounds()),
        ([StringStartsWith(SUBJECT, "a.b.")], Bounds(subjects=("a.b.>",))),
        ([StringStartsWith(SUBJECT, "a.b")], Bounds(subjects=("a.>",))),
        ([StringStartsWith(SUBJECT, "a")], Bounds()),
        ([StringStartsWith(SUBJECT, ".a")], Bounds()),
        ([StringStartsWith(SUBJECT, "a."), In(SUBJECT, ("a.b", "b.c"))], Bounds(subjects=("a.b",))),
        ([In(SUBJECT, ("a.b", "b.c")), StringStartsWith(SUBJECT, "a.")], Bounds(subjects=("a.b",))),
        ([StringStartsWith(SUBJECT, "a.b."), StringStartsWith(SUBJECT, "a.")], Bounds(subjects=("a.b.>",))),
        ([EqualTo(SUBJECT, "a"), EqualTo(SUBJECT, "b")], Bounds(subjects=())),
        ([EqualTo(SUBJECT, "a.*")], Bounds()),
        ([EqualTo(SUBJECT, "a b")], Bounds()),
        ([EqualTo(SUBJECT, r"a\xff")], Bounds()),
        ([StringContains(SUBJECT, "a.b")], Bounds()),
        ([EqualTo(NAME, "S")], Bounds(streams=("S",))),
        ([In(NAME, ("S", "T")), EqualTo(NAME, "T")], Bounds(streams=("T",))),
        ([EqualTo(NAME, "S"), EqualTo(NAME, "T")], Bounds(streams=())),
    ],
)  # fmt: skip
def test_bounds_of_conditions(filters: list[Filter], expected: Bounds) -> None:
    assert bounds_of(filters) == expected


@pytest.mark.parametrize(
    ("subjects", "own", "expected"),
    [
        (None, ("a.>",), ("a.>",)),
        (("a.b",), (), ("a.b",)),
        (("a.b", "c"), ("a.>",), ("a.b",)),
        (("c",), ("a.>",), None),
        ((), (), None),
        (("a.b.>",), ("a.>",), ("a.b.>",)),
        (("a.>",), ("a.b.c", "d"), ("a.b.c", "d")),
    ],
)
def test_bounds_with_the_filters_of_the_options(
    subjects: tuple[str, ...] | None, own: tuple[str, ...], expected: tuple[str, ...] | None
) -> None:
    assert Bounds(subjects=subjects).filters(own) == expected
