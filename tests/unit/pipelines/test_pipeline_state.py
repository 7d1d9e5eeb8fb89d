"""What is read out of Spark's progress, and how it is shown, served and published."""

from __future__ import annotations

import io
import json
import math
import urllib.error
import urllib.request
from typing import Any

import pytest
from rich.console import Console

from harness.waiting import PATIENCE
from headrace.client.blocking import connect
from headrace.errors import StartError
from headrace.pipelines.display import RunDisplay
from headrace.pipelines.metrics import MetricsServer
from headrace.pipelines.report import EVERY, Reporter
from headrace.pipelines.state import WRITTEN, QueryState, QueryStatus, lag_of
from headrace.testing import Server


def progress(
    batch: int, rows: int, end: int = 0, latest: int = 0, *, rate: float = 100.0, written: int | None = None
) -> dict[str, Any]:
    def offset(following: int) -> str:
        return json.dumps(at(a=following))

    return {
        "batchId": batch,
        "numInputRows": rows,
        "inputRowsPerSecond": rate,
        "processedRowsPerSecond": rate,
        "timestamp": "2026-11-21T08:00:00.000Z",
        "durationMs": {"triggerExecution": 250},
        "sources": [{"endOffset": offset(end), "latestOffset": offset(latest)}],
        "observedMetrics": {} if written is None else {WRITTEN: {"rows": written}},
    }


def at(**following: int) -> dict[str, Any]:
    return {"v": 1, "channels": {name: {"next": one, "created": 9} for name, one in following.items()}}


def replayed(following: int) -> dict[str, Any]:
    return {"v": 1, "replay": {"table": "t", "next": following}}


def test_state_counts_each_batch_once() -> None:
    state = QueryState("table")
    state.update([progress(0, 10, 11, 31), progress(1, 10, 21, 31)])
    state.update([progress(1, 10, 21, 31)])
    assert (state.rows, state.batches, state.lag, state.total) == (20, 2, 10, 30)
    assert [batch.number for batch in state.news()] == [0, 1]
    assert state.news() == []
    assert (state.status, state.has_caught_up) == (QueryStatus.RUNNING, False)
    state.update([progress(2, 10, 31, 31)])
    assert state.has_caught_up


def test_state_learns_of_new_lag_from_progress_without_rows() -> None:
    state = QueryState("table")
    state.update([progress(0, 10, 11, 11)])
    state.update([progress(1, 0, 11, 16)])
    assert (state.rows, state.batches, state.lag) == (10, 1, 5)
    state.update([progress(1, 5, 16, 16)])
    assert (state.rows, state.batches, state.lag) == (15, 2, 0)


def test_rows_written_are_counted_beside_those_read() -> None:
    state = QueryState("totals")
    state.update([progress(0, 10, 11, 11)])
    assert (state.rows, state.written) == (10, None)
    state.update([progress(1, 10, 21, 21, written=2), progress(2, 0, 21, 21, written=3)])
    state.update([progress(2, 0, 21, 21, written=3), progress(3, 0, 21, 21)])
    assert (state.rows, state.written, state.batches) == (20, 5, 3)
    assert state.document()["rows_written"] == 5


def test_rates_that_spark_cannot_divide_are_zero() -> None:
    state = QueryState("table")
    state.update([progress(0, 10, rate=math.inf)])
    assert (state.input_rate, state.process_rate) == (0.0, 0.0)
    json.loads(json.dumps(state.document(), allow_nan=False))


@pytest.mark.parametrize(
    ("sources", "lag"),
    [
        ([], None),
        ([{"endOffset": None, "latestOffset": "3"}], None),
        ([{"endOffset": "not json", "latestOffset": at(a=5)}], None),
        ([{"endOffset": at(a=3), "latestOffset": at(a=5)}], 2),
        ([{"endOffset": at(a=5), "latestOffset": at(a=3)}], 0),
        ([{"endOffset": at(next=3, b=4), "latestOffset": at(next=3, b=9)}], 5),
        ([{"endOffset": at(a=3), "latestOffset": at(a=3, new=8)}], 7),  # a wildcard means one more by now
        ([{"endOffset": at(a=60) | {"began": at(a=50)["channels"]}, "latestOffset": at(a=100)}], 40),
        ([{"endOffset": replayed(11), "latestOffset": json.dumps(replayed(31))}], 20),
        ([{"endOffset": at(a=1), "latestOffset": at(a=2)}, {"endOffset": {"logOffset": 3}}], 1),
    ],
)
def test_lag_is_how_far_the_newest_offsets_are_ahead(sources: list[Any], lag: int | None) -> None:
    assert lag_of(sources) == lag


