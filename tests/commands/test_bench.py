"""`headrace bench`: each scenario against both servers, what is left behind, and its end before its time."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import pytest

from harness.certificates import Authority, tls_config
from harness.processes import HEADRACES, NATS_SERVER, ServerProcess
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi

if TYPE_CHECKING:
    from pathlib import Path

    from harness.command_line import CommandLine

FEW = ("--msgs", "300", "--json")
FIGURES = {"messages", "size_bytes", "seconds", "messages_per_second", "bytes_per_second", "errors"}
HEAD = {"scenario", "server", "version", "clients", "partners", "message_size_bytes", "batch"}
LATENCY = ["count", "min_ns", "average_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"]


def streams(cli: CommandLine) -> list[str]:
    with connect(cli.url) as connection:
        return JetStreamApi(connection).ask("STREAM.NAMES").get("streams") or []


def check(found: dict[str, Any], messages: int, *, latencies: int) -> None:
    """A document has all keys, and its figures fit each other."""
    timed = {"latency", "histogram"} if latencies else set()
    assert set(found) == FIGURES | HEAD | timed | {"per_client", "interrupted"}
    assert found["messages"] == messages
    assert sum(each["messages"] for each in found["per_client"]) == messages
    assert found["messages_per_second"] == pytest.approx(messages / found["seconds"])
    assert found["errors"] == {}
    assert not found["interrupted"]
    if latencies:
        latency = found["latency"]
        assert list(latency) == LATENCY
        assert latency["count"] == latencies == sum(row["count"] for row in found["histogram"])
        assert 0 < latency["min_ns"] <= latency["p50_ns"] <= latency["p999_ns"] <= latency["max_ns"]


@pytest.mark.parametrize(
    ("words", "messages", "latencies"),
    [
        (("pub", "bench.a"), 300, 0),
        (("pub", "bench.a", "--clients", "2", "--subjects", "3", "-H", "A:b"), 300, 0),
        (("sub", "bench.b", "--publishers", "1"), 300, 0),
        (("sub", "bench.c", "--publishers", "2", "--clients", "2"), 600, 0),
        (("sub", "bench.d", "--publishers", "1", "--clients", "2", "--queue", "q"), 300, 0),
        (("request", "bench.e", "--responders", "1"), 300, 300),
        (("request", "bench.f", "--responders", "2", "--clients", "2", "--batch", "10"), 300, 300),
        (("service", "--batch", "10"), 300, 300),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else None,
)
def test_core_scenarios(cli: CommandLine, words: tuple[str, ...], messages: int, latencies: int) -> None:
    check(cli("bench", *words, *FEW).ok().json, messages, latencies=latencies)


@pytest.mark.parametrize(
    ("words", "messages", "latencies"),
    [
        (("js", "pub", "--sync"), 300, 300),
        (("js", "pub", "--clients", "2", "--batch", "50"), 300, 300),
        (("js", "pub", "--atomic", "--batch", "70"), 300, 5),
        (("js", "pub", "--fast"), 300, 0),
        (("js", "consume", "--batch", "100"), 300, 0),
        (("js", "fetch", "--batch", "100"), 300, 3),
        (("js", "fetch", "--batch", "100", "--ack", "none"), 300, 3),
        (("js", "ordered", "--clients", "2"), 600, 0),
        (("js", "get", "--batch", "10"), 300, 300),
        (("kv", "put", "--keys", "20"), 300, 300),
        (("kv", "get", "--keys", "20", "--batch", "10"), 300, 300),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else None,
)
def test_stream_scenarios_and_nothing_is_left(
    cli: CommandLine, words: tuple[str, ...], messages: int, latencies: int
) -> None:
    before = streams(cli)
    found = cli("bench", *words, "--create", "--storage", "memory", *FEW).ok().json

    check(found, messages, latencies=latencies)
    assert streams(cli) == before


def test_clients_share_a_consumer(cli: CommandLine) -> None:
    words = ("bench", "js", "consume", "--clients", "2", "--batch", "20", "--create", "--storage", "memory")
    found = cli(*words, *FEW).ok().json

    assert found["messages"] >= 300
    assert all(each["messages"] <= 300 for each in found["per_client"])


def test_what_was_there_stays_and_what_is_kept(cli: CommandLine) -> None:
    words = ("bench", "js", "pub", "--stream", "BENCH_KEPT", "--subject", "bench.kept", *FEW)
    try:
        cli(*words, "--create", "--keep").ok()
        cli(*words, "--create", "--purge").ok()
        with connect(cli.url) as connection:
            assert JetStreamApi(connection).stream("BENCH_KEPT").last_sequence == 600
            state = JetStreamApi(connection).ask("STREAM.INFO.BENCH_KEPT")["state"]
        assert state["messages"] == 300
    finally:
        with connect(cli.url) as connection:
            JetStreamApi(connection).ask("STREAM.DELETE.BENCH_KEPT")


def test_a_stream_without_limits_is_not_filled_unasked(cli: CommandLine) -> None:
    config = {"name": "BENCH_BIG", "subjects": ["bench.big"], "storage": "memory"}
    with connect(cli.url) as connection:
        api = JetStreamApi(connection)
        api.ask("STREAM.CREATE.BENCH_BIG", config)
        try:
            words = ("bench", "js", "pub", "--stream", "BENCH_BIG", "--subject", "bench.big", *FEW)
            assert cli(*words).code == 2
            assert api.stream("BENCH_BIG").last_sequence == 0
            cli(*words, "--force").ok()
            assert api.stream("BENCH_BIG").last_sequence == 300
        finally:
            api.ask("STREAM.DELETE.BENCH_BIG")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("request", "bench.nobody"), 5),
        (("js", "pub"), 6),
        (("js", "consume", "--stream", "BENCH_NONE"), 6),
        (("pub", "bench.*"), 2),
        (("pub", "bench.a", "--clients", "1000"), 2),
        (("js", "pub", "--sync", "--fast"), 2),
        (("pub", "bench.a", "--size", "2MB"), 1),
    ],
)
def test_what_cannot_be_done_is_said(cli: CommandLine, words: tuple[str, ...], code: int) -> None:
    ran = cli("bench", *words, *FEW)

    assert ran.code in ({4, 6} if code == 6 else {code})
    assert ran.out == ""
    assert ran.error["text"]


def test_a_user_without_permission_is_told(cli: CommandLine) -> None:
    ran = cli("bench", "pub", "bench.secret", "--user", "reader", "--password", "secret", *FEW)

    assert ran.code == 9


def test_people_see_a_table_and_a_histogram(cli: CommandLine) -> None:
    ran = cli("bench", "request", "bench.g", "--responders", "1", "--clients", "2", "--msgs", "100").ok()

    names = [line.split("\t")[0] for line in ran.lines]
    assert names[:4] == ["server", "clients", "messages", "bytes"]
    assert {"p50", "p999", "messages_per_second", "from", "client"} <= set(names)
    assert "####" in ran.out
    assert "a client in Python is measured too" in ran.err


def test_figures_of_clients_as_csv(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "figures.csv"
    cli("bench", "pub", "bench.a", "--clients", "2", *FEW, "--csv", str(file)).ok()

    with file.open(newline="") as text:
        rows = list(csv.DictReader(text))
    assert [row["client"] for row in rows] == ["1", "2", "all"]
    assert [row["messages"] for row in rows] == ["150", "150", "300"]


def test_two_servers_are_compared_by_ratios_only(cli: CommandLine) -> None:
    words = ("bench", "request", "bench.h", "--compare", cli.url, "--rounds", "2", *FEW)
    found = cli(*words).ok().json

    assert found["rounds"] == 2
    assert found["servers"] == [cli.url, cli.url]
    assert found["messages_per_second_ratio"] > 0
    assert set(found["latency_ratio"]) == {"p50", "p90", "p99", "p999"}
    assert "messages_per_second" not in found


def test_a_rate_is_kept(cli: CommandLine) -> None:
    words = ("bench", "pub", "bench.a", "--msgs", "200", "--rate", "1000", "--json")
    found = cli(*words).ok().json

    assert found["seconds"] >= 0.199


def test_interrupted_it_prints_what_was_measured(cli: CommandLine) -> None:
    words = ("bench", "sub", "bench.i", "--publishers", "1", "--rate", "500", "--duration", "1h", "--json")
    with cli.started(*words) as running:
        with connect(cli.url) as connection:
            connection.subscribe("bench.i")
            received = 0
            while received < 500:  # then the others have had some of them for long
                batch = connection.receive(60.0)
                assert batch
                received += len(batch)
        running.interrupt()
        ran = running.end()

    assert ran.code == 130
    assert ran.json["interrupted"]
    assert ran.json["messages"] > 0


@pytest.mark.parametrize("program", [HEADRACES[0], NATS_SERVER], ids=str)
def test_a_server_that_goes_away_ends_it(program: Any, tmp_path: Path, alone: CommandLine) -> None:
    with ServerProcess(program, tmp_path) as server:
        words = ("bench", "request", "bench.j", "--responders", "1", "--duration", "1h", "-s", server.url)
        with alone.started(*words) as running:
            with connect(server.url) as connection:
                connection.subscribe("bench.j")
                assert connection.receive(60.0)
            server.process.kill()
            ran = running.end()

    assert ran.code == 7
    assert "connection" in ran.err


@pytest.mark.parametrize("program", [HEADRACES[0], NATS_SERVER], ids=str)
def test_it_measures_over_tls(program: Any, tmp_path: Path, alone: CommandLine) -> None:
    authority = Authority(tmp_path, "root")
    config = tls_config(authority.issue("server"))
    words = ("bench", "request", "bench.k", "--responders", "1", "--batch", "50", "--size", "9000", *FEW)
    with ServerProcess(program, tmp_path, config=config) as server:
        url = server.url.replace("nats://", "tls://")
        found = alone(*words, "-s", url, "--tls-ca", str(authority.file)).ok().json
        refused = alone(*words, "-s", url)

    check(found, 300, latencies=300)
    assert found["size_bytes"] == 300 * 9000
    assert refused.code == 7


def test_a_reader_ends_when_everything_is_read_even_before_its_time(cli: CommandLine) -> None:
    words = ("bench", "js", "fetch", "--create", "--storage", "memory", "--duration", "1h")

    check(cli(*words, *FEW).ok().json, 300, latencies=1)
