"""`/accstatz`: what went through each account, counted as the Go server counts it."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from go_reference import GoServer, RawClient, fetch

from headrace.conf.binding import load_options
from headrace.server.server import Server

CONFIGURATION = """
accounts {
  A { users: [{user: a, password: p}] }
  B { users: [{user: b, password: p}] }
  SYS { users: [{user: s, password: p}] }
}
system_account: SYS
"""
PATHS = ("/accstatz", "/accstatz?unused=1", "/accstatz?unused=0", "/accstatz?unused=x")


def joined(port: int, user: str) -> RawClient:
    return RawClient(port, lambda _: {"user": user, "pass": "p"})


def wait_for_closed(monitor_port: int, count: int) -> None:
    deadline = time.monotonic() + 5
    while json.loads(fetch(monitor_port, "/connz?state=closed")[2])["total"] < count:
        assert time.monotonic() < deadline, "the server does not notice that a client left"


def answers(port: int, monitor_port: int) -> dict[str, Any]:
    """After one client came and went, and two are there; in the Go server counts wait for a read to end."""
    found: dict[str, Any] = {}
    with joined(port, "a") as gone:
        gone.sync()
        gone.send("SUB x 1", "PUB x 5", "hello")
        gone.sync()
        gone.sync()
    wait_for_closed(monitor_port, 1)
    with joined(port, "a") as first, joined(port, "a") as second:
        for client in (first, second):
            client.send("SUB x 1")
            client.sync()
        first.send("PUB x 3", "abc", "PUB nobody 1", "a")
        first.sync()
        second.sync()
        first.sync()
        for path in PATHS:
            status, _, body = fetch(monitor_port, path)
            found[path] = (status, normal(json.loads(body)) if body.startswith(b"{") else body)
    return found


def normal(document: dict[str, Any]) -> list[Any]:
    """Keys in their order; accounts by name, without the subscriptions of the system account."""
    accounts = sorted(document.pop("account_statz"), key=lambda entry: entry["acc"])
    for entry in accounts:
        if entry["acc"] == "SYS":
            entry["num_subscriptions"] = None
    return [list(document), [list(entry.items()) for entry in accounts]]


async def ours() -> dict[str, Any]:
    options = load_options(
        text=CONFIGURATION, environ={}, overrides={"host": "127.0.0.1", "port": -1, "http_port": -1}
    )
    async with Server(options) as server:
        await server.settled()
        assert server.monitor_port is not None
        return await asyncio.to_thread(answers, server.port, server.monitor_port)


@pytest.mark.clients
def test_document_is_the_go_servers_after_the_same(tmp_path: Any) -> None:
    with GoServer(tmp_path, CONFIGURATION) as server:
        reference = answers(server.port, server.monitor_port)

    assert asyncio.run(ours()) == reference


def test_statistics_are_of_clients_there_and_gone() -> None:
    found = asyncio.run(ours())

    (_, [entry]) = found["/accstatz"][1]
    stats = dict(entry)
    assert stats["conns"] == 2
    assert (stats["received"]["msgs"], stats["received"]["bytes"]) == (1 + 2, 5 + 4)
    assert (stats["sent"]["msgs"], stats["sent"]["bytes"]) == (1 + 2, 5 + 6)
    names = [dict(entry)["acc"] for entry in found["/accstatz?unused=1"][1][1]]
    assert names == ["$G", "A", "B", "SYS"]


def test_client_that_moves_is_counted_where_it_was() -> None:
    async def main() -> list[tuple[str, int, int]]:
        options = load_options(text=CONFIGURATION, environ={}, overrides={"host": "127.0.0.1", "port": -1})
        async with Server(options) as server:

            def play() -> None:
                with joined(server.port, "a") as client:
                    client.send("PUB x 3", "abc")
                    client.sync()
                    client.send('CONNECT {"user":"b","pass":"p","verbose":false}', "SUB y 1", "PUB y 2", "hi")
                    client.sync()
                    client.send('CONNECT {"user":"a","pass":"p","verbose":false}', "PUB x 1", "a")
                    client.sync()

            await asyncio.to_thread(play)
            return [
                (account.name, account.traffic.in_bytes, account.traffic.out_bytes)
                for account in server.accounts
            ]

    assert asyncio.run(main()) == [("$G", 0, 0), ("A", 4, 0), ("B", 2, 2), ("SYS", 0, 0)]


def test_slow_consumer_is_counted_in_its_account() -> None:
    async def main() -> tuple[int, int]:
        options = load_options(
            text=CONFIGURATION + "max_pending: 64KB, max_payload: 64KB",
            environ={},
            overrides={"host": "127.0.0.1", "port": -1},
        )
        async with Server(options) as server:

            def play() -> None:
                with joined(server.port, "a") as slow, joined(server.port, "a") as fast:
                    slow.send("SUB x 1")
                    slow.sync()
                    deadline = time.monotonic() + 10
                    while not server.clients.slow_consumers:
                        assert time.monotonic() < deadline, "nobody was cut off"
                        fast.send("PUB x 60000", "x" * 60000)
                        fast.sync()

            await asyncio.to_thread(play)
            return server.accounts["A"].slow_consumers, server.accounts["B"].slow_consumers

    mine, others = asyncio.run(main())
    assert mine >= 1
    assert others == 0