def test_without_a_terminal_there_is_a_line_for_each_batch() -> None:
    out = io.StringIO()
    state = QueryState("table")
    with RunDisplay(Console(file=out, width=100)) as display:
        state.update([progress(0, 1000, 1001, 5001), progress(1, 0, 1001, 5001)])
        state.update([progress(2, 7, 1008, 5001, written=2)])
        display.show([state])
        display.show([state])
    assert out.getvalue().splitlines() == [
        "  table         batch 0  1,000 rows  100/s  lag 4,000  250 ms",
        "  table         batch 2  7 rows  2 written  100/s  lag 3,993  250 ms",
    ]


def test_on_a_terminal_there_is_a_bar_with_rows_rate_and_lag() -> None:
    out = io.StringIO()
    state = QueryState("table")
    with RunDisplay(Console(file=out, width=140, force_terminal=True, color_system=None)) as display:
        display.show([state])
        state.update([progress(0, 1000, 1001, 5001, written=120)])
        display.show([state])
    assert "1,000 rows" in out.getvalue()
    assert "120 written" in out.getvalue()
    assert "lag 4,000" in out.getvalue()
    assert "batch 0, 250 ms" in out.getvalue()


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_metrics_and_health_follow_the_queries() -> None:
    state, unknown = QueryState("table"), QueryState("other")
    state.update([progress(0, 1000, 1001, 5001, written=120)])
    server = MetricsServer("orders", [state, unknown], "127.0.0.1", 0)
    server.start()
    try:
        lines = get(f"{server.url}/metrics")[1].splitlines()
        labels = '{pipeline="orders",query="table"}'
        assert f"headrace_pipeline_query_up{labels} 1.0" in lines
        assert f"headrace_pipeline_rows_total{labels} 1000.0" in lines
        assert f"headrace_pipeline_rows_written_total{labels} 120.0" in lines
        assert not any("rows_written" in line and 'query="other"' in line for line in lines)
        assert f"headrace_pipeline_lag_messages{labels} 4000.0" in lines
        assert f"headrace_pipeline_last_batch_seconds{labels} 0.25" in lines
        assert not any("lag_messages" in line and 'query="other"' in line for line in lines)
        assert get(f"{server.url}/healthz") == (200, '{"status": "ok", "failed": {}}')
        state.fail("no space left")
        assert f"headrace_pipeline_failures_total{labels} 1.0" in get(f"{server.url}/metrics")[1]
        code, text = get(f"{server.url}/healthz")
        assert (code, json.loads(text)["failed"]) == (503, {"table": "no space left"})
        port = int(server.url.rpartition(":")[2])
        second = MetricsServer("orders", [], "127.0.0.1", port)
        with pytest.raises(StartError, match=f"cannot serve metrics on 127.0.0.1:{port}"):
            second.start()
    finally:
        server.stop()


def test_reports_are_published_every_few_seconds_and_outlive_the_server() -> None:
    now = 0.0
    warnings: list[str] = []
    state = QueryState("table")
    state.update([progress(0, 1000, 1001, 5001)])
    with Server() as server, connect(server.url) as listener:
        listener.subscribe("stats.>")
        listener.flush()
        reporter = Reporter("orders", "stats.orders", server.url, warnings.append, clock=lambda: now)
        reporter.tell([state])
        reporter.tell([state])  # too early
        now += EVERY
        state.fail("gone")
        reporter.tell([state])
        listener.flush()
        found = [json.loads(payload) for payload in listener.receive(timeout=PATIENCE).payloads]
    assert [(one["pipeline"], one["queries"][0]["status"]) for one in found] == [
        ("orders", "running"),
        ("orders", "failed"),
    ]
    assert found[0]["queries"][0] | {"lag": 4000, "rows": 1000} == found[0]["queries"][0]
    for _ in range(3):
        reporter.tell([state], now=True)
    assert len(warnings) == 1
    assert warnings[0].startswith("cannot report on stats.orders: ")
    reporter.close()
