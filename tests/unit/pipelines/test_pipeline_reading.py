"""Specifications: what they become, and everything wrong with them at once, each at its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.pipelines.reading import load_spec, read_spec
from headrace.pipelines.spec import Otherwise, OutputMode, Stop, Trigger, Watermark

FILE = Path("/specs/orders.yaml")

GOOD = """\
pipeline: orders
parameters: {channel: orders, limit: 10, half: 1.5, name: "007"}
nats: {url: "nats://127.0.0.1:4222"}
trigger: 500ms
stop: caught_up
sources:
  orders:
    format: nats
    options: {channel: "${channel}", maxOffsetsPerTrigger: "${limit}", failOnDataLoss: false}
    watermark: {column: timestamp, delay: 1m}
  customers: {format: parquet, path: customers, stream: false}
transforms:
  typed:
    sql: |
      SELECT '$${literal}' AS text, * FROM orders
  scored:
    python: mine:score
    from: [typed, customers]
    options:
      half: "${half}"
      exact: ${half}
      limit: ${limit}
      on: true
      name: "${name}"
      list: [1, a]
expectations:
  positive: {view: typed, check: amount > 0}
  known: {view: typed, check: "id IS NOT NULL", otherwise: drop}
dead_letters: {format: parquet, path: dead}
sinks:
  table: {from: scored, format: parquet, path: out, partition_by: day, trigger: once}
  latest: {from: scored, format: parquet, path: s3a://bucket/latest, mode: overwrite}
  mine: {from: scored, python: mine:write, arguments: {url: x}}
"""


def problems(text: str, **parameters: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read_spec(text, FILE, parameters)
    return [str(one).replace(f"{FILE}:", "") for one in caught.value.problems]


def test_a_whole_specification() -> None:
    spec = read_spec(GOOD, FILE)
    orders, customers = spec.sources
    assert (spec.name, spec.checkpoint) == ("orders", "/specs/checkpoints/orders")
    assert (spec.trigger, spec.stop) == (Trigger(0.5), Stop.CAUGHT_UP)
    assert orders.options == {"channel": "orders", "maxOffsetsPerTrigger": "10", "failOnDataLoss": "false"}
    assert orders.watermark == Watermark("timestamp", 60.0)
    assert (customers.stream, customers.options) == (False, {"path": "/specs/customers"})
    typed, scored = spec.steps
    assert typed.sql == "SELECT '${literal}' AS text, * FROM orders\n"
    assert (scored.python, scored.inputs) == ("mine:score", ("typed", "customers"))
    assert scored.options == {
        "half": "1.5", "exact": 1.5, "limit": 10, "on": True, "name": "007", "list": [1, "a"],
    }  # fmt: skip
    assert [one.otherwise for one in spec.expectations] == [Otherwise.DEAD_LETTER, Otherwise.DROP]
    assert [sink.name for sink in spec.all_sinks] == ["table", "latest", "mine", "dead_letters"]
    table, latest, mine = spec.sinks
    assert (table.trigger, table.partition_by) == (Trigger(None), ("day",))
    assert (latest.mode, latest.options) == (OutputMode.OVERWRITE, {"path": "s3a://bucket/latest"})
    assert mine.arguments == {"url": "x"}


def test_options_of_nats_are_those_of_the_source_and_of_the_sink() -> None:
    text = """\
nats:
  url: nats://127.0.0.1:4222
  usr: x
sources:
  a: {format: nats, options: {channel: orders}}
sinks:
  b: {from: a, format: nats, options: {stream: ORDERS}}
  c: {from: a, format: nats, options: {channel: bills, idColumn: id}}
"""
    assert [one.split(" (")[0] for one in problems(text)] == [
        '3:3: source "a": option usr is not known to format("nats"): did you mean user?',
        '3:3: sink "b": option usr is not known to format("nats") for writing: did you mean user?',
        '3:3: sink "c": option usr is not known to format("nats") for writing: did you mean user?',
    ]
    found = problems(text.replace("  usr: x\n", ""))
    assert found[0].startswith('6:40: sink "b": writing into a stream exactly once needs ids')
    assert found[1].startswith('7:56: sink "c": option idColumn goes with option stream')
    assert len(found) == 2
    update = "nats, mode: update, options: {stream: ORDERS, keyColumns: id}}"
    found = problems(text.replace("  usr: x\n", "").replace("nats, options: {stream: ORDERS}}", update))
    assert found[0].startswith('6:3: sink "b": mode: update cannot write exactly once')


def test_files_of_nats_are_beside_the_specification(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("p")
    text = """\
nats: {user: u, passwordFile: secret, url: "nats://127.0.0.1:4222"}
sources:
  a: {format: nats, options: {subject: x, spoolDir: spool}}
  c: {format: nats, path: tables, stream: false, options: {channel: x, logPath: store}}
  d: {format: nats, stream: false, options: {path: "s3://bucket/tables"}}
sinks: {b: {from: a, format: console, options: {path: as/it/is}}}
"""
    spec = read_spec(text, tmp_path / "spec.yaml")
    _, tables, remote = spec.sources
    assert tables.options["path"] == str(tmp_path / "tables")
    assert tables.options["logPath"] == str(tmp_path / "store")
    assert remote.options["path"] == "s3://bucket/tables"
    assert spec.nats["passwordFile"] == str(tmp_path / "secret")
    assert spec.sources[0].options["spoolDir"] == str(tmp_path / "spool")
    assert spec.sinks[0].options["path"] == "as/it/is"
    assert spec.nats["url"] == "nats://127.0.0.1:4222"


def test_a_parameter_is_replaced_from_outside_and_only_if_it_is_there() -> None:
    assert read_spec(GOOD, FILE, {"channel": "bills"}).sources[0].options["channel"] == "bills"
    assert problems(GOOD, chanel="x") == [
        '1:1: the specification has no parameter "chanel" (its parameters are channel, limit, half, name)'
    ]


def test_every_problem_is_reported_at_once_with_its_place() -> None:
    text = """\
triger: 5s
stop: soon
sources:
  orders:
    format: nats
    options:
      url: nats://127.0.0.1:4222
      chanel: orders
transforms:
  typed: {sql: SELECT 1, from: orders}
expectations:
  good: {view: typd, check: "true"}
sinks:
  out: {from: typed, format: parquet, mode: appnd}
  two words: {from: orders, format: console, fromat: 1}
"""
    assert problems(text) == [
        '1:1: unknown field "triger" (did you mean "trigger"?)',
        '2:7: stop: cannot be "soon" (there are: never, caught_up)',
        '8:7: source "orders": option chanel is not known to format("nats"): did you mean channel?',
        "10:26: from: goes with python:, not with sql: (SQL names its views itself)",
        '12:3: expectation "good" is of "typd", which is not there (did you mean "typed"?)',
        '12:3: expectation "good" has nowhere to put rows that fail '
        "(add dead_letters:, or otherwise: drop or fail)",
        '14:45: mode: cannot be "appnd" (did you mean "append"?)',
        '15:3: "two words" is no name here (letters, digits, _ and -)',
        '15:46: unknown field "fromat" (did you mean "format"?)',
    ]


SOURCE = "sources: {a: {format: rate}}\n"
SINK = "sinks: {out: {from: a, format: console}}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "1:1: the file is empty"),
        ("- a\n", "1:1: a specification is a map of keys such as sources: and sinks:"),
        ("sources: [", "1:11: not YAML: expected the node content, but found '<stream end>'"),
        (
            "a: b: c\n",
            "1:5: not YAML: mapping values are not allowed here (put a text that holds a colon in ",
        ),
        (
            "sources:\n\t- a\n",
            "2:1: not YAML: found character '\\t' that cannot start any token (indent with ",
        ),
        ("a: \x00", "1:1: not YAML: special characters are not allowed"),
        ("[" * 40 + "]" * 40, "1:34: not YAML: maps and lists are deeper than 32 in one another"),
        (SOURCE, "1:1: sinks: is missing (where the result goes)"),
        (SINK, "1:1: sources: is missing (what to read)"),
        (SOURCE + SINK + "---\na: 1\n", "3:1: a second document: a file holds one pipeline"),
        (SOURCE + SINK + SINK, '3:1: field "sinks" is there twice (first in line 2)'),
        (SOURCE + SINK + "spark: &x {a: 1}\nnats: *x\n", "3:8: anchors and aliases (&, *) are not supported"),
        (SOURCE + SINK + "spark: {a: !!python/object:os.system x}\n", "3:12: tags are not supported:"),
        (SOURCE + SINK + "spark: {a: }\n", '3:11: field "a" has no value'),
        (SOURCE + SINK + "trigger: 5\n", '3:10: field "trigger" must be a string, not an integer'),
        (
            SOURCE + SINK + "trigger: -5s\n",
            '3:10: trigger: cannot be "-5s" (once, or a duration such as 500ms',
        ),
        (SOURCE + SINK + "trigger: ${when}\n", '3:10: unknown parameter "when" (there are no parameters)'),
        (
            SOURCE + SINK + "trigger: once\nstop: caught_up\n",
            "1:11: stop: caught_up and trigger: once exclude",
        ),
        (SOURCE + SINK + "pipeline: a/b\n", '3:1: "a/b" is no name for a pipeline'),
        (
            SOURCE + "sinks: {dead_letters: {from: a, format: console}}",
            "2:9: dead_letters is not a name for a",
        ),
        (SOURCE + "sinks: {out: {from: a}}", '2:9: sink "out" needs format: or table: or python:'),
        (
            SOURCE + "sinks: {out: {from: a, format: console, table: t}}",
            '2:9: sink "out" has format: and table:',
        ),
        (
            SOURCE + "sinks: {out: {from: b, format: console}}",
            '2:9: sink "out" is from "b", which is not there',
        ),
        (
            SOURCE + "sinks: {out: {from: a, python: mine}}",
            '2:32: python: "mine" names no function (write module:',
        ),
        (
            SOURCE + "sinks: {x: {from: a, format: csv, path: p}, y: {from: a, format: csv, path: p}}",
            '2:45: sink "y" writes where "x" does',
        ),
        (SOURCE + SINK + "dead_letters: {format: console}\n", "3:1: dead_letters: gets no rows"),
        (SOURCE + SINK + "transforms: {A: {sql: SELECT 1}}\n", '3:14: "A" is the name of two views'),
        (
            SOURCE + SINK + "transforms: {b: {python: m:f, from: c}, c: {sql: SELECT 1}}\n",
            '3:14: transform "b" reads "c", which is not there (c comes after b)',
        ),
        (SOURCE + SINK + "transforms: {b: {python: m:f}}\n", '3:14: transform "b" needs from:'),
        ("sources: {a: {format: nats, options: {channel: {}}}}\n" + SINK, '1:48: field "channel" must be'),
        (
            "sources: {a: {format: rate, watermark: {column: x}}}\n" + SINK,
            "1:29: watermark: needs column: and",
        ),
    ],
)
def test_bad_specification(text: str, expected: str) -> None:
    found = problems(text)
    assert found[0].startswith(expected), found
    if text.endswith("}}\n") or "watermark" in text:
        assert len(found) == 1


def test_a_text_that_is_too_large_is_not_read() -> None:
    assert problems("#" * (1 << 20) + "\n\n") == [
        "1:1: larger than 1,048,576 bytes: not a specification of a pipeline"
    ]


def test_a_file_that_is_not_text_says_so(tmp_path: Path) -> None:
    file = tmp_path / "image.yaml"
    file.write_bytes(b"\x89PNG\xff")
    with pytest.raises(ConfigError, match=r"image\.yaml:1:1: not UTF-8 text"):
        load_spec(file)
    with pytest.raises(FileNotFoundError):
        load_spec(tmp_path / "none.yaml")
