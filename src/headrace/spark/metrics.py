"""Queries as Prometheus text over HTTP: of a pipeline's run, or of a session that is watched.

`/metrics` has every query's rows, lag, rates and failures, and lag by stream; `/healthz` says 503 once one
has failed. One thread with a loop of its own serves; it reads what another thread writes, numbers that are
never half set.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from headrace.background import LoopThread
from headrace.errors import StartError
from headrace.spark.query_state import QueryState, QueryStatus, StreamTotals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prometheus_client.metrics_core import Metric

_GAUGES: Final[dict[str, tuple[str, Callable[[QueryState], float | None]]]] = {
    "query_up": ("1 while the query runs", lambda state: float(state.status is QueryStatus.RUNNING)),
    "lag_messages": ("Messages that wait to be read", lambda state: state.lag),
    "input_rows_per_second": ("Rows that arrive, as Spark counts them", lambda state: state.input_rate),
    "processed_rows_per_second": ("Rows of the last batch by its time", lambda state: state.process_rate),
    "last_batch_seconds": (
        "Time the last batch took", lambda state: state.last.seconds if state.last else None,
    ),
    "last_batch_rows": ("Rows of the last batch", lambda state: state.last.rows if state.last else None),
}  # fmt: skip
_COUNTERS: Final[dict[str, tuple[str, Callable[[QueryState], float | None]]]] = {
    "rows": ("Rows read since the run began", lambda state: state.rows),
    "rows_written": ("Rows written since the run began", lambda state: state.written),
    "batches": ("Micro-batches with rows since the run began", lambda state: state.batches),
    "failures": ("Failures since the run began", lambda state: state.failures),
}


_STREAM_GAUGES: Final[dict[str, tuple[str, Callable[[StreamTotals], float | None]]]] = {
    "stream_lag_messages": ("Messages of a stream that wait to be read", lambda stream: stream.lag),
    "stream_lag_seconds": (
        "Time that the first of them had been stored at the last batch", lambda stream: stream.lag_seconds,
    ),
}  # fmt: skip
_STREAM_COUNTERS: Final[dict[str, tuple[str, Callable[[StreamTotals], float | None]]]] = {
    "stream_messages": ("Messages of a stream that batches covered", lambda stream: stream.messages),
}


@dataclass(frozen=True, slots=True)
class MetricNames:
    """The names of the metrics of some queries: `headrace_<word>_...`, with `<word>` as a label that says
    which pipeline or application it is.
    """

    word: str
    name: str


_Labelled = Iterable[tuple[tuple[str, ...], QueryState | StreamTotals]]


class _Collector:
    def __init__(self, names: MetricNames, states: Sequence[QueryState]) -> None:
        self._names = names
        self._states = states

    def collect(self) -> Iterator[Metric]:
        states = list(self._states)
        queries = [((self._names.name, state.name), state) for state in states]
        streams = [
            ((*labels, name), totals)
            for labels, state in queries
            for name, totals in list(state.streams.items())
        ]
        yield from self._families(GaugeMetricFamily, _GAUGES, queries, ())
        yield from self._families(CounterMetricFamily, _COUNTERS, queries, ())
        yield from self._families(GaugeMetricFamily, _STREAM_GAUGES, streams, ("stream",))
        yield from self._families(CounterMetricFamily, _STREAM_COUNTERS, streams, ("stream",))

    def _families(
        self,
        kind: type[GaugeMetricFamily | CounterMetricFamily],
        rows: Mapping[str, tuple[str, Callable[[Any], float | None]]],
        labelled: _Labelled,
        more: tuple[str, ...],
    ) -> Iterator[Metric]:
        for name, (text, read) in rows.items():
            family = kind(
                f"headrace_{self._names.word}_{name}", text, labels=(self._names.word, "query", *more)
            )
            for labels, one in labelled:
                value = read(one)
                if value is not None:
                    family.add_metric(labels, value)
            yield family


class MetricsServer:
    """Serves from `start` to `stop`; `states` may grow meanwhile."""

    def __init__(self, names: MetricNames, states: Sequence[QueryState], host: str, port: int) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Collector(names, states))
        self._states = states
        self._host = host
        self._port = port
        self._runner: web.AppRunner | None = None
        self._stack = contextlib.ExitStack()
        self.url = ""

    def start(self) -> None:
        """Open the port for metrics. Raises: StartError if the port cannot be had."""
        loop = self._stack.enter_context(LoopThread("headrace-metrics"))
        self._stack.callback(lambda: loop.run(self._close()))
        try:
            loop.run(self._open())
        except OSError as error:
            self.stop()
            raise StartError(f"cannot serve metrics on {self._host}:{self._port}: {error}") from error

    def stop(self) -> None:
        self._stack.close()

    async def _close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _open(self) -> None:
        application = web.Application()
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/healthz", self._health)
        self._runner = web.AppRunner(application, access_log=None, handle_signals=False)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}"

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(self._registry),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    async def _health(self, _request: web.Request) -> web.Response:
        failed = {state.name: state.failure for state in self._states if state.status is QueryStatus.FAILED}
        return web.json_response(
            {"status": "failed" if failed else "ok", "failed": failed}, status=503 if failed else 200
        )
