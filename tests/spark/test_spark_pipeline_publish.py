"""Ready-made pipelines that publish through `format("nats")`, to subjects and JetStream streams."""

from __future__ import annotations

import io
import json
import re
import shutil
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from pipeline_runs import (
    BODIES,
    SECONDS,
    publish,
    publish_in_two_windows,
    publish_to_channel,
    run_starter,
    totals,
)
from rich.console import Console

from harness import depth
from harness.dearest import in_turn
from harness.processes import NATS_SERVER, SIDES, ServerProcess
from headrace.client.blocking import connect
from headrace.client.jetstream import JetStream
from headrace.client.jetstream_api import JetStreamApi
from headrace.conf.streaming_options import StreamingOptions
from headrace.errors import ConfigError
from headrace.pipelines.display import RunDisplay
from headrace.pipelines.operations import write_report
from headrace.pipelines.reading import read_spec
from headrace.pipelines.running import RunOptions, run_pipeline
from headrace.pipelines.starters import starter
from headrace.pipelines.table_files import TableReplayError, open_table, read_rows
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.client.blocking import Connection


pytestmark = [pytest.mark.spark, in_turn("published pipeline")]


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(jetstream=True) as running:
        yield running


def stored(url: str, stream: str) -> list[bytes]:
    with connect(url) as connection:
        last = JetStreamApi(connection).stream(stream).last_sequence
        batches = list(JetStream(connection).read(stream, 1, last + 1))
    return [payload for batch in batches for payload in batch.payloads]


def make_stream(url: str, name: str, subject: str) -> None:
    with connect(url) as connection:
        JetStreamApi(connection).ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": [subject]})


