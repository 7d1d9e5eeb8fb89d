"""Figures, medians, verdicts and the result file."""

import pytest
from bench.cases import case_named
from bench.errors import BenchError
from bench.results import Origin, Run, SideInfo, derive, run_from_json, summarize


def report(published=1000, cpu=100_000, **more):
    return {
        "published": published,
        "delivered": published,
        "seconds": 1.0,
        "server_cpu_ns": cpu,
        "load_cpu_ns": 50_000,
        "machine_cpu_ns": cpu + 50_000,
        **more,
    }


def run_of(cases):
    origin = Origin("2026-01-01 00:00 UTC", None, False, "3.11", {"cpu": "x"}, "python -m bench run")
    info = SideInfo("nats-server -p {port}", "nats-server 2")
    return Run(origin, "epoll", True, 1, 0.5, {"server": info, "peer": info}, cases)


def test_derive_divides_by_what_the_case_counts():
    figures = derive(case_named("publish-16"), report(published=500, cpu=100_000, seconds=2.0))
    assert figures["rate"] == 250
    assert figures["cpu_ns"] == 200


def test_derive_nothing_counted_raises():
    with pytest.raises(BenchError, match="nothing was counted"):
        derive(case_named("publish-16"), report(published=0))


def test_derive_idle_connections_gives_memory_per_connection():
    figures = derive(case_named("idle-10k"), report(connects=100, pss_before_kb=1000, pss_after_kb=1400))
    assert (figures["memory_kb"], figures["each_kb"]) == (1400, 4)


def test_derive_other_processes_are_what_neither_side_used():
    figures = derive(case_named("publish-16"), report(machine_cpu_ns=10**9 + 150_000))
    assert figures["other_cores"] == pytest.approx(1.0)


def test_summary_takes_the_median_of_each_side():
    server = [report(cpu=cpu) for cpu in (10_000, 30_000, 900_000)]
    peer = [report(cpu=cpu) for cpu in (100_000, 100_000, 100_000)]
    summary = summarize(case_named("publish-16"), {"server": server, "peer": peer})
    assert summary.ratio("cpu_ns") == pytest.approx(0.3)
    assert summary.extremes["server"]["cpu_ns"] == (10, 900)


def test_summary_one_bound_missed_fails_the_case():
    summary = summarize(case_named("publish-16"), {"server": [report(5000, 100)], "peer": [report(1000)]})
    assert summary.holds is True
    summary = summarize(case_named("publish-16"), {"server": [report(3999, 100)], "peer": [report(1000)]})
    assert [verdict.holds for verdict in summary.verdicts()] == [False, True]
    assert summary.holds is False


def test_summary_holds_each_bound_against_the_peer_it_names():
    sides = {
        "streaming": [report(5000, 100)],
        "jetstream": [report(2000)],
        "jetstream-always": [report(1001)],
    }
    summary = summarize(case_named("durable-16"), sides)
    assert [(v.bound.peer, v.holds) for v in summary.verdicts()] == [
        ("jetstream", True),
        ("jetstream", True),
        ("jetstream-always", False),
    ]
    assert summary.ratio("rate") == summary.ratio("rate", "jetstream") == 2.5


def test_remarks_disk_that_changed_between_the_sides_is_told():
    times = {"streaming": 100.0, "jetstream": 120.0, "jetstream-always": 151.0}
    sides = {side: [report(fsync_us=us)] for side, us in times.items()}
    (remark,) = summarize(case_named("durable-16"), sides).remarks()
    assert "100 µs before the server, 120 µs" in remark
    sides["jetstream-always"] = [report(fsync_us=150.0)]
    assert summarize(case_named("durable-16"), sides).remarks() == ()


def test_remarks_fewer_stored_messages_than_the_case_says_are_told():
    reports = {"streaming": [report(100_000)], "jetstream": [report(100_000)]}
    summary = summarize(case_named("durable-delivery"), reports)
    assert summary.remarks() == ("100,000 messages were read, not 1,000,000",)


def test_summary_without_target_has_no_verdict():
    case = case_named("one-to-one-1k")
    assert summarize(case, {"server": [report()], "peer": [report()]}).holds is None


def test_summary_side_without_repetition_raises():
    with pytest.raises(BenchError, match="no repetition of the peer"):
        summarize(case_named("publish-16"), {"server": [report()], "peer": []})


def test_remarks_churn_behind_its_pace_is_told():
    slow = report(churned=50_000, churn_seconds=1.0)
    good = report(churned=99_000, churn_seconds=1.0)
    summary = summarize(case_named("churn-100k"), {"server": [slow], "peer": [good]})
    assert summary.remarks() == ("the server took 50,000 of 100,000 pairs a second",)


def test_remarks_busy_generator_is_told():
    busy = report(load_cpu_ns=950_000_000)
    summary = summarize(case_named("publish-16"), {"server": [busy], "peer": [report()]})
    assert "generator used 0.95" in summary.remarks()[0]


def test_run_written_and_read_is_equal():
    run = run_of({"publish-16": {"server": [report()], "peer": [report()]}})
    assert run_from_json(run.to_json()) == run


def test_run_of_another_schema_raises():
    with pytest.raises(BenchError, match="another schema"):
        run_from_json('{"schema": 0}')
