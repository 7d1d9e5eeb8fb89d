"""The numbers of buckets as Prometheus metrics, with the labels `server_id` and `shard`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import Metric

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.server.monitor.bucket import BucketStats, CommitStats

_ROLES: Final = ("starting", "standby", "claiming", "owner", "stopped")
_GAUGES: Final = {
    "epoch": "Epoch of the shard: it grows with each owner",
    "number": "Last write-ahead log object that is durable (owner) or was read (standby)",
    "lag_seconds": "Age of the oldest change that is not in the bucket yet",
    "lag_bytes": "Bytes of changes that are not in the bucket yet",
    "behind": "Write-ahead log objects that a standby has not read",
    "stored_bytes": "Bytes in the bucket, as far as this server knows of its objects",
    "cached_bytes": "Bytes of the bucket that are on the local disk",
    "absent_bytes": "Bytes of the bucket that are not on the local disk",
    "price_dollars_month": "Estimate of what requests and bytes cost in a month, at S3's list prices",
    "unreachable_seconds": "Seconds since the first request that failed; 0 while they succeed",
}


def bucket_metrics(server_id: str, buckets: Mapping[str, BucketStats]) -> Iterator[Metric]:
    """Yield the metrics of all buckets; none without a bucket."""
    if not buckets:
        return
    gauges = {name: Metric(f"headrace_bucket_{name}", text, "gauge") for name, text in _GAUGES.items()}
    role = Metric("headrace_bucket_role", "1 for what the server is to the shard", "gauge")
    requests = Metric("headrace_bucket_requests", "Requests to the bucket", "counter")
    moved = Metric("headrace_bucket_transferred_bytes", "Bytes of objects sent and received", "counter")
    filled = Metric(
        "headrace_bucket_filled_bytes", "Bytes that were brought to the local disk beforehand", "counter"
    )
    commits = Metric("headrace_bucket_commit_seconds", "From a change to its durable object", "histogram")
    for stats in buckets.values():
        labels = {"server_id": server_id, "shard": stats.shard}
        for name, value in _values(stats).items():
            gauges[name].add_sample(gauges[name].name, labels, value)
        for each in _ROLES:
            role.add_sample(role.name, {**labels, "role": each}, float(stats.role == each))
        for one in stats.requests:
            kind = {**labels, "kind": one.kind, "outcome": one.outcome}
            requests.add_sample(f"{requests.name}_total", kind, one.count)
        for direction, count in _transferred(stats).items():
            moved.add_sample(f"{moved.name}_total", {**labels, "direction": direction}, count)
        filled.add_sample(f"{filled.name}_total", labels, stats.filled_bytes)
        _add_histogram(commits, labels, stats.commits)
    yield from (*gauges.values(), role, requests, moved, filled, commits)


def _values(stats: BucketStats) -> dict[str, float]:
    return {
        "epoch": stats.epoch,
        "number": stats.number,
        "lag_seconds": stats.lag_s,
        "lag_bytes": stats.lag_bytes,
        "behind": stats.behind,
        "stored_bytes": stats.stored_bytes,
        "cached_bytes": stats.cached_bytes,
        "absent_bytes": stats.absent_bytes,
        "price_dollars_month": stats.price_month,
        "unreachable_seconds": stats.trouble_s if stats.trouble else 0.0,
    }


def _transferred(stats: BucketStats) -> dict[str, int]:
    return {
        "sent": sum(each.sent for each in stats.requests),
        "received": sum(each.received for each in stats.requests),
    }


def _add_histogram(family: Metric, labels: Mapping[str, str], commits: CommitStats) -> None:
    seen = 0
    for bound, count in zip([*map(str, commits.bounds), "+Inf"], commits.counts, strict=True):
        seen += count
        family.add_sample(f"{family.name}_bucket", {**labels, "le": bound}, seen)
    family.add_sample(f"{family.name}_sum", dict(labels), commits.total_s)
    family.add_sample(f"{family.name}_count", dict(labels), seen)
