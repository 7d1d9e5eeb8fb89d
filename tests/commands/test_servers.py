"""`headrace server`: who is there, reports, requests; by the system account, monitoring ports, an account."""

from __future__ import annotations

import signal
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from harness.command_line import CommandLine
from harness.mesh import Mesh
from harness.processes import SIDES, ServerProcess
from harness.waiting import PATIENCE
from headrace.client import server_sources

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.command_line import Ran

SYSTEM = ("--user", "admin", "--password", "secret")
REPORTS = ("connections", "jetstream", "accounts", "cpu", "mem", "routes", "gateways", "leafnodes", "health")
ENDPOINTS = (
    *("varz", "connz", "subsz", "routez", "gatewayz", "leafz", "accountz", "jsz", "healthz", "statsz", "idz"),
)
ACCOUNTS = """
accounts {
    A { users: [ {user: alice, password: secret} ] }
    SYS { users: [ {user: admin, password: secret} ] }
}
system_account: SYS
no_auth_user: alice
"""


@pytest.fixture(scope="module", params=["ggg", "hhh"])
def mesh(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """Three servers of a kind that know each other."""
    folder = tmp_path_factory.mktemp("mesh")
    more = ACCOUNTS + "http: 127.0.0.1:-1\n"
    with Mesh(folder, request.param, more=more) as mesh:
        mesh.converge(user="alice", **{"pass": "secret"})
        yield mesh


@pytest.fixture
def cluster(mesh: Mesh, tmp_path: Path) -> CommandLine:
    """The command line with a cluster, as its administrator."""
    command = CommandLine(tmp_path, mesh.nodes[0].url)
    command.variables |= {"NATS_USER": "admin", "NATS_PASSWORD": "secret"}
    return command


def table(ran: Ran) -> list[dict[str, str]]:
    heading, *lines = [line.split("\t") for line in ran.lines]
    return [dict(zip(heading, line, strict=True)) for line in lines]


# -- one server


def test_a_server_is_listed_and_shown(cli: CommandLine) -> None:
    listed = cli("server", "ls", "--json", *SYSTEM).ok().json
    assert (listed["total"], listed["scope"]) == (1, "system")
    item = listed["items"][0]
    assert item["rtt_ns"] > 0
    assert item["mem"] > 0
    shown = cli("server", "info", "--json", *SYSTEM).ok().json
    assert shown["server_name"] == item["server"]
    assert cli("server", "info", item["server"], "--json", *SYSTEM).ok().json["server_id"] == item["id"]
    assert cli("server", "info", item["id"], "-q", *SYSTEM).ok().lines == [item["server"]]


def test_a_server_that_is_not_there_is_4(cli: CommandLine) -> None:
    ran = cli("server", "info", "nobody", "--json", "--timeout", "1s", *SYSTEM)

    assert (ran.code, ran.error["kind"], ran.out) == (4, "not_there", "")


@pytest.mark.parametrize("name", ENDPOINTS)
def test_documents_are_those_of_the_server(name: str, cli: CommandLine, server: ServerProcess) -> None:
    asked = cli("server", "request", name, "--json", *SYSTEM).ok().json
    read = cli("server", "request", name, "--json", "--monitor", server.monitor_url).ok().json

    assert (asked["scope"], read["scope"]) == ("system", "monitor")
    one, other = asked["items"][0], read["items"][0]
    assert one.keys() == other.keys()
    if name == "idz":
        assert one == other
        return
    same = ("name", "id", "ver", "host")
    assert [one["server"][key] for key in same] == [other["server"][key] for key in same]
    document = "statsz" if name == "statsz" else "data"
    assert len(one[document].keys() & other[document].keys()) >= len(other[document]) - 2


@pytest.mark.parametrize("name", [*REPORTS, "subscriptions"])
def test_reports_are_alike_from_both_sources(name: str, cli: CommandLine, server: ServerProcess) -> None:
    asked = cli("server", "report", name, "--json", *SYSTEM).ok().json
    read = cli("server", "report", name, "--json", "--monitor", server.monitor_url).ok().json

    assert asked.keys() == read.keys()
    assert bool(asked["items"]) == (name not in ("routes", "gateways", "leafnodes"))
    if name == "connections":
        read["items"] = [item for item in read["items"] if item["kind"] == "Client"] or asked["items"]
    if asked["items"]:
        assert read["items"][0]["server" if name != "accounts" else "servers"]
    heading = cli("server", "report", name, *SYSTEM).ok().lines[0]
    assert heading == cli("server", "report", name, "--monitor", server.monitor_url).ok().lines[0]


def test_connections_are_found_by_user_name_and_text(cli: CommandLine) -> None:
    with cli.started("sub", "reports.x", "--name", "reporting") as running:
        running.wait_for("listening")

        def found(*flags: str) -> list[str]:
            ran = cli("server", "report", "connections", "--json", *flags, *SYSTEM).ok()
            return [item["name"] for item in ran.json["items"]]

        assert "reporting" in found("--account", "A")
        assert "reporting" not in found("--account", "SYS")
        assert found("--subject", "reports.x") == ["reporting"]
        assert found("--filter", "reporting") == ["reporting"]
        assert "reporting" in found("--username", "alice")
        subjects = cli("server", "report", "subscriptions", "--subject", "reports.x", "--json", *SYSTEM)
        assert [each["subject"] for each in subjects.ok().json["items"]].count("reports.x") == 1


def test_a_list_that_is_cut_says_so(cli: CommandLine) -> None:
    found = cli("server", "report", "subscriptions", "--limit", "2", "--json", *SYSTEM).ok().json

    assert (len(found["items"]), found["truncated"]) == (2, True)
    assert found["total"] > 2


def test_more_than_a_page_is_shown(cli: CommandLine) -> None:
    subjects = [f"pages.{number}" for number in range(1100)]
    with cli.started("sub", *subjects) as running:
        running.wait_for("listening")
        for user in (SYSTEM, ()):
            ran = cli("server", "report", "subscriptions", "--json", *user).ok()
            assert {each["subject"] for each in ran.json["items"]} >= set(subjects)


def test_an_account_sees_itself_and_is_told_so(cli: CommandLine) -> None:
    ran = cli("server", "report", "connections", "--json").ok()
    assert ran.json["scope"] == "account"
    assert "this account only" in cli("server", "report", "accounts").ok().err
    assert [row["account"] for row in table(cli("server", "report", "accounts").ok())] == ["A"]
    assert cli("server", "report", "jetstream", "--json").ok().json["items"][0]["streams"] >= 0
    assert cli("server", "info", "--json").ok().json["scope"] == "account"
    assert "$JS.API.>" not in cli("server", "report", "subscriptions").ok().out
    with cli.terminal("server", "report", "connections", width=120) as shown:
        assert shown.end() == 0
    assert "Connections, this account only" in shown.seen


@pytest.mark.parametrize("name", ["cpu", "mem", "routes", "gateways", "leafnodes", "health"])
def test_what_an_account_may_not_see_is_9(name: str, cli: CommandLine) -> None:
    for user in ((), ("--user", "reader", "--password", "secret")):
        ran = cli("server", "report", name, "--json", *user)
        assert (ran.code, ran.error["kind"], ran.out) == (9, "not_permitted", "")
        assert "system account" in ran.error["text"]


def test_health_is_3_where_something_is_wrong(cli: CommandLine, server: ServerProcess) -> None:
    sick = ("--account", "A", "--stream", "NOT_THERE")
    for source in (SYSTEM, ("--monitor", server.monitor_url)):
        ran = cli("server", "report", "health", "--json", *sick, *source)
        assert ran.code == 3
        assert ran.json["items"][0]["status_code"] == 404


def test_empty_reports_fail_if_that_is_wanted(cli: CommandLine) -> None:
    assert cli("server", "report", "routes", "--fail-empty", *SYSTEM).code == 4


def test_watching_prints_a_line_each_time(cli: CommandLine) -> None:
    with cli.started("server", "report", "cpu", "--watch", "100ms", "--json", *SYSTEM) as running:
        for _ in range(2):
            assert '"items": [{' in running.line()
        running.interrupt()
        assert running.end().code == 130


def test_watching_too_often_is_wrong_use(alone: CommandLine) -> None:
    assert alone("server", "report", "cpu", "--watch", "1ms").code == 2


# -- monitoring ports


def test_ports_that_are_closed_to_others_take_users_and_tokens(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    (tmp_path / "secret").write_text("s3cret\n")
    config = "http_authorization {user: watch, password: s3cret}"
    with ServerProcess(SIDES["headrace"], tmp_path, "-m", "-1", config=config) as server:
        url = server.monitor_url
        refused = cli("server", "ls", "--monitor", url)
        assert refused.code == 7
        assert "401" in refused.err
        flags = ("--monitor-user", "watch", "--monitor-password-file", str(tmp_path / "secret"))
        assert cli("server", "ls", "--monitor", url, *flags).ok().lines[1:]
        assert cli("server", "ls", "--monitor", url.replace("//", "//watch:s3cret@")).ok().lines[1:]


def test_ports_take_bearer_tokens(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    (tmp_path / "secret").write_text("t0ken\n")
    config = "http_authorization {token: t0ken}"
    with ServerProcess(SIDES["headrace"], tmp_path, "-m", "-1", config=config) as server:
        flags = ("--monitor", server.monitor_url, "--monitor-token-file", str(tmp_path / "secret"))
        assert cli("server", "ls", *flags).ok().lines[1:]


def test_a_port_that_is_closed_is_a_row(cli: CommandLine, server: ServerProcess) -> None:
    ran = cli("server", "ls", "--json", "--monitor", server.monitor_url, "--monitor", "http://127.0.0.1:1")

    assert ran.code == 3
    assert len(ran.json["items"]) == 1
    assert ran.json["errors"][0]["server"] == "http://127.0.0.1:1"
    assert ran.json["errors"][0]["error"].startswith("no answer")


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://x:99999", "http://u:hidden@x:y"])
def test_addresses_of_no_port_are_wrong_use(url: str, alone: CommandLine) -> None:
    ran = alone("server", "ls", "--monitor", url)

    assert ran.code == 2
    assert "hidden" not in ran.err


def test_flags_of_ports_need_ports(alone: CommandLine) -> None:
    assert alone("server", "ls", "--monitor-user", "x").code == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"no HTTP at all",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 6000\r\n\r\n{" + b" " * 5999,
        b"",
    ],
)
def test_what_is_no_page_is_no_answer(
    answer: bytes, alone: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_sources, "MOST_OF_A_PAGE", 5000)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        serving = threading.Thread(target=serve)
        serving.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        ran = alone("server", "ls", "--monitor", url, "--json", "--timeout", "5s")
        serving.join()
    assert (ran.code, ran.error["kind"], ran.out) == (7, "no_connection", "")


# -- three servers


def test_messages_take_their_time_from_server_to_server(mesh: Mesh, cluster: CommandLine) -> None:
    found = (
        cluster("latency", "--server-b", mesh.nodes[1].url, "--rate", "200", "--duration", "100ms", "--json")
        .ok()
        .json
    )

    assert found["servers"] == [mesh.nodes[0].url, mesh.nodes[1].url]
    assert (found["sent"], found["received"]) == (20, 20)
    assert 0 < found["latency"]["min_ns"] <= found["latency"]["p50_ns"] <= found["latency"]["max_ns"]


def test_a_cluster_is_listed(cluster: CommandLine) -> None:
    found = cluster("server", "ls", "3", "--json").ok().json

    assert [item["server"] for item in found["items"]] == ["n0", "n1", "n2"]
    assert {item["cluster"] for item in found["items"]} == {"mesh"}
    named = cluster("server", "ls", "--name", "n1", "--json").ok().json
    assert [item["server"] for item in named["items"]] == ["n1"]
    assert {line["server"] for line in cluster("server", "ping", "--json").ok().json_lines} == {
        "n0",
        "n1",
        "n2",
    }
    assert cluster("server", "info", "n2", "--json").ok().json["server_name"] == "n2"


@pytest.mark.parametrize("name", [*REPORTS, "subscriptions"])
def test_reports_have_lines_of_all(name: str, cluster: CommandLine) -> None:
    found = cluster("server", "report", name, "--expect", "3", "--json").ok().json

    assert "errors" not in found
    names = {item["server"] for item in found["items"] if "server" in item}
    if name in ("gateways", "leafnodes"):
        assert found["items"] == []
    elif name == "accounts":
        assert any(set(item["servers"]) == {"n0", "n1", "n2"} for item in found["items"])
    elif name != "connections":
        assert names == {"n0", "n1", "n2"}


def test_monitoring_ports_of_a_cluster_give_the_same(cluster: CommandLine, mesh: Mesh) -> None:
    flags = [each for node in mesh.nodes for each in ("--monitor", node.server.monitor_url)]
    by_port = cluster("server", "report", "routes", "--json", *flags).ok().json["items"]
    by_user = cluster("server", "report", "routes", "--json").ok().json["items"]

    def links(items: list[dict[str, str]]) -> list[tuple[str, str]]:
        return sorted((item["server"], item["remote_name"]) for item in items)

    assert links(by_port) == links(by_user)
    assert cluster("server", "ls", "3", "--quiet", *flags).ok().lines == ["n0", "n1", "n2"]


def test_fewer_than_expected_is_3(cluster: CommandLine) -> None:
    ran = cluster("server", "ls", "4", "--timeout", "1s", "--json")

    assert ran.code == 3
    assert ran.json["errors"] == [{"server": "?", "error": "no answer"}]


def test_a_known_server_that_is_silent_is_a_row(cluster: CommandLine, mesh: Mesh) -> None:
    deadline = time.monotonic() + PATIENCE
    while len({row["remote"] for row in table(cluster("server", "report", "routes").ok())}) < 3:
        assert time.monotonic() < deadline
    silent = mesh.nodes[2].server
    silent.signal(signal.SIGSTOP)
    try:
        ran = cluster("server", "ls", "--timeout", "3s")
        assert ran.code == 3
        assert [(row["server"], row["cluster"]) for row in table(ran)][-1] == ("n2", "no answer")
        assert cluster("server", "report", "health", "--timeout", "3s").code == 3
        assert cluster("server", "report", "cpu", "--timeout", "3s").code == 0
    finally:
        silent.signal(signal.SIGCONT)
