"""Latencies of many clients as one histogram: percentiles, and the rows that people look at.

Never here: measuring (`loops.LatencyBuckets`), or how a row is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct, field

from headrace.load.loops import LatencyBuckets, bucket_bounds

if TYPE_CHECKING:
    from collections.abc import Iterable

PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
"""The shares of latencies that reports show, by their names."""


class HistogramRow(NamedTuple):
    """The number of `latencies` from `least_ns` up to, not including, `end_ns`."""

    least_ns: int
    end_ns: int
    latencies: int


class LatencyHistogram(Struct, frozen=True):
    """Latencies in ns, counted in buckets of a logarithmic scale (`loops.bucket_bounds`)."""

    buckets: dict[int, int] = field(default_factory=dict)
    total_ns: int = 0
    least_ns: int = 0
    most_ns: int = 0

    @property
    def count(self) -> int:
        return sum(self.buckets.values())

    @property
    def average_ns(self) -> float:
        """The mean; 0 without a latency."""
        return self.total_ns / self.count if self.buckets else 0.0

    def percentile_ns(self, share: float) -> int:
        """Return the latency that this share of all stays at or below, within 1 %; 0 without a latency.

        Raises: ValueError for a share that is not from 0 to 1.
        """
        if not 0 <= share <= 1:
            raise ValueError(f"{share} is no share of a whole")
        wanted, seen = share * self.count, 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= wanted:
                least, end = bucket_bounds(bucket)
                return min(max((least + end - 1) // 2, self.least_ns), self.most_ns)
        return 0

    def rows(self) -> list[HistogramRow]:
        """Return rows of a power of two each, from the shortest latency to the longest, without a gap."""
        counts: dict[int, int] = {}
        for bucket, count in self.buckets.items():
            power = bucket_bounds(bucket)[0].bit_length()
            counts[power] = counts.get(power, 0) + count
        return [
            HistogramRow(1 << power >> 1, 1 << power, counts.get(power, 0))
            for power in range(min(counts, default=0), max(counts, default=-1) + 1)
        ]


def taken_histogram(buckets: LatencyBuckets) -> LatencyHistogram:
    """Return what was measured so far."""
    if not buckets.count:
        return LatencyHistogram()
    return LatencyHistogram(buckets.filled(), buckets.total, buckets.least, buckets.most)


def merged_histogram(histograms: Iterable[LatencyHistogram]) -> LatencyHistogram:
    """Return the latencies of all histograms as one."""
    found = [histogram for histogram in histograms if histogram.buckets]
    if not found:
        return LatencyHistogram()
    buckets: dict[int, int] = {}
    for histogram in found:
        for bucket, count in histogram.buckets.items():
            buckets[bucket] = buckets.get(bucket, 0) + count
    return LatencyHistogram(
        buckets,
        sum(histogram.total_ns for histogram in found),
        min(histogram.least_ns for histogram in found),
        max(histogram.most_ns for histogram in found),
    )
