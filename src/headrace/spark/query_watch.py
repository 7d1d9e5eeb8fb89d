"""All queries of a session, watched: their state by Spark's own events, and as Prometheus metrics on request.

Spark has no place for metrics of a Python source in its progress (`sources[].metrics` is empty) nor in its
UI: what a source can say is its latest offset. So lag is read from there, by a listener beside the queries.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from headrace.spark.metrics import MetricNames, MetricsServer
from headrace.spark.progress import failure_text
from headrace.spark.query_state import QueryState

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )


class QueryWatch:
    """The states of a session's queries, from the first event on; made by `headrace.spark.watch`.

    A query goes by its name, one without by its id; one that is started again under its name begins anew.
    """

    def __init__(self, spark: SparkSession, application: str, host: str, port: int | None) -> None:
        self.states: list[QueryState] = []
        self._spark = spark
        self._listener = _Listener(self.states)
        self._server = None
        if port is not None:
            self._server = MetricsServer(MetricNames("spark", application), self.states, host, port)

    @property
    def url(self) -> str | None:
        """The address of `/metrics` and `/healthz`, if they are served."""
        return self._server.url if self._server is not None else None

    def start(self) -> None:
        """Begin to listen, and to serve metrics. Raises: StartError if the port cannot be had."""
        if self._server is not None:
            self._server.start()
        self._spark.streams.addListener(self._listener)

    def stop(self) -> None:
        """Listen and serve no more; the queries go on."""
        self._spark.streams.removeListener(self._listener)
        if self._server is not None:
            self._server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _Listener(StreamingQueryListener):
    def __init__(self, states: list[QueryState]) -> None:
        self._states = states
        self._runs: dict[str, QueryState] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's name
        self._begin(str(event.runId), event.name or str(event.id))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  # Spark's name
        progress = event.progress
        run = str(progress.runId)
        state = self._runs.get(run) or self._begin(run, progress.name or str(progress.id))
        state.update([json.loads(progress.json)])

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802  # Spark's name
        """Do nothing: the last progress says what there is to say."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  # Spark's name
        state = self._runs.pop(str(event.runId), None)
        if state is None:
            return
        if event.exception is None:
            state.end()
        else:
            state.fail(failure_text(Exception(event.exception)))

    def _begin(self, run: str, name: str) -> QueryState:
        state = QueryState(name)
        self._runs[run] = state
        self._states[:] = [*(one for one in self._states if one.name != name), state]
        return state
