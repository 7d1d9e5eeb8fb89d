"""Clients over WebSocket are told where else they can connect so, in clusters with nats-server too.

Every test runs with nats-server on either side, so that what is expected is what it says.
"""

from __future__ import annotations

import json
import signal
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from harness.processes import HEADRACES, NATS_SERVER, ServerProcess
from harness.waiting import wait_until
from harness.websocket import WebSocket

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.processes import Program
    from harness.wire import Wire

OURS = HEADRACES[0]
PAIRS = [(OURS, NATS_SERVER), (NATS_SERVER, OURS), (OURS, HEADRACES[-1])]
"""Who is asked, and who comes and goes."""

ROUTE_PORT = r"Listening for route connections on 127\.0\.0\.1:(\d+)$"
WEBSOCKET_PORT = r"Listening for websocket clients on ws://[^:]+:(\d+)$"
CONNECT = b'{"verbose":false,"protocol":1}'


class Cluster:
    """Starts servers of one cluster, each with a WebSocket port, and ends them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack

    def start(
        self,
        program: Program,
        name: str,
        *to: ServerProcess,
        websocket: str = "",
        cluster: str = "",
        more: str = "",
        listen: str = "127.0.0.1",
    ) -> ServerProcess:
        folder = self._folder / name
        folder.mkdir()
        routes = ", ".join(f'"nats-route://127.0.0.1:{route_port(peer)}"' for peer in to)
        config = (
            f'server_name: {name}\nhttp: "127.0.0.1:-1"\n{more}\n'
            f'cluster {{ name: c, listen: "127.0.0.1:-1", routes: [{routes}]\n{cluster} }}\n'
            f'websocket {{ listen: "{listen}:-1", no_tls: true\n{websocket} }}\n'
        )
        return self._stack.enter_context(ServerProcess(program, folder, config=config))

    def listen_to(self, server: ServerProcess) -> WebSocket:
        """A client over WebSocket, whose first INFO is taken and forgotten."""
        client = self._stack.enter_context(WebSocket(websocket_port(server)))
        client.take_through(b"\r\n")
        client.send(b"CONNECT " + CONNECT + b"\r\nPING\r\n")
        text = b""
        while b"PONG\r\n" not in text or b"INFO " not in text:  # with what CONNECT settled
            text += client.take_through(b"\r\n")
        return client


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(tmp_path, stack)


def route_port(server: ServerProcess) -> int:
    return int(server.wait_for_line(ROUTE_PORT)[1])


def websocket_port(server: ServerProcess) -> int:
    return int(server.wait_for_line(WEBSOCKET_PORT)[1])


def websocket_url(server: ServerProcess) -> str:
    return f"127.0.0.1:{websocket_port(server)}"


def first_info(server: ServerProcess) -> dict[str, Any]:
    with WebSocket(websocket_port(server)) as client:
        return read_info(client.take_through(b"\r\n"))


def read_info(text: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text[text.rindex(b"INFO ") + 5 :])
    return found


def wait_for_urls(client: WebSocket | Wire, *wanted: str) -> dict[str, Any]:
    """The next INFO that tells these, and nothing else, in this order."""
    while True:
        text = client.take_through(b"\r\n")
        if b"INFO " in text and (told := read_info(text)).get("connect_urls", []) == list(wanted):
            return told


def varz(server: ServerProcess) -> dict[str, Any]:
    with urllib.request.urlopen(f"{server.monitor_url}/varz", timeout=10) as answer:
        document: dict[str, Any] = json.load(answer)
    return document


@pytest.mark.parametrize(("asked", "peer"), PAIRS, ids=str)
def test_clients_hear_of_websocket_urls_that_come_and_go(
    asked: Program, peer: Program, cluster: Cluster
) -> None:
    first = cluster.start(asked, "one")
    own = websocket_url(first)
    alone = [own] if asked.is_headrace else []  # nats-server says it once somebody has come
    assert first_info(first).get("connect_urls", []) == alone
    assert "ws_connect_urls" not in first_info(first)
    assert varz(first).get("ws_connect_urls", []) == alone
    client, plain = cluster.listen_to(first), first.connect(CONNECT)
    plain.sync()

    second = cluster.start(peer, "two", first)
    both = [own, websocket_url(second)]
    wait_for_urls(client, *both)
    wait_for_urls(plain, f"127.0.0.1:{first.port}", f"127.0.0.1:{second.port}")
    assert varz(first)["ws_connect_urls"] == both
    assert varz(first)["connect_urls"] == [f"127.0.0.1:{first.port}", f"127.0.0.1:{second.port}"]
    assert set(first_info(second)["connect_urls"]) == set(both)

    second.stop()
    wait_for_urls(client, own)
    wait_for_urls(plain, f"127.0.0.1:{first.port}")
    plain.close()


@pytest.mark.parametrize(("asked", "peer"), PAIRS, ids=str)
def test_lame_duck_sends_no_websocket_client_there(asked: Program, peer: Program, cluster: Cluster) -> None:
    quick = "lame_duck_duration: '30s', lame_duck_grace_period: '1s'"
    first = cluster.start(asked, "one")
    client = cluster.listen_to(first)
    second = cluster.start(peer, "two", first, more=quick)
    wait_for_urls(client, websocket_url(first), websocket_url(second))
    stays = cluster.listen_to(second)

    second.signal(signal.SIGUSR2)

    wait_for_urls(client, websocket_url(first))
    told = wait_for_urls(stays, websocket_url(first))
    assert told["ldm"] is True


@pytest.mark.parametrize(("asked", "peer"), PAIRS, ids=str)
def test_what_is_advertised_is_told(asked: Program, peer: Program, cluster: Cluster) -> None:
    """`advertise` of the block counts, `client_advertise` is of the client port alone."""
    first = cluster.start(asked, "one", more='client_advertise: "tcp.example:1"')
    second = cluster.start(peer, "two", first, websocket='advertise: "ws.example"', more="port: -1")
    wanted = {websocket_url(first), f"ws.example:{websocket_port(second)}"}
    for server in (first, second):
        wait_until(lambda s=server: set(first_info(s).get("connect_urls", [])) == wanted, "both are told")
    assert set(varz(second)["ws_connect_urls"]) == wanted
    info = first_info(second)
    assert (info["host"], info["port"]) == ("127.0.0.1", websocket_port(second))
    with second.connect() as plain:
        assert "tcp.example:1" in plain.info["connect_urls"]


@pytest.mark.parametrize("program", [OURS, NATS_SERVER], ids=str)
def test_no_advertise_tells_nothing(program: Program, cluster: Cluster) -> None:
    first = cluster.start(program, "one", cluster="no_advertise: true")
    second = cluster.start(NATS_SERVER if program is OURS else OURS, "two", first)
    wait_until(lambda: varz(first)["routes"], "the route")
    assert "connect_urls" not in first_info(first)
    assert "ws_connect_urls" not in varz(first)
    assert first_info(second).get("connect_urls", []) in ([], [websocket_url(second)])


@pytest.mark.parametrize("program", [OURS, NATS_SERVER], ids=str)
def test_server_without_a_cluster_tells_nothing(program: Program, tmp_path: Path) -> None:
    block = 'listen: "127.0.0.1:-1", no_tls: true, advertise: "a.example:1"'
    config = f'http: "127.0.0.1:-1"\nwebsocket {{ {block} }}\n'
    with ServerProcess(program, tmp_path, config=config) as server:
        assert "connect_urls" not in first_info(server)
        assert "ws_connect_urls" not in varz(server)


@pytest.mark.parametrize(("asked", "peer"), PAIRS[:2], ids=str)
def test_wildcard_address_stands_for_those_of_the_machine(
    asked: Program, peer: Program, cluster: Cluster
) -> None:
    """The same ones whichever server says them, and none with the wildcard."""
    first = cluster.start(asked, "one", listen="0.0.0.0")
    second = cluster.start(peer, "two", first, listen="0.0.0.0")

    def hosts(of: ServerProcess) -> list[str]:
        """Those that the first one tells of a server, which it does with all of them at once."""
        port = websocket_port(of)
        urls = first_info(first).get("connect_urls", [])
        return sorted(url.removesuffix(f":{port}") for url in urls if url.endswith(f":{port}"))

    wait_until(lambda: hosts(second), "the other one's are told")
    own, others = hosts(first), hosts(second)
    assert own == others
    assert "0.0.0.0" not in own


def test_reload_of_no_advertise_tells_clients(cluster: Cluster) -> None:
    """nats-server takes it over for what it tells other servers only."""
    server = cluster.start(OURS, "one")
    client = cluster.listen_to(server)
    text = server.config_file.read_text()
    server.config_file.write_text(text.replace("name: c,", "name: c, no_advertise: true,"))
    server.signal(signal.SIGHUP)
    wait_for_urls(client)
