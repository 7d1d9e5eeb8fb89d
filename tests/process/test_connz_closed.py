"""Closed connections in `/connz`: the Go server's reasons, fields and order, and how many are remembered."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.processes import HEADRACES, NATS_SERVER, Program
from harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.processes import ServerProcess
    from harness.wire import Wire

CONFIG: Final = """
max_payload: 100
max_control_line: 512
ping_interval: "200ms"
ping_max: 1
no_auth_user: nobody
accounts {
  A { users: [{user: nobody}, {user: a, password: p}] }
  ONE { users: [{user: one, password: p}], limits { max_connections: 1 } }
  NONE { users: [{user: none, password: p}], limits { max_subscriptions: 0 } }
}
"""
CONNECT: Final = b'CONNECT {"verbose":false,"name":"%b"%b}\r\n'


def fetched(server: ServerProcess, path: str) -> Any:
    with urllib.request.urlopen(f"{server.monitor_url}{path}") as response:
        return json.load(response)


def closes(wire: Wire, name: bytes, extra: bytes, *data: bytes) -> None:
    """Connects, says something, and waits until the server has closed."""
    wire.send(CONNECT % (name, extra))
    for piece in data:
        wire.send(piece)
    wire.take_rest()


SCRIPTS: Final[dict[str, tuple[bytes, bytes]]] = {
    "password": (b',"user":"a","pass":"wrong"', b""),
    "unknown": (b',"user":"who","pass":"p"', b""),
    "payload": (b"", b"PUB a 101\r\n"),
    "control": (b"", b"PUB " + b"a" * 1000 + b" 1\r\nx\r\n"),
    "garbage": (b"", b"HELLO\r\n"),
    "arguments": (b"", b"PUB a b c d\r\n"),
    "negative": (b"", b"PUB a -1\r\n"),
    "protocol": (b',"protocol":9', b"PING\r\n"),
    "responders": (b',"no_responders":true,"headers":false', b"PING\r\n"),
    "silent": (b',"lang":"x"', b""),
    "unsubscribable": (b',"user":"none","pass":"p"', b"SUB a 1\r\n"),
}


def closed_by(server: ServerProcess) -> dict[str, tuple[object, ...]]:
    """Reason, account, subscriptions and user of each connection by its name."""
    for name, (extra, data) in SCRIPTS.items():
        with server.connect() as wire:
            closes(wire, name.encode(), extra, data)
    with server.connect() as wire:
        wire.send(CONNECT % (b"left", b"") + b"SUB a 1\r\nSUB b q 2\r\nPING\r\n")
        wire.take_through(b"PONG\r\n")
    with server.connect() as first, server.connect() as second:
        user = b',"user":"one","pass":"p"'
        first.send(CONNECT % (b"first", user) + b"PING\r\n")
        first.take_through(b"PONG\r\n")
        closes(second, b"second", user)
    expected = len(SCRIPTS) + 3

    def all_there() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = fetched(server, "/connz?state=closed&auth=1&subs=1")["connections"]
        return found if len(found) == expected else []

    found = wait_until(all_there, "closed connections")
    return {
        entry.get("name", ""): (
            entry["reason"],
            entry.get("account", ""),
            tuple(sorted(entry.get("subscriptions_list", []))),
            entry.get("authorized_user", ""),
        )
        for entry in found
    }


@pytest.mark.clients
@pytest.mark.parametrize("program", HEADRACES, ids=str)
def test_reasons_are_the_go_servers(serve: Callable[..., ServerProcess], program: Program) -> None:
    ours, theirs = (
        closed_by(serve("-m", "-1", config=CONFIG, program=each)) for each in (program, NATS_SERVER)
    )
    assert ours == theirs


def test_authentication_timeout_has_its_reason(serve: Callable[..., ServerProcess]) -> None:
    server = serve("-m", "-1", config='authorization { token: "t", timeout: "50ms" }')
    with server.connect() as wire:
        assert wire.take_rest() == b"-ERR 'Authentication Timeout'\r\n"
    (entry,) = wait_until(
        lambda: fetched(server, "/connz?state=closed")["connections"], "a closed connection"
    )
    assert entry["reason"] == "Authentication Timeout"


@pytest.mark.parametrize(
    "program", [*HEADRACES, pytest.param(NATS_SERVER, marks=pytest.mark.clients)], ids=str
)
def test_oldest_closed_connections_are_forgotten(
    serve: Callable[..., ServerProcess], program: Program
) -> None:
    server = serve("-m", "-1", config="max_closed_clients: 3", program=program)
    for _ in range(5):
        with server.connect(b""):
            pass

    wait_until(lambda: fetched(server, "/connz")["total"] == 0, "all closed")
    page = wait_until(
        lambda: (found := fetched(server, "/connz?state=closed"))["total"] >= 3 and found, "closed ones"
    )
    assert (page["total"], len(page["connections"])) == (3, 3)
    assert fetched(server, "/varz")["total_connections"] == 5
