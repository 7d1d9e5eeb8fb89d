"""`headrace pipeline run` as a process, killed with SIGKILL: every message is in the output once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pipeline_runs import publish, publish_to_channel

import headrace
from harness import depth
from harness.dearest import in_turn
from harness.processes import SIDES, ServerProcess
from harness.waiting import LONG
from headrace.client.blocking import connect
from headrace.client.jetstream import JetStream
from headrace.client.jetstream_api import JetStreamApi
from headrace.conf.streaming_options import StreamingOptions
from headrace.pipelines.table_files import open_table, read_rows
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.spark, in_turn("killed pipeline")]

MESSAGES = 4_000
DIFFERENT = MESSAGES // 4
"""Numbers that are published, each four times."""

SPEC = """\
pipeline: copy
parameters: {url: "", to_url: ""}
trigger: 0s
stop: caught_up
spark: {spark.driver.extraJavaOptions: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}  # starts faster
sources:
  messages:
    format: nats
    options: {url: "${url}", stream: numbers, startingOffsets: earliest, maxOffsetsPerTrigger: 1000}
transforms:
  numbers:
    sql: SELECT sequence, timestamp, CAST(CAST(data AS STRING) AS INT) AS number FROM messages
  copies:
    sql: SELECT data, concat(stream, '-', sequence) AS id FROM messages
  keyed:
    sql: SELECT data, timestamp, CAST(data AS STRING) AS key FROM messages
  once:
    python: headrace.pipelines.steps:deduplicate
    from: keyed
    options: {keys: key, within: 1h}
expectations:
  is_no_hundred: {view: numbers, check: number % 100 <> 0}
dead_letters: {format: parquet, path: hundreds}
sinks:
  table: {from: numbers, format: parquet, path: table}
  copies:
    from: copies
    format: nats
    options: {url: "${to_url}", stream: COPIES, subject: copies, idColumn: id}
  once:
    from: once
    format: nats
    options: {url: "${to_url}", stream: ONCE, subject: once, keyColumns: key}
"""


@contextmanager
def source(kind: str, url: str, payloads: list[bytes]) -> Iterator[str]:
    """Messages in a stream of the server at `url`, or in a channel of another one; where they are."""
    if kind == "stream":
        publish(url, "numbers", payloads)
        yield url
        return
    with Server(streaming=StreamingOptions()) as server:
        publish_to_channel(server, "numbers", payloads)
        yield server.url


def start(folder: Path, *parameters: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "headrace", "pipeline", "run", "copy.yaml"]
    command += [part for one in parameters for part in ("--set", one)]
    paths = [str(Path(headrace.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def kill_after(process: subprocess.Popen[str], batches: int) -> None:
    """Read what it says until so many batches are done, then kill it in the middle of the next."""
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if sum(" batch " in one for one in said) == batches:
            process.send_signal(signal.SIGKILL)
            break
    assert process.wait() == -signal.SIGKILL, "".join(said)
    process.stdout.close()


def run_killed_once(folder: Path, spec: str, *parameters: str) -> None:
    """Run it, kill it in the middle, and run it again to its end."""
    (folder / "copy.yaml").write_text(spec)
    kill_after(start(folder, *parameters), batches=3)
    last = start(folder, *parameters)
    said, _ = last.communicate(timeout=LONG)
    assert last.returncode == 0, said
    assert " batch " in said  # the kill left it something to do


def column(folder: Path, name: str, order_by: str) -> list[Any]:
    """What the files hold that Spark's own list calls good."""
    table = open_table(str(folder), order_by)
    return [one for batch in read_rows(table, 0, table.rows, [name]) for one in batch.column(0).to_pylist()]


@pytest.mark.parametrize("stored", depth.turn(["stream", "channel"]))
@pytest.mark.parametrize("kind", depth.turn(list(SIDES)))
def test_killed_pipeline_has_written_every_message_once(tmp_path: Path, kind: str, stored: str) -> None:
    """Into a table, without those that are dead letters; copied, and deduplicated, into streams."""
    numbers = [1 + number % DIFFERENT for number in range(MESSAGES)]
    spec = SPEC.replace("stream: numbers", f"{stored}: numbers")
    with (
        ServerProcess(SIDES[kind], tmp_path, "-js", "-sd", str(tmp_path / "jetstream")) as process,
        connect(process.url) as connection,
    ):
        api = JetStreamApi(connection)
        for name in ("COPIES", "ONCE"):
            api.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": [name.lower()]})
        with source(stored, process.url, [b"%d" % number for number in numbers]) as url:
            run_killed_once(tmp_path, spec, f"url={url}", f"to_url={process.url}")
        found = {
            name: [
                int(payload)
                for batch in JetStream(connection).read(name, 1, api.stream(name).last_sequence + 1)
                for payload in batch.payloads
            ]
            for name in ("COPIES", "ONCE")
        }
    assert sorted(column(tmp_path / "table", "sequence", "timestamp")) == [
        sequence for sequence, number in enumerate(numbers, 1) if number % 100
    ]
    kept = column(tmp_path / "table", "number", "timestamp")
    assert sorted(kept) == sorted(number for number in numbers if number % 100)
    dead = [json.loads(row) for row in column(tmp_path / "hundreds", "row", "time")]
    assert sorted((row["sequence"], row["number"]) for row in dead) == [
        (sequence, number) for sequence, number in enumerate(numbers, 1) if not number % 100
    ]
    assert sorted(found["COPIES"]) == sorted(numbers)
    assert sorted(found["ONCE"]) == list(range(1, DIFFERENT + 1))
