"""Clusters of processes as an operator has them: TLS, reload, lame duck, monitoring, starts that fail.

What clients of a mesh see of each other is said elsewhere; here the peer of a Headrace is the Go server too.
"""

from __future__ import annotations

import json
import signal
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from harness.certificates import Authority
from harness.ports import free_port
from harness.processes import HEADRACES, NATS_SERVER, ServerProcess
from harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.processes import Program

PEERS = (*HEADRACES, NATS_SERVER)
ROUTE_PORT = r"Listening for route connections on 127\.0\.0\.1:(\d+)$"
CONNECT = b'{"verbose":false,"protocol":1}'


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """Starts a server of the cluster `c`; `to`: those it has routes to, `block`: more of its block."""
    running: list[ServerProcess] = []

    def begin(
        program: Program, name: str, block: str = "", *to: ServerProcess, more: str = ""
    ) -> ServerProcess:
        folder = tmp_path / name
        folder.mkdir()
        routes = ", ".join(f'"nats-route://127.0.0.1:{route_port(peer)}"' for peer in to)
        config = (
            f'server_name: {name}\nhttp: "127.0.0.1:-1"\n{more}\n'
            f'cluster {{ name: c, listen: "127.0.0.1:-1", routes: [{routes}], {block} }}\n'
        )
        running.append(ServerProcess(program, folder, "-D", config=config))
        return running[-1]

    yield begin
    for server in running:
        if server.process.poll() is None:
            server.stop()


def route_port(server: ServerProcess) -> int:
    return int(server.wait_for_line(ROUTE_PORT)[1])


