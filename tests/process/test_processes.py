"""A server of several processes: to clients of different ones, and to who operates it, it is one server."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.mesh import MeshClient, reach
from harness.ports import free_port
from harness.processes import BIN, HEADRACES, NATS_SERVER, ServerProcess
from harness.waiting import PATIENCE, wait_until
from harness.websocket import WebSocket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from harness.certificates import Authority
    from harness.processes import Program

MOST_TRIES = 200
MONITORED = ("-m", "-1")


@pytest.fixture(params=HEADRACES, ids=str)
def program(request: pytest.FixtureRequest) -> Program:
    chosen: Program = request.param
    return chosen


class Spread:
    """A server of several processes, and a client of each of them."""

    def __init__(self, server: ServerProcess, count: int) -> None:
        self.server = server
        self.count = count
        self.clients: list[MeshClient] = []

    def join(self, **options: Any) -> list[MeshClient]:
        """One client of each process, in the order of their ids: the system chooses, so that it takes some
        attempts."""
        found: dict[str, MeshClient] = {}
        for _ in range(MOST_TRIES):
            client = MeshClient(self.server, **options)
            if client.info["server_id"] in found:
                client.close()
                continue
            found[client.info["server_id"]] = client
            self.clients.append(client)
            if len(found) == self.count:
                return [found[server_id] for server_id in sorted(found)]
        raise AssertionError(f"{len(found)} of {self.count} processes take connections")

    def converge(self, clients: Sequence[MeshClient]) -> None:
        """What each has subscribed to is known to the process of each other one."""
        deadline = time.monotonic() + PATIENCE
        for told in clients:
            for asking in clients:
                if asking is not told:
                    reach(asking, told, deadline)

    def page(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.server.monitor_url}{path}", timeout=PATIENCE) as answer:
            return json.load(answer)

    def refusal(self, path: str) -> tuple[int, str]:
        """Status and text of what is not answered."""
        with pytest.raises(urllib.error.HTTPError) as refused:
            self.page(path)
        with refused.value as answer:
            return answer.code, answer.read().decode()

    def children(self) -> list[int]:
        return children(self.server.pid)

    def close(self) -> None:
        for client in self.clients:
            client.close()


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


@pytest.fixture
def spread(serve: Callable[..., ServerProcess]) -> Iterator[Callable[..., Spread]]:
    """Starts a server of so many processes."""
    started: list[Spread] = []

    def start(count: int, *arguments: str, **options: Any) -> Spread:
        server = serve("--processes", str(count), *arguments, **options)
        started.append(Spread(server, count))
        return started[-1]

    yield start
    for each in started:
        each.close()
        assert "Traceback" not in each.server.log, each.server.log


# -- clients ----------------------------------------------------------------------------------------------


def test_clients_of_different_processes_talk(spread: Callable[..., Spread], program: Program) -> None:
    it = spread(3, program=program)
    clients = it.join()
    sids = [client.subscribe("news.*") for client in clients]
    it.converge(clients)

    for number, client in enumerate(clients):
        client.publish(f"news.{number}", f"from {number}")

    for client, sid in zip(clients, sids, strict=True):
        got = {message.subject: message.payload for message in client.take(sid, 3)}
        assert got == {f"news.{n}": f"from {n}".encode() for n in range(3)}
        assert client.got(sid) == []


def test_queue_group_over_processes_gets_each_message_once(spread: Callable[..., Spread]) -> None:
    it = spread(2)
    clients = it.join()
    sids = [client.subscribe("work", "crew") for client in clients]
    it.converge(clients)

    for _ in range(50):
        for client in clients:
            client.publish("work")
    for client in clients:
        client.sync()
    fence = [(client, client.subscribe("fence.*")) for client in clients]
    it.converge(clients)
    for client in clients:
        client.publish(f"fence.{client.number}")
    for client, sid in fence:
        client.take(sid, len(clients))

    assert sum(len(client.got(sid)) for client, sid in zip(clients, sids, strict=True)) == 100


def test_request_is_answered_by_a_client_of_another_process(spread: Callable[..., Spread]) -> None:
    it = spread(2)
    asking, serving = it.join()
    sid = serving.subscribe("service")
    it.converge([asking, serving])

    reply = asking.ask("service", b"?")
    request = serving.next(sid)
    serving.publish(request.reply, b"!")

    assert asking.answer(reply).payload == b"!"
    assert not asking.has_responders("nobody")


def test_info_names_one_server(spread: Callable[..., Spread]) -> None:
    it = spread(2, "--name", "orders", "-js")
    infos = [client.info for client in it.join()]

    assert {info["port"] for info in infos} == {it.server.port}
    assert {info["server_name"] for info in infos} == {"orders", "orders-2"}
    assert len({info["client_id"] for info in infos}) == 2
    assert all(info["jetstream"] is True for info in infos)
    assert not any("cluster" in info or "connect_urls" in info for info in infos)


def test_accounts_are_apart_and_exports_reach_over_processes(spread: Callable[..., Spread]) -> None:
    config = """
    accounts {
      A { users: [{user: a, password: a}], exports: [{service: "help.*"}, {stream: "ticks.>"}] }
      B { users: [{user: b, password: b}]
          imports: [{service: {account: A, subject: "help.*"}}, {stream: {account: A, subject: "ticks.>"}}] }
    }
    """
    it = spread(2, config=config)
    ours = {user: it.join(user=user, **{"pass": user}) for user in "ab"}
    for first, second in zip(ours["a"], reversed(ours["b"]), strict=True):
        assert first.info["server_id"] != second.info["server_id"]
        help_sid, tick_sid = first.subscribe("help.me"), second.subscribe("ticks.>")
        it.converge(ours["a"])
        it.converge(ours["b"])
        wait_until(lambda asking=second: asking.has_responders("help.me"), "the service is known")

        reply = second.ask("help.me", b"now")
        while (request := first.next(help_sid)).payload != b"now":
            pass  # one that only asked whether there is a service
        first.publish(request.reply, b"yes")
        assert second.answer(reply).payload == b"yes"

        first.publish("ticks.1")
        assert second.next(tick_sid).subject == "ticks.1"
        first.unsubscribe(help_sid)
        second.unsubscribe(tick_sid)


@pytest.mark.parametrize("kind", ["one", "two"])
def test_tls_for_clients(kind: str, spread: Callable[..., Spread], authority: Authority) -> None:
    pair = authority.issue("server")
    count = {"one": 1, "two": 2}[kind]

    it = spread(count, "--tlscert", str(pair.certificate), "--tlskey", str(pair.key))

    assert it.server.port
    with it.server.connect(None) as wire:
        assert wire.info["tls_required"] is True


def test_websocket_port_is_shared_too(spread: Callable[..., Spread]) -> None:
    it = spread(2, config='websocket { listen: "127.0.0.1:-1", no_tls: true }\n')
    port = int(it.server.wait_for_line(r"Listening for websocket clients on ws://127\.0\.0\.1:(\d+)$")[1])
    found = set()
    for _ in range(MOST_TRIES):
        with WebSocket(port) as client:
            found.add(json.loads(client.take_through(b"\r\n").removeprefix(b"INFO "))["server_id"])
        if len(found) == 2:
            break

    assert len(found) == 2


def test_without_a_system_account(spread: Callable[..., Spread]) -> None:
    it = spread(2, *MONITORED, config="no_system_account: true\n")
    clients = it.join()
    sids = [client.subscribe("x") for client in clients]
    it.converge(clients)

    clients[0].publish("x")

    for client, sid in zip(clients, sids, strict=True):
        assert client.next(sid).subject == "x"
    assert it.page("/varz")["connections"] == 2


def test_max_connections_counts_all_processes(spread: Callable[..., Spread]) -> None:
    it = spread(2, config="max_connections: 6\n")
    clients = it.join()
    while len(it.clients) < 6:
        it.clients.append(MeshClient(it.server))

    with it.server.connect(None) as wire:
        assert b"maximum connections exceeded" in wire.take_rest()

    it.clients.pop().close()
    del clients
    wait_until(lambda: accepts(it.server), "there is room again")


def accepts(server: ServerProcess) -> bool:
    """A server that refuses closes, and what it said may be lost with what was sent meanwhile."""
    with server.connect(None) as wire:
        wire.send(b'CONNECT {"verbose":false}\r\nPING\r\n')
        while not wire.closed and b"PONG" not in wire.received:
            assert wire.fill(PATIENCE) or wire.closed
        return b"PONG" in wire.received


# -- services ---------------------------------------------------------------------------------------------


def test_jetstream_serves_clients_of_all_processes(spread: Callable[..., Spread], tmp_path: Path) -> None:
    it = spread(2, *MONITORED, "-js", "-sd", str(tmp_path / "store"))
    clients = it.join()

    assert clients[0].api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.*"]})["config"]["name"] == "S"
    it.converge(clients)
    acks = [client.stored(f"s.{n}", str(n)) for n, client in enumerate(clients)]

    assert [ack["seq"] for ack in acks] == [1, 2]
    for client in clients:
        assert client.api("STREAM.INFO.S")["state"]["messages"] == 2
    assert it.page("/jsz")["streams"] == 1
    assert it.page("/varz")["jetstream"]["config"]["store_dir"].startswith(str(tmp_path))


def test_jetstream_is_there_again_after_its_process_was_killed(
    spread: Callable[..., Spread], tmp_path: Path
) -> None:
    it = spread(2, "-js", "-sd", str(tmp_path / "store"), "--name", "s")
    clients = it.join()
    other = next(client for client in clients if client.info["server_name"] == "s-2")
    other.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.*"]})
    wait_until(lambda: other.has_responders("s.1"), "the stream is known")
    before = other.api("STREAM.INFO.S")["state"]["messages"]

    kill_first(it)
    it.server.wait_for_line(r"Process 1 is ready again$")
    wait_until(lambda: other.has_responders("$JS.API.INFO"), "JetStream is known again")

    assert other.api("STREAM.INFO.S")["state"]["messages"] >= before


def kill_first(it: Spread) -> None:
    """The process that has monitoring; the log says which one it is."""
    match = it.server.wait_for_line(r"^\[(\d+)\].* Starting http monitor|^\[(\d+)\].*Version:")
    os.kill(int(match[1] or match[2]), signal.SIGKILL)


def test_streaming_serves_clients_of_all_processes(spread: Callable[..., Spread]) -> None:
    it = spread(2, "--streaming", *MONITORED)
    clients = it.join()

    for client in clients:
        wait_until(
            lambda asking=client: asking.has_responders("_STAN.discover.test-cluster"), "streaming is known"
        )
    assert it.page("/streaming/serverz")["cluster_id"] == "test-cluster"


# -- monitoring -------------------------------------------------------------------------------------------


def test_varz_sums_over_processes(spread: Callable[..., Spread]) -> None:
    it = spread(2, *MONITORED)
    before = it.page("/varz")
    clients = it.join()
    sids = [client.subscribe("sum") for client in clients]
    it.converge(clients)
    probes = it.page("/varz")

    for client in clients:
        for _ in range(10):
            client.publish("sum", b"12345")
    for client, sid in zip(clients, sids, strict=True):
        client.take(sid, 20)
    after = it.page("/varz")

    assert after["connections"] == 2
    assert after["in_msgs"] - probes["in_msgs"] == 20
    assert after["in_bytes"] - probes["in_bytes"] == 100
    assert after["out_msgs"] - probes["out_msgs"] == 40
    assert after["in_client_msgs"] == after["in_msgs"]
    assert (after["routes"], after["remotes"], after["cluster"]) == (0, 0, {})
    assert after["gomaxprocs"] == 2
    assert after["subscriptions"] - before["subscriptions"] == 4  # of each client its inbox and `sum`
    assert after["http_req_stats"]["/varz"] == 3
    assert after["mem"] > 0


def test_connz_pages_sorts_and_filters_over_processes(spread: Callable[..., Spread]) -> None:
    it = spread(2, *MONITORED)
    for number, client in enumerate([*it.join(name="first"), *it.join(name="second")]):
        for _ in range(number):
            client.subscribe("subject.>")
        client.sync()

    everything = it.page("/connz?subs=1")
    assert (everything["total"], everything["num_connections"]) == (4, 4)
    cids = [each["cid"] for each in everything["connections"]]
    assert cids == sorted(set(cids))
    assert sum("subject.>" in each["subscriptions_list"] for each in everything["connections"]) == 3
    by_subs = [each["subscriptions"] for each in it.page("/connz?sort=subs")["connections"]]
    assert by_subs == [4, 3, 2, 1]
    pages = [it.page(f"/connz?limit=1&offset={n}")["connections"][0]["cid"] for n in range(4)]
    assert pages == cids
    for cid in cids:
        assert [each["cid"] for each in it.page(f"/connz?cid={cid}")["connections"]] == [cid]
    assert it.refusal("/connz?sort=nothing") == (400, "invalid sorting option: nothing")

    it.close()
    wait_until(lambda: it.page("/connz")["total"] == 0, "all are closed")
    closed = it.page("/connz?state=closed&sort=stop")["connections"]
    assert {each["cid"] for each in closed} >= set(cids)
    assert it.page("/connz?state=all")["total"] >= 4


def test_subsz_and_accounts_are_of_all_processes(spread: Callable[..., Spread]) -> None:
    it = spread(2, *MONITORED)
    before = it.page("/subsz?acc=$G")["num_subscriptions"]
    for client in it.join():
        client.subscribe("x.y")
        client.sync()

    listed = it.page("/subsz?subs=1&test=x.y")["subscriptions_list"]
    assert [each["subject"] for each in listed] == ["x.y", "x.y"]
    assert len({each["cid"] for each in listed}) == 2
    wait_until(lambda: it.page("/subsz?acc=$G")["num_subscriptions"] - before == 4, "counted once")
    assert it.page("/accountz?acc=$G")["account_detail"]["client_connections"] == 2
    assert {each["acc"]: each["conns"] for each in it.page("/accstatz")["account_statz"]} == {"$G": 2}
    assert it.page("/routez")["routes"] == []
    with urllib.request.urlopen(f"{it.server.monitor_url}/metrics", timeout=PATIENCE) as answer:
        text = answer.read().decode()
    assert re.search(r"^gnatsd_varz_connections\{[^}]*\} 2\.0$", text, re.MULTILINE)
    assert re.search(r"^gnatsd_connz_total\{[^}]*\} 2\.0$", text, re.MULTILINE)


def test_health_is_that_of_all_processes(spread: Callable[..., Spread]) -> None:
    it = spread(3, *MONITORED)
    assert it.page("/healthz") == {"status": "ok"}
    pids = it.children()
    first = int(it.server.wait_for_line(r"^\[(\d+)\].* Starting http monitor")[1])
    second = next(pid for pid in pids if pid != first)

    os.kill(second, signal.SIGSTOP)
    try:
        code, text = it.refusal("/healthz")
        assert code == 500
        assert re.fullmatch(r"process \d does not answer", json.loads(text)["error"])
        code, text = it.refusal("/varz")
        assert code == 503
        assert re.fullmatch(r"process \d does not answer\n", text)
    finally:
        os.kill(second, signal.SIGCONT)
    wait_until(lambda: it.page("/healthz") == {"status": "ok"}, "well again")


def test_system_account_sees_every_process(spread: Callable[..., Spread]) -> None:
    config = "accounts { SYS { users: [{user: s, password: s}] } }\nsystem_account: SYS\n"
    it = spread(2, "--name", "n", config=config)
    asking = it.join(user="s", **{"pass": "s"})[0]

    reply = asking.ask("$SYS.REQ.SERVER.PING.IDZ")
    names = {asking.answer(reply).json()["name"] for _ in range(2)}

    assert names == {"n", "n-2"}
    reply = asking.ask(f"$SYS.REQ.SERVER.{asking.info['server_id']}.RELOAD")
    assert "one of several" in asking.answer(reply).json()["error"]["description"]


# -- life -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_signal_ends_all(number: signal.Signals, spread: Callable[..., Spread], program: Program) -> None:
    it = spread(2, program=program)
    clients = it.join()
    pids = it.children()
    assert len(pids) == 2

    it.server.signal(number)

    assert it.server.wait() == 0
    assert all(is_gone(pid) for pid in pids)
    for client in clients:
        client.take_in_the_rest()
    assert it.server.lines[-1].endswith("[INF] Server Exiting..")


def test_ready_is_said_once(spread: Callable[..., Spread]) -> None:
    it = spread(3)
    it.join()

    lines = [line for line in it.server.lines if line.endswith("Server is ready")]
    assert lines == [line for line in lines if line.startswith(f"[{it.server.pid}] ")]
    assert len(lines) == 1
    assert len([line for line in it.server.lines if "Listening for client connections" in line]) == 1


def test_processes_end_with_their_parent(spread: Callable[..., Spread]) -> None:
    it = spread(2)
    clients = it.join()
    pids = it.children()

    it.server.kill()

    wait_until(lambda: all(map(is_gone, pids)), "the processes are gone")
    for client in clients:
        client.take_in_the_rest()


@pytest.mark.parametrize("which", ["first", "other"])
def test_killed_process_is_started_again(which: str, spread: Callable[..., Spread]) -> None:
    it = spread(2, *MONITORED)
    first, second = it.join()
    url = it.server.monitor_url
    pids = it.children()
    monitoring = int(it.server.wait_for_line(r"^\[(\d+)\].* Starting http monitor")[1])
    victim = monitoring if which == "first" else next(pid for pid in pids if pid != monitoring)

    os.kill(victim, signal.SIGKILL)

    ended = rf"\[ERR\] Process \d \({victim}\) ended with signal 9; it is started again in 0s$"
    it.server.wait_for_line(ended)
    it.server.wait_for_line(r"\[INF\] Process \d is ready again$")
    assert victim not in it.children()
    again = it.join()
    sids = [client.subscribe("after") for client in again]
    it.converge(again)
    again[0].publish("after")
    for client, sid in zip(again, sids, strict=True):
        assert client.next(sid).subject == "after"
    with urllib.request.urlopen(f"{url}/healthz", timeout=PATIENCE) as answer:
        assert json.load(answer) == {"status": "ok"}
    del first, second


def test_process_that_ends_again_is_started_later(spread: Callable[..., Spread]) -> None:
    it = spread(2)
    seen = 0
    for pause, is_up in ((0, "Server is ready$"), (1, "Process 1 is ready again$")):
        listening = it.server.wait_for_line(r"^\[(\d+)\].*Listening for client connections", after=seen)
        it.server.wait_for_line(is_up, after=seen)  # else it would be taken for that of a later start
        seen = len(it.server.lines)
        os.kill(int(listening[1]), signal.SIGKILL)
        it.server.wait_for_line(rf"ended with signal 9; it is started again in {pause}s$", after=seen)
    it.server.wait_for_line(r"Process 1 is ready again$", after=seen)
    it.join()


def test_reload_reaches_all_processes(spread: Callable[..., Spread]) -> None:
    it = spread(2, *MONITORED, config="max_payload: 1000\n")
    before = it.page("/varz")
    for client in it.join():
        assert client.info["max_payload"] == 1000

    it.server.config_file.write_text("max_payload: 2000\n")
    it.server.signal(signal.SIGHUP)

    wait_until(lambda: it.page("/varz")["config_load_time"] != before["config_load_time"], "reloaded")
    assert it.page("/varz")["max_payload"] == 2000
    for client in it.join():
        assert client.info["max_payload"] == 2000
    assert len([line for line in it.server.lines if "Reloaded: max_payload = 2000" in line]) == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("max_payload: 1\nserver_name: x\n", "config reload not supported for server_name"),
        ("processes: 3\n", "config reload not supported for processes: old=2, new=3"),
        ("max_payload: nonsense\n", 'field "max_payload" must be an integer'),
    ],
)
def test_reload_of_what_cannot_be_changes_nothing(
    text: str, complaint: str, serve: Callable[..., ServerProcess]
) -> None:
    server = serve(config="max_payload: 1000\nprocesses: 2\n")
    it = Spread(server, 2)

    server.config_file.write_text(text)
    server.signal(signal.SIGHUP)

    server.wait_for_line(rf"\[ERR\] Failed to reload server configuration: .*{re.escape(complaint)}")
    assert all(client.info["max_payload"] == 1000 for client in it.join())
    it.close()


def test_process_that_starts_after_a_reload_has_the_new_options(spread: Callable[..., Spread]) -> None:
    it = spread(2, config="max_payload: 1000\n")
    it.server.config_file.write_text("max_payload: 2000\n")
    it.server.signal(signal.SIGHUP)
    it.server.wait_for_line("Reloaded server configuration")

    os.kill(it.children()[0], signal.SIGKILL)
    it.server.wait_for_line("is ready again$")

    assert [client.info["max_payload"] for client in it.join()] == [2000, 2000]


def test_lame_duck_empties_all_processes(spread: Callable[..., Spread]) -> None:
    it = spread(2, config='lame_duck_duration: "30s"\nlame_duck_grace_period: "1ms"\n')
    clients = it.join()
    pids = it.children()

    it.server.signal(signal.SIGUSR2)

    assert it.server.wait() == 0
    assert all(map(is_gone, pids))
    for client in clients:
        client.take_in_the_rest()
        assert client.info.get("ldm") is True


def test_lame_duck_keeps_services_until_the_last_client_has_gone(spread: Callable[..., Spread]) -> None:
    config = 'lame_duck_grace_period: "25s"\njetstream: enabled\nserver_name: s\n'
    it = spread(2, config=config)
    clients = it.join()
    first, other = sorted(clients, key=lambda client: client.info["server_name"])
    it.converge(clients)
    first.close()

    it.server.signal(signal.SIGUSR2)
    it.server.wait_for_line("Entering lame duck mode")
    wait_until(lambda: other.sync() or other.info.get("ldm"), "it was told")

    assert other.api("INFO")["streams"] == 0
    other.close()
    it.server.signal(signal.SIGTERM)
    assert it.server.wait() == 0


def test_log_file_has_the_lines_of_all_processes(serve: Callable[..., ServerProcess], tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    server = serve("--processes", "2", "-D", "-l", str(log), ready=False)
    wait_until(lambda: log.exists() and "Server is ready" in log.read_text(), "it is ready")
    pids = {str(pid) for pid in (server.pid, *children(server.pid))}

    assert {line.split("]")[0][1:] for line in log.read_text().splitlines()} == pids
    moved = tmp_path / "moved.log"
    log.rename(moved)
    server.signal(signal.SIGUSR1)
    wait_until(lambda: log.exists() and "File log re-opened" in log.read_text(), "it is open again")
    assert server.stop() == 0
    assert "Server Exiting.." in log.read_text()


def test_files_name_the_parent_and_the_shared_port(
    serve: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    pid_file = tmp_path / "server.pid"
    server = serve("--processes", "2", *MONITORED, "-P", str(pid_file), "--ports_file_dir", str(tmp_path))

    assert pid_file.read_text() == str(server.pid)
    ports = tmp_path / f"headrace_{server.pid}.ports"
    assert json.loads(ports.read_text()) == {
        "nats": [f"nats://127.0.0.1:{server.port}"],
        "monitoring": [server.monitor_url],
    }
    assert server.stop() == 0
    assert not ports.exists()


def test_process_that_dies_in_lame_duck_mode_is_not_started_again(spread: Callable[..., Spread]) -> None:
    it = spread(2, *MONITORED, config='lame_duck_grace_period: "25s"\n')
    it.join()
    first = int(it.server.wait_for_line(r"^\[(\d+)\].* Starting http monitor")[1])
    other = next(pid for pid in it.children() if pid != first)

    it.server.signal(signal.SIGUSR2)
    it.server.wait_for_line("Entering lame duck mode")
    os.kill(other, signal.SIGKILL)

    it.server.wait_for_line(rf"\[ERR\] Process 2 \({other}\) ended with signal 9$")
    assert it.children() == [first]
    it.server.signal(signal.SIGTERM)
    assert it.server.wait() == 0


def test_terminated_process_is_started_again(spread: Callable[..., Spread]) -> None:
    """Its clients are flushed, as when a server ends."""
    it = spread(2, *MONITORED)
    first = int(it.server.wait_for_line(r"^\[(\d+)\].* Starting http monitor")[1])
    other = next(pid for pid in it.children() if pid != first)

    os.kill(other, signal.SIGTERM)

    it.server.wait_for_line(rf"Process 2 \({other}\) ended with exit code 0; it is started again in 0s$")
    it.server.wait_for_line(r"Process 2 is ready again$")
    it.join()


def test_reload_command_waits_for_all_processes(spread: Callable[..., Spread], tmp_path: Path) -> None:
    it = spread(2, "-m", str(free_port()), config="max_payload: 1000\n")
    it.server.config_file.write_text("max_payload: 2000\n")

    done = subprocess.run(
        [str(BIN / "headrace"), "reload", str(it.server.pid)], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("reloaded (sha256:")
    assert [client.info["max_payload"] for client in it.join()] == [2000, 2000]


def test_routes_between_processes_need_their_secret(spread: Callable[..., Spread]) -> None:
    it = spread(2, *MONITORED)
    port = int(it.server.wait_for_line(r"Listening for route connections on 127\.0\.0\.1:(\d+)$")[1])
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as stranger:
        name = it.server.wait_for_line(r"Cluster name is (processes-\w+)$")[1]
        info = {"server_id": "N" * 56, "server_name": "x", "version": "2.15.1", "cluster": name}
        connect = {"name": "N" * 56, "cluster": name, "user": "processes", "pass": "guessed"}
        stranger.sendall(f"CONNECT {json.dumps(connect)}\r\nINFO {json.dumps(info)}\r\n".encode())
        said = b""
        while data := stranger.recv(4096):
            said += data

    assert b"Authorization Violation" in said
    assert b"RS+" not in said
    it.join()


# -- starts that fail -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("0", 'processes must be a number from 1 to 256, or "auto", not "0"'),
        ("-1", 'processes must be a number from 1 to 256, or "auto", not "-1"'),
        ("257", 'processes must be a number from 1 to 256, or "auto", not "257"'),
        ("many", 'processes must be a number from 1 to 256, or "auto", not "many"'),
    ],
)
def test_wrong_number_of_processes_is_refused(
    value: str, complaint: str, refused: Callable[..., list[str]]
) -> None:
    assert refused("--processes", value)[-1].endswith(complaint)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("0", 'processes must be a number from 1 to 256, or "auto", not "0"'),
        ("true", 'field "processes" must be a number from 1 to 256, or "auto"'),
        ("[2]", 'field "processes" must be a number from 1 to 256, or "auto"'),
    ],
)
def test_wrong_key_is_refused(value: str, complaint: str, refused: Callable[..., list[str]]) -> None:
    assert f"server.conf:1:12: {complaint}" in refused(config=f"processes: {value}\n")[-1]


@pytest.mark.parametrize("by", ["processes", "server"])
def test_port_that_is_taken_ends_the_start(
    by: str, serve: Callable[..., ServerProcess], refused: Callable[..., list[str]], tmp_path: Path
) -> None:
    """Also by another server of several processes, with which it could be shared unnoticed."""
    first = serve(*(("--processes", "2") if by == "processes" else ()))

    lines = refused("--processes", "2", listen=("-a", "127.0.0.1", "-p", str(first.port)))

    assert lines[-1].endswith(
        f'[FTL] Error listening on port: 127.0.0.1:{first.port}, "listen tcp 127.0.0.1:{first.port}: bind: '
        'address already in use"'
    )


def test_what_a_process_cannot_do_ends_the_whole_start(refused: Callable[..., list[str]]) -> None:
    port = free_port()
    with ServerProcess(NATS_SERVER, Path("/"), "-m", str(port)):
        lines = refused("--processes", "2", "-m", str(port))

    assert [line for line in lines if "[FTL]" in line and f"127.0.0.1:{port}: bind" in line]
    assert lines[-1].endswith("Server Exiting..")


def test_store_that_is_in_use_ends_the_start(
    serve: Callable[..., ServerProcess], refused: Callable[..., list[str]], tmp_path: Path
) -> None:
    store = str(tmp_path / "store")
    serve("-js", "-sd", store)

    lines = refused("--processes", "2", "-js", "-sd", store)

    assert len([line for line in lines if "[FTL]" in line]) == 1


# -- clusters ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("peer", [HEADRACES[0], NATS_SERVER], ids=str)
def test_processes_are_members_of_the_configured_cluster(
    peer: Program, spread: Callable[..., Spread], tmp_path: Path
) -> None:
    folder = tmp_path / "peer"
    folder.mkdir()
    port = free_port()
    config = f'server_name: far\ncluster {{ name: c, listen: "127.0.0.1:{port}" }}\n'
    with ServerProcess(peer, folder, config=config) as far:
        cluster = f'name: c, listen: "127.0.0.1:-1", routes: ["nats://127.0.0.1:{port}"]'
        it = spread(2, *MONITORED, config=f"server_name: s\ncluster {{ {cluster} }}\n")
        clients = [*it.join(), MeshClient(far)]
        it.clients.append(clients[-1])
        sids = [client.subscribe("all") for client in clients]
        it.converge(clients)

        for client in clients:
            client.publish("all")

        for client, sid in zip(clients, sids, strict=True):
            assert len(client.take(sid, 3)) == 3
            assert client.got(sid) == []
        routes = it.page("/routez")["routes"]
        assert {route["remote_name"] for route in routes} == {"far"}
        varz = it.page("/varz")
        assert (varz["cluster"]["name"], varz["remotes"]) == ("c", 1)
        assert it.clients[0].info["cluster"] == "c"


# -- leaf nodes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2], ids=["one", "two"])
@pytest.mark.parametrize("is_hub", [True, False], ids=["hub", "leaf"])
def test_leaf_links_are_those_of_all_processes(
    *, is_hub: bool, count: int, spread: Callable[..., Spread], tmp_path: Path
) -> None:
    """The other end is a server of one process, or of two as well."""
    folder = tmp_path / "far"
    folder.mkdir()
    port = free_port()
    hub = f'leafnodes {{ listen: "127.0.0.1:{port}" }}\n'
    leaf = f'leafnodes {{ remotes: [{{ url: "nats-leaf://127.0.0.1:{port}" }}] }}\n'
    ours, theirs = (hub, leaf) if is_hub else (leaf, hub)
    arguments = ("--processes", str(count))
    with ServerProcess(HEADRACES[0], folder, *arguments, config=f"server_name: far\n{theirs}") as far:
        it = spread(2, *MONITORED, config=f"server_name: s\n{ours}")
        there = Spread(far, count)
        clients = [*it.join(), *there.join()]
        it.clients += there.clients
        sids = [client.subscribe("all") for client in clients]
        it.converge(clients)
        before = it.page("/varz")

        for client in clients:
            client.publish("all", str(client.number))
        for client, sid in zip(clients, sids, strict=True):
            got = {message.payload for message in client.take(sid, len(clients))}
            assert got == {str(each.number).encode() for each in clients}
        it.converge(clients)
        assert not any(client.got(sid) for client, sid in zip(clients, sids, strict=True))

        links = count if is_hub else 2
        leafz = it.page("/leafz?subs=1")
        assert leafz["leafnodes"] == links
        assert {each["is_spoke"] for each in leafz["leafs"]} == {not is_hub}
        assert len({each["id"] for each in leafz["leafs"]}) == links
        assert all("all" in each["subscriptions_list"] for each in leafz["leafs"])
        after = it.page("/varz")
        assert after["leafnodes"] == links
        assert after["leaf"].get("port", 0) == (port if is_hub else 0)
        assert (after["routes"], after["cluster"]) == (0, {})
        assert after["in_msgs"] - after["in_client_msgs"] > before["in_msgs"] - before["in_client_msgs"] >= 0
        (account,) = it.page("/accstatz")["account_statz"]
        assert account["leafnodes"] == links


def test_leaf_node_port_stays_when_its_process_starts_again(
    spread: Callable[..., Spread], tmp_path: Path
) -> None:
    it = spread(2, config='server_name: s\nleafnodes { listen: "127.0.0.1:-1" }\n')
    port = it.server.wait_for_line(r"Listening for leafnode connections on 127\.0\.0\.1:(\d+)$")[1]
    folder = tmp_path / "far"
    folder.mkdir()
    config = f'leafnodes {{ remotes: [{{ url: "nats-leaf://127.0.0.1:{port}" }}] }}\n'
    with ServerProcess(HEADRACES[0], folder, config=config) as far:
        there = MeshClient(far)
        it.converge([*it.join(), there])

        kill_first(it)
        it.server.wait_for_line(r"Process 1 is ready again$")

        it.converge([*it.join(), there])
        it.clients.append(there)


def test_jetstream_of_a_domain_is_asked_once_by_clients_of_all_processes(
    spread: Callable[..., Spread], tmp_path: Path
) -> None:
    folder = tmp_path / "far"
    folder.mkdir()
    port = free_port()
    hub = f'server_name: far\nleafnodes {{ listen: "127.0.0.1:{port}" }}\njetstream {{ domain: hub }}\n'
    with ServerProcess(HEADRACES[0], folder, config=hub) as far:
        leaf = f'leafnodes {{ remotes: [{{ url: "nats-leaf://127.0.0.1:{port}" }}] }}\n'
        store = f'jetstream {{ domain: edge, store_dir: "{tmp_path / "edge"}" }}\n'
        it = spread(2, config=f"server_name: s\n{leaf}{store}")
        clients = [*it.join(), MeshClient(far)]
        it.clients.append(clients[-1])
        it.converge(clients)

        for client in clients:
            for domain in ("hub", "edge"):
                reply = client.ask(f"$JS.{domain}.API.INFO")
                assert client.answer(reply).json()["domain"] == domain
                it.converge(clients)
                assert not client.answers(reply)
        for client, domain in zip(clients, ("edge", "edge", "hub"), strict=True):
            assert client.api("INFO")["domain"] == domain


def test_hub_that_comes_with_a_reload_is_refused(spread: Callable[..., Spread]) -> None:
    config = 'leafnodes { listen: "127.0.0.1:-1" }\n'
    it = spread(2, config=config)
    remote = f'remotes: [{{ url: "nats-leaf://127.0.0.1:{free_port()}" }}]'
    it.server.config_file.write_text(config.replace("}", f", {remote} }}"))
    it.server.signal(signal.SIGHUP)
    it.server.wait_for_line("config reload not supported for leafnodes.remotes: processes have had none")


def test_start_with_jetstream_does_not_wait_for_a_process_that_is_not_there(
    spread: Callable[..., Spread], tmp_path: Path
) -> None:
    it = spread(2, *MONITORED, "-js", "-sd", str(tmp_path / "store"))
    first = int(it.server.wait_for_line(r"^\[(\d+)\].* Starting http monitor")[1])
    for again in (True, False):
        other = next(pid for pid in it.children() if pid != first)
        seen = len(it.server.lines)
        os.kill(other, signal.SIGKILL)
        if again:
            it.server.wait_for_line(r"Process 2 is ready again$", after=seen)
    it.server.wait_for_line(r"Process 2 .* it is started again in 1s$")
    os.kill(first, signal.SIGKILL)

    it.server.wait_for_line(r"Process 2 is ready again$", after=seen)
    it.server.wait_for_line(r"Process 1 is ready again$")

    again = [line.split("[INF] ")[1] for line in it.server.lines[seen:] if line.endswith("is ready again")]
    assert again == ["Process 1 is ready again", "Process 2 is ready again"]
    assert "Not all servers of the cluster could be asked" not in it.server.log


def test_gateways_are_refused(refused: Callable[..., list[str]]) -> None:
    config = 'gateway { name: a, listen: "127.0.0.1:-1" }\n'
    assert "processes cannot have gateways" in refused("--processes", "2", config=config)[-1]
