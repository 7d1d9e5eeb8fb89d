"""Users that may only connect over TCP, or only over WebSocket, with guests of both kinds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from harness.websocket import CLOSE, WebSocket

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.processes import ServerProcess
    from harness.wire import Wire

USERS = """
authorization { users: [
  {user: tcp, password: p, allowed_connection_types: ["STANDARD"]}
  {user: web, password: p, allowed_connection_types: ["WEBSOCKET"]}
  {user: any, password: p}
] }
"""
CONNECTS = (
    b'CONNECT {"user":"tcp","pass":"p"}\r\n',
    b'CONNECT {"user":"web","pass":"p"}\r\n',
    b'CONNECT {"user":"any","pass":"p"}\r\n',
    b"CONNECT {}\r\n",
    b"",
)


@pytest.mark.parametrize(
    ("guest", "web_guest", "over_tcp", "over_web"),
    [
        ("", "", False, False),
        ("tcp", "", True, False),
        ("web", "", False, True),
        ("any", "", True, True),
        ("", "tcp", False, False),
        ("", "web", False, True),
        ("tcp", "web", True, True),
    ],
)
def test_who_comes_in_where(
    any_server: Callable[..., ServerProcess], guest: str, web_guest: str, over_tcp: bool, over_web: bool
) -> None:
    """A guest is let in with an empty CONNECT, and without one."""
    own_guest = f"no_auth_user: {web_guest}" if web_guest else ""
    config = f'{USERS}websocket {{ listen: "127.0.0.1:-1", no_tls: true\n{own_guest} }}\n'
    server = any_server(config + (f"no_auth_user: {guest}\n" if guest else ""))

    assert [comes_in(server, connect) for connect in CONNECTS] == [True, False, True, over_tcp, over_tcp]
    assert [comes_in_by_web(server, connect) for connect in CONNECTS] == [
        False,
        True,
        True,
        over_web,
        over_web,
    ]


def comes_in(server: ServerProcess, connect: bytes) -> bool:
    with server.connect() as wire:
        wire.send(connect + b"SUB a 1\r\nPING\r\n")
        while b"PONG" not in wire.received and not wire.closed:
            wire.fill(10)
        return b"PONG" in wire.received


def comes_in_by_web(server: ServerProcess, connect: bytes) -> bool:
    port = int(server.wait_for_line(r"websocket clients on ws://127\.0\.0\.1:(\d+)")[1])
    with WebSocket(port) as client:
        client.take_through(b"\r\n")
        client.send(connect + b"SUB a 1\r\nPING\r\n")
        heard = b""
        while b"PONG" not in heard and (found := client.take_frame()).opcode != CLOSE:
            heard += found.data
        return b"PONG" in heard


def test_system_account_hears_how_a_client_came(any_server: Callable[..., ServerProcess]) -> None:
    config = """
    accounts { SYS { users: [{user: s, password: p}] }, A { users: [{user: a, password: p}] } }
    system_account: SYS
    websocket { listen: "127.0.0.1:-1", no_tls: true }
    """
    server = any_server(config)
    port = int(server.wait_for_line(r"websocket clients on ws://127\.0\.0\.1:(\d+)")[1])
    login = b'{"verbose":false,"user":"a","pass":"p"}'
    with server.connect(b'{"verbose":false,"user":"s","pass":"p"}') as watcher:
        watcher.send(b"SUB $SYS.ACCOUNT.A.CONNECT 1\r\n")
        watcher.sync()
        with WebSocket(port) as client:
            client.connect(login)
            assert kind_heard(watcher) == "websocket"
        with server.connect(login):
            assert kind_heard(watcher) == "nats"


def kind_heard(watcher: Wire) -> str:
    _, body = watcher.take_message()
    kind: str = json.loads(body)["client"]["client_type"]
    return kind
