"""Names, selection and bounds of the cases."""

from typing import get_args

import pytest
from bench.cases import CASES, Bound, Suite, case_named, select_cases
from bench.sides import SIDES


def test_case_names_are_unique():
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


def test_select_cases_given_names_keeps_the_order_of_the_list():
    chosen = select_cases("fan-out-10, publish-16")
    assert [case.name for case in chosen] == ["publish-16", "fan-out-10"]


def test_select_cases_given_nothing_takes_all_of_a_suite():
    suites = get_args(Suite)
    assert tuple(case for suite in suites for case in select_cases(None, suite)) == CASES


def test_case_bounds_name_a_peer_of_the_case():
    assert all(bound.peer in case.peers for case in CASES for bound in case.bounds)


def test_case_begins_with_headrace_and_goes_on_with_peers():
    for case in CASES:
        assert SIDES[case.ours].ours
        # of several processes, and of one with a port for MQTT, the first peer is the same server without
        ours = [peer for peer in case.peers if SIDES[peer].ours]
        assert ours == (["server"] if case.ours in ("spread", "mqtt-open") else [])
        assert not SIDES[case.peers[-1]].ours


def test_case_of_a_mesh_has_two_nodes_on_every_side():
    for case in CASES:
        assert {len(SIDES[side].nodes) for side in case.sides} == ({2} if case.suite == "cluster" else {0})
        assert not (case.suite == "cluster" and case.stores)


def test_select_cases_unknown_name_raises_with_the_known_ones():
    with pytest.raises(KeyError, match="publish-16"):
        select_cases("publish-17")


@pytest.mark.parametrize(
    ("bound", "ratio", "holds"),
    [
        (Bound("rate", 4), 4.0, True),
        (Bound("rate", 4), 3.99, False),
        (Bound("cpu_ns", 0.25), 0.25, True),
        (Bound("cpu_ns", 0.25), 0.26, False),
        (Bound("memory_kb", 0.35), 0.1, True),
    ],
)
def test_bound_ratio_holds_at_least_for_rates_at_most_for_costs(bound, ratio, holds):
    assert bound.holds(ratio) is holds


def test_case_with_bounds_names_the_line_it_answers():
    assert all(bool(case.bounds) == bool(case.line) for case in CASES)


def test_request_case_reports_latencies():
    assert case_named("request-1").metrics == ("rate", "cpu_ns", "p50_us", "p99_us")