def page(server: ServerProcess, path: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{server.monitor_url}{path}", timeout=10) as answer:
        document: dict[str, Any] = json.load(answer)
    return document


def remotes(server: ServerProcess) -> set[str]:
    return {route["remote_name"] for route in page(server, "/routez")["routes"]}


def wait_for_peers(server: ServerProcess, *names: str) -> None:
    wait_until(lambda: remotes(server) == set(names), f"routes to {names}")


@pytest.mark.parametrize("peer", PEERS, ids=str)
@pytest.mark.parametrize("ours", HEADRACES, ids=str)
@pytest.mark.parametrize("is_begun_by_us", [True, False])
def test_routes_with_tls_on_both_sides(
    ours: Program,
    peer: Program,
    start: Callable[..., ServerProcess],
    tmp_path: Path,
    *,
    is_begun_by_us: bool,
) -> None:
    authority = Authority(tmp_path, "authority")
    pair = authority.issue("route")
    tls = f"tls {{ cert_file: '{pair.certificate}', key_file: '{pair.key}', ca_file: '{authority.file}' }}"
    programs = (peer, ours) if is_begun_by_us else (ours, peer)

    first = start(programs[0], "one", tls)
    second = start(programs[1], "two", tls, first)

    wait_for_peers(first, "two")
    wait_for_peers(second, "one")
    block = page(second if is_begun_by_us else first, "/varz")["cluster"]
    assert block["tls_required"] is block["tls_verify"] is True
    assert block["tls_cert_not_after"]


def test_peer_without_a_certificate_of_the_authority_is_refused(
    start: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    blocks = []
    for name in ("ours", "strange"):
        authority = Authority(tmp_path, name)
        pair = authority.issue(f"of-{name}")
        files = f"cert_file: '{pair.certificate}', key_file: '{pair.key}', ca_file: '{authority.file}'"
        blocks.append(f"tls {{ {files} }}")
    first = start(HEADRACES[0], "one", blocks[0])

    second = start(HEADRACES[0], "two", blocks[1], first)

    second.wait_for_line(r"\[ERR\] .*TLS route handshake error: ")
    assert remotes(first) == remotes(second) == set()


@pytest.mark.parametrize("peer", PEERS, ids=str)
def test_wrong_credentials_are_refused_and_right_ones_are_not(
    peer: Program, start: Callable[..., ServerProcess]
) -> None:
    secured = "authorization { user: r, password: topsecret }"
    first = start(HEADRACES[0], "one", secured)

    second = start(peer, "two", secured, first)

    first.wait_for_line(r"\[ERR\] 127\.0\.0\.1:\d+ - rid:\d+ - authentication error$")
    assert remotes(first) == set()
    third = ServerProcess(
        peer,
        first.config_file.parent,
        *("--cluster", "nats://r:topsecret@127.0.0.1:-1", "--cluster_name", "c"),
        *("--routes", f"nats://r:topsecret@127.0.0.1:{route_port(first)}", "--name", "three"),
    )
    with third:
        wait_for_peers(first, "three")
    assert "topsecret" not in first.log + (second.log if second.program.is_headrace else "")


@pytest.mark.parametrize("peer", PEERS, ids=str)
def test_clients_hear_of_servers_that_come_and_go(peer: Program, start: Callable[..., ServerProcess]) -> None:
    first = start(HEADRACES[0], "one")
    with first.connect(CONNECT) as client:
        assert client.info["connect_urls"] == [f"127.0.0.1:{first.port}"]
        client.sync()

        second = start(peer, "two", "", first)
        told = json.loads(client.take_through(b"\r\n").removeprefix(b"INFO "))
        assert told["connect_urls"] == [f"127.0.0.1:{first.port}", f"127.0.0.1:{second.port}"]

        second.stop()
        told = json.loads(client.take_through(b"\r\n").removeprefix(b"INFO "))
        assert told["connect_urls"] == [f"127.0.0.1:{first.port}"]


@pytest.mark.parametrize("peer", PEERS, ids=str)
def test_lame_duck_sends_nobody_there(peer: Program, start: Callable[..., ServerProcess]) -> None:
    """A server that leaves is no longer told to the clients of others, before its routes are closed."""
    quick = "lame_duck_duration: '30s', lame_duck_grace_period: '1s'"
    first = start(peer, "one")
    second = start(HEADRACES[0], "two", "", first, more=quick)
    wait_for_peers(first, "two")
    with second.connect(CONNECT) as stays, first.connect(CONNECT) as client:
        stays.sync()
        client.sync()

        second.signal(signal.SIGUSR2)

        told = json.loads(client.take_through(b"\r\n").removeprefix(b"INFO "))
        assert told["connect_urls"] == [f"127.0.0.1:{first.port}"]
        told = json.loads(stays.take_through(b"\r\n").removeprefix(b"INFO "))
        assert told["ldm"] is True
        assert f"127.0.0.1:{second.port}" not in told["connect_urls"]
        assert remotes(first) == {"two"}


@pytest.mark.parametrize("peer", PEERS, ids=str)
def test_monitoring_shows_routes_as_the_peer_does(peer: Program, start: Callable[..., ServerProcess]) -> None:
    theirs = start(peer, "one")
    ours = start(HEADRACES[0], "two", "", theirs)
    wait_for_peers(theirs, "two")
    with theirs.connect(CONNECT) as there, ours.connect(CONNECT) as here:
        for client in (there, here):
            client.send(b"SUB foo 1\r\nSUB bar q 2\r\n")
            client.sync()

        def routes_of(server: ServerProcess) -> dict[str, dict[str, Any]]:
            """The one that carries the account of the clients, and that of the system."""
            found = page(server, "/routez?subs=detail")["routes"]
            rows = {each.get("account", ""): each for each in found if each["subscriptions"]}
            return rows if len(rows) == 2 else {}

        told = wait_until(lambda: routes_of(theirs), "interest there")
        shown = wait_until(lambda: routes_of(ours), "interest here")

    assert shown[""].keys() == told[""].keys()
    details = [each | {"cid": 0} for each in shown[""]["subscriptions_list_detail"]]
    assert sorted(details, key=str) == sorted(
        [each | {"cid": 0} for each in told[""]["subscriptions_list_detail"]], key=str
    )
    assert (shown[""]["did_solicit"], shown[""]["is_configured"]) == (True, True)
    assert shown["$SYS"]["remote_name"] == "one"
    assert [page(server, "/varz")["remotes"] for server in (theirs, ours)] == [1, 1]
    block, other = (page(server, "/varz")["cluster"] for server in (ours, theirs))
    assert {"urls", *other} == {"urls", *block}


@pytest.mark.parametrize("program", PEERS, ids=str)
def test_routes_are_asked_for_over_nats(program: Program, start: Callable[..., ServerProcess]) -> None:
    """Each server answers with as many subscriptions as the request wants."""
    system = "accounts { SYS { users: [{user: s, password: s}] } }\nsystem_account: SYS\nno_auth_user: s"
    server = start(program, "one", more=system)
    with start(HEADRACES[0], "two", "", server, more=system).connect(CONNECT) as client:
        client.send(b"SUB wanted.there 1\r\n")
        client.sync()
        wait_for_peers(server, "two")

        def answer(payload: bytes) -> list[dict[str, Any]]:
            """What the server says of its routes, those that carry something."""
            subject = f"$SYS.REQ.SERVER.{page(server, '/varz')['server_id']}.ROUTEZ"
            with server.connect(b'{"verbose":false,"user":"s","pass":"s"}') as asking:
                asking.send(b"SUB r 1\r\n")
                asking.send(b"PUB %s r %d\r\n%s\r\n" % (subject.encode(), len(payload), payload))
                _, body = asking.take_message()
            return [each for each in json.loads(body)["data"]["routes"] if each["subscriptions"]]

        def listed(payload: bytes) -> str:
            return json.dumps(answer(payload))

        wait_until(lambda: "wanted.there" in listed(b'{"subscriptions":true}'), "interest")
        assert "subscriptions_list_detail" not in listed(b'{"subscriptions":true}')
        assert "subscriptions_list_detail" in listed(b'{"subscriptions_detail":true}')
        assert "subscriptions_list" not in listed(b"")
        assert "subscriptions_list" not in listed(b'{"subscriptions":false}')


@pytest.mark.parametrize("peer", PEERS, ids=str)
def test_reload_takes_routes_over(peer: Program, start: Callable[..., ServerProcess]) -> None:
    first = start(peer, "one")
    second = start(HEADRACES[0], "two")
    before = second.config_file.read_text()

    url = f'"nats://127.0.0.1:{route_port(first)}"'
    second.config_file.write_text(before.replace("routes: []", f"routes: [{url}]"))
    second.signal(signal.SIGHUP)
    wait_for_peers(second, "one")
    second.wait_for_line(r"\[INF\] Reloaded: cluster routes$")

    seen = len(second.lines)
    second.config_file.write_text(before)
    second.signal(signal.SIGHUP)
    second.wait_for_line(r"\[INF\] Reloaded: cluster routes$", after=seen)
    wait_for_peers(second)


def test_reload_takes_permissions_over(start: Callable[..., ServerProcess]) -> None:
    first = start(HEADRACES[0], "one")
    second = start(HEADRACES[0], "two", "", first)
    with second.connect(CONNECT) as client:
        client.send(b"SUB open 1\r\nSUB closed 2\r\n")
        client.sync()

        def told() -> set[str]:
            routes = page(first, "/routez?subs=1")["routes"]
            subjects = {each for route in routes for each in route.get("subscriptions_list", ())}
            return subjects & {"open", "closed"}

        wait_until(lambda: told() == {"open", "closed"}, "interest")
        text = second.config_file.read_text()
        second.config_file.write_text(text.replace("name: c,", "name: c, permissions { import: open },"))
        second.signal(signal.SIGHUP)

        second.wait_for_line(r"\[INF\] Reloaded: cluster$")
        wait_until(lambda: told() == {"open"}, "less interest")
    assert page(second, "/routez")["import"] == {"allow": ["open"]}


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("127.0.0.1:-1", "127.0.0.1:{port}", r"cluster\.port: old=-1, new=\d+"),
        ("127.0.0.1:-1", "0.0.0.0:-1", r"cluster\.host: old=127\.0\.0\.1, new=0\.0\.0\.0"),
    ],
)
def test_reload_does_not_move_the_port(
    start: Callable[..., ServerProcess], old: str, new: str, what: str
) -> None:
    server = start(HEADRACES[0], "one")
    text = server.config_file.read_text()
    there = new.format(port=free_port())

    server.config_file.write_text(text.replace(f'listen: "{old}"', f'listen: "{there}"'))
    server.signal(signal.SIGHUP)

    server.wait_for_line(rf"\[ERR\] .*config reload not supported for {what}$")


