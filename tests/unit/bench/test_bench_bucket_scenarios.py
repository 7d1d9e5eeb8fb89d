"""What the scenarios of the bucket's bench ask, and that they measure what they say."""

from __future__ import annotations

from collections import Counter

import pytest
from bench.bucket_cold import ColdStart, Reading, reading_finding, start_finding
from bench.bucket_failover import take_over_findings
from bench.bucket_findings import Finding, table
from bench.bucket_scenarios import Traffic, idle_findings, kinds, sustained_findings
from bench.bucket_store import BenchStore
from bench.bucket_streams import streams_finding
from bench.object_stores import AZURITE_ACCOUNT, AZURITE_KEY

from headrace.conf.binding import load_options

S3 = BenchStore("fixed", "s3", "http://127.0.0.1:1", {"access_key_id": "key", "secret_access_key": "secret"})
AZURE = BenchStore(
    "azurite", "az", "http://127.0.0.1:1/a", {"account_name": AZURITE_ACCOUNT, "account_key": AZURITE_KEY}
)


@pytest.mark.parametrize("store", [S3, AZURE])
def test_servers_and_clients_are_told_of_the_same_store(store: BenchStore) -> None:
    jetstream = load_options(text=f"jetstream {{ {store.block('run', 50)} }}").jetstream
    assert jetstream is not None
    assert jetstream.bucket == store.options("run")


@pytest.mark.parametrize(
    ("traffic", "met"),
    [
        (Traffic(50.0, 24_414.1, 45.0), [True, True, True]),
        (Traffic(50.4, 24_414.1, 45.0), [True, True, True]),
        (Traffic(51.0, 24_414.1, 45.0), [True, False, True]),
        (Traffic(50.0, 24_000.0, 45.0), [False, True, True]),
        (Traffic(50.0, 24_414.1, 45.1), [True, True, False]),
    ],
)
def test_load_that_goes_on_is_held_against_what_is_asked(traffic: Traffic, met: list[bool]) -> None:
    assert [finding.is_met for finding in sustained_findings(traffic, 5.0)] == met


@pytest.mark.parametrize(
    ("owner", "standby", "met"),
    [
        ({"head": 60}, {}, [True, True]),
        ({"head": 30}, {"get": 1}, [True, False]),
        ({"head": 62}, {}, [False, True]),
        ({"head": 60, "create": 1}, {}, [False, True]),
    ],
)
def test_idle_servers_only_prove_who_owns(
    owner: dict[str, int], standby: dict[str, int], met: list[bool]
) -> None:
    found = idle_findings(Counter(owner), [Counter(), Counter(standby)])
    assert [finding.is_met for finding in found] == met


def test_requests_have_words() -> None:
    assert kinds(Counter({"head": 60, "create": 1})) == "1 create, 60 head"
    assert kinds(Counter()) == "nothing"


def test_table_says_what_was_asked_and_whether_it_is_met() -> None:
    found = [Finding("a", "1 ms", "≤ 2 ms", is_met=True), Finding("b", "3", "≤ 2", is_met=False)]
    found.append(Finding("c", "4"))
    assert table(found)[2:] == ["| a | 1 ms | ≤ 2 ms: met |", "| b | 3 | ≤ 2: MISSED |", "| c | 4 |  |"]


@pytest.mark.parametrize(("times", "met"), [([1.5, 1.0, 9.0], True), ([1.6, 1.0, 9.0], False)])
def test_taking_over_is_asked_of_its_median(times: list[float], met: bool) -> None:
    (found,) = take_over_findings(times, 1.0)
    assert found.is_met is met
    assert found.found.endswith("1.00 to 9.00 s")


@pytest.mark.parametrize(("downloaded", "met"), [(10, True), (500, True), (501, False)])
def test_cold_start_is_not_to_download_everything(downloaded: int, met: bool) -> None:
    assert start_finding("cold", ColdStart(0.1, downloaded), 1000).is_met is met


@pytest.mark.parametrize(("seconds", "met"), [(1.79, True), (1.81, False)])
def test_start_with_many_streams_is_held_against_the_latency(seconds: float, met: bool) -> None:
    finding = streams_finding(100, seconds, 30.0, 150, 130)
    assert (finding.is_met, "60 latencies; 150 requests, 130 get" in finding.found) == (met, True)


@pytest.mark.parametrize(("stream_mbs", "met"), [(70.0, True), (69.0, False)])
def test_cold_reader_is_held_against_the_store(stream_mbs: float, met: bool) -> None:
    assert reading_finding(Reading(stream_mbs, 100.0)).is_met is met
