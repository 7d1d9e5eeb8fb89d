"""One run of a pipeline: from a specification over Spark's start to the end of the last query.

Owns what a run starts and ends it in any case. What is started is made in `plan` and `queries`; what is seen
of it goes to a display, to `metrics` and to `report`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from headrace.errors import HeadraceError
from headrace.pipelines import queries
from headrace.pipelines.lock import locked
from headrace.pipelines.plan import build, reason
from headrace.pipelines.report import Reporter
from headrace.pipelines.spec import Stop
from headrace.pipelines.system_events import check_events
from headrace.spark.metrics import MetricNames, MetricsServer
from headrace.spark.options import read_options
from headrace.spark.query_state import QueryState, QueryStatus
from headrace.spark.session import OBJECT_CHECKPOINT_MANAGER, ensure_java, session
from headrace.spark.sink_options import CONNECTION_OPTIONS

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from headrace.pipelines.display import RunDisplay
    from headrace.pipelines.spec import Spec

POLL: Final = 0.25
"""Seconds between two looks at the queries."""

SOURCE_START: Final = 10.0
"""Seconds the next query waits for the one before to have asked its source."""

_OF_THE_SERVER: Final = CONNECTION_OPTIONS - {"clusterid", "connecttimeout", "reconnecttimeout"}
"""The keys of a specification's `nats:` that give the server and the credentials."""

