"""Limits of accounts: what a client hears, and the reason monitoring shows, as the Go server has them."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from go_reference import GoServer, RawClient, fetch

from headrace.conf.binding import load_options
from headrace.server.server import Server

CONFIGURATION = """
accounts {
  ONE { users: [{user: one, password: p}], limits: {max_connections: 1} }
  DUMB { users: [{user: dumb, password: p}], limits: {max_subscriptions: 0} }
  SMALL { users: [{user: small, password: p}], limits: {max_payload: 3} }
}
"""


def client(port: int, user: str) -> RawClient:
    return RawClient(port, lambda _: {"user": user, "pass": "p"})


def play(port: int, monitor_port: int) -> tuple[dict[str, list[str]], list[str]]:
    """What clients heard until they were closed, and the reasons that monitoring then shows."""
    heard: dict[str, list[str]] = {}
    with client(port, "one") as first:
        assert first.sync() == []
        with client(port, "one") as second:
            heard["one too many"] = until_closed(second)
        assert first.sync() == []
        with client(port, "dumb") as dumb:
            heard["no subscriptions"] = until_closed(dumb)
        with client(port, "small") as small:
            small.send("PUB a 4", "1234")
            heard["payload"] = until_closed(small)
        deadline = time.monotonic() + 5
        while len(reasons := closed(monitor_port)) < len(heard):
            assert time.monotonic() < deadline, reasons
    return heard, reasons


def until_closed(one: RawClient) -> list[str]:
    heard: list[str] = []
    deadline = time.monotonic() + 5
    while "closed" not in heard:
        assert time.monotonic() < deadline, heard
        heard += one.sync()
    return heard


def closed(monitor_port: int) -> list[str]:
    found = json.loads(fetch(monitor_port, "/connz?state=closed")[2])["connections"]
    return sorted(connection["reason"] for connection in found)


def ours() -> tuple[dict[str, list[str]], list[str]]:
    async def run() -> tuple[dict[str, list[str]], list[str]]:
        overrides = {"host": "127.0.0.1", "port": -1, "http_port": -1}
        async with Server(load_options(text=CONFIGURATION, environ={}, overrides=overrides)) as server:
            await server.settled()
            assert server.monitor_port is not None
            return await asyncio.to_thread(play, server.port, server.monitor_port)

    return asyncio.run(run())


def test_limits_close_with_their_reason() -> None:
    heard, reasons = ours()

    assert heard == {
        "one too many": ["-ERR 'maximum account active connections exceeded'", "closed"],
        "no subscriptions": ["-ERR 'maximum subscriptions exceeded'", "closed"],
        "payload": ["-ERR 'Maximum Payload Violation'", "closed"],
    }
    assert reasons == [
        "Maximum Account Connections Exceeded",
        "Maximum Message Payload Exceeded",
        "Maximum Subscriptions Exceeded",
    ]


@pytest.mark.clients
def test_limits_are_the_go_servers(tmp_path_factory: pytest.TempPathFactory) -> None:
    with GoServer(tmp_path_factory.mktemp("go"), CONFIGURATION) as server:
        reference = play(server.port, server.monitor_port)

    assert ours() == reference
