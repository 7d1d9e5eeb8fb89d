"""What is read out of Spark's progress, by query and by stream, and how it is served."""

from __future__ import annotations

import json
import math
import urllib.error
import urllib.request
from typing import Any

import pytest

from harness.progresses import at, progress, replayed
from headrace.errors import StartError
from headrace.spark.metrics import MetricNames, MetricsServer
from headrace.spark.query_state import QueryState, QueryStatus, StreamTotals, lag_of


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


def test_state_adds_up_the_messages_of_each_stream() -> None:
    def waiting(batch: int, end: int, latest: int, ms: int) -> dict[str, Any]:
        found = progress(batch, 10, end, latest)
        [source] = found["sources"]
        source["startOffset"] = at(a=end - 10)
        behind = {"behind": {"a": {"messages": latest - end, "ms": ms}}}
        source["latestOffset"] = at(a=latest) | behind
        return found

    state = QueryState("table")
    state.update([waiting(0, 11, 31, 2000), waiting(1, 21, 41, 2500)])
    state.update([waiting(1, 21, 41, 2500)])
    assert state.streams == {"a": StreamTotals(20, 20, 2.5)}
    late, soon = waiting(2, 31, 31, 0), waiting(2, 31, 31, 0)["sources"][0]
    late["sources"].append(
        soon | {"latestOffset": at(a=50) | {"behind": {"a": {"messages": 19, "ms": 9000}}}}
    )
    state.update([late])
    assert state.streams == {"a": StreamTotals(40, 19, 9.0)}, "the larger of two sources' lag"
    idle = progress(2, 0, 31, 33)
    state.update([idle])
    assert state.streams == {"a": StreamTotals(40, 2, None)}


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


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_metrics_of_names_with_line_ends_and_quotes_are_lines_of_their_own() -> None:
    state = QueryState('a"} 1\nheadrace_pipeline_query_up{x="')
    state.update([progress(0, 1000, 1001, 5001)])
    server = MetricsServer(MetricNames("pipeline", "orders\n"), [state], "127.0.0.1", 0)
    server.start()
    try:
        lines = get(f"{server.url}/metrics")[1].splitlines()
        for path in ("/", "/metrics/", "/metrics/../x", "/healthz?x=1"):
            assert get(f"{server.url}{path}")[0] == (200 if path.startswith("/healthz") else 404)
        change = urllib.request.Request(f"{server.url}/metrics", data=b"x", method="POST")
        with pytest.raises(urllib.error.HTTPError, match="405"):
            urllib.request.urlopen(change, timeout=10)
    finally:
        server.stop()
    up = [line for line in lines if line.startswith("headrace_pipeline_query_up{")]
    name = r"a\"} 1\nheadrace_pipeline_query_up{x=\""
    assert up == [f'headrace_pipeline_query_up{{pipeline="orders\\n",query="{name}"}} 1.0']


def test_metrics_and_health_follow_the_queries() -> None:
    state, unknown = QueryState("table"), QueryState("other")
    state.update([progress(0, 1000, 1001, 5001, written=120)])
    server = MetricsServer(MetricNames("pipeline", "orders"), [state, unknown], "127.0.0.1", 0)
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
        stream = '{pipeline="orders",query="table",stream="a"}'
        assert f"headrace_pipeline_stream_messages_total{stream} 1000.0" in lines
        assert f"headrace_pipeline_stream_lag_messages{stream} 4000.0" in lines
        assert not any(line.startswith("headrace_pipeline_stream_lag_seconds{") for line in lines)
        assert not any("lag_messages" in line and 'query="other"' in line for line in lines)
        assert get(f"{server.url}/healthz") == (200, '{"status": "ok", "failed": {}}')
        state.fail("no space left")
        assert f"headrace_pipeline_failures_total{labels} 1.0" in get(f"{server.url}/metrics")[1]
        code, text = get(f"{server.url}/healthz")
        assert (code, json.loads(text)["failed"]) == (503, {"table": "no space left"})
        port = int(server.url.rpartition(":")[2])
        second = MetricsServer(MetricNames("pipeline", "orders"), [], "127.0.0.1", port)
        with pytest.raises(StartError, match=f"cannot serve metrics on 127.0.0.1:{port}"):
            second.start()
    finally:
        server.stop()
