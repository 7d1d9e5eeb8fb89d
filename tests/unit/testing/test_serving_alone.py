"""Embedded servers of one cluster: JetStream and streaming on one of them; how one ends that cannot go on."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import pytest
from msgspec.structs import replace

from harness.waiting import wait_until
from headrace.client.blocking import connect
from headrace.client.errors import NoRespondersError
from headrace.conf.peer_options import ClusterOptions, PeerURL
from headrace.conf.streaming_options import StreamingOptions
from headrace.errors import StartError
from headrace.server.snapshot import ServerMonitor
from headrace.testing import Server, ServerCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from headrace.server.peers.routes import Routes
    from headrace.server.server import Server as Running

TRANSPORTS: Final = ["epoll", "asyncio"]
HOUR: Final = 3600 * 10**9
SECONDS: Final = 30.0


def on_a_loop(test: Callable[..., Coroutine[object, object, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(**given: Any) -> None:
        asyncio.run(test(**given))

    return run


def routes_of(server: Running) -> Routes:
    assert server.routes is not None
    return server.routes


def member(*others: Server, **given: Any) -> Server:
    urls = tuple(PeerURL(routes_of(other.server).host, routes_of(other.server).port) for other in others)
    cluster = ClusterOptions(name="C", host="127.0.0.1", port=-1, pool_size=-1, routes=urls)
    return Server(cluster=cluster, **given)


def ask(server: Server, subject: str) -> bytes:
    """The answer, as soon as the server knows that there is somebody to ask."""
    with connect(server.url) as client:

        def answer() -> bytes:
            try:
                return client.request(subject, b"x").data
            except NoRespondersError:
                return b""

        return wait_until(answer, f"an answer to {subject}")


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_first_of_a_cluster_has_jetstream(transport: str) -> None:
    with ServerCluster(3, jetstream=True, transport=transport) as cluster:
        assert [server.server.options.jetstream is not None for server in cluster] == [True, False, False]
        for server in cluster:
            assert b'"streams":0' in ask(server, "$JS.API.INFO")


def test_the_first_of_a_cluster_has_streaming() -> None:
    with ServerCluster(2, streaming=StreamingOptions()) as cluster:
        assert [server.server.options.streaming is not None for server in cluster] == [True, False]
        assert ask(cluster[1], "_STAN.discover.test-cluster")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"jetstream": True}, "^JetStream: server .* has JetStream as well"),
        ({"streaming": StreamingOptions()}, 'is a streaming server with cluster ID "test-cluster" as well$'),
    ],
)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_second_one_cannot_start(given: dict[str, Any], text: str, transport: str) -> None:
    with member(transport=transport, **given) as first:
        with pytest.raises(StartError, match=text), member(first, transport=transport, **given):
            pass
        with member(first, transport=transport):
            assert first.server.failure is None


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("younger", [0, 1])
@on_a_loop
async def test_when_a_partition_heals_the_younger_ends(transport: str, younger: int) -> None:
    async with AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(member(jetstream=True, transport=transport)) for _ in range(2)
        ]
        running = [each.server for each in servers]
        running[1 - younger].serving_since -= HOUR
        one, other = map(routes_of, running)
        one.reload(replace(one.options, routes=(PeerURL(other.host, other.port),)))
        async with asyncio.timeout(SECONDS):
            await running[younger].stopped.wait()
        assert running[younger].failure is not None
        assert "as well" in running[younger].failure
        stays = running[1 - younger]
        assert stays.failure is None
        assert not stays.stopped.is_set()


@on_a_loop
async def test_a_conflict_that_stays_shows_in_the_health() -> None:
    """A peer that does not give way, as the Go server: here one that says nothing of what it is."""
    async with member(jetstream=True) as server:
        running = server.server
        running.serving_since -= HOUR
        reader, writer = await asyncio.open_connection(routes_of(running).host, routes_of(running).port)
        await reader.readline()
        said = b'"server_id":"NGO","server_name":"go","cluster":"C","jetstream":true,"port":1'
        writer.write(b'CONNECT {"name":"NGO","cluster":"C"}\r\nINFO {%s}\r\nPING\r\n' % said)
        while await reader.readline() != b"PONG\r\n":
            pass
        monitor = ServerMonitor(running)
        assert 'server "go" of this cluster has JetStream as well' in (monitor.health().error or "")
        writer.write_eof()
        assert await reader.read() == b""  # it has closed its side too
        assert monitor.health().error is None
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("given", [{}, {"monitoring": True}, {"jetstream": True, "monitoring": True}])
@on_a_loop
async def test_stopping_twice_at_once(given: dict[str, Any]) -> None:
    async with Server(**given) as server:
        await server.server.settled()
        await asyncio.gather(server.server.stop(), server.server.stop(), server.server.stop())
        assert server.server.stopped.is_set()


@on_a_loop
async def test_stopping_goes_on_when_who_asked_is_cancelled() -> None:
    async with Server(monitoring=True) as server:
        asked = asyncio.ensure_future(server.server.stop())
        await asyncio.sleep(0)
        asked.cancel()
        async with asyncio.timeout(SECONDS):
            await server.server.stopped.wait()
