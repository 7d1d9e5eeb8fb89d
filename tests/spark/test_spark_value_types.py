"""`valueSchema` with every type through a real Spark, beside what its own `from_json` makes of the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.functions import from_json

from headrace.client.blocking import connect
from headrace.testing import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CASES: dict[str, list[str]] = {
    "string": ['"a"', '"\\u00e9\\ud83d\\ude00"', '""', "null"],
    "boolean": ["true", '"x"', "1"],
    "tinyint": ["-128", "1.5"],  # Spark makes -128 of 128
    "bigint": ["9223372036854775807", "9223372036854775808", "1.0"],
    "float": ["0.5", "7"],
    "double": ["1e300", "0.1", "[]"],
    "decimal(5,2)": [
        "1.005",
        "-1.005",
        "999.99",
        "999.995",
        "1000",
        '"12.5"',
        '"x"',
        "true",
        "0e3",
        "12.3e-1",
    ],
    "decimal(38,18)": ["12345678901234567890.123456789012345678", "1e19", "1e20"],
    "date": ['"2026-11-21"', '"2026-1-2"', '"2026"', '"2026-02-30"', '"x"', "1"],
    "timestamp": [
        '"2026-11-21T08:00:00.123456+01:00"',
        '"2026-11-21T08:00:00Z"',
        '"2026-11-21 08:00"',
        '"2026-11-21"',
        '"2026-11-21T08:00:00.1234567Z"',
        "1795244400",
        '"2026-11-21T24:00:00Z"',
        "1.5",
        '"x"',
    ],
    "time(3)": ['"08:09:10.5"', '"x"'],
    "timestamp_ntz": ['"2026-11-21T08:00:00.5"', '"2026-11-21"', '"2026-11-21T08:00:00Z"'],
    "binary": ['"AQL/"', '""', "1"],
    "interval day to second": [
        '"1 02:03:04.5"',
        '"-1 02:03:04"',
        "\"INTERVAL '-1 02:03:04.000001' DAY TO SECOND\"",
        '"1 24:00:00"',
        '"x"',
    ],
    "interval hour to minute": ['"49:59"', "\"INTERVAL '49:59' HOUR TO MINUTE\"", '"49:60"'],
    "variant": ["1", "1.50", '"a"', "[1, null, {}]", '{"b": {"a": true}}'],
    "array<date>": ['["2026-11-21", null]', "[]", "{}"],
    "map<string,decimal(3,1)>": ['{"a": 1.25, "b": null}', "{}", "[]", '{"a": "x"}'],
    "struct<x: array<map<string, timestamp>>, y: double>": [
        '{"x": [{"t": "2026-11-21T08:00:00Z"}]}',
        '{"y": "1"}',
    ],
}
SCHEMA = ", ".join(f"v{place} {kind}" for place, kind in enumerate(CASES))
PAYLOADS = [f'{{"v{place}": {text}}}' for place, texts in enumerate(CASES.values()) for text in texts]
OTHERS = ["", "[]", "no JSON"]


def test_values_of_each_type_are_those_of_sparks_own_reader(spark: SparkSession) -> None:
    with Server(jetstream=True) as server:
        publish(server.url, [*PAYLOADS, *OTHERS])
        frame = (
            spark.read.format("nats")
            .options(url=server.url, stream="VALUES", valueFormat="json", valueSchema=SCHEMA)
            .load()
        )
        rows = (
            frame.orderBy("sequence")
            .selectExpr("to_json(data) as value", "cast(_corrupt_record as string) as corrupt")
            .collect()
        )
    ours = [(row["corrupt"], value(row["value"])) for row in rows]
    assert ours[len(PAYLOADS) :] == [(text, None) for text in OTHERS]
    texts = spark.createDataFrame([(text,) for text in PAYLOADS], "text string").coalesce(1)
    made = from_json("text", f"{SCHEMA}, corrupt string", {"columnNameOfCorruptRecord": "corrupt"})
    theirs = [
        (row["corrupt"], None if row["corrupt"] is not None else value(row["value"]))
        for row in texts.select(made.alias("made"))
        .selectExpr("made.corrupt", "to_json(struct(made.* except (corrupt))) as value")
        .collect()
    ]
    found = list(zip(PAYLOADS, ours, theirs, strict=False))
    assert [one for one in found if one[1] != one[2]] == []
    assert {one[0] for _, one, _ in found} > {None}, "no payload was bad"


def value(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def publish(url: str, payloads: list[str]) -> None:
    with connect(url) as nc:
        config = {"name": "VALUES", "subjects": ["values"], "storage": "memory"}
        answer = json.loads(nc.request("$JS.API.STREAM.CREATE.VALUES", json.dumps(config).encode()).data)
        assert "error" not in answer, answer
        for payload in payloads:
            answer = json.loads(nc.request("values", payload.encode()).data)
            assert "error" not in answer, answer
