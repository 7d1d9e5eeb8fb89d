"""The object stores that a server's streams and channels are in: documents, health, and the port to them.

Nobody else's server has these fields: they are there only where a configuration has a `bucket`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class CommitStats(Protocol):
    """Durations of commits by class: a number for each bound, and one for what is above all of them."""

    @property
    def bounds(self) -> Sequence[float]: ...
    @property
    def counts(self) -> Sequence[int]: ...
    @property
    def total_s(self) -> float: ...
    @property
    def count(self) -> int: ...
    def quantile(self, share: float) -> float | None: ...


class RequestStats(Protocol):
    """Requests of one kind with one outcome, and the bytes of their objects."""

    @property
    def kind(self) -> str: ...
    @property
    def outcome(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def sent(self) -> int: ...
    @property
    def received(self) -> int: ...


class StandbyStats(Protocol):
    """A server that stands by, as the owner hears of it."""

    @property
    def server(self) -> str: ...
    @property
    def behind(self) -> int: ...
    @property
    def heard_s(self) -> float: ...


class ShardStats(Protocol):
    """A shard, and what this server is to it."""

    @property
    def shard(self) -> str: ...
    @property
    def url(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def owner(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def snapshot(self) -> int: ...


class BucketStats(ShardStats, Protocol):
    """A shard at this server; `headrace.bucket.status.ShardStatus` says what each value means."""

    @property
    def commit(self) -> str: ...
    @property
    def max_lag_s(self) -> float: ...
    @property
    def lag_s(self) -> float: ...
    @property
    def lag_bytes(self) -> int: ...
    @property
    def behind(self) -> int: ...
    @property
    def commits(self) -> CommitStats: ...
    @property
    def requests(self) -> Sequence[RequestStats]: ...
    @property
    def stored_bytes(self) -> int: ...
    @property
    def cached_bytes(self) -> int: ...
    @property
    def cache_state(self) -> str: ...
    @property
    def absent_bytes(self) -> int: ...
    @property
    def filled_bytes(self) -> int: ...
    @property
    def cache_trouble(self) -> str: ...
    @property
    def price_month(self) -> float: ...
    @property
    def standbys(self) -> Sequence[StandbyStats]: ...
    @property
    def trouble(self) -> str: ...
    @property
    def trouble_s(self) -> float: ...
    @property
    def last_error(self) -> str: ...


@runtime_checkable
class BucketSource(Protocol):
    """A service that may have its store in a bucket. It is called on the event loop and must not block."""

    def bucket_status(self) -> BucketStats | None:
        """Return the status now, also of a server that stands by; None without a bucket."""


def bucket_field(stats: BucketStats | None) -> dict[str, Any]:
    """Return the field `bucket` of a document; none where there is no bucket."""
    return {} if stats is None else {"bucket": _document(stats)}


def _document(stats: BucketStats) -> dict[str, Any]:
    commits = stats.commits
    document: dict[str, Any] = {
        "url": stats.url,
        "shard": stats.shard,
        "role": stats.role,
        "epoch": stats.epoch,
        "owner": stats.owner,
        "number": stats.number,
        "snapshot": stats.snapshot,
        "commit": stats.commit,
        "lag_seconds": round(stats.lag_s, 6),
        "lag_bytes": stats.lag_bytes,
        "behind": stats.behind,
        "commits": {"count": commits.count, "total_seconds": round(commits.total_s, 6)},
        "requests": [
            {
                "kind": each.kind,
                "outcome": each.outcome,
                "count": each.count,
                "sent_bytes": each.sent,
                "received_bytes": each.received,
            }
            for each in stats.requests
        ],
        "stored_bytes": stats.stored_bytes,
        "cached_bytes": stats.cached_bytes,
        "absent_bytes": stats.absent_bytes,
        "cache_state": stats.cache_state,
        "price_month_usd": round(stats.price_month, 2),
    }
    for name, share in (("p50_seconds", 0.5), ("p99_seconds", 0.99)):
        within = commits.quantile(share)
        if within is not None:
            document["commits"][name] = within
    if stats.standbys:
        document["standbys"] = [
            {"server": each.server, "behind": each.behind, "heard_seconds": round(each.heard_s, 3)}
            for each in stats.standbys
        ]
    if stats.trouble:
        document["trouble"] = stats.trouble
        document["trouble_seconds"] = round(stats.trouble_s, 3)
    if stats.cache_trouble:
        document["cache_trouble"] = stats.cache_trouble
    if stats.last_error:
        document["last_error"] = stats.last_error
    return document


# -- health -------------------------------------------------------------------------------------------


def bucket_problem(service: str, stats: BucketStats) -> str | None:
    """Return what is wrong with a bucket, as one line; None: all is well. `service`: whose it is."""
    where = f"{service} bucket {stats.url}"
    # What acknowledges on the disk goes on for so long without the bucket, as it promises.
    is_awaited = stats.commit == "disk" and 0 < stats.trouble_s <= stats.max_lag_s
    if stats.trouble and not is_awaited:
        return f"{where} cannot be used since {stats.trouble_s:.0f}s: {stats.trouble}"
    if stats.commit == "disk" and stats.lag_s > stats.max_lag_s:
        return (
            f"{where} is {stats.lag_s:.1f}s ({stats.lag_bytes:,} bytes) behind what was acknowledged: "
            f"commit is disk, max_lag {stats.max_lag_s:g}s"
        )
    return None


def promises(buckets: Mapping[str, BucketStats]) -> dict[str, Any]:
    """Return what `/healthz` says of a server that is well and acknowledges before the bucket has it."""
    late = {name: stats for name, stats in buckets.items() if stats.commit == "disk"}
    if not late:
        return {}
    return {
        "bucket": {
            name: {"commit": "disk", "lag_seconds": round(each.lag_s, 6), "lag_bytes": each.lag_bytes}
            for name, each in late.items()
        }
    }
