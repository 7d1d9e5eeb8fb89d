"""Counts of the requests to a bucket: since the start, and over the last hour.

Arithmetic only: requests are made in `requests`, prices are in `price`.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct, field

from headrace.bucket.status import CommitTimes, RequestCount

if TYPE_CHECKING:
    from headrace.bucket.status import Histogram, RequestKind

RequestOutcome: TypeAlias = Literal[
    "ok", "exists", "missing", "refused", "throttled", "failed", "timeout", "cancelled"
]
"""The outcome of one attempt. `exists`: of a create, whose key the store has already. `refused`: the store
will not do it, now or later (credentials, rights, bucket, function). `throttled`: 429, 503, or a 409 for a
conflict. `failed`: no connection, 5xx, an answer that is cut off. `timeout`: no answer within the time limit.
"""

_ANSWERED: Final = frozenset({"ok", "exists", "missing", "refused", "throttled"})
_MINUTE_S: Final = 60.0
_MINUTES: Final = 60


class Recent(NamedTuple):
    """The requests of the last hour, without their bytes, and how many seconds they took to come."""

    requests: tuple[RequestCount, ...]
    seconds: float


class _Sum(Struct):
    count: int = 0
    sent: int = 0
    received: int = 0


class _Minute(Struct):
    number: int
    counts: Counter[tuple[RequestKind, RequestOutcome]] = field(default_factory=Counter)


class RequestCounts:
    """All requests of a process to its bucket, attempt by attempt. Times are those of one loop, seconds."""

    def __init__(self, now: float) -> None:
        self._sums: defaultdict[tuple[RequestKind, RequestOutcome], _Sum] = defaultdict(_Sum)
        self._latencies: defaultdict[RequestKind, CommitTimes] = defaultdict(CommitTimes)
        self._retries: Counter[RequestKind] = Counter()
        self._began = now
        self._minutes: deque[_Minute] = deque(maxlen=_MINUTES)

    def count(
        self,
        kind: RequestKind,
        outcome: RequestOutcome,
        now: float,
        seconds: float,
        *,
        sent: int = 0,
        received: int = 0,
        requests: int = 1,
    ) -> None:
        """Count an attempt that ended at `now` after `seconds`.

        `requests`: how many the store was sent for it (a listing is read in pages).
        """
        total = self._sums[kind, outcome]
        total.count += requests
        total.sent += sent
        total.received += received
        if outcome in _ANSWERED:
            self._latencies[kind].add(seconds)
        number = int(now // _MINUTE_S)
        if not self._minutes or self._minutes[-1].number != number:
            self._minutes.append(_Minute(number))
        self._minutes[-1].counts[kind, outcome] += requests

    def count_retry(self, kind: RequestKind) -> None:
        self._retries[kind] += 1

    def all(self) -> tuple[RequestCount, ...]:
        """Return the requests since the start, by kind and outcome."""
        return tuple(
            RequestCount(kind, outcome, total.count, total.sent, total.received)
            for (kind, outcome), total in sorted(self._sums.items())
        )

    def retries(self, kind: RequestKind) -> int:
        """Return the number of attempts since the start that were not the first of their request."""
        return self._retries[kind]

    def latencies(self, kind: RequestKind) -> Histogram:
        """Return how long the store took to answer, of all attempts that it answered."""
        return self._latencies[kind].histogram()

    def recent(self, now: float) -> Recent:
        """Return the requests of the last hour, or since the start where that is less.

        They are counted by minutes of the clock: of an hour it is the one that goes on, and 59 before it. A
        start is no typical minute, so that less than one is told as one.
        """
        first = int(now // _MINUTE_S) - _MINUTES
        counts: Counter[tuple[RequestKind, RequestOutcome]] = Counter()
        for minute in self._minutes:
            if minute.number > first:
                counts.update(minute.counts)
        requests = tuple(
            RequestCount(kind, outcome, number) for (kind, outcome), number in sorted(counts.items())
        )
        since = max(self._began, (first + 1) * _MINUTE_S)
        return Recent(requests, max(now - since, _MINUTE_S))
