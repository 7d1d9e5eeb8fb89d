"""Embedded servers over both transports, with the check that every fault leaves nothing behind."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from harness.certificates import Authority
from harness.processes import ServerProcess
from harness.waiting import wait_until
from harness.wire import Wire
from headrace.engine.memory import live_objects
from headrace.testing import Server

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator
    from pathlib import Path

TRANSPORTS = ("epoll", "asyncio") if sys.platform == "linux" else ("asyncio",)


class Served:
    """A server in this process, on a thread of its own, and connections to it."""

    def __init__(self, server: Server) -> None:
        self.embedded = server
        self.server = server.server

    def connect(
        self, options: bytes | None = b"", *, context: ssl.SSLContext | None = None, **more: Any
    ) -> Wire:
        """A raw connection past CONNECT; with None only past INFO. With a context it is TLS after INFO."""
        wire = Wire(("127.0.0.1", self.server.port), **more)
        if context is not None:
            wire.upgrade(context)
        if options is not None:
            wire.connect(options)
        return wire

    def closed_reasons(self) -> list[str]:
        return [record.reason.text for record in self.embedded.call(lambda: list(self.server.clients.closed))]

    def wait_for_connections(self, count: int) -> None:
        wait_until(lambda: len(self.server.clients) == count, f"{count} connections")

    def check(self) -> None:
        """The server serves: one message, there and back."""
        with self.connect() as wire:
            wire.send(b"SUB still.alive 1\r\nPUB still.alive 2\r\nok\r\n")
            assert wire.sync() == b"MSG still.alive 1 2\r\nok\r\n"


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
def serve(transport: str) -> Iterator[Callable[..., Served]]:
    """Starts a server with fields of `Options`. After the test it must work, and after its end nothing
    of it may be left: no connection, no descriptor, no object of the engine."""
    gc.collect()
    objects, descriptors = live_objects(), _descriptors()
    running: list[Server] = []

    def start(**options: Any) -> Served:
        server = Server(transport=transport, **options)
        server.__enter__()
        running.append(server)
        return Served(server)

    yield start
    for server in running:
        wait_until(lambda server=server: not server.server.clients, "all connections are gone")
        server.__exit__(None, None, None)
    running.clear()
    wait_until(lambda: gc.collect() >= 0 and live_objects() == objects, f"objects as before: {objects}")
    wait_until(lambda: _descriptors() == descriptors, "descriptors as before")


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


@pytest.fixture
def start_process(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """Starts a server as a process; see `ServerProcess`."""
    started: list[ServerProcess] = []

    def start(program: Any, *arguments: str, **options: Any) -> ServerProcess:
        started.append(ServerProcess(program, tmp_path, *arguments, **options))
        return started[-1]

    yield start
    for server in started:
        with server:
            pass


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that no server trusts."""
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "faults")
