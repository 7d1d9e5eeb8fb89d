"""Starting Headrace as a process, in any state of health."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.certificates import Authority
from harness.processes import HEADRACES, ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """Starts `headrace serve` with arguments and options of `ServerProcess`; ends it after the test."""
    started: list[ServerProcess] = []

    def start(*arguments: str, **options: Any) -> ServerProcess:
        options.setdefault("program", HEADRACES[0])
        started.append(ServerProcess(options.pop("program"), tmp_path, *arguments, **options))
        return started[-1]

    yield start
    for server in started:
        with server:
            pass


@pytest.fixture(scope="module", params=HEADRACES, ids=str)
def attacked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """One server for all tests of a module, with its CONFIG; whatever they try it has made no mistake."""
    with ServerProcess(
        request.param, tmp_path_factory.mktemp("server"), config=request.module.CONFIG
    ) as running:
        yield running
        assert "Traceback" not in running.log


@pytest.fixture
def refused(serve: Callable[..., ServerProcess]) -> Callable[..., list[str]]:
    """Starts a server that must not start: gives the lines it said, after exit code 1 and no traceback."""

    def start(*arguments: str, **options: Any) -> list[str]:
        server = serve(*arguments, ready=False, **options)
        assert server.wait() == 1, server.log
        assert "Traceback" not in server.log
        assert "Server is ready" not in server.log
        return server.lines

    return start


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "process")
