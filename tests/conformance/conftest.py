"""Servers shared by all tests of one configuration, for as long as that configuration is the current one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from conformance.jetstream_plays import CONFIG
from harness.certificates import Authority
from harness.processes import HEADRACES, NATS_SERVER, Program, ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Served:
    """What a test wants to be served by; tests that want the same share one server.

    `config` is text in which {{dir}} stands for a scratch folder; with `certified`, cert.pem and key.pem
    are there. `alone` names a test that must not share.
    """

    program: Program
    config: str = ""
    certified: bool = False
    alone: str = ""


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "conformance")


class CurrentServer:
    """The one server of the configuration whose tests are running; another configuration ends it.

    (pytest keeps a fixture with a parameter no longer than one row of a table.)
    """

    def __init__(self, folder: Callable[[], Path], authority: Authority) -> None:
        self._folder = folder
        self._authority = authority
        self._running: dict[Served, ServerProcess] = {}

    def serve(self, *wanted: Served) -> list[ServerProcess]:
        for other in self._running.keys() - set(wanted):
            self._running.pop(other).stop()
        for one in wanted:
            running = self._running.get(one)
            if running is None or running.process.poll() is not None:
                self._running[one] = start(one, self._folder(), self._authority)
        return [self._running[one] for one in wanted]

    def stop(self) -> None:
        self.serve()


@pytest.fixture(scope="module")
def current(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[CurrentServer]:
    servers = CurrentServer(lambda: tmp_path_factory.mktemp("server"), authority)
    yield servers
    servers.stop()


def start(wanted: Served, folder: Path, authority: Authority, *, ready: bool = True) -> ServerProcess:
    if wanted.certified:
        pair = authority.issue("server")
        (folder / "cert.pem").write_bytes(pair.certificate.read_bytes())
        (folder / "key.pem").write_bytes(pair.key.read_bytes())
    config = wanted.config.replace("{{dir}}", str(folder))
    return ServerProcess(wanted.program, folder, config=config, ready=ready)


@pytest.fixture(scope="module")
def jetstream_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """The Go server and Headrace, both with JetStream in many accounts and nothing in it."""
    folders = [tmp_path_factory.mktemp("jetstream") for _ in range(2)]
    programs = (NATS_SERVER, HEADRACES[0])
    theirs, ours = (
        ServerProcess(program, folder, "-js", "-sd", str(folder / "js"), config=CONFIG)
        for program, folder in zip(programs, folders, strict=True)
    )
    with theirs, ours:
        yield theirs, ours
