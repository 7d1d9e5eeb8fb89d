"""The status of a shard: durations by class, and what its requests cost by the month."""

from __future__ import annotations

import random

import pytest

from headrace.bucket.price import MONTH_S, PER_GB_MONTH, PER_READ, PER_WRITE, monthly_price
from headrace.bucket.request_counts import RequestCounts
from headrace.bucket.status import COMMIT_BOUNDS_S, CommitTimes, Histogram, RequestCount


def test_commits_are_counted_in_the_class_of_their_duration() -> None:
    times = CommitTimes()
    for seconds in (0.0, 0.002, 0.0021, 0.005, 4.0, 5.0, 5.1, 60.0):
        times.add(seconds)

    found = times.histogram()

    assert dict(zip(found.bounds, found.counts, strict=False)) == {
        **dict.fromkeys(COMMIT_BOUNDS_S, 0),
        0.002: 2,
        0.005: 2,
        5.0: 2,
    }
    assert found.counts[-1] == 2
    assert found.count == 8
    assert found.total_s == pytest.approx(74.1091)


def test_histogram_is_of_the_time_it_was_taken() -> None:
    times = CommitTimes()
    before = times.histogram()
    times.add(0.01)
    assert (before.count, times.histogram().count) == (0, 1)


def test_quantile_is_the_bound_of_the_class_that_has_it() -> None:
    times = CommitTimes()
    rng = random.Random(7)
    durations = sorted(rng.uniform(0.001, 1.9) for _ in range(1000))
    for seconds in durations:
        times.add(seconds)

    for share in (0.01, 0.5, 0.99, 1.0):
        exact = durations[int(share * len(durations)) - 1]
        bound = times.histogram().quantile(share)
        assert bound is not None
        assert exact <= bound
        below = [each for each in COMMIT_BOUNDS_S if each < bound]
        assert not below or below[-1] < exact


def test_quantile_of_nothing_and_beyond_all_bounds() -> None:
    assert Histogram((1.0,), (0, 0), 0.0).quantile(0.5) is None
    assert Histogram((1.0,), (1, 1), 3.0).quantile(0.5) == 1.0
    assert Histogram((1.0,), (1, 1), 3.0).quantile(0.99) is None


def test_price_is_that_of_a_month_of_such_requests() -> None:
    requests = [
        RequestCount("create", "ok", 50, sent=1 << 20),
        RequestCount("create", "exists", 10),
        RequestCount("list", "ok", 1),
        RequestCount("get", "ok", 30, received=1 << 20),
        RequestCount("head", "missing", 60),
        RequestCount("delete", "ok", 1000),
    ]
    hour = (61 * PER_WRITE + 90 * PER_READ) * 60
    assert monthly_price(requests, 60.0, 0) == pytest.approx(hour * MONTH_S / 3600)
    assert monthly_price(requests, 60.0, 10**12) == pytest.approx(hour * MONTH_S / 3600 + 1000 * PER_GB_MONTH)


def test_price_goes_by_the_last_hour_and_not_by_its_busiest_minute() -> None:
    """A minute of 50 objects a second among idle ones: what the hour cost, 720 times."""
    counts = RequestCounts(0.0)
    for second in range(2 * 3600):
        is_busy = 3600 <= second < 3660
        for _ in range(50 if is_busy else 0):
            counts.count("create", "ok", second, 0.01)
        counts.count("head", "missing", second, 0.01)
        if second in {59, 3659, 7100}:
            found = counts.recent(second + 1.0)
            wanted = min(second, 3600) * PER_READ + (0 if second < 3600 else 3000 * PER_WRITE)
            told = monthly_price(found.requests, found.seconds, 0)
            assert told == pytest.approx(wanted * MONTH_S / min(second + 1.0, 3600), rel=0.02)
    later = counts.recent(7200.0)  # the busy minute is over an hour old
    assert monthly_price(later.requests, later.seconds, 0) == pytest.approx(PER_READ * MONTH_S, rel=0.02)


def test_price_without_time_to_count_in_is_that_of_the_bytes() -> None:
    assert monthly_price([RequestCount("create", "ok", 5)], 0.0, 10**9) == PER_GB_MONTH


def test_idle_owner_pays_for_its_proofs() -> None:
    """One HEAD a second: about a dollar a month."""
    proofs = [RequestCount("head", "missing", 3600)]
    assert monthly_price(proofs, 3600.0, 0) == pytest.approx(2_592_000 * 0.0004 / 1000)
