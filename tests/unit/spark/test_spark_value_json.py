"""JSON values of each type of Spark, and those that are of none. What Spark's own reader makes of the same is
compared in tests/spark/test_spark_value_types.py.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructField, StructType, VariantVal

from headrace.spark.schema import arrow_schema
from headrace.spark.value_json import BAD_JSON, json_reader
from headrace.spark.value_schema import read_schema


def read(kind: str, text: str) -> Any:
    """The value of a field as Arrow keeps it."""
    schema = read_schema(f"v {kind}")
    value = json_reader(schema)(f'{{"v": {text}}}'.encode())
    column = arrow_schema(StructType([StructField("data", schema)])).field("data").type
    return pa.array([value], column)[0].as_py()["v"]


BACK = -timedelta(days=1, seconds=7384)


def micros(**given: int) -> datetime:
    return datetime(2026, 11, 21, 7, 0, 0, tzinfo=UTC).replace(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("decimal(5,2)", "1.005", Decimal("1.01")),
        ("decimal(5,2)", "-1.005", Decimal("-1.01")),
        ("decimal(5,2)", "999.994", Decimal("999.99")),
        ("decimal(5,2)", '"12.5"', Decimal("12.50")),
        ("decimal(5,2)", '"-1.25e2"', Decimal("-125.00")),
        ("decimal(5,2)", "0e300", Decimal("0.00")),
        ("decimal(5,2)", "1e-900000000", Decimal("0.00")),
        ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
        ("decimal(38,18)", "12345678901234567890.123456789012345678", Decimal("12345678901234567890.123456789012345678")),  # noqa: E501
        ("date", '"2026-11-21"', date(2026, 11, 21)),
        ("date", '" 2026-1-2 "', date(2026, 1, 2)),
        ("date", '"2026"', date(2026, 1, 1)),
        ("date", '"2026-11-21T23:59:59Z"', date(2026, 11, 21)),
        ("date", '"0001-01-01"', date(1, 1, 1)),
        ("date", '"9999-12-31"', date(9999, 12, 31)),
        ("timestamp", '"2026-11-21T08:00:00+01:00"', micros()),
        ("timestamp", '"2026-11-21T08:00:00+0100"', micros()),
        ("timestamp", '"2026-11-21 7:00"', micros()),
        ("timestamp", '"2026-11-21 07:00:00 UTC"', micros()),
        ("timestamp", '"2026-11-20T20:30:00-10:30"', micros()),
        ("timestamp", '"2026-11-21T07:00:00.1234569Z"', micros(microsecond=123456)),
        ("timestamp", '"2026-11-21"', micros(hour=0)),
        ("timestamp", "1795244400", micros()),
        ("timestamp", "-1", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("timestamp", '"1969-12-31T23:59:59.5Z"', datetime(1969, 12, 31, 23, 59, 59, 500000, tzinfo=UTC)),
        ("timestamp_ntz", '"2026-11-21T08:00:00.5"', datetime(2026, 11, 21, 8, 0, 0, 500000)),
        ("time", '"08:09:10.123456"', time(8, 9, 10, 123456)),
        ("time(1)", '"08:09:10.19"', time(8, 9, 10, 100000)),
        ("time", '"8:09"', time(8, 9)),
        ("binary", '"AQL/"', b"\x01\x02\xff"),
        ("binary", '""', b""),
        ("interval day to second", '"1 02:03:04.5"', timedelta(days=1, seconds=7384.5)),
        ("interval day to second", '"-1 02:03:04"', BACK),
        ("interval day to second", '"INTERVAL \'-1 02:03:04\' DAY TO SECOND"', BACK),
        ("interval day to second", '"INTERVAL -\'1 02:03:04\' DAY TO SECOND"', BACK),
        ("interval hour", '"49"', timedelta(hours=49)),
        ("interval hour to minute", '"49:59"', timedelta(hours=49, minutes=59)),
        ("interval second", '"INTERVAL \'-0.25\' SECOND"', timedelta(seconds=-0.25)),
        ("map<string,int>", '{"a": 1, "b": null}', [("a", 1), ("b", None)]),
        ("map<string,decimal(3,1)>", "{}", []),
        ("array<date>", '["2026-11-21", null]', [date(2026, 11, 21), None]),
        ("struct<d: decimal(3,1), l: bigint, f: double>", '{"d": 1.5, "l": 9223372036854775807, "f": 0.1}', {"d": Decimal("1.5"), "l": 9223372036854775807, "f": 0.1}),  # noqa: E501
    ],
)  # fmt: skip
def test_value_of_each_type(kind: str, text: str, value: Any) -> None:
    found = read(kind, text)
    assert found == value
    assert type(found) is type(value)
    assert read(kind, "null") is None


BAD = {
    "decimal(5,2)": [
        "1000", "999.995", "true", '"x"', '"NaN"', '""', "[]", "1e308", "1e999999999999999999999",
        '"1e99999999999"', '"1_000"', "9" * 5000,
    ],
    "date": [
        '"2026-02-30"', '"2026-13-01"', '"26-1-1"', '"0000-01-01"', '"x"', '""', "20260101", '"2026-1-1x"',
    ],
    "timestamp": [
        '"2026-11-21T24:00:00"', '"2026-11-21T08:60:00"', '"2026-11-21T08:00:60Z"', '"2026-11-21T08"', "1.5",
        '"2026-11-21T08:00:00+19:00"', '"2026-11-21T08:00:00+01:60"', '"2026-11-21T08:00:00 Mars"', "true",
        '"1795244400"', "9223372036855", '"2026-11-21T08:00:00.Z"', '"2026-11-21Z"', "1e3",
    ],
    "timestamp_ntz": ['"2026-11-21T08:00:00Z"', '"2026-11-21T08:00:00+01:00"', "1795244400"],
    "time": ['"24:00:00"', '"8"', "28800", '"08:00:00Z"'],
    "binary": ['"A"', '"AQI"', '"AQ I="', '"\\u00e9"', "1", '"=="'],
    "interval day to second": [
        '"1"', '"1 24:00:00"', '"1 02:60:00"', '"1 02:03:61"', '"P1D"', '"999999999999999 00:00:00"', "5",
        '"INTERVAL \'1\' DAY"', '"INTERVAL \'1 02:03:04\' HOUR TO SECOND"',
    ],
    "map<string,int>": ["[]", '{"a": "1"}', '"{}"', '{"\\ud800": 1}'],
    "bigint": ["9223372036854775808", "1.0", "1e3"],
    "variant": ['"\\ud800"', "NaN", "9" * 5000],
    "struct<d: decimal(3,1), l: bigint>": [
        '{"l": 9223372036854775808}', '{"l": 1.0}', '{"d": 1.5, "l": "1"}',
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in BAD.items() for text in texts])
def test_value_of_another_type_is_refused(kind: str, text: str) -> None:
    with pytest.raises(BAD_JSON):
        read(kind, text)


@pytest.mark.parametrize(
    "value",
    [1, -(1 << 63), 1 << 63, 1.5, "é", True, None, [1, [2.25, {}]], {"a": {"b": []}, "c": 10**27 + 1}],
)
def test_variant_is_any_value(value: Any) -> None:
    found = read("variant", json.dumps(value))
    if value is None:
        assert found is None
    else:
        assert VariantVal(found["value"], found["metadata"]).toPython() == value


def test_variant_keeps_all_digits_of_a_number() -> None:
    found = read("variant", "0.1000000000000000000000000001")
    made = VariantVal(found["value"], found["metadata"])
    assert made.toJson() == "0.1000000000000000000000000001"


@pytest.mark.parametrize(
    "kind", ["decimal(5,2)", "timestamp", "date", "time", "binary", "interval day to second"]
)
def test_long_text_that_is_nearly_a_value_is_looked_at_once(kind: str) -> None:
    """A reader that tries each way to cut a million digits in two would not come back."""
    with pytest.raises(BAD_JSON):
        read(kind, '"' + "1" * 1_000_000 + 'x"')


def test_variant_within_lists_as_deep_as_python_goes_is_refused_and_not_a_crash() -> None:
    with pytest.raises(BAD_JSON):
        read("variant", "[" * 100_000 + "]" * 100_000)
