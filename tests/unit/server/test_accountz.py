"""`/accountz` and what else monitoring says of accounts: the shape and the statistics of the Go server."""

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
  A {
    users: [{user: a, password: p}]
    exports: [
      {service: "svc.>", accounts: [B]}, {service: many, response_type: stream}
      {service: parts, response_type: chunked}, {stream: "st.>"}
      {service: timed, latency: {sampling: 30%, subject: "lat.timed"}}
      {service: asked, latency: {sampling: headers, subject: "lat.asked"}}
    ]
    mappings: {"x.*": "y.$1", w: [{destination: v1, weight: 30}, {destination: v2, weight: 30}]}
  }
  B {
    users: [{user: b, password: p}]
    imports: [
      {service: {account: A, subject: "svc.*"}, to: "my.*"}
      {service: {account: A, subject: many}, share: true}
      {service: {account: A, subject: timed}}, {service: {account: A, subject: asked}, to: mine}
      {stream: {account: A, subject: "st.>"}, prefix: from}
    ]
  }
  SYS { users: [{user: s, password: p}] }
}
system_account: SYS
"""
PATHS = (
    "/accountz",
    "/accountz?acc=A",
    "/accountz?acc=B",
    "/accountz?acc=SYS",
    "/accountz?acc=$G",
    "/accountz?acc=nobody",
    "/subsz?subs=1&acc=A",
    "/subsz?subs=1&acc=B",
    "/subsz?acc=nobody",
    "/connz?auth=1&subs=detail&acc=A",
    "/connz?auth=1&subs=detail&acc=B",
    "/connz?auth=1&state=closed",
)


def client(port: int, user: str, *lines: str) -> RawClient:
    made = RawClient(port, lambda _: {"user": user, "pass": "p"})
    made.send(*lines)
    made.sync()
    return made


def answers(port: int, monitor_port: int) -> dict[str, Any]:
    """What is said with two clients there and one gone."""
    with client(port, "b", "SUB gone 1"):
        pass
    deadline = time.monotonic() + 5
    while not json.loads(fetch(monitor_port, "/connz?state=closed")[2])["total"]:
        assert time.monotonic() < deadline, "the server does not notice that a client left"
    found: dict[str, Any] = {}
    with (
        client(port, "a", "SUB svc.> 1", "SUB st.> q 2"),
        client(port, "b", "SUB from.> 1", "SUB other 2"),
    ):
        for path in PATHS:
            status, _, body = fetch(monitor_port, path)
            found[path] = (status, normal(json.loads(body)) if body.startswith(b"{") else body)
    return found


CHANGING = {
    *("server_id", "now", "update_time", "port", "start", "last_activity", "rtt", "uptime", "idle", "stop"),
    *("sublist_stats", "cid", "sid", "reason", "stalls", "pending_bytes"),
    *("num_cache", "num_inserts", "num_removes", "num_matches", "cache_hit_rate", "max_fanout", "avg_fanout"),
    *("num_subscriptions", "subscriptions", "total"),  # the Go server counts its own
}


def normal(value: Any) -> Any:
    """Return a document without what changes and the order of lists."""
    if isinstance(value, dict):
        return [(k, normal(v)) for k, v in value.items() if k not in CHANGING and normal(v) not in ([], None)]
    if isinstance(value, list):
        return sorted((normal(entry) for entry in value), key=repr)
    return value


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with GoServer(tmp_path_factory.mktemp("go"), CONFIGURATION) as server:
        return answers(server.port, server.monitor_port)


@pytest.fixture(scope="module")
def ours() -> dict[str, Any]:
    async def run() -> dict[str, Any]:
        options = load_options(
            text=CONFIGURATION, environ={}, overrides={"host": "127.0.0.1", "port": -1, "http_port": -1}
        )
        async with Server(options) as server:
            await server.settled()
            assert server.monitor_port is not None
            return await asyncio.to_thread(answers, server.port, server.monitor_port)

    return asyncio.run(run())


@pytest.mark.clients
@pytest.mark.parametrize("path", PATHS)
def test_document_is_the_go_servers(path: str, reference: dict[str, Any], ours: dict[str, Any]) -> None:
    assert ours[path] == reference[path]
