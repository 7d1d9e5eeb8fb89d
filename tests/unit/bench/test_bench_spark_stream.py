"""Micro-batches: the publisher's pace, and what is said about the result."""

import json

import pytest
from bench.__main__ import OWN, parse_arguments
from bench.render import PAGE, RESULTS, replace_section
from bench.spark_feed import STAMP, feed
from bench.spark_pull import ROW_BYTES
from bench.spark_stream import stream_text

from headrace.client.blocking import connect
from headrace.client.replay import replay
from headrace.conf.streaming_options import StreamingOptions
from headrace.testing import Server


def result(channel=75.0, *, flat=(True, False)):
    phases = dict.fromkeys(
        ("latestOffset", "getBatch", "queryPlanning", "walCommit", "addBatch", "commitOffsets"), 5
    )
    costs = {"memory": 50.0, "channel": channel, "stream": 60.0}
    return {
        "created": "2026-01-01 00:00 UTC",
        "machine": {"cpu": "x", "cores": 2, "memory_gib": 4},
        "command": "python -m bench spark-stream",
        "rows": 100,
        "reps": 3,
        "load": 2.0,
        "floor": {
            name: [{"trigger": cost + off, "p99": 2 * cost, "phases": phases} for off in (-1, 0, 30)]
            for name, cost in costs.items()
        },
        "latency": [{"rate": 1000, "rows": 9, "p50": 80.4, "p99": 120.0}],
        "sustained": [
            {"rate": rate, "reached": rate * 0.99, "lags": [1, 2], "flat": is_flat}
            for rate, is_flat in zip((50_000, 100_000), flat, strict=True)
        ],
    }


@pytest.mark.parametrize(
    ("channel", "verdict"), [(75.0, "1.50× in memory (target ≤ 1.5×: **met**)"), (76.0, "**missed**")]
)
def test_text_says_whether_the_target_is_met(channel, verdict):
    text = stream_text(result(channel))
    assert verdict in text
    assert "1.20× in memory" in text
    assert "| 1,000 | 80 ms | 120 ms |" in text


def test_text_says_what_keeps_up():
    assert "Lag stays flat at 49.5 k rows/s; at 100 k it grows" in stream_text(result())
    assert "Lag stays flat at 99 k rows/s (rows" in stream_text(result(flat=(True, True)))
    assert "No rate kept the lag flat; at 50 k" in stream_text(result(flat=(False, False)))


def test_publisher_keeps_its_pace_and_times_its_rows():
    with Server(streaming=StreamingOptions(cluster_id="bench")) as server:
        stored, seconds = feed(server.url, "bench", b"live", 500.0, 0.3)
        with connect(server.url) as nc:
            rows = [one for batch in replay(nc, "bench", "live") for one in batch.payloads]
    assert len(rows) == stored
    assert 0 < stored <= 500 * seconds
    assert {len(row) for row in rows} == {ROW_BYTES}
    stamps = [STAMP.unpack_from(row)[0] for row in rows]
    assert stamps == sorted(stamps)


def test_page_of_the_project_is_what_its_result_renders():
    path = RESULTS / "spark-stream.json"
    page = PAGE.read_text(encoding="utf-8")
    text = (
        stream_text(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else "Not measured yet.\n"
    )
    assert replace_section(page, "spark-stream", text) == page


def test_command_line_takes_rounds_and_rates():
    options = parse_arguments(["spark-stream", "--reps", "2", "--rates", "10,20"])
    assert (options.verb, options.reps, options.rates, options.name) == (
        "spark-stream", 2, "10,20", "spark-stream"
    )  # fmt: skip
    assert options.verb in OWN
