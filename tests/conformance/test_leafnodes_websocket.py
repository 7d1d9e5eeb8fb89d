"""Leaf links over WebSocket, in mixtures of Headrace and nats-server, also through an HTTP proxy.

A pair's first letter is the hub, as in `test_leafnodes`.
"""

from __future__ import annotations

import base64
import json
import select
import socket
import threading
import urllib.request
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

import pytest

from harness.certificates import tls_config
from harness.leafs import Leafs
from harness.ports import free_port
from harness.waiting import PATIENCE, wait_until
from harness.websocket import WebSocket, frame, request

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.certificates import Authority
    from harness.mesh import MeshClient, Node

PAIRS: Final = ("gh", "hg", "ha")


class Proxy:
    """An HTTP proxy that knows CONNECT; `user`: "name:password" that it asks for. `asked`: targets."""

    def __init__(self, user: str = "", answer: bytes | None = None) -> None:
        self._user = user
        self._answer = answer
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.asked: list[str] = []
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self._ends.append(client)
            self._threads.append(threading.Thread(target=self._serve, args=(client,), daemon=True))
            self._threads[-1].start()

    def _serve(self, client: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            data = client.recv(4096)
            if not data:
                return
            head += data
        method, target, _ = head.split(b" ", 2)
        assert method == b"CONNECT"
        self.asked.append(target.decode())
        if self._answer is not None:
            client.sendall(self._answer)
            return
        wanted = b"Proxy-Authorization: Basic " + base64.b64encode(self._user.encode())
        if self._user and wanted not in head:
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            client.close()
            return
        host, _, port = target.decode().rpartition(":")
        far = socket.create_connection((host, int(port)))
        self._ends.append(far)
        other = {client: far, far: client}
        try:
            client.sendall(b"HTTP/1.0 200 Connection established\r\nVia: x\r\n\r\n")
            while True:
                for ready in select.select([client, far], [], [])[0]:
                    data = ready.recv(1 << 16)
                    if not data:
                        return
                    other[ready].sendall(data)
        except (OSError, ValueError):
            return
        finally:
            client.close()
            far.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)  # wakes whoever waits in accept
        self._listening.close()
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE)
        for end in self._ends:
            end.close()


