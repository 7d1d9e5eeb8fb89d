"""Specifications in SQL: the same as in YAML, and what is wrong with statements at its place."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.errors import ConfigError
from headrace.pipelines.reading import read_spec

if TYPE_CHECKING:
    from headrace.pipelines.spec import Spec

FILE = Path("/specs/orders.sql")

SQL = """\
-- Orders; a comment with 'quotes" and ; in it
SET pipeline = orders;
SET trigger = 500ms;
SET parameters.channel = 'orders';
SET parameters.limit = 10;
SET nats.url = nats://127.0.0.1:4222;
SET spark.sql.shuffle.partitions = 4;

create stream orders using nats
  options (channel '${channel}', maxOffsetsPerTrigger = ${limit}, failOnDataLoss false)
  watermark timestamp delay 1m;
CREATE TABLE customers (id INT, name STRING) USING csv PATH customers OPTIONS (header 'true', 'sep' ';');
CREATE VIEW typed AS
  SELECT ';' AS semi, "it''s" AS its, /* ; */ * FROM orders -- to the end
  WHERE (id > 0);
CREATE VIEW scored PYTHON 'mine:score' FROM typed, customers OPTIONS (half 1.5, on true, name '007');
CREATE EXPECTATION positive ON typed CHECK (amount > (0));
CREATE EXPECTATION known ON typed CHECK (id IS NOT NULL) OTHERWISE DROP;
CREATE DEAD LETTERS USING parquet PATH dead;
CREATE SINK `out-1` FROM scored USING parquet PATH out MODE APPEND PARTITIONED BY (day, hour) TRIGGER once
"""

YAML = """\
pipeline: orders
trigger: 500ms
parameters: {channel: "orders", limit: 10}
nats: {url: "nats://127.0.0.1:4222"}
spark: {spark.sql.shuffle.partitions: 4}
sources:
  orders:
    format: nats
    options: {channel: "${channel}", maxOffsetsPerTrigger: "${limit}", failOnDataLoss: false}
    watermark: {column: timestamp, delay: 1m}
  customers: {stream: false, schema: "id INT, name STRING", format: csv, path: customers, options: {header: true, sep: ";"}}
transforms:
  typed:
    sql: |-
      SELECT ';' AS semi, "it''s" AS its, /* ; */ * FROM orders -- to the end
        WHERE (id > 0)
  scored: {python: "mine:score", from: [typed, customers], options: {half: 1.5, on: true, name: "007"}}
expectations:
  positive: {view: typed, check: amount > (0)}
  known: {view: typed, check: id IS NOT NULL, otherwise: drop}
dead_letters: {format: parquet, path: dead}
sinks:
  out-1: {from: scored, format: parquet, path: out, mode: append, partition_by: [day, hour], trigger: once}
"""  # noqa: E501


def without_places(spec: Spec) -> Any:
    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: plain(one)
                for key, one in value.items()
                if key not in ("position", "places", "nats_places", "file")
            }
        return [plain(one) for one in value] if isinstance(value, list | tuple) else value

    return plain(dataclasses.asdict(spec))


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read_spec(text, FILE)
    return [str(one).replace(f"{FILE}:", "") for one in caught.value.problems]


def test_sql_says_what_yaml_says() -> None:
    sql = read_spec(SQL, FILE)
    assert without_places(sql) == without_places(read_spec(YAML, FILE.with_suffix(".yaml")))
    typed = sql.steps[0]
    assert (typed.position.line, typed.position.column) == (13, 13)


GOOD = "CREATE STREAM a USING rate;\nCREATE SINK out FROM a USING console;\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "1:1: the file is empty"),
        ("-- only a comment\n;;", "1:1: the file is empty"),
        ("SELECT 1;", '1:1: "SELECT" begins no statement (there are SET and CREATE)'),
        ("CREATE", "1:1: the statement ends where what to create should be"),
        ("CREATE VEIW a AS SELECT 1", "1:8: CREATE VEIW is not known (did you mean VIEW?)"),
        ("CREATE STREAM a USNG rate", '1:17: "USNG" is no clause here (did you mean USING?)'),
        ("CREATE STREAM a USING rate OPTIONS (x 1", "1:39: the statement ends where , or ) should be"),
        ("CREATE STREAM a USING rate OPTIONS (x 1 2)", '1:41: "2" where , or ) should be'),
        ("CREATE STREAM a USING rate OPTIONS ()", '1:37: ")" where an option\'s name should be'),
        ("CREATE STREAM a USING rate OPTIONS (a 1, a 2)", '1:42: "a" is there twice (first in line 1)'),
        ("CREATE STREAM a USING rate USING rate", '1:28: "format" is there twice'),
        ("CREATE STREAM a USING rate WATERMARK x 1m", '1:40: "1m" where DELAY should be'),
        ("CREATE EXPECTATION e ON a CHECK (x > (1", "1:39: the statement ends where ) behind the condition"),
        ("SET trigger = 5 s", '1:17: "s" after the value (put texts in quotes'),
        (GOOD + "SET nats = 1; SET nats.url = x", '3:12: field "nats" must be a map'),
        ("SET a = 'b", "1:9: a quote that is not closed"),
        ("SET a = /* b", "1:9: a comment that is not closed"),
        (GOOD + "SET stop = soon", '3:12: stop: cannot be "soon"'),
        (GOOD + "CREATE SINK two FROM b USING console", '3:13: sink "two" is from "b", which is not there'),
        (GOOD + "CREATE SINK two FROM a USING console CHECK (x)", '3:38: unknown field "check"'),
        (GOOD + "CREATE VIEW a AS SELECT 1", '3:13: "a" is the name of two views'),
        (GOOD + "CREATE STREAM a USING rate", '3:15: "a" is there twice (first in line 1)'),
        ("x" * (1 << 20) + "yz", "1:1: larger than 1,048,576 bytes"),
    ],
)
def test_a_bad_statement_is_told_at_its_place(text: str, expected: str) -> None:
    found = problems(text)
    assert found[0].startswith(expected), found


def test_each_bad_statement_has_its_problem_and_the_others_are_read() -> None:
    text = (
        "SET triger = 5s;\nCREATE STREAM a OPTIONS;\n" + GOOD.replace("a", "a", 1) + "CREATE SINK b FORM a;"
    )
    assert [one.split(":")[0] for one in problems(text)] == ["1", "2", "5"]
