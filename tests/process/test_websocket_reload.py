"""Reload with a WebSocket port: its certificate is taken over, anything else of the block is not."""

from __future__ import annotations

import signal
import ssl
from typing import TYPE_CHECKING

import pytest

from harness.certificates import Authority, tls_config
from harness.processes import ALL, ServerProcess
from harness.websocket import WebSocket

if TYPE_CHECKING:
    from pathlib import Path

    from harness.certificates import Pair
    from harness.processes import Program


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "reloading")


@pytest.mark.parametrize("program", ALL, ids=str)
def test_only_its_certificate_can_change(program: Program, tmp_path: Path, authority: Authority) -> None:
    one, two = authority.issue("socket-one"), authority.issue("socket-two")

    def config(pair: Pair, more: str = "") -> str:
        return f'websocket {{ listen: "127.0.0.1:-1"\n{tls_config(pair)}{more} }}\n'

    with ServerProcess(program, tmp_path, config=config(one)) as server:
        port = int(server.wait_for_line(r"websocket clients on wss://127\.0\.0\.1:(\d+)")[1])
        with WebSocket(port, context=authority.client_context()) as live:
            live.connect()

            reload(server, config(two), r"\[INF\] Reloaded server configuration")
            assert name_shown(port, authority) == "socket-two"

            reload(server, config(one, "compression: true"), "(?i)reload not supported for websocket")
            assert name_shown(port, authority) == "socket-two"
            assert live.sync() == b""


def reload(server: ServerProcess, text: str, expected: str) -> None:
    mark = len(server.lines)
    server.config_file.write_text(text)
    server.signal(signal.SIGHUP)
    server.wait_for_line(expected, after=mark)


def name_shown(port: int, authority: Authority) -> str:
    with WebSocket(port, context=authority.client_context()) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        subject = client.socket.getpeercert()["subject"]  # type: ignore[index]
        return str(dict(part[0] for part in subject)["commonName"])  # type: ignore[arg-type, index, misc]
