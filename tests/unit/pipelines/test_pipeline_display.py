"""How queries are shown on a terminal and published."""

from __future__ import annotations

import io
import json

from rich.console import Console

from harness.progresses import progress
from harness.waiting import PATIENCE
from headrace.client.blocking import connect
from headrace.pipelines.display import RunDisplay
from headrace.pipelines.report import EVERY, Reporter
from headrace.spark.query_state import QueryState
from headrace.testing import Server


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