def test_port_that_is_taken_ends_the_start(start: Callable[..., ServerProcess], tmp_path: Path) -> None:
    port = route_port(start(HEADRACES[0], "one"))

    with ServerProcess(
        HEADRACES[0], tmp_path, "--cluster", f"nats://127.0.0.1:{port}", ready=False
    ) as second:
        assert second.wait() == 1
    what = f"Unable to listen for cluster connections: Error listening on port: 127.0.0.1:{port}, "
    assert f"[FTL] {what}" in second.lines[-1]


@pytest.mark.parametrize("program", HEADRACES, ids=str)
def test_server_of_a_cluster_that_is_not_there_tries_again(
    program: Program, start: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    port = free_port()
    url = f"nats://127.0.0.1:{port}"
    flags = ("--cluster", "nats://127.0.0.1:-1", "--cluster_name", "c", "--routes", url)
    with ServerProcess(program, tmp_path, *flags, "--name", "two", "-m", "-1") as waiting:
        failed = rf"connect to route \(attempt 1\): dial tcp 127\.0\.0\.1:{port}: connect: "
        waiting.wait_for_line(rf"\[ERR\] Error trying to {failed}")
        late = ServerProcess(program, tmp_path, "--cluster", url, "--cluster_name", "c", "--name", "late")
        with late:
            wait_for_peers(waiting, "late")


# ---- routes of before 2.0 -----------------------------------------------------------------------

BOTH_ENDS = [("1.x", "1.x"), ("1.x", "auto"), ("auto", "1.x")]


@pytest.mark.parametrize(("one", "two"), BOTH_ENDS)
def test_monitoring_shows_rsids_of_older_routes(
    start: Callable[..., ServerProcess], one: str, two: str
) -> None:
    first = start(HEADRACES[0], "one", f'protocol: "{one}"')
    second = start(HEADRACES[0], "two", f'protocol: "{two}"', first)
    with second.connect(CONNECT) as client:
        client.send(b"SUB foo 1\r\nSUB bar q 2\r\n")
        client.sync()
        cid = client.info["client_id"]
        route = wait_until(
            lambda: next(
                (r for r in page(first, "/routez?subs=detail")["routes"] if r["subscriptions"] == 2), None
            ),
            "interest",
        )
    assert route["remote_id"] == page(second, "/varz")["server_id"]
    details = route["subscriptions_list_detail"]
    assert sorted((each["subject"], each.get("qgroup", ""), each["sid"]) for each in details) == [
        ("bar", "q", f"QRSID:{cid}:2"),
        ("foo", "", f"RSID:{cid}:1"),
    ]
    assert len(page(first, "/routez")["routes"]) == len(page(second, "/routez")["routes"]) == 1


@pytest.mark.parametrize("ours", HEADRACES, ids=str)
@pytest.mark.parametrize(("one", "two"), BOTH_ENDS)
def test_older_routes_with_tls(
    start: Callable[..., ServerProcess], tmp_path: Path, ours: Program, one: str, two: str
) -> None:
    authority = Authority(tmp_path, "authority")
    pair = authority.issue("route")
    tls = f"tls {{ cert_file: '{pair.certificate}', key_file: '{pair.key}', ca_file: '{authority.file}' }}"
    first = start(ours, "one", f'protocol: "{one}"\n{tls}')
    second = start(ours, "two", f'protocol: "{two}"\n{tls}', first)
    quiet = b'{"verbose":false}'  # hears of no other servers
    with first.connect(quiet) as here, second.connect(quiet) as there:
        there.send(b"SUB foo 1\r\n")
        there.sync()
        wait_until(lambda: page(first, "/routez?subs=1")["routes"], "a route")
        wait_until(lambda: page(first, "/routez")["routes"][0]["subscriptions"], "interest")
        here.send(b"PUB foo 2\r\nhi\r\n")
        assert there.take_message()[1] == b"hi"


def test_clients_are_told_where_older_peers_are(start: Callable[..., ServerProcess]) -> None:
    first = start(HEADRACES[0], "one", 'protocol: "auto"')
    second = start(HEADRACES[0], "two", 'protocol: "1.x"', first)
    wait_until(lambda: page(first, "/routez")["routes"], "a route")
    for server in (first, second):
        with server.connect(CONNECT) as client:
            wanted = {f"127.0.0.1:{each.port}" for each in (first, second)}
            assert set(client.info["connect_urls"]) == wanted
