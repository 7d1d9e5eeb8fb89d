"""Histograms, figures, options and shares of loads."""

from __future__ import annotations

import random

import pytest

from headrace.load.board import LoadBoard, LoadShare
from headrace.load.errors import LoadOptionsError
from headrace.load.histogram import LatencyHistogram, merged_histogram, taken_histogram
from headrace.load.loops import LatencyBuckets
from headrace.load.options import LoadOptions, Publishing, Scenario, check_options
from headrace.load.result import LoadFigures, summed_figures


def histogram(*latencies: int) -> LatencyHistogram:
    buckets = LatencyBuckets()
    for ns in latencies:
        buckets.record(ns)
    return taken_histogram(buckets)


def test_percentiles_are_those_of_the_sorted_latencies() -> None:
    draw = random.Random(1)
    latencies = sorted(int(draw.lognormvariate(11, 1)) for _ in range(10_000))
    found = histogram(*latencies)

    for share in (0.0, 0.5, 0.9, 0.99, 0.999, 1.0):
        true = latencies[max(int(share * len(latencies)) - 1, 0)]
        assert found.percentile_ns(share) == pytest.approx(true, rel=0.01)
    assert (found.least_ns, found.most_ns, found.count) == (latencies[0], latencies[-1], 10_000)
    assert found.average_ns == pytest.approx(sum(latencies) / 10_000)


def test_merging_is_measuring_all_at_once() -> None:
    merged = merged_histogram([histogram(1, 500, 70_000), LatencyHistogram(), histogram(500, 2)])

    assert merged == histogram(1, 500, 70_000, 500, 2)
    assert merged_histogram([]) == LatencyHistogram()


def test_rows_are_powers_of_two_without_a_gap() -> None:
    rows = histogram(3, 3, 40).rows()

    assert [(row.least_ns, row.end_ns, row.latencies) for row in rows] == [
        (2, 4, 2),
        (4, 8, 0),
        (8, 16, 0),
        (16, 32, 0),
        (32, 64, 1),
    ]
    assert LatencyHistogram().rows() == []


def test_an_empty_histogram_has_zeros() -> None:
    assert (LatencyHistogram().percentile_ns(0.5), LatencyHistogram().average_ns) == (0, 0.0)
    with pytest.raises(ValueError, match="share"):
        LatencyHistogram().percentile_ns(1.5)


def test_clients_are_summed_from_the_first_to_the_last_moment() -> None:
    total = summed_figures(
        [
            LoadFigures(10, 100, 2_000_000_000, 3_000_000_000, errors={"no": 1}),
            LoadFigures(20, 200, 1_000_000_000, 2_500_000_000, errors={"no": 2}),
            LoadFigures(),
        ]
    )

    assert (total.messages, total.size, total.seconds, total.errors) == (30, 300, 2.0, {"no": 3})
    assert (total.messages_per_second, total.bytes_per_second) == (15.0, 150.0)
    assert summed_figures([]).messages_per_second == 0.0


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"clients": 0}, "clients"),
        ({"clients": 1000}, "clients"),
        ({"messages": 0}, "messages"),
        ({"rate": 0.0}, "rate"),
        ({"duration": -1.0}, "duration"),
        ({"subject": "a.*"}, "publish"),
        ({"subject": ""}, "publish"),
        ({"subject": "a b"}, "publish"),
        ({"scenario": Scenario.SUB, "subject": "a..b"}, "subscribe"),
        ({"scenario": Scenario.SUB, "subject": "a.>", "partners": 1}, "publish"),
        ({"scenario": Scenario.JS_PUB, "publishing": Publishing.BATCH, "batch": 1001}, "1000"),
        ({"scenario": Scenario.JS_PUB, "stream": "a.b"}, "name"),
        ({"batch": 0}, "batch"),
        ({"replicas": 6}, "replicas"),
        ({"size": -1}, "size"),
    ],
)
def test_options_that_make_no_sense_are_refused(changes: dict[str, object], text: str) -> None:
    with pytest.raises(LoadOptionsError, match=text):
        check_options(LoadOptions(**{"scenario": Scenario.PUB, **changes}))  # type: ignore[arg-type]


def test_subscribers_may_have_patterns() -> None:
    check_options(LoadOptions(scenario=Scenario.SUB, subject="a.*.>"))


def test_subjects_and_keys_are_numbered() -> None:
    several = LoadOptions(scenario=Scenario.PUB, subject="a", subjects=2)
    keys = LoadOptions(scenario=Scenario.KV_PUT, bucket="B", subjects=2)

    assert (several.subject_names, several.subscribed) == (["a.0", "a.1"], "a.*")
    assert (keys.subject_names, keys.stream_name) == (["$KV.B.key-0", "$KV.B.key-1"], "KV_B")
    assert LoadOptions(scenario=Scenario.PUB, subject="a").subject_names == ["a"]


def test_a_share_is_paced() -> None:
    share = LoadShare(LoadBoard(1), 0, messages=100, rate=1000.0)
    share.begin()
    now = share.begun_ns

    assert share.allowed(0, now) == 1
    assert share.allowed(1, now) == 0
    assert share.allowed(1, now + 5_500_000) == 5
    assert share.allowed(99, now + 10**12) == 1
    assert share.pause(3, now, 1.0) == pytest.approx(0.003)
    assert share.pause(3, now, 0.001) == pytest.approx(0.001)


def test_common_messages_are_those_of_all_clients() -> None:
    board = LoadBoard(2)
    own = LoadShare(board, 0, messages=10)
    common = LoadShare(board, 1, messages=10, is_common=True)
    own.begin()
    common.begin()
    own.is_over(4, own.begun_ns)
    common.is_over(3, own.begun_ns)

    assert (own.left(4), common.left(3), board.counts(), board.total) == (6, 3, [4, 3], 7)


def test_a_share_ends_by_time_or_when_it_is_told_to() -> None:
    board = LoadBoard(1)
    share = LoadShare(board, 0, duration=2.0)
    share.begin()

    assert not share.is_over(0, share.begun_ns + 1_999_999_999)
    assert share.is_over(0, share.begun_ns + 2_000_000_000)
    board.stop()
    assert share.is_over(0, share.begun_ns)
