"""`headrace latency`: messages sent at one server and received at another; here both are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.cli.client.latency import distribution_lines
from headrace.load.comparison import LoadTarget
from headrace.load.histogram import taken_histogram
from headrace.load.latency import CrossingOptions, measure_crossing
from headrace.load.loops import LatencyBuckets

if TYPE_CHECKING:
    from harness.command_line import CommandLine
    from harness.processes import ServerProcess

SHORT = ("--rate", "500", "--duration", "100ms")


def test_messages_are_measured(cli: CommandLine) -> None:
    path = cli.folder / "distribution"
    ran = cli("latency", "--server-b", cli.url, *SHORT, "--size", "100", "--histogram", str(path), "--json")
    found = ran.ok().json

    assert found["servers"] == [cli.url, cli.url]
    assert (found["sent"], found["received"], found["message_size_bytes"]) == (50, 50, 100)
    assert found["seconds"] > 0.09
    assert sum(row["count"] for row in found["histogram"]) == found["latency"]["count"] == 50
    assert 0 < found["latency"]["min_ns"] <= found["latency"]["p99_ns"] <= found["latency"]["max_ns"]
    assert all(ns > 0 for ns in found["round_trips_ns"])
    assert len(path.read_text().splitlines()) == 12


def test_people_and_pipes_get_names(cli: CommandLine) -> None:
    shown = dict(line.split("\t") for line in cli("latency", "--server-b", cli.url, *SHORT).ok().lines)

    assert shown["messages"] == "50"
    assert {"sent_at", "received_at", "min", "p50", "p999", "max"} < shown.keys()
    assert int(cli("latency", "--server-b", cli.url, *SHORT, "-q").ok().out) > 0


def test_servers_that_do_not_know_each_other_are_8(cli: CommandLine) -> None:
    other = cli.url.replace("nats://", "nats://admin:secret@")  # of another account
    ran = cli("latency", "--server-b", other, *SHORT, "--timeout", "200ms", "--json")

    assert (ran.code, ran.error["kind"], ran.out) == (8, "timed_out", "")
    assert "two accounts" in ran.error["text"]


def test_what_may_not_be_published_is_9(cli: CommandLine) -> None:
    (cli.folder / "password").write_text("secret\n")
    reader = ("--user", "reader", "--password-file", str(cli.folder / "password"))

    assert cli("latency", "--server-b", cli.url, *SHORT, *reader, "--inbox-prefix", "forbidden").code == 9


def test_wrong_use_is_said(cli: CommandLine) -> None:
    assert cli("latency").code == 2
    for flags in (
        ("--size", "7"),
        ("--rate", "0"),
        ("--rate", "inf"),
        ("--rate", "nan"),
        ("--duration", "0s"),
        ("--size", "1GB"),
    ):
        assert cli("latency", "--server-b", cli.url, *flags).code == 2, flags
    assert cli("latency", "--server-b", "nats://127.0.0.1:1").code == 7


def test_what_was_measured_until_an_interruption_is_the_report(server: ServerProcess) -> None:
    def interrupt(done: int, wanted: int) -> None:
        raise KeyboardInterrupt

    options = CrossingOptions(rate=100, duration=3600)
    report = measure_crossing(options, (LoadTarget(server.url), LoadTarget(server.url)), interrupt)

    assert report.was_interrupted
    assert 1 < report.received < 360_000
    assert report.latencies.count == report.received


def test_a_distribution_has_a_line_for_each_share() -> None:
    buckets = LatencyBuckets()
    for ms in range(1, 101):
        buckets.record(ms * 1_000_000)
    lines = [line.split() for line in distribution_lines(taken_histogram(buckets))[2:]]

    assert [line[1] for line in lines][:3] == ["0.100000", "0.250000", "0.500000"]
    assert 49.5 <= float(lines[2][0]) <= 50.5
    assert lines[2][2:] == ["50", "2.00"]
    assert lines[-1] == ["100.000000", "1.000000", "100", "inf"]
