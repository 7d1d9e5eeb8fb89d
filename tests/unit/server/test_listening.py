"""What comes before the first client: its port listens last."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from headrace import Options, Server, limits
from headrace.conf.leaf_options import LeafNodeOptions
from headrace.conf.peer_options import ClusterOptions, PeerURL
from headrace.conf.streaming_options import NATSServerOptions, StreamingOptions
from headrace.conf.websocket_options import WebSocketOptions
from headrace.errors import StartError
from headrace.server.acceptor import unmapped
from headrace.server.files import ports_of
from headrace.server.listener import bind


def test_nobody_can_connect_before_the_server_listens() -> None:
    with bind("127.0.0.1", -1) as bound:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(bound.getsockname())
        bound.listen()
        socket.create_connection(bound.getsockname()).close()


@pytest.mark.parametrize("transport", ["epoll", "asyncio"])
def test_clients_come_last(transport: str) -> None:
    """Stores, services and the other ports are there before the first client, who is served at once."""
    refused: list[str] = []

    class Slow(Idle):
        def start(self, host: object) -> None:
            for port in (server.port, server.websocket_port):
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection(("127.0.0.1", port))
            routes = server.routes
            assert routes is not None
            refused.append(str(routes.port))

    async def main() -> bytes:
        async with server:
            assert refused
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            line = await reader.readline()
            writer.close()
            return line

    options = Options(
        host="127.0.0.1",
        port=-1,
        websocket=WebSocketOptions(host="127.0.0.1", port=-1, no_tls=True),
        cluster=ClusterOptions(host="127.0.0.1", port=-1),
    )
    server = Server(options, transport=transport, services=[Slow()])
    assert asyncio.run(main()).startswith(b"INFO {")


def test_a_peer_that_is_there_is_known_to_the_first_client() -> None:
    def options(*routes: str) -> Options:
        urls = tuple(PeerURL("127.0.0.1", int(port)) for port in routes)
        cluster = ClusterOptions(host="127.0.0.1", port=-1, name="C", routes=urls)
        return Options(host="127.0.0.1", port=-1, cluster=cluster)

    async def main() -> tuple[int, dict[str, list[str]]]:
        async with Server(options()) as first:
            assert first.routes is not None
            async with Server(options(str(first.routes.port))) as second:
                reader, writer = await asyncio.open_connection("127.0.0.1", second.port)
                line = await reader.readline()
                writer.close()
                return first.port, json.loads(line[5:])

    port, info = asyncio.run(main())
    assert f"127.0.0.1:{port}" in info["connect_urls"]


def test_who_does_not_answer_is_waited_for_a_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FIRST_REACH", 0.01)

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as mute:
            silent = PeerURL("127.0.0.1", mute.getsockname()[1])
            cluster = ClusterOptions(host="127.0.0.1", port=-1, routes=(silent,))
            async with Server(Options(host="127.0.0.1", port=-1, cluster=cluster)) as server:
                assert server.port

    asyncio.run(main())


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_port_that_another_took_meanwhile_is_named(host: str) -> None:
    class Taker(Idle):
        def start(self, _: object) -> None:
            taken.append(bind(host, server.port))
            taken[0].listen()

    taken: list[socket.socket] = []
    server = Server(Options(host=host, port=-1), services=[Taker()])
    shown = re.escape(f"[{host}]" if ":" in host else host)
    with pytest.raises(StartError, match=rf"listen tcp {shown}:\d+: bind: address already in use"):
        asyncio.run(server.start())
    taken[0].close()


def _has_ipv6_loopback() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not _has_ipv6_loopback(), reason="this machine has no IPv6 loopback")
@pytest.mark.parametrize("transport", ["epoll", "asyncio"])
@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_host_that_means_every_address_has_those_of_both_kinds(host: str, transport: str) -> None:
    options = Options(
        host=host,
        port=-1,
        http_port=-1,
        websocket=WebSocketOptions(host=host, port=-1, no_tls=True),
        cluster=ClusterOptions(host=host, port=-1),
    )

    async def main() -> None:
        async with Server(options, transport=transport) as server:
            routes = server.routes
            assert server.host == host
            assert routes is not None
            assert routes.host == host
            for peer in ("127.0.0.1", "::1"):
                for port in (server.websocket_port, routes.port):
                    _, writer = await asyncio.open_connection(peer, port)
                    writer.close()
                reader, client = await asyncio.open_connection(peer, server.port)
                assert json.loads((await reader.readline())[5:])["client_ip"] == peer
                page = await asyncio.to_thread(read_page, peer, server.monitor_port, "/connz")
                assert peer in [connection["ip"] for connection in page["connections"]]
                client.close()

    asyncio.run(main())


@pytest.mark.parametrize("transport", ["epoll", "asyncio"])
def test_a_host_that_is_a_name_is_told_as_the_name(transport: str, caplog: pytest.LogCaptureFixture) -> None:
    """As by nats-server: whoever is told it may know the name by another address."""
    caplog.set_level("INFO")
    options = Options(
        host="localhost",
        port=-1,
        http_port=-1,
        websocket=WebSocketOptions(host="localhost", no_tls=True),
        cluster=ClusterOptions(name="C", host="localhost", port=-1),
        leafnodes=LeafNodeOptions(host="localhost", port=-1),
    )

    async def main() -> dict[str, tuple[str, int]]:
        async with Server(options, transport=transport) as server:
            assert server.routes is not None
            assert server.leafs is not None
            ports = {"client": server.port, "route": server.routes.port, "leafnode": server.leafs.port}
            told = {}
            for name, port in ports.items():
                reader, writer = await asyncio.open_connection("localhost", port)
                info = json.loads((await reader.readline())[5:])
                told[name] = info["host"], info["port"]
                writer.close()
            assert told == {name: ("localhost", port) for name, port in ports.items()}
            urls = [url for found in ports_of(server).values() for url in found]
            assert {urlsplit(url).hostname for url in urls} <= {"127.0.0.1", "::1"}
            return told

    told = asyncio.run(main())

    for name, (host, port) in told.items():
        assert f"Listening for {name} connections on {host}:{port}" in caplog.text


def test_no_host_means_every_address() -> None:
    """Of ports whose options are made in Python; files and the client port have the default in its place."""
    options = Options(
        host="127.0.0.1",
        port=-1,
        websocket=WebSocketOptions(host="", port=-1, no_tls=True),
        cluster=ClusterOptions(name="C", host="", port=-1),
        leafnodes=LeafNodeOptions(host="", port=-1),
    )

    async def main() -> dict[str, list[str]]:
        async with Server(options) as server:
            return ports_of(server)

    hosts = {name: urlsplit(url).hostname for name, [url] in asyncio.run(main()).items()}

    assert hosts == dict.fromkeys(("nats", "cluster", "websocket", "leafnodes"), "127.0.0.1")


def read_page(host: str, port: int, path: str) -> Any:
    connection = http.client.HTTPConnection(host, port, timeout=10)
    connection.request("GET", path)
    page = json.loads(connection.getresponse().read())
    connection.close()
    return page


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8::1", "2001:db8::1"),
        ("::1", "::1"),
        ("::ffff:0:1", "::ffff:0:1"),
        ("64:ff9b::192.0.2.7", "64:ff9b::192.0.2.7"),
        ("", ""),
    ],
)
def test_addresses_of_ipv4_are_shown_as_such(address: str, shown: str) -> None:
    assert unmapped(address) == shown


def test_a_server_that_does_not_start_gives_the_port_back() -> None:
    with bind("127.0.0.1", -1) as free:
        port: int = free.getsockname()[1]

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            options = Options(host="127.0.0.1", port=port, http_port=taken.getsockname()[1])
            with pytest.raises(StartError, match="monitor port"):
                await Server(options).start()

    asyncio.run(main())
    with socket.create_server(("127.0.0.1", port), reuse_port=False):
        pass


def test_a_server_that_streaming_is_not_to_use_does_not_start() -> None:
    async def main() -> None:
        streaming = StreamingOptions(nats_server=NATSServerOptions("nats://elsewhere:4222"))
        server = Server(Options(host="127.0.0.1", port=-1, streaming=streaming), services=[Idle()])
        with pytest.raises(StartError, match="a NATS server elsewhere, not this one"):
            await server.start()
        await server.stop()

    asyncio.run(main())


class Idle:
    """A service that does nothing."""

    def start(self, host: object) -> None:
        raise AssertionError("it is not to be started")

    def deliver(self, batch: object) -> None: ...

    def stop(self) -> None: ...
