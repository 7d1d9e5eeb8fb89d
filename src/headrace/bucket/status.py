"""The status of a shard at one server: what monitoring, metrics and the command show of it.

Plain values only. Never lives here: how they are shown (`headrace.server.monitor.bucket`), when they are
taken (`shard`). Durations are seconds, sizes are bytes.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, Literal, TypeAlias

from msgspec import Struct

RequestKind: TypeAlias = Literal["create", "put", "get", "head", "list", "delete"]

CacheState: TypeAlias = Literal["off", "filling", "full", "whole"]
"""The state of a local disk that is filled beforehand. "off": nobody wants that, or not now. "filling": bytes
are not here yet. "full": bytes are not here, and there is no room for them. "whole": all bytes are here."""

COMMIT_BOUNDS_S: Final = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Upper bounds of the classes that commits are counted in; the last class has none."""


class Histogram(Struct, frozen=True):
    """Durations by class. `counts` has one number for each bound of `bounds`, and one for what is above."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total_s: float

    @property
    def count(self) -> int:
        """The number of durations."""
        return sum(self.counts)

    def quantile(self, share: float) -> float | None:
        """Return the bound that so many of the durations are within (0.99: of a hundred 99).

        None without any duration, or if the answer lies above the last bound.
        """
        wanted, seen = share * self.count, 0
        if not self.count:
            return None
        for bound, number in zip(self.bounds, self.counts, strict=False):
            seen += number
            if seen >= wanted:
                return bound
        return None


class CommitTimes:
    """The durations of commits, counted as they come."""

    __slots__ = ("_counts", "_total_s")

    def __init__(self) -> None:
        self._counts = [0] * (len(COMMIT_BOUNDS_S) + 1)
        self._total_s = 0.0

    def add(self, seconds: float) -> None:
        """Count one commit."""
        self._counts[bisect_left(COMMIT_BOUNDS_S, seconds)] += 1
        self._total_s += seconds

    def histogram(self) -> Histogram:
        """Return the histogram of all commits so far."""
        return Histogram(COMMIT_BOUNDS_S, tuple(self._counts), self._total_s)


class RequestCount(Struct, frozen=True):
    """Requests of one kind with one outcome: their number, and the bytes of objects sent and received.

    `outcome`: "ok", or what the store's answer meant (`objects.answers`).
    """

    kind: RequestKind
    outcome: str
    count: int
    sent: int = 0
    received: int = 0


class StandbyStatus(Struct, frozen=True):
    """A server that stands by, as the owner hears of it.

    `behind`: WAL objects that it has not read. `heard_s`: the seconds since it was heard.
    """

    server: str
    behind: int
    heard_s: float


class ShardStatus(Struct, frozen=True, kw_only=True):
    """A shard at one server.

    `role`: "starting", "standby", "claiming", "owner" or "stopped". `owner`: the name of the server that
    owns the shard, "" if that is not known. `number`: of the last WAL object that is durable (of an owner),
    or was read (of a standby). `snapshot`: the number of the newest snapshot, 0 without one.

    `lag_s`, `lag_bytes`: of an owner, the age of the oldest change that is not in the bucket yet, and the
    bytes of all such. With `commit: disk`, a lag up to `max_lag_s` is as it should be. `behind`: of a
    standby, WAL objects that the owner told of and that were not read yet.

    `commits`: times from a change to its durable object. `stored_bytes`: in the bucket, as far as this server
    knows of its objects; `cached_bytes`: on the local disk. `price_month`: US dollars, an estimate (`price`).

    `cache_state`, `absent_bytes`: how far the local disk is filled, and the bytes that are not on it;
    `filled_bytes`: brought to it beforehand since the start. `cache_trouble`: why that fails, "": it is well.

    `trouble`: the reason why requests fail now, "" while they succeed; `trouble_s`: the seconds since the
    first one failed. `last_error`: the last failure since the start, also one that is over.
    """

    shard: str
    url: str
    role: str
    epoch: int
    owner: str
    number: int
    snapshot: int
    commit: Literal["bucket", "disk"]
    max_lag_s: float
    lag_s: float = 0.0
    lag_bytes: int = 0
    behind: int = 0
    commits: Histogram = CommitTimes().histogram()
    requests: tuple[RequestCount, ...] = ()
    stored_bytes: int = 0
    cached_bytes: int = 0
    cache_state: CacheState = "off"
    absent_bytes: int = 0
    filled_bytes: int = 0
    cache_trouble: str = ""
    price_month: float = 0.0
    standbys: tuple[StandbyStatus, ...] = ()
    trouble: str = ""
    trouble_s: float = 0.0
    last_error: str = ""