class Linked(Leafs):
    """`websocket`: where each hub's WebSocket port is."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.websocket: dict[str, int] = {}

    def ws_hub(self, name: str, letter: str, more: str = "", tls: str = "no_tls: true") -> Node:
        port = self.websocket.setdefault(name, free_port())
        return self.hub(name, letter, f'{more}\nwebsocket {{ listen: "127.0.0.1:{port}"\n{tls} }}')

    def ws_leaf(
        self,
        name: str,
        letter: str,
        *hubs: str,
        remote: str = "",
        scheme: str = "ws",
        user: str = "",
        more: str = "",
    ) -> Node:
        urls = ", ".join(f'"{scheme}://{user}localhost:{self.websocket[hub]}"' for hub in hubs)
        return self.server(
            name, letter, f"leafnodes {{ remotes: [ {{ urls: [{urls}]\n{remote} }} ] }}\n{more}"
        )


@pytest.fixture
def leafs(tmp_path: Path) -> Iterator[Linked]:
    with Linked(tmp_path) as servers:
        yield servers


def exchange(leafs: Leafs, hub: MeshClient, leaf: MeshClient) -> None:
    """A large message with headers and many small ones, both ways."""
    large = b"0123456789" * 90_000
    for one, other in ((hub, leaf), (leaf, hub)):
        sid = one.subscribe("news.*")
        leafs.meet(hub, leaf)
        other.publish("news.a", large, {"K": "v"})
        for number in range(300):
            other.publish("news.b", b"%d" % number)
        first, *rest = one.take(sid, 301)
        assert (first.payload, first.header("K")) == (large, "v")
        assert [each.payload for each in rest] == [b"%d" % number for number in range(300)]
        one.unsubscribe(sid)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(
    "remote", ["", "ws_compression: true, compression: s2_fast", "ws_no_masking: true, compression: s2_fast"]
)
def test_messages_pass_both_ways(leafs: Linked, pair: str, remote: str) -> None:
    leafs.ws_hub("hub", pair[0], tls="no_tls: true, compression: true")
    leafs.ws_leaf("leaf", pair[1], "hub", remote=remote)
    exchange(leafs, *leafs.clients())


@pytest.mark.parametrize("pair", PAIRS)
def test_tls_is_the_websocket_ports(leafs: Linked, pair: str, authority: Authority) -> None:
    leafs.ws_hub("hub", pair[0], tls=tls_config(authority.issue("hub")))
    remote = f'tls {{ ca_file: "{authority.file}" }}'
    leafs.ws_leaf("leaf", pair[1], "hub", remote=remote, scheme="wss")
    exchange(leafs, *leafs.clients())


@pytest.mark.parametrize("pair", PAIRS)
def test_either_end_may_be_killed_and_comes_back(leafs: Linked, pair: str) -> None:
    leafs.ws_hub("hub", pair[0])
    leafs.ws_leaf("leaf", pair[1], "hub")
    hub, leaf = leafs.clients()
    leafs.nodes["leaf"].kill()
    leafs.nodes["leaf"].start()
    leaf = leafs.join("leaf")
    leafs.meet(hub, leaf)
    leafs.nodes["hub"].kill()
    leafs.nodes["hub"].start()
    hub = leafs.join("hub")
    leafs.meet(hub, leaf, seconds=3 * PATIENCE)


@pytest.mark.parametrize("pair", PAIRS)
def test_user_may_be_limited_to_leaf_nodes_over_websocket(leafs: Linked, pair: str) -> None:
    users = """accounts { A { users: [
      {user: a, password: a, allowed_connection_types: ["LEAFNODE_WS", "STANDARD"]}
      {user: b, password: b, allowed_connection_types: ["LEAFNODE"]}
    ] } }"""
    leafs.ws_hub("hub", pair[0], users)
    leafs.ws_leaf("leaf", pair[1], "hub", user="a:a@")
    hub, leaf = leafs.join("hub", user="a", **{"pass": "a"}), leafs.join("leaf")
    leafs.meet(hub, leaf)
    refused = leafs.ws_leaf("refused", pair[1], "hub", user="b:b@")
    refused.server.wait_for_line("(?i)authorization violation")


@pytest.mark.parametrize("pair", PAIRS)
def test_other_servers_of_the_hubs_cluster_are_reached(leafs: Linked, pair: str) -> None:
    """The leaf node hears of their WebSocket ports from the first one."""
    route = free_port()
    for name, cluster in (
        ("hub", f'cluster {{ name: c, listen: "127.0.0.1:{route}" }}'),
        ("two", f'cluster {{ name: c, listen: "127.0.0.1:-1", routes: ["nats://127.0.0.1:{route}"] }}'),
    ):
        leafs.ws_hub(name, pair[0], cluster)
    leafs.meet(leafs.join("hub"), leafs.join("two"))
    leafs.ws_leaf("leaf", pair[1], "hub")
    leaf = leafs.join("leaf")
    leafs.meet(leafs.join("hub"), leaf)
    leafs.nodes["hub"].stop()
    leafs.meet(leafs.join("two"), leaf, seconds=3 * PATIENCE)


@pytest.mark.parametrize("letter", ["h", "a", "g"])
@pytest.mark.parametrize("user", ["", "joe:secret", "domain:joe:secret"])
def test_hub_is_reached_through_a_proxy(leafs: Linked, letter: str, user: str) -> None:
    with Proxy(user) as proxy:
        leafs.ws_hub("hub", "h")
        name, _, password = user.rpartition(":")
        proof = f'username: "{name}", password: {password}' if user else ""
        remote = f'proxy {{ url: "http://127.0.0.1:{proxy.port}", timeout: "5s"\n{proof} }}'
        leafs.ws_leaf("leaf", letter, "hub", remote=remote)
        exchange(leafs, *leafs.clients())
        assert proxy.asked[0] == f"localhost:{leafs.websocket['hub']}"


@pytest.mark.parametrize("pair", ["gh", "hg"])
def test_tls_to_the_hub_goes_through_a_proxy(leafs: Linked, pair: str, authority: Authority) -> None:
    with Proxy() as proxy:
        leafs.ws_hub("hub", pair[0], tls=tls_config(authority.issue("hub")))
        remote = f'proxy {{ url: "http://127.0.0.1:{proxy.port}" }}\ntls {{ ca_file: "{authority.file}" }}'
        leafs.ws_leaf("leaf", pair[1], "hub", remote=remote, scheme="wss")
        exchange(leafs, *leafs.clients())
        assert proxy.asked


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "proxy CONNECT failed: 407 Proxy"),
        (b"HTTP/1.1 403 No\r\nContent-Length: 4\r\n\r\nno!\n", "proxy CONNECT failed: 403 No"),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", "proxy CONNECT failed: 502 Bad Gateway"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "failed to read proxy response"),
        (b"HTTP/1.1 200 " + b"x" * 70_000 + b"\r\n\r\n", "failed to read proxy response"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 5_000 + b"\r\n", "failed to read proxy response"),
        (b"HTTP/1.1 200 OK\r\n\r\nINFO {}\r\n", "failed to read proxy response: more came"),
        (b"HTTP/1.1 200 OK\r\n", "failed to read proxy response: i/o timeout"),
    ],
)
def test_proxy_that_does_not_help_is_tried_again(leafs: Linked, answer: bytes, said: str) -> None:
    with Proxy(answer=answer) as proxy:
        leafs.websocket["hub"] = free_port()
        remote = f'proxy {{ url: "http://127.0.0.1:{proxy.port}", timeout: "300ms" }}'
        node = leafs.ws_leaf("leaf", "h", "hub", remote=remote)
        node.server.wait_for_line(f"Error trying to connect as leafnode.*{said}")
        wait_until(lambda: len(proxy.asked) > 1, "the second attempt")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "invalid websocket connection.*404"),
        (
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: x\r\n\r\n",
            "invalid websocket connection",
        ),
        (b"HTTP/1.1 403 Forbidden\r\n\r\nno!\n", "invalid websocket connection.*403"),
        (b'INFO {"server_id":"X"}\r\n', "invalid websocket connection"),
        (b"", "invalid websocket connection: connection closed"),
    ],
)
def test_hub_that_is_no_websocket_is_tried_again(leafs: Linked, answer: bytes, said: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE)
        leafs.websocket["hub"] = listening.getsockname()[1]
        node = leafs.ws_leaf("leaf", "h", "hub")
        for _ in range(2):
            client, _ = listening.accept()
            with client:
                client.settimeout(PATIENCE)
                head = client.recv(4096)
                assert head.startswith(b"GET /leafnode HTTP/1.1\r\n")
                client.sendall(answer)
        node.server.wait_for_line(f"Error trying to connect as leafnode.*{said}")


@pytest.mark.parametrize(
    "sends",
    [
        frame(b"CONNECT {}\r\n", mask=None),
        frame(b"CONNECT {" + b"x" * 70_000),
        b"\x82\xff" + (1 << 40).to_bytes(8, "big") + b"\0\0\0\0",
        frame(b"CONNECT {}\r\n", reserved=4),
        frame(b"PUB a 1\r\nx\r\n"),
        frame(b"\xff" * 100),
    ],
    ids=["unmasked", "too much", "too large", "compressed", "no CONNECT", "garbage"],
)
def test_what_is_no_leaf_node_is_closed_and_leaves_nothing(leafs: Linked, sends: bytes) -> None:
    monitor = free_port()
    node = leafs.ws_hub("hub", "h", f'http: "127.0.0.1:{monitor}"')
    port = leafs.websocket["hub"]
    with WebSocket(port, request(port, path="/leafnode")) as peer:
        info = json.loads(peer.take_through(b"\r\n")[5:])
        assert info["leafnode_urls"]
        assert info["nonce"]
        peer.send_raw(sends)
        peer.take_end()
    node.server.wait_for_line("Leafnode connection closed")
    with urllib.request.urlopen(f"http://127.0.0.1:{monitor}/leafz", timeout=10) as answer:
        document: dict[str, Any] = json.load(answer)
    assert document["leafnodes"] == 0


def test_port_without_leaf_nodes_refuses_them(leafs: Linked) -> None:
    port = free_port()
    leafs.server("alone", "h", f'websocket {{ listen: "127.0.0.1:{port}", no_tls: true }}')
    with WebSocket(port, request(port, path="/leafnode")) as peer:
        assert peer.status == 404
