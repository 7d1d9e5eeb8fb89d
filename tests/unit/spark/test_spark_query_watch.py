"""The states of a session's queries, from the events that Spark tells a listener."""

from __future__ import annotations

import json
import urllib.request
from types import SimpleNamespace
from typing import Any

import pytest

from harness.progresses import progress
from headrace.errors import StartError
from headrace.spark import watch
from headrace.spark.query_state import QueryStatus


class Session:
    """What a watch sees of a session: the manager of its queries."""

    def __init__(self) -> None:
        self.listeners: list[Any] = []
        self.streams = SimpleNamespace(
            addListener=self.listeners.append, removeListener=self.listeners.remove
        )

    def started(self, run: str, name: str | None) -> None:
        for one in self.listeners:
            one.onQueryStarted(SimpleNamespace(runId=run, id="id-1", name=name))

    def progressed(self, run: str, name: str | None, document: dict[str, Any]) -> None:
        told = SimpleNamespace(runId=run, id="id-1", name=name, json=json.dumps(document))
        for one in self.listeners:
            one.onQueryProgress(SimpleNamespace(progress=told))
            one.onQueryIdle(SimpleNamespace(runId=run))

    def terminated(self, run: str, exception: str | None = None) -> None:
        for one in self.listeners:
            one.onQueryTerminated(SimpleNamespace(runId=run, exception=exception))


def test_watch_follows_queries_through_their_lives() -> None:
    session = Session()
    with watch(session) as watching:  # type: ignore[arg-type]
        assert watching.url is None
        session.started("run-1", "orders")
        session.started("run-2", None)
        assert [(one.name, one.status) for one in watching.states] == [
            ("orders", QueryStatus.STARTING), ("id-1", QueryStatus.STARTING),
        ]  # fmt: skip
        session.progressed("run-1", "orders", progress(0, 10, 11, 31))
        orders, other = watching.states
        assert (orders.status, orders.rows, orders.lag) == (QueryStatus.RUNNING, 10, 20)
        session.terminated("run-1")
        session.terminated("run-2", "x\nheadrace.spark.errors.DataLossError: sequences 1 to 4 are gone\n y")
        assert (orders.status, other.status) == (QueryStatus.ENDED, QueryStatus.FAILED)
        assert other.failure == "sequences 1 to 4 are gone"
        session.terminated("run-1")
        session.started("run-3", "orders")
        assert [(one.name, one.rows) for one in watching.states] == [("id-1", 0), ("orders", 0)]
    assert session.listeners == []


def test_watch_learns_of_a_query_that_was_there_before() -> None:
    session = Session()
    with watch(session) as watching:  # type: ignore[arg-type]
        session.progressed("run-1", "orders", progress(7, 10, 11, 31))
        session.progressed("run-1", "orders", progress(8, 10, 21, 31))
    [state] = watching.states
    assert (state.name, state.rows, state.batches) == ("orders", 20, 2)


def test_watch_serves_metrics_by_query_and_stream_until_it_is_stopped() -> None:
    session = Session()
    watching = watch(session, port=0, name="shop")  # type: ignore[arg-type]
    assert watching.url is not None
    session.progressed("run-1", "orders", progress(0, 10, 11, 31))
    with urllib.request.urlopen(f"{watching.url}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    assert 'headrace_spark_rows_total{query="orders",spark="shop"} 10.0' in lines
    assert 'headrace_spark_stream_lag_messages{query="orders",spark="shop",stream="a"} 20.0' in lines
    port = int(watching.url.rpartition(":")[2])
    with pytest.raises(StartError, match="cannot serve metrics"):
        watch(session, port=port)  # type: ignore[arg-type]
    assert len(session.listeners) == 1
    watching.stop()
    watch(session, port=port).stop()  # type: ignore[arg-type]
    assert session.listeners == []
