"""What comes before the first client: its port listens last."""

from __future__ import annotations

import asyncio
import json
import re
import socket

import pytest

from headrace import Options, Server, limits
from headrace.conf.peer_options import ClusterOptions, PeerURL
from headrace.conf.streaming_options import NATSServerOptions, StreamingOptions
from headrace.conf.websocket_options import WebSocketOptions
from headrace.errors import StartError
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
