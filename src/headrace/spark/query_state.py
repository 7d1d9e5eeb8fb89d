"""The state of a running query, from Spark's progress: what it has done, how far it is behind, by stream.

Plain numbers for displays, metrics and reports; reads documents as Spark gives them, asks nobody anything.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace.spark.progress import stream_progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

WRITTEN: Final = "headrace_written"
"""Name of the metric that a query counts its rows under, on their way to the sink."""


class QueryStatus(enum.Enum):
    """A query's life."""

    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch; rows per second as Spark counts them, 0 where it does not say.

    `rows` were read. `written` went to the sink; None where nobody counts them.
    """

    number: int
    rows: int
    written: int | None
    rows_per_second: float
    seconds: float
    lag: int | None


@dataclass(slots=True)
class StreamTotals:
    """One stream of a query: messages of all batches so far, those that wait, and the seconds that the first
    of these has been stored; None where its source does not know.
    """

    messages: int = 0
    lag: int | None = None
    lag_seconds: float | None = None


@dataclass(slots=True)
class QueryState:
    """One query, named by its sink. `rows` are those read; a query over two sources counts both.

    `written` are the rows that went to the sink, None as long as nobody has counted any. `lag` and `total`
    are messages, None where a source does not say how much there is. `timestamp` is that of the last
    progress, as Spark writes it.
    """

    name: str
    status: QueryStatus = QueryStatus.STARTING
    rows: int = 0
    written: int | None = None
    batches: int = 0
    failures: int = 0
    failure: str | None = None
    lag: int | None = None
    last: Batch | None = None
    streams: dict[str, StreamTotals] = field(default_factory=dict)
    input_rate: float = 0.0
    process_rate: float = 0.0
    timestamp: str | None = None
    _newest: int = -1
    _news: list[Batch] = field(default_factory=list)

    @property
    def total(self) -> int | None:
        """Rows there are for it as far as is known: those read by this run and those that wait."""
        return None if self.lag is None else self.rows + self.lag

    @property
    def newest_batch(self) -> int:
        """Number of the last batch seen, with rows or without; -1 before the first."""
        return self._newest

    @property
    def has_caught_up(self) -> bool:
        """True if nothing waited at the last report; never for a source that cannot tell."""
        return self.lag == 0

    def update(self, progresses: Iterable[Mapping[str, Any]]) -> None:
        """Take in progress documents, oldest first; those seen before are known by their batch."""
        for document in progresses:
            self._take(document)

    def fail(self, text: str) -> None:
        self.status = QueryStatus.FAILED
        self.failure = text
        self.failures += 1

    def end(self) -> None:
        if self.status is not QueryStatus.FAILED:
            self.status = QueryStatus.ENDED

    def news(self) -> list[Batch]:
        """Batches with rows since the last call."""
        news, self._news = self._news, []
        return news

    def _take(self, document: Mapping[str, Any]) -> None:
        number, rows = int(document["batchId"]), int(document.get("numInputRows") or 0)
        written = written_of(document)
        has_rows = bool(rows or written)  # a window that closes is written without a row that is read
        if self.status is QueryStatus.STARTING:
            self.status = QueryStatus.RUNNING
        self.timestamp = document.get("timestamp")
        if number < self._newest or (number == self._newest and not has_rows):
            if number == self._newest:
                self._note_streams(document, is_new=False)
            return
        if number == self._newest and self.last is not None and self.last.number == number:
            return
        self._note_streams(document, is_new=True)
        self.input_rate = _number(document.get("inputRowsPerSecond"))
        self.process_rate = _number(document.get("processedRowsPerSecond"))
        seconds = _number(document.get("durationMs", {}).get("triggerExecution")) / 1000
        self._newest = number
        if not has_rows:
            return
        self.rows += rows
        if written is not None:
            self.written = (self.written or 0) + written
        self.batches += 1
        self.last = Batch(number, rows, written, self.process_rate, seconds, self.lag)
        self._news.append(self.last)

    def _note_streams(self, document: Mapping[str, Any], *, is_new: bool) -> None:
        """Take in what waits, and of a new batch what it has of each stream."""
        self.lag = lag_of(document.get("sources", ()))
        waits: dict[str, tuple[int | None, float | None]] = {}
        for one in stream_progress(document):
            lag, seconds = waits.get(one.name, (None, None))
            waits[one.name] = _larger(lag, one.lag), _larger(seconds, one.lag_seconds)
            if is_new:
                self.streams.setdefault(one.name, StreamTotals()).messages += one.messages
        for name, (lag, seconds) in waits.items():
            totals = self.streams.setdefault(name, StreamTotals())
            totals.lag, totals.lag_seconds = lag, seconds

    def document(self) -> dict[str, Any]:
        """Return the state as values for JSON."""
        return {
            "query": self.name,
            "status": self.status.value,
            "rows": self.rows,
            "rows_written": self.written,
            "batches": self.batches,
            "lag": self.lag,
            "rows_per_second": round(self.process_rate, 1),
            "input_rows_per_second": round(self.input_rate, 1),
            "batch_seconds": round(self.last.seconds, 3) if self.last else None,
            "failures": self.failures,
            "failure": self.failure,
            "time": self.timestamp,
        }


def written_of(document: Mapping[str, Any]) -> int | None:
    """Rows that a micro-batch wrote, as the query counted them under `WRITTEN`; None if it did not."""
    counted = document.get("observedMetrics", {}).get(WRITTEN)
    return None if counted is None else int(counted["rows"])


def lag_of(sources: Iterable[Mapping[str, Any]]) -> int | None:
    """Messages that wait: how far the latest offsets are ahead of the end of the batch; None if unknown.

    Counts for every source of ours, `format("table-replay")` too.
    """
    known = [one.lag for one in stream_progress({"sources": sources}) if one.lag is not None]
    return sum(known) if known else None


_Number = TypeVar("_Number", int, float)


def _larger(one: _Number | None, other: _Number | None) -> _Number | None:
    """The larger of two numbers that are known."""
    return max((value for value in (one, other) if value is not None), default=None)


def _number(value: object) -> float:
    """Spark says NaN or Infinity where it divides by zero."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0
