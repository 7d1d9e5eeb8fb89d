"""Where queries are: by stream from Spark's progress, by a watch on the session, and as metrics."""

from __future__ import annotations

import urllib.request
from typing import TYPE_CHECKING

import pytest

from harness import depth
from harness.dearest import in_turn
from harness.stored_sources import KINDS, Source, stored_source
from harness.waiting import LONG, wait_until
from headrace.spark import watch
from headrace.spark.progress import StreamProgress, stream_progress
from headrace.spark.query_state import QueryStatus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, in_turn("progress")]


@pytest.fixture(params=depth.turn(KINDS))
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Source]:
    with stored_source(request.param, tmp_path) as made:
        yield made


def test_progress_says_rows_and_lag_by_stream_and_metrics_follow(
    spark: SparkSession, source: Source, tmp_path: Path
) -> None:
    source.publish(20)
    options = {**source.options(), "startingOffsets": "earliest", "maxOffsetsPerTrigger": "8"}
    with watch(spark, port=0, name="shop") as watching:
        query = (
            spark.readStream.format("nats")
            .options(**options)
            .load()
            .writeStream.queryName("orders")
            .format("noop")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(int(LONG))
        told = [stream_progress(one) for one in query.recentProgress if one.numInputRows]
        assert [(one.messages, one.lag) for [one] in told] == [(8, 12), (8, 4), (4, 0)]
        [first], *_, [last] = told
        assert first.lag_seconds is not None
        assert first.lag_seconds >= 0
        assert last == StreamProgress("a", 4, 0, 0.0)
        assert query.recentProgress[0].sources[0].metrics == {}, "Spark has a place for them now"
        wait_until(
            lambda: [one.status for one in watching.states] == [QueryStatus.ENDED],
            "the watch hears of the end",
        )
        [state] = watching.states
        assert (state.name, state.rows, state.streams["a"].messages, state.lag) == ("orders", 20, 20, 0)
        with urllib.request.urlopen(f"{watching.url}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
    labels = 'query="orders",spark="shop"'
    assert f"headrace_spark_rows_total{{{labels}}} 20.0" in lines
    assert f'headrace_spark_stream_messages_total{{{labels},stream="a"}} 20.0' in lines
    assert f'headrace_spark_stream_lag_messages{{{labels},stream="a"}} 0.0' in lines
    assert f'headrace_spark_stream_lag_seconds{{{labels},stream="a"}} 0.0' in lines
