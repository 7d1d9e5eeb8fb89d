"""Pipelines in a real Spark: from a file to tables, dead letters, metrics and reports."""

from __future__ import annotations

import io
import json
import re
import shutil
import threading
import time
from base64 import b64decode
from typing import TYPE_CHECKING

import pytest
from pipeline_runs import (
    BODIES,
    SECONDS,
    publish,
    publish_in_two_windows,
    publish_to_channel,
    rows,
    run,
    run_starter,
    totals,
)
from rich.console import Console

from harness.dearest import in_turn
from harness.waiting import PATIENCE
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi
from headrace.conf.streaming_options import StreamingOptions
from headrace.errors import ConfigError, HeadraceError
from headrace.pipelines import run as run_file
from headrace.pipelines.display import RunDisplay
from headrace.pipelines.plan import build
from headrace.pipelines.reading import read_spec
from headrace.pipelines.running import RunOptions, run_pipeline
from headrace.schemas import metadata
from headrace.spark import stream
from headrace.spark.errors import StoredStreamError
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, in_turn("pipeline")]


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(jetstream=True) as running:
        yield running


TYPED = """\
pipeline: numbers
parameters: {url: ""}
nats: {url: "${url}"}
trigger: once
sources:
  messages:
    format: nats
    options: {stream: NUMBERS, startingOffsets: earliest, maxOffsetsPerTrigger: 40}
transforms:
  typed:
    sql: SELECT sequence, try_cast(CAST(data AS STRING) AS INT) AS n FROM messages
  scaled:
    python: steps_of_a_test:scaled
    from: typed
    options: {factor: 10}
expectations:
  is_a_number: {view: typed, check: n IS NOT NULL}
  is_small: {view: typed, check: n < 90}
  is_even: {view: typed, check: n % 2 = 0, otherwise: drop}
dead_letters: {format: parquet, path: dead}
sinks:
  table: {from: scaled, format: parquet, path: table}
"""

MODULE = """
from pyspark.sql import functions as F

def scaled(rows, factor):
    @F.udf("int")  # travels to the workers, where this module is not installed
    def scale(n):
        return n * factor
    return rows.select("sequence", scale("n").alias("n"))
"""


def test_rows_go_to_the_table_or_to_the_dead_letters_once_over_restarts(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "steps_of_a_test.py").write_text(MODULE)
    publish(server.url, "NUMBERS", [b"%d" % n if n != 7 else b"seven" for n in range(100)])
    with connect(server.url) as listener:
        listener.subscribe("stats")
        listener.flush()
        good, shown = run(
            TYPED, tmp_path, spark, {"url": server.url}, report="stats", metrics=("127.0.0.1", 0)
        )
        reports = [json.loads(payload) for payload in listener.receive(timeout=PATIENCE).payloads]
    assert good, shown
    assert rows(tmp_path / "table", "n") == [(n * 10,) for n in range(0, 90, 2)]
    dead = rows(tmp_path / "dead", "row", "expectations", "view")
    assert [(json.loads(row), names, view) for row, names, view in dead if "null" in row] == [
        ({"sequence": 8, "n": None}, ["is_a_number", "is_small"], "typed")
    ]
    assert len(dead) == 11
    fields = ("query", "status", "rows", "rows_written", "lag")
    assert {tuple(one[name] for name in fields) for one in reports[-1]["queries"]} == {
        ("table", "ended", 100, 45, 0),
        ("dead_letters", "ended", 100, 11, 0),
    }
    assert "/metrics" in shown
    assert [line.split()[:5] for line in shown.splitlines() if line.startswith("  table")] == [
        ["table", "batch", str(batch), str(count), "rows"] for batch, count in enumerate((40, 40, 20))
    ]
    publish(server.url, "NUMBERS", [b"2", b"200"])
    assert run(TYPED, tmp_path, spark, {"url": server.url})[0]
    assert len(rows(tmp_path / "table", "n")) == 46
    assert len(rows(tmp_path / "dead", "row")) == 12


