"""The WebSocket port of a process: where others find it, and starts that fail."""

from __future__ import annotations

import json
import signal
import socket
from typing import TYPE_CHECKING

import pytest

from harness.processes import HEADRACES, ServerProcess
from harness.waiting import wait_until
from harness.websocket import WebSocket

if TYPE_CHECKING:
    from pathlib import Path

    from harness.processes import Program


@pytest.fixture(params=HEADRACES, ids=str)
def program(request: pytest.FixtureRequest) -> Program:
    chosen: Program = request.param
    return chosen


def test_ports_file_says_where_it_is(program: Program, tmp_path: Path) -> None:
    config = f'ports_file_dir: "{tmp_path}"\nwebsocket {{ listen: "127.0.0.1:-1", no_tls: true }}\n'
    with ServerProcess(program, tmp_path, config=config) as server:
        (file,) = wait_until(lambda: list(tmp_path.glob("*.ports")), "the ports file")
        (url,) = json.loads(file.read_text())["websocket"]
        with WebSocket(int(url.rpartition(":")[2])) as client:
            client.connect()
        assert url.startswith("ws://127.0.0.1:")
        assert "[WRN] Websocket not configured with TLS. DO NOT USE IN PRODUCTION!" in server.log


def test_port_that_is_taken_ends_the_start(program: Program, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = f'websocket {{ listen: "127.0.0.1:{port}", no_tls: true }}\n'
        with ServerProcess(program, tmp_path, config=config, ready=False) as server:
            assert server.wait() == 1
        assert "Unable to listen for websocket connections: " in server.lines[-1]
        assert "address already in use" in server.lines[-1]


def test_lame_duck_closes_the_port_too(program: Program, tmp_path: Path) -> None:
    config = 'websocket { listen: "127.0.0.1:-1", no_tls: true }\n'
    with ServerProcess(program, tmp_path, config=config) as server:
        port = int(server.wait_for_line(r"websocket clients on ws://127\.0\.0\.1:(\d+)")[1])
        with WebSocket(port) as client:
            client.take_through(b"\r\n")
            client.send(b'CONNECT {"verbose":false,"protocol":1}\r\nPING\r\n')
            client.take_through(b"\r\n")
            server.signal(signal.SIGUSR2)

            while b'"ldm":true' not in client.take_frame().data:
                pass
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port)).close()
