"""Connections to other servers as the server has them: what happens beside what their machines see."""

from __future__ import annotations

import asyncio
import errno
import socket
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from headrace.cluster.port import Address
from headrace.conf.options import Options
from headrace.conf.peer_options import ClusterOptions, PeerURL
from headrace.server.addresses import machine_addresses
from headrace.server.peers import opening
from headrace.server.peers.machine_port import MachinePort
from headrace.testing import Server

if TYPE_CHECKING:
    from headrace.server.peers.routes import Routes


def routes_of(server: Server) -> Routes:
    routes = server.server.routes
    assert routes is not None
    return routes


def cluster(**given: Any) -> ClusterOptions:
    return ClusterOptions(**{"name": "C", "host": "127.0.0.1", "port": -1, "pool_size": -1, **given})


def test_a_socket_that_cannot_be_watched_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    with Server(cluster=cluster(), transport="epoll") as server:
        routes = routes_of(server)
        monkeypatch.setattr(opening, "EpollTransport", refuse)
        with socket.create_connection((routes.host, routes.port), timeout=10) as sock:
            assert sock.recv(1) == b""

        async def left() -> tuple[int, int]:
            return len(routes.connections), len(routes.mesh.sessions)

        assert server.call(left) == (0, 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_a_server_does_not_connect_to_its_own_port(host: str) -> None:
    async def run() -> list[str | None]:
        async with Server(cluster=cluster(host=host)) as server:
            routes, reasons = routes_of(server), list[str | None]()
            ended = asyncio.Event()

            def failed(reason: str | None) -> None:
                reasons.append(reason)
                ended.set()

            own = machine_addresses()[0] if host == "0.0.0.0" else "localhost"
            routes.connect(Address(own, routes.port), pytest.fail, failed, None)
            await ended.wait()
            return reasons

    assert asyncio.run(run()) == [None]


def test_who_is_dialed_and_cannot_be_watched_is_dialed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    real, failures = opening.EpollTransport, iter([OSError(errno.ENOSPC, "no room")])

    def fail_once(*arguments: Any) -> Any:
        for error in failures:
            raise error
        return real(*arguments)

    async def run() -> None:
        async with Server(cluster=cluster(), transport="epoll") as one:
            to = PeerURL(routes_of(one).host, routes_of(one).port)
            async with Server(cluster=cluster(routes=(to,)), transport="epoll") as two:
                await routes_of(two).joined(1, seconds=30)

    monkeypatch.setattr(opening, "EpollTransport", fail_once)
    asyncio.run(run())
    assert next(failures, None) is None


def test_joined_returns_where_nothing_is_advertised() -> None:
    async def run() -> None:
        async with Server(cluster=cluster(no_advertise=True)) as one:
            to = PeerURL(routes_of(one).host, routes_of(one).port)
            async with Server(cluster=cluster(routes=(to,), no_advertise=True)) as two:
                await asyncio.gather(*(routes_of(each).joined(1, seconds=10) for each in (one, two)))

    asyncio.run(run())


@pytest.mark.parametrize(
    ("is_first", "told"), [(True, [1, 3, 6]), (False, [1, 2, 4, 6])], ids=["never met", "met before"]
)
def test_failed_attempts_are_told_as_often_as_configured(is_first: bool, told: list[int]) -> None:
    options = Options(connect_error_reports=3, reconnect_error_reports=2)
    host = SimpleNamespace(_server=SimpleNamespace(options=options))
    reports = partial(MachinePort.reports, host, is_first=is_first)
    assert [number for number in range(1, 7) if reports(number)] == told