_ENVIRONMENT: Final = ("JAVA_HOME", "SPARK_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of a run: where it runs and what it reports to.

    `metrics` is host and port; `report` a subject, at `report_url` if it is given, else where the
    specification's nats sources are.
    """

    master: str = "local[*]"
    metrics: tuple[str, int] | None = None
    report: str | None = None
    report_url: str | None = None
    log_file: Path | None = None


def run_pipeline(
    spec: Spec,
    options: RunOptions,
    display: RunDisplay,
    stop: threading.Event,
    *,
    spark: SparkSession | None = None,
    on_watch: Callable[[], None] | None = None,
) -> bool:
    """Run until every query has ended, one has failed or `stop` is set; return True if none has failed.

    `spark` None starts a session and stops it again. `on_watch` is called when `stop` is looked at often.

    Raises: ConfigError when Spark refuses the specification; HeadraceError and OSError with a text for users.
    """
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it logs every interrupted call with a traceback
    with contextlib.ExitStack() as stack:
        check_events(spec)
        stack.enter_context(locked(spec.checkpoint))
        running = _Running(spec, display, stop)
        if options.metrics is not None:
            server = MetricsServer(MetricNames("pipeline", spec.name), running.states, *options.metrics)
            server.start()
            stack.callback(server.stop)
            display.fact("metrics", f"{server.url}/metrics")
        if options.report is not None:
            running.reporter = _reporter(spec, options, display)
            stack.callback(running.reporter.close)
        if spark is None:
            spark = start_session(spec, options)
            stack.callback(spark.stop)
        stack.callback(running.stop_all)
        running.start(spark)
        stack.enter_context(display)
        if on_watch is not None:
            on_watch()
        return running.watch()


def start_session(spec: Spec, options: RunOptions) -> SparkSession:
    """A session for a specification, Spark's own output in `log_file`; a checkpoint at a URL is of a store
    where renaming needs another manager than on a disk (ADR 0017).

    Raises: SparkSourceError, JavaError.
    """
    conf, log_file = dict(spec.spark), options.log_file
    if "://" in spec.checkpoint:
        conf.setdefault("spark.sql.streaming.checkpointFileManagerClass", OBJECT_CHECKPOINT_MANAGER)
    elif log_file is None:
        log_file = Path(spec.checkpoint) / "spark.log"
    return session(f"pipeline {spec.name}", conf, master=options.master, log_level="warn", log_file=log_file)


def spark_environment() -> dict[str, str]:
    """Return the environment variables that Spark's own commands need on this machine.

    Raises: JavaError.
    """
    ensure_java()
    return {name: os.environ[name] for name in _ENVIRONMENT}


def _reporter(spec: Spec, options: RunOptions, display: RunDisplay) -> Reporter:
    assert options.report is not None
    given = {name.lower(): value for name, value in spec.nats.items()}
    given = {name: given[name] for name in _OF_THE_SERVER & given.keys()}
    if options.report_url is not None:
        given["url"] = options.report_url
    settings = read_options({**given, "subject": options.report, "connectTimeout": "2s"})
    connecting = settings.connect_options()
    return Reporter(spec.name, options.report, settings.url, display.warn, options=connecting)


class _Running:
    """The queries of a run, each with its state."""

    def __init__(self, spec: Spec, display: RunDisplay, stop: threading.Event) -> None:
        self._spec = spec
        self._display = display
        self._stop = stop
        self._queries: list[tuple[StreamingQuery, QueryState]] = []
        self.states: list[QueryState] = []
        self.reporter: Reporter | None = None

    def start(self, spark: SparkSession) -> None:
        """Write what is a table, then start a query for each stream.

        Each sink has frames and a session of its own: what Spark keeps in them is not made for two queries
        that begin at the same time.
        """
        frames = {
            sink.name: build(self._spec, spark.newSession()).sinks[sink.name] for sink in self._spec.all_sinks
        }
        for sink in self._spec.all_sinks:
            frame = frames[sink.name]
            if frame.isStreaming:
                continue
            state = QueryState(sink.name, QueryStatus.RUNNING)
            self.states.append(state)
            self._display.fact(sink.name, "writing the table")
            try:
                queries.write(self._spec, sink, frame)
            except PySparkException as error:
                raise HeadraceError(f"sink {sink.name}: {reason(error)}") from error
            state.end()
            self._display.fact(sink.name, "written")
        for sink in self._spec.all_sinks:
            frame = frames[sink.name]
            if frame.isStreaming and not self._stop.is_set():
                state = QueryState(sink.name)
                self.states.append(state)
                query = queries.start(self._spec, sink, frame)
                self._queries.append((query, state))
                self._wait_for_source(query)

    def _wait_for_source(self, query: StreamingQuery) -> None:
        """Wait until the query has heard of its source, so that not all start their Python processes at once.

        Spark gives each 10 s to come up, which many at a time on few cores are not enough for. One that takes
        longer than that goes on by itself: it fails, or its source waits for its server.
        """
        for _ in range(round(SOURCE_START / POLL)):
            is_waiting = query.isActive and not query.status["isDataAvailable"] and not query.lastProgress
            if not is_waiting or self._stop.wait(POLL):
                return

    def watch(self) -> bool:
        """Watch the queries until the end; return True if none has failed."""
        while True:
            for query, state in self._queries:
                self._look(query, state)
            self._tell()
            if any(state.status is QueryStatus.FAILED for state in self.states):
                break
            if all(not query.isActive for query, _ in self._queries):
                break
            if self._spec.stop is Stop.CAUGHT_UP and all(state.has_caught_up for _, state in self._queries):
                break
            if self._stop.wait(POLL):
                break
        self.stop_all()
        return not any(state.status is QueryStatus.FAILED for state in self.states)

    def stop_all(self) -> None:
        """Stop what runs; a batch that is cut off runs again at the next start."""
        for query, state in self._queries:
            if query.isActive:
                query.stop()
            self._look(query, state)
        self._tell(now=True)
        self._queries = []

    def _look(self, query: StreamingQuery, state: QueryState) -> None:
        was_active = query.isActive  # asked first, so that nothing is missed after the last look
        for progress in _progresses(query, state):
            state.update([progress])
        if was_active or state.status in (QueryStatus.ENDED, QueryStatus.FAILED):
            return
        failure = query.exception()
        if failure is None:
            state.end()
        else:
            state.fail(reason(failure))
            self._display.failed(f"{state.name}: {state.failure}")

    def _tell(self, *, now: bool = False) -> None:
        if now and not self._queries:
            return
        self._display.show(self.states)
        if self.reporter is not None:
            self.reporter.tell(self.states, now=now)


def _progresses(query: StreamingQuery, state: QueryState) -> list[Mapping[str, object]]:
    """Return the progress reports since the last call; all that Spark still has if several batches have
    passed.
    """
    last = query.lastProgress
    if last is None:
        return []
    documents = [json.loads(last.json)]
    if state.newest_batch + 1 < documents[0]["batchId"]:
        documents = [json.loads(one.json) for one in query.recentProgress]
    return documents