OF_A_SCHEMA = """\
parameters: {url: ""}
trigger: once
sources:
  orders:
    format: nats
    options: {url: "${url}", stream: ORDERS, startingOffsets: earliest}
transforms:
  spent:
    sql: SELECT sequence, customer, amount * 2 AS twice FROM orders
expectations:
  fits: {view: orders, check: _corrupt_record IS NULL}
dead_letters: {format: parquet, path: dead}
sinks:
  table: {from: spent, format: parquet, path: table}
"""


def test_the_fields_of_a_streams_schema_are_columns_of_a_pipeline(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    pytest.importorskip("fastjsonschema")
    schema = {
        "type": "object",
        "required": ["customer"],
        "properties": {"customer": {"type": "string"}, "amount": {"type": "integer"}},
    }
    with connect(server.url) as connection:
        JetStreamApi(connection).ask(
            "STREAM.CREATE.ORDERS", {"name": "ORDERS", "subjects": ["orders"], "metadata": metadata(schema)}
        )
        for payload in (b'{"customer": "ann", "amount": 3}', b"no json", b'{"customer": "bob"}'):
            connection.request("orders", payload)

    good, shown = run(OF_A_SCHEMA, tmp_path, spark, {"url": server.url})

    assert good, shown
    assert rows(tmp_path / "table", "sequence", "customer", "twice") == [(1, "ann", 6), (3, "bob", None)]
    [(dead, expectations)] = rows(tmp_path / "dead", "row", "expectations")
    assert (json.loads(dead)["sequence"], expectations) == (2, ["fits"])
    assert b64decode(json.loads(dead)["data"]) == b"no json"


def test_everything_spark_refuses_is_told_at_its_place_and_consequences_are_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    text = """\
sources:
  numbers: {format: rate}
  files: {format: parquet, path: nowhere, stream: false}
transforms:
  wrong:
    sql: SELECT nothing FROM numbers
  after:
    sql: SELECT * FROM wrong
  missing:
    python: no_such_module:function
    from: numbers
  good:
    sql: SELECT value, timestamp FROM numbers
expectations:
  text: {view: good, check: timestamp, otherwise: drop}
sinks:
  after: {from: after, format: console}
  parted: {from: numbers, format: parquet, path: out, partition_by: day}
  keyed: {from: numbers, format: nats, options: {stream: S, keyColumns: value.x}}
"""
    with pytest.raises(ConfigError) as caught:
        build(read_spec(text, tmp_path / "spec.yaml"), spark.newSession())
    found = [str(one).removeprefix(f"{tmp_path}/spec.yaml:") for one in caught.value.problems]
    assert [line.split(" ")[0] for line in found] == ["3:3:", "5:3:", "9:3:", "12:3:", "18:3:", "19:3:"]
    assert "nowhere" in found[0]
    assert "`nothing` cannot be resolved" in found[1]
    assert "no_such_module:function: module no_such_module: ModuleNotFoundError" in found[2]
    assert 'expectation "text"' in found[3]
    assert 'no column "day" to partition by' in found[4]
    assert "sink \"keyed\": option keyColumns: there is no column 'x' in value" in found[5]


def test_a_row_that_may_not_be_ends_the_run_and_names_the_expectation(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    publish(server.url, "NUMBERS", [b"1", b"two"])
    text = TYPED.replace("check: n IS NOT NULL", "check: n IS NOT NULL, otherwise: fail")
    text = text.replace("steps_of_a_test:scaled", "headrace.pipelines.steps:deduplicate")
    text = text.replace("SELECT sequence", "SELECT timestamp, sequence").replace(
        "{factor: 10}", "{keys: sequence}"
    )
    good, shown = run(text, tmp_path, spark, {"url": server.url})
    assert not good

    assert "failed: table: " in shown or "failed: dead_letters: " in shown
    assert 'a row of typed does not meet is_a_number: {"timestamp":' in shown


def test_tables_are_written_as_tables_and_not_over_what_is_there(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text('{"a": 1}\n{"a": 2}\n')
    text = """\
sources: {numbers: {format: json, path: in.json, stream: false}}
sinks: {table: {from: numbers, format: parquet, path: out}}
"""
    assert run(text, tmp_path, spark)[0]
    assert rows(tmp_path / "out", "a") == [(1,), (2,)]
    with pytest.raises(ConfigError, match="already exists"):
        run(text, tmp_path, spark)
    with pytest.raises(ConfigError, match="mode: complete is for streams"):
        run(text.replace("path: out", "path: out, mode: complete"), tmp_path, spark)
    assert run(text.replace("path: out", "path: out, mode: overwrite"), tmp_path, spark)[0]
    assert rows(tmp_path / "out", "a") == [(1,), (2,)]


SQL_FILE = """\
CREATE TABLE numbers USING json PATH in.json;
CREATE VIEW large AS SELECT a FROM numbers WHERE a > 1;
CREATE SINK large FROM large USING parquet PATH out;
"""

PYTHON_FILE = """\
from pyspark.sql import functions as F
from headrace.pipelines import Pipeline

tenfold = Pipeline("tenfold", parameters={"factor": 10})
tenfold.source("numbers", format="json", path="in.json", stream=False)

def times(factor):
    return F.udf(lambda number: number * factor, "long")  # runs in workers, with this module's code

@tenfold.transform("numbers", options={"factor": "${factor}"})
def scaled(numbers, factor):
    return numbers.select(times(factor)("a").alias("a"))

@tenfold.writer("scaled", arguments={"folder": "out"})
def write(frame, batch, folder):
    assert batch == 0
    frame.write.parquet(folder)
"""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [("large.sql", SQL_FILE, [(2,)]), ("tenfold_spec.py", PYTHON_FILE, [(10,), (20,)])],
)
def test_a_file_in_sql_or_python_runs(
    spark: SparkSession, tmp_path: Path, name: str, text: str, expected: list[tuple[int]]
) -> None:
    (tmp_path / "in.json").write_text('{"a": 1}\n{"a": 2}\n')
    (tmp_path / name).write_text(text.replace('"folder": "out"', f'"folder": "{tmp_path}/out"'))
    assert run_file(tmp_path / name, spark=spark)
    assert rows(tmp_path / "out", "a") == expected


TO_PARQUET = "format: parquet\n    path: out\n"


def test_archive_then_replay_at_a_rate(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    publish(server.url, "ORDERS", [b"%d" % n for n in range(300)])
    run_starter("archive", tmp_path, spark, {"url": server.url})
    archived = rows(tmp_path / "tables" / "orders", "sequence", "data", "stream")
    assert archived == [(n + 1, b"%d" % n, "ORDERS") for n in range(300)]
    began = time.monotonic()
    shown = run_starter("replay-table", tmp_path, spark, {"rate": "150"}, sink=TO_PARQUET)
    assert time.monotonic() - began > 300 / 150
    out = 0
    for count, lag in re.findall(r"^  replay .*?(\d+) rows .* lag (\d+) ", shown, re.MULTILINE):
        out += int(count)
        assert out + int(lag) == 300  # what is still to come
    assert out == 300
    assert sorted(int(data) for (data,) in rows(tmp_path / "out", "data")) == list(range(300))


def test_a_table_of_another_checkpoint_is_not_written_into(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    """Spark would take the new batches for those that the folder has, and leave them out."""
    publish(server.url, "ORDERS", [b"1"])
    run_starter("archive", tmp_path, spark, {"url": server.url})
    publish(server.url, "ORDERS", [b"2"])
    shutil.rmtree(tmp_path / "checkpoints")
    with pytest.raises(ConfigError, match="orders has 1 micro-batches of another checkpoint"):
        run_starter("archive", tmp_path, spark, {"url": server.url})
    run_starter("archive", tmp_path, spark, {"url": server.url, "table": "tables/again"})
    assert rows(tmp_path / "tables" / "again", "data") == [(b"1",), (b"2",)]


def test_aggregate_counts_and_keeps_what_is_no_json(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    publish(server.url, "ORDERS", BODIES)
    sink = TO_PARQUET + "    mode: overwrite\n"  # has open minutes, too
    run_starter("aggregate", tmp_path, spark, {"url": server.url}, sink=sink)
    assert totals(data for (data,) in rows(tmp_path / "out", "data")) == {"a": (2, 5.0), "b": (1, 1.0)}
    dead = rows(tmp_path / "tables" / "aggregate-dead-letters", "row", "expectations")
    assert sorted(json.loads(row)["text"] for row, _ in dead) == ["no json", "{}"]


def test_aggregate_leaves_open_what_may_still_grow(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    publish_in_two_windows(server)
    run_starter("aggregate", tmp_path, spark, {"url": server.url}, change=SECONDS, sink=TO_PARQUET)
    assert totals(data for (data,) in rows(tmp_path / "out", "data")) == {"a": (2, 5.0), "b": (1, 1.0)}


def test_deduplicate_keeps_the_first_of_each_key(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    publish(server.url, "ORDERS", [b'{"id": %d}' % (n % 10) for n in range(50)] + [b"no json"])
    run_starter("deduplicate", tmp_path, spark, {"url": server.url})
    publish(server.url, "ORDERS", [b'{"id": %d}' % (n % 12) for n in range(50)])
    run_starter("deduplicate", tmp_path, spark, {"url": server.url})
    found = rows(tmp_path / "tables" / "orders-once", "key")
    assert found == sorted((str(n),) for n in range(12))
    assert len(rows(tmp_path / "tables" / "deduplicate-dead-letters", "row")) == 1


def test_stop_ends_a_run_that_would_go_on(spark: SparkSession, tmp_path: Path) -> None:
    text = "sources: {a: {format: rate}}\nsinks: {out: {from: a, format: noop}}\n"
    spec = read_spec(text, tmp_path / "spec.yaml")
    stop = threading.Event()
    timer = threading.Timer(2.0, stop.set)
    timer.start()
    display = RunDisplay(Console(file=io.StringIO()))
    assert run_pipeline(spec, RunOptions(), display, stop, spark=spark)
    assert not spark.streams.active
    timer.join()


def test_a_stream_in_a_notebook(spark: SparkSession, server: Server) -> None:
    publish(server.url, "ORDERS", [b"<%d>" % n for n in range(20)])
    orders = stream("ORDERS", server.url, spark=spark)
    html = orders._repr_html_()
    assert "<th>messages</th><td>20</td>" in html
    assert "<code>&lt;19&gt;</code>" in html
    assert "&lt;14&gt;" not in html
    assert orders.df(startingOffsets='{"ORDERS": 11}').count() == 10
    assert [data for _, _, data in orders.last(2)] == [b"<18>", b"<19>"]
    none = stream("NONE", server.url)
    assert "there is no stream NONE" in none._repr_html_()
    with pytest.raises(StoredStreamError, match="there is no stream NONE"):
        none.info()
    with pytest.raises(HeadraceError, match="one is shown at a time"):
        stream("a,b", server.url)


def test_a_channel_in_a_notebook(spark: SparkSession) -> None:
    with Server(streaming=StreamingOptions()) as server:
        publish_to_channel(server, "orders", [b"<%d>" % n for n in range(20)])
        orders = stream("orders", server.url, kind="channel", spark=spark)
        assert "<th>messages</th><td>20</td>" in orders._repr_html_()
        assert orders.df(startingOffsets='{"orders": 11}').count() == 10
        assert [data for _, _, data in orders.last(2)] == [b"<18>", b"<19>"]
        none = stream("none", server.url, kind="channel")
        assert "there is no channel none of cluster test-cluster" in none._repr_html_()