def test_replayed_table_is_in_the_stream_once(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    """Also the rows of messages that had ids of their own."""
    publish(server.url, "ORDERS", [b"%d" % n for n in range(300)])
    with connect(server.url) as connection:
        connection.request("orders", b"300", headers={"Nats-Msg-Id": "three hundred", "Kept": "yes"})
    run_starter("archive", tmp_path, spark, {"url": server.url})
    make_stream(server.url, "REPLAY", "replay.*")
    for _ in range(2):  # the second run has no row left
        run_starter("replay-table", tmp_path, spark, {"url": server.url, "rate": "200"})
    assert [int(data) for data in stored(server.url, "REPLAY")] == list(range(301))
    with connect(server.url) as connection:
        [last] = JetStream(connection).read("REPLAY", 301, 302)
    assert b"Kept: yes" in (last.headers[0] or b"")
    assert b"three hundred" not in (last.headers[0] or b"")


def test_aggregate_is_stored(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    publish_in_two_windows(server)
    make_stream(server.url, "STATS", "stats.>")
    run_starter("aggregate", tmp_path, spark, {"url": server.url}, change=SECONDS)
    assert totals(stored(server.url, "STATS")) == {"a": (2, 5.0), "b": (1, 1.0)}


@contextmanager
def jetstream(kind: str, folder: Path) -> Iterator[tuple[str, Connection, JetStreamApi]]:
    """A server with JetStream: its URL, a connection and its API."""
    with (
        ServerProcess(SIDES[kind], folder, "-js", "-sd", str(folder / "jetstream")) as process,
        connect(process.url) as connection,
    ):
        yield process.url, connection, JetStreamApi(connection)


either = pytest.mark.parametrize("kind", depth.turn(list(SIDES)))


@either
def test_channel_is_copied_into_a_stream_once(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    with Server(streaming=StreamingOptions()) as server, jetstream(kind, tmp_path) as (target, _, api):
        api.ask("STREAM.CREATE.ORDERS", {"name": "ORDERS", "subjects": ["orders"]})
        parameters = {"from_url": server.url, "to_url": target}
        for count in (500, 100):  # the second run goes on behind the first
            publish_to_channel(server, "orders", [b"%d" % n for n in range(count)])
            run_starter("channel-to-stream", tmp_path, spark, parameters)
        # Without Spark's memory everything is written again, and dropped by its ids.
        shutil.rmtree(tmp_path / "checkpoints")
        run_starter("channel-to-stream", tmp_path, spark, parameters)
        assert api.stream("ORDERS").last_sequence == 600


@either
def test_aggregate_is_kept_in_a_bucket_and_failing_rows_in_a_stream(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    dead_letters = {
        "format: parquet\n  path: tables/aggregate-to-bucket-dead-letters\n": (
            "format: nats\n  options: {stream: DEAD, subject: dead, positionalIds: true}\n"
        )
    }
    with jetstream(kind, tmp_path) as (url, connection, api):
        for name, subject in (("ORDERS", "orders"), ("KV_counts", "$KV.counts.>"), ("DEAD", "dead")):
            api.ask(
                f"STREAM.CREATE.{name}", {"name": name, "subjects": [subject], "max_msgs_per_subject": -1}
            )
        for _ in range(2):
            for body in (*BODIES, b'{"key": "c d", "amount": 1}'):
                connection.request("orders", body)
            run_starter("aggregate-to-bucket", tmp_path, spark, {"url": url}, change=dead_letters)
        values: dict[str, dict[str, object]] = {}
        reading = JetStream(connection)
        for batch in reading.read("KV_counts", 1, api.stream("KV_counts").last_sequence + 1):
            for name, payload in zip(batch.subjects, batch.payloads, strict=True):
                values[name.decode()] = json.loads(payload)
        keys = {name.split(".")[2] for name in values}
        assert keys == {"a", "b", "c_d"}
        assert all(re.fullmatch(r"\$KV\.counts\.\w+\.\d{8}T\d{4}Z", name) for name in values)
        assert totals(json.dumps(one) for one in values.values()) == {
            "a": (4, 10.0), "b": (2, 2.0), "c d": (2, 2.0),
        }  # fmt: skip
        dead = [
            json.loads(payload)
            for batch in reading.read("DEAD", 1, api.stream("DEAD").last_sequence + 1)
            for payload in batch.payloads
        ]
    assert sorted(json.loads(one["row"])["text"] for one in dead) == ["no json"] * 2 + ["{}"] * 2
    assert {tuple(one["expectations"]) for one in dead} == {("has_a_key", "has_an_amount")}


SYSTEM = """accounts { SYS { users: [{user: sys, password: s}] }, APP { users: [{user: app, password: a}] } }
system_account: SYS
"""


def values_in(folder: Path, column: str) -> set[str]:
    """Of a table that may not be there yet."""
    try:
        table = open_table(str(folder), "time")
    except TableReplayError:
        return set()
    batches = read_rows(table, 0, table.rows, [column])
    return {row[column] for batch in batches for row in batch.to_pylist()}


def test_events_of_the_server_and_reports_become_a_table_with_charts(
    spark: SparkSession, tmp_path: Path
) -> None:
    with ServerProcess(NATS_SERVER, tmp_path, config=SYSTEM) as process:
        address = process.url.removeprefix("nats://")
        parameters = {
            "system_url": f"nats://sys:s@{address}",
            "url": f"nats://app:a@{address}",
            "trigger": "200ms",
        }
        spec = read_spec(starter("operations").text, tmp_path / "operations.yaml", parameters)
        stop = threading.Event()
        runs: list[bool] = []

        def work() -> None:
            display = RunDisplay(Console(file=io.StringIO()))
            runs.append(run_pipeline(spec, RunOptions(), display, stop, spark=spark))

        runner = threading.Thread(target=work)
        runner.start()
        try:
            deadline = time.monotonic() + 90
            kinds: set[str] = set()
            report = b'{"pipeline": "p", "queries": [{"query": "q", "status": "running", "lag": 7}]}'
            dead: set[str] = set()
            while kinds < {"statsz", "connect", "disconnect", "query"} or not dead:
                assert time.monotonic() < deadline, kinds
                assert runner.is_alive()
                with connect(parameters["url"]) as other:
                    other.publish("ops.pipelines", report)
                    other.publish("ops.pipelines", b"no report")
                    other.flush()
                stop.wait(0.5)
                kinds = values_in(tmp_path / "tables" / "operations", "kind")
                dead = values_in(tmp_path / "tables" / "operations-dead-letters", "row")
        finally:
            stop.set()
            runner.join()
        found = write_report(tmp_path / "tables" / "operations", tmp_path / "report.html")
    assert runs == [True]
    assert found.lag["p.q"][0][1] == 7
    assert found.connections
    assert {json.loads(row)["text"] for row in dead} == {"no report"}


def test_of_a_server_without_such_events_the_run_says_so(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="sends its events"):
        run_starter("operations", tmp_path, spark, {"system_url": server.url, "url": server.url})
